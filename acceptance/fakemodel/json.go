package fakemodel

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// object encodes a JSON object. It omits nil values and copies raw values.
func object(pairs ...any) json.RawMessage {
	out := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, marshal(pairs[i])...), ':')
		out = append(out, marshal(pairs[i+1])...)
	}
	return append(out, '}')
}

// marshal encodes a value and leaves its raw parts unchanged.
func marshal(v any) json.RawMessage {
	switch v := v.(type) {
	case json.RawMessage:
		return v
	case []json.RawMessage:
		out := []byte{'['}
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, item...)
		}
		return append(out, ']')
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // cannot happen: callers pass scalars, maps and slices
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// equalJSON reports whether two texts represent the same JSON value.
func equalJSON(a, b json.RawMessage) bool {
	decode := func(data []byte) (v any, err error) {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(&v)
		return v, err
	}
	x, errX := decode(a)
	y, errY := decode(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// maxPieces limits the number of events for a text.
const maxPieces = 1000

// pieces splits a text between characters, for streaming.
func pieces(text string, size int) (list []string) {
	size = max(size, len(text)/maxPieces)
	for len(text) > 0 {
		end := 0
		for i := range text {
			if i >= size {
				end = i
				break
			}
		}
		if end == 0 {
			end = len(text)
		}
		list = append(list, text[:end])
		text = text[end:]
	}
	return list
}
