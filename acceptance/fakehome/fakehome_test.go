package fakehome_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type object = map[string]any

// client is a raw WebSocket client.
type client struct {
	t    *testing.T
	conn *websocket.Conn
	id   int
}

func connect(t *testing.T, home *fakehome.Home) *client {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), home.URL+"/api/websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &client{t: t, conn: conn}
}

func login(t *testing.T, home *fakehome.Home) *client {
	t.Helper()
	c := connect(t, home)
	if m := c.read(); m["type"] != "auth_required" {
		t.Fatal(m)
	}
	c.write(object{"type": "auth", "access_token": fakehome.Token})
	if m := c.read(); m["type"] != "auth_ok" {
		t.Fatal(m)
	}
	return c
}

func (c *client) write(m object) {
	c.t.Helper()
	raw, _ := json.Marshal(m)
	if err := c.conn.Write(c.t.Context(), websocket.MessageText, raw); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() (m object) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	_, raw, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *client) command(kind string, members object) object {
	c.t.Helper()
	c.id++
	m := object{"id": c.id, "type": kind}
	maps.Copy(m, members)
	c.write(m)
	for {
		if m := c.read(); m["id"] == float64(c.id) && m["type"] != "event" {
			return m
		}
	}
}

// Registry entries have the members that Home Assistant's own tests expect.
func TestRegistriesHaveTheMembersOfHomeAssistant(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	c := login(t, home)
	for registry, want := range map[string]string{
		"area":   "aliases area_id created_at floor_id humidity_entity_id icon labels modified_at name picture temperature_entity_id",
		"floor":  "aliases created_at floor_id icon level modified_at name",
		"label":  "color created_at description icon label_id modified_at name",
		"entity": "area_id categories config_entry_id config_subentry_id created_at device_id disabled_by entity_category entity_id has_entity_name hidden_by icon id labels modified_at name options original_name platform translation_key unique_id",
		"device": "area_id config_entries config_entries_subentries configuration_url connections created_at disabled_by entry_type hw_version id identifiers labels manufacturer model model_id modified_at name name_by_user primary_config_entry serial_number sw_version via_device_id",
	} {
		m := c.command("config/"+registry+"_registry/list", nil)
		entry := m["result"].([]any)[0].(object)
		if got := strings.Join(slices.Sorted(maps.Keys(entry)), " "); got != want {
			t.Errorf("%s: %s", registry, cmp.Diff(strings.Fields(want), strings.Fields(got)))
		}
	}
}

func TestCompressedStates(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	c := login(t, home)
	if m := c.command("subscribe_entities", object{"entity_ids": []string{"switch.coffee"}}); m["success"] != true {
		t.Fatal(m)
	}
	first := c.read()["event"].(object)["a"].(object)["switch.coffee"].(object)
	if got := strings.Join(slices.Sorted(maps.Keys(first)), " "); got != "a c lc s" {
		t.Error(got)
	}
	home.Set("switch.coffee", "on", object{"power": 900, "friendly_name": nil})
	change := c.read()["event"].(object)["c"].(object)["switch.coffee"].(object)
	if got := change["-"]; !cmp.Equal(got, any(object{"a": []any{"friendly_name"}})) {
		t.Error(got)
	}
	if plus := change["+"].(object); plus["s"] != "on" || !cmp.Equal(plus["a"], any(object{"power": 900.0})) || plus["lc"] == nil || plus["lu"] != nil {
		t.Error(plus)
	}
	home.Set("switch.coffee", "on", object{"power": 901})
	if plus := c.read()["event"].(object)["c"].(object)["switch.coffee"].(object)["+"].(object); plus["lu"] == nil || plus["lc"] != nil || plus["s"] != nil {
		t.Error(plus)
	}
	home.Remove("switch.coffee")
	if got := c.read()["event"]; !cmp.Equal(got, any(object{"r": []any{"switch.coffee"}})) {
		t.Error(got)
	}
}

func TestCommandErrors(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	c := login(t, home)
	for _, tt := range []struct {
		kind    string
		members object
		code    string
	}{
		{"no/such", nil, "unknown_command"},
		{"call_service", object{"domain": "light", "service": "explode"}, "not_found"},
		{"call_service", object{"domain": "nonsense", "service": "explode"}, "not_found"},
		{"call_service", object{"domain": "light", "service": "turn_on", "service_data": object{"nonsense": 1}, "target": object{"entity_id": "light.hall"}}, "invalid_format"},
		{"call_service", object{"domain": "light", "service": "turn_on", "target": object{"entity_id": "{{ 1 }}"}}, "invalid_format"},
		{"call_service", object{"domain": "climate", "service": "set_temperature", "service_data": object{"temperature": 90}, "target": object{"entity_id": "climate.living_room"}}, "service_validation_error"},
		{"script/config", object{"entity_id": "script.none"}, "not_found"},
	} {
		m := c.command(tt.kind, tt.members)
		if e, _ := m["error"].(object); e["code"] != tt.code {
			t.Errorf("%s: %v", tt.kind, m)
		}
	}
	c.id--
	if e, _ := c.command("get_config", nil)["error"].(object); e["code"] != "id_reuse" {
		t.Error(e)
	}
}

func TestServicesChangeStates(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	c := login(t, home)
	call := func(domain, service string, data object) {
		t.Helper()
		if m := c.command("call_service", object{"domain": domain, "service": service, "service_data": data}); m["success"] != true {
			t.Fatal(m)
		}
	}
	for _, tt := range []struct {
		domain, service string
		data            object
		entity, want    string
	}{
		{"light", "turn_off", object{"area_id": "kitchen"}, "light.kitchen", "off"},
		{"light", "turn_on", object{"entity_id": "light.downstairs"}, "light.hall", "on"},
		{"homeassistant", "turn_on", object{"floor_id": "upper"}, "light.bedroom", "on"},
		{"lock", "unlock", object{"device_id": "d_lock"}, "lock.front_door", "unlocked"},
		{"scene", "turn_on", object{"entity_id": "scene.leaving"}, "lock.front_door", "locked"},
		{"lock", "unlock", object{"label_id": "critical"}, "lock.front_door", "unlocked"},
		{"script", "leave_home", object{}, "lock.front_door", "locked"},
		{"automation", "trigger", object{"entity_id": "automation.morning"}, "lock.front_door", "unlocked"},
		{"script", "turn_on", object{"entity_id": "script.leave_by_turn_on"}, "lock.front_door", "locked"},
		{"alarm_control_panel", "alarm_arm_home", object{"entity_id": "alarm_control_panel.home"}, "alarm_control_panel.home", "armed_home"},
	} {
		call(tt.domain, tt.service, tt.data)
		if got, _ := home.State(tt.entity); got != tt.want {
			t.Errorf("%s.%s: %s is %s", tt.domain, tt.service, tt.entity, got)
		}
	}
}

func TestREST(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	for _, tt := range []struct {
		method, path, token string
		status              int
		contains            string
	}{
		{"GET", "/api/", fakehome.Token, 200, "API running."},
		{"GET", "/api/", "wrong", 401, ""},
		{"GET", "/api/states/light.kitchen", fakehome.Token, 200, `"state":"on"`},
		{"GET", "/api/states/light.none", fakehome.Token, 404, "Entity not found."},
		{"GET", "/api/camera_proxy/camera.front?width=320", fakehome.Token, 200, "\xff\xd8\xff"},
		{"GET", "/api/camera_proxy/camera.none", fakehome.Token, 404, ""},
		{"POST", "/api/services/switch/turn_on", fakehome.Token, 200, `"entity_id":"switch.coffee"`},
		{"POST", "/api/services/switch/explode", fakehome.Token, 400, ""},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), tt.method, home.URL+tt.path, strings.NewReader(`{"entity_id":"switch.coffee"}`))
		r.Header.Set("Authorization", "Bearer "+tt.token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(body), tt.contains) {
			t.Errorf("%s %s: %d %.100s", tt.method, tt.path, res.StatusCode, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFaults(t *testing.T) {
	home := fakehome.New(fakehome.Options{Entities: 100})
	defer home.Close()
	home.Pad(10 << 20)
	m := login(t, home).command("get_states", nil)
	if n := len(m["result"].([]any)); n < 150 {
		t.Error(n)
	}
	home.CutAfter(1)
	c := connect(t, home)
	c.read()
	c.write(object{"type": "auth", "access_token": fakehome.Token})
	if _, _, err := c.conn.Read(t.Context()); err == nil {
		t.Error("the connection was not cut")
	}
	home.RejectAuth(true)
	c = connect(t, home)
	c.read()
	c.write(object{"type": "auth", "access_token": fakehome.Token})
	if m := c.read(); m["type"] != "auth_invalid" {
		t.Error(m)
	}
	if _, _, err := c.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Error(err)
	}
}
