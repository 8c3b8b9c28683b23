package homeassistant_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/toolyardtest"
)

const (
	accept  = `{"action":"accept","content":{}}`
	decline = `{"action":"decline"}`
	cancel  = `{"action":"cancel"}`
)

// ask calls a tool as a client whose user answers. It returns the questions.
func (p *pack) ask(tool, args string, answer func(n int) string) (text string, questions []string, err error) {
	p.t.Helper()
	opts := p.options(toolyard.Write, "")
	opts.Answer = func(q toolyard.Question) string {
		questions = append(questions, q.Message)
		return answer(len(questions))
	}
	res, err := toolyardtest.Call(p.t, p.tools[tool], args, opts)
	if err == nil {
		text = toolyardtest.Text(res)
	}
	return text, questions, err
}

func always(answer string) func(int) string { return func(int) string { return answer } }

// services returns the services that the home received directly.
func (p *pack) services() string {
	var all []string
	for _, c := range p.home.Calls() {
		if !c.Nested {
			all = append(all, fmt.Sprintf("%s.%s %v", c.Domain, c.Service, c.Data["entity_id"]))
		}
	}
	return strings.Join(all, "; ")
}

func TestControlDevice(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	for _, tt := range []struct{ args, entity, state, result string }{
		{`{"ids":["light.hall"],"action":"turn_on"}`, "light.hall", "on", `{"id":"light.hall","from":"off","to":"on"}`},
		{`{"ids":["Hall light"],"action":"turn_on"}`, "light.hall", "on", `"unchanged":["light.hall"]`},
		{`{"ids":["light.hall"],"action":"toggle"}`, "light.hall", "off", `"to":"off"`},
		{`{"ids":["light.kitchen"],"action":"set","value":{"brightness":20,"color":"#ff8800"}}`, "light.kitchen", "on", `"from":"on, brightness 50.2 %","to":"on, brightness 20 %"`},
		{`{"ids":["light.kitchen"],"action":"turn_on","value":{"brightness":100}}`, "light.kitchen", "on", `"to":"on, brightness 100 %"`},
		{`{"area":"downstairs","domain":"light","action":"turn_off"}`, "light.kitchen", "off", `"light.kitchen"`},
		{`{"ids":["climate.living_room"],"action":"set","value":{"temperature":23}}`, "climate.living_room", "heat", `"to":"heat, target 23°"`},
		{`{"ids":["climate.living_room"],"action":"set","value":{"mode":"off"}}`, "climate.living_room", "off", `"to":"off, target 23°"`},
		{`{"ids":["cover.blinds"],"action":"close"}`, "cover.blinds", "closed", `"changed":[{"id":"cover.blinds"`},
		{`{"ids":["cover.blinds"],"action":"set","value":{"position":40}}`, "cover.blinds", "open", `40 % open`},
		{`{"ids":["media_player.living_room"],"action":"set","value":{"volume":30}}`, "media_player.living_room", "playing", `volume 30 %`},
		{`{"ids":["media_player.living_room"],"action":"pause"}`, "media_player.living_room", "paused", `"to":"paused`},
		{`{"ids":["fan.bedroom"],"action":"set","value":{"percentage":50}}`, "fan.bedroom", "on", `50 %`},
		{`{"ids":["vacuum.robot"],"action":"start"}`, "vacuum.robot", "cleaning", `"to":"cleaning"`},
		{`{"ids":["select.washer_program"],"action":"set","value":{"mode":"wool"}}`, "select.washer_program", "wool", `"to":"wool"`},
		{`{"ids":["input_number.target"],"action":"set","value":{"number":25}}`, "input_number.target", "25", `"to":"25"`},
		{`{"ids":["switch.coffee","light.bedroom"],"action":"turn_on"}`, "switch.coffee", "on", `"light.bedroom"`},
	} {
		got := p.call("control_device", tt.args)
		if state, _ := p.home.State(tt.entity); state != tt.state || !strings.Contains(got, tt.result) || strings.Contains(got, "not_confirmed") {
			t.Errorf("%s: %s is %s: %s", tt.args, tt.entity, state, got)
		}
	}
}

func TestControlDeviceRefuses(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"confirm":["switch.boiler"],"deny":["fan.bedroom"]`)
	for _, tt := range []struct {
		args     string
		code     toolyard.Code
		contains string
	}{
		{`{"ids":["lock.front_door"],"action":"open"}`, toolyard.PermissionDenied, "control_security"},
		{`{"ids":["light.hall","cover.garage"],"action":"turn_on"}`, toolyard.PermissionDenied, "control_security"},
		{`{"area":"hall","domain":"lock","action":"open"}`, toolyard.PermissionDenied, "control_security"},
		{`{"area":"garage","domain":"cover","action":"open"}`, toolyard.PermissionDenied, "control_security"},
		{`{"ids":["switch.boiler"],"action":"turn_off"}`, toolyard.PermissionDenied, "control_security"},
		{`{"ids":["group.everything"],"action":"turn_off"}`, toolyard.PermissionDenied, "control_security"},
		{`{"ids":["fan.bedroom"],"action":"turn_on"}`, toolyard.NotFound, "Unknown device"},
		{`{"ids":["light.hall"],"action":"open"}`, toolyard.Invalid, "Its actions are: toggle, turn_off, turn_on, set"},
		{`{"ids":["light.hall"],"action":"set"}`, toolyard.Invalid, "set value"},
		{`{"ids":["light.hall"],"action":"set","value":{"temperature":20}}`, toolyard.Invalid, "set value"},
		{`{"ids":["switch.coffee"],"action":"turn_on","value":{"brightness":20}}`, toolyard.Invalid, "only with the action set"},
		{`{"ids":["sensor.energy"],"action":"turn_on"}`, toolyard.Invalid, "has no actions"},
		{`{"action":"turn_on"}`, toolyard.Invalid, "either ids"},
		{`{"ids":["light.hall"],"area":"hall","action":"turn_on"}`, toolyard.Invalid, "either ids"},
		{`{"area":"hall","action":"turn_on"}`, toolyard.Invalid, "domain"},
		{`{"area":"garage","domain":"light","action":"turn_on"}`, toolyard.NotFound, "No light found in garage"},
		{`{"area":"hal","domain":"light","action":"turn_on"}`, toolyard.NotFound, "Hall"},
	} {
		p.fails("control_device", tt.args, tt.code, tt.contains)
	}
	if got := p.services(); got != "" {
		t.Error(got)
	}
}

func TestUnconfirmedAndFailedWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 5 s for a state")
	}
	p := openPack(t, fakehome.Options{}, "")
	p.home.Slow("light.hall", 200*time.Millisecond)
	if got := p.call("control_device", `{"ids":["light.hall"],"action":"turn_on"}`); !strings.Contains(got, `"changed":[{"id":"light.hall"`) {
		t.Error(got)
	}
	p.home.Slow("light.hall", -1)
	if got := p.call("control_device", `{"ids":["light.hall"],"action":"turn_off"}`); !strings.Contains(got, `"not_confirmed":["light.hall"]`) || !strings.Contains(got, "not confirmed") {
		t.Error(got)
	}
}

func TestErrorsOfServices(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	p.fails("control_device", `{"ids":["climate.living_room"],"action":"set","value":{"temperature":90}}`, toolyard.Invalid, "Accepted range is 7 to 30")
	for code, want := range map[string]toolyard.Code{
		"unauthorized": toolyard.PermissionDenied, "home_assistant_error": toolyard.Failed, "not_found": toolyard.NotFound, "invalid_format": toolyard.Invalid,
	} {
		p.home.FailServices(code, "reason")
		p.fails("control_device", `{"ids":["switch.coffee"],"action":"turn_on"}`, want, "")
	}
	p.home.FailServices("", "")
}

// If the response is lost, the state determines whether the outcome is known.
func TestLostAnswers(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	p.home.HangServices(true)
	go func() {
		for len(p.home.Calls()) < 1 {
			time.Sleep(time.Millisecond)
		}
		for { // waits until the pack has the new state
			if got, err := p.try("get_device", `{"id":"switch.coffee"}`); err == nil && strings.Contains(got, `"state":"on"`) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p.home.Disconnect()
	}()
	if got := p.call("control_device", `{"ids":["switch.coffee"],"action":"turn_on"}`); !strings.Contains(got, "did not respond, but the states have changed") {
		t.Error(got)
	}
	go func() {
		for len(p.home.Calls()) < 2 {
			time.Sleep(time.Millisecond)
		}
		p.home.Disconnect()
	}()
	for range 6000 {
		if _, err := p.try("send_notification", `{"target":"mobile_app_phone","message":"hi"}`); toolyard.AsError(err).Code == toolyard.OutcomeUnknown {
			return
		}
		time.Sleep(10 * time.Millisecond) // waits until the pack is connected again
	}
	t.Error("the outcome is not unknown")
}

func TestReadGateHasNoControls(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"services":["light.*"]`)
	clients := p.options(toolyard.Read, "").Clients
	for tool, args := range map[string]string{
		"control_device": `{"ids":["light.hall"],"action":"turn_on"}`, "control_security": `{"id":"lock.front_door","action":"unlock"}`,
		"activate_scene": `{"id":"scene.movie"}`, "run_script": `{"id":"script.good_night"}`, "trigger_automation": `{"id":"automation.night"}`,
		"send_notification": `{"target":"mobile_app_phone","message":"hi"}`, "call_service": `{"service":"light.turn_on","ids":["light.hall"]}`,
	} {
		call := &toolyard.Call{Tool: p.tools[tool], Args: json.RawMessage(args), Mode: toolyard.Read, AsOf: time.Now()}
		call.Clients = clients
		if _, err := p.tools[tool].Run(t.Context(), call); toolyard.AsError(err).Code != toolyard.NoData { // skips the gate's checks
			t.Errorf("%s: %v", tool, err)
		}
	}
	if got := p.services(); got != "" {
		t.Error(got)
	}
}

func TestControlSecurityAsks(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"codes":{"alarm_control_panel.home":"1234"},"confirm":["switch.boiler"]`)
	for _, tt := range []struct{ args, question, entity, state string }{
		{`{"id":"lock.front_door","action":"unlock"}`, "Unlock “Front door” (Hall), now locked for 1 h? Requested by test.", "lock.front_door", "unlocked"},
		{`{"id":"Front door","action":"lock"}`, "Lock “Front door” (Hall), now unlocked for less than a minute?", "lock.front_door", "locked"},
		{`{"area":"entrance","action":"unlock"}`, "Unlock “Front door” (Hall), now locked", "lock.front_door", "unlocked"},
		{`{"id":"cover.garage","action":"open"}`, "Open “Garage door” (Garage), now closed", "cover.garage", "open"},
		{`{"id":"alarm_control_panel.home","action":"arm_away"}`, "Arm away “Alarm” (Hall), now disarmed", "alarm_control_panel.home", "armed_away"},
		{`{"id":"alarm_control_panel.home","action":"disarm"}`, "Disarm “Alarm”", "alarm_control_panel.home", "disarmed"},
		{`{"id":"valve.water_main","action":"close"}`, "Close “Water main” (valve.water_main), now open", "valve.water_main", "closed"},
		{`{"id":"siren.indoor","action":"turn_on"}`, "Turn on “Indoor siren”", "siren.indoor", "on"},
		{`{"id":"switch.boiler","action":"turn_off"}`, "Turn off “Boiler”", "switch.boiler", "off"},
	} {
		before, _ := p.home.State(tt.entity)
		for _, no := range []string{decline, cancel} {
			text, questions, err := p.ask("control_security", tt.args, always(no))
			if err != nil || len(questions) != 1 || !strings.Contains(questions[0], tt.question) || !strings.Contains(text, "Nothing was changed") {
				t.Errorf("%s: %s %v %v", tt.args, text, questions, err)
			}
			if state, _ := p.home.State(tt.entity); state != before {
				t.Errorf("%s changed %s to %s after %s", tt.args, tt.entity, state, no)
			}
		}
		p.fails("control_security", tt.args, toolyard.MissingCapability, "")
		text, questions, err := p.ask("control_security", tt.args, always(accept))
		if state, _ := p.home.State(tt.entity); err != nil || len(questions) != 1 || state != tt.state || !strings.Contains(text, `"outcome":"done"`) {
			t.Errorf("%s: %s is %s: %s (%v)", tt.args, tt.entity, state, text, err)
		}
		if strings.Contains(text, "1234") || strings.Contains(strings.Join(questions, ""), "1234") {
			t.Error("the code is shown")
		}
	}
}

func TestControlSecurityRefuses(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"deny":["lock.safe"]`)
	for _, tt := range []struct {
		args     string
		code     toolyard.Code
		contains string
	}{
		{`{"id":"light.hall","action":"turn_on"}`, toolyard.Invalid, "control_device"},
		{`{"id":"lock.safe","action":"unlock"}`, toolyard.NotFound, "Unknown device"},
		{`{"area":"bedroom","action":"unlock"}`, toolyard.NotFound, "Nothing to unlock"},
		{`{"id":"lock.front_door","action":"disarm"}`, toolyard.Invalid, "Its actions are: lock, open, unlock"},
		{`{"action":"lock"}`, toolyard.Invalid, "either id or area"},
		{`{"id":"lock.front_door","action":"unlock","code":"1"}`, toolyard.Invalid, "code"},
	} {
		_, questions, err := p.ask("control_security", tt.args, always(accept))
		if e := toolyard.AsError(err); e == nil || e.Code != tt.code || !strings.Contains(e.Error(), tt.contains) || len(questions) > 0 {
			t.Errorf("%s: %v %v", tt.args, questions, err)
		}
	}
	if got := p.services(); got != "" {
		t.Error(got)
	}
}

// If the lock changes while the question is open, the answer does not count.
func TestChangedStateIsAskedAgain(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	change := func(state string) {
		p.home.Set("lock.front_door", state, nil)
		for !strings.Contains(p.call("get_device", `{"id":"lock.front_door"}`), `"state":"`+state+`"`) {
			time.Sleep(time.Millisecond)
		}
	}
	text, questions, err := p.ask("control_security", `{"id":"lock.front_door","action":"unlock"}`, func(n int) string {
		if n == 1 {
			change("jammed")
			return accept
		}
		return decline
	})
	if err != nil || len(questions) != 2 || !strings.Contains(questions[1], "now jammed") || !strings.Contains(text, "declined") || p.services() != "" {
		t.Error(text, questions, err, p.services())
	}
	_, questions, err = p.ask("run_script", `{"id":"script.lock_up"}`, func(n int) string {
		if n == 1 {
			change("unlocked")
		}
		return accept
	})
	if err != nil || len(questions) != 2 {
		t.Error(questions, err)
	}
}

// A script that changes while the question is open is asked about again.
func TestChangedScriptIsAskedAgain(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	_, questions, err := p.ask("run_script", `{"id":"script.lock_up"}`, func(n int) string {
		if n == 1 {
			p.home.SetScript("script.lock_up", map[string]any{"sequence": []any{map[string]any{"action": "lock.unlock", "target": map[string]any{"entity_id": "lock.front_door"}}}})
			return accept
		}
		return decline
	})
	if err != nil || len(questions) != 2 || p.services() != "" {
		t.Error(questions, err, p.services())
	}
}

func TestScenesScriptsAndAutomations(t *testing.T) {
	for _, tt := range []struct{ tool, args, question string }{
		{"activate_scene", `{"id":"scene.movie"}`, ""},
		{"activate_scene", `{"id":"Leaving"}`, "It affects “Front door” (Hall), now locked"},
		{"activate_scene", `{"id":"scene.hue_sunset"}`, "the contents of scene.hue_sunset are unknown"},
		{"run_script", `{"id":"script.good_night"}`, ""},
		{"run_script", `{"id":"script.lock_up"}`, "Front door"},
		{"run_script", `{"id":"script.leave_home"}`, "Front door"},       // calls script.lock_up directly
		{"run_script", `{"id":"script.leave_by_turn_on"}`, "Front door"}, // three scripts deep
		{"run_script", `{"id":"script.templated","variables":{"which":"lock.front_door"}}`, "a template chooses its target"},
		{"run_script", `{"id":"script.area"}`, "Front door"},   // homeassistant.turn_off on an area
		{"run_script", `{"id":"script.area_lights"}`, ""},      // light.turn_off on the same area
		{"run_script", `{"id":"script.group"}`, "Front door"},  // a member of a group
		{"run_script", `{"id":"script.scene"}`, "Front door"},  // a scene in a script
		{"run_script", `{"id":"script.device"}`, "Front door"}, // a device action
		{"run_script", `{"id":"script.shell"}`, "it calls shell_command.open_door"},
		{"run_script", `{"id":"script.by_blueprint"}`, "blueprint"},
		{"run_script", `{"id":"script.loop"}`, ""},
		{"trigger_automation", `{"id":"automation.night"}`, ""},
		{"trigger_automation", `{"id":"automation.morning"}`, "Front door"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			p := openPack(t, fakehome.Options{}, "")
			text, questions, err := p.ask(tt.tool, tt.args, always(decline))
			switch {
			case err != nil:
				t.Fatal(err)
			case tt.question == "":
				if len(questions) > 0 || p.services() == "" || !strings.Contains(text, `"outcome":"done"`) {
					t.Error(text, questions, p.services())
				}
				return
			case len(questions) != 1 || !strings.Contains(questions[0], tt.question) || p.services() != "" || !strings.Contains(text, "declined"):
				t.Error(text, questions, p.services())
			}
			p.fails(tt.tool, tt.args, toolyard.MissingCapability, "")
			if p.services() != "" {
				t.Error(p.services())
			}
			if _, _, err := p.ask(tt.tool, tt.args, always(accept)); err != nil || p.services() == "" {
				t.Error(err, p.services())
			}
		})
	}
}

func TestSceneReportsChanges(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	got := p.call("activate_scene", `{"id":"scene.movie"}`)
	for _, want := range []string{`{"id":"light.living_room","from":"off","to":"on"}`, `"id":"cover.blinds"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	p.fails("activate_scene", `{"id":"script.good_night"}`, toolyard.Invalid, "not a scene")
	p.fails("run_script", `{"id":"script.godnight"}`, toolyard.NotFound, "script.good_night")
}

// The user is asked about scripts whose steps cannot be read, and denied entities are never
// reached.
func TestReachFailsClosed(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"deny":["lock.front_door"]`)
	for _, id := range []string{"script.lock_up", "script.leave_home", "script.group"} {
		_, questions, err := p.ask("run_script", fmt.Sprintf(`{"id":%q}`, id), always(accept))
		if toolyard.AsError(err).Code != toolyard.PermissionDenied || len(questions) > 0 {
			t.Errorf("%s: %v %v", id, questions, err)
		}
	}
	p.home.Deny("script/config")
	if _, questions, err := p.ask("run_script", `{"id":"script.good_night"}`, always(decline)); err != nil || len(questions) != 1 || !strings.Contains(questions[0], "cannot read the steps") {
		t.Error(questions, err)
	}
	p.home.Deny("search/related")
	if _, questions, err := p.ask("activate_scene", `{"id":"scene.movie"}`, always(decline)); err != nil || len(questions) != 1 {
		t.Error(questions, err)
	}
	if got := p.services(); got != "" {
		t.Error(got)
	}
}

// Steps that can do more than they show require confirmation.
func TestDoubtfulSteps(t *testing.T) {
	step := func(members string) string { return `{"sequence":[` + members + `]}` }
	p := openPack(t, fakehome.Options{}, `,"confirm":["script.secret"],"deny":["script.forbidden"]`)
	for i, tt := range []struct{ config, question string }{
		{step(`{"choose":[{"conditions":[],"sequence":[{"service":"light.turn_off","entity_id":"light.hall"}]}],"default":[{"delay":1}]}`), ""},
		{step(`{"repeat":{"count":2,"sequence":[{"parallel":[{"action":"switch.toggle","data":{"entity_id":"switch.coffee, switch.boiler"}}]}]}}`), ""},
		{step(`{"condition":"state","entity_id":"lock.front_door","state":"locked"},{"stop":"done"},{"wait_template":"{{ true }}"},{"variables":{"a":1}}`), ""},
		{step(`{"action":"cover.close_cover","target":{"label_id":["critical"],"floor_id":"ground"}}`), ""},
		{step(`{"choose":[],"default":[{"service":"lock.open","data":{"entity_id":"lock.safe"}}]}`), "Safe"},
		{step(`{"action":"homeassistant.toggle","target":{"label_id":"critical"}}`), "Front door"},
		{step(`{"action":"homeassistant.turn_on","target":{"floor_id":"ground"}}`), "Front door"},
		{step(`{"action":"cover.open_cover","target":{"device_id":["d_garage"]}}`), "Garage door"},
		{step(`{"action":"homeassistant.restart"}`), "it calls homeassistant.restart"},
		{step(`{"action":"lock.unlock","target":{"device_id":"gone"}}`), "it calls lock.unlock on unknown devices"},
		{step(`{"action":"lock.unlock","target":{"entity_id":"all"}}`), "all does not exist"},
		{step(`{"action":"{{ what }}"}`), "it calls {{ what }}"},
		{step(`{"action":"light.turn_on","target":"{{ where }}"}`), "a template chooses its target"},
		{step(`{"action":"light.turn_on","target":{"entity_id":{"x":1}}}`), "unknown form"},
		{step(`{"action":"scene.apply","data":{"entities":{"lock.front_door":"unlocked"}}}`), "it calls scene.apply"},
		{step(`{"action":"script.missing"}`), "script.missing, which is unknown"},
		{step(`{"action":"mqtt.publish","data":{"topic":"door"}}`), "it calls mqtt.publish"},
		{step(`{"event":"unlock_everything"}`), "unknown form"},
		{step(`42`), "unknown form"},
		{`{"alias":"nothing"}`, "has no steps"},
	} {
		var config map[string]any
		if err := json.Unmarshal([]byte(tt.config), &config); err != nil {
			t.Fatal(tt.config, err)
		}
		id := fmt.Sprintf("script.doubt_%d", i)
		p.home.SetScript(id, config)
		for {
			if _, err := p.try("get_device", fmt.Sprintf(`{"id":%q}`, id)); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		before := len(p.home.Calls())
		_, questions, err := p.ask("run_script", fmt.Sprintf(`{"id":%q}`, id), always(decline))
		asked := strings.Join(questions, "")
		if err != nil || (asked == "") != (tt.question == "") || !strings.Contains(asked, tt.question) {
			t.Errorf("%s: %q %v", tt.config, asked, err)
		}
		if tt.question != "" && len(p.home.Calls()) != before {
			t.Errorf("%s ran", tt.config)
		}
	}
	p.home.SetScript("script.secret", map[string]any{"sequence": []any{}})
	p.home.SetScript("script.forbidden", map[string]any{"sequence": []any{}})
	p.home.SetScript("script.outer", map[string]any{"sequence": []any{map[string]any{"action": "script.secret"}}})
	p.home.SetScript("script.outermost", map[string]any{"sequence": []any{map[string]any{"action": "script.forbidden"}}})
	for !strings.Contains(p.call("list_scenes_and_scripts", `{"query":"outermost"}`), "script.outermost") {
		time.Sleep(time.Millisecond)
	}
	if _, questions, err := p.ask("run_script", `{"id":"script.outer"}`, always(decline)); err != nil || len(questions) != 1 || !strings.Contains(questions[0], "script.secret") {
		t.Error(questions, err)
	}
	p.fails("run_script", `{"id":"script.outermost"}`, toolyard.PermissionDenied, "does not allow")
}

// Chains of scripts that are too long, and steps that are nested too deeply, require confirmation.
func TestReachIsBounded(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	off := map[string]any{"action": "light.turn_off", "target": map[string]any{"entity_id": "light.hall"}}
	for i := range 60 {
		p.home.SetScript(fmt.Sprintf("script.s%d", i), map[string]any{"sequence": []any{off, map[string]any{"action": fmt.Sprintf("script.s%d", i+1)}}})
	}
	p.home.SetScript("script.s60", map[string]any{"sequence": []any{off}})
	var deep any = off
	for range 60 {
		deep = map[string]any{"sequence": []any{deep}}
	}
	p.home.SetScript("script.deep", map[string]any{"sequence": []any{deep}})
	for !strings.Contains(p.call("list_scenes_and_scripts", `{"query":"deep"}`), "script.deep") {
		time.Sleep(time.Millisecond)
	}
	for id, want := range map[string]string{"script.s0": "more than 50 scripts", "script.deep": "nested too deeply"} {
		_, questions, err := p.ask("run_script", fmt.Sprintf(`{"id":%q}`, id), always(decline))
		if err != nil || len(questions) != 1 || !strings.Contains(questions[0], want) {
			t.Errorf("%s: %v %v", id, questions, err)
		}
	}
	if got := p.services(); got != "" {
		t.Error(got)
	}
}

func TestSendNotification(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	if got := p.call("send_notification", `{"target":"notify.mobile_app_phone","message":"Dinner","title":"Home"}`); got != `{"sent":true}` {
		t.Error(got)
	}
	if c := p.home.Calls()[0]; c.Data["message"] != "Dinner" || c.Data["title"] != "Home" {
		t.Error(c)
	}
	p.fails("send_notification", `{"target":"mobile_app_fone","message":"hi"}`, toolyard.NotFound, "mobile_app_phone")
	for _, command := range []string{"command_dnd", "request_location_update", "clear_notification", " delete_alert "} {
		p.fails("send_notification", fmt.Sprintf(`{"target":"mobile_app_phone","message":%q}`, command), toolyard.Invalid, "as a command")
	}
}

func TestCallService(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"services":["light.*","lock.unlock","script.*"],"deny":["light.bedroom"]`)
	if got := p.call("call_service", `{"service":"light.turn_on","ids":["light.hall"],"data":{"brightness":10}}`); !strings.Contains(got, `"id":"light.hall"`) {
		t.Error(got)
	}
	p.fails("call_service", `{"service":"switch.turn_on","ids":["switch.coffee"]}`, toolyard.PermissionDenied, "allows: light.*")
	p.fails("call_service", `{"service":"script.leave_home"}`, toolyard.PermissionDenied, "run_script")
	p.fails("call_service", `{"service":"light.turn_on","ids":["light.bedroom"]}`, toolyard.NotFound, "")
	p.fails("call_service", `{"service":"lock.unlock","data":{"entity_id":"all"}}`, toolyard.Invalid, "data.entity_id")
	p.fails("call_service", `{"service":"lock.unlock","ids":["lock.front_door"],"data":{"code":"1"}}`, toolyard.Invalid, "data.code")
	p.fails("call_service", `{"service":"lock.unlock","ids":["lock.front_door"]}`, toolyard.MissingCapability, "")
	if _, questions, err := p.ask("call_service", `{"service":"lock.unlock"}`, always(decline)); err != nil || len(questions) != 1 {
		t.Error(questions, err)
	}
	if got := p.services(); got != "light.turn_on [light.hall]" {
		t.Error(got)
	}
}

// A name cannot forge the text of a question.
func TestNamesInQuestionsAreCleaned(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	p.home.Set("lock.front_door", "locked", map[string]any{"friendly_name": "Door\n\u202eis harmless\u0000" + strings.Repeat("x", 500)})
	for !strings.Contains(p.call("get_device", `{"id":"lock.front_door"}`), "harmless") {
		time.Sleep(time.Millisecond)
	}
	_, questions, err := p.ask("control_security", `{"id":"lock.front_door","action":"unlock"}`, always(decline))
	if err != nil || len(questions) != 1 || strings.ContainsAny(questions[0], "\n\u202e\u0000") || len(questions[0]) > 300 {
		t.Errorf("%q %v", questions, err)
	}
}

func TestResources(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	var state struct{ ID, State string }
	if err := json.Unmarshal([]byte(p.read("homeassistant://states/light.kitchen")), &state); err != nil || state.ID != "light.kitchen" || state.State != "on" {
		t.Error(state, err)
	}
	if got := p.read("homeassistant://areas/kitchen"); !strings.Contains(got, "light.kitchen") {
		t.Error(got)
	}
	for _, uri := range []string{"homeassistant://states/sensor.diary", "homeassistant://states/light.none", "homeassistant://areas/none", "homeassistant://other"} {
		_, err := toolyardtest.Call(t, p.offer.Resources[0].Reader, fmt.Sprintf(`{"uri":%q}`, uri), p.options(toolyard.Read, ""))
		if toolyard.AsError(err).Code != toolyard.NotFound {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

// A watched resource is reported at most once a second, and its last change is never lost.
func TestResourceUpdates(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	changed := make(chan string, 1000)
	for _, r := range p.offer.Resources {
		for _, uri := range []string{"homeassistant://states/light.hall", "homeassistant://areas/hall", "homeassistant://states/sensor.diary"} {
			if r.Covers(uri) {
				defer r.Watch(uri, func() { changed <- uri })()
			}
		}
	}
	start := time.Now()
	for i := range 150 {
		p.home.Set("light.hall", "on", map[string]any{"brightness": i})
		p.home.Set("sensor.diary", fmt.Sprint("thought ", i), nil)
		time.Sleep(10 * time.Millisecond)
	}
	counts := map[string]int{}
	collect := func() {
		for len(changed) > 0 {
			counts[<-changed]++
		}
	}
	for end := time.Now().Add(time.Minute); (counts["homeassistant://states/light.hall"] < 2 || counts["homeassistant://areas/hall"] < 2) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		collect()
	}
	time.Sleep(1200 * time.Millisecond) // waits for more notifications
	collect()
	most := int(time.Since(start).Seconds()) + 1
	for _, uri := range []string{"homeassistant://states/light.hall", "homeassistant://areas/hall"} {
		if n := counts[uri]; n < 2 || n > most {
			t.Errorf("%s: %d notifications in %v", uri, n, time.Since(start))
		}
	}
	if counts["homeassistant://states/sensor.diary"] > 0 {
		t.Error("a resource out of scope was reported")
	}
}

func TestPackHasSchemas(t *testing.T) {
	pack := homeassistant.Pack()
	if issues, err := pack.GateSettings.Check(t.Context(), json.RawMessage(`{"expose":{"areas":["kids"]}}`)); err != nil || len(issues) > 0 {
		t.Error(issues, err)
	}
}
