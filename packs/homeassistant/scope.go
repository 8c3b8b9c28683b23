package homeassistant

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

// exposure selects entities: those exposed to Assist, all entities, or those that match any of the
// lists. The zero value means assist.
type exposure struct {
	All      bool
	Areas    []string `json:"areas"`
	Labels   []string `json:"labels"`
	Domains  []string `json:"domains"`
	Entities []string `json:"entities"`
}

// JSONSchema returns the setting's schema.
func (exposure) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"anyOf":[
		{"type":"string","enum":["assist","all"]},
		{"type":"object","minProperties":1,"additionalProperties":false,"properties":{
			"areas":{"type":"array","items":{"type":"string"},"description":"Area IDs or names."},
			"labels":{"type":"array","items":{"type":"string"},"description":"Label IDs or names."},
			"domains":{"type":"array","items":{"type":"string"},"description":"Domains, such as light."},
			"entities":{"type":"array","items":{"type":"string"},"description":"Entity IDs. * matches any characters."}}}]}`)
}

// UnmarshalJSON decodes "assist", "all" or an object.
func (e *exposure) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case `"assist"`:
		*e = exposure{}
		return nil
	case `"all"`:
		*e = exposure{All: true}
		return nil
	}
	type lists exposure // avoids recursion into this method
	return json.Unmarshal(raw, (*lists)(e))
}

// orAll returns a selection of all entities if e is the zero value. It is used for settings that
// restrict others.
func (e exposure) orAll() exposure {
	if e.isAssist() {
		return exposure{All: true}
	}
	return e
}

func (e *exposure) isAssist() bool {
	return !e.All && e.Areas == nil && e.Labels == nil && e.Domains == nil && e.Entities == nil
}

func (e *exposure) includes(entity *hass.Entity, labels []*hass.Label) bool {
	switch {
	case e.All:
		return true
	case e.isAssist():
		return entity.Exposed
	case slices.Contains(e.Domains, entity.Domain), matchesAny(e.Entities, entity.ID):
		return true
	case entity.Area != nil && slices.ContainsFunc(e.Areas, func(name string) bool { return isArea(entity.Area, name) }):
		return true
	}
	return slices.ContainsFunc(e.Labels, func(name string) bool { return hasLabel(entity, labels, name) })
}

// isArea reports whether name is an area's ID, name or alias, ignoring case.
func isArea(a *hass.Area, name string) bool {
	return strings.EqualFold(a.ID, name) || strings.EqualFold(a.Name, name) || containsFold(a.Aliases, name)
}

func isFloor(f *hass.Floor, name string) bool {
	return f != nil && (strings.EqualFold(f.ID, name) || strings.EqualFold(f.Name, name) || containsFold(f.Aliases, name))
}

func hasLabel(e *hass.Entity, labels []*hass.Label, name string) bool {
	return slices.ContainsFunc(labels, func(l *hass.Label) bool {
		return (strings.EqualFold(l.ID, name) || strings.EqualFold(l.Name, name)) && slices.Contains(e.Labels, l.ID)
	})
}

func containsFold(all []string, name string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.EqualFold(s, name) })
}

// matchesAny reports whether an ID matches one of the patterns.
func matchesAny(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, id) // cannot fail: newPolicy has checked the pattern
		return ok
	})
}

// policy holds the configured rules for entities.
type policy struct {
	confirm, deny, services []string
	codes                   map[string]string
}

func newPolicy(s *settings) (*policy, error) {
	for key, patterns := range map[string][]string{"confirm": s.Confirm, "deny": s.Deny, "services": s.Services, "expose.entities": s.Expose.Entities} {
		for _, p := range patterns {
			if _, err := path.Match(p, "a.b"); err != nil || !strings.Contains(p, ".") {
				return nil, fmt.Errorf("%s: %q is not a pattern such as lock.front_door or lock.*", key, p)
			}
		}
	}
	for id, code := range s.Codes {
		if !strings.Contains(id, ".") || code == "" {
			return nil, errors.New("codes: each entry must be an entity ID and its code")
		}
	}
	return &policy{confirm: s.Confirm, deny: s.Deny, services: s.Services, codes: s.Codes}, nil
}

var (
	sensitiveDomains = []string{"lock", "alarm_control_panel", "valve", "siren"}
	sensitiveCovers  = []string{"garage", "gate", "door"} // device classes
)

// isSensitive reports whether an entity requires confirmation, ignoring its members.
func (p *policy) isSensitive(e *hass.Entity) bool {
	return slices.Contains(sensitiveDomains, e.Domain) ||
		e.Domain == "cover" && slices.Contains(sensitiveCovers, e.State.DeviceClass) ||
		matchesAny(p.confirm, e.ID)
}
