package export

import (
	"encoding/json"

	"github.com/toolyard/toolyard/internal/serve/gates"
)

// bytesPerToken is what models' tokens have of JSON, about.
const bytesPerToken = 4

// Tokens estimates what the definition of a tool costs in a prompt: the bytes of its name,
// description and schema as compact JSON, by four. Models count differently, and add words of
// their own around it; to compare tools and toolsets, it is enough.
func Tokens(t gates.NamedTool) int {
	n := len(`{"name":,"description":,"schema":}`) + quoted(t.Name) + quoted(describe(t)) + compact(t.CallerInput())
	return (n + bytesPerToken - 1) / bytesPerToken
}

// quoted is the length of a text as a JSON string.
func quoted(s string) int {
	n := len(`""`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			n += 2
		case c < ' ':
			n += len(`\u0000`)
		default:
			n++
		}
	}
	return n
}

// compact is the length of JSON without the space between its tokens.
func compact(raw json.RawMessage) int {
	n, inString, escaped := 0, false, false
	for _, c := range raw {
		switch {
		case inString:
			inString = c != '"' || escaped
			escaped = c == '\\' && !escaped
		case c == ' ', c == '\n', c == '\r', c == '\t':
			continue
		case c == '"':
			inString = true
		}
		n++
	}
	return n
}
