package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// message is a JSON-RPC message of a server, taken apart but not decoded.
type message struct {
	id     json.RawMessage // nil for a notification
	method string          // empty for an answer
	params json.RawMessage
	result json.RawMessage
	err    *rpcError
}

// rpcError is how a server refuses a request.
type rpcError struct {
	Code    int64
	Message string
	Data    json.RawMessage

	status int // of the answer it came with, 0 if not over HTTP
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// The numbers of JSON-RPC and MCP errors that mean something to us.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeBusy               = -32000
	codeResourceNotFound   = -32002 // of the legacy era
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// supports reports whether a refusal of our version says that the server speaks one.
func (e *rpcError) supports(version string) bool {
	var supported []string
	return e.Code == codeUnsupportedVersion && json.Unmarshal(strictjson.Member(e.Data, "supported"), &supported) == nil && slices.Contains(supported, version)
}

// members are the names that a message is made of.
var members = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// parse reads one message, strictly: what two readers could read differently is refused.
func parse(data []byte) (m message, err error) {
	if err := strictjson.Check(data); err != nil {
		return m, fmt.Errorf("it sent something that is not strict JSON: %w", err)
	}
	var version, method, failure json.RawMessage
	for key, value := range strictjson.Members(data) {
		switch key {
		case "jsonrpc":
			version = value
		case "id":
			m.id = value
		case "method":
			method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			failure = value
		default:
			if slices.ContainsFunc(members, func(name string) bool { return strings.EqualFold(key, name) }) {
				return m, fmt.Errorf("it sent a message with the member %q", key)
			}
		}
	}
	if string(version) != `"2.0"` {
		return m, errors.New(`it sent a message without "jsonrpc": "2.0"`)
	}
	return m, m.complete(method, failure)
}

// complete checks that the message is one of the four kinds.
func (m *message) complete(method, failure json.RawMessage) error {
	if string(m.id) == "null" {
		m.id = nil
	}
	isAnswer := m.result != nil || failure != nil
	switch {
	case method != nil && isAnswer, m.result != nil && failure != nil, method == nil && !isAnswer:
		return errors.New("it sent a message that is neither a request nor an answer")
	case method != nil:
		var ok bool
		if m.method, ok = strictjson.String(method); !ok || m.method == "" {
			return errors.New("it sent a method that is no text")
		}
		if m.params != nil && m.params[0] != '{' {
			return errors.New("it sent params that are no object")
		}
	case failure != nil:
		m.err = readError(failure)
	case m.result[0] != '{':
		return errors.New("it sent a result that is no object")
	}
	return nil
}

// How much of a server's own words is kept, and how much of that is shown. Secrets are
// taken out in between, so that none is cut in half and then not known any more.
const (
	maxKept  = 64 << 10
	maxShown = 4 << 10
)

// readError reads an error leniently: it is one in any case.
func readError(raw json.RawMessage) *rpcError {
	e := &rpcError{Message: "it refused without saying why"}
	for key, value := range strictjson.Members(raw) {
		switch key {
		case "code":
			e.Code, _ = strconv.ParseInt(string(value), 10, 64)
		case "message":
			if text, ok := strictjson.String(value); ok && text != "" {
				e.Message = untrusted.Truncate(text, maxKept)
			}
		case "data":
			if len(value) <= maxShown {
				e.Data = value
			}
		}
	}
	return e
}

// text is a member that is a string, or "".
func text(object json.RawMessage, name string) string {
	s, _ := strictjson.String(strictjson.Member(object, name))
	return s
}

// number is an id or a token of ours, or 0, which none of them is.
func number(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// appendMessage appends a request, or a notification when the id is 0. Params are the
// members of an object, without its braces.
func appendMessage(b []byte, id int64, method string, params []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0",`...)
	if id != 0 {
		b = append(strconv.AppendInt(append(b, `"id":`...), id, 10), ',')
	}
	b = jsonobject.AppendString(append(b, `"method":`...), method)
	if len(params) > 0 {
		b = append(append(append(b, `,"params":{`...), params...), '}')
	}
	return append(b, '}')
}

// appendAnswer appends our answer to a request of the server: a result, or the refusal of
// a method that nobody here offers.
func appendAnswer(b []byte, id, result json.RawMessage, refusal *rpcError) []byte {
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if refusal == nil {
		return append(append(append(b, `,"result":`...), result...), '}')
	}
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), refusal.Code, 10)
	return append(jsonobject.AppendString(append(b, `,"message":`...), refusal.Message), "}}"...)
}
