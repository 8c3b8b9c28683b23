// Package mcpserver serves gates over MCP. It is the only place where the
// vocabularies of MCP and of toolyard meet.
//
// One URL speaks both eras of the protocol: the modern one (2026-07-28), which has no
// sessions, and the legacy one (2025-11-25 and older), whose sessions are sealed tokens that
// clients keep. A request of either era, over HTTP, stdio or HTTP+SSE, is an exchange: read
// once, strictly, and answered from the view of a gate. Lists come from bytes that were encoded
// once; everything else takes the same call path.
package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
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
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/trust/seal"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Options are the settings of a Server. Call must be set.
type Options struct {
	Name, Version string
	Yard          string // which yard this is, so that it knows itself
	Instructions  string
	Call          toolyard.Handler  // the call path
	Clients       *toolyard.Clients // lent to every call
	Toolbox       toolyard.Toolbox  // given to every call
	Down          func() []string   // servers that cannot be used now; nil for none
	Log           *slog.Logger      // nil for none
	Now           func() time.Time  // nil for time.Now
	MaxBody       int64             // bytes of a request; zero for 1 MiB
	MaxStreams    int               // open streams; zero for 10,000. Nobody gets more than a quarter
	Fleet         Fleet             // the other replicas; nil for none
	Replica       string            // what the others know this one by, without white space
	Keepalive     time.Duration     // between comments on an idle stream; zero for 25 s
	StateKey      func() []byte     // seals what clients keep of unfinished calls, asked for when the first asks; nil for a key that only this server has
	Tokens        Tokens            // shared by the servers that share StateKey; nil if there is one server

	// Admit says who sends a request over HTTP and lets them into a gate. An error of code
	// Denied means that they may not, and its Needs are the scopes that they lack; one of code
	// Unavailable, that nobody can say now; any other, that it is not known who they are. Nil
	// lets everyone in as anonymous.
	Admit func(*http.Request, *gates.Gate) (toolyard.Caller, error)
}

// Server serves gates.
type Server struct {
	opts  Options
	gates atomic.Pointer[map[string]*gate] // replaced as a whole by Publish
	done  context.Context                  // ends when Close is called
	close context.CancelFunc

	sealer     func() *sealer
	sessions   func() seal.Sealer // of session ids
	askers     func() seal.Sealer // of the ids of questions
	serverInfo []byte             // `"io.modelcontextprotocol/serverInfo":{...}`
	discover   []byte             // the result of server/discover

	streams     *quota
	asking      *quota   // calls that wait for an answer of their client
	askingBytes *quota   // of their arguments
	bodies      *quota   // bytes of large requests in flight
	running     sync.Map // context.CancelFunc by requestKey
	questions   questions
	ended       recent[string, struct{}]   // ids of sessions
	levels      recent[string, slog.Level] // of log messages, by the ids of sessions
	pace        pace
	strangers   pace // answers of callers who are not known
}

// New makes a server without gates.
func New(opts Options) *Server {
	opts.Name = cmp.Or(opts.Name, "toolyard")
	opts.Version = cmp.Or(opts.Version, "dev")
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	opts.MaxBody = cmp.Or(opts.MaxBody, 1<<20)
	opts.MaxStreams = cmp.Or(opts.MaxStreams, 10_000)
	opts.Keepalive = cmp.Or(opts.Keepalive, 25*time.Second)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Admit == nil {
		opts.Admit = func(*http.Request, *gates.Gate) (toolyard.Caller, error) {
			return toolyard.Caller{ID: toolyard.Anonymous}, nil
		}
	}
	if opts.StateKey == nil {
		opts.StateKey = func() []byte { return nil }
	}
	if opts.Call == nil {
		panic("mcpserve.New: there is no call path")
	}
	s := &Server{
		opts: opts, streams: newQuota("open streams", opts.MaxStreams),
		asking: newQuota("calls that wait for an answer", maxAsking), askingBytes: newQuota("arguments of calls that wait for an answer", maxAskingBytes),
		bodies: newQuota("large requests", int(max(maxBodies, 8*opts.MaxBody))),
	}
	s.ended.max, s.ended.keep, s.levels.max, s.levels.keep = maxEnded, sessionLifetime, maxLevels, sessionLifetime
	key := sync.OnceValue(func() []byte {
		if key := opts.StateKey(); len(key) > 0 {
			return key
		}
		return []byte(rand.Text())
	})
	s.sealer = sync.OnceValue(func() *sealer { return newSealer(key()) })
	s.sessions = sync.OnceValue(func() seal.Sealer { return seal.New(key(), "toolyard mcp session") })
	s.askers = sync.OnceValue(func() seal.Sealer { return seal.New(key(), "toolyard question id") })
	s.describe()
	s.done, s.close = context.WithCancel(context.Background())
	s.gates.Store(&map[string]*gate{})
	return s
}

// What a server holds at most for its clients; nobody gets more than a quarter of it.
const (
	maxAsking      = 2000
	maxAskingBytes = 32 << 20
	maxBodies      = 128 << 20
)

// How many ended sessions and log levels a server remembers, at least.
const (
	maxEnded  = 100_000
	maxLevels = 10_000
)

// describe encodes what the server says of itself.
func (s *Server) describe() {
	info := &mcp.Implementation{Name: s.opts.Name, Version: s.opts.Version}
	infoJSON, _ := json.Marshal(info) // always has a JSON form
	s.serverInfo = append([]byte(`"`+mcp.MetaKeyServerInfo+`":`), infoJSON...)
	s.discover, _ = json.Marshal(map[string]any{
		"resultType":        "complete",
		"supportedVersions": mcp.SupportedProtocolVersions(),
		"capabilities":      capabilities(),
		"instructions":      s.opts.Instructions,
		"ttlMs":             0,
		"cacheScope":        "private",
		"_meta":             map[string]any{mcp.MetaKeyServerInfo: info, "dev.toolyard/yard": s.opts.Yard},
	})
}

// Close ends all open streams, so that an HTTP server can shut down. Calls in flight go on.
func (s *Server) Close() { s.close() }

// Publish makes the gates show the offer. Callers of a gate where something has changed
// are told once. A gate that is no longer among them is closed. Keep says whether tools
// keep their names against newcomers. It must not be called concurrently.
func (s *Server) Publish(all []*gates.Gate, offer catalog.Offer, keep bool) {
	old, next := *s.gates.Load(), make(map[string]*gate, len(all))
	for _, d := range all {
		g, ok := old[d.Name]
		if !ok {
			g = newGate(s)
		}
		var before *gates.View
		if keep {
			before = g.shown()
		}
		g.show(d.Bind(offer, before))
		next[d.Name] = g
	}
	s.gates.Store(&next)
	for name, g := range old {
		if _, kept := next[name]; !kept {
			g.end()
		}
	}
}

// View is what a gate shows now, and false when there is no such gate.
func (s *Server) View(name string) (*gates.View, bool) {
	g, ok := (*s.gates.Load())[name]
	if !ok {
		return nil, false
	}
	return g.view.Load().View, true
}

// Gates are the names of the gates, sorted.
func (s *Server) Gates() []string { return slices.Sorted(maps.Keys(*s.gates.Load())) }

// Where a request says which open budget pays for it, and its idempotency key. Both are for
// us and go no further.
const (
	metaSession = "dev.toolyard/session"
	metaKey     = "dev.toolyard/idempotencyKey"
)

// takeString takes a string out of the metadata of a request, unless it is said already.
func takeString(key, said string, meta map[string]json.RawMessage) (string, map[string]json.RawMessage, error) {
	raw, ok := meta[key]
	if !ok {
		return said, meta, nil
	}
	meta = maps.Clone(meta) // others may have it too
	delete(meta, key)
	text, isText := strictjson.String(raw)
	if !isText || text == "" || (said != "" && said != text) {
		return "", meta, toolyard.Errorf(toolyard.Invalid, "_meta %s must be a text, and the same wherever it is said.", key)
	}
	return text, meta, nil
}

// Call calls a tool for a caller that cannot be asked anything.
func (s *Server) Call(ctx context.Context, r *serve.CallRequest) (*toolyard.Result, error) {
	g, ok := (*s.gates.Load())[r.Gate]
	if !ok {
		return nil, unknownGate(r.Gate)
	}
	_, res, err := g.call(ctx, g.view.Load(), r)
	return finished(res, err)
}

func unknownGate(name string) error {
	return toolyard.Errorf(toolyard.NotFound, "Unknown gate: %s", name)
}

// finished refuses a result that asks something: there is no client here that could answer.
func finished(res *toolyard.Result, err error) (*toolyard.Result, error) {
	if err == nil && res.InputRequired() {
		return nil, &toolyard.Error{Code: toolyard.MissingCapability, Message: "It asks for input, and nobody here can answer.", Missing: []string{"elicitation"}}
	}
	return res, err
}

// ReadResource reads an address at a gate, on the call path as well. The tool and the
// arguments of the request are not used.
func (s *Server) ReadResource(ctx context.Context, uri string, r *serve.CallRequest) (*toolyard.Result, error) {
	g, ok := (*s.gates.Load())[r.Gate]
	if !ok {
		return nil, unknownGate(r.Gate)
	}
	_, res, err := g.read(ctx, g.view.Load(), uri, r)
	return finished(res, err)
}

// read finds who reads an address, and has it read.
func (g *gate) read(ctx context.Context, v *view, uri string, r *serve.CallRequest) (*toolyard.Call, *toolyard.Result, error) {
	resource, ok := v.ReadResource(uri)
	if !ok {
		return nil, nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
	}
	r.Args = readArgs(uri)
	return g.run(ctx, v, resource.Reader, r)
}

// call resolves the tool on one view and sends the call down the call path. The call is
// nil when there is no such tool.
func (g *gate) call(ctx context.Context, v *view, r *serve.CallRequest) (*toolyard.Call, *toolyard.Result, error) {
	tool, ok := v.Lookup(r.Tool)
	if !ok {
		return nil, nil, toolyard.Errorf(toolyard.UnknownTool, "Unknown tool: %s", r.Tool)
	}
	return g.run(ctx, v, tool, r)
}

// run sends a call of a tool that was resolved down the call path.
func (g *gate) run(ctx context.Context, v *view, tool *toolyard.Tool, r *serve.CallRequest) (*toolyard.Call, *toolyard.Result, error) {
	o := &g.server.opts
	now := o.Now()
	c := &toolyard.Call{
		ID: ident.NewCallID(now), Tool: tool, Args: r.Args, Caller: r.Caller, Gate: v.Gate.Name, Mode: v.Gate.Mode, Surface: v.Gate.Surface, AsOf: now, Start: now,
		Generation: v.Generation, Session: r.Session, IdempotencyKey: r.Key,
		Clients: o.Clients, Toolbox: o.Toolbox, ClientCapabilities: r.Features, Trace: r.Trace, Meta: r.Meta, OnProgress: r.OnProgress, Log: cmp.Or(r.Log, o.Log),
		InputResponses: r.Answers, RequestState: r.State,
	}
	var badSession, badKey error
	c.Session, c.Meta, badSession = takeString(metaSession, c.Session, c.Meta)
	c.IdempotencyKey, c.Meta, badKey = takeString(metaKey, c.IdempotencyKey, c.Meta)
	if err := cmp.Or(badSession, badKey); err != nil {
		return c, nil, err
	}
	if w := r.Parent; w != nil {
		c.AsOf, c.Depth, c.Parent, c.Session = w.AsOf, w.Depth+1, w.ID, w.Session
	}
	res, err := o.Call(ctx, c)
	return c, res, err
}
