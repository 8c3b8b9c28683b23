package toolyard

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// kindOf is the first byte of a JSON value, which tells its kind; 0 when there is
// none.
func kindOf(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// members are the members of a JSON object under their exact keys, which decoding into a
// struct would not give.
func members(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var o map[string]json.RawMessage
	if kindOf(raw) != '{' || json.Unmarshal(raw, &o) != nil {
		return nil, false
	}
	return o, true
}

// textOf is the text of a JSON string.
func textOf(raw json.RawMessage) (text string, ok bool) {
	if kindOf(raw) != '"' {
		return "", false
	}
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// marshal is json.Marshal without escaping <, > and &: results are not HTML, and the
// escapes cost the model tokens.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// mustMarshal is for values that always have a JSON form.
func mustMarshal(v any) json.RawMessage {
	raw, err := marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// AppendJSONString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
