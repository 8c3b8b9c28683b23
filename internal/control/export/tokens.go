package export

import (
	"encoding/json"

	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
)

// bytesPerToken is a rough average for JSON.
const bytesPerToken = 4

// Tokens estimates the prompt tokens in a tool definition: the bytes of its name, description and
// schema as compact JSON, divided by bytesPerToken. Models differ, but the estimate is good enough
// to compare tools and toolsets.
func Tokens(t gates.NamedTool) int {
	n := len(`{"name":,"description":,"schema":}`) + quoted(t.Name) + quoted(describe(t)) + compact(t.CallerInput())
	return (n + bytesPerToken - 1) / bytesPerToken
}

// ListTokens estimates the prompt tokens in a gate's tool list, including its meta-tools.
func ListTokens(v *gates.View) (n int) {
	for _, d := range offer.Definitions(v.Gate) {
		n += d.Tokens()
	}
	for _, t := range v.Listed() {
		n += Tokens(t)
	}
	return n
}

// quoted returns the length of s as a JSON string.
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

// compact returns the length of JSON without insignificant white space.
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
