package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/tracecontext"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// postModern serves a POST from a modern client.
func (a *access) postModern(w http.ResponseWriter, r *http.Request, m *message, p params) {
	if m.id == nil || m.method == "" {
		w.WriteHeader(http.StatusAccepted) // over HTTP, the modern era has no notifications to the server
		return
	}
	reply := newReply(w, r)
	x := &requestContext{access: *a, message: m, params: p, trace: traceOf(r), gone: r.Context(), send: reply.notify}
	if rpcErr := x.checkModern(r.Header); rpcErr != nil {
		writeError(w, m.id, rpcErr)
		return
	}
	if m.method == "subscriptions/listen" {
		x.listen(w, r)
		return
	}
	result, rpcErr := x.answer(r.Context())
	reply.finish(modernStatus(x, rpcErr), appendResponse(make([]byte, 0, len(result)+256), m.id, result, rpcErr))
}

// checkModern checks a request's metadata and headers, and prepares it.
func (x *requestContext) checkModern(h http.Header) *jsonrpc.Error {
	rpcErr := x.params.meta.check()
	if rpcErr == nil || rpcErr.Code == mcp.CodeUnsupportedProtocolVersion {
		if mismatch := checkHeaders(h, x.message.method, &x.params); mismatch != nil {
			rpcErr = mismatch
		}
	}
	if rpcErr == nil {
		rpcErr = x.prepare()
	}
	if rpcErr == nil && x.message.method == "tools/call" {
		rpcErr = checkParamHeaders(h, x.view, x.request)
	}
	return rpcErr
}

// modernStatus returns the HTTP status for a response.
func modernStatus(x *requestContext, rpcErr *jsonrpc.Error) int {
	if rpcErr != nil && (x.request == nil || rpcErr.Code == mcp.CodeMissingRequiredClientCapabilities) {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// params holds the members that the params of all requests have in common.
type params struct {
	meta           requestMeta
	name, uri      string
	arguments      json.RawMessage
	inputResponses json.RawMessage
	requestState   json.RawMessage
	cursor         json.RawMessage
}

func readParams(raw json.RawMessage) (p params) {
	for key, value := range strictjson.Members(raw) {
		switch key {
		case "_meta":
			p.meta = readMeta(value)
		case "name":
			p.name, _ = strictjson.String(value)
		case "uri":
			p.uri, _ = strictjson.String(value)
		case "arguments":
			p.arguments = value
		case "inputResponses":
			p.inputResponses = value
		case "requestState":
			p.requestState = value
		case "cursor":
			p.cursor = value
		}
	}
	return p
}

// target returns the name of the tool or prompt, or the URI of the resource.
func (p *params) target(method string) string {
	if method == "resources/read" {
		return p.uri
	}
	return p.name
}

// requestMeta is a request's _meta.
type requestMeta struct {
	modern        bool // _meta contains a protocol version
	version       string
	capabilities  json.RawMessage
	progressToken json.RawMessage
	logLevel      string
	trace         tracecontext.Trace
	rest          map[string]json.RawMessage // other members, passed on with the call
}

func readMeta(raw json.RawMessage) (m requestMeta) {
	for key, value := range strictjson.Members(raw) {
		switch key {
		case mcp.MetaKeyProtocolVersion:
			m.modern = true
			m.version, _ = strictjson.String(value)
		case mcp.MetaKeyClientCapabilities:
			m.capabilities = value
		case mcp.MetaKeyLogLevel: //nolint:staticcheck // deprecated but still in use
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
			m.add(key, value)
		}
	}
	return m
}

// Limits on client metadata that is passed on.
const (
	maxMeta        = 16 << 10 // bytes per member
	maxMetaMembers = 32
)

// add stores a member to be passed on. The session and the idempotency key are never dropped.
func (m *requestMeta) add(key string, value json.RawMessage) {
	required := key == metaSession || key == metaKey
	if strings.HasPrefix(key, "io.modelcontextprotocol/") || !required && (len(key)+len(value) > maxMeta || len(m.rest) >= maxMetaMembers) {
		return
	}
	if m.rest == nil {
		m.rest = make(map[string]json.RawMessage)
	}
	m.rest[key] = value
}

// check checks the members that the modern era requires.
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

func headerMismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, args...)}
}

// checkHeaders checks that the headers that intermediaries use for routing match the body.
func checkHeaders(h http.Header, method string, p *params) *jsonrpc.Error {
	want := [][2]string{{"Mcp-Protocol-Version", p.meta.version}, {"Mcp-Method", method}}
	switch method {
	case "tools/call", "prompts/get", "resources/read":
		want = append(want, [2]string{"Mcp-Name", p.target(method)})
	}
	for _, w := range want {
		values := h[w[0]]
		if len(values) != 1 {
			return headerMismatch("%s must be sent exactly once", w[0])
		}
		value, ok := decodeHeader(strings.TrimSpace(values[0]))
		if !ok || value != w[1] {
			return headerMismatch("%s is %q, but the body has %q", w[0], values[0], w[1])
		}
	}
	return nil
}

// decodeHeader decodes a value that may be base64-encoded because it contains characters that are
// not allowed in a header.
func decodeHeader(value string) (string, bool) {
	inner, marked := strings.CutPrefix(value, "=?base64?")
	inner, closed := strings.CutSuffix(inner, "?=")
	if !marked || !closed {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// bindHeaders returns the x-mcp-header annotations in the tools' input schemas.
func bindHeaders(tools []gates.NamedTool) map[*toolyard.Tool][]paramheader.Binding {
	bindings := make(map[*toolyard.Tool][]paramheader.Binding)
	for _, t := range tools {
		if found, err := paramheader.Bindings(t.CallerInput()); err == nil && len(found) > 0 {
			bindings[t.Tool] = found
		}
	}
	return bindings
}

// checkParamHeaders checks that a call's Mcp-Param headers match its arguments.
func checkParamHeaders(h http.Header, v *view, r *request) *jsonrpc.Error {
	bindings := v.headerBindings()
	if len(bindings) == 0 {
		return nil
	}
	tool, ok := v.Lookup(r.name)
	if !ok {
		return nil
	}
	for _, b := range bindings[tool] {
		arg, header := b.Argument(r.Args), http.CanonicalHeaderKey("Mcp-Param-"+b.Header)
		values := h[header]
		if arg == nil {
			if len(values) > 0 {
				return headerMismatch("%s is set, but its argument is missing", header)
			}
			continue
		}
		if len(values) != 1 {
			return headerMismatch("%s must be sent exactly once", header)
		}
		value, ok := decodeHeader(strings.TrimSpace(values[0]))
		if !ok || !sameValue(value, arg) {
			return headerMismatch("%s does not match its argument", header)
		}
	}
	return nil
}

// sameValue compares a header with a string, an integer or a boolean.
func sameValue(header string, arg json.RawMessage) bool {
	if text, ok := strictjson.String(arg); ok {
		return header == text
	}
	if string(arg) == "true" || string(arg) == "false" {
		return header == string(arg)
	}
	inBody, ok := new(big.Rat).SetString(string(arg)) // strictjson limits the exponent
	if !ok || !inBody.IsInt() || len(header) > 64 {
		return false
	}
	inHeader, ok := new(big.Int).SetString(header, 10)
	return ok && inHeader.Cmp(inBody.Num()) == 0
}
