package homeassistant

import (
	"context"
	"encoding/json"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

type deviceArgs struct {
	ID string `json:"id" minLength:"1" maxLength:"255" doc:"The device, by entity id such as light.kitchen or by name"`
}

// deviceDetail is all the information shown about an entity.
type deviceDetail struct {
	deviceSummary
	Floor      string                     `json:"floor,omitempty"`
	Labels     []string                   `json:"labels,omitempty"`
	Category   string                     `json:"category,omitempty"`
	Hardware   *hardware                  `json:"hardware,omitempty"`
	Attributes map[string]json.RawMessage `json:"attributes,omitempty"`
	NotShown   int                        `json:"attributes_not_shown,omitempty"`
	Actions    []string                   `json:"actions,omitempty"`
	Tool       string                     `json:"tool,omitempty"` // tool that performs the actions
	Updated    string                     `json:"updated,omitempty"`
	Note       string                     `json:"note,omitempty"`
}

// hardware is the device that an entity belongs to.
type hardware struct {
	Name         string `json:"name,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
}

var getDevice = toolyard.Define(readSpec("get_device", "Returns a device's state, attributes and location, and the actions that it supports."),
	func(ctx context.Context, c *toolyard.Call, in deviceArgs) (deviceDetail, error) {
		v, err := viewOf(ctx, c)
		if err != nil {
			return deviceDetail{}, err
		}
		e, err := v.find(in.ID)
		if err != nil {
			return deviceDetail{}, err
		}
		return v.detail(e), nil
	})

func (v *view) detail(e *hass.Entity) deviceDetail {
	d := deviceDetail{deviceSummary: summarize(e), Category: e.Category, Updated: minute(e.State.Updated), Note: v.note()}
	d.Attributes, d.NotShown = shownAttributes(e)
	if e.Area != nil && e.Area.Floor != nil {
		d.Floor = printable(e.Area.Floor.Name, 60)
	}
	for _, l := range v.Labels {
		if hasLabel(e, v.Labels, l.ID) {
			d.Labels = append(d.Labels, printable(l.Name, 40))
		}
	}
	if dev := e.Device; dev != nil {
		name := dev.NameByUser
		if name == "" {
			name = dev.Name
		}
		d.Hardware = &hardware{printable(name, 80), printable(dev.Manufacturer, 60), printable(dev.Model, 60)}
	}
	d.Actions, d.Tool = v.actionsOf(e)
	return d
}

// actionsOf returns an entity's actions and the tool that performs them.
func (v *view) actionsOf(e *hass.Entity) (actions []string, tool string) {
	switch e.Domain {
	case "scene":
		return nil, activateScene.Name
	case "script":
		return nil, runScript.Name
	case "automation":
		return nil, triggerAutomation.Name
	}
	actions = actionNames(e.Domain)
	switch {
	case len(actions) == 0:
		return nil, ""
	case v.isSensitive(e):
		return actions, controlSecurity.Name
	}
	return actions, controlDevice.Name
}
