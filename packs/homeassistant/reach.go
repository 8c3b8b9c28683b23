package homeassistant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

const (
	maxScripts = 50 // scripts, scenes and automations that one call can reach
	maxDepth   = 50 // depth of nested steps
)

// reach describes everything that a scene, script or automation can affect when it runs.
// Automations that react to its changes are not followed.
//
// Home Assistant's search/related finds neither direct script calls nor templates, so scripts and
// automations are read step by step. Anything that is not understood counts as unknown and requires
// confirmation.
type reach struct {
	view     *view
	client   *hass.Client
	entities map[*hass.Entity]bool
	unknown  []string       // reasons why the reach is unknown
	visited  map[string]any // configurations of the scripts, scenes and automations
}

func (v *view) reach(ctx context.Context, e *hass.Entity) (*reach, error) {
	r := &reach{view: v, client: v.home.client, entities: make(map[*hass.Entity]bool), visited: make(map[string]any)}
	return r, r.visit(ctx, e)
}

// visit adds everything that a scene, script or automation affects.
func (r *reach) visit(ctx context.Context, e *hass.Entity) error {
	if _, done := r.visited[e.ID]; done {
		return nil
	}
	if len(r.visited) >= maxScripts {
		r.doubt("it can run more than %d scripts", maxScripts)
		return nil
	}
	r.visited[e.ID] = nil
	if p := r.view.home.policy; p.isSensitive(e) || matchesAny(p.deny, e.ID) {
		r.entities[e] = true
	}
	related, err := r.client.RelatedEntities(ctx, e.ID)
	if err != nil {
		return r.doubtUnlessDown(err, "cannot list the entities of %s", e.ID)
	}
	if e.Domain == "scene" {
		slices.Sort(related)
		r.visited[e.ID] = related
		if len(related) == 0 {
			r.doubt("the contents of %s are unknown", e.ID)
		}
		return r.addIDs(ctx, related)
	}
	config, err := r.client.ScriptConfig(ctx, e.ID)
	if err != nil || config == nil {
		return r.doubtUnlessDown(err, "cannot read the steps of %s", e.ID)
	}
	r.visited[e.ID] = config
	steps, found := stepsOf(config)
	if !found {
		r.doubt("%s is based on a blueprint or has no steps", e.ID)
	}
	return r.steps(ctx, steps, 0)
}

// stepsOf returns the steps in the configuration of a script or an automation.
func stepsOf(config map[string]any) (steps any, found bool) {
	if config["use_blueprint"] != nil {
		return nil, false
	}
	for _, key := range []string{"sequence", "actions", "action"} {
		if config[key] != nil {
			return config[key], true
		}
	}
	return nil, false
}

func (r *reach) doubt(format string, args ...any) {
	if len(r.unknown) < 5 {
		r.unknown = append(r.unknown, fmt.Sprintf(format, args...))
	}
}

// doubtUnlessDown counts a refusal by Home Assistant as unknown. If there is no connection, it
// returns the error, because nothing can run anyway.
func (r *reach) doubtUnlessDown(err error, format string, args ...any) error {
	if _, refused := errors.AsType[*hass.Error](err); err != nil && !refused {
		return failureOf(err)
	}
	r.doubt(format, args...)
	return nil
}

// ignoredSteps are members of steps that have no effect by themselves.
var ignoredSteps = []string{"delay", "wait_template", "wait_for_trigger", "variables", "stop", "set_conversation_response", "condition", "conditions"}

// steps adds everything that a step or a list of steps affects.
func (r *reach) steps(ctx context.Context, v any, depth int) error {
	if depth > maxDepth {
		r.doubt("its steps are nested too deeply")
		return nil
	}
	switch v := v.(type) {
	case []any:
		for _, step := range v {
			if err := r.steps(ctx, step, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		return r.step(ctx, v, depth)
	case nil:
	case string: // a template used as a condition
	default:
		r.doubt("a step has an unknown format")
	}
	return nil
}

func (r *reach) step(ctx context.Context, step map[string]any, depth int) error {
	name, isService := step["action"].(string)
	if !isService {
		name, isService = step["service"].(string)
	}
	scene, isScene := step["scene"].(string)
	switch {
	case isService:
		return r.service(ctx, name, step)
	case isScene:
		return r.addIDs(ctx, []string{scene})
	case step["device_id"] != nil && step["type"] != nil && step["condition"] == nil:
		domain, _ := step["domain"].(string)
		return r.target(ctx, domain, step)
	}
	known := false
	for _, key := range []string{"then", "else", "sequence", "parallel", "default", "repeat", "choose"} {
		if step[key] == nil {
			continue
		}
		known = true
		if err := r.steps(ctx, step[key], depth+1); err != nil {
			return err
		}
	}
	if !known && !slices.ContainsFunc(ignoredSteps, func(key string) bool { return step[key] != nil }) && len(step) > 0 {
		r.doubt("a step has an unknown format")
	}
	return nil
}

// plainDomains are domains whose services affect only their targets.
var plainDomains = []string{
	"light", "switch", "fan", "climate", "cover", "media_player", "humidifier", "water_heater", "vacuum", "lawn_mower", "remote", "button", "input_button",
	"input_boolean", "input_number", "input_select", "input_text", "input_datetime", "number", "select", "text", "counter", "timer", "notify", "tts",
	"persistent_notification", "logbook", "system_log", "todo", "lock", "alarm_control_panel", "valve", "siren", "homeassistant", "scene", "script", "automation",
}

// service adds everything that a service call affects.
func (r *reach) service(ctx context.Context, name string, step map[string]any) error {
	domain, service, ok := strings.Cut(name, ".")
	if !ok || isTemplate(name) || !slices.Contains(plainDomains, domain) {
		r.doubt("it calls %s", printable(name, 60))
		return nil
	}
	switch domain {
	case "script":
		if !slices.Contains([]string{"turn_on", "turn_off", "toggle", "reload"}, service) {
			return r.addScript(ctx, service)
		}
	case "scene":
		if service != "turn_on" && service != "reload" { // apply and create contain states themselves
			r.doubt("it calls %s", name)
		}
	case "homeassistant":
		if !slices.Contains([]string{"turn_on", "turn_off", "toggle", "update_entity"}, service) { // other services restart or reconfigure Home Assistant
			r.doubt("it calls %s", name)
		}
	}
	before := len(r.entities)
	defer func() {
		if slices.Contains(sensitiveDomains, domain) && len(r.entities) == before && len(r.sensitive()) == 0 {
			r.doubt("it calls %s on unknown devices", name)
		}
	}()
	for _, part := range []any{step, step["target"], step["data"], step["service_data"], step["data_template"]} {
		switch part := part.(type) {
		case map[string]any:
			if err := r.target(ctx, domain, part); err != nil {
				return err
			}
		case string:
			r.doubt("a template chooses its target")
		}
	}
	return nil
}

// addScript adds the script that a service in the domain script runs. The service's name is the
// script's unique ID.
func (r *reach) addScript(ctx context.Context, uniqueID string) error {
	for _, e := range r.view.Entities() {
		if e.Domain == "script" && e.UniqueID == uniqueID {
			return r.visit(ctx, e)
		}
	}
	r.doubt("it calls script.%s, which is unknown", printable(uniqueID, 60))
	return nil
}

// target adds a target's entities. A domain's services affect only entities in that domain, except
// for the services of homeassistant.
func (r *reach) target(ctx context.Context, domain string, target map[string]any) error {
	affects := func(e *hass.Entity) bool { return domain == "homeassistant" || e.Domain == domain }
	for key, belongs := range map[string]func(*hass.Entity, string) bool{
		"device_id": func(e *hass.Entity, id string) bool { return e.Device != nil && e.Device.ID == id },
		"area_id":   func(e *hass.Entity, id string) bool { return e.Area != nil && e.Area.ID == id },
		"floor_id":  func(e *hass.Entity, id string) bool { return e.Area != nil && e.Area.FloorID == id },
		"label_id":  func(e *hass.Entity, id string) bool { return slices.Contains(e.Labels, id) },
	} {
		for _, id := range r.ids(target[key]) {
			for _, e := range r.view.Entities() {
				if affects(e) && belongs(e, id) {
					if err := r.add(ctx, e); err != nil {
						return err
					}
				}
			}
		}
	}
	return r.addIDs(ctx, r.ids(target["entity_id"]))
}

// ids converts a string, a comma-separated list or a list of strings to a list.
func (r *reach) ids(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		if isTemplate(v) {
			r.doubt("a template chooses its target")
			return nil
		}
		var ids []string
		for id := range strings.SplitSeq(v, ",") {
			ids = append(ids, strings.TrimSpace(id))
		}
		return ids
	case []any:
		var ids []string
		for _, item := range v {
			ids = append(ids, r.ids(item)...)
		}
		return ids
	}
	r.doubt("its target has an unknown format")
	return nil
}

func isTemplate(s string) bool { return strings.Contains(s, "{{") || strings.Contains(s, "{%") }

func (r *reach) addIDs(ctx context.Context, ids []string) error {
	for _, id := range ids {
		e := r.view.Entity(id)
		if e == nil {
			if id != "none" { // "none" selects nothing
				r.doubt("%s does not exist", printable(id, 80))
			}
			continue
		}
		if err := r.add(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// add adds an entity, and either everything that it runs or, for a group, its members.
func (r *reach) add(ctx context.Context, e *hass.Entity) error {
	switch e.Domain {
	case "scene", "script", "automation":
		return r.visit(ctx, e)
	}
	for _, m := range r.view.members(e) {
		r.entities[m] = true
	}
	return nil
}

// sensitive returns the entities that require confirmation, sorted.
func (r *reach) sensitive() []*hass.Entity {
	return r.matching(r.view.home.policy.isSensitive)
}

func (r *reach) matching(is func(*hass.Entity) bool) []*hass.Entity {
	found := slices.DeleteFunc(slices.Collect(maps.Keys(r.entities)), func(e *hass.Entity) bool { return !is(e) })
	slices.SortFunc(found, func(a, b *hass.Entity) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// digest returns a digest of the configuration of everything that runs.
func (r *reach) digest() string {
	raw, _ := json.Marshal(r.visited) // cannot fail: it was decoded from JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
