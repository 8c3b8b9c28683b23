package fakehome

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// object is a JSON object in the API.
type object = map[string]any

// world is a home's content. Registries are stored in the API's format.
type world struct {
	areas, devices, entities, floors, labels []object
	states                                   map[string]*state
	scenes                                   map[string]map[string]string // states of entities, by scene
	configs                                  map[string]object            // configurations of scripts and automations
	changes                                  []change
}

// state is an entity's state.
type state struct {
	ID          string
	State       string
	Attributes  object
	LastChanged time.Time
	LastUpdated time.Time
	Context     object
}

// change is a recorded state change, for history and the logbook.
type change struct {
	id, state string
	at        time.Time
	context   object
}

// entity describes one of the house's entities.
type entity struct {
	id, name   string
	state      string
	attributes object
	device     string // determines the area, unless area is set
	area       string
	labels     []string
	category   string // "", "config" or "diagnostic"
	platform   string // defaults to "demo"
	hidden     bool
	private    bool // whether the entity is not exposed to Assist
	noRegistry bool
}

var created = float64(time.Date(2025, 3, 1, 8, 0, 0, 0, time.UTC).Unix())

func newWorld(now time.Time, extra int) *world {
	w := &world{states: map[string]*state{}, scenes: map[string]map[string]string{}, configs: map[string]object{}}
	w.floors = []object{floor("ground", "Ground floor", 0, "downstairs"), floor("upper", "Upper floor", 1, "upstairs")}
	w.areas = []object{
		area("hall", "Hall", "ground", "entrance"), area("kitchen", "Kitchen", "ground"),
		area("living_room", "Living room", "ground", "lounge"), area("bedroom", "Bedroom", "upper"), area("garage", "Garage", nil),
	}
	w.labels = []object{label("night", "Night"), label("critical", "Critical")}
	w.devices = []object{
		device("d_lock", "hall", "Front door lock", "Nuki", "Smart Lock 4"), device("d_kitchen", "kitchen", "Kitchen lamp", "IKEA", "FLOALT"),
		device("d_lamp", "hall", "Lamp", "IKEA", "TRADFRI"), device("d_garage", "garage", "Garage door", "Hörmann", "ProMatic"),
		device("d_alarm", "hall", "Alarm", "Ajax", "Hub 2"), device("d_phone", nil, "Phone", "Fairphone", "5"),
	}
	for _, e := range house() {
		w.addEntity(e, now)
	}
	w.addScenes()
	w.addScripts()
	rooms := []string{"hall", "kitchen", "living_room", "bedroom", "garage", ""}
	for i := range extra {
		w.addEntity(entity{
			id: fmt.Sprintf("sensor.extra_%04d", i), name: fmt.Sprintf("Extra sensor %d", i), state: fmt.Sprint(i % 40), area: rooms[i%len(rooms)],
			attributes: object{"unit_of_measurement": "°C", "device_class": "temperature", "state_class": "measurement"},
		}, now)
	}
	return w
}

func house() []entity {
	return []entity{
		{id: "light.kitchen", name: "Kitchen light", state: "on", device: "d_kitchen", labels: []string{"night"}, attributes: object{"brightness": 128, "supported_color_modes": []string{"brightness"}, "color_mode": "brightness"}},
		{id: "light.living_room", name: "Reading lamp", state: "off", device: "d_lamp", area: "living_room", attributes: object{"supported_color_modes": []string{"rgb"}}},
		{id: "light.hall", name: "Hall light", state: "off", area: "hall"},
		{id: "light.bedroom", name: "Bedroom light", state: "off", area: "bedroom"},
		{id: "light.downstairs", name: "All downstairs", state: "on", attributes: object{"entity_id": []string{"light.kitchen", "light.living_room", "light.hall"}}, platform: "group"},
		{id: "group.everything", name: "Everything", state: "on", attributes: object{"entity_id": []string{"light.kitchen", "lock.front_door"}}, platform: "group"},
		{id: "switch.coffee", name: "Coffee machine", state: "off", area: "kitchen"},
		{id: "switch.boiler", name: "Boiler", state: "on"},
		{id: "lock.front_door", name: "Front door", state: "locked", device: "d_lock", labels: []string{"critical"}, attributes: object{"changed_by": "Ann"}},
		{id: "lock.safe", name: "Safe", state: "locked", area: "bedroom"},
		{id: "cover.garage", name: "Garage door", state: "closed", device: "d_garage", attributes: object{"device_class": "garage", "current_position": 0}},
		{id: "cover.blinds", name: "Blinds", state: "open", area: "living_room", attributes: object{"device_class": "blind", "current_position": 100}},
		{id: "alarm_control_panel.home", name: "Alarm", state: "disarmed", device: "d_alarm", attributes: object{"code_format": "number", "code_arm_required": false}},
		{id: "valve.water_main", name: "Water main", state: "open"},
		{id: "siren.indoor", name: "Indoor siren", state: "off", area: "hall"},
		{id: "climate.living_room", name: "Heating", state: "heat", area: "living_room", attributes: object{"temperature": 21.0, "current_temperature": 19.5, "hvac_modes": []string{"off", "heat"}, "min_temp": 7, "max_temp": 30}},
		{id: "fan.bedroom", name: "Bedroom fan", state: "off", area: "bedroom", attributes: object{"percentage": 0}},
		{id: "media_player.living_room", name: "Speaker", state: "playing", area: "living_room", attributes: object{"volume_level": 0.4, "media_title": "Blue Train", "entity_picture": "/api/media_player_proxy/media_player.living_room?token=9f8e7d&cache=1"}},
		{id: "sensor.kitchen_temperature", name: "Kitchen temperature", state: "20.5", area: "kitchen", attributes: object{"unit_of_measurement": "°C", "device_class": "temperature", "state_class": "measurement"}},
		{id: "sensor.energy", name: "Energy", state: "1204.2", attributes: object{"unit_of_measurement": "kWh", "device_class": "energy", "state_class": "total_increasing"}},
		{id: "sensor.front_door_battery", name: "Front door battery", state: "12", device: "d_lock", category: "diagnostic", attributes: object{"unit_of_measurement": "%", "device_class": "battery"}},
		{id: "sensor.uptime", name: "Uptime", state: "2026-01-01T00:00:00+00:00", device: "d_alarm", category: "diagnostic", attributes: object{"device_class": "timestamp"}},
		{id: "sensor.router", name: "Router", state: "ok", hidden: true},
		{id: "sensor.diary", name: "Diary", state: "secret thought", private: true},
		{id: "sensor.weather_station", name: "Weather station", state: "unavailable", attributes: object{"device_class": "temperature"}},
		{id: "binary_sensor.hall_motion", name: "Hall motion", state: "off", area: "hall", attributes: object{"device_class": "motion"}},
		{id: "binary_sensor.kitchen_window", name: "Kitchen window", state: "on", area: "kitchen", attributes: object{"device_class": "window"}},
		{id: "camera.front", name: "Front camera", state: "idle", area: "hall", attributes: object{"access_token": "0123456789abcdef-camera", "entity_picture": "/api/camera_proxy/camera.front?token=0123456789abcdef-camera", "frontend_stream_type": "hls"}},
		{id: "device_tracker.phone", name: "Phone", state: "home", device: "d_phone", attributes: object{"latitude": 52.5, "longitude": 13.4, "gps_accuracy": 12, "source_type": "gps"}},
		{id: "person.ann", name: "Ann", state: "home", attributes: object{"latitude": 52.5, "longitude": 13.4, "user_id": "0f0f", "device_trackers": []string{"device_tracker.phone"}}},
		{id: "input_boolean.guests", name: "Guests", state: "off"},
		{id: "input_number.target", name: "Target", state: "20", attributes: object{"min": 5, "max": 30}},
		{id: "select.washer_program", name: "Washer program", state: "cotton", attributes: object{"options": []string{"cotton", "wool"}}},
		{id: "vacuum.robot", name: "Robot", state: "docked", attributes: object{"battery_level": 90}},
		{id: "sun.sun", name: "Sun", state: "above_horizon", noRegistry: true},
		{id: "zone.home", name: "Home", state: "1", attributes: object{"latitude": 52.5, "longitude": 13.4}, noRegistry: true},
	}
}

func (w *world) addScenes() {
	for id, s := range map[string]struct {
		name     string
		platform string
		states   map[string]string
	}{
		"scene.movie":      {"Movie", "homeassistant", map[string]string{"light.living_room": "on", "cover.blinds": "closed"}},
		"scene.leaving":    {"Leaving", "homeassistant", map[string]string{"light.hall": "off", "lock.front_door": "locked"}},
		"scene.hue_sunset": {"Sunset", "hue", nil},
	} {
		attributes := object{}
		if s.states != nil {
			attributes["entity_id"] = slices.Sorted(maps.Keys(s.states))
		}
		w.scenes[id] = s.states
		w.addEntity(entity{id: id, name: s.name, state: "unknown", platform: s.platform, attributes: attributes}, time.Unix(int64(created), 0))
	}
}

// addScripts adds scripts and automations with the configurations that script/config and
// automation/config return.
func (w *world) addScripts() {
	step := func(action string, ids ...string) object {
		return object{"action": action, "target": object{"entity_id": ids}}
	}
	for id, config := range map[string]object{
		"script.good_night":       {"alias": "Good night", "sequence": []any{step("light.turn_off", "light.kitchen", "light.hall"), object{"delay": "00:00:01"}}},
		"script.lock_up":          {"alias": "Lock up", "sequence": []any{step("lock.lock", "lock.front_door")}},
		"script.leave_home":       {"alias": "Leave home", "sequence": []any{step("light.turn_off", "light.hall"), object{"action": "script.lock_up"}}},
		"script.leave_by_turn_on": {"alias": "Leave by turn_on", "sequence": []any{object{"if": []any{}, "then": []any{step("script.turn_on", "script.leave_home")}}}},
		"script.templated":        {"alias": "Templated", "sequence": []any{object{"action": "homeassistant.turn_off", "target": object{"entity_id": "{{ which }}"}}}},
		"script.area":             {"alias": "Hall off", "sequence": []any{object{"action": "homeassistant.turn_off", "target": object{"area_id": "hall"}}}},
		"script.area_lights":      {"alias": "Hall lights off", "sequence": []any{object{"action": "light.turn_off", "target": object{"area_id": "hall"}}}},
		"script.by_blueprint":     {"alias": "By blueprint", "use_blueprint": object{"path": "x/y.yaml", "input": object{}}},
		"script.shell":            {"alias": "Shell", "sequence": []any{object{"action": "shell_command.open_door"}}},
		"script.scene":            {"alias": "Scene", "sequence": []any{object{"scene": "scene.leaving"}}},
		"script.device":           {"alias": "Device", "sequence": []any{object{"device_id": "d_lock", "domain": "lock", "type": "unlock", "entity_id": "lock.front_door"}}},
		"script.group":            {"alias": "Group", "sequence": []any{step("homeassistant.turn_off", "group.everything")}},
		"script.loop":             {"alias": "Loop", "sequence": []any{object{"action": "script.loop"}, step("light.turn_off", "light.hall")}},
		"automation.night":        {"id": "night", "alias": "Night lights", "triggers": []any{object{"trigger": "time", "at": "23:00:00"}}, "actions": []any{step("light.turn_off", "light.kitchen")}},
		"automation.morning":      {"id": "morning", "alias": "Morning", "trigger": []any{object{"platform": "time", "at": "07:00:00"}}, "action": []any{step("lock.unlock", "lock.front_door")}},
	} {
		e := entity{id: id, name: fmt.Sprint(config["alias"]), state: "off", attributes: object{"last_triggered": nil, "mode": "single", "current": 0}}
		if strings.HasPrefix(id, "automation.") {
			e.state = "on"
			e.attributes["id"] = config["id"]
			e.attributes["last_triggered"] = "2026-02-01T22:00:00+00:00"
		}
		w.configs[id] = config
		w.addEntity(e, time.Unix(int64(created), 0))
	}
}

func floor(id, name string, level int, aliases ...string) object {
	return object{"floor_id": id, "name": name, "level": level, "aliases": aliases, "icon": nil, "created_at": created, "modified_at": created}
}

func area(id, name string, floor any, aliases ...string) object {
	return object{
		"area_id": id, "name": name, "floor_id": floor, "aliases": append([]string{}, aliases...), "labels": []string{}, "icon": nil, "picture": nil,
		"temperature_entity_id": nil, "humidity_entity_id": nil, "created_at": created, "modified_at": created,
	}
}

func label(id, name string) object {
	return object{"label_id": id, "name": name, "color": nil, "description": nil, "icon": nil, "created_at": created, "modified_at": created}
}

func device(id string, area any, name, manufacturer, model string) object {
	return object{
		"id": id, "area_id": area, "name": name, "name_by_user": nil, "manufacturer": manufacturer, "model": model, "model_id": nil, "labels": []string{},
		"disabled_by": nil, "entry_type": nil, "via_device_id": nil, "identifiers": [][]string{{"demo", id}}, "connections": [][]string{},
		"config_entries": []string{"entry1"}, "config_entries_subentries": object{"entry1": []any{nil}}, "primary_config_entry": "entry1",
		"configuration_url": nil, "hw_version": nil, "sw_version": "1.0", "serial_number": nil, "created_at": created, "modified_at": created,
	}
}

func (w *world) addEntity(e entity, now time.Time) {
	attributes := object{"friendly_name": e.name}
	maps.Copy(attributes, e.attributes)
	changed := now.Add(-time.Hour).Truncate(time.Millisecond)
	w.states[e.id] = &state{ID: e.id, State: e.state, Attributes: attributes, LastChanged: changed, LastUpdated: changed, Context: newContext("")}
	w.changes = append(w.changes, change{e.id, e.state, changed, w.states[e.id].Context})
	if e.noRegistry {
		return
	}
	domain, name, _ := strings.Cut(e.id, ".")
	if e.platform == "" {
		e.platform = "demo"
		if domain == "script" || domain == "automation" {
			e.platform = domain
		}
	}
	labels := append([]string{}, e.labels...)
	w.entities = append(w.entities, object{
		"entity_id": e.id, "id": hex.EncodeToString([]byte(e.id)), "unique_id": name, "platform": e.platform, "device_id": optional(e.device), "area_id": optional(e.area),
		"name": nil, "original_name": e.name, "has_entity_name": false, "labels": labels, "entity_category": optional(e.category), "hidden_by": optional(map[bool]string{true: "user"}[e.hidden]),
		"disabled_by": nil, "options": object{"conversation": object{"should_expose": !e.private}}, "categories": object{}, "config_entry_id": nil, "config_subentry_id": nil,
		"icon": nil, "translation_key": nil, "created_at": created, "modified_at": created,
	})
}

func optional(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func newContext(user string) object {
	id := make([]byte, 13)
	_, _ = rand.Read(id)
	return object{"id": strings.ToUpper(hex.EncodeToString(id)), "parent_id": nil, "user_id": optional(user)}
}

// targets returns a target's entities, selected by entity, device, area, floor and label.
func (w *world) targets(data object) []string {
	found := map[string]bool{}
	for _, id := range list(data["entity_id"]) {
		found[id] = true
	}
	areas := list(data["area_id"])
	for _, f := range list(data["floor_id"]) {
		for _, a := range w.areas {
			if a["floor_id"] == f {
				areas = append(areas, a["area_id"].(string))
			}
		}
	}
	for _, e := range w.entities {
		id, device, ownArea := e["entity_id"].(string), text(e["device_id"]), w.areaOf(e)
		if device != "" && slices.Contains(list(data["device_id"]), device) || ownArea != "" && slices.Contains(areas, ownArea) {
			found[id] = true
		}
		for _, l := range e["labels"].([]string) {
			found[id] = found[id] || slices.Contains(list(data["label_id"]), l)
		}
	}
	for id := range found {
		if members := list(w.attributes(id)["entity_id"]); len(members) > 0 && !strings.HasPrefix(id, "scene.") {
			delete(found, id)
			for _, m := range members {
				found[m] = true
			}
		}
	}
	maps.DeleteFunc(found, func(id string, in bool) bool { return !in || w.states[id] == nil })
	return slices.Sorted(maps.Keys(found))
}

func (w *world) attributes(id string) object {
	if s := w.states[id]; s != nil {
		return s.Attributes
	}
	return nil
}

func (w *world) areaOf(entity object) string {
	if a := text(entity["area_id"]); a != "" {
		return a
	}
	for _, d := range w.devices {
		if d["id"] == entity["device_id"] {
			return text(d["area_id"])
		}
	}
	return ""
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// list converts a string or a list of strings to a list.
func list(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, text(item))
		}
		return all
	}
	return nil
}
