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
	var tools, messages []json.RawMessage
	for _, f := range r.Tools {
		tools = append(tools, object("type", "function",
			"function", object("name", f.Name, "description", f.Description, "parameters", f.schema())))
	}
	if r.System != "" {
		messages = append(messages, object("role", "system", "content", r.System))
	}
	for _, m := range r.Messages {
		if m.Text != "" {
			messages = append(messages, object("role", "user", "content", m.Text))
		}
		if m.Turn != nil && (m.Turn.Text != "" || len(m.Turn.Calls) > 0) {
			messages = append(messages, chatTurn(m.Turn))
		}
		for _, a := range m.Answers {
			messages = append(messages, object("role", "tool", "tool_call_id", a.ID, "content", a.Text))
		}
	}
	return object("model", o.Model, "stream", true, "stream_options", object("include_usage", true),
		o.MaxTokensField, maxOutput(o, r), "temperature", optional(r.Temperature),
		"tools", when(tools != nil, tools), "tool_choice", when(tools != nil && r.NoTools, "none"), "messages", messages)
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
	content := json.RawMessage("null")
	if text != "" {
		content = quote(text)
	}
	return object("role", "assistant", "content", content, "tool_calls", when(calls != nil, calls))
}

func chatCallOf(id, name, arguments string, extra json.RawMessage) json.RawMessage {
	return object("id", id, "type", "function", "function", object("name", name, "arguments", arguments),
		"extra_content", when(extra != nil, extra))
}

type chatDecoder struct {
	*builder
	calls   []*chatCall
	refusal strings.Builder
	reason  string
}

// chatCall is a call that is being received.
type chatCall struct {
	index     int
	id, name  string
	arguments strings.Builder
	deltas    int             // that have contributed to it
	extra     json.RawMessage // belongs to the provider, such as a signature
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
		return false, fmt.Errorf("an event is not valid: %w", err)
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
		d.addText(chatText(choice.Delta.Content))
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

// chatText returns the text of a content: a string, or a list of parts.
func chatText(content json.RawMessage) string {
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
		Arguments json.RawMessage `json:"arguments"` // a string; some servers send the object itself
	} `json:"function"`
}

func (d *chatDecoder) extend(raw json.RawMessage) error {
	var delta chatDelta
	if err := json.Unmarshal(raw, &delta); err != nil {
		return fmt.Errorf("a call fragment is invalid: %w", err)
	}
	call := d.callFor(&delta)
	if call == nil {
		if len(d.calls) == MaxCalls {
			return fmt.Errorf("the turn has more than %d calls", MaxCalls)
		}
		if delta.Function.Name == "" {
			return errors.New("a call fragment belongs to a call that has not started")
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
		return fmt.Errorf("the arguments of a call are larger than %d bytes", MaxEvent)
	}
	if call.extra == nil {
		call.extra = delta.Extra
	}
	call.deltas++
	return nil
}

// callFor returns the call that a delta continues, or nil if it starts a new one. Servers differ: some
// send no index or always 0, some no ID, some repeat ID and name in each delta.
func (d *chatDecoder) callFor(delta *chatDelta) *chatCall {
	for _, call := range slices.Backward(d.calls) {
		if delta.Index != nil && *delta.Index != call.index {
			continue
		}
		switch {
		case delta.ID != "" && call.id != "" && delta.ID != call.id:
			continue // another call with the same index
		case delta.ID == "" && delta.Function.Name != "" && call.whole(delta.Function.Name):
			return nil
		}
		return call
	}
	return nil
}

// whole reports whether a delta that has a name but no ID follows a call that was sent in one
// piece, and therefore starts another call. Only one piece is parsed, so that processing a turn
// takes linear time.
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
