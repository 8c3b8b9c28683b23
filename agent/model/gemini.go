package model

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

var geminiWire = wire{
	base: "https://generativelanguage.googleapis.com",
	path: func(model string) string {
		return "/v1beta/models/" + url.PathEscape(strings.TrimPrefix(model, "models/")) + ":streamGenerateContent"
	},
	query:  "alt=sse",
	auth:   func(key string) (string, string) { return "X-Goog-Api-Key", key },
	encode: encodeGemini,
	decode: func(b *builder) decoder { return &geminiDecoder{builder: b} },
}

func encodeGemini(o *Options, r *Request) []byte {
	var functions []json.RawMessage
	for _, f := range r.Tools {
		functions = append(functions, object("name", f.Name, "description", f.Description, "parametersJsonSchema", f.schema()))
	}
	mode := "AUTO"
	if r.NoTools {
		mode = "NONE"
	}
	var contents []json.RawMessage
	var calls []json.RawMessage // IDs and names of the last turn's calls
	for _, m := range r.Messages {
		if m.Text != "" {
			contents = append(contents, geminiContent("user", []json.RawMessage{object("text", m.Text)}))
		}
		if m.Turn != nil {
			var parts []json.RawMessage
			if parts, calls = geminiParts(m.Turn); len(parts) > 0 {
				contents = append(contents, geminiContent("model", parts))
			}
		}
		if m.Answers != nil {
			contents = append(contents, geminiContent("user", geminiAnswers(m.Answers, calls)))
		}
	}
	system := when(r.System != "", object("parts", []json.RawMessage{object("text", r.System)}))
	return object("systemInstruction", system,
		"generationConfig", object("maxOutputTokens", maxOutput(o, r), "temperature", optional(r.Temperature)),
		"tools", when(functions != nil, []json.RawMessage{object("functionDeclarations", functions)}),
		"toolConfig", when(functions != nil, object("functionCallingConfig", object("mode", mode))),
		"contents", contents)
}

func geminiContent(role string, parts []json.RawMessage) json.RawMessage {
	return object("role", role, "parts", parts)
}

// geminiParts returns the parts of a turn and the calls among them.
func geminiParts(t *Turn) (parts, calls []json.RawMessage) {
	if raw := t.raw(Gemini); raw != nil {
		for _, part := range elements(raw) {
			var p geminiPart
			if json.Unmarshal(part, &p) == nil && p.Call != nil {
				calls = append(calls, object("id", when(p.Call.ID != "", p.Call.ID), "name", p.Call.Name))
			}
			parts = append(parts, part)
		}
		return parts, calls
	}
	if t.Text != "" {
		parts = append(parts, object("text", t.Text))
	}
	for _, c := range t.Calls {
		parts = append(parts, object("functionCall", object("id", c.ID, "name", c.Name, "args", c.arguments())))
		calls = append(calls, object("id", c.ID, "name", c.Name))
	}
	return parts, calls
}

// geminiAnswers encodes answers. An answer has an ID only if its call had one.
func geminiAnswers(answers []Answer, calls []json.RawMessage) (parts []json.RawMessage) {
	for i, a := range answers {
		var call struct{ ID, Name string }
		if i < len(calls) {
			_ = json.Unmarshal(calls[i], &call) // written by geminiParts
		}
		result := "output"
		if a.Failed {
			result = "error"
		}
		parts = append(parts, object("functionResponse",
			object("id", when(call.ID != "", call.ID), "name", call.Name, "response", object(result, a.Text))))
	}
	return parts
}

type geminiDecoder struct {
	*builder
	raw []json.RawMessage
}

type geminiPart struct {
	Text    string `json:"text"`
	Thought bool   `json:"thought"`
	Call    *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

type geminiChunk struct {
	Error      json.RawMessage `json:"error"`
	Candidates []struct {
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		FinishReason  string `json:"finishReason"`
		FinishMessage string `json:"finishMessage"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		ToolUse    int64 `json:"toolUsePromptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
}

func (d *geminiDecoder) event(data []byte) (last bool, err error) {
	var c geminiChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, fmt.Errorf("an event is not valid: %w", err)
	}
	if len(c.Error) > 0 {
		return false, parseProviderError(data).failure()
	}
	if u := c.Usage; u != nil {
		d.count(Usage{Input: u.Prompt + u.ToolUse, Cached: u.Cached, Output: u.Candidates + u.Thoughts, Reasoning: u.Thoughts})
	}
	if reason := c.PromptFeedback.BlockReason; reason != "" {
		return false, fail(Refused, "the provider blocked the prompt: %s", reason)
	}
	if len(c.Candidates) == 0 {
		return false, nil
	}
	for _, part := range c.Candidates[0].Content.Parts {
		if err := d.add(part); err != nil {
			return false, err
		}
	}
	return false, d.finishWith(c.Candidates[0].FinishReason, c.Candidates[0].FinishMessage)
}

func (d *geminiDecoder) add(raw json.RawMessage) error {
	if err := d.addPart(); err != nil {
		return err
	}
	var p geminiPart
	if err := json.Unmarshal(raw, &p); err != nil || !isObject(raw) {
		return fmt.Errorf("a part is not valid")
	}
	d.raw = append(d.raw, raw)
	if p.Call != nil {
		d.beginCall(p.Call.Name)
		return d.addCall(p.Call.ID, p.Call.Name, string(p.Call.Args))
	}
	if !p.Thought {
		d.addText(p.Text)
	}
	return nil
}

func (d *geminiDecoder) finishWith(reason, message string) error {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP":
		d.stop(StopEnd)
	case "MAX_TOKENS":
		d.stop(StopLength)
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		d.stop(StopMalformed)
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		return fail(Refused, "the provider stopped the response: %s %s", reason, message)
	default:
		return fail(Unavailable, "the provider stopped the response: %s %s", reason, message)
	}
	return nil
}

// end completes the turn: the format has no last event.
func (d *geminiDecoder) end() error {
	if !d.ended {
		return errIncomplete
	}
	d.turn.Raw = array(d.raw)
	return nil
}
