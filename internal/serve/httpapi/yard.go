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

// Yard is what the API tells of, and changes.
type Yard interface {
	About() About
	Snapshot() *Snapshot
	Config() *config.Config // with edits

	Servers() []ServerItem
	Server(id string) (*ServerDetail, bool)
	Down() []string // servers that cannot be used now
	// Explain tells what was decided about a tool of a server before any gate saw it.
	Explain(server, tool string) []gates.Step
	Pending(server string) ([]Pending, error)
	// Waiting are those of them that nobody has judged, by name; none of a server that is down.
	Waiting(server string) []Waiting
	Approve(server string, tools []Pick) error
	Reject(server string, tools []Pick) error
	Retry(server string) error

	Edits() (edits *config.Edits, version int64)
	// Try is what the gates that use a toolset would show with an edit.
	Try(edits *config.Edits, toolset string) ([]*gates.View, error)
	// Edit makes edits those that count, if version is that of those that count now.
	Edit(ctx context.Context, edits *config.Edits, version int64, by, note string) (next int64, err error)
	Versions(ctx context.Context, limit int) ([]store.VersionRow, error)
	Version(ctx context.Context, version int64) (store.VersionRow, *config.Edits, error)

	Limits(ctx context.Context) ([]Limit, error)
}

// About is what a yard says of itself.
type About struct {
	Name, Version string
	Store         string // postgres, sqlite, memory or none
	StoreUp       bool
	Keys          bool   // there are API keys
	Arguments     string // what is kept of arguments
	Replica       string
	Since         time.Time
}

// Snapshot is what a yard offers and shows at one moment. It never changes.
type Snapshot struct {
	Generation uint64
	Tools      []*toolyard.Tool // all, under the operator's terms
	Views      []*gates.View    // one for each gate, in the order of their names
	Problems   []toolyard.Problem
}

// ServerItem is an MCP server in a list.
type ServerItem struct {
	ID        string    `json:"id"`
	Transport string    `json:"transport" enum:"stdio,http,sse"`
	Target    string    `json:"target" doc:"The program, or the address."`
	State     string    `json:"state" enum:"up,starting,down"`
	Since     time.Time `json:"since,omitzero" doc:"Since when it is in that state."`
	Protocol  string    `json:"protocol,omitempty"`
	Name      string    `json:"name,omitempty" doc:"What it calls itself."`
	Version   string    `json:"version,omitempty"`
	Error     string    `json:"error,omitempty" doc:"Why it is down."`
	Tools     int       `json:"tools"`
	Waiting   int       `json:"waiting" doc:"Definitions that wait for approval."`
	Rejected  int       `json:"rejected"`
	Restarts  int       `json:"restarts"`
	Required  bool      `json:"required,omitempty"`
	Pin       string    `json:"pin" enum:"first,approve,off"`
	Problems  int       `json:"problems"`
}

// ServerDetail is an MCP server.
type ServerDetail struct {
	ServerItem
	Events    []ServerEvent      `json:"events" doc:"The newest first."`
	Stderr    string             `json:"stderr,omitempty" doc:"The end of what it wrote there."`
	Resources int                `json:"resources"`
	Prompts   int                `json:"prompts"`
	Faults    []toolyard.Problem `json:"problemList,omitempty"`
	Pins      []Pick             `json:"pins" doc:"The definitions that were approved."`
	Latency   []store.LatencyRow `json:"latency,omitempty"`
}

// ServerEvent is something that happened to a server.
type ServerEvent struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind" enum:"start,up,down,changed,approved,rejected"`
	Text string    `json:"text,omitempty"`
}

// Pick is a definition by its tool and its hash, which says what was looked at.
type Pick struct {
	Tool string `json:"tool" minLength:"1" maxLength:"256"`
	Hash string `json:"hash" maxLength:"64" doc:"That of the definition that was looked at."`
}

// Pending is a definition that is not as it was approved.
type Pending struct {
	Pick
	Kind     string             `json:"kind" enum:"new,changed,gone,refused"`
	Approved json.RawMessage    `json:"approved,omitempty"`
	Offered  json.RawMessage    `json:"offered,omitempty"`
	Changes  []DefinitionChange `json:"changes,omitempty"`

	ApprovedText string `json:"approvedText,omitempty" doc:"The definition as text, for readers whose numbers are not exact."`
	OfferedText  string `json:"offeredText,omitempty"`

	Refused  string `json:"refused,omitempty" doc:"Why it cannot be approved."`
	Rejected bool   `json:"rejected,omitempty"`
}

// Waiting is a definition that waits for a person.
type Waiting struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Kind   string `json:"kind" enum:"new,changed,gone,refused"`
}

// DefinitionChange is one difference between two definitions; a side that is missing is absent.
type DefinitionChange struct {
	Path string          `json:"path"`
	Old  json.RawMessage `json:"old,omitempty"`
	New  json.RawMessage `json:"new,omitempty"`
}

// Limit is a limit that is enforced, and how much of it is used now.
type Limit struct {
	Kind        string    `json:"kind" enum:"server,tool"`
	Server      string    `json:"server,omitempty"`
	Tool        string    `json:"tool,omitempty"`
	Name        string    `json:"name"`
	PerMinute   int       `json:"perMinute,omitempty"`
	Concurrency int       `json:"concurrency,omitempty"`
	CooldownMs  int64     `json:"cooldownMs,omitempty"`
	Used        int       `json:"used,omitempty" doc:"Permits of the last minute, of all replicas."`
	Running     int       `json:"running,omitempty"`
	Waiting     int       `json:"waiting" doc:"Calls that wait at this replica."`
	NextAt      time.Time `json:"nextAt,omitzero" doc:"When the cooldown lets the next call begin."`
	Local       bool      `json:"local,omitempty" doc:"Each replica counts for itself."`
}

// errNoYard is the refusal of an API that knows of no yard.
var errNoYard = notFound("There is nothing to be seen here.")
