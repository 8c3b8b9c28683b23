package mcpserver

import (
	"bytes"
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// metaCall is the _meta member that contains the call ID.
const metaCall = "dev.toolyard/call"

// metaStructured is the _meta member that contains the structured content of a failed result, if
// the tool has an output schema. Official clients validate structuredContent against the schema
// even for failed results, and would report only the mismatch.
const metaStructured = "dev.toolyard/structuredContent"

// appendResult encodes the result of a local tool or a meta-tool. c is nil for a meta-tool.
func (g *gate) appendResult(b []byte, e era, c *toolyard.Call, r *toolyard.Result) []byte {
	b = append(b, '{')
	if e == modernEra {
		b = append(b, `"resultType":"complete",`...)
	}
	b = append(b, `"content":[`...)
	for i, item := range r.Content {
		if i > 0 {
			b = append(b, ',')
		}
		b = item.AppendJSON(b)
	}
	b = append(b, ']')
	structured := r.Structured
	if r.IsError && c != nil && len(c.Tool.Output) > 0 {
		structured = nil
	}
	if structured != nil && (e == modernEra || structured[0] == '{') {
		b = append(append(b, `,"structuredContent":`...), structured...)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	b = append(b, `,"_meta":{`...)
	if structured == nil && r.Structured != nil {
		b = append(append(append(b, `"`+metaStructured+`":`...), r.Structured...), ',')
	}
	for k, v := range r.Meta {
		b = append(jsonobject.AppendString(b, k), ':')
		b = append(append(b, v...), ',')
	}
	if e == modernEra {
		b = append(append(b, g.server.serverInfo...), ',')
	}
	if c != nil {
		b = append(appendReceipt(b, c), `"`+metaCall+`":"`...)
		b = append(append(b, c.ID...), `",`...)
	}
	return append(closeObject(b), '}')
}

// metaReceipt is the _meta member that contains the receipt.
const metaReceipt = "dev.toolyard/receipt"

// appendReceipt appends a charged call's receipt and a comma.
func appendReceipt(b []byte, c *toolyard.Call) []byte {
	if c == nil || c.Receipt == nil {
		return b
	}
	receipt, err := json.Marshal(c.Receipt)
	if err != nil {
		return b // cannot happen: a receipt can always be encoded
	}
	return append(append(append(b, `"`+metaReceipt+`":`...), receipt...), ',')
}

// envelope holds the result members that concern this server and its client. They replace those of
// the server that produced the result.
type envelope struct {
	era       era
	server    []byte         // server info member
	call      string         // call ID; may be empty
	receiptOf *toolyard.Call // may be nil
	cached    bool           // adds cache hints in the modern era
	state     string         // sealed state of an unfinished result; empty if the result is finished
	typed     bool           // the tool has an output schema

	failure json.RawMessage // structured content, if a typed tool's result is a failure
}

// envelopeMeta lists the _meta keys that are not passed on.
var envelopeMeta = []string{
	metaCall, metaReceipt, metaStructured, mcp.MetaKeyServerInfo, mcp.MetaKeySubscriptionID, mcp.MetaKeyProtocolVersion,
	mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel, //nolint:staticcheck // deprecated but still in use
}

// append appends a result from another server. Members outside the envelope keep their bytes and
// order.
func (e *envelope) append(b []byte, raw json.RawMessage) []byte {
	b = slices.Grow(b, len(raw)+len(e.server)+len(e.state)+128)
	b = append(b, '{')
	if e.typed && string(strictjson.Member(raw, "isError")) == "true" {
		e.failure = strictjson.Member(raw, "structuredContent")
	}
	hasType, hasMeta := e.era == legacyEra, e.era == legacyEra && e.failure == nil && (e.receiptOf == nil || e.receiptOf.Receipt == nil)
	for key, part := range parts(raw) {
		switch {
		case key == "_meta" && part.value[0] == '{':
			hasMeta = true
			b = e.appendMeta(b, part.value)
		case e.replaces(key, part.value):
			continue
		default:
			hasType = hasType || key == "resultType"
			b = append(append(b, part.text...), ',')
		}
	}
	if !hasType {
		b = append(b, `"resultType":"complete",`...)
	}
	if e.caches() {
		b = append(b, `"ttlMs":0,"cacheScope":"private",`...)
	}
	if e.state != "" {
		b = append(append(append(b, `"requestState":"`...), e.state...), `",`...)
	}
	if !hasMeta {
		b = e.appendMeta(b, nil)
	}
	return closeObject(b)
}

func (e *envelope) caches() bool { return e.cached && e.era == modernEra && e.state == "" }

// replaces reports whether a member of a result belongs to the envelope or is unknown in the era.
func (e *envelope) replaces(key string, value json.RawMessage) bool {
	switch key {
	case "_meta": // _meta is not an object
		return true
	case "resultType":
		return e.era == legacyEra || e.state == "" && string(value) != `"complete"`
	case "ttlMs", "cacheScope":
		return e.era == legacyEra || e.caches()
	case "requestState":
		return e.state != ""
	case "structuredContent":
		return e.failure != nil || e.era == legacyEra && value[0] != '{'
	}
	return false
}

// appendMeta appends a result's _meta: the envelope's members and the other members of the
// original.
func (e *envelope) appendMeta(b []byte, theirs json.RawMessage) []byte {
	b = append(b, `"_meta":{`...)
	if e.era == modernEra {
		b = append(append(b, e.server...), ',')
		if e.call != "" {
			b = append(append(append(b, `"`+metaCall+`":"`...), e.call...), `",`...)
		}
	}
	b = appendReceipt(b, e.receiptOf)
	if e.failure != nil {
		b = append(append(append(b, `"`+metaStructured+`":`...), e.failure...), ',')
	}
	for key, part := range parts(theirs) {
		if !slices.Contains(envelopeMeta, key) {
			b = append(append(b, part.text...), ',')
		}
	}
	return append(closeObject(b), ',')
}

// part is a member of a JSON object: its whole text, and the value within it.
type part struct{ text, value json.RawMessage }

// parts iterates over the members of an object.
func parts(object json.RawMessage) iter.Seq2[string, part] {
	return func(yield func(string, part) bool) {
		at := bytes.IndexByte(object, '{') + 1
		for key, value := range strictjson.Members(object) {
			end := cap(object) - cap(value) + len(value) // values are subslices of the object
			text := bytes.TrimPrefix(bytes.TrimLeft(object[at:end], " \t\r\n"), []byte(","))
			if at = end; !yield(key, part{text, value}) {
				return
			}
		}
	}
}

// closeObject ends an object whose members are all followed by a comma.
func closeObject(b []byte) []byte {
	if last := len(b) - 1; b[last] == ',' {
		b[last] = '}'
		return b
	}
	return append(b, '}')
}

// codeNumbers maps error codes to JSON-RPC codes.
var codeNumbers = map[toolyard.Code]int64{
	toolyard.Failed:            -32000,
	toolyard.Invalid:           -32001,
	toolyard.RateLimited:       -32003,
	toolyard.Timeout:           -32004,
	toolyard.Canceled:          -32005,
	toolyard.Unauthenticated:   -32006,
	toolyard.PermissionDenied:  -32007,
	toolyard.ApprovalRequired:  -32008,
	toolyard.MissingCapability: mcp.CodeMissingRequiredClientCapabilities,
	toolyard.Internal:          jsonrpc.CodeInternalError,
}

// ErrorNumber returns the JSON-RPC code for an error code.
func ErrorNumber(style gates.ErrorStyle, code toolyard.Code) int64 {
	number, ok := codeNumbers[code]
	switch {
	case code == toolyard.UnknownTool && style == gates.ErrorsAsProtocol:
		return jsonrpc.CodeMethodNotFound
	case code == toolyard.UnknownTool:
		return jsonrpc.CodeInvalidParams
	case !ok:
		return codeNumbers[toolyard.Failed]
	}
	return number
}

func protocolError(style gates.ErrorStyle, e *toolyard.Error) *jsonrpc.Error {
	return &jsonrpc.Error{Code: ErrorNumber(style, e.Code), Message: e.Error(), Data: e.Data()}
}

// appendResponse appends a JSON-RPC response with a result or an error. The ID keeps its bytes.
func appendResponse(b []byte, id json.RawMessage, result []byte, e *jsonrpc.Error) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if e == nil {
		return append(append(append(b, `,"result":`...), result...), '}')
	}
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, e.Code, 10)
	b = jsonobject.AppendString(append(b, `,"message":`...), e.Message)
	if len(e.Data) > 0 {
		b = append(append(b, `,"data":`...), e.Data...)
	}
	return append(b, "}}"...)
}

// statusOf returns the HTTP status for a JSON-RPC error in the modern era.
func statusOf(e *jsonrpc.Error) int {
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, mcp.CodeHeaderMismatch,
		mcp.CodeMissingRequiredClientCapabilities, mcp.CodeUnsupportedProtocolVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// errInternal replaces an internal error, whose details are not sent to clients.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
