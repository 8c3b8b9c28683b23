package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// Yard is the yard that the API shows and changes.
type Yard interface {
	About() About
	Snapshot() *Snapshot
	Config() *config.Config // including edits

	Servers() []ServerItem
	Server(id string) (*ServerDetail, bool)
	Down() []string // unavailable servers
	// Explain returns the decisions about a server's tool before any gate filters it.
	Explain(server, tool string) []gates.Step
	Pending(server string) ([]Pending, error)
	// Waiting returns the definitions that wait for a decision, sorted by name. If the server is
	// down, there are none.
	Waiting(server string) []Waiting
	Approve(server string, tools []DefinitionRef) error
	Reject(server string, tools []DefinitionRef) error
	Retry(server string) error

	Edits() (edits *config.Edits, version int64)
	// Try returns the views of the gates that use a toolset as if the edits were applied.
	Try(edits *config.Edits, toolset string) ([]*gates.View, error)
	// Edit replaces the edits if version is current.
	Edit(ctx context.Context, edits *config.Edits, version int64, by, note string) (next int64, err error)
	Versions(ctx context.Context, limit int) ([]store.VersionRow, error)
	Version(ctx context.Context, version int64) (store.VersionRow, *config.Edits, error)

	Limits(ctx context.Context) ([]Limit, error)

	Approvals() Approvals // nil if there is no store

	Packs() []PackItem // enabled packs, sorted by name
	RunAction(ctx context.Context, pack, action string, caller toolyard.Caller, args json.RawMessage) (*toolyard.Result, error)
}

// About describes a yard.
type About struct {
	Name, Version string
	Store         string // postgres, sqlite, memory or none
	StoreUp       bool
	Keys          bool   // whether API keys exist
	Arguments     string // how arguments are recorded
	Replica       string
	Since         time.Time
}

// Snapshot is an immutable snapshot of the catalog.
type Snapshot struct {
	Generation uint64
	Tools      []*toolyard.Tool // all tools, with the operator's terms applied
	Views      []*gates.View    // one per gate, ordered by name
	Problems   []toolyard.Problem
}

// ServerIdentity is the identity that a server reports.
type ServerIdentity struct {
	Protocol string `json:"protocol,omitempty" doc:"Negotiated protocol version."`
	Name     string `json:"name,omitempty" doc:"Name that the server reports."`
	Version  string `json:"version,omitempty"`
}

// ServerItem is an MCP server in a list.
type ServerItem struct {
	ID        string    `json:"id"`
	Transport string    `json:"transport" enum:"stdio,http,sse"`
	Target    string    `json:"target" doc:"Program or address."`
	State     string    `json:"state" enum:"up,starting,down"`
	Since     time.Time `json:"since,omitzero" doc:"When the current state began."`
	ServerIdentity
	Error    string `json:"error,omitempty" doc:"Why it is down."`
	Tools    int    `json:"tools"`
	Waiting  int    `json:"waiting" doc:"Number of definitions waiting for approval."`
	Rejected int    `json:"rejected"`
	Restarts int    `json:"restarts"`
	Required bool   `json:"required,omitempty"`
	Pin      string `json:"pin" enum:"first,approve,off"`
	Problems int    `json:"problems"`
	People   bool   `json:"people,omitempty" doc:"Whether it is called on behalf of each caller, who must connect first."`
}

// ServerDetail is an MCP server.
type ServerDetail struct {
	ServerItem
	Events      []ServerEvent      `json:"events" doc:"Newest first."`
	Stderr      string             `json:"stderr,omitempty" doc:"Last lines of its standard error."`
	Resources   int                `json:"resources"`
	Prompts     int                `json:"prompts"`
	ProblemList []toolyard.Problem `json:"problemList,omitempty"`
	Pins        []DefinitionRef    `json:"pins" doc:"Approved definitions."`
	Latency     []store.LatencyRow `json:"latency,omitempty"`
}

// ServerEvent is an event in a server's history.
type ServerEvent struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind" enum:"start,up,down,changed,approved,rejected"`
	Text string    `json:"text,omitempty"`
}

// DefinitionRef identifies a definition by tool and hash.
type DefinitionRef struct {
	Tool string `json:"tool" minLength:"1" maxLength:"256"`
	Hash string `json:"hash" maxLength:"64" doc:"Hash of the reviewed definition."`
}

// Pending is a definition that differs from the approved one.
type Pending struct {
	DefinitionRef
	Kind     string             `json:"kind" enum:"new,changed,gone,refused"`
	Approved json.RawMessage    `json:"approved,omitempty"`
	Offered  json.RawMessage    `json:"offered,omitempty"`
	Changes  []DefinitionChange `json:"changes,omitempty"`

	ApprovedText string `json:"approvedText,omitempty" doc:"The definition as text, for clients that cannot represent all numbers exactly."`
	OfferedText  string `json:"offeredText,omitempty"`

	Refused  string `json:"refused,omitempty" doc:"Why it cannot be approved."`
	Rejected bool   `json:"rejected,omitempty"`
}

// Waiting is a definition that is waiting for approval.
type Waiting struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Kind   string `json:"kind" enum:"new,changed,gone,refused"`
}

// DefinitionChange is one difference between two definitions.
type DefinitionChange struct {
	Path string          `json:"path"`
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// Limit is an enforced limit with its current usage.
type Limit struct {
	Kind        string    `json:"kind" enum:"gate,server,tool"`
	Gate        string    `json:"gate,omitempty"`
	Server      string    `json:"server,omitempty"`
	Tool        string    `json:"tool,omitempty"`
	Name        string    `json:"name"`
	PerMinute   int       `json:"perMinute,omitempty"`
	Concurrency int       `json:"concurrency,omitempty"`
	CooldownMs  int64     `json:"cooldownMs,omitempty"`
	Per         string    `json:"per,omitempty" enum:"account,caller" doc:"Whether each account or each caller has its own limit. Absent if all callers share the limit. Otherwise, running and waiting are totals for this replica, and used is absent."`
	Used        int       `json:"used,omitempty" doc:"Calls in the last minute, on all replicas."`
	Running     int       `json:"running,omitempty"`
	Waiting     int       `json:"waiting" doc:"Calls waiting on this replica."`
	NextAt      time.Time `json:"nextAt,omitzero" doc:"Earliest start of the next call after the cooldown."`
	Local       bool      `json:"local,omitempty" doc:"Whether each replica counts separately."`

	Period   string          `json:"period,omitempty" enum:"day,month" doc:"Calendar period of a spend limit, in UTC. Absent for other limits."`
	MaxUSD   *toolyard.Money `json:"maxUsd,omitempty" doc:"Maximum price of all calls in the period."`
	SpentUSD *toolyard.Money `json:"spentUsd,omitempty" doc:"Price of the calls in the current period, including running calls. Absent if each account or caller has its own limit."`
	RenewsAt time.Time       `json:"renewsAt,omitzero" doc:"End of the current period of a spend limit."`
}

var errNoYard = notFound("The API is not connected to a yard.")
