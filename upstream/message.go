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

// message is a JSON-RPC message from a server, split into members but not decoded.
type message struct {
	id     json.RawMessage // nil for a notification
	method string          // empty for a response
	params json.RawMessage
	result json.RawMessage
	err    *rpcError
}

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int64
	Message string
	Data    json.RawMessage

	status int // status of the HTTP response; 0 if there is none
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Codes of JSON-RPC and MCP errors.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeBusy               = -32000
	codeResourceNotFound   = -32002 // in legacy versions
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// supports reports whether the error lists the version as supported.
func (e *rpcError) supports(version string) bool {
	var supported []string
	return e.Code == codeUnsupportedVersion && json.Unmarshal(strictjson.Member(e.Data, "supported"), &supported) == nil && slices.Contains(supported, version)
}

// members are the names of a message's members.
var members = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// parse parses one message and rejects ambiguous ones.
func parse(data []byte) (m message, err error) {
	if err := strictjson.Check(data); err != nil {
		return m, fmt.Errorf("the server sent invalid JSON: %w", err)
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
				return m, fmt.Errorf("the server sent a message with the misspelled member %q", key)
			}
		}
	}
	if string(version) != `"2.0"` {
		return m, errors.New(`the server sent a message without "jsonrpc": "2.0"`)
	}
	return m, m.complete(method, failure)
}

// complete checks that the message is a request, a notification, a result or an error.
func (m *message) complete(method, failure json.RawMessage) error {
	if string(m.id) == "null" {
		m.id = nil
	}
	isResponse := m.result != nil || failure != nil
	switch {
	case method != nil && isResponse, m.result != nil && failure != nil, method == nil && !isResponse:
		return errors.New("the server sent a message that is neither a request nor a response")
	case method != nil:
		var ok bool
		if m.method, ok = strictjson.String(method); !ok || m.method == "" {
			return errors.New("the server sent a method that is not a string")
		}
		if m.params != nil && m.params[0] != '{' {
			return errors.New("the server sent params that are not an object")
		}
	case failure != nil:
		m.err = parseError(failure)
	case m.result[0] != '{':
		return errors.New("the server sent a result that is not an object")
	}
	return nil
}

// Limits on text from a server: how much is stored, and how much is shown. Redaction happens in
// between, so that no secret is cut in half and missed.
const (
	maxKept  = 64 << 10
	maxShown = 4 << 10
)

// parseError parses an error leniently.
func parseError(raw json.RawMessage) *rpcError {
	e := &rpcError{Message: "the server refused the request but gave no reason"}
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

// text returns a string member, or "".
func text(object json.RawMessage, name string) string {
	s, _ := strictjson.String(strictjson.Member(object, name))
	return s
}

// number returns an ID or a progress token that this client assigned, or 0 for anything else.
func number(raw json.RawMessage) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// appendMessage appends a request, or a notification if id is 0. params are an object's members
// without the braces.
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

// appendReply appends the reply to a server's request: a result or an error.
func appendReply(b []byte, id, result json.RawMessage, rpcErr *rpcError) []byte {
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	if rpcErr == nil {
		return append(append(append(b, `,"result":`...), result...), '}')
	}
	b = strconv.AppendInt(append(b, `,"error":{"code":`...), rpcErr.Code, 10)
	return append(jsonobject.AppendString(append(b, `,"message":`...), rpcErr.Message), "}}"...)
}
