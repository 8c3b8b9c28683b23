package mcpserve

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// sessionTimeout ends a legacy session that has sent nothing for so long. Its client
// opens another.
const sessionTimeout = time.Hour

// legacy is a gate's side that the SDK serves: sessions of the legacy era, and stdio
// of both.
type legacy struct {
	gate   *gate
	sdk    *mcp.Server
	stream http.Handler
	owners sync.Map     // who opened a session over HTTP, by its id
	sse    sync.Map     // sessions over HTTP+SSE, *sseSession by their ids
	active atomic.Int64 // POSTs and calls that are being answered

	serverInfo []byte // `"io.modelcontextprotocol/serverInfo":{...}`
	discover   []byte // the result of server/discover
}

func newLegacy(g *gate) *legacy {
	o := &g.server.opts
	info := &mcp.Implementation{Name: o.Name, Version: o.Version}
	l := &legacy{gate: g, sdk: mcp.NewServer(info, &mcp.ServerOptions{
		Instructions: o.Instructions,
		Logger:       slog.New(slog.DiscardHandler), // it logs what callers did wrong as errors of ours
		Capabilities: capabilities(),
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	})}
	l.sdk.AddReceivingMiddleware(l.intercept)
	l.sdk.AddSendingMiddleware(substitute)
	getServer := func(*http.Request) *mcp.Server { return l.sdk }
	l.stream = mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{SessionTimeout: sessionTimeout})

	infoJSON, _ := json.Marshal(info)
	l.serverInfo = append([]byte(`"`+mcp.MetaKeyServerInfo+`":`), infoJSON...)
	l.discover, _ = json.Marshal(map[string]any{
		"resultType":        "complete",
		"supportedVersions": mcp.SupportedProtocolVersions(),
		"capabilities":      capabilities(),
		"instructions":      o.Instructions,
		"ttlMs":             0,
		"cacheScope":        "private",
		"_meta":             map[string]any{mcp.MetaKeyServerInfo: info, "dev.toolyard/yard": o.Yard},
	})
	return l
}

// notify tells all sessions that a kind has changed. The SDK does that when what it has
// itself of that kind changes, and it has none: a placeholder, which intercept never lists,
// is replaced by itself.
func (l *legacy) notify(k kind) {
	const name = "placeholder"
	switch k {
	case toolKind:
		l.sdk.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, errInternal })
	case promptKind:
		l.sdk.AddPrompt(&mcp.Prompt{Name: name},
			func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return nil, errInternal })
	case resourceKind:
		l.sdk.AddResource(&mcp.Resource{Name: name, URI: name + ":"},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return nil, errInternal
			})
	}
}

// close ends all sessions, which would otherwise keep their streams open, once the calls
// in flight are answered.
func (l *legacy) close() {
	go func() {
		for quiet := 0; quiet < 10; quiet++ { // an answer is written after its call has ended
			if l.active.Load() > 0 {
				quiet = 0
			}
			time.Sleep(10 * time.Millisecond)
		}
		for session := range l.sdk.Sessions() {
			if session.ID() != l.gate.server.stdio { // which ends by itself
				_ = session.Close()
			}
		}
	}()
}

// serve hands a POST to the SDK.
func (l *legacy) serve(w http.ResponseWriter, r *http.Request, env envelope, caller toolyard.Caller) {
	if env.method == "initialize" && l.full() {
		tooManySessions(w)
		return
	}
	l.active.Add(1)
	defer l.active.Add(-1)
	l.pass(w, withBody(r, l.gate.server.mask.hide(env.body)), caller)
}

// pass hands a request, which is ours to change, to the SDK. A session is there for whoever
// opened it; for others it is as if it had never been.
func (l *legacy) pass(w http.ResponseWriter, r *http.Request, caller toolyard.Caller) {
	m, who := l.gate.server.mask, nameOf(caller)
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		if owner, ok := l.owners.Load(id); !ok || owner != who {
			noSession(w)
			return
		}
	}
	r.Header.Set(m.callerHeader(), who)
	l.stream.ServeHTTP(unmasking{w, m}, r)
}

// nameOf is all of a caller in one text: a caller with other rights is another one.
func nameOf(caller toolyard.Caller) string {
	caller.Roles = slices.Sorted(slices.Values(caller.Roles))
	who, _ := json.Marshal(caller) // always has a JSON form
	return string(who)
}

func noSession(w http.ResponseWriter) { http.Error(w, "session not found", http.StatusNotFound) }

// own notes who opens a session, for as long as it is open.
func (l *legacy) own(session *mcp.ServerSession, extra *mcp.RequestExtra) {
	id := session.ID()
	if id == "" || id == l.gate.server.stdio || extra == nil {
		return
	}
	l.owners.Store(id, extra.Header.Get(l.gate.server.mask.callerHeader()))
	go func() {
		_ = session.Wait()
		l.owners.Delete(id)
	}()
}

// sseSession is a session over HTTP+SSE.
type sseSession struct {
	*mcp.SSEServerTransport
	owner string
}

// callerKey is the key of a context under which the SDK carries who opened a session.
type callerKey struct{}

// openSSE opens a session over HTTP+SSE and is its stream until it ends.
func (l *legacy) openSSE(w http.ResponseWriter, r *http.Request, caller toolyard.Caller) {
	id := rand.Text()
	endpoint := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: "sessionid=" + id}
	t := &mcp.SSEServerTransport{Endpoint: endpoint.RequestURI(), Response: unmasking{w, l.gate.server.mask}}
	l.sse.Store(id, &sseSession{t, nameOf(caller)})
	defer l.sse.Delete(id)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	session, err := l.sdk.Connect(context.WithValue(r.Context(), callerKey{}, caller), t, nil)
	if err != nil { // the client did not wait for its address
		return
	}
	defer context.AfterFunc(r.Context(), func() { _ = session.Close() })()
	_ = session.Wait()
}

// postSSE takes a message for a session over HTTP+SSE from whoever opened it.
func (l *legacy) postSSE(w http.ResponseWriter, r *http.Request, caller toolyard.Caller) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	session, ok := l.sse.Load(r.URL.Query().Get("sessionid"))
	if !ok || session.(*sseSession).owner != nameOf(caller) {
		noSession(w)
		return
	}
	session.(*sseSession).ServeHTTP(unmasking{w, l.gate.server.mask}, r)
}

func tooManySessions(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	http.Error(w, "too many sessions", http.StatusServiceUnavailable)
}

func (l *legacy) full() bool {
	n := 0
	for range l.sdk.Sessions() {
		n++
	}
	return n >= l.gate.server.opts.MaxSessions
}

// unmasking is a ResponseWriter that shows what was masked.
type unmasking struct {
	http.ResponseWriter
	mask mask
}

// Write implements http.ResponseWriter. The SDK writes each message at once.
func (u unmasking) Write(b []byte) (int, error) {
	if err := writeNow(u.ResponseWriter, u.mask.show(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap lets http.ResponseController through.
func (u unmasking) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// clientRequest is what all requests of a client have.
type clientRequest interface {
	mcp.Request
	ProtocolVersion() string
	ClientCapabilities() *mcp.ClientCapabilities
}

// intercept answers all that is ours, and makes a panic anywhere behind it one failed
// request: the SDK has no recover of its own.
func (l *legacy) intercept(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				l.gate.server.opts.Log.Error("request panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				res, err = nil, errInternal
			}
		}()
		from, ok := req.(clientRequest)
		_, lists := listings[method]
		switch {
		case !ok:
		case method == "initialize":
			l.own(from.GetSession().(*mcp.ServerSession), from.GetExtra())
		case lists:
			return l.list(method, from)
		case runs(method):
			return l.do(ctx, method, from)
		case method == "subscriptions/listen" && eraOf(from.ProtocolVersion()) == legacyEra: // it would never end, nor tell more
			return nil, l.gate.server.mask.hideError(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "sessions are told of changes anyway"})
		}
		return next(ctx, method, req)
	}
}

func (l *legacy) list(method string, req clientRequest) (mcp.Result, error) {
	params, _ := json.Marshal(req.GetParams()) // was JSON before
	cursor, _ := guard.String(guard.Member(params, "cursor"))
	result, wire := l.gate.listResult(l.gate.view.Load(), eraOf(req.ProtocolVersion()), method, cursor)
	if wire != nil {
		return nil, wire
	}
	return &rawResult{json: result}, nil
}

func eraOf(version string) era {
	if version >= modernVersion {
		return modernEra
	}
	return legacyEra
}

// do does a job for a client.
func (l *legacy) do(ctx context.Context, method string, req clientRequest) (mcp.Result, error) {
	l.active.Add(1)
	defer l.active.Add(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what the tool says after its end goes nowhere
	g, session, meta := l.gate, req.GetSession().(*mcp.ServerSession), mcp.Meta(req.GetParams().GetMeta())
	j := &job{
		gate: g, view: g.view.Load(), era: eraOf(req.ProtocolVersion()), method: method,
		Request: Request{
			Features:   featuresOf(req.ClientCapabilities()),
			Trace:      traceOf(meta),
			Meta:       g.server.mask.restOf(meta),
			Answers:    g.server.mask.carried(meta),
			Log:        slog.New(teeHandler{g.server.opts.Log.Handler(), sessionHandler{ctx, session}}),
			OnProgress: progressTo(ctx, session, meta["progressToken"]),
		},
		ask: func(ctx context.Context, asked *inquiry) (json.RawMessage, error) { return l.ask(ctx, session, asked) },
	}
	j.take(req.GetParams())
	var err error
	if j.Caller, err = l.identify(ctx, session, req.GetExtra()); err != nil {
		return nil, protocolError(j.view.Gate.Errors, toolyard.AsError(err))
	}
	result, wire := j.run(ctx)
	if wire != nil {
		return nil, g.server.mask.hideError(wire)
	}
	return &rawResult{json: result}, nil
}

// progressTo sends progress to a session until ctx ends. Without a token nobody wants it.
func progressTo(ctx context.Context, session *mcp.ServerSession, token any) func(toolyard.Progress) {
	if token == nil {
		return nil
	}
	return func(p toolyard.Progress) {
		if ctx.Err() == nil {
			_ = session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token, Progress: p.Done, Total: p.Total, Message: p.Message,
			})
		}
	}
}

// take takes the job from params that the SDK has decoded.
func (j *job) take(params mcp.Params) {
	switch p := params.(type) {
	case *mcp.CallToolParamsRaw:
		j.name, j.Args, j.State = p.Name, p.Arguments, p.RequestState
	case *mcp.ReadResourceParams:
		j.name, j.State = p.URI, p.RequestState
	case *mcp.GetPromptParams:
		j.name, j.State = p.Name, p.RequestState
		j.Args, _ = json.Marshal(p.Arguments) // always has a JSON form
	case *mcp.CompleteParams:
		j.params, _ = json.Marshal(p) // was JSON before
	}
}

// identify finds who calls: on stdio whoever started the process, over HTTP whom enter has
// let in with this request, over HTTP+SSE whoever opened the session, since nobody else can
// send anything to it.
func (l *legacy) identify(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra) (caller toolyard.Caller, err error) {
	s := l.gate.server
	if session.ID() == s.stdio {
		return toolyard.Caller{ID: "local", Account: "local"}, nil
	}
	if extra != nil {
		if who := extra.Header.Get(s.mask.callerHeader()); who != "" {
			return caller, json.Unmarshal([]byte(who), &caller)
		}
	}
	if caller, ok := ctx.Value(callerKey{}).(toolyard.Caller); ok {
		return caller, nil
	}
	return caller, toolyard.Errorf(toolyard.Unauthenticated, "It is not known who calls.")
}

func featuresOf(c *mcp.ClientCapabilities) json.RawMessage {
	raw, _ := json.Marshal(c) // always has a JSON form
	return raw
}

// restOf is what of a client's metadata is for whoever answers in the end.
func (m mask) restOf(meta mcp.Meta) toolyard.Meta {
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil
	}
	rest := readMeta(json.RawMessage(`{"_meta":` + string(raw) + "}")).rest
	for key, value := range rest {
		if bytes.Contains(append([]byte(key), value...), []byte(m.secret)) { // what the mask carries is ours
			delete(rest, key)
		}
	}
	return rest
}

func traceOf(meta mcp.Meta) (t toolyard.Trace) {
	t.Parent, _ = meta["traceparent"].(string)
	t.State, _ = meta["tracestate"].(string)
	t.Baggage, _ = meta["baggage"].(string)
	return t
}

// sessionHandler sends a tool's log to its session, which knows the level that the
// client wants.
type sessionHandler struct {
	ctx     context.Context //nolint:containedctx // a log handler lives for one call
	session *mcp.ServerSession
}

// Enabled implements slog.Handler.
func (h sessionHandler) Enabled(context.Context, slog.Level) bool { return h.ctx.Err() == nil }

// Handle implements slog.Handler.
func (h sessionHandler) Handle(_ context.Context, r slog.Record) error {
	return h.session.Log(h.ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(levelName(r.Level)), Data: logData(r)}) //nolint:staticcheck // deprecated, not gone
}

// WithAttrs implements slog.Handler.
func (h sessionHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h sessionHandler) WithGroup(string) slog.Handler { return h }
