package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// responsesAPI implements OpenAI Responses.
type responsesAPI struct{}

func (responsesAPI) name() string { return "openai" }
func (responsesAPI) base() string { return "/v1" }

func (responsesAPI) key(h http.Header) string {
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

func (responsesAPI) check(_ http.Header, body map[string]json.RawMessage) (*conversation, error) {
	err := errors.Join(requireText(body, "model"), requireTrue(body, "stream"),
		onlyFields("request", body, "model", "instructions", "stream", "store", "include", "max_output_tokens", "parallel_tool_calls",
			"tool_choice", "tools", "input", "temperature", "reasoning", "metadata", "text", "top_p", "truncation"))
	if err != nil {
		return nil, err
	}
	if body["max_output_tokens"] != nil {
		if err := requirePositive(body, "max_output_tokens"); err != nil {
			return nil, err
		}
	}
	c := &conversation{noTools: string(body["tool_choice"]) == `"none"`}
	var tools []json.RawMessage
	_ = json.Unmarshal(body["tools"], &tools)
	for _, data := range tools {
		var t struct {
			Type, Name string
			Parameters json.RawMessage
			Strict     *bool
		}
		if err := decode("tool", data, &t, "type", "name", "description", "parameters", "strict"); err != nil {
			return nil, err
		}
		if t.Type != "function" || t.Strict == nil || *t.Strict {
			return nil, fmt.Errorf("tool %s must be a function with strict: false", t.Name)
		}
		if err := c.declare(t.Name, t.Parameters); err != nil {
			return nil, err
		}
	}
	var input []json.RawMessage
	if err := json.Unmarshal(body["input"], &input); err != nil {
		return nil, err
	}
	return c, responsesInput(c, input)
}

type responsesItem struct {
	Type, Role string
	Content    json.RawMessage
	CallID     string `json:"call_id"`
	Output     json.RawMessage
}

// responsesInput groups a request's items into messages.
func responsesInput(c *conversation, input []json.RawMessage) error {
	var turn *message
	flush := func() {
		if turn != nil {
			c.messages = append(c.messages, *turn)
			turn = nil
		}
	}
	for i, data := range input {
		var item responsesItem
		if err := json.Unmarshal(data, &item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		switch {
		case item.Role == "user":
			flush()
			c.messages = append(c.messages, message{text: responsesText(item.Content)})
			continue
		case item.Type == "function_call_output":
			flush()
			last := len(c.messages) - 1
			if last < 0 || c.messages[last].answers == nil {
				c.messages = append(c.messages, message{})
				last++
			}
			c.messages[last].answers = append(c.messages[last].answers, answer{item.CallID, responsesText(item.Output)})
			continue
		}
		if turn == nil {
			turn = &message{}
		}
		switch {
		case item.Type == "function_call":
			turn.calls = append(turn.calls, item.CallID)
		case item.Type == "reasoning", item.Type == "message" && item.Role == "assistant", item.Role == "assistant":
		default:
			return fmt.Errorf("item %d has the unexpected type %q", i, item.Type)
		}
		turn.turn = append(turn.turn, data)
	}
	flush()
	return nil
}

func responsesText(content json.RawMessage) (text string) {
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts)
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// items returns a turn in the form in which it must come back. The reasoning is encoded in an
// unusual way, which a client must not change.
func (responsesAPI) items(r *reply) (list []json.RawMessage) {
	if r.think != "" {
		list = append(list, json.RawMessage(fmt.Sprintf(
			`{ "id": "rs_%d",  "type":"reasoning", "summary":[], "encrypted_content": "%s", "created_by" : null}`,
			r.number, strings.ReplaceAll(r.signature(), "/", `\/`))))
	}
	switch {
	case r.stop == "refused":
		list = append(list, object("id", fmt.Sprintf("msg_%d", r.number), "type", "message", "status", "completed", "role", "assistant",
			"content", []json.RawMessage{object("type", "refusal", "refusal", r.say)}))
	case r.say != "":
		list = append(list, object("id", fmt.Sprintf("msg_%d", r.number), "type", "message", "status", "completed", "role", "assistant",
			"content", []json.RawMessage{object("type", "output_text", "text", r.say, "annotations", json.RawMessage("[]"), "logprobs", json.RawMessage("[]"))}))
	}
	for _, c := range r.calls {
		list = append(list, object("id", fmt.Sprintf("fc_%d_%d", r.number, c.number), "type", "function_call", "status", "completed",
			"call_id", c.openaiID(r), "name", c.name, "arguments", c.arguments))
	}
	return list
}

func (c *replyCall) openaiID(r *reply) string { return fmt.Sprintf("call_%d_%d", r.number, c.number) }

func (a responsesAPI) same(got []json.RawMessage, sent *reply, exact bool) string {
	return compare(got, a.items(sent), exact, func(got, sent json.RawMessage) bool {
		var g, s responsesItem
		_, _ = json.Unmarshal(got, &g), json.Unmarshal(sent, &s)
		return equalMembers(got, sent, "call_id", "name", "arguments", "encrypted_content") && responsesText(g.Content) == responsesText(s.Content) &&
			(g.Type == s.Type || g.Type == "" && g.Role == s.Role)
	})
}

func (a responsesAPI) stream(r *reply) (events []string) {
	sequence := 0
	add := func(name string, pairs ...any) {
		events = append(events, event(name, object(append([]any{"type", name, "sequence_number", sequence}, pairs...)...)))
		sequence++
	}
	state := func(status string, more ...any) json.RawMessage {
		return object(append([]any{"id", fmt.Sprintf("resp_%d", r.number), "object", "response", "status", status, "model", "fake"}, more...)...)
	}
	add("response.created", "response", state("in_progress", "output", json.RawMessage("[]")))
	add("response.in_progress", "response", state("in_progress", "output", json.RawMessage("[]")))
	for i, item := range a.items(r) {
		var head struct{ ID, Type string }
		_ = json.Unmarshal(item, &head)
		add("response.output_item.added", "output_index", i, "item", responsesBegin(item))
		at := []any{"item_id", head.ID, "output_index", i}
		switch {
		case head.Type == "message" && r.stop != "refused":
			for _, p := range pieces(r.say, piece) {
				add("response.output_text.delta", append(at, "content_index", 0, "delta", p, "logprobs", json.RawMessage("[]"))...)
			}
			add("response.output_text.done", append(at, "content_index", 0, "text", r.say, "logprobs", json.RawMessage("[]"))...)
		case head.Type == "function_call":
			c := r.calls[i-(len(a.items(r))-len(r.calls))]
			for _, p := range pieces(c.arguments, piece) {
				add("response.function_call_arguments.delta", append(at, "delta", p)...)
			}
			add("response.function_call_arguments.done", append(at, "name", c.name, "arguments", c.arguments)...)
		}
		add("response.output_item.done", "output_index", i, "item", item)
	}
	usage := object("input_tokens", r.usage.Input, "input_tokens_details", object("cached_tokens", r.usage.Cached),
		"output_tokens", r.usage.Output, "output_tokens_details", object("reasoning_tokens", r.usage.Reasoning),
		"total_tokens", r.usage.Input+r.usage.Output)
	if r.stop == "length" {
		add("response.incomplete", "response", state("incomplete", "output", a.items(r), "usage", usage,
			"incomplete_details", object("reason", "max_output_tokens")))
	} else {
		add("response.completed", "response", state("completed", "output", a.items(r), "usage", usage))
	}
	return events
}

// responsesBegin returns an item in its initial form.
func responsesBegin(item json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(item, &m)
	pairs := []any{"id", m["id"], "type", m["type"], "status", "in_progress"}
	switch string(m["type"]) {
	case `"function_call"`:
		pairs = append(pairs, "call_id", m["call_id"], "name", m["name"], "arguments", "")
	case `"message"`:
		pairs = append(pairs, "role", m["role"], "content", json.RawMessage("[]"))
	default:
		pairs = append(pairs, "summary", json.RawMessage("[]"))
	}
	return object(pairs...)
}

func (responsesAPI) failure(_ int, code, message string) json.RawMessage {
	return object("error", object("message", message, "type", code, "param", json.RawMessage("null"), "code", code))
}

func (responsesAPI) failureEvent(code, message string) string {
	return event("error", object("type", "error", "sequence_number", 9, "code", code, "message", message, "param", json.RawMessage("null")))
}
