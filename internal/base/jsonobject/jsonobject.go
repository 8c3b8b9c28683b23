// Package jsonobject reads and writes JSON objects member by member, in order and with
// their exact keys, which decoding into a struct or a map would lose.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Kind returns the first byte of a JSON value, which identifies its type, or 0 if raw is
// empty.
func Kind(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// Map returns the members of a JSON object by their exact keys.
func Map(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var o map[string]json.RawMessage
	if Kind(raw) != '{' || json.Unmarshal(raw, &o) != nil {
		return nil, false
	}
	return o, true
}

// String returns the value of a JSON string.
func String(raw json.RawMessage) (s string, ok bool) {
	if Kind(raw) != '"' {
		return "", false
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// Member is a member of a JSON object.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Members returns the members of a JSON object in order.
func Members(raw json.RawMessage) (list []Member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := Member{Key: key.(string)} // object keys are always strings
		if err := dec.Decode(&m.Value); err != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}

// Join returns the JSON object with the given members.
func Join(list []Member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(AppendString(b, m.Key), ':'), m.Value...)
	}
	return append(b, '}')
}

// Marshal is like json.Marshal, but does not escape <, > and &. Results are not HTML, and the
// escapes would cost models tokens.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// AppendString appends s as a JSON string. It replaces invalid UTF-8 with U+FFFD.
func AppendString(b []byte, s string) []byte {
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
