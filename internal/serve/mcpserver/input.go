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

// Limits on unfinished results and answers.
const (
	maxQuestions = 16       // requests
	maxRequests  = 64 << 10 // bytes of all requests
	maxState     = 64 << 10 // bytes
	maxAnswers   = 64 << 10 // bytes of all answers
)

// inputRequired is the content of an unfinished result: requests to the client, and the state that
// it returns with the answers.
type inputRequired struct {
	requests []inputRequest
	state    string
}

// inputRequest is one request to the client.
type inputRequest struct {
	key, method string
	params      json.RawMessage // a JSON object
}

// readInputRequired parses an unfinished result and checks that the client can answer its requests.
func readInputRequired(c *toolyard.Call, raw json.RawMessage) (*inputRequired, error) {
	in, err := parseInputRequired(raw)
	if err != nil {
		return nil, toolyard.Errorf(toolyard.Failed, "%s requested invalid input: %w", c.Tool.Name, err)
	}
	for i := range in.requests {
		need, err := in.requests[i].check(c)
		switch {
		case err != nil:
			return nil, toolyard.Errorf(toolyard.Failed, "%s requested invalid input: %.100q: %w", c.Tool.Name, in.requests[i].key, err)
		case need != "":
			return nil, &toolyard.Error{
				Code: toolyard.MissingCapability, Missing: []string{need},
				Message: fmt.Sprintf("%s requires a client that supports %s.", c.Tool.Name, need),
			}
		}
	}
	return in, nil
}

func parseInputRequired(raw json.RawMessage) (*inputRequired, error) {
	if err := strictjson.Check(raw); err != nil {
		return nil, err
	}
	if kind, _ := strictjson.String(strictjson.Member(raw, "resultType")); kind != "input_required" {
		return nil, fmt.Errorf("unknown result type %.40q", kind)
	}
	requests, state := strictjson.Member(raw, "inputRequests"), strictjson.Member(raw, "requestState")
	in, ok := &inputRequired{}, false
	if in.state, ok = strictjson.String(state); !ok && state != nil {
		return nil, errors.New("requestState is not a string")
	}
	switch {
	case requests == nil && state == nil:
		return nil, errors.New("neither inputRequests nor requestState is set")
	case requests != nil && requests[0] != '{':
		return nil, errors.New("inputRequests is not an object")
	case len(requests) > maxRequests || len(state) > maxState:
		return nil, fmt.Errorf("inputRequests or requestState is larger than %d KiB", maxRequests>>10)
	}
	for key, value := range strictjson.Members(requests) {
		method, _ := strictjson.String(strictjson.Member(value, "method"))
		in.requests = append(in.requests, inputRequest{key, method, strictjson.Member(value, "params")})
	}
	if len(in.requests) > maxQuestions {
		return nil, fmt.Errorf("more than %d input requests", maxQuestions)
	}
	return in, nil
}

// check validates a request, or returns the capability that the client lacks.
func (r *inputRequest) check(c *toolyard.Call) (need string, err error) {
	if r.params == nil && r.method == "roots/list" {
		r.params = json.RawMessage("{}")
	}
	if len(r.params) == 0 || r.params[0] != '{' {
		return "", errors.New("params is not an object")
	}
	switch r.method {
	case "elicitation/create":
		if err := untrusted.CheckJSONText(r.params); err != nil {
			return "", err // the message is displayed to the user
		}
		need, err = r.checkElicitation(c)
	case "sampling/createMessage":
		need = "sampling"
		if strictjson.Member(r.params, "tools") != nil || strictjson.Member(r.params, "toolChoice") != nil {
			need = "sampling.tools"
		}
	case "roots/list":
		need = "roots"
	default:
		err = fmt.Errorf("unknown method %.100q", r.method)
	}
	if c.Supports(need) {
		need = ""
	}
	return need, err
}

// checkElicitation returns the capability that an elicitation requires. Clients that declare no
// modes support forms.
func (r *inputRequest) checkElicitation(c *toolyard.Call) (need string, err error) {
	switch mode := strictjson.Member(r.params, "mode"); string(mode) {
	case `"url"`:
		return "elicitation.url", checkURL(strictjson.Member(r.params, "url"))
	case `"form"`, "":
	default:
		return "", fmt.Errorf("unknown mode %.40s", mode)
	}
	need = "elicitation"
	if c.Supports("elicitation.url") {
		need = "elicitation.form"
	}
	return need, checkForm(strictjson.Member(r.params, "requestedSchema"))
}

// checkURL accepts only web URLs, because the user is asked to open them.
func checkURL(raw json.RawMessage) error {
	text, _ := strictjson.String(raw)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("url must be an http or https URL")
	}
	return nil
}

// nested lists the keywords that contain subschemas.
var nested = []string{
	"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
	"properties", "patternProperties", "items", "prefixItems", "contains",
}

// isFlat reports whether a schema has no subschemas except under the given keywords.
func isFlat(schema json.RawMessage, except ...string) bool {
	for key := range strictjson.Members(schema) {
		if slices.Contains(nested, key) && !slices.Contains(except, key) {
			return false
		}
	}
	return true
}

// checkForm accepts only schemas for forms: objects whose properties are strings, numbers, booleans
// and enums.
func checkForm(schema json.RawMessage) error {
	if err := new(toolyard.Schema).UnmarshalJSON(schema); err != nil {
		return fmt.Errorf("requestedSchema: %w", err)
	}
	if string(strictjson.Member(schema, "type")) != `"object"` || !isFlat(schema, "properties") {
		return errors.New("requestedSchema must be a flat object")
	}
	for name, field := range strictjson.Members(strictjson.Member(schema, "properties")) {
		if !isField(field) {
			return fmt.Errorf("requestedSchema: %.100q must be a string, number, boolean or enum", name)
		}
	}
	return nil
}

func isField(field json.RawMessage) bool {
	switch kind, _ := strictjson.String(strictjson.Member(field, "type")); kind {
	case "string":
		return isFlat(field, "oneOf", "anyOf") && isEnum(field)
	case "number", "integer", "boolean":
		return isFlat(field)
	case "array":
		items := strictjson.Member(field, "items")
		texts := string(strictjson.Member(items, "type")) == `"string"` && strictjson.Member(items, "enum") != nil
		return isFlat(field, "items") && isFlat(items, "oneOf", "anyOf") && isEnum(items) &&
			(texts || strictjson.Member(items, "oneOf") != nil || strictjson.Member(items, "anyOf") != nil)
	}
	return false
}

// isEnum reports whether all alternatives of a schema are constants.
func isEnum(schema json.RawMessage) bool {
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
