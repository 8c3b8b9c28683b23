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

// metaCall is where a result says which call it answers, as the record and the log
// know it.
const metaCall = "dev.toolyard/call"

// metaStructured is where a failed result of a tool with an output schema has its structured
// content: official clients validate that against the schema even if the tool failed, and
// show nothing but their own complaint if it does not match.
const metaStructured = "dev.toolyard/structuredContent"

// appendResult encodes a result that a tool of ours made, for an era.
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
	if r.IsError && len(c.Tool.Output) > 0 {
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
	b = append(appendReceipt(b, c), `"`+metaCall+`":"`...)
	return append(append(b, c.ID...), `"}}`...)
}

// metaReceipt is where a result says what its call cost.
const metaReceipt = "dev.toolyard/receipt"

// appendReceipt appends the receipt of a call that something was taken for, with a comma
// behind it.
func appendReceipt(b []byte, c *toolyard.Call) []byte {
	if c == nil || c.Receipt == nil {
		return b
	}
	receipt, err := json.Marshal(c.Receipt)
	if err != nil {
		return b // it always has a JSON form
	}
	return append(append(append(b, `"`+metaReceipt+`":`...), receipt...), ',')
}

// hop is what a result says of the way between this server and its client. It takes the
// place of what another server said of its own way to us.
type hop struct {
	era    era
	server []byte         // who we are
	call   string         // the id of the call, empty for none
	paid   *toolyard.Call // the call that a receipt is shown of, nil for none
	cached bool           // clients of the modern era are told how long they may keep the result
	state  string         // the sealed state of an unfinished result, empty for a finished one
	typed  bool           // the tool has an output schema

	failure json.RawMessage // the structured content of a failed result of a typed tool
}

// hopMeta are the keys of _meta that speak of one hop.
var hopMeta = []string{
	metaCall, metaReceipt, metaStructured, mcp.MetaKeyServerInfo, mcp.MetaKeySubscriptionID, mcp.MetaKeyProtocolVersion,
	mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities, mcp.MetaKeyLogLevel, //nolint:staticcheck // deprecated, not gone
}

// append appends the result object of another server. All that is not about the hop keeps
// its bytes and its order.
func (h *hop) append(b []byte, raw json.RawMessage) []byte {
	b = slices.Grow(b, len(raw)+len(h.server)+len(h.state)+128)
	b = append(b, '{')
	if h.typed && string(strictjson.Member(raw, "isError")) == "true" {
		h.failure = strictjson.Member(raw, "structuredContent")
	}
	hasType, hasMeta := h.era == legacyEra, h.era == legacyEra && h.failure == nil && (h.paid == nil || h.paid.Receipt == nil)
	for key, part := range parts(raw) {
		switch {
		case key == "_meta" && part.value[0] == '{':
			hasMeta = true
			b = h.appendMeta(b, part.value)
		case h.replaces(key, part.value):
			continue
		default:
			hasType = hasType || key == "resultType"
			b = append(append(b, part.text...), ',')
		}
	}
	if !hasType {
		b = append(b, `"resultType":"complete",`...)
	}
	if h.caches() {
		b = append(b, `"ttlMs":0,"cacheScope":"private",`...)
	}
	if h.state != "" {
		b = append(append(append(b, `"requestState":"`...), h.state...), `",`...)
	}
	if !hasMeta {
		b = h.appendMeta(b, nil)
	}
	return closeObject(b)
}

func (h *hop) caches() bool { return h.cached && h.era == modernEra && h.state == "" }

// replaces reports whether a member of a result is about the hop, or is nothing that the
// era knows.
func (h *hop) replaces(key string, value json.RawMessage) bool {
	switch key {
	case "_meta": // no object
		return true
	case "resultType":
		return h.era == legacyEra || h.state == "" && string(value) != `"complete"`
	case "ttlMs", "cacheScope":
		return h.era == legacyEra || h.caches()
	case "requestState":
		return h.state != ""
	case "structuredContent":
		return h.failure != nil || h.era == legacyEra && value[0] != '{'
	}
	return false
}

// appendMeta appends the _meta of a result: what we say of the hop, and what the other
// server said of anything else.
func (h *hop) appendMeta(b []byte, theirs json.RawMessage) []byte {
	b = append(b, `"_meta":{`...)
	if h.era == modernEra {
		b = append(append(b, h.server...), ',')
		if h.call != "" {
			b = append(append(append(b, `"`+metaCall+`":"`...), h.call...), `",`...)
		}
	}
	b = appendReceipt(b, h.paid)
	if h.failure != nil {
		b = append(append(append(b, `"`+metaStructured+`":`...), h.failure...), ',')
	}
	for key, part := range parts(theirs) {
		if !slices.Contains(hopMeta, key) {
			b = append(append(b, part.text...), ',')
		}
	}
	return append(closeObject(b), ',')
}

// part is a member of a JSON object: all of its text, and the value in it.
type part struct{ text, value json.RawMessage }

// parts walks over the members of an object.
func parts(object json.RawMessage) iter.Seq2[string, part] {
	return func(yield func(string, part) bool) {
		at := bytes.IndexByte(object, '{') + 1
		for key, value := range strictjson.Members(object) {
			end := cap(object) - cap(value) + len(value) // a value is a part of its object
			text := bytes.TrimPrefix(bytes.TrimLeft(object[at:end], " \t\r\n"), []byte(","))
			if at = end; !yield(key, part{text, value}) {
				return
			}
		}
	}
}

// closeObject ends an object whose members each have a comma behind them.
func closeObject(b []byte) []byte {
	if last := len(b) - 1; b[last] == ',' {
		b[last] = '}'
		return b
	}
	return append(b, '}')
}

// codeNumbers are the JSON-RPC numbers of our codes; they are those of the systems
// that callers of errors: protocol come from.
var codeNumbers = map[toolyard.Code]int64{
	toolyard.Failed:            -32000,
	toolyard.Invalid:           -32001,
	toolyard.RateLimited:       -32003,
	toolyard.Timeout:           -32004,
	toolyard.Canceled:          -32005,
	toolyard.Unauthenticated:   -32006,
	toolyard.PermissionDenied:  -32007,
	toolyard.MissingCapability: mcp.CodeMissingRequiredClientCapabilities,
	toolyard.Internal:          jsonrpc.CodeInternalError,
}

// ErrorNumber returns the JSON-RPC number of an error code.
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

// appendResponse wraps a result, or an error, in its JSON-RPC envelope. The id is the
// client's own bytes.
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

// statusOf is the HTTP status that goes with a JSON-RPC error of the modern era.
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

// errInternal hides a fault of ours from the caller.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
