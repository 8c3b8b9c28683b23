package mcpserve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
)

// metaCall is where a result says which call it answers, as the record and the log
// know it.
const metaCall = "dev.toolyard/call"

// answer encodes how a call ended: a result, or the error that takes its place.
func (g *gate) answer(v *view, e era, c *toolyard.Call, res *toolyard.Result, err error) ([]byte, *jsonrpc.Error) {
	if err != nil {
		te := toolyard.AsError(err)
		if v.Gate.Errors == toolyard.ErrorsAsProtocol || te.Code == toolyard.NotFound || te.Code == toolyard.Missing {
			return nil, protocolError(v.Gate.Errors, te)
		}
		res = te.Result()
	}
	return g.appendResult(nil, e, c, res), nil
}

// appendResult encodes a result for an era. Raw results keep their bytes; where the
// modern era needs a resultType and they have none, it is put in front.
func (g *gate) appendResult(b []byte, e era, c *toolyard.Call, r *toolyard.Result) []byte {
	if raw := r.Raw(); raw != nil {
		return appendRaw(b, e, raw)
	}
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
	if r.Structured != nil && (e == modernEra || r.Structured[0] == '{') {
		b = append(append(b, `,"structuredContent":`...), r.Structured...)
	}
	if r.IsError {
		b = append(b, `,"isError":true`...)
	}
	b = append(b, `,"_meta":{`...)
	for k, v := range r.Meta {
		b = append(toolyard.AppendJSONString(b, k), ':')
		b = append(append(b, v...), ',')
	}
	if e == modernEra {
		b = append(append(b, g.legacy.serverInfo...), ',')
	}
	b = append(b, `"`+metaCall+`":"`...)
	return append(append(b, c.ID...), `"}}`...)
}

func appendRaw(b []byte, e era, raw json.RawMessage) []byte {
	if e == legacyEra || member(raw, "resultType") != nil {
		return append(b, raw...)
	}
	raw = bytes.TrimLeft(raw, " \t\r\n")
	b = append(b, `{"resultType":"complete"`...)
	if rest := bytes.TrimLeft(raw[1:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		b = append(b, ',')
	}
	return append(b, raw[1:]...)
}

// codeNumbers are the JSON-RPC numbers of our codes; they are those of the systems
// that callers of errors: protocol come from.
var codeNumbers = map[toolyard.Code]int64{
	toolyard.Failed:          -32000,
	toolyard.Invalid:         -32001,
	toolyard.Exhausted:       -32003,
	toolyard.Timeout:         -32004,
	toolyard.Canceled:        -32005,
	toolyard.Unauthenticated: -32006,
	toolyard.Denied:          -32007,
	toolyard.Missing:         mcp.CodeMissingRequiredClientCapabilities,
	toolyard.Internal:        jsonrpc.CodeInternalError,
}

func protocolError(style toolyard.ErrorStyle, e *toolyard.Error) *jsonrpc.Error {
	number, ok := codeNumbers[e.Code]
	switch {
	case e.Code == toolyard.NotFound && style == toolyard.ErrorsAsProtocol:
		number = jsonrpc.CodeMethodNotFound
	case e.Code == toolyard.NotFound:
		number = jsonrpc.CodeInvalidParams
	case !ok:
		number = codeNumbers[toolyard.Failed]
	}
	return &jsonrpc.Error{Code: number, Message: e.Error(), Data: e.Data()}
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
	b = toolyard.AppendJSONString(append(b, `,"message":`...), e.Message)
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

// rawResult is a result that the SDK writes as it is.
type rawResult struct {
	mcp.ResultBase
	json []byte
}

// MarshalJSON implements json.Marshaler.
func (r *rawResult) MarshalJSON() ([]byte, error) { return r.json, nil }

// errInternal hides a fault of ours from the caller.
var errInternal = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
