package fakemodel

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// anthropicAPI implements Anthropic Messages.
type anthropicAPI struct{}

func (anthropicAPI) name() string             { return "anthropic" }
func (anthropicAPI) base() string             { return "" }
func (anthropicAPI) key(h http.Header) string { return h.Get("X-Api-Key") }

// signature returns a turn's opaque part. It contains bytes that encoders write in different ways.
func (r *reply) signature() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "\xff\xff\xff\xfb\xef turn %d: %s", r.number, r.think))
}

func (r *reply) stopOr(usual string, reasons map[string]string) string {
	if reason, ok := reasons[r.stop]; ok {
		return reason
	}
	return usual
}

type anthropicBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	CallID  string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
}

func (anthropicAPI) check(h http.Header, body map[string]json.RawMessage) (*conversation, error) {
	if version := h.Get("Anthropic-Version"); version != "2023-06-01" {
		return nil, fmt.Errorf("anthropic-version is %q", version)
	}
	err := errors.Join(requireText(body, "model"), requireTrue(body, "stream"), requirePositive(body, "max_tokens"),
		onlyFields("request", body, "model", "max_tokens", "stream", "system", "tools", "tool_choice", "messages", "temperature",
			"top_k", "top_p", "stop_sequences", "metadata", "thinking", "service_tier", "cache_control", "output_config"))
	if err != nil {
		return nil, err
	}
	c := &conversation{}
	if err := anthropicTools(c, body); err != nil {
		return nil, err
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(body["messages"], &messages); err != nil {
		return nil, err
	}
	before := "assistant"
	for i, data := range messages {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if err := decode(fmt.Sprintf("message %d", i), data, &m, "role", "content"); err != nil {
			return nil, err
		}
		if m.Role == before || m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("message %d: unexpected role %q", i, m.Role)
		}
		before = m.Role
		next, err := anthropicMessage(m.Role, m.Content)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		c.messages = append(c.messages, next...)
	}
	return c, nil
}

func anthropicTools(c *conversation, body map[string]json.RawMessage) error {
	var tools []json.RawMessage
	if data := body["tools"]; data != nil {
		if err := json.Unmarshal(data, &tools); err != nil || len(tools) == 0 {
			return errors.New("tools must be a list that is not empty")
		}
	}
	for _, data := range tools {
		var t struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"input_schema"`
		}
		if err := decode("tool", data, &t, "name", "description", "input_schema", "type", "cache_control", "strict", "defer_loading"); err != nil {
			return err
		}
		if err := c.declare(t.Name, t.Schema); err != nil {
			return err
		}
	}
	if data := body["tool_choice"]; data != nil {
		var choice struct{ Type string }
		if err := decode("tool_choice", data, &choice, "type", "name", "disable_parallel_tool_use"); err != nil {
			return err
		}
		if tools == nil {
			return errors.New("tool_choice needs tools")
		}
		c.noTools = choice.Type == "none"
	}
	return nil
}

func anthropicMessage(role string, content json.RawMessage) (list []message, err error) {
	var text string
	if json.Unmarshal(content, &text) == nil && text != "" {
		content = marshal([]json.RawMessage{object("type", "text", "text", text)})
	}
	var raw []json.RawMessage
	var blocks []anthropicBlock
	if err := errors.Join(json.Unmarshal(content, &raw), json.Unmarshal(content, &blocks)); err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("the content must be a list of blocks that is not empty (%w)", err)
	}
	turn := message{turn: raw}
	var answers []answer
	for i, b := range blocks {
		switch {
		case b.Type == "text" && b.Text == "":
			return nil, fmt.Errorf("block %d: text content blocks must be non-empty", i)
		case role == "assistant" && b.Type == "tool_use":
			turn.calls = append(turn.calls, b.ID)
		case role == "assistant":
		case b.Type == "text":
			list = append(list, message{text: b.Text})
		case b.Type == "tool_result" && list != nil:
			return nil, fmt.Errorf("block %d: tool_result blocks must come first", i)
		case b.Type == "tool_result":
			answers = append(answers, answer{b.CallID, anthropicText(b.Content)})
		default:
			return nil, fmt.Errorf("block %d: unexpected type %q", i, b.Type)
		}
	}
	if role == "assistant" {
		return []message{turn}, nil
	}
	if answers != nil {
		list = append([]message{{answers: answers}}, list...)
	}
	return list, nil
}

func anthropicText(content json.RawMessage) (text string) {
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []anthropicBlock
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		text += b.Text
	}
	return text
}

// blocks returns a turn in the form in which it must come back.
func (anthropicAPI) blocks(r *reply) (list []json.RawMessage) {
	if r.think != "" {
		list = append(list, object("type", "thinking", "thinking", r.think, "signature", r.signature()),
			object("type", "redacted_thinking", "data", r.signature()))
	}
	if r.say != "" {
		list = append(list, object("type", "text", "text", r.say))
	}
	for _, c := range r.calls {
		list = append(list, object("type", "tool_use", "id", c.anthropicID(r), "name", c.name, "input", asObject(c.arguments)))
	}
	return list
}

func (c *replyCall) anthropicID(r *reply) string {
	return fmt.Sprintf("toolu_%d_%d", r.number, c.number)
}

// asObject returns the arguments, or an empty object if there are none.
func asObject(arguments string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &members) != nil || members == nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(arguments)
}

func (a anthropicAPI) same(got []json.RawMessage, sent *reply, exact bool) string {
	return compare(got, a.blocks(sent), exact, func(got, sent json.RawMessage) bool {
		return equalMembers(got, sent, "type", "text", "thinking", "signature", "data", "id", "name", "input")
	})
}

func (anthropicAPI) stream(r *reply) (events []string) {
	add := func(name string, pairs ...any) {
		events = append(events, event(name, object(append([]any{"type", name}, pairs...)...)))
	}
	usage := object("input_tokens", r.usage.Input-r.usage.Cached, "cache_read_input_tokens", r.usage.Cached,
		"cache_creation_input_tokens", 0, "output_tokens", 1)
	add("message_start", "message", object("id", fmt.Sprintf("msg_%d", r.number), "type", "message", "role", "assistant", "model", "fake",
		"content", json.RawMessage("[]"), "stop_reason", json.RawMessage("null"), "stop_sequence", json.RawMessage("null"), "usage", usage))
	add("ping")
	index := 0
	block := func(begin json.RawMessage, deltas ...json.RawMessage) {
		add("content_block_start", "index", index, "content_block", begin)
		for _, d := range deltas {
			add("content_block_delta", "index", index, "delta", d)
		}
		add("content_block_stop", "index", index)
		index++
	}
	parts := func(kind, field, text string) (list []json.RawMessage) {
		for _, p := range pieces(text, piece) {
			list = append(list, object("type", kind, field, p))
		}
		return list
	}
	if r.think != "" {
		block(object("type", "thinking", "thinking", "", "signature", ""),
			append(parts("thinking_delta", "thinking", r.think), object("type", "signature_delta", "signature", r.signature()))...)
		block(object("type", "redacted_thinking", "data", r.signature()))
	}
	if r.say != "" {
		block(object("type", "text", "text", ""), parts("text_delta", "text", r.say)...)
	}
	for _, c := range r.calls {
		begin := object("type", "tool_use", "id", c.anthropicID(r), "name", c.name, "input", json.RawMessage("{}"))
		block(begin, parts("input_json_delta", "partial_json", c.arguments)...)
	}
	usual := "end_turn"
	if r.calls != nil {
		usual = "tool_use"
	}
	reason := r.stopOr(usual, map[string]string{
		"length": "max_tokens", "context": "model_context_window_exceeded", "refused": "refusal", "pause": "pause_turn",
	})
	add("message_delta", "delta", object("stop_reason", reason, "stop_sequence", json.RawMessage("null")),
		"usage", object("output_tokens", r.usage.Output))
	add("message_stop")
	return events
}

func (anthropicAPI) failure(_ int, code, message string) json.RawMessage {
	return object("type", "error", "error", object("type", code, "message", message), "request_id", "req_1")
}

func (a anthropicAPI) failureEvent(code, message string) string {
	return event("error", a.failure(0, code, message))
}
