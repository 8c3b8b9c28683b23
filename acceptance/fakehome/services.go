package fakehome

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// effect is a service's effect on one entity. It returns the new state, or "" if the state does not
// change.
type effect func(old string, attributes, data object) (string, object, *failure)

func to(state string) effect {
	return func(string, object, object) (string, object, *failure) { return state, nil, nil }
}

func toggle(on, off string) effect {
	return func(old string, _, _ object) (string, object, *failure) {
		if old == on {
			return off, nil, nil
		}
		return on, nil, nil
	}
}

// keep returns an effect that stores an argument as an attribute and does not change the state.
func keep(argument, attribute string) effect {
	return func(old string, _, data object) (string, object, *failure) {
		if data[argument] == nil {
			return "", nil, &failure{"invalid_format", "required key not provided @ data['" + argument + "']"}
		}
		return old, object{attribute: data[argument]}, nil
	}
}

// effects lists the services by domain.
var effects = map[string]map[string]effect{
	"light": {"turn_on": lightOn, "turn_off": to("off"), "toggle": toggle("on", "off")},
	"fan":   {"turn_on": to("on"), "turn_off": to("off"), "toggle": toggle("on", "off"), "set_percentage": setFan},
	"switch": {
		"turn_on": to("on"), "turn_off": to("off"), "toggle": toggle("on", "off"),
	},
	"input_boolean": {"turn_on": to("on"), "turn_off": to("off"), "toggle": toggle("on", "off")},
	"siren":         {"turn_on": to("on"), "turn_off": to("off"), "toggle": toggle("on", "off")},
	"lock":          {"lock": to("locked"), "unlock": to("unlocked"), "open": to("open")},
	"cover":         {"open_cover": to("open"), "close_cover": to("closed"), "stop_cover": same, "toggle": toggle("open", "closed"), "set_cover_position": setPosition},
	"valve":         {"open_valve": to("open"), "close_valve": to("closed"), "toggle": toggle("open", "closed")},
	"alarm_control_panel": {
		"alarm_arm_home": withCode("armed_home"), "alarm_arm_away": withCode("armed_away"), "alarm_arm_night": withCode("armed_night"), "alarm_disarm": withCode("disarmed"),
	},
	"climate":      {"set_temperature": setTemperature, "set_hvac_mode": mode("hvac_mode"), "turn_on": to("heat"), "turn_off": to("off")},
	"media_player": {"turn_on": to("on"), "turn_off": to("off"), "media_play": to("playing"), "media_pause": to("paused"), "media_stop": to("idle"), "volume_set": keep("volume_level", "volume_level")},
	"input_number": {"set_value": mode("value")},
	"number":       {"set_value": mode("value")},
	"select":       {"select_option": mode("option")},
	"vacuum":       {"start": to("cleaning"), "stop": to("idle"), "return_to_base": to("returning")},
}

// others lists services that do not change their domain's states.
var others = map[string][]string{
	"scene": {"turn_on", "apply"}, "script": {"turn_on", "turn_off", "toggle", "reload"}, "automation": {"trigger", "turn_on", "turn_off"},
	"homeassistant": {"turn_on", "turn_off", "toggle", "restart"}, "notify": {"mobile_app_phone", "send_message"}, "persistent_notification": {"create"},
	"shell_command": {"open_door"},
}

func same(old string, _, _ object) (string, object, *failure) { return old, nil, nil }

func lightOn(_ string, _, data object) (string, object, *failure) {
	attributes := object{}
	for key, v := range data {
		switch key {
		case "brightness_pct":
			attributes["brightness"] = int(v.(float64) * 255 / 100)
		case "brightness", "rgb_color", "color_temp_kelvin", "effect":
			attributes[key] = v
		case "entity_id", "area_id", "device_id", "floor_id", "label_id", "transition", "color_name":
		default:
			return "", nil, &failure{"invalid_format", "extra keys not allowed @ data['" + key + "']. Got " + fmt.Sprint(v)}
		}
	}
	return "on", attributes, nil
}

func setFan(old string, _, data object) (string, object, *failure) {
	percentage, _ := data["percentage"].(float64)
	if percentage > 0 {
		old = "on"
	}
	return old, object{"percentage": percentage}, nil
}

func setPosition(_ string, _, data object) (string, object, *failure) {
	position, _ := data["position"].(float64)
	if position == 0 {
		return "closed", object{"current_position": position}, nil
	}
	return "open", object{"current_position": position}, nil
}

func setTemperature(old string, attributes, data object) (string, object, *failure) {
	temperature, ok := data["temperature"].(float64)
	if low, high := fmt.Sprint(attributes["min_temp"]), fmt.Sprint(attributes["max_temp"]); !ok || temperature < 7 || temperature > 30 {
		return "", nil, &failure{"service_validation_error", fmt.Sprintf("Provided temperature %v is not valid. Accepted range is %s to %s", data["temperature"], low, high)}
	}
	return old, object{"temperature": temperature}, nil
}

func mode(argument string) effect {
	return func(_ string, _, data object) (string, object, *failure) { return fmt.Sprint(data[argument]), nil, nil }
}

func withCode(state string) effect {
	return func(_ string, _, data object) (string, object, *failure) {
		if state == "disarmed" && data["code"] != "1234" {
			return "", nil, &failure{"service_validation_error", "Code is not valid"}
		}
		return state, nil, nil
	}
}

// services returns the result of get_services.
func services(w *world) object {
	all := object{}
	add := func(domain, service string) {
		if all[domain] == nil {
			all[domain] = object{}
		}
		all[domain].(object)[service] = object{"name": service, "description": "", "fields": object{}, "target": object{"entity": []object{{"domain": []string{domain}}}}}
	}
	for domain, named := range effects {
		for service := range named {
			add(domain, service)
		}
	}
	for domain, named := range others {
		for _, service := range named {
			add(domain, service)
		}
	}
	for id := range w.configs {
		if name, ok := strings.CutPrefix(id, "script."); ok {
			add("script", name)
		}
	}
	return all
}

// callService executes a call_service command. The home must be locked.
func (h *Home) callService(command object) (any, *failure) {
	data := object{}
	for _, key := range []string{"service_data", "target"} {
		o, _ := command[key].(object)
		maps.Copy(data, o)
	}
	for _, id := range list(data["entity_id"]) {
		if strings.Contains(id, "{") {
			return nil, &failure{"invalid_format", "Not a valid entity ID"}
		}
	}
	by := newContext("ann-user-id")
	if err := h.call(text(command["domain"]), text(command["service"]), data, by, false); err != nil {
		return nil, err
	}
	return object{"context": by}, nil
}

func (h *Home) call(domain, service string, data, by object, nested bool) *failure {
	if known, _ := services(h.world)[domain].(object); known[service] == nil {
		return &failure{"not_found", fmt.Sprintf("Service %s.%s not found.", domain, service)}
	}
	h.calls = appendRecent(h.calls, ServiceCall{domain, service, maps.Clone(data), nested})
	if h.faults.service != nil {
		return h.faults.service
	}
	ids := h.world.targets(data)
	switch domain {
	case "scene":
		for _, id := range ids {
			for member, value := range h.world.scenes[id] {
				h.apply(member, value, nil, by)
			}
			h.set(id, h.now().UTC().Format(time.RFC3339), nil, by)
		}
		return nil
	case "script", "automation":
		if h.world.configs["script."+service] != nil {
			ids = []string{"script." + service}
		}
		for _, id := range ids {
			h.runScript(id, by, 0)
		}
		return nil
	case "homeassistant":
		for _, id := range ids {
			own, _, _ := strings.Cut(id, ".")
			if run := effects[own][service]; run != nil {
				if err := h.runEffect(id, run, data, by); err != nil {
					return err
				}
			}
		}
		return nil
	}
	run := effects[domain][service]
	for _, id := range ids {
		if run == nil || !strings.HasPrefix(id, domain+".") {
			continue
		}
		if err := h.runEffect(id, run, data, by); err != nil {
			return err
		}
	}
	return nil
}

func (h *Home) runEffect(id string, run effect, data, by object) *failure {
	st := h.world.states[id]
	value, attributes, err := run(st.State, st.Attributes, data)
	if err == nil {
		h.apply(id, value, attributes, by)
	}
	return err
}

// apply changes a state, with a delay if the device is slow.
func (h *Home) apply(id, value string, attributes, by object) {
	switch delay := h.faults.slow[id]; {
	case delay == 0:
		h.set(id, value, attributes, by)
	case delay > 0:
		time.AfterFunc(delay, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.set(id, value, attributes, by)
		})
	}
}

// runScript runs the steps of a script or an automation.
func (h *Home) runScript(id string, by object, depth int) {
	config := h.world.configs[id]
	if config == nil || depth > 5 {
		return
	}
	h.set(id, h.world.states[id].State, object{"last_triggered": h.now().UTC().Format(time.RFC3339)}, by)
	for _, key := range []string{"sequence", "actions", "action"} {
		steps, _ := config[key].([]any)
		h.runSteps(steps, by, depth)
	}
}

func (h *Home) runSteps(steps []any, by object, depth int) {
	for _, s := range steps {
		step, _ := s.(object)
		if then, ok := step["then"].([]any); ok {
			h.runSteps(then, by, depth)
		}
		if scene := text(step["scene"]); scene != "" {
			_ = h.call("scene", "turn_on", object{"entity_id": scene}, by, true)
		}
		action := text(step["action"])
		if step["device_id"] != nil {
			action = text(step["domain"]) + "." + text(step["type"])
		}
		domain, service, ok := strings.Cut(action, ".")
		if !ok {
			continue
		}
		data := object{}
		if id := step["entity_id"]; id != nil {
			data["entity_id"] = id
		}
		for _, key := range []string{"target", "data"} {
			o, _ := step[key].(object)
			maps.Copy(data, o)
		}
		if domain == "script" && depth > 5 {
			continue
		}
		if domain == "script" {
			h.calls = appendRecent(h.calls, ServiceCall{domain, service, maps.Clone(data), true})
			ids := list(data["entity_id"])
			if h.world.configs["script."+service] != nil {
				ids = []string{"script." + service}
			}
			for _, id := range ids {
				h.runScript(id, by, depth+1)
			}
			continue
		}
		_ = h.call(domain, service, data, by, true)
	}
}
