package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// exchange is one request of a client, of either era and over any transport, with the way
// back to the client.
type exchange struct {
	access
	env     *envelope
	meta    requestMeta
	session *session       // of the legacy era; nil in the modern one
	trace   toolyard.Trace // that the transport names; the one in _meta wins
	job     *job           // what runs on the call path, for methods that do

	peer   string                    // names the session or connection in cancellations and answers; empty for none
	send   func(message []byte) bool // sends a message ahead of the answer; false if the client cannot get it
	left   context.Context           // ends when the client cannot be reached any more
	silent context.Context           // ends when the client sends no more; nil if it cannot be known
}

func (x *exchange) era() era {
	if x.session != nil {
		return legacyEra
	}
	return modernEra
}

// prepare reads the request, and refuses what no client may send.
func (x *exchange) prepare() *jsonrpc.Error {
	_, lists := listings[x.env.method]
	switch {
	case runs(x.env.method):
		return x.prepareJob()
	case lists:
		return nil
	}
	own := [2][]string{legacyEra: {"ping", "logging/setLevel"}, modernEra: {"server/discover", "subscriptions/listen"}}[x.era()]
	if slices.Contains(own, x.env.method) {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("unknown method %.100q", x.env.method)}
}

func (x *exchange) prepareJob() *jsonrpc.Error {
	x.job = &job{
		CallRequest: serve.CallRequest{Caller: x.caller, Features: x.meta.capabilities, Trace: x.meta.trace, Meta: x.meta.rest},
		gate:        x.gate, view: x.view, era: x.era(), method: x.env.method, params: x.env.params, ask: x.ask,
	}
	if x.session != nil {
		x.job.Features = x.session.features
	}
	if x.job.Trace.Parent == "" {
		x.job.Trace = x.trace
	}
	if len(x.meta.progressToken) > 0 {
		x.job.OnProgress = func(p toolyard.Progress) { x.send(progressMessage(x.meta.progressToken, p)) }
	}
	if level, ok := x.logLevel(); ok {
		x.job.Log = slog.New(teeHandler{x.gate.server.opts.Log.Handler(), &clientHandler{min: level, send: x.send}})
	}
	return x.job.readParams()
}

// logLevel is the least grave level of messages that the client wants, and whether it wants any.
func (x *exchange) logLevel() (slog.Level, bool) {
	if x.session == nil {
		return levelOf(x.meta.logLevel)
	}
	return x.gate.server.levels.get(x.session.id)
}

// answer answers a request that was prepared. A panic of ours fails this request only.
func (x *exchange) answer(ctx context.Context) (result []byte, wire *jsonrpc.Error) {
	defer func() {
		if p := recover(); p != nil {
			x.gate.server.opts.Log.Error("request panicked", "method", x.env.method, "panic", p, "stack", string(debug.Stack()))
			result, wire = nil, errInternal
		}
	}()
	if x.job != nil {
		ctx, done := x.begin(ctx)
		defer done()
		return x.job.run(ctx)
	}
	switch x.env.method {
	case "ping":
		return []byte("{}"), nil
	case "logging/setLevel":
		return x.setLevel(ctx)
	case "server/discover":
		return x.gate.server.discover, nil
	}
	return x.list()
}

func (x *exchange) list() ([]byte, *jsonrpc.Error) {
	raw := strictjson.Member(x.env.params, "cursor")
	cursor, ok := strictjson.String(raw)
	if !ok && raw != nil {
		cursor = "?" // not a valid cursor
	}
	return x.gate.listResult(x.view, x.era(), x.env.method, cursor)
}

// requestKey names a request of a session or a connection.
type requestKey struct{ peer, id string }

// begin makes the context of a call, which ends when the client cancels the request.
func (x *exchange) begin(ctx context.Context) (context.Context, func()) {
	if x.peer == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	key := requestKey{x.peer, string(x.env.id)}
	x.gate.server.running.Store(key, cancel)
	return ctx, func() {
		x.gate.server.running.Delete(key)
		cancel()
	}
}

// setLevel sets the level of the log messages that a session gets, at all replicas.
func (x *exchange) setLevel(ctx context.Context) ([]byte, *jsonrpc.Error) {
	name, _ := strictjson.String(strictjson.Member(x.env.params, "level"))
	level, ok := levelOf(name)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown log level %.40q", name)}
	}
	if x.session.id != "" {
		x.gate.server.levels.set(x.session.id, level, x.gate.server.opts.Now())
		if err := x.tellFleet(ctx, &fleetMessage{Kind: setLevel, Level: name}); err != nil {
			return nil, protocolError(x.view.Gate.Errors, toolyard.AsError(err))
		}
	}
	return []byte("{}"), nil
}

// take takes a message that gets no answer: a notification, or the answer to a question of ours.
func (x *exchange) take(ctx context.Context) error {
	switch {
	case x.peer == "":
	case x.env.method == "":
		return x.takeAnswer(ctx)
	case x.env.method == "notifications/cancelled":
		if id := strictjson.Member(x.env.params, "requestId"); id != nil {
			return x.cancel(ctx, id)
		}
	}
	return nil
}

// maxForeignID is how many bytes the id of a request may have that runs at another replica.
const maxForeignID = 256

// cancel cancels a request of the session, at whichever replica it runs.
func (x *exchange) cancel(ctx context.Context, id json.RawMessage) error {
	if x.gate.server.cancelRequest(x.peer, string(id)) || !validID(id) || len(id) > maxForeignID {
		return nil
	}
	return x.tellFleet(ctx, &fleetMessage{Kind: cancelRequest, ID: id})
}

// cancelRequest cancels a request that runs here.
func (s *Server) cancelRequest(peer, id string) bool {
	cancel, ok := s.running.LoadAndDelete(requestKey{peer, id})
	if ok {
		cancel.(context.CancelFunc)()
	}
	return ok
}
