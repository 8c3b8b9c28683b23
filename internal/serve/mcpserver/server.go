// Package mcpserver serves gates over MCP.
//
// One URL serves both eras of the protocol: the modern era (2026-07-28), which has no MCP sessions,
// and the legacy era (2025-11-25 and older), whose sessions are sealed tokens stored by clients.
//
// A modern tools/call over HTTP passes through these files:
//
//	http.go             authenticate the caller, read and parse the message
//	modern.go           parse the params, check the headers
//	request_context.go  dispatch the method
//	request.go          resolve the tool, run the call path
//	encode.go           encode the result
//	reply.go            write the response
//
// Other requests share request_context.go and everything below it; the transports and sessions of the
// legacy era are in the legacy_*.go files. Lists are encoded once per view, in list.go.
//
// On this path, a request has one type for each role:
//
//	access             an authorized request: its caller, gate and view
//	message            a JSON-RPC message with undecoded members
//	params             the common members of a message's params
//	requestContext     a message with its access, and the way back to the client
//	request            a request that runs the call path, with the tool that it resolves to
//	serve.CallRequest  the part of a request that all front ends share
//	toolyard.Call      one run of the call path
//	toolyard.Request   the part of a Call that the MCP client sends along with the arguments
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// Options configures a Server. Call is required.
type Options struct {
	Name, Version string
	Yard          string            // ID of the yard, used to detect connections to itself
	Call          toolyard.Handler  // the call path
	Clients       *toolyard.Clients // lent to every call
	Toolbox       toolyard.Toolbox  // passed to every call
	Down          func() []string   // returns the unavailable servers; may be nil
	Log           *slog.Logger      // may be nil
	Now           func() time.Time  // nil for time.Now
	MaxBody       int64             // maximum bytes per request; 1 MiB if zero
	MaxStreams    int               // maximum open streams; 10,000 if zero. A single caller gets at most a quarter
	Keepalive     time.Duration     // interval between comments on an idle stream; 25 s if zero
	Replicas      ReplicaOptions
	Results       offer.Results // stores long results; nil stores them in memory

	// Authorize authenticates the sender of an HTTP request and authorizes it for a gate. The code
	// PermissionDenied means that the listed scopes are missing, and Unavailable means a temporary
	// failure. Any other error means that authentication failed. If Authorize is nil, every request
	// is accepted as anonymous.
	Authorize func(*http.Request, *gates.Gate) (toolyard.Caller, error)

	// MetadataURL returns the URL of a gate's metadata for OAuth clients, or "". Clients receive it
	// when they are refused. MetadataURL may be nil.
	MetadataURL func(*http.Request, *gates.Gate) string
}

// ReplicaOptions configures what a yard's replicas share.
type ReplicaOptions struct {
	ID     string        // ID of this replica; must not contain white space
	Bus    ReplicaBus    // connects to the other replicas; may be nil
	Keys   *seal.Keyring // for sealed tokens; nil for a random key
	Tokens Tokens        // used tokens; nil if there is only one replica
}

// Server serves gates.
type Server struct {
	opts  Options
	gates atomic.Pointer[map[string]*gate] // replaced as a whole by Publish
	done  context.Context                  // ends when Close is called
	close context.CancelFunc

	serverInfo []byte // `"io.modelcontextprotocol/serverInfo":{...}`
	discover   []byte // result of server/discover

	states           *stateSealer
	streams          *quota
	bodies           *quota      // bytes of large requests being handled
	anonymousAnswers messageRate // limits the tokens stored for unauthenticated callers
	legacy           legacyState
	signatures       offer.Signatures
}

// legacyState is the state for clients of the legacy era and for connections.
type legacyState struct {
	sessionSealer  seal.Sealer // seals MCP session IDs
	questionSealer seal.Sealer // seals question IDs
	running        sync.Map    // maps a requestKey to its context.CancelFunc
	waiting        *quota      // calls waiting for an answer from their client
	waitingBytes   *quota      // bytes of these calls' arguments
	questions      questions
	subscriptions  subscriptions
	ended          recent[string, struct{}]   // IDs of ended MCP sessions
	logLevels      recent[string, slog.Level] // by MCP session ID
	busRate        messageRate
}

// New creates a server that has no gates yet.
func New(opts Options) *Server {
	opts.Name = cmp.Or(opts.Name, "toolyard")
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	opts.MaxBody = cmp.Or(opts.MaxBody, 1<<20)
	opts.MaxStreams = cmp.Or(opts.MaxStreams, 10_000)
	opts.Keepalive = cmp.Or(opts.Keepalive, 25*time.Second)
	if opts.Results == nil {
		opts.Results = &offer.Memory{}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Authorize == nil {
		opts.Authorize = func(*http.Request, *gates.Gate) (toolyard.Caller, error) {
			return toolyard.Caller{ID: ident.Anonymous}, nil
		}
	}
	if opts.Call == nil {
		panic("mcpserver.New: Options.Call is required")
	}
	s := &Server{opts: opts, streams: newQuota("open streams", opts.MaxStreams), bodies: newQuota("large requests", int(max(maxBodies, 8*opts.MaxBody)))}
	s.legacy.waiting = newQuota("calls waiting for an answer", maxWaiting)
	s.legacy.waitingBytes = newQuota("arguments of calls waiting for an answer", maxWaitingBytes)
	s.legacy.subscriptions.quota = newQuota("resource subscriptions", maxAllSubscriptions)
	s.legacy.ended.max, s.legacy.ended.keep = maxEnded, sessionLifetime
	s.legacy.logLevels.max, s.legacy.logLevels.keep = maxLogLevels, sessionLifetime
	keys := opts.Replicas.Keys
	if keys == nil {
		keys = seal.Random()
	}
	s.states = newStateSealer(keys)
	s.legacy.sessionSealer = keys.Sealer("toolyard mcp session")
	s.legacy.questionSealer = keys.Sealer("toolyard question id")
	s.describe()
	s.done, s.close = context.WithCancel(context.Background())
	s.gates.Store(&map[string]*gate{})
	return s
}

// Limits on the resources that a server holds for its clients. A single caller gets at most a
// quarter.
const (
	maxWaiting      = 2000
	maxWaitingBytes = 32 << 20
	maxBodies       = 128 << 20 // bytes
)

// Minimum number of MCP sessions to remember.
const (
	maxEnded     = 100_000
	maxLogLevels = 10_000
)

// describe encodes the server's description.
func (s *Server) describe() {
	info := &mcp.Implementation{Name: s.opts.Name, Version: s.opts.Version}
	infoJSON, _ := json.Marshal(info) // cannot fail
	s.serverInfo = append([]byte(`"`+mcp.MetaKeyServerInfo+`":`), infoJSON...)
	s.discover, _ = json.Marshal(map[string]any{
		"resultType":        "complete",
		"supportedVersions": mcp.SupportedProtocolVersions(),
		"capabilities":      capabilities(),
		"ttlMs":             0,
		"cacheScope":        "private",
		"_meta":             map[string]any{mcp.MetaKeyServerInfo: info, "dev.toolyard/yard": s.opts.Yard},
	})
}

// Close ends all open streams, so that an HTTP server can shut down. Running calls continue.
func (s *Server) Close() { s.close() }

// Publish binds the gates to an offer and notifies callers of changed lists. Gates that are no
// longer listed are closed. If keep is set, existing tools keep their names when new tools have the
// same names. Publish must not be called concurrently.
func (s *Server) Publish(all []*gates.Gate, offer catalog.Offer, keep bool) {
	old, next := *s.gates.Load(), make(map[string]*gate, len(all))
	for _, d := range all {
		g, ok := old[d.Name]
		if !ok {
			g = newGate(s)
		}
		var before *gates.View
		if keep {
			before = g.current()
		}
		g.publish(d.Bind(offer, before))
		next[d.Name] = g
	}
	s.gates.Store(&next)
	for name, g := range old {
		if _, kept := next[name]; !kept {
			g.close()
		}
	}
}

// gate returns the gate with the given name.
func (s *Server) gate(name string) (*gate, error) {
	if g, ok := (*s.gates.Load())[name]; ok {
		return g, nil
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Unknown gate %q.", name)
}

// View returns the current view of a gate.
func (s *Server) View(name string) (*gates.View, bool) {
	g, err := s.gate(name)
	if err != nil {
		return nil, false
	}
	return g.view.Load().View, true
}

// Gates returns the names of the gates, sorted.
func (s *Server) Gates() []string { return slices.Sorted(maps.Keys(*s.gates.Load())) }
