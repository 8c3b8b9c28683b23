package homeassistant

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

// value is the value of the action set.
type value struct {
	Brightness  *float64 `json:"brightness,omitempty" minimum:"0" maximum:"100" doc:"For lights: brightness in percent, where 100 is full brightness"`
	Color       *string  `json:"color,omitempty" maxLength:"40" doc:"For lights: color, either an English color name such as red or a hex value such as #ff8800"`
	Kelvin      *int     `json:"kelvin,omitempty" minimum:"1000" maximum:"12000" doc:"For lights: color temperature in kelvin, such as 2700 for warm white"`
	Temperature *float64 `json:"temperature,omitempty" minimum:"-50" maximum:"120" doc:"For thermostats and water heaters: target temperature, in the unit that the home uses"`
	Humidity    *float64 `json:"humidity,omitempty" minimum:"0" maximum:"100" doc:"For humidifiers: target humidity in percent"`
	Position    *float64 `json:"position,omitempty" minimum:"0" maximum:"100" doc:"For covers such as blinds and shutters: position in percent, where 0 is closed and 100 is fully open"`
	Percentage  *float64 `json:"percentage,omitempty" minimum:"0" maximum:"100" doc:"For fans: speed in percent"`
	Volume      *float64 `json:"volume,omitempty" minimum:"0" maximum:"100" doc:"For media players: volume in percent"`
	Number      *float64 `json:"number,omitempty" doc:"For number entities: the new value"`
	Mode        *string  `json:"mode,omitempty" maxLength:"100" doc:"For thermostats, fans and humidifiers: the mode to set, such as heat or auto. For select entities: the option to select"`
}

// request is a service call on one entity.
type request struct {
	domain, service string
	data            map[string]any
	reached         func(*hass.State) bool // reports whether a state is the intended one; nil if any change counts
}

// key groups requests that can be sent as one.
func (r *request) key() string {
	data, _ := json.Marshal(r.data) // cannot fail for numbers and strings
	return r.domain + "." + r.service + string(data)
}

// service describes how to perform an action.
type service struct {
	name string   // name of the service
	goal []string // states that the action leads to; empty if any change confirms it
}

// on accepts any state except off.
const on = "!off"

var switchable = map[string]service{"turn_on": {"turn_on", []string{on}}, "turn_off": {"turn_off", []string{"off"}}, "toggle": {"toggle", nil}}

// services lists the actions that take no value, by domain.
var services = map[string]map[string]service{
	"light": switchable, "switch": switchable, "fan": switchable, "input_boolean": switchable, "humidifier": switchable, "siren": switchable, "remote": switchable,
	"climate": {"turn_on": {"turn_on", []string{on}}, "turn_off": {"turn_off", []string{"off"}}},
	"media_player": {
		"turn_on": {"turn_on", []string{on}}, "turn_off": {"turn_off", []string{"off"}}, "play": {"media_play", []string{"playing"}},
		"pause": {"media_pause", []string{"paused"}}, "stop": {"media_stop", []string{"idle", "off"}}, "next": {"media_next_track", nil}, "previous": {"media_previous_track", nil},
	},
	"cover":               {"open": {"open_cover", []string{"open"}}, "close": {"close_cover", []string{"closed"}}, "stop": {"stop_cover", nil}, "toggle": {"toggle", nil}},
	"valve":               {"open": {"open_valve", []string{"open"}}, "close": {"close_valve", []string{"closed"}}},
	"lock":                {"lock": {"lock", []string{"locked"}}, "unlock": {"unlock", []string{"unlocked", "open"}}, "open": {"open", []string{"open", "unlocked"}}},
	"alarm_control_panel": {"arm_home": {"alarm_arm_home", []string{"armed_home"}}, "arm_away": {"alarm_arm_away", []string{"armed_away"}}, "arm_night": {"alarm_arm_night", []string{"armed_night"}}, "disarm": {"alarm_disarm", []string{"disarmed"}}},
	"vacuum":              {"start": {"start", []string{"cleaning"}}, "stop": {"stop", nil}, "pause": {"pause", []string{"paused"}}, "return_home": {"return_to_base", []string{"returning", "docked"}}},
	"button":              {"press": {"press", nil}}, "input_button": {"press": {"press", nil}},
}

// setters convert the members of value that apply to each domain.
var setters = map[string]func(*value) *request{
	"light": func(v *value) *request {
		data := map[string]any{}
		put(data, "brightness_pct", v.Brightness)
		put(data, "color_temp_kelvin", v.Kelvin)
		if v.Color != nil {
			if rgb, ok := parseColor(*v.Color); ok {
				data["rgb_color"] = rgb
			} else {
				data["color_name"] = strings.ToLower(*v.Color)
			}
		}
		return newRequest("turn_on", data)
	},
	"climate": func(v *value) *request {
		if v.Mode != nil && v.Temperature == nil {
			return newRequest("set_hvac_mode", map[string]any{"hvac_mode": *v.Mode})
		}
		data := map[string]any{}
		put(data, "temperature", v.Temperature)
		put(data, "hvac_mode", v.Mode)
		return newRequest("set_temperature", data)
	},
	"water_heater": single("set_temperature", "temperature", func(v *value) *float64 { return v.Temperature }),
	"humidifier":   single("set_humidity", "humidity", func(v *value) *float64 { return v.Humidity }),
	"cover":        single("set_cover_position", "position", func(v *value) *float64 { return v.Position }),
	"fan":          single("set_percentage", "percentage", func(v *value) *float64 { return v.Percentage }),
	"number":       single("set_value", "value", func(v *value) *float64 { return v.Number }),
	"input_number": single("set_value", "value", func(v *value) *float64 { return v.Number }),
	"select":       single("select_option", "option", func(v *value) *string { return v.Mode }),
	"input_select": single("select_option", "option", func(v *value) *string { return v.Mode }),
	"media_player": func(v *value) *request {
		if v.Volume == nil {
			return nil
		}
		return newRequest("volume_set", map[string]any{"volume_level": *v.Volume / 100})
	},
}

func newRequest(service string, data map[string]any) *request {
	if len(data) == 0 {
		return nil
	}
	return &request{service: service, data: data}
}

func single[T any](service, argument string, member func(*value) *T) func(*value) *request {
	return func(v *value) *request {
		data := map[string]any{}
		put(data, argument, member(v))
		return newRequest(service, data)
	}
}

func put[T any](data map[string]any, name string, v *T) {
	if v != nil {
		data[name] = *v
	}
}

// parseColor parses #rrggbb.
func parseColor(s string) (rgb [3]int, ok bool) {
	var rest string
	n, err := fmt.Sscanf(s+"|", "#%02x%02x%02x%s", &rgb[0], &rgb[1], &rgb[2], &rest)
	return rgb, err == nil && n == 4 && rest == "|" && len(s) == 7
}

// actionNames returns a domain's actions, sorted.
func actionNames(domain string) []string {
	names := slices.Sorted(maps.Keys(services[domain]))
	if setters[domain] != nil {
		names = append(names, "set")
	}
	return names
}

// requestFor returns the service call for an action on an entity.
func requestFor(e *hass.Entity, action string, v *value) (*request, error) {
	if v == nil {
		v = &value{}
	}
	// Lights accept values with turn_on, which then has the same effect as set.
	if setter := setters[e.Domain]; setter != nil && (action == "set" || action == "turn_on" && e.Domain == "light" && *v != (value{})) {
		r := setter(v)
		if r == nil {
			return nil, toolyard.Errorf(toolyard.Invalid, "%s: set value to a value that is valid for a %s.", e.ID, e.Domain)
		}
		r.domain = e.Domain
		return r, nil
	}
	s, ok := services[e.Domain][action]
	if !ok {
		names := actionNames(e.Domain)
		if len(names) == 0 {
			return nil, toolyard.Errorf(toolyard.Invalid, "%s has no actions.", e.ID)
		}
		return nil, toolyard.Errorf(toolyard.Invalid, "%s has no action %q. Its actions are: %s.", e.ID, action, strings.Join(names, ", "))
	}
	if *v != (value{}) {
		return nil, toolyard.Errorf(toolyard.Invalid, "%s: value is accepted only with the action set.", e.ID)
	}
	r := &request{domain: e.Domain, service: s.name}
	if len(s.goal) > 0 {
		r.reached = func(st *hass.State) bool {
			if s.goal[0] == on {
				return st.Value != "off" && st.Value != "unavailable" && st.Value != "unknown"
			}
			return slices.Contains(s.goal, st.Value)
		}
	}
	return r, nil
}

// mainAttributes are the attributes that control_device changes most often, by domain.
var mainAttributes = map[string]struct {
	name, format string
	scale        float64
}{
	"light":        {"brightness", ", brightness %v %%", 100.0 / 255},
	"climate":      {"temperature", ", target %v°", 1},
	"water_heater": {"temperature", ", target %v°", 1},
	"cover":        {"current_position", ", %v %% open", 1},
	"fan":          {"percentage", ", %v %%", 1},
	"media_player": {"volume_level", ", volume %v %%", 100},
	"humidifier":   {"humidity", ", target %v %%", 1},
}

// describe returns an entity's state and main attribute.
func describe(e *hass.Entity) string {
	text := printable(e.State.Value, 60)
	main, ok := mainAttributes[e.Domain]
	var number *float64
	if !ok || json.Unmarshal(e.State.Attributes[main.name], &number) != nil || number == nil {
		return text
	}
	return text + fmt.Sprintf(main.format, math.Round(*number*main.scale*10)/10)
}
