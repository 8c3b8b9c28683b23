package upstream

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/guard"
)

// headerValue is a value as a header carries it.
func headerValue(value string) string {
	plain := len(value) > 0 && value == strings.TrimSpace(value) && !strings.HasPrefix(value, "=?base64?")
	for i := range len(value) {
		plain = plain && value[i] >= ' ' && value[i] < 0x7f
	}
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// paramHeaders are the arguments that the schema of a tool wants in headers too.
func paramHeaders(binds []headerBinding, args json.RawMessage) (headers [][2]string) {
	for _, b := range binds {
		arg := args
		for _, step := range b.path {
			arg = guard.Member(arg, step)
		}
		if len(arg) == 0 || string(arg) == "null" {
			continue
		}
		value, ok := guard.String(arg)
		if !ok {
			value = string(arg)
		}
		headers = append(headers, [2]string{"Mcp-Param-" + b.header, value})
	}
	return headers
}

// headerBinding is an argument that the schema of a tool also wants in a header.
type headerBinding struct {
	header string
	path   []string
}

// bindHeaders finds the x-mcp-header annotations of a schema that was checked. One that
// cannot be honoured makes the tool one that cannot be called.
func bindHeaders(schema json.RawMessage) ([]headerBinding, error) {
	binds, err := collectHeaders(schema, nil)
	seen := make(map[string]bool)
	for _, b := range binds {
		if name := strings.ToLower(b.header); seen[name] {
			return nil, fmt.Errorf("x-mcp-header %s stands twice", b.header)
		} else {
			seen[name] = true
		}
	}
	return binds, err
}

func collectHeaders(schema json.RawMessage, path []string) (binds []headerBinding, err error) {
	for name, property := range guard.Members(guard.Member(schema, "properties")) {
		at := append(slices.Clip(path), name)
		if header := guard.Member(property, "x-mcp-header"); header != nil {
			h, _ := guard.String(header)
			if !validHeader(h) || !slices.Contains([]string{"string", "integer", "boolean"}, text(property, "type")) {
				return nil, fmt.Errorf("x-mcp-header of %s is none, or not on a text, an integer or a boolean", printable(name))
			}
			binds = append(binds, headerBinding{h, at})
		}
		inner, err := collectHeaders(property, at)
		if err != nil {
			return nil, err
		}
		binds = append(binds, inner...)
	}
	return binds, nil
}

func validHeader(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
