package mcpserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// requestMeta is what every request of the modern era carries in its _meta.
type requestMeta struct {
	version       string
	capabilities  json.RawMessage
	progressToken json.RawMessage
	logLevel      string
	trace         toolyard.Trace
	rest          map[string]json.RawMessage // what is for whoever answers in the end
}

func readMeta(params json.RawMessage) (m requestMeta) {
	for key, value := range strictjson.Members(strictjson.Member(params, "_meta")) {
		switch key {
		case mcp.MetaKeyProtocolVersion:
			m.version, _ = strictjson.String(value)
		case mcp.MetaKeyClientCapabilities:
			m.capabilities = value
		case mcp.MetaKeyLogLevel: //nolint:staticcheck // deprecated, not gone
			m.logLevel, _ = strictjson.String(value)
		case "progressToken":
			m.progressToken = value
		case "traceparent":
			m.trace.Parent, _ = strictjson.String(value)
		case "tracestate":
			m.trace.State, _ = strictjson.String(value)
		case "baggage":
			m.trace.Baggage, _ = strictjson.String(value)
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
		m.rest = make(map[string]json.RawMessage)
	}
	m.rest[key] = value
}

// check checks what a request says of itself.
func (m *requestMeta) check() *jsonrpc.Error {
	switch {
	case m.version == "":
		return missingMeta(mcp.MetaKeyProtocolVersion)
	case len(m.capabilities) == 0 || m.capabilities[0] != '{':
		return missingMeta(mcp.MetaKeyClientCapabilities)
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

// postModern serves a POST of a client of the modern era.
func (a *access) postModern(w http.ResponseWriter, r *http.Request, env *envelope) {
	if env.id == nil || env.method == "" {
		w.WriteHeader(http.StatusAccepted) // nothing of this era needs a notification over HTTP
		return
	}
	x := &exchange{access: *a, env: env, meta: readMeta(env.params), trace: traceOf(r), left: r.Context()}
	wire := x.meta.check()
	if wire == nil || wire.Code == mcp.CodeUnsupportedProtocolVersion {
		if mismatch := checkHeaders(r.Header, env, &x.meta); mismatch != nil {
			wire = mismatch
		}
	}
	reply := newReply(w, r)
	x.send = reply.notify
	if wire == nil {
		wire = x.prepare()
	}
	if wire == nil && env.method == "tools/call" {
		wire = checkParamHeaders(r.Header, x.view, x.job)
	}
	switch {
	case wire != nil:
		writeError(w, env.id, wire)
	case env.method == "subscriptions/listen":
		x.listen(w, r)
	default:
		result, wire := x.answer(r.Context())
		reply.finish(modernStatus(x, wire), appendResponse(make([]byte, 0, len(result)+256), env.id, result, wire))
	}
}

// modernStatus is the HTTP status of an answer.
func modernStatus(x *exchange, wire *jsonrpc.Error) int {
	if wire != nil && (x.job == nil || wire.Code == mcp.CodeMissingRequiredClientCapabilities) {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// readParams takes the job from the params of its request.
func (j *job) readParams() *jsonrpc.Error {
	named := "name"
	if j.method == "resources/read" {
		named = "uri"
	}
	for key, value := range strictjson.Members(j.params) {
		switch key {
		case named:
			j.name, _ = strictjson.String(value)
		case "arguments":
			j.Args = value
		case "inputResponses":
			j.Answers = value
		case "requestState":
			var ok bool
			if j.State, ok = strictjson.String(value); !ok {
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is a string"}
			}
		}
	}
	return nil
}

func writeResult(w http.ResponseWriter, id json.RawMessage, result []byte) {
	newReply(w, nil).finish(http.StatusOK, appendResponse(make([]byte, 0, len(result)+64), id, result, nil))
}
