package model

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// writer appends JSON to a buffer and adds commas where necessary. Raw parts are copied byte for
// byte: [json.Marshal] would reformat them, and providers sign some of them.
type writer struct{ out []byte }

// newWriter returns a writer with room for an encoded request.
func newWriter(r *Request) *writer {
	const frame = 128 // bytes for the member names around a value
	size := 4*frame + len(r.System)
	for i := range r.Tools {
		f := &r.Tools[i]
		size += frame + len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		size += frame + len(m.Text)
		if m.Turn != nil {
			size += len(m.Turn.Raw) + len(m.Turn.Text)
		}
		for k := range m.Answers {
			size += frame + len(m.Answers[k].ID) + len(m.Answers[k].Text)
		}
	}
	return &writer{make([]byte, 0, size+size/8)} // leaves room for escaped characters
}

// separate appends a comma unless this is the first value.
func (w *writer) separate() {
	if n := len(w.out); n > 0 && w.out[n-1] != '{' && w.out[n-1] != '[' && w.out[n-1] != ':' {
		w.out = append(w.out, ',')
	}
}

// open begins an object or an array.
func (w *writer) open(c byte) {
	w.separate()
	w.out = append(w.out, c)
}

// close ends objects and arrays.
func (w *writer) close(c string) { w.out = append(w.out, c...) }

// key appends a member's name. The value must follow.
func (w *writer) key(name string) *writer {
	w.text(name)
	w.out = append(w.out, ':')
	return w
}

func (w *writer) text(s string) {
	w.separate()
	w.out = jsonobject.AppendString(w.out, s)
}

// raw appends JSON: a value, or several values with commas between them.
func (w *writer) raw(values []byte) {
	w.separate()
	w.out = append(w.out, values...)
}

func (w *writer) bool(b bool) {
	w.separate()
	w.out = strconv.AppendBool(w.out, b)
}

func (w *writer) int(n int) {
	w.separate()
	w.out = strconv.AppendInt(w.out, int64(n), 10)
}

// member appends a member with a string value.
func (w *writer) member(name, text string) { w.key(name).text(text) }

// temperature appends the temperature if the request has one.
func (w *writer) temperature(r *Request) {
	if r.Temperature != nil {
		w.key("temperature")
		w.out = strconv.AppendFloat(w.out, *r.Temperature, 'g', -1, 64)
	}
}

func quote(s string) json.RawMessage { return jsonobject.AppendString(nil, s) }

// array encodes a JSON array.
func array(items []json.RawMessage) json.RawMessage {
	w := &writer{}
	w.open('[')
	for _, item := range items {
		w.raw(item)
	}
	w.close("]")
	return w.out
}

// interior returns the elements of a JSON array with the commas between them, byte for byte. It
// returns nil if there are none.
func interior(raw json.RawMessage) []byte {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	if raw = bytes.TrimSpace(raw[1 : len(raw)-1]); len(raw) == 0 {
		return nil
	}
	return raw
}

// schema returns a function's parameters in a form that all providers accept: an object with a type
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

// maxOutput returns the limit for a turn's output tokens.
func maxOutput(o *Options, r *Request) int {
	if r.MaxOutput > 0 {
		return min(r.MaxOutput, o.MaxOutput)
	}
	return o.MaxOutput
}

// raw returns a turn's raw parts if they are in the given format.
func (t *Turn) raw(api API) json.RawMessage {
	if t.API != api || !valid(t.Raw) {
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
