package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Bounds on what an unfinished result asks, and on what comes back.
const (
	maxQuestions = 16
	maxAsked     = 64 << 10 // bytes of all questions
	maxState     = 64 << 10 // bytes
	maxAnswers   = 64 << 10 // bytes of all answers
)

// inquiry is what an unfinished result asks the client for.
type inquiry struct {
	questions []question
	state     string // is wanted back with the answers
}

// question is one request to the client.
type question struct {
	key, method string
	params      json.RawMessage // an object
}

// inquire reads an unfinished result and checks that the client of the call can answer it.
func inquire(c *toolyard.Call, raw json.RawMessage) (*inquiry, error) {
	q, err := readInquiry(raw)
	if err != nil {
		return nil, toolyard.Errorf(toolyard.Failed, "%s asks for input that it cannot get: %w", c.Tool.Name, err)
	}
	for i := range q.questions {
		need, err := q.questions[i].check(c)
		switch {
		case err != nil:
			return nil, toolyard.Errorf(toolyard.Failed, "%s asks for input that it cannot get: %.100q: %w", c.Tool.Name, q.questions[i].key, err)
		case need != "":
			return nil, &toolyard.Error{
				Code: toolyard.MissingCapability, Missing: []string{need},
				Message: fmt.Sprintf("%s needs a client that supports %s.", c.Tool.Name, need),
			}
		}
	}
	return q, nil
}

func readInquiry(raw json.RawMessage) (*inquiry, error) {
	if err := strictjson.Check(raw); err != nil {
		return nil, err
	}
	if kind, _ := strictjson.String(strictjson.Member(raw, "resultType")); kind != "input_required" {
		return nil, fmt.Errorf("nobody here knows results of the type %.40q", kind)
	}
	asked, state := strictjson.Member(raw, "inputRequests"), strictjson.Member(raw, "requestState")
	q, ok := &inquiry{}, false
	if q.state, ok = strictjson.String(state); !ok && state != nil {
		return nil, errors.New("requestState is not a string")
	}
	switch {
	case asked == nil && state == nil:
		return nil, errors.New("it asks for nothing")
	case asked != nil && asked[0] != '{':
		return nil, errors.New("inputRequests is not an object")
	case len(asked) > maxAsked || len(state) > maxState:
		return nil, fmt.Errorf("inputRequests or requestState has more than %d KiB", maxAsked>>10)
	}
	for key, value := range strictjson.Members(asked) {
		method, _ := strictjson.String(strictjson.Member(value, "method"))
		q.questions = append(q.questions, question{key, method, strictjson.Member(value, "params")})
	}
	if len(q.questions) > maxQuestions {
		return nil, fmt.Errorf("it has more than %d questions", maxQuestions)
	}
	return q, nil
}

// check reports what is wrong with a question, or which capability its client lacks.
func (q *question) check(c *toolyard.Call) (need string, err error) {
	if q.params == nil && q.method == "roots/list" {
		q.params = json.RawMessage("{}")
	}
	if len(q.params) == 0 || q.params[0] != '{' {
		return "", errors.New("params is not an object")
	}
	switch q.method {
	case "elicitation/create":
		if err := untrusted.CheckJSONText(q.params); err != nil {
			return "", err // a person is going to read it
		}
		need, err = q.checkElicitation(c)
	case "sampling/createMessage":
		need = "sampling"
		if strictjson.Member(q.params, "tools") != nil || strictjson.Member(q.params, "toolChoice") != nil {
			need = "sampling.tools"
		}
	case "roots/list":
		need = "roots"
	default:
		err = fmt.Errorf("no client answers %.100q", q.method)
	}
	if c.Supports(need) {
		need = ""
	}
	return need, err
}

// checkElicitation returns the capability that a question to a person needs. A client that
// says nothing of modes has forms.
func (q *question) checkElicitation(c *toolyard.Call) (need string, err error) {
	switch mode := strictjson.Member(q.params, "mode"); string(mode) {
	case `"url"`:
		return "elicitation.url", checkURL(strictjson.Member(q.params, "url"))
	case `"form"`, "":
	default:
		return "", fmt.Errorf("no client knows the mode %.40s", mode)
	}
	need = "elicitation"
	if c.Supports("elicitation.url") {
		need = "elicitation.form"
	}
	return need, checkForm(strictjson.Member(q.params, "requestedSchema"))
}

// checkURL refuses what is not an address of the web: a person is going to open it.
func checkURL(raw json.RawMessage) error {
	text, _ := strictjson.String(raw)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("url is not an address of the web")
	}
	return nil
}

// nested are the keywords that make a schema more than flat.
var nested = []string{
	"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
	"properties", "patternProperties", "items", "prefixItems", "contains",
}

// isFlat reports whether a schema has no schemas inside but those under the keywords given.
func isFlat(schema json.RawMessage, but ...string) bool {
	for key := range strictjson.Members(schema) {
		if slices.Contains(nested, key) && !slices.Contains(but, key) {
			return false
		}
	}
	return true
}

// checkForm refuses a schema that is not a form: an object whose properties are texts,
// numbers, truth values and choices.
func checkForm(schema json.RawMessage) error {
	if _, err := toolyard.NewSchema(schema); err != nil {
		return fmt.Errorf("requestedSchema: %w", err)
	}
	if string(strictjson.Member(schema, "type")) != `"object"` || !isFlat(schema, "properties") {
		return errors.New("requestedSchema is not a flat object")
	}
	for name, field := range strictjson.Members(strictjson.Member(schema, "properties")) {
		if !isField(field) {
			return fmt.Errorf("requestedSchema: %.100q is not a text, a number, a truth value or a choice", name)
		}
	}
	return nil
}

func isField(field json.RawMessage) bool {
	switch kind, _ := strictjson.String(strictjson.Member(field, "type")); kind {
	case "string":
		return isFlat(field, "oneOf", "anyOf") && areChoices(field)
	case "number", "integer", "boolean":
		return isFlat(field)
	case "array":
		items := strictjson.Member(field, "items")
		texts := string(strictjson.Member(items, "type")) == `"string"` && strictjson.Member(items, "enum") != nil
		return isFlat(field, "items") && isFlat(items, "oneOf", "anyOf") && areChoices(items) &&
			(texts || strictjson.Member(items, "oneOf") != nil || strictjson.Member(items, "anyOf") != nil)
	}
	return false
}

// areChoices reports whether the alternatives of a schema are constants.
func areChoices(schema json.RawMessage) bool {
	for _, key := range []string{"oneOf", "anyOf"} {
		var choices []json.RawMessage
		if raw := strictjson.Member(schema, key); raw != nil && json.Unmarshal(raw, &choices) != nil {
			return false
		}
		for _, choice := range choices {
			if strictjson.Member(choice, "const") == nil || !isFlat(choice) {
				return false
			}
		}
	}
	return true
}
