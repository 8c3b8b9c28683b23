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
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

func headerMismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, args...)}
}

// checkHeaders holds the headers that intermediaries route by against the body that
// they speak of.
func checkHeaders(h http.Header, env *envelope, meta *requestMeta) *jsonrpc.Error {
	want := [][2]string{{"Mcp-Protocol-Version", meta.version}, {"Mcp-Method", env.method}}
	switch env.method {
	case "tools/call", "prompts/get":
		name, _ := strictjson.String(strictjson.Member(env.params, "name"))
		want = append(want, [2]string{"Mcp-Name", name})
	case "resources/read":
		uri, _ := strictjson.String(strictjson.Member(env.params, "uri"))
		want = append(want, [2]string{"Mcp-Name", uri})
	}
	for _, w := range want {
		values := h[w[0]]
		if len(values) != 1 {
			return headerMismatch("%s must be there once", w[0])
		}
		value, ok := decodeHeader(strings.TrimSpace(values[0]))
		if !ok || value != w[1] {
			return headerMismatch("%s is %q, the body says %q", w[0], values[0], w[1])
		}
	}
	return nil
}

// decodeHeader undoes the encoding of values that a header cannot carry as they are.
func decodeHeader(value string) (string, bool) {
	inner, marked := strings.CutPrefix(value, "=?base64?")
	inner, closed := strings.CutSuffix(inner, "?=")
	if !marked || !closed {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// bindHeaders finds the x-mcp-header annotations of what callers are asked for.
func bindHeaders(tools []gates.NamedTool) map[*toolyard.Tool][]paramheader.Binding {
	binds := make(map[*toolyard.Tool][]paramheader.Binding)
	for _, t := range tools {
		if found, err := paramheader.Bindings(t.CallerInput()); err == nil && len(found) > 0 {
			binds[t.Tool] = found
		}
	}
	return binds
}

// checkParamHeaders holds the Mcp-Param headers of a call against its arguments.
func checkParamHeaders(h http.Header, v *view, j *job) *jsonrpc.Error {
	binds := v.binds()
	if len(binds) == 0 {
		return nil
	}
	tool, ok := v.Lookup(j.name)
	if !ok {
		return nil
	}
	for _, b := range binds[tool] {
		arg, header := b.Argument(j.Args), http.CanonicalHeaderKey("Mcp-Param-"+b.Header)
		values := h[header]
		if arg == nil {
			if len(values) > 0 {
				return headerMismatch("%s is there, its argument is not", header)
			}
			continue
		}
		if len(values) != 1 {
			return headerMismatch("%s must be there once", header)
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
	inBody, ok := new(big.Rat).SetString(string(arg)) // the strict reader bounds its exponent
	if !ok || !inBody.IsInt() || len(header) > 64 {
		return false
	}
	inHeader, ok := new(big.Int).SetString(header, 10)
	return ok && inHeader.Cmp(inBody.Num()) == 0
}
