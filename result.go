package toolyard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Result is the result of a call: content and structured data, or the unchanged bytes of a
// result from an MCP server.
type Result struct {
	Content    []Content
	Structured json.RawMessage // any JSON value, or nil
	IsError    bool
	Meta       map[string]json.RawMessage

	raw        json.RawMessage
	content    json.RawMessage // the content member of raw
	unfinished bool
}

// UnmarshalJSON sets r to an MCP server's result object. Clients later receive exactly these bytes,
// so the order of members, large numbers and unknown members are preserved.
func (r *Result) UnmarshalJSON(raw []byte) error {
	res, err := rawResult(bytes.Clone(raw))
	if err == nil {
		*r = *res
	}
	return err
}

func rawResult(raw json.RawMessage) (*Result, error) {
	o, ok := jsonobject.Map(raw)
	if !ok {
		return nil, errors.New("the result is not a JSON object")
	}
	res := &Result{Structured: o["structuredContent"], raw: raw, content: o["content"]}
	res.IsError = string(o["isError"]) == "true"
	if t, ok := jsonobject.String(o["resultType"]); ok && t != "complete" {
		res.unfinished = true
	}
	return res, nil
}

// InputRequired reports whether the server needs input from the client before it can continue.
func (r *Result) InputRequired() bool { return r.unfinished }

// CanTruncate reports whether the result can be truncated. Input requests and resources cannot.
func (r *Result) CanTruncate() bool {
	return r.raw == nil || !r.unfinished && jsonobject.Kind(r.content) == '['
}

// Raw returns the bytes of a result that was decoded from JSON, or nil.
func (r *Result) Raw() json.RawMessage { return r.raw }

// MarshalJSON encodes the result as an MCP result object.
func (r *Result) MarshalJSON() ([]byte, error) {
	if r.raw != nil {
		return r.raw, nil
	}
	whole := struct {
		Content    []json.RawMessage          `json:"content"`
		Structured json.RawMessage            `json:"structuredContent,omitempty"`
		IsError    bool                       `json:"isError,omitempty"`
		Meta       map[string]json.RawMessage `json:"_meta,omitempty"`
	}{[]json.RawMessage{}, r.Structured, r.IsError, r.Meta}
	for _, c := range r.Content {
		whole.Content = append(whole.Content, c.AppendJSON(nil))
	}
	return jsonobject.Marshal(whole)
}

// Failure returns a result that reports an expected failure to the model. Return an error for
// an unexpected one.
func Failure(format string, args ...any) *Result {
	return &Result{Content: []Content{Text(fmt.Sprintf(format, args...))}, IsError: true}
}

// ResultOf converts a tool's return value into a Result:
//
//	nil                        no content
//	string, number, bool       one text item
//	object                     its JSON as text, and as structured content
//	array                      an item for each element, and as structured content
//	{isError: true, error: x}  a failure with the text x
//	a content object           that content
//	{content: [...]}           an MCP result, unchanged, if all items are content
//
// It returns a *Result, a Content, a []Content or an error as it is. Any other value is encoded
// as JSON first.
func ResultOf(v any) (*Result, error) {
	switch v := v.(type) {
	case nil:
		return &Result{}, nil
	case *Result:
		return v, nil
	case Content:
		return &Result{Content: []Content{v}}, nil
	case []Content:
		return &Result{Content: v}, nil
	case error:
		return nil, v
	case string:
		return &Result{Content: []Content{Text(v)}}, nil
	case json.RawMessage:
		return resultOfJSON(v)
	}
	raw, err := jsonobject.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the result as JSON: %w", err)
	}
	return resultOfJSON(raw)
}

func resultOfJSON(raw json.RawMessage) (*Result, error) {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		return nil, errors.New("the result is not valid JSON")
	}
	switch jsonobject.Kind(raw) {
	case 'n':
		return &Result{}, nil
	case '{':
		return resultOfObject(raw)
	case '[':
		return resultOfList(raw, contentOf)
	}
	return &Result{Content: []Content{contentOf(raw)}}, nil
}

// resultOfList returns the list as structured content, with one content item for each element.
func resultOfList(raw json.RawMessage, contentOf func(json.RawMessage) Content) (*Result, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	res := &Result{Structured: raw}
	for _, item := range items {
		res.Content = append(res.Content, contentOf(item))
	}
	return res, nil
}

func resultOfObject(raw json.RawMessage) (*Result, error) {
	o, _ := jsonobject.Map(raw)
	if isWholeResult(o) {
		return rawResult(raw)
	}
	if string(o["isError"]) == "true" && o["error"] != nil {
		return &Result{Content: []Content{contentOf(o["error"])}, IsError: true}, nil
	}
	if isContent(raw) {
		return &Result{Content: []Content{rawContent(raw)}}, nil
	}
	return &Result{Content: []Content{Text(raw)}, Structured: raw}, nil
}

// isWholeResult reports whether an object is an MCP result: its content is a list of content
// objects. If that list is empty, the object must not have any other members.
func isWholeResult(o map[string]json.RawMessage) bool {
	var items []json.RawMessage
	if jsonobject.Kind(o["content"]) != '[' || json.Unmarshal(o["content"], &items) != nil {
		return false
	}
	for _, item := range items {
		if !isContent(item) {
			return false
		}
	}
	for key := range o {
		if len(items) == 0 && !slices.Contains([]string{"content", "structuredContent", "isError", "_meta"}, key) {
			return false
		}
	}
	return true
}

// structuredResult returns the result of a tool with an output schema: the value is structured
// data, even if it looks like content.
func structuredResult(v any) (*Result, error) {
	raw, err := jsonobject.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the result as JSON: %w", err)
	}
	if string(raw) == "null" { // encode a nil slice or map as empty
		switch reflect.TypeOf(v).Kind() {
		case reflect.Slice:
			raw = json.RawMessage("[]")
		case reflect.Map:
			raw = json.RawMessage("{}")
		}
	}
	if jsonobject.Kind(raw) == '[' {
		return resultOfList(raw, dataOf)
	}
	return &Result{Content: []Content{Text(raw)}, Structured: raw}, nil
}

// dataOf returns the content for a data element: a string as text, and any other value as JSON.
func dataOf(raw json.RawMessage) Content {
	if text, ok := jsonobject.String(raw); ok {
		return Text(text)
	}
	return Text(raw)
}

// contentOf returns the content for an element: a content object is returned unchanged, and any
// other value as data.
func contentOf(raw json.RawMessage) Content {
	if isContent(raw) {
		return rawContent(raw)
	}
	return dataOf(raw)
}

// isContent reports whether raw is a content object of a known type with all required members.
// Other objects with a "type" member are data.
func isContent(raw json.RawMessage) bool {
	o, ok := jsonobject.Map(raw)
	if !ok {
		return false
	}
	has := func(keys ...string) bool {
		for _, k := range keys {
			if _, ok := jsonobject.String(o[k]); !ok {
				return false
			}
		}
		return true
	}
	switch kind, _ := jsonobject.String(o["type"]); kind {
	case "text":
		return has("text")
	case "image", "audio":
		return has("data", "mimeType")
	case "resource_link":
		return has("uri", "name")
	case "resource":
		inner, _ := jsonobject.Map(o["resource"])
		_, ok := jsonobject.String(inner["uri"])
		return ok
	}
	return false
}

// check returns an error if the content, the structured data or the metadata is not valid JSON.
func (r *Result) check() error {
	r.Structured = bytes.TrimSpace(r.Structured)
	if len(r.Structured) == 0 {
		r.Structured = nil
	} else if !json.Valid(r.Structured) {
		return errors.New("the structured content is not valid JSON")
	}
	for _, c := range r.Content {
		if c == nil || !isJSON(c) {
			return errors.New("a content item is not valid JSON")
		}
	}
	for key, value := range r.Meta {
		if !json.Valid(value) {
			return fmt.Errorf("_meta.%s is not valid JSON", key)
		}
	}
	return nil
}

// isJSON reports whether a content item is encoded as valid JSON. This package's own types always
// are.
func isJSON(c Content) bool {
	switch c.(type) {
	case Text, Image, Audio, Link, EmbeddedResource:
		return true
	}
	return json.Valid(c.AppendJSON(nil))
}

// Size returns the size of the content and the structured data in bytes.
func (r *Result) Size() int {
	if r.raw != nil {
		return len(r.raw)
	}
	n := len(r.Structured)
	for key, value := range r.Meta {
		n += len(key) + len(value)
	}
	for _, c := range r.Content {
		n += contentSize(c)
	}
	return n
}

// envelope is the size of the JSON around a text item.
const envelope = len(`{"type":"text","text":""},`)

func contentSize(c Content) int {
	if t, ok := c.(Text); ok {
		return len(t) + envelope
	}
	return len(c.AppendJSON(nil)) + 1
}

// Items returns the content, even if the result is raw.
func (r *Result) Items() []Content { return slices.Collect(r.items()) }

// items iterates over the content, decoding a raw result item by item.
func (r *Result) items() iter.Seq[Content] {
	if r.raw == nil {
		return slices.Values(r.Content)
	}
	return func(yield func(Content) bool) {
		dec := json.NewDecoder(bytes.NewReader(r.content))
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			return // the content is not a list
		}
		for dec.More() {
			var item json.RawMessage
			if dec.Decode(&item) != nil || !yield(textOr(item)) {
				return
			}
		}
	}
}

// Truncate returns a result of about limit bytes. It cuts text between characters, drops other
// content that does not fit, and appends a note with the full size.
func (r *Result) Truncate(limit int) *Result {
	size := r.Size()
	if size <= limit {
		return r
	}
	mark := Text(fmt.Sprintf("[truncated: the full result is %d bytes; the limit is %d]", size, limit))
	cut := &Result{IsError: r.IsError, Meta: map[string]json.RawMessage{
		"dev.toolyard/truncated": json.RawMessage(fmt.Sprintf(`{"size":%d,"limit":%d}`, size, limit)),
	}}
	left, skipped := limit-cut.Size()-contentSize(mark), 0
	for c := range r.items() {
		if n := contentSize(c); n <= left {
			cut.Content = append(cut.Content, c)
			left -= n
			continue
		}
		if t, ok := c.(Text); ok && left > envelope {
			cut.Content = append(cut.Content, Text(untrusted.Prefix(string(t), left-envelope)))
			left = 0
		}
		if skipped++; left <= envelope || skipped > maxSkipped {
			break
		}
	}
	cut.Content = append(cut.Content, mark)
	return cut
}

// maxSkipped limits how many items are skipped to find one that fits.
const maxSkipped = 1000

// textOr decodes a text content object so that it can be truncated.
func textOr(raw json.RawMessage) Content {
	var t struct {
		Type string          `json:"type"`
		Text json.RawMessage `json:"text"`
	}
	if json.Unmarshal(raw, &t) != nil || t.Type != "text" {
		return rawContent(raw)
	}
	if text, ok := jsonobject.String(t.Text); ok {
		return Text(text)
	}
	return rawContent(raw)
}
