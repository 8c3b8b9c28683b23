package mcpserve

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// requestMeta is what every request of the modern era carries in its _meta.
type requestMeta struct {
	version       string
	capabilities  json.RawMessage
	progressToken json.RawMessage
	logLevel      string
	trace         toolyard.Trace
}

func readMeta(params json.RawMessage) (m requestMeta) {
	for key, value := range guard.Members(member(params, "_meta")) {
		switch key {
		case mcp.MetaKeyProtocolVersion:
			m.version, _ = guard.String(value)
		case mcp.MetaKeyClientCapabilities:
			m.capabilities = value
		case mcp.MetaKeyLogLevel: //nolint:staticcheck // deprecated, not gone
			m.logLevel, _ = guard.String(value)
		case "progressToken":
			m.progressToken = value
		case "traceparent":
			m.trace.Parent, _ = guard.String(value)
		case "tracestate":
			m.trace.State, _ = guard.String(value)
		case "baggage":
			m.trace.Baggage, _ = guard.String(value)
		}
	}
	return m
}

// check holds a request against what it says of itself.
func (m *requestMeta) check(h http.Header, env *envelope) *jsonrpc.Error {
	switch {
	case m.version == "":
		return missingMeta(mcp.MetaKeyProtocolVersion)
	case len(m.capabilities) == 0 || m.capabilities[0] != '{':
		return missingMeta(mcp.MetaKeyClientCapabilities)
	}
	if wire := checkHeaders(h, env, m); wire != nil {
		return wire
	}
	if m.version != modernVersion {
		data, _ := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: mcp.SupportedProtocolVersions(), Requested: m.version})
		return &jsonrpc.Error{Code: mcp.CodeUnsupportedProtocolVersion, Message: "unsupported protocol version", Data: data}
	}
	return nil
}

func missingMeta(key string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("missing or invalid _meta field %q", key)}
}

func (g *gate) serveModern(w http.ResponseWriter, r *http.Request, env envelope, caller toolyard.Caller) {
	if env.id == nil {
		w.WriteHeader(http.StatusAccepted) // a notification: nothing of this era needs one over HTTP
		return
	}
	meta := readMeta(env.params)
	if wire := meta.check(r.Header, &env); wire != nil {
		writeError(w, env.id, wire)
		return
	}
	v := g.view.Load()
	switch env.method {
	case "tools/call":
		g.modernCall(w, r, v, &env, &meta, caller)
	case "tools/list":
		g.modernList(w, v, &env)
	case "server/discover":
		writeResult(w, env.id, g.legacy.discover)
	case "subscriptions/listen":
		g.listen(w, r, v, &env)
	case "prompts/list":
		writeResult(w, env.id, g.emptyList("prompts"))
	case "resources/list":
		writeResult(w, env.id, g.emptyList("resources"))
	case "resources/templates/list":
		writeResult(w, env.id, g.emptyList("resourceTemplates"))
	default:
		writeError(w, env.id, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q is not known", env.method)})
	}
}

func (g *gate) modernList(w http.ResponseWriter, v *view, env *envelope) {
	raw := member(env.params, "cursor")
	cursor, ok := guard.String(raw)
	if !ok && raw != nil {
		cursor = "?" // which no cursor is
	}
	result, wire := g.listResult(v, modernEra, cursor)
	if wire != nil {
		writeError(w, env.id, wire)
		return
	}
	writeResult(w, env.id, result)
}

// emptyList is a list of what no source offers yet.
func (g *gate) emptyList(of string) []byte {
	b := append([]byte(privateList), g.legacy.serverInfo...)
	return append(b, `},"`+of+`":[]}`...)
}

// privateList begins a list of the modern era. It depends on the gate, and so on who
// asks: no cache may share it.
const privateList = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{`

// listResult is a page of tools/list.
func (g *gate) listResult(v *view, e era, cursor string) ([]byte, *jsonrpc.Error) {
	tools, next, ok := v.lists[e]().page(cursor)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor"}
	}
	b := make([]byte, 0, len(tools)+512)
	if e == modernEra {
		b = append(append(append(b, privateList...), g.legacy.serverInfo...), "},"...)
	} else {
		b = append(b, '{')
	}
	if next != nil {
		b = append(append(append(b, `"nextCursor":"`...), next...), `",`...)
	}
	b = append(append(b, `"tools":[`...), tools...)
	return append(b, "]}"...), nil
}

func (g *gate) modernCall(w http.ResponseWriter, r *http.Request, v *view, env *envelope, meta *requestMeta, caller toolyard.Caller) {
	req := Request{Caller: caller, Features: meta.capabilities, Trace: meta.trace}
	if req.Trace.Parent == "" {
		req.Trace = toolyard.Trace{Parent: r.Header.Get("Traceparent"), State: r.Header.Get("Tracestate")}
	}
	for key, value := range guard.Members(env.params) {
		switch key {
		case "name":
			req.Tool, _ = guard.String(value)
		case "arguments":
			req.Args = value
		}
	}
	if wire := checkParamHeaders(r.Header, v, &req); wire != nil {
		writeError(w, env.id, wire)
		return
	}
	reply := newReply(w, r)
	if len(meta.progressToken) > 0 {
		req.OnProgress = func(p toolyard.Progress) { reply.notify(progressMessage(meta.progressToken, p)) }
	}
	if level, ok := levelOf(meta.logLevel); ok {
		req.Log = slog.New(teeHandler{g.server.opts.Log.Handler(), &clientHandler{min: level, send: reply.notify}})
	}
	c, res, err := g.call(r.Context(), v, &req)
	result, wire := g.answer(v, modernEra, c, res, err)
	status := http.StatusOK
	if wire != nil && wire.Code == mcp.CodeMissingRequiredClientCapabilities {
		status = http.StatusBadRequest
	}
	reply.finish(status, appendResponse(make([]byte, 0, len(result)+256), env.id, result, wire))
}

func writeResult(w http.ResponseWriter, id json.RawMessage, result []byte) {
	newReply(w, nil).finish(http.StatusOK, appendResponse(make([]byte, 0, len(result)+64), id, result, nil))
}
