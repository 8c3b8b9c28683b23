package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// object encodes a JSON object from names and values. A value is a [json.RawMessage] or an array of
// them, which are copied byte for byte, or a scalar; nil values are omitted. [json.Marshal] would
// reformat raw parts, which providers sign.
func object(pairs ...any) json.RawMessage {
	size := len("{}")
	for i, value := range pairs {
		size += len(`"":`) * (1 - i%2)
		size += sizeOf(value)
	}
	out := append(make([]byte, 0, size), '{')
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(appendValue(out, pair[0]), ':')
		out = appendValue(out, pair[1])
	}
	return append(out, '}')
}

// sizeOf estimates the size of an encoded value, so that most objects need only one allocation.
func sizeOf(value any) (size int) {
	const scalar = 16
	switch v := value.(type) {
	case string:
		return len(v) + scalar
	case json.RawMessage:
		return len(v) + 1
	case []json.RawMessage:
		for _, item := range v {
			size += len(item) + 1
		}
	}
	return size + scalar
}

func appendValue(out []byte, value any) []byte {
	switch v := value.(type) {
	case json.RawMessage:
		return append(out, v...)
	case []json.RawMessage:
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, item...)
		}
		return append(out, ']')
	case string:
		if isPlain(v) {
			return append(append(append(out, '"'), v...), '"')
		}
	case bool:
		return strconv.AppendBool(out, v)
	case int:
		return strconv.AppendInt(out, int64(v), 10)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // callers pass scalars only
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// isPlain reports whether a string needs no escaping in JSON, as is usually the case.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func array(items []json.RawMessage) json.RawMessage { return appendValue(nil, items) }

func quote(s string) json.RawMessage { return appendValue(nil, s) }

// elements returns the elements of a JSON array, byte for byte.
func elements(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // other values have no elements
	return list
}

// schema returns the parameters of a function as all providers accept them: an object with a type
// and properties.
func (f *Function) schema() json.RawMessage {
	if f.Parameters == nil {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if strictjson.Check(f.Parameters) != nil {
		return f.Parameters
	}
	missing := ""
	if strictjson.Member(f.Parameters, "type") == nil {
		missing += `"type":"object"`
	}
	if strictjson.Member(f.Parameters, "properties") == nil {
		if missing != "" {
			missing += ","
		}
		missing += `"properties":{}`
	}
	inner := bytes.TrimSpace(bytes.TrimSpace(f.Parameters)[1:])
	switch {
	case missing == "":
		return f.Parameters
	case inner[0] == '}':
		return json.RawMessage("{" + missing + "}")
	}
	return append([]byte("{"+missing+","), inner...)
}

// optional returns nil for a nil pointer, which [object] leaves out.
func optional[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// when returns the value if the condition holds, and nil otherwise.
func when(condition bool, value any) any {
	if condition {
		return value
	}
	return nil
}

// maxOutput returns the limit for a turn.
func maxOutput(o *Options, r *Request) int {
	if r.MaxOutput > 0 {
		return min(r.MaxOutput, o.MaxOutput)
	}
	return o.MaxOutput
}

// raw returns the raw parts of a turn if they are in the given format.
func (t *Turn) raw(api API) json.RawMessage {
	if t.API != api || !json.Valid(t.Raw) {
		return nil
	}
	return t.Raw
}

// arguments returns the arguments to send back for a call.
func (c *FunctionCall) arguments() json.RawMessage {
	if !isObject(c.Arguments) {
		return json.RawMessage("{}")
	}
	return c.Arguments
}
