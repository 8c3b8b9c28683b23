package config

import (
	"encoding/json"
	"slices"
)

// rename is a key, or a value of a key, that had a different name in earlier versions. In a path, *
// matches any name.
type rename struct {
	path     []string // path of the mapping that contains the key, or of the key that has the value
	old, new string
}

// renamedKeys lists keys whose old names are still accepted, with a warning.
var renamedKeys = []rename{
	{nil, "private", "privateNetworks"},
	{nil, "identity", "ageIdentity"},
	{nil, "edits", "editable"},
	{[]string{"record"}, "keep", "retention"},
	{[]string{"gates", "*"}, "notes", "sourceNotes"},
}

// renamedValues lists values whose old names are still accepted, with a warning.
var renamedValues = []rename{
	{[]string{"gates", "*", "naming"}, "dotted", "plain"},
}

// aliases lists keys that files for other platforms use. They have the same meaning and are
// accepted without a warning.
var aliases = []rename{
	{nil, "mcpServers", "servers"},
	{[]string{"servers", "*"}, "toolFilter", "tools"},
	{[]string{"toolsets", "*"}, "builtIn", "tools"},
	{[]string{"toolsets", "*"}, "mcpServers", "servers"},
	{[]string{"toolsets", "*"}, nestedServers, "servers"},
	{[]string{"toolsets", "*", "servers", "*"}, "server_id", "id"},
	{[]string{"toolsets", "*", "servers", "*"}, "toolFilter", "tools"},
	{[]string{"toolsets", "*", "servers", "servers", "*"}, "server_id", "id"},
}

// nestedServers is an alias whose value has an additional level: mcp_servers: {servers: […]}.
const nestedServers = "mcp_servers"

// unnest removes the additional level that a nestedServers value may have.
func unnest(value any) any {
	if object, ok := value.(map[string]any); ok && len(object) == 1 && object["servers"] != nil {
		return object["servers"]
	}
	return value
}

func (r rename) matches(path []string) bool {
	return slices.EqualFunc(r.path, path, func(pattern, step string) bool { return pattern == "*" || pattern == step })
}

// newKey returns the current name of a key in the mapping at path.
func newKey(path []string, key string) string {
	for _, r := range renamedKeys {
		if r.old == key && r.matches(path) {
			return r.new
		}
	}
	return key
}

// aliasedKey returns the name of a key that may be an alias.
func aliasedKey(path []string, key string) string {
	for _, r := range aliases {
		if r.old == key && r.matches(path) {
			return r.new
		}
	}
	return key
}

// newValue returns the current name of a value for the key at path.
func newValue(path []string, value any) any {
	for _, r := range renamedValues {
		if value == r.old && r.matches(path) {
			return r.new
		}
	}
	return value
}

// withNewNames replaces old names in JSON that was stored by an earlier version. It returns invalid
// JSON unchanged.
func withNewNames(data []byte) []byte {
	var value map[string]any
	if json.Unmarshal(data, &value) != nil {
		return data
	}
	renamed, err := json.Marshal(renameAll(value, nil))
	if err != nil {
		return data
	}
	return renamed
}

func renameAll(value any, path []string) any {
	object, ok := value.(map[string]any)
	if !ok {
		return newValue(path, value)
	}
	renamed := make(map[string]any, len(object))
	for key, v := range object {
		name := newKey(path, key)
		renamed[name] = renameAll(v, append(slices.Clip(path), name))
	}
	return renamed
}
