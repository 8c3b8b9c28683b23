package model

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
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
	w := newWriter(r)
	w.open('{')
	if r.System != "" {
		w.key("systemInstruction").open('{')
		w.key("parts").open('[')
		geminiText(w, r.System)
		w.close("]}")
	}
	w.key("generationConfig").open('{')
	w.key("maxOutputTokens").int(maxOutput(o, r))
	w.temperature(r)
	w.close("}")
	if len(r.Tools) > 0 {
		geminiTools(w, r)
	}
	w.key("contents").open('[')
	var calls []geminiCall // calls in the last turn
	for i := range r.Messages {
		m := &r.Messages[i]
		switch {
		case m.Turn != nil:
			var parts []byte
			if parts, calls = geminiParts(m.Turn); parts != nil {
				geminiContent(w, "model", func() { w.raw(parts) })
			}
		case m.Answers != nil:
			geminiContent(w, "user", func() { geminiAnswers(w, m.Answers, calls) })
		default:
			geminiContent(w, "user", func() { geminiText(w, m.Text) })
		}
	}
	w.close("]}")
	return w.out
}

func geminiTools(w *writer, r *Request) {
	w.key("tools").open('[')
	w.open('{')
	w.key("functionDeclarations").open('[')
	for i := range r.Tools {
		f := &r.Tools[i]
		w.open('{')
		w.member("name", f.Name)
		w.member("description", f.Description)
		w.key("parametersJsonSchema").raw(f.schema())
		w.close("}")
	}
	w.close("]}]")
	w.key("toolConfig").open('{')
	w.key("functionCallingConfig").open('{')
	w.member("mode", strings.ToUpper(toolChoice(r)))
	w.close("}}")
}

func geminiContent(w *writer, role string, parts func()) {
	w.open('{')
	w.member("role", role)
	w.key("parts").open('[')
	parts()
	w.close("]}")
}

func geminiText(w *writer, text string) {
	w.open('{')
	w.member("text", text)
	w.close("}")
}

// geminiCall identifies a call. The ID is empty if the model did not send one.
type geminiCall struct{ id, name string }

// geminiParts returns a turn's parts with commas between them, or nil if there are none, and its
// calls.
func geminiParts(t *Turn) (parts []byte, calls []geminiCall) {
	if raw := t.raw(Gemini); raw != nil {
		for part := range strictjson.Elements(raw) {
			if call := strictjson.Member(part, "functionCall"); call != nil {
				id, _ := strictjson.String(strictjson.Member(call, "id"))
				name, _ := strictjson.String(strictjson.Member(call, "name"))
				calls = append(calls, geminiCall{id, name})
			}
		}
		return interior(raw), calls
	}
	w := &writer{}
	if t.Text != "" {
		geminiText(w, t.Text)
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		w.open('{')
		w.key("functionCall").open('{')
		w.member("id", c.ID)
		w.member("name", c.Name)
		w.key("args").raw(c.arguments())
		w.close("}}")
		calls = append(calls, geminiCall{c.ID, c.Name})
	}
	return w.out, calls
}

// geminiAnswers encodes answers. An answer has an ID only if its call had one.
func geminiAnswers(w *writer, answers []Answer, calls []geminiCall) {
	for i := range answers {
		var call geminiCall
		if i < len(calls) {
			call = calls[i]
		}
		w.open('{')
		w.key("functionResponse").open('{')
		if call.id != "" {
			w.member("id", call.id)
		}
		w.member("name", call.name)
		w.key("response").open('{')
		if answers[i].Failed {
			w.member("error", answers[i].Text)
		} else {
			w.member("output", answers[i].Text)
		}
		w.close("}}}")
	}
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
		return false, fmt.Errorf("invalid event: %w", err)
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
		return fmt.Errorf("invalid part")
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

// end completes the turn, because the format has no last event.
func (d *geminiDecoder) end() error {
	if !d.ended {
		return errIncomplete
	}
	d.turn.Raw = array(d.raw)
	return nil
}
