package search

import (
	"encoding/json"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

const (
	maxArgCount = 64
	maxArgDepth = 3 // depth of nested objects
)

// Args returns the arguments that a tool's input schema declares, including the members of nested
// objects. The schema must be valid JSON.
func Args(schema json.RawMessage) []Arg { return appendArgs(nil, schema, maxArgDepth) }

func appendArgs(args []Arg, schema json.RawMessage, depth int) []Arg {
	if depth == 0 {
		return args
	}
	for name, property := range strictjson.Members(strictjson.Member(schema, "properties")) {
		if len(args) == maxArgCount {
			break
		}
		text, _ := strictjson.String(strictjson.Member(property, "description"))
		args = append(args, Arg{Name: name, Text: text})
		args = appendArgs(args, property, depth-1)
		args = appendArgs(args, strictjson.Member(property, "items"), depth-1)
	}
	return args
}
