package config

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/toolyard/toolyard"
)

// PackSettings are a pack's settings, for the whole yard or for one gate. They are validated
// against the schema that the pack registers.
type PackSettings json.RawMessage

// JSONSchema describes PackSettings.
func (PackSettings) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// UnmarshalJSON implements [json.Unmarshaler].
func (p *PackSettings) UnmarshalJSON(data []byte) error {
	*p = slices.Clone(data)
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (p PackSettings) MarshalJSON() ([]byte, error) { return p, nil }

// CallerClock is the value of Gate.Clock that lets callers set the as-of time.
const CallerClock = "caller"

var packName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

func (c *Config) checkPacks(report reportFunc) {
	for _, name := range slices.Sorted(maps.Keys(c.Packs)) {
		if !packName.MatchString(name) {
			report("is not a valid pack name: use a-z, 0-9 and -", "packs", name)
		}
	}
}

// Extensions are the schemas of sections registered by a program.
type Extensions struct {
	Contexts  map[string]*toolyard.Schema // settings of context kinds
	Packs     map[string]*toolyard.Schema // settings of packs; nil for a pack that has no settings
	GatePacks map[string]*toolyard.Schema // settings of packs at gates
}

// addPacks adds the packs' schemas to the file's schema.
func (e *Extensions) addPacks(doc map[string]any) {
	if len(e.Packs) == 0 {
		return
	}
	closed := func(schemas map[string]*toolyard.Schema, at string) map[string]any {
		properties := make(map[string]any, len(schemas))
		for name, s := range schemas {
			properties[name] = embedded(s, at+"/"+name)
		}
		return map[string]any{"properties": properties, "additionalProperties": false}
	}
	properties := doc["properties"].(map[string]any)
	maps.Copy(properties["packs"].(map[string]any), closed(e.Packs, "packs"))
	gate := properties["gates"].(map[string]any)["additionalProperties"].(map[string]any)
	maps.Copy(gate["properties"].(map[string]any)["packs"].(map[string]any), closed(e.GatePacks, "gates/packs"))
}

// embedded returns a schema for use as a part of another schema. It gets its own ID, so that its
// references stay relative to itself.
func embedded(s *toolyard.Schema, id string) any {
	if s == nil {
		return map[string]any{"type": "object", "additionalProperties": false}
	}
	var doc map[string]any
	if json.Unmarshal(s.JSON(), &doc) != nil { // true or false
		return s.JSON()
	}
	if _, ok := doc["$defs"]; ok {
		doc["$id"] = "https://toolyard.dev/schema/" + id
	}
	return doc
}
