package upstream

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// headerValue encodes a value for a header.
func headerValue(value string) string {
	plain := len(value) > 0 && value == strings.TrimSpace(value) && !strings.HasPrefix(value, "=?base64?")
	for i := range len(value) {
		plain = plain && value[i] >= ' ' && value[i] < 0x7f
	}
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// paramHeaders returns headers for the arguments that the tool's schema also requires as headers.
func paramHeaders(bindings []paramheader.Binding, args json.RawMessage) (headers [][2]string) {
	for _, b := range bindings {
		arg := b.Argument(args)
		if arg == nil {
			continue
		}
		value, ok := strictjson.String(arg)
		if !ok {
			value = string(arg)
		}
		headers = append(headers, [2]string{"Mcp-Param-" + b.Header, value})
	}
	return headers
}
