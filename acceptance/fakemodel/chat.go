package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// chatAPI implements OpenAI Chat Completions.
type chatAPI struct{ responsesAPI }

func (chatAPI) name() string { return "chat" }

type chatCall struct {
	ID, Type string
	Function struct{ Name, Arguments string }
	Extra    json.RawMessage `json:"extra_content"`
}

func (chatAPI) check(_ http.Header, body map[string]json.RawMessage) (*conversation, error) {
	err := errors.Join(requireText(body, "model"), requireTrue(body, "stream"),
		onlyFields("request", body, "model", "stream", "stream_options", "max_completion_tokens", "max_tokens", "tools", "tool_choice",
			"parallel_tool_calls", "messages", "temperature", "top_p", "reasoning_effort"))
	if err != nil {
		return nil, err
	}
	c := &conversation{noTools: string(body["tool_choice"]) == `"none"`}
	var tools []json.RawMessage
	_ = json.Unmarshal(body["tools"], &tools)
	for _, data := range tools {
		var t struct {
			Type     string
			Function json.RawMessage
		}
		var f struct {
			Name       string
			Parameters json.RawMessage
		}
		if err := decode("tool", data, &t, "type", "function"); err != nil {
			return nil, err
		}
		if err := decode("function", t.Function, &f, "name", "description", "parameters", "strict"); err != nil {
			return nil, err
		}
		if err := c.declare(f.Name, f.Parameters); err != nil {
			return nil, err
		}
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(body["messages"], &messages); err != nil {
		return nil, err
	}
	for i, data := range messages {
		if err := c.addChat(i, data); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return c, nil
}

func (c *conversation) addChat(i int, data json.RawMessage) error {
	var m struct {
		Role    string
		Content json.RawMessage
		Calls   []chatCall `json:"tool_calls"`
		CallID  string     `json:"tool_call_id"`
	}
	if err := decode("message", data, &m, "role", "content", "tool_calls", "tool_call_id", "refusal", "name"); err != nil {
		return err
	}
	text := responsesText(m.Content)
	switch m.Role {
	case "system", "developer":
		if i != 0 {
			return errors.New("the system message must be the first")
		}
	case "user":
		c.messages = append(c.messages, message{text: text})
	case "assistant":
		if text == "" && len(m.Calls) == 0 {
			return errors.New("an assistant message needs content or calls")
		}
		next := message{turn: []json.RawMessage{data}}
		for _, call := range m.Calls {
			if call.ID == "" || call.Type != "function" {
				return errors.New("a call needs an ID and the type function")
			}
			next.calls = append(next.calls, call.ID)
		}
		c.messages = append(c.messages, next)
	case "tool":
		last := len(c.messages) - 1
		if last >= 0 && c.messages[last].answers == nil {
			c.messages = append(c.messages, message{})
			last++
		}
		if last < 0 {
			return errors.New("an answer without a call")
		}
		c.messages[last].answers = append(c.messages[last].answers, answer{m.CallID, text})
	default:
		return fmt.Errorf("unexpected role %q", m.Role)
	}
	return nil
}

// same compares the parts that the format has: the text, and calls with their arguments as they
// were sent.
func (chatAPI) same(got []json.RawMessage, sent *reply, _ bool) string {
	var m struct {
		Content json.RawMessage
		Calls   []chatCall `json:"tool_calls"`
	}
	if err := json.Unmarshal(got[0], &m); err != nil {
		return err.Error()
	}
	if text := responsesText(m.Content); text != sent.say {
		return fmt.Sprintf("the text is %q, sent was %q", text, sent.say)
	}
	if len(m.Calls) != len(sent.calls) {
		return fmt.Sprintf("it has %d calls, %d were sent", len(m.Calls), len(sent.calls))
	}
	for i, call := range m.Calls {
		want := sent.calls[i]
		equal := call.Function.Arguments == want.arguments
		if sent.quirks.Object || want.arguments == "" {
			equal = equalJSON(json.RawMessage(call.Function.Arguments), asObject(want.arguments))
		}
		if call.Function.Name != want.name || !equal || !sent.quirks.NoID && call.ID != want.openaiID(sent) {
			return fmt.Sprintf("call %d is %s, sent was %s %s", i+1, marshal(call), want.name, want.arguments)
		}
		if sent.quirks.Signature && string(call.Extra) != string(sent.chatSignature()) {
			return fmt.Sprintf("the signature of call %d is %s", i+1, call.Extra)
		}
	}
	return ""
}

func (r *reply) chatSignature() json.RawMessage {
	return json.RawMessage(`{ "google":{"thought_signature" : "` + r.signature() + `"}}`)
}

func (chatAPI) stream(r *reply) (events []string) {
	q := r.quirks
	chunk := func(choices []json.RawMessage, usage any) {
		events = append(events, event("", object("id", fmt.Sprintf("chatcmpl-%d", r.number), "object", "chat.completion.chunk",
			"created", 1790000000, "model", "fake", "choices", choices, "usage", usage)))
	}
	delta := func(d json.RawMessage) {
		chunk([]json.RawMessage{object("index", 0, "delta", d, "finish_reason", json.RawMessage("null"))}, nil)
	}
	delta(object("role", "assistant", "content", ""))
	if q.Reasoning {
		for _, p := range pieces(r.think, piece) {
			delta(object("reasoning_content", p))
		}
	}
	field := "content"
	if r.stop == "refused" {
		field = "refusal"
	}
	for _, p := range pieces(r.say, piece) {
		delta(object(field, p))
	}
	for _, c := range r.calls {
		for _, d := range r.chatDeltas(&c) {
			delta(object("tool_calls", []json.RawMessage{d}))
		}
	}
	usual := "stop"
	if r.calls != nil && !q.Stop {
		usual = "tool_calls"
	}
	reason := r.stopOr(usual, map[string]string{"length": "length", "filtered": "content_filter"})
	chunk([]json.RawMessage{object("index", 0, "delta", object(), "finish_reason", reason)}, nil)
	if !q.NoUsage {
		chunk([]json.RawMessage{}, object("prompt_tokens", r.usage.Input, "completion_tokens", r.usage.Output,
			"total_tokens", r.usage.Input+r.usage.Output, "prompt_tokens_details", object("cached_tokens", r.usage.Cached),
			"completion_tokens_details", object("reasoning_tokens", r.usage.Reasoning)))
	}
	return append(events, "data: [DONE]\n\n")
}

// chatDeltas returns a call's parts.
func (r *reply) chatDeltas(c *replyCall) (list []json.RawMessage) {
	q := r.quirks
	var index, id, extra any = c.number - 1, c.openaiID(r), nil
	if q.ZeroIndex {
		index = 0
	}
	if q.NoIndex {
		index = nil
	}
	if q.NoID {
		id = nil
	}
	if q.Signature {
		extra = r.chatSignature()
	}
	arguments := c.arguments
	if q.EmptyArgs && arguments == "{}" {
		arguments = ""
	}
	if q.Object {
		return []json.RawMessage{object("index", index, "id", id, "type", "function",
			"function", object("name", c.name, "arguments", asObject(arguments)), "extra_content", extra)}
	}
	if q.Whole {
		return []json.RawMessage{object("index", index, "id", id, "type", "function",
			"function", object("name", c.name, "arguments", arguments), "extra_content", extra)}
	}
	list = append(list, object("index", index, "id", id, "type", "function",
		"function", object("name", c.name, "arguments", ""), "extra_content", extra))
	for _, p := range pieces(arguments, piece) {
		if q.RepeatName {
			list = append(list, object("index", index, "id", id, "function", object("name", c.name, "arguments", p)))
		} else {
			list = append(list, object("index", index, "function", object("arguments", p)))
		}
	}
	return list
}

func (a chatAPI) failureEvent(code, message string) string {
	return event("", a.failure(0, code, message))
}
