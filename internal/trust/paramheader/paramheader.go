// Package paramheader finds tool arguments that must also be sent as HTTP headers, according to the
// schema's x-mcp-header keyword.
package paramheader

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Binding is an argument that must also be sent as a header.
type Binding struct {
	Header string   // excluding the prefix Mcp-Param-
	Path   []string // path to the argument
}

// Argument returns the argument's value, or nil.
func (b Binding) Argument(args json.RawMessage) json.RawMessage {
	for _, step := range b.Path {
		args = strictjson.Member(args, step)
	}
	if string(args) == "null" || len(args) == 0 {
		return nil
	}
	return args
}

// Bindings returns a schema's bindings. It fails if one is invalid, because the tool could not be
// called.
func Bindings(schema json.RawMessage) ([]Binding, error) {
	if !strings.Contains(string(schema), `"x-mcp-header"`) {
		return nil, nil
	}
	binds, err := collectHeaders(schema, nil)
	seen := make(map[string]bool)
	for _, b := range binds {
		name := strings.ToLower(b.Header)
		if seen[name] {
			return nil, fmt.Errorf("duplicate x-mcp-header %s", b.Header)
		}
		seen[name] = true
	}
	return binds, err
}

func collectHeaders(schema json.RawMessage, path []string) (binds []Binding, err error) {
	for name, property := range strictjson.Members(strictjson.Member(schema, "properties")) {
		at := append(slices.Clip(path), name)
		if len(at) > strictjson.MaxDepth {
			return nil, fmt.Errorf("the schema is nested more than %d levels deep", strictjson.MaxDepth)
		}
		if header := strictjson.Member(property, "x-mcp-header"); header != nil {
			h, _ := strictjson.String(header)
			kind, _ := strictjson.String(strictjson.Member(property, "type"))
			if !isHeader(h) || !slices.Contains([]string{"string", "integer", "boolean"}, kind) {
				return nil, fmt.Errorf("x-mcp-header for %.80q must be a valid header name on a string, integer or boolean property", name)
			}
			binds = append(binds, Binding{h, at})
		}
		inner, err := collectHeaders(property, at)
		if err != nil {
			return nil, err
		}
		binds = append(binds, inner...)
	}
	return binds, nil
}

// isHeader reports whether a string can be part of a header name.
func isHeader(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
