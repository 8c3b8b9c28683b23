package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

var chatWire = wire{
	path:   func(string) string { return "/chat/completions" },
	auth:   bearer,
	encode: encodeChat,
	decode: func(b *builder) decoder { return &chatDecoder{builder: b} },
}

func encodeChat(o *Options, r *Request) []byte {
	w := newWriter(r)
	w.open('{')
	w.member("model", o.Model)
	w.key("stream").bool(true)
	w.key("stream_options").raw([]byte(`{"include_usage":true}`))
	w.key(o.MaxTokensField).int(maxOutput(o, r))
	w.temperature(r)
	if len(r.Tools) > 0 {
		w.key("tools").open('[')
		for i := range r.Tools {
			f := &r.Tools[i]
			w.open('{')
			w.member("type", "function")
			w.key("function").open('{')
			w.member("name", f.Name)
			w.member("description", f.Description)
			w.key("parameters").raw(f.schema())
			w.close("}}")
		}
		w.close("]")
		if r.NoTools {
			w.member("tool_choice", "none")
		}
	}
	w.key("messages").open('[')
	if r.System != "" {
		chatText(w, "system", r.System)
	}
	for i := range r.Messages {
		chatMessages(w, &r.Messages[i])
	}
	w.close("]}")
	return w.out
}

func chatText(w *writer, role, text string) {
	w.open('{')
	w.member("role", role)
	w.member("content", text)
	w.close("}")
}

// chatMessages encodes a message. A message with several answers becomes several messages.
func chatMessages(w *writer, m *Message) {
	if m.Text != "" {
		chatText(w, "user", m.Text)
	}
	if m.Turn != nil && (m.Turn.Text != "" || len(m.Turn.Calls) > 0) {
		w.raw(chatTurn(m.Turn))
	}
	for k := range m.Answers {
		a := &m.Answers[k]
		w.open('{')
		w.member("role", "tool")
		w.member("tool_call_id", a.ID)
		w.member("content", a.Text)
		w.close("}")
	}
}

func chatTurn(t *Turn) json.RawMessage {
	if raw := t.raw(Chat); raw != nil {
		return raw
	}
	var calls []json.RawMessage
	for _, c := range t.Calls {
		calls = append(calls, chatCallOf(c.ID, c.Name, string(c.arguments()), nil))
	}
	return chatMessage(t.Text, calls)
}

func chatMessage(text string, calls []json.RawMessage) json.RawMessage {
	w := &writer{}
	w.open('{')
	w.member("role", "assistant")
	if text != "" {
		w.member("content", text)
	} else {
		w.key("content").raw([]byte("null"))
	}
	if calls != nil {
		w.key("tool_calls").raw(array(calls))
	}
	w.close("}")
	return w.out
}

func chatCallOf(id, name, arguments string, extra json.RawMessage) json.RawMessage {
	w := &writer{}
	w.open('{')
	w.member("id", id)
	w.member("type", "function")
	w.key("function").open('{')
	w.member("name", name)
	w.member("arguments", arguments)
	w.close("}")
	if extra != nil {
		w.key("extra_content").raw(extra)
	}
	w.close("}")
	return w.out
}

type chatDecoder struct {
	*builder
	calls   []*chatCall
	refusal strings.Builder
	reason  string
}

// chatCall is a call that is still being received.
type chatCall struct {
	index     int
	id, name  string
	arguments strings.Builder
	deltas    int             // number of deltas received
	extra     json.RawMessage // data that belongs to the provider, such as a signature
}

type chatChunk struct {
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Index int `json:"index"`
		Delta struct {
			Content json.RawMessage   `json:"content"`
			Refusal string            `json:"refusal"`
			Calls   []json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input        int64 `json:"prompt_tokens"`
		Output       int64 `json:"completion_tokens"`
		InputDetails struct {
			Cached int64 `json:"cached_tokens"`
			Write  int64 `json:"cache_write_tokens"`
		} `json:"prompt_tokens_details"`
		OutputDetails struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	} `json:"usage"`
}

func (d *chatDecoder) event(data []byte) (last bool, err error) {
	if string(data) == "[DONE]" {
		return true, d.complete()
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("invalid event: %w", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return false, parseProviderError(data).failure()
	}
	if u := c.Usage; u != nil {
		d.count(Usage{
			Input: u.Input, Cached: u.InputDetails.Cached, CacheWrite: u.InputDetails.Write,
			Output: u.Output, Reasoning: u.OutputDetails.Reasoning,
		})
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		d.addText(contentText(choice.Delta.Content))
		d.refusal.WriteString(choice.Delta.Refusal)
		for _, delta := range choice.Delta.Calls {
			if err := d.extend(delta); err != nil {
				return false, err
			}
		}
		if choice.FinishReason != "" {
			d.reason = choice.FinishReason
		}
	}
	return false, nil
}

func (d *chatDecoder) end() error { return errIncomplete }

// contentText returns a content's text. The content is a string or a list of parts.
func contentText(content json.RawMessage) string {
	var s string
	if len(content) == 0 || json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(content, &parts) // other values have no text
	for _, p := range parts {
		if p.Type == "text" {
			s += p.Text
		}
	}
	return s
}

// chatDelta is a part of a call.
type chatDelta struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Extra    json.RawMessage `json:"extra_content"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a string, although some servers send the object itself
	} `json:"function"`
}

func (d *chatDecoder) extend(raw json.RawMessage) error {
	var delta chatDelta
	if err := json.Unmarshal(raw, &delta); err != nil {
		return fmt.Errorf("part of a function call is invalid: %w", err)
	}
	call := d.callFor(&delta)
	if call == nil {
		if len(d.calls) == MaxCalls {
			return fmt.Errorf("the turn has more than %d calls", MaxCalls)
		}
		if delta.Function.Name == "" {
			return errors.New("part of a function call arrived before the call started")
		}
		call = &chatCall{index: len(d.calls), id: delta.ID, name: delta.Function.Name}
		if delta.Index != nil {
			call.index = *delta.Index
		}
		d.calls = append(d.calls, call)
		d.beginCall(call.name)
	}
	setDefault(&call.id, delta.ID)
	if arguments := delta.Function.Arguments; len(arguments) > 0 && string(arguments) != "null" {
		call.arguments.WriteString(text(arguments))
	}
	if call.arguments.Len() > MaxEvent {
		return fmt.Errorf("call arguments exceed %d bytes", MaxEvent)
	}
	if call.extra == nil {
		call.extra = delta.Extra
	}
	call.deltas++
	return nil
}

// callFor returns the call that a delta continues, or nil if it starts a new one. Servers differ:
// some send no index, or always 0; some send no ID; some repeat the ID and the name in each delta.
func (d *chatDecoder) callFor(delta *chatDelta) *chatCall {
	for _, call := range slices.Backward(d.calls) {
		if delta.Index != nil && *delta.Index != call.index {
			continue
		}
		switch {
		case delta.ID != "" && call.id != "" && delta.ID != call.id:
			continue // this is another call with the same index
		case delta.ID == "" && delta.Function.Name != "" && call.whole(delta.Function.Name):
			return nil
		}
		return call
	}
	return nil
}

// whole reports whether the call was sent in one piece, so that a delta with a name but no ID
// starts another call. Only one piece is parsed, so that processing a turn takes linear time.
func (c *chatCall) whole(next string) bool {
	if c.deltas != 1 {
		return false
	}
	if c.arguments.Len() == 0 {
		return next != c.name
	}
	return isObject(json.RawMessage(c.arguments.String()))
}

func (d *chatDecoder) complete() error {
	switch {
	case d.refusal.Len() > 0:
		return fail(Refused, "the model declined to respond: %s", d.refusal.String())
	case d.reason == "content_filter":
		return fail(Refused, "a content filter stopped the response")
	case d.reason == "error":
		return fail(Unavailable, "the provider stopped the response with an error")
	case d.reason == "length":
		d.stop(StopLength)
	case d.reason != "":
		d.stop(StopEnd)
	}
	var calls []json.RawMessage
	for i, c := range d.calls {
		if err := d.addCall(c.id, c.name, c.arguments.String()); err != nil {
			return err
		}
		arguments := c.arguments.String()
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		calls = append(calls, chatCallOf(d.turn.Calls[i].ID, c.name, arguments, c.extra))
	}
	d.turn.Raw = chatMessage(d.text.String(), calls)
	return nil
}
