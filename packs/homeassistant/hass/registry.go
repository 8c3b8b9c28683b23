package hass

import (
	"encoding/json"
	"fmt"
)

// Area is a room or a part of the home.
type Area struct {
	ID      string   `json:"area_id"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
	FloorID string   `json:"floor_id"`
	Floor   *Floor   `json:"-"` // may be nil
}

// Floor is a floor of the home.
type Floor struct {
	ID      string   `json:"floor_id"`
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
}

// Label is a label for entities and devices.
type Label struct {
	ID   string `json:"label_id"`
	Name string `json:"name"`
}

// Device is a device, which has any number of entities.
type Device struct {
	ID           string   `json:"id"`
	AreaID       string   `json:"area_id"`
	Name         string   `json:"name"`
	NameByUser   string   `json:"name_by_user"`
	Manufacturer string   `json:"manufacturer"`
	Model        string   `json:"model"`
	Labels       []string `json:"labels"`
}

// registryEntry is an entity's entry in the registry.
type registryEntry struct {
	EntityID     string   `json:"entity_id"`
	DeviceID     string   `json:"device_id"`
	AreaID       string   `json:"area_id"`
	Name         string   `json:"name"`
	OriginalName string   `json:"original_name"`
	Platform     string   `json:"platform"`
	UniqueID     string   `json:"unique_id"`
	Labels       []string `json:"labels"`
	Category     string   `json:"entity_category"`
	HiddenBy     string   `json:"hidden_by"`
	DisabledBy   string   `json:"disabled_by"`
	Options      struct {
		Conversation struct {
			ShouldExpose bool `json:"should_expose"`
		} `json:"conversation"`
	} `json:"options"`
}

// registries are a home's registries.
type registries struct {
	areas    []*Area
	floors   []*Floor
	labels   []*Label
	devices  []*Device
	entities []*registryEntry
}

// registryNames are the registries' names in commands and events. Home Assistant versions before
// 2024 have no floors or labels.
var registryNames = []string{"area", "device", "entity", "floor", "label"}

func isOptional(registry string) bool { return registry == "floor" || registry == "label" }

// load replaces one registry.
func (r *registries) load(name string, raw json.RawMessage) (err error) {
	switch name {
	case "area":
		r.areas, err = parseList[Area](raw)
	case "floor":
		r.floors, err = parseList[Floor](raw)
	case "label":
		r.labels, err = parseList[Label](raw)
	case "device":
		r.devices, err = parseList[Device](raw)
	case "entity":
		r.entities, err = parseList[registryEntry](raw)
	}
	if err != nil {
		return fmt.Errorf("invalid %s registry: %w", name, err)
	}
	return nil
}

// parseList parses a list of objects. It skips null.
func parseList[T any](raw json.RawMessage) ([]*T, error) {
	var all []*T
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if len(all) > maxEntities {
		return nil, fmt.Errorf("more than %d entries", maxEntities)
	}
	kept := all[:0]
	for _, entry := range all {
		if entry != nil {
			kept = append(kept, entry)
		}
	}
	return kept, nil
}
