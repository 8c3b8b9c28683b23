package homeassistant

import (
	"encoding/json"
	"slices"

	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

// commonAttributes are shown for all entities. Unlisted attributes are never shown, because some
// contain access tokens, people's locations or large values.
var commonAttributes = []string{"device_class", "state_class", "unit_of_measurement", "battery_level", "supported_features", "assumed_state"}

var attributesByDomain = map[string][]string{
	"alarm_control_panel": {"changed_by", "code_arm_required"},
	"automation":          {"last_triggered", "mode", "current"},
	"binary_sensor":       {},
	"climate":             {"current_temperature", "current_humidity", "temperature", "target_temp_high", "target_temp_low", "humidity", "hvac_modes", "hvac_action", "preset_mode", "preset_modes", "fan_mode", "fan_modes", "swing_mode", "min_temp", "max_temp"},
	"cover":               {"current_position", "current_tilt_position"},
	"fan":                 {"percentage", "preset_mode", "preset_modes", "oscillating", "direction"},
	"humidifier":          {"humidity", "current_humidity", "mode", "available_modes", "min_humidity", "max_humidity"},
	"input_number":        {"min", "max", "step", "mode"},
	"input_select":        {"options"},
	"light":               {"brightness", "color_mode", "supported_color_modes", "color_temp_kelvin", "min_color_temp_kelvin", "max_color_temp_kelvin", "rgb_color", "effect", "effect_list", "entity_id"},
	"lock":                {"changed_by"},
	"media_player":        {"volume_level", "is_volume_muted", "media_title", "media_artist", "media_album_name", "media_content_type", "source", "source_list", "sound_mode", "shuffle", "repeat"},
	"number":              {"min", "max", "step", "mode"},
	"scene":               {"entity_id"},
	"script":              {"last_triggered", "mode", "current"},
	"select":              {"options"},
	"sensor":              {"options", "last_reset"},
	"sun":                 {"next_rising", "next_setting", "elevation", "rising"},
	"timer":               {"duration", "remaining", "finishes_at"},
	"update":              {"installed_version", "latest_version", "in_progress", "title"},
	"vacuum":              {"fan_speed", "fan_speed_list", "status"},
	"valve":               {"current_position"},
	"water_heater":        {"current_temperature", "temperature", "operation_mode", "operation_list", "min_temp", "max_temp"},
	"weather":             {"temperature", "temperature_unit", "humidity", "pressure", "wind_speed", "wind_speed_unit", "wind_bearing", "cloud_coverage"},
}

const maxAttribute = 600 // bytes of an attribute to show

// shownAttributes returns the attributes to show, and the number of other attributes.
func shownAttributes(e *hass.Entity) (shown map[string]json.RawMessage, others int) {
	shown = make(map[string]json.RawMessage)
	for name, value := range e.State.Attributes {
		switch {
		case name == "friendly_name":
		case len(value) <= maxAttribute && (slices.Contains(commonAttributes, name) || slices.Contains(attributesByDomain[e.Domain], name)):
			shown[name] = value
		default:
			others++
		}
	}
	return shown, others
}
