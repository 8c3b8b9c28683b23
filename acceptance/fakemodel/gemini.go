package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// geminiAPI implements the Gemini API.
type geminiAPI struct{}

func (geminiAPI) name() string             { return "gemini" }
func (geminiAPI) base() string             { return "" }
func (geminiAPI) key(h http.Header) string { return h.Get("X-Goog-Api-Key") }

type geminiPart struct {
	Text     string          `json:"text"`
	Response *geminiResponse `json:"functionResponse"`
	Call     *struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"functionCall"`
}

type geminiResponse struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

var geminiName = regexp.MustCompile(`^[a-zA-Z_]`)

func (geminiAPI) check(_ http.Header, body map[string]json.RawMessage) (*conversation, error) {
	err := onlyFields("request", body, "systemInstruction", "generationConfig", "toolConfig", "tools", "contents", "safetySettings", "cachedContent")
	if err != nil {
		return nil, err
	}
	c := &conversation{}
	var tools []struct {
		Functions []json.RawMessage `json:"functionDeclarations"`
	}
	var config struct {
		Calling struct{ Mode string } `json:"functionCallingConfig"`
	}
	var contents []struct {
		Role  string
		Parts []json.RawMessage
	}
	for name, into := range map[string]any{"tools": &tools, "toolConfig": &config, "contents": &contents} {
		if data := body[name]; data != nil {
			if err := json.Unmarshal(data, into); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	c.noTools = config.Calling.Mode == "NONE"
	for _, t := range tools {
		for _, data := range t.Functions {
			var f struct {
				Name   string
				Schema json.RawMessage `json:"parametersJsonSchema"`
			}
			if err := decode("function", data, &f, "name", "description", "parametersJsonSchema"); err != nil {
				return nil, err
			}
			if !geminiName.MatchString(f.Name) {
				return nil, fmt.Errorf("%q must begin with a letter or an underscore", f.Name)
			}
			if err := c.declare(f.Name, f.Schema); err != nil {
				return nil, err
			}
		}
	}
	var open []geminiResponse // calls in the last turn
	for i, content := range contents {
		if len(content.Parts) == 0 {
			return nil, fmt.Errorf("content %d has no parts", i)
		}
		if open, err = c.addGemini(content.Role, content.Parts, open); err != nil {
			return nil, fmt.Errorf("content %d: %w", i, err)
		}
	}
	return c, nil
}

// addGemini adds a content. Calls may lack IDs, so answers must have the calls' names, in the same
// order.
func (c *conversation) addGemini(role string, parts []json.RawMessage, open []geminiResponse) ([]geminiResponse, error) {
	var next message
	var calls []geminiResponse
	for _, data := range parts {
		var p geminiPart
		if err := decode("part", data, &p, "text", "thought", "thoughtSignature", "functionCall", "functionResponse"); err != nil {
			return nil, err
		}
		switch {
		case role == "model" && p.Response != nil, role == "user" && p.Call != nil, role != "user" && role != "model":
			return nil, fmt.Errorf("unexpected part for role %q", role)
		case p.Call != nil:
			id := fmt.Sprintf("%d:%s", len(calls), p.Call.Name)
			next.calls = append(next.calls, id)
			calls = append(calls, geminiResponse{ID: p.Call.ID, Name: p.Call.Name})
		case p.Response != nil:
			n := len(next.answers)
			if n >= len(open) || open[n].Name != p.Response.Name || open[n].ID != p.Response.ID {
				return nil, errors.New("the function responses must equal the function calls of the turn before")
			}
			text, err := geminiAnswer(p.Response.Response)
			if err != nil {
				return nil, err
			}
			next.answers = append(next.answers, answer{fmt.Sprintf("%d:%s", n, p.Response.Name), text})
		case role == "user":
			next.text += p.Text
		}
	}
	if role == "model" {
		next.turn = parts
	}
	c.messages = append(c.messages, next)
	return calls, nil
}

func geminiAnswer(response json.RawMessage) (string, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(response, &m); err != nil || m == nil {
		return "", errors.New("a response must be an object")
	}
	for _, name := range []string{"output", "error"} {
		if value := m[name]; value != nil {
			return responsesText(value), nil
		}
	}
	return string(response), nil
}

// parts returns a turn in the form in which it must come back. A signed call is encoded in an
// unusual way, which a client must not change.
func (geminiAPI) parts(r *reply) (list []json.RawMessage) {
	if r.think != "" {
		for _, p := range pieces(r.think, 5*piece) {
			list = append(list, object("text", p, "thought", true))
		}
	}
	for _, p := range pieces(r.say, 2*piece) {
		list = append(list, object("text", p))
	}
	signature := strings.ReplaceAll(string(marshal(r.signature())), "/", `\/`)
	for i, c := range r.calls {
		arguments := json.RawMessage(c.arguments)
		if !json.Valid(arguments) {
			arguments = marshal(c.arguments)
		}
		var id any = fmt.Sprintf("f%d_%d", r.number, c.number)
		if r.quirks.NoID {
			id = nil
		}
		part := object("functionCall", object("id", id, "name", c.name, "args", arguments))
		if i == 0 && r.think != "" {
			part = json.RawMessage(fmt.Sprintf(`{ "functionCall" : %s,  "thoughtSignature": %s}`,
				object("id", id, "name", c.name, "args", arguments), signature))
		}
		list = append(list, part)
	}
	if r.think != "" && r.calls == nil {
		list = append(list, json.RawMessage(`{"text": "", "thoughtSignature":`+signature+`}`))
	}
	return list
}

func (a geminiAPI) same(got []json.RawMessage, sent *reply, exact bool) string {
	return compare(got, a.parts(sent), exact, func(got, sent json.RawMessage) bool {
		var g, s geminiPart
		_, _ = json.Unmarshal(got, &g), json.Unmarshal(sent, &s)
		return g.Text == s.Text && equalMembers(got, sent, "thought", "thoughtSignature", "functionCall")
	})
}

func (a geminiAPI) stream(r *reply) (events []string) {
	usage := object("promptTokenCount", r.usage.Input, "cachedContentTokenCount", r.usage.Cached,
		"candidatesTokenCount", r.usage.Output-r.usage.Reasoning, "thoughtsTokenCount", r.usage.Reasoning,
		"totalTokenCount", r.usage.Input+r.usage.Output)
	reason := r.stopOr("STOP", map[string]string{"length": "MAX_TOKENS", "refused": "SAFETY", "malformed": "MALFORMED_FUNCTION_CALL"})
	parts := a.parts(r)
	for i, p := range append(parts, nil) {
		var content any
		if p != nil {
			content = object("role", "model", "parts", []json.RawMessage{p})
		}
		last := i >= len(parts)-1
		var finish any
		if last {
			finish = reason
		}
		if p == nil && len(parts) > 0 {
			break
		}
		events = append(events, event("", object("candidates", []json.RawMessage{object("content", content, "finishReason", finish, "index", 0)},
			"usageMetadata", usage, "modelVersion", "fake", "responseId", fmt.Sprintf("r%d", r.number))))
	}
	return events
}

func (geminiAPI) failure(status int, code, message string) json.RawMessage {
	return object("error", object("code", status, "message", message, "status", code))
}

func (a geminiAPI) failureEvent(code, message string) string {
	return event("", a.failure(http.StatusServiceUnavailable, code, message))
}
