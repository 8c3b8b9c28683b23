package main

import (
	"encoding/json"
	"fmt"

	"github.com/toolyard/toolyard"
)

// schema contains the members of a JSON Schema that values are generated from.
type schema struct {
	Type       string
	Default    any
	Enum       []any
	Properties map[string]schema
	Required   []string
}

// value returns a value that matches a schema.
func (s schema) value() any {
	switch {
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case "object":
		o := make(map[string]any)
		for _, name := range s.Required {
			o[name] = s.Properties[name].value()
		}
		return o
	case "array":
		return []any{}
	case "number", "integer":
		return 1
	case "boolean":
		return true
	}
	return "text"
}

// arguments returns arguments for a tool.
func arguments(t *toolyard.Tool, byName map[string]*toolyard.Tool) map[string]any {
	switch t.Name {
	case "add_numbers":
		return map[string]any{"a": 5, "b": 3}
	case "json_schema_echo":
		if other := byName["json_schema_2020_12_tool"]; other != nil {
			return map[string]any{"schema": other.Input}
		}
	}
	var s schema
	if err := json.Unmarshal(t.Input, &s); err != nil {
		return nil // the tool has no arguments
	}
	s.Type = "object"
	return s.value().(map[string]any)
}

// answer accepts all requests in an unfinished result, with the defaults.
func answer(c *toolyard.Call, unfinished json.RawMessage) error {
	var asked struct {
		InputRequests map[string]struct {
			Method string
			Params struct{ RequestedSchema schema }
		}
		RequestState string
	}
	if err := json.Unmarshal(unfinished, &asked); err != nil {
		return err
	}
	answers := make(map[string]any)
	for key, r := range asked.InputRequests {
		if r.Method != "elicitation/create" {
			return fmt.Errorf("it asks for %s", r.Method)
		}
		content := make(map[string]any)
		for name, property := range r.Params.RequestedSchema.Properties {
			content[name] = property.value()
		}
		answers[key] = map[string]any{"action": "accept", "content": content}
	}
	data, err := json.Marshal(answers)
	c.InputResponses, c.RequestState = data, asked.RequestState
	return err
}
