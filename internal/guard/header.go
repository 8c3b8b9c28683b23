package guard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// HeaderBinding is an argument that the schema of a tool also wants in a header, by
// x-mcp-header.
type HeaderBinding struct {
	Header string   // without the Mcp-Param- that is put before it
	Path   []string // to the argument
}

// Argument is the value of the argument, nil if there is none.
func (b HeaderBinding) Argument(args json.RawMessage) json.RawMessage {
	for _, step := range b.Path {
		args = Member(args, step)
	}
	if string(args) == "null" || len(args) == 0 {
		return nil
	}
	return args
}

// HeaderBindings finds what a schema wants in headers. What it wants and cannot be done is an
// error: such a tool cannot be called.
func HeaderBindings(schema json.RawMessage) ([]HeaderBinding, error) {
	if !strings.Contains(string(schema), `"x-mcp-header"`) {
		return nil, nil
	}
	binds, err := collectHeaders(schema, nil)
	seen := make(map[string]bool)
	for _, b := range binds {
		name := strings.ToLower(b.Header)
		if seen[name] {
			return nil, fmt.Errorf("x-mcp-header %s stands twice", b.Header)
		}
		seen[name] = true
	}
	return binds, err
}

func collectHeaders(schema json.RawMessage, path []string) (binds []HeaderBinding, err error) {
	for name, property := range Members(Member(schema, "properties")) {
		at := append(slices.Clip(path), name)
		if len(at) > MaxDepth {
			return nil, fmt.Errorf("the schema nests deeper than %d levels", MaxDepth)
		}
		if header := Member(property, "x-mcp-header"); header != nil {
			h, _ := String(header)
			kind, _ := String(Member(property, "type"))
			if !isHeader(h) || !slices.Contains([]string{"string", "integer", "boolean"}, kind) {
				return nil, fmt.Errorf("x-mcp-header of %.80q is none, or not on a text, an integer or a boolean", name)
			}
			binds = append(binds, HeaderBinding{h, at})
		}
		inner, err := collectHeaders(property, at)
		if err != nil {
			return nil, err
		}
		binds = append(binds, inner...)
	}
	return binds, nil
}

// isHeader reports whether a text can be a part of the name of a header.
func isHeader(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
