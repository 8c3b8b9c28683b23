package record

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Keep specifies how much of the arguments is recorded.
type Keep string

// The levels: nothing, the names and types of members, or everything except secrets.
const (
	Off   Keep = "off"
	Shape Keep = "shape"
	Full  Keep = "full"
)

// Arguments controls the recording of arguments. The zero value records none.
type Arguments struct {
	Keep Keep
	// Redact removes secrets from a string. If it is nil, Full is treated as Shape.
	Redact func(string) string
}

// Limits on the recorded arguments of one call.
const (
	maxKept    = 8 << 10 // bytes
	maxMembers = 64      // members in a shape
	maxMember  = 64      // bytes of a member name in a shape
)

// kept returns the arguments to record as JSON, or nil. Redact runs before truncation, so that
// truncation cannot leave part of a secret at the end.
func (a Arguments) kept(args json.RawMessage) json.RawMessage {
	if a.Keep != Shape && a.Keep != Full || !json.Valid(args) {
		return nil
	}
	redact := a.Redact
	if redact == nil {
		redact = func(s string) string { return s }
	}
	if a.Keep == Full && a.Redact != nil {
		return full(args, redact)
	}
	return shape(args, redact)
}

// shape returns an object with the type of each member, such as {"symbol":"string"}. If there are
// too many members, the member "…" contains the number of omitted ones.
func shape(args json.RawMessage, redact func(string) string) json.RawMessage {
	b := []byte{'{'}
	n := 0
	for key, value := range strictjson.Members(args) {
		if n++; n > maxMembers {
			continue
		}
		b = jsonobject.AppendString(b, untrusted.Truncate(clean(redact(key)), maxMember))
		b = append(append(append(b, `:"`...), kindOf(value)...), `",`...)
	}
	if n > maxMembers {
		b = append(append(strconv.AppendInt(append(b, `"…":"`...), int64(n-maxMembers), 10), ` more"`...), ',')
	}
	if last := len(b) - 1; b[last] == ',' {
		b = b[:last]
	}
	return append(b, '}')
}

// kindOf returns the type of a JSON value.
func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// full returns the arguments with secrets removed. If they are too long, it returns an object with
// the start of their text and their size.
func full(args json.RawMessage, redact func(string) string) json.RawMessage {
	b := make([]byte, 0, min(len(args), maxKept)+64)
	for i := 0; i < len(args) && len(b) <= maxKept; {
		end := literal(args, i)
		switch c := args[i]; {
		case c == '"':
			var s string
			_ = json.Unmarshal(args[i:end], &s) // the JSON is valid
			b = jsonobject.AppendString(b, clean(redact(s)))
		case c == '-' || '0' <= c && c <= '9':
			number := string(args[i:end])
			if shown := redact(number); shown != number {
				b = jsonobject.AppendString(b, shown)
			} else {
				b = append(b, number...)
			}
		default:
			b = append(b, c)
		}
		i = end
	}
	if len(b) <= maxKept {
		return b
	}
	return cutFull(b, len(args))
}

// cutFull returns an object with the start of a text and its size.
func cutFull(text []byte, size int) json.RawMessage {
	const envelope = len(`{"cut":"","bytes":}`) + 20
	for n := maxKept - envelope; ; n = n * 3 / 4 { // escaping may make the text longer
		b := jsonobject.AppendString([]byte(`{"cut":`), untrusted.Truncate(string(text), n))
		b = append(strconv.AppendInt(append(b, `,"bytes":`...), int64(size), 10), '}')
		if len(b) <= maxKept {
			return b
		}
	}
}

// literal returns the end of the string or number at i in valid JSON, or i+1 for anything else.
func literal(text []byte, i int) int {
	end := i + 1
	switch c := text[i]; {
	case c == '"':
		for ; text[end] != '"'; end++ {
			if text[end] == '\\' {
				end++
			}
		}
		return end + 1
	case c == '-' || '0' <= c && c <= '9':
		for end < len(text) && strings.IndexByte("0123456789+-.eE", text[end]) >= 0 {
			end++
		}
	}
	return end
}

// clean removes NUL, which PostgreSQL does not accept in text.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", "\uFFFD") }
