package model

import (
	"encoding/json"
	"fmt"
	"slices"
)

var responsesWire = wire{
	base:   "https://api.openai.com/v1",
	path:   func(string) string { return "/responses" },
	auth:   bearer,
	encode: encodeResponses,
	decode: func(b *builder) decoder { return &responsesDecoder{builder: b} },
}

func bearer(key string) (name, value string) { return "Authorization", "Bearer " + key }

// encodeResponses encodes a request. It requests encrypted reasoning, because the provider stores
// nothing.
func encodeResponses(o *Options, r *Request) []byte {
	w := newWriter(r)
	w.open('{')
	w.member("model", o.Model)
	if r.System != "" {
		w.member("instructions", r.System)
	}
	w.key("stream").bool(true)
	w.key("store").bool(false)
	w.key("include").raw([]byte(`["reasoning.encrypted_content"]`))
	w.key("max_output_tokens").int(maxOutput(o, r))
	w.temperature(r)
	if len(r.Tools) > 0 {
		w.key("tools").open('[')
		for i := range r.Tools {
			f := &r.Tools[i]
			w.open('{')
			w.member("type", "function")
			w.member("name", f.Name)
			w.member("description", f.Description)
			w.key("parameters").raw(f.schema())
			w.key("strict").bool(false) // must be set, and most schemas do not satisfy strict mode
			w.close("}")
		}
		w.close("]")
		w.key("parallel_tool_calls").bool(true)
		w.member("tool_choice", toolChoice(r))
	}
	w.key("input").open('[')
	for i := range r.Messages {
		responseInput(w, &r.Messages[i])
	}
	w.close("]}")
	return w.out
}

func responseInput(w *writer, m *Message) {
	if m.Text != "" {
		chatText(w, "user", m.Text)
	}
	if m.Turn != nil {
		responseItems(w, m.Turn)
	}
	for k := range m.Answers {
		a := &m.Answers[k]
		w.open('{')
		w.member("type", "function_call_output")
		w.member("call_id", a.ID)
		w.member("output", a.Text)
		w.close("}")
	}
}

func toolChoice(r *Request) string {
	if r.NoTools {
		return "none"
	}
	return "auto"
}

func responseItems(w *writer, t *Turn) {
	if raw := t.raw(OpenAI); raw != nil {
		if items := interior(raw); items != nil {
			w.raw(items)
		}
		return
	}
	if t.Text != "" {
		chatText(w, "assistant", t.Text)
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		w.open('{')
		w.member("type", "function_call")
		w.member("call_id", c.ID)
		w.member("name", c.Name)
		w.member("arguments", string(c.arguments()))
		w.close("}")
	}
}

type responsesDecoder struct {
	*builder
	items []responseItem
}

// responseItem is a complete item in the output.
type responseItem struct {
	index   int
	raw     json.RawMessage
	Type    string `json:"type"`
	Status  string `json:"status"`
	Content []struct{ Type, Text, Refusal string }
	CallID  string `json:"call_id"`
	Name    string
	Args    string `json:"arguments"`
}

type responsesEvent struct {
	Type     string          `json:"type"`
	Index    int             `json:"output_index"`
	Item     json.RawMessage `json:"item"`
	Delta    string          `json:"delta"`
	Response responseEnd     `json:"response"`
}

// responseEnd is a response's final state.
type responseEnd struct {
	Output     []json.RawMessage `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error json.RawMessage `json:"error"`
	Usage *struct {
		Input        int64 `json:"input_tokens"`
		Output       int64 `json:"output_tokens"`
		InputDetails struct {
			Cached int64 `json:"cached_tokens"`
			Write  int64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
}

func (d *responsesDecoder) event(data []byte) (last bool, err error) {
	var kind struct {
		Type string `json:"type"`
	}
	if string(data) == "[DONE]" { // follows the last event
		return false, errIncomplete
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return false, fmt.Errorf("invalid event: %w", err)
	}
	var e responsesEvent
	switch kind.Type {
	case "error":
		return false, responsesError(data)
	case "":
		if p := parseProviderError(data); p.message != "" {
			return false, p.failure()
		}
	case "response.output_text.delta", "response.output_item.added", "response.output_item.done",
		"response.completed", "response.incomplete", "response.failed":
		if err := json.Unmarshal(data, &e); err != nil {
			return false, fmt.Errorf("invalid event %s: %w", kind.Type, err)
		}
	}
	switch e.Type {
	case "response.output_text.delta":
		if e.Delta != "" {
			d.on(Event{Text: e.Delta})
		}
	case "response.output_item.added":
		var item responseItem
		if json.Unmarshal(e.Item, &item) == nil && item.Type == "function_call" {
			d.beginCall(item.Name)
		}
	case "response.output_item.done":
		return false, d.add(e.Index, e.Item)
	case "response.completed", "response.incomplete", "response.failed":
		d.countUsage(&e.Response)
		return true, d.complete(&e)
	}
	return false, nil
}

func (d *responsesDecoder) end() error { return errIncomplete }

// responsesError reads an error event, whose members are at the top level or inside error.
func responsesError(data []byte) error {
	p := parseProviderError(data)
	if p.code == "" {
		var flat struct {
			Code string `json:"code"`
		}
		_ = json.Unmarshal(data, &flat) // an error that has no code is temporary
		p.code = flat.Code
	}
	return p.failure()
}

func (d *responsesDecoder) add(index int, raw json.RawMessage) error {
	if err := d.addPart(); err != nil {
		return err
	}
	item := responseItem{index: index, raw: raw}
	if err := json.Unmarshal(raw, &item); err != nil || !isObject(raw) {
		return fmt.Errorf("invalid output item %d", index)
	}
	d.items = append(d.items, item)
	return nil
}

func (d *responsesDecoder) countUsage(r *responseEnd) {
	if u := r.Usage; u != nil {
		d.count(Usage{
			Input: u.Input, Cached: u.InputDetails.Cached, CacheWrite: u.InputDetails.Write,
			Output: u.Output, Reasoning: u.OutputDetails.Reasoning,
		})
	}
}

// complete builds the turn from the items in the output.
func (d *responsesDecoder) complete(e *responsesEvent) error {
	switch {
	case e.Type == "response.failed":
		return parseProviderError(slices.Concat([]byte(`{"error":`), e.Response.Error, []byte("}"))).failure()
	case e.Response.Incomplete.Reason == "content_filter":
		return fail(Refused, "a content filter stopped the response")
	case e.Type == "response.incomplete":
		d.stop(StopLength)
	default:
		d.stop(StopEnd)
	}
	if len(d.items) == 0 { // some servers do not report individual items
		for i, raw := range e.Response.Output {
			if err := d.add(i, raw); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(d.items, func(a, b responseItem) int { return a.index - b.index })
	var raw []json.RawMessage
	for _, item := range d.items {
		raw = append(raw, item.raw)
		if err := d.addItem(&item); err != nil {
			return err
		}
	}
	d.turn.Raw = array(raw)
	return nil
}

func (d *responsesDecoder) addItem(item *responseItem) error {
	switch item.Type {
	case "message":
		for _, part := range item.Content {
			if part.Type == "refusal" {
				return fail(Refused, "the model declined to respond: %s", part.Refusal)
			}
			d.text.WriteString(part.Text)
		}
	case "function_call":
		if item.CallID == "" {
			return errNoID
		}
		if err := d.addCall(item.CallID, item.Name, item.Args); err != nil {
			return err
		}
		if item.Status == "incomplete" {
			d.invalidateLast("the turn ended in the middle of this call")
		}
	}
	return nil
}
