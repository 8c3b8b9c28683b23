package mcpserve

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

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
	rest          toolyard.Meta // what is for whoever answers in the end
}

func readMeta(params json.RawMessage) (m requestMeta) {
	for key, value := range guard.Members(guard.Member(params, "_meta")) {
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
		default:
			m.keep(key, value)
		}
	}
	return m
}

// maxMeta is how much of a client's own metadata is passed on.
const maxMeta = 16 << 10

// keep notes a member that is not for this hop.
func (m *requestMeta) keep(key string, value json.RawMessage) {
	ours := key == metaSession || key == metaKey // which must not get lost
	if strings.HasPrefix(key, "io.modelcontextprotocol/") || !ours && (len(key)+len(value) > maxMeta || len(m.rest) >= 32) {
		return
	}
	if m.rest == nil {
		m.rest = make(toolyard.Meta)
	}
	m.rest[key] = value
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
	_, lists := listings[env.method]
	switch {
	case runs(env.method):
		g.modernJob(w, r, v, &env, &meta, caller)
	case lists:
		g.modernList(w, v, &env)
	case env.method == "server/discover":
		writeResult(w, env.id, g.legacy.discover)
	case env.method == "subscriptions/listen":
		g.listen(w, r, v, &env)
	default:
		writeError(w, env.id, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method %q is not known", env.method)})
	}
}

func (g *gate) modernList(w http.ResponseWriter, v *view, env *envelope) {
	raw := guard.Member(env.params, "cursor")
	cursor, ok := guard.String(raw)
	if !ok && raw != nil {
		cursor = "?" // which no cursor is
	}
	result, wire := g.listResult(v, modernEra, env.method, cursor)
	if wire != nil {
		writeError(w, env.id, wire)
		return
	}
	writeResult(w, env.id, result)
}

func (g *gate) modernJob(w http.ResponseWriter, r *http.Request, v *view, env *envelope, meta *requestMeta, caller toolyard.Caller) {
	j := &job{
		Request: Request{Caller: caller, Features: meta.capabilities, Trace: meta.trace, Meta: meta.rest},
		gate:    g, view: v, era: modernEra, method: env.method, params: env.params,
	}
	if j.Trace.Parent == "" {
		j.Trace = toolyard.Trace{Parent: r.Header.Get("Traceparent"), State: r.Header.Get("Tracestate")}
	}
	wire := j.readParams()
	if wire == nil && j.method == "tools/call" {
		wire = checkParamHeaders(r.Header, v, j)
	}
	if wire != nil {
		writeError(w, env.id, wire)
		return
	}
	reply := newReply(w, r)
	if len(meta.progressToken) > 0 {
		j.OnProgress = func(p toolyard.Progress) { reply.notify(progressMessage(meta.progressToken, p)) }
	}
	if level, ok := levelOf(meta.logLevel); ok {
		j.Log = slog.New(teeHandler{g.server.opts.Log.Handler(), &clientHandler{min: level, send: reply.notify}})
	}
	result, wire := j.run(r.Context())
	status := http.StatusOK
	if wire != nil && wire.Code == mcp.CodeMissingRequiredClientCapabilities {
		status = http.StatusBadRequest
	}
	reply.finish(status, appendResponse(make([]byte, 0, len(result)+256), env.id, result, wire))
}

// readParams takes the job from the params of its request.
func (j *job) readParams() *jsonrpc.Error {
	named := "name"
	if j.method == "resources/read" {
		named = "uri"
	}
	for key, value := range guard.Members(j.params) {
		switch key {
		case named:
			j.name, _ = guard.String(value)
		case "arguments":
			j.Args = value
		case "inputResponses":
			j.Answers = value
		case "requestState":
			var ok bool
			if j.State, ok = guard.String(value); !ok {
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is a string"}
			}
		}
	}
	return nil
}

func writeResult(w http.ResponseWriter, id json.RawMessage, result []byte) {
	newReply(w, nil).finish(http.StatusOK, appendResponse(make([]byte, 0, len(result)+64), id, result, nil))
}
