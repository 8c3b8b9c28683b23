package upstream

import (
	"encoding/base64"
	"encoding/json"
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
			arg = member(arg, step)
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

// bindHeaders finds the x-mcp-header annotations of a schema that was checked.
func bindHeaders(schema json.RawMessage, path []string) (binds []headerBinding) {
	for name, property := range guard.Members(member(schema, "properties")) {
		at := append(slices.Clip(path), name)
		if header := text(property, "x-mcp-header"); validHeader(header) {
			binds = append(binds, headerBinding{header, at})
		}
		binds = append(binds, bindHeaders(property, at)...)
	}
	return binds
}

func validHeader(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
