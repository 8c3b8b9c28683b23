package hass

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// maxEntities is the maximum number of mirrored entities. Larger homes are refused.
const maxEntities = 100_000

// State is an entity's state. It is immutable.
type State struct {
	Value      string
	Attributes map[string]json.RawMessage
	Changed    time.Time // time when Value last changed
	Updated    time.Time // time when anything last changed

	FriendlyName, DeviceClass, Unit string // frequently used attributes
}

// Text returns an attribute's value if it is a string, and "" otherwise.
func (s *State) Text(attribute string) string {
	var text string
	_ = json.Unmarshal(s.Attributes[attribute], &text) // other types count as absent
	return text
}

// Texts returns an attribute's value if it is a list of strings.
func (s *State) Texts(attribute string) []string {
	var texts []string
	_ = json.Unmarshal(s.Attributes[attribute], &texts) // other types count as absent
	return texts
}

func newState(value string, attributes map[string]json.RawMessage, changed, updated time.Time) *State {
	s := &State{Value: value, Attributes: attributes, Changed: changed, Updated: updated}
	s.FriendlyName, s.DeviceClass, s.Unit = s.Text("friendly_name"), s.Text("device_class"), s.Text("unit_of_measurement")
	return s
}

// with returns the state after a change.
func (s *State) with(d *stateDiff) *State {
	value, attributes, changed, updated := s.Value, s.Attributes, s.Changed, s.Updated
	if d.Added.State != nil {
		value = *d.Added.State
	}
	if len(d.Added.Attributes) > 0 || len(d.Removed.Attributes) > 0 {
		attributes = maps.Clone(attributes)
		if attributes == nil {
			attributes = make(map[string]json.RawMessage)
		}
		maps.Copy(attributes, d.Added.Attributes)
		for _, name := range d.Removed.Attributes {
			delete(attributes, name)
		}
	}
	if d.Added.Changed != nil {
		changed = unix(d.Added.Changed)
		updated = changed
	}
	if d.Added.Updated != nil {
		updated = unix(d.Added.Updated)
	}
	return newState(value, attributes, changed, updated)
}

// apply applies an event to the states. It returns the entities that changed, and whether entities
// were added or removed.
func (e *entitiesEvent) apply(states map[string]*State) (changed []string, structure bool, err error) {
	for id, added := range e.Added {
		if added == nil || added.State == nil {
			return nil, false, fmt.Errorf("invalid states: %.80q has no state", id)
		}
		updated := added.Updated
		if updated == nil {
			updated = added.Changed
		}
		states[id] = newState(*added.State, added.Attributes, unix(added.Changed), unix(updated))
		structure = true
	}
	for id, d := range e.Changed {
		old := states[id]
		if old == nil || d == nil {
			return nil, false, fmt.Errorf("invalid states: %.80q changed before it was added", id)
		}
		states[id] = old.with(d)
		changed = append(changed, id)
	}
	for _, id := range e.Removed {
		delete(states, id)
		structure = true
	}
	if len(states) > maxEntities {
		return nil, false, fmt.Errorf("more than %d entities in Home Assistant", maxEntities)
	}
	return changed, structure, nil
}
