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
	"github.com/toolyard/toolyard/internal/base/tracecontext"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// requestContext is a message from a client, in either era and over any transport, together with
// the means to reply to the client.
type requestContext struct {
	access
	message *message
	params  params
	session *session           // nil in the modern era
	trace   tracecontext.Trace // from the transport; overridden by a trace in _meta
	request *request           // for methods that use the call path

	peer   string                    // identifies the session or connection for cancellations and answers; may be empty
	send   func(message []byte) bool // sends a message ahead of the response; false if it cannot be delivered
	gone   context.Context           // ends when the client is unreachable
	silent context.Context           // ends when the client stops sending; nil if that cannot be observed
}

func (x *requestContext) era() era {
	if x.session != nil {
		return legacyEra
	}
	return modernEra
}

// ownMethods lists the methods that exist in only one era.
var ownMethods = [2][]string{legacyEra: {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}, modernEra: {"server/discover", "subscriptions/listen"}}

// prepare checks the method. It builds the request if the method uses the call path.
func (x *requestContext) prepare() *jsonrpc.Error {
	method := x.message.method
	if slices.Contains(callMethods, method) {
		return x.prepareRequest()
	}
	if _, ok := listings[method]; ok || slices.Contains(ownMethods[x.era()], method) {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("unknown method %.100q", method)}
}

func (x *requestContext) prepareRequest() *jsonrpc.Error {
	meta := &x.params.meta
	r := &request{
		CallRequest: serve.CallRequest{
			Gate: x.view.Gate.Name, Caller: x.caller, Args: x.params.arguments,
			Request: toolyard.Request{ClientCapabilities: meta.capabilities, Trace: meta.trace, Meta: meta.rest, InputResponses: x.params.inputResponses},
		},
		gate: x.gate, view: x.view, era: x.era(), method: x.message.method, name: x.params.target(x.message.method), params: x.message.params, ask: x.ask,
	}
	if x.session != nil {
		r.ClientCapabilities = x.session.features
	}
	if r.Trace.Parent == "" {
		r.Trace = x.trace
	}
	if len(meta.progressToken) > 0 {
		r.OnProgress = func(done, total float64, message string) {
			x.send(progressMessage(meta.progressToken, done, total, message))
		}
	}
	if level, ok := x.logLevel(); ok {
		r.Log = slog.New(teeHandler{x.gate.server.opts.Log.Handler(), &clientHandler{min: level, send: x.send}})
	}
	var ok bool
	if r.RequestState, ok = strictjson.String(x.params.requestState); !ok && x.params.requestState != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState must be a string"}
	}
	x.request = r
	return nil
}

// logLevel returns the minimum level of log messages for the client, or false if the client wants
// none.
func (x *requestContext) logLevel() (slog.Level, bool) {
	if x.session == nil {
		return levelOf(x.params.meta.logLevel)
	}
	return x.gate.server.legacy.logLevels.get(x.session.id)
}

// answer answers a prepared request. A panic fails only this request.
func (x *requestContext) answer(ctx context.Context) (result []byte, rpcErr *jsonrpc.Error) {
	defer func() {
		if p := recover(); p != nil {
			x.gate.server.opts.Log.Error("request panicked", "method", x.message.method, "panic", p, "stack", string(debug.Stack()))
			result, rpcErr = nil, errInternal
		}
	}()
	if x.request != nil {
		ctx, done := x.trackRequest(ctx)
		defer done()
		return x.request.run(ctx)
	}
	switch x.message.method {
	case "ping":
		return []byte("{}"), nil
	case "logging/setLevel":
		return x.setLevel(ctx)
	case "resources/subscribe", "resources/unsubscribe":
		return x.subscribe(ctx)
	case "server/discover":
		return x.gate.server.discover, nil
	}
	cursor, ok := strictjson.String(x.params.cursor)
	if !ok && x.params.cursor != nil {
		cursor = "?" // an invalid cursor
	}
	return x.gate.listResult(x.view, x.era(), x.message.method, cursor)
}

// requestKey identifies a running request on a session or connection.
type requestKey struct{ peer, id string }

// trackRequest returns a context that ends when the client cancels the request.
func (x *requestContext) trackRequest(ctx context.Context) (context.Context, func()) {
	if x.peer == "" {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	key, running := requestKey{x.peer, string(x.message.id)}, &x.gate.server.legacy.running
	running.Store(key, cancel)
	return ctx, func() {
		running.Delete(key)
		cancel()
	}
}

// setLevel sets a session's log level on all replicas.
func (x *requestContext) setLevel(ctx context.Context) ([]byte, *jsonrpc.Error) {
	name, _ := strictjson.String(strictjson.Member(x.message.params, "level"))
	level, ok := levelOf(name)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown log level %.40q", name)}
	}
	if x.session.id != "" {
		x.gate.server.legacy.logLevels.set(x.session.id, level, x.gate.server.opts.Now())
		if err := x.notifyReplicas(ctx, &replicaMessage{Kind: setLevel, Level: name}); err != nil {
			return nil, protocolError(x.view.Gate.Errors, toolyard.AsError(err))
		}
	}
	return []byte("{}"), nil
}

// receive handles a message that needs no response: a notification, or the answer to a question.
func (x *requestContext) receive(ctx context.Context) error {
	switch {
	case x.peer == "":
	case x.message.method == "":
		return x.receiveAnswer(ctx)
	case x.message.method == "notifications/cancelled":
		if id := strictjson.Member(x.message.params, "requestId"); id != nil {
			return x.cancel(ctx, id)
		}
	}
	return nil
}

// maxForeignID is the maximum size in bytes of the ID of a request that runs on another replica.
const maxForeignID = 256

// cancel cancels a request in the session on whichever replica it runs.
func (x *requestContext) cancel(ctx context.Context, id json.RawMessage) error {
	if x.gate.server.cancelRequest(x.peer, string(id)) || !validID(id) || len(id) > maxForeignID {
		return nil
	}
	return x.notifyReplicas(ctx, &replicaMessage{Kind: cancelRequest, ID: id})
}

// cancelRequest cancels a request that runs on this replica.
func (s *Server) cancelRequest(peer, id string) bool {
	cancel, ok := s.legacy.running.LoadAndDelete(requestKey{peer, id})
	if ok {
		cancel.(context.CancelFunc)()
	}
	return ok
}
