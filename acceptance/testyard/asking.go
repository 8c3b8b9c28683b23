package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard"
)

// question is an MCP request to the client.
type question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// form returns a request for input from the user. fields are JSON Schemas.
func form(message, fields string, required ...string) question {
	params, err := json.Marshal(map[string]any{
		"message":         message,
		"requestedSchema": map[string]any{"type": "object", "properties": json.RawMessage(fields), "required": append([]string{}, required...)},
	})
	if err != nil {
		panic(err)
	}
	return question{"elicitation/create", params}
}

// sample returns a request for a message from the client's model.
func sample(text string, maxTokens int) question {
	params, err := json.Marshal(map[string]any{
		"messages":  []any{map[string]any{"role": "user", "content": map[string]string{"type": "text", "text": text}}},
		"maxTokens": maxTokens,
	})
	if err != nil {
		panic(err)
	}
	return question{"sampling/createMessage", params}
}

var askRoots = question{"roots/list", json.RawMessage("{}")}

// ask returns an unfinished result with questions and a state.
func ask(questions map[string]question, state string) (*toolyard.Result, error) {
	unfinished := map[string]any{"resultType": "input_required", "inputRequests": questions}
	if state != "" {
		unfinished["requestState"] = state
	}
	raw, err := json.Marshal(unfinished)
	if err != nil {
		return nil, err
	}
	res := &toolyard.Result{}
	return res, json.Unmarshal(raw, res)
}

// answers returns the client's answers to all questions, and false if one is missing.
func answers(c *toolyard.Call, questions map[string]question) (map[string]json.RawMessage, bool) {
	var given map[string]json.RawMessage
	if json.Unmarshal(c.InputResponses, &given) != nil {
		return nil, false
	}
	for key := range questions {
		if !strings.HasPrefix(string(given[key]), "{") {
			return nil, false
		}
	}
	return given, true
}

// asking returns a tool that takes no arguments, asks all questions at once with a state, and
// returns the answers.
func asking(name, state string, questions map[string]question) *toolyard.Tool {
	return plain(name, "Asks its client.", func(_ context.Context, c *toolyard.Call) (any, error) {
		given, ok := answers(c, questions)
		switch {
		case !ok:
			return ask(questions, state)
		case c.RequestState != state:
			return nil, fmt.Errorf("the state came back as %q", c.RequestState)
		}
		texts := []string{"state-ok"}
		for key := range questions {
			texts = append(texts, fmt.Sprintf("%s: %s", key, given[key]))
		}
		return strings.Join(texts, ", "), nil
	})
}

// askingTools returns the conformance suite's tools that request input from the client.
func askingTools() []*toolyard.Tool {
	name := form("What is your name?", `{"name":{"type":"string"}}`, "name")
	confirm := map[string]question{"confirm": form("Please confirm", `{"ok":{"type":"boolean"}}`, "ok")}
	return []*toolyard.Tool{
		elicitation(),
		sampling(),
		asking("test_elicitation_sep1034_defaults", "", map[string]question{"defaults": form("Please check the defaults", `{
			"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
			"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}`)}),
		asking("test_elicitation_sep1330_enums", "", map[string]question{"choices": form("Please choose", `{
			"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
			"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
			"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
			"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
			"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}`)}),
		asking("test_input_required_result_elicitation", "", map[string]question{"user_name": name}),
		asking("test_input_required_result_sampling", "", map[string]question{"capital_question": sample("What is the capital of France?", 100)}),
		asking("test_input_required_result_list_roots", "", map[string]question{"client_roots": askRoots}),
		asking("test_input_required_result_request_state", "first", confirm),
		asking("test_input_required_result_tampered_state", "first", confirm),
		asking("test_input_required_result_multiple_inputs", "first", map[string]question{
			"user_name": name, "greeting": sample("Generate a greeting", 50), "client_roots": askRoots,
		}),
		multiRound(),
		plain("test_input_required_result_capabilities", "Asks what its client can answer.", func(_ context.Context, c *toolyard.Call) (any, error) {
			able := map[string]question{}
			if c.Supports("elicitation") {
				able["user_name"] = name
			}
			if c.Supports("sampling") {
				able["greeting"] = sample("Generate a greeting", 50)
			}
			return ask(able, "first")
		}),
	}
}

func elicitation() *toolyard.Tool {
	type args struct {
		Message string `json:"message"`
	}
	type user struct {
		Username string `json:"username" doc:"User's response"`
		Email    string `json:"email" doc:"User's email address"`
	}
	return toolyard.Define(toolyard.Spec{Name: "test_elicitation", Description: "Asks its user."},
		func(ctx context.Context, c *toolyard.Call, in args) (string, error) {
			reply, err := toolyard.Ask[user](ctx, c, toolyard.Question{Key: "user", Message: in.Message})
			if err != nil {
				return "", err
			}
			answer := map[string]any{"action": reply.Action}
			if reply.Accepted() {
				answer["content"] = reply.Form
			}
			text, err := json.Marshal(answer)
			return "User response: " + string(text), err
		})
}

func sampling() *toolyard.Tool {
	type args struct {
		Prompt string `json:"prompt"`
	}
	return toolyard.Define(toolyard.Spec{Name: "test_sampling", Description: "Asks its client's model."},
		func(_ context.Context, c *toolyard.Call, in args) (any, error) {
			questions := map[string]question{"model": sample(in.Prompt, 100)}
			if given, ok := answers(c, questions); ok {
				return "LLM response: " + string(given["model"]), nil
			}
			return ask(questions, "")
		})
}

// multiRound asks two questions in sequence.
func multiRound() *toolyard.Tool {
	type name struct {
		Name string `json:"name"`
	}
	type color struct {
		Color string `json:"color"`
	}
	return toolyard.Define(toolyard.Spec{Name: "test_input_required_result_multi_round", Description: "Asks its client twice."},
		func(ctx context.Context, c *toolyard.Call, _ struct{}) (string, error) {
			if _, err := toolyard.Ask[name](ctx, c, toolyard.Question{Key: "step1", Message: "Step 1: What is your name?"}); err != nil {
				return "", err
			}
			if _, err := toolyard.Ask[color](ctx, c, toolyard.Question{Key: "step2", Message: "Step 2: What is your favorite color?"}); err != nil {
				return "", err
			}
			return "both answered", nil
		})
}
