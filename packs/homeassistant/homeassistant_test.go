package homeassistant_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/toolyardtest"
	"github.com/toolyard/toolyard/yard"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// pack is an open pack with its fake home.
type pack struct {
	t      *testing.T
	home   *fakehome.Home
	source toolyard.Source
	tools  map[string]*toolyard.Tool
	offer  toolyard.Offer
}

// openPack opens the pack with the given settings in addition to url and token, and waits until it
// is connected.
func openPack(t *testing.T, o fakehome.Options, settings string) *pack {
	t.Helper()
	t.Parallel()
	p := &pack{t: t, home: fakehome.New(o), tools: map[string]*toolyard.Tool{}}
	t.Cleanup(p.home.Close)
	client := &http.Client{Transport: &http.Transport{}}
	source, err := openWith(t, fmt.Sprintf(`{"url":%q,"token":%q%s}`, p.home.URL, fakehome.Token, settings), client)
	if err != nil {
		t.Fatal(err)
	}
	p.source = source
	ctx, stop := context.WithCancel(context.Background())
	offers, done := make(chan toolyard.Offer, 100), make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Run(ctx, func(o toolyard.Offer) { offers <- o })
	}()
	t.Cleanup(func() { stop(); <-done; client.CloseIdleConnections() })
	p.offer = <-offers
	for _, tool := range p.offer.Tools {
		p.tools[tool.Name] = tool
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // a large home takes a while to load under the race detector
		_, err := p.try("home_overview", `{}`)
		if err == nil {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func openWith(t *testing.T, settings string, client *http.Client) (toolyard.Source, error) {
	t.Helper()
	pack := homeassistant.Pack()
	completed, issues, err := pack.Settings.Complete(t.Context(), json.RawMessage(settings))
	if err != nil || len(issues) > 0 {
		return nil, fmt.Errorf("%v %w", issues, err)
	}
	return pack.Open(t.Context(), yard.PackSetup{Settings: completed, HTTP: client, Journal: yard.MemoryJournal(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// options returns the options for a call at a gate in the given mode.
func (p *pack) options(mode toolyard.Mode, gateSettings string) *toolyardtest.Options {
	p.t.Helper()
	gate := yard.PackGate{Name: "test", Mode: mode}
	if gateSettings != "" {
		gate.Settings = json.RawMessage(gateSettings)
	}
	clients, err := p.source.(yard.Lender).Lend(gate)
	if err != nil {
		p.t.Fatal(err)
	}
	return &toolyardtest.Options{Mode: mode, AsOf: time.Now(), Clients: clients}
}

// try calls a tool at a write gate.
func (p *pack) try(tool, args string) (string, error) {
	p.t.Helper()
	res, err := toolyardtest.Call(p.t, p.tools[tool], args, p.options(toolyard.Write, ""))
	if err != nil {
		return "", err
	}
	return toolyardtest.Text(res), nil
}

func (p *pack) call(tool, args string) string {
	p.t.Helper()
	text, err := p.try(tool, args)
	if err != nil {
		p.t.Fatalf("%s %s: %v", tool, args, err)
	}
	return text
}

// fails calls a tool and expects an error with the given code and text.
func (p *pack) fails(tool, args string, code toolyard.Code, contains string) {
	p.t.Helper()
	text, err := p.try(tool, args)
	if err == nil {
		p.t.Errorf("%s %s: %s", tool, args, text)
		return
	}
	if e := toolyard.AsError(err); e.Code != code || !strings.Contains(e.Error(), contains) {
		p.t.Errorf("%s %s: %s: %v", tool, args, e.Code, err)
	}
}

// ids returns the IDs of the devices in a list.
func ids(t *testing.T, list string) []string {
	t.Helper()
	var out struct{ Devices []struct{ ID string } }
	if err := json.Unmarshal([]byte(list), &out); err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, d := range out.Devices {
		found = append(found, d.ID)
	}
	return found
}

func TestListDevicesFilters(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	for _, tt := range []struct{ args, want string }{
		{`{"domain":"lock"}`, "lock.front_door lock.safe"},
		{`{"area":"hall"}`, "alarm_control_panel.home binary_sensor.hall_motion camera.front light.hall lock.front_door siren.indoor"},
		{`{"area":"Hall","domain":"light"}`, "light.hall"},
		{`{"area":"ENTRANCE","domain":"lock"}`, "lock.front_door"},                               // alias of an area
		{`{"area":"living_room","domain":"light"}`, "light.living_room"},                         // area of the entity
		{`{"area":"kitchen","domain":"light"}`, "light.kitchen"},                                 // area of the device
		{`{"area":"downstairs","domain":"light"}`, "light.hall light.kitchen light.living_room"}, // alias of a floor
		{`{"floor":"Upper floor"}`, "fan.bedroom light.bedroom lock.safe"},
		{`{"label":"night"}`, "light.kitchen"},
		{`{"device_class":"window"}`, "binary_sensor.kitchen_window"},
		{`{"domain":"light","state":"ON"}`, "light.downstairs light.kitchen"},
		{`{"query":"coffee"}`, "switch.coffee"},
		{`{"query":"READING"}`, "light.living_room"},
		{`{"query":"nothing has this name"}`, ""},
		{`{"domain":"light","limit":2,"offset":1}`, "light.downstairs light.hall"},
	} {
		if got := strings.Join(ids(t, p.call("list_devices", tt.args)), " "); got != tt.want {
			t.Errorf("%s: %s", tt.args, got)
		}
	}
}

func TestListDevicesCountsTheRest(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	got := p.call("list_devices", `{"area":"hall","domain":"switch"}`)
	if !strings.Contains(got, `"devices":[]`) || !strings.Contains(got, `"without_area":1`) { // switch.boiler is in no area
		t.Error(got)
	}
	got = p.call("list_devices", `{"limit":3}`)
	for _, want := range []string{`"shown":3`, `"next_offset":3`, `"by_domain":{`, `"by_area":{`, `"(no area)"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestUnknownNamesSuggestTheNearest(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	p.fails("list_devices", `{"domain":"lihgt"}`, toolyard.NotFound, `Unknown domain "lihgt". Did you mean light?`)
	p.fails("list_devices", `{"area":"kitchn"}`, toolyard.NotFound, "Kitchen")
	p.fails("list_devices", `{"floor":"cellar"}`, toolyard.NotFound, `Unknown floor "cellar"`)
	p.fails("list_devices", `{"label":"nigth"}`, toolyard.NotFound, "Night")
	p.fails("get_device", `{"id":"light.kichen"}`, toolyard.NotFound, "light.kitchen")
	p.fails("get_device", `{"id":"Coffee maschine"}`, toolyard.NotFound, "Coffee machine")
	p.fails("get_history", `{"ids":["sensor.kitchen_temp"]}`, toolyard.NotFound, "sensor.kitchen_temperature")
}

func TestScope(t *testing.T) {
	for _, tt := range []struct{ name, settings, gate, visible, invisible string }{
		{"assist", "", "", "light.kitchen lock.safe", "sensor.diary sun.sun"},
		{"all", `,"expose":"all"`, "", "light.kitchen sensor.diary sun.sun", ""},
		{"areas", `,"expose":{"areas":["Kitchen"]}`, "", "light.kitchen switch.coffee", "light.hall switch.boiler"},
		{"lists", `,"expose":{"labels":["Critical"],"domains":["fan"],"entities":["switch.*"]}`, "", "lock.front_door fan.bedroom switch.boiler", "light.kitchen lock.safe"},
		{"deny", `,"expose":"all","deny":["lock.safe","camera.*"]`, "", "lock.front_door", "lock.safe camera.front"},
		{"gate", "", `{"expose":{"areas":["bedroom"]}}`, "light.bedroom lock.safe", "light.kitchen lock.front_door"},
		{"gate narrows only", `,"expose":{"areas":["kitchen"]}`, `{"expose":"all"}`, "light.kitchen", "light.hall sensor.diary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := openPack(t, fakehome.Options{}, tt.settings)
			opts := p.options(toolyard.Read, tt.gate)
			for id := range strings.FieldsSeq(tt.visible) {
				if _, err := toolyardtest.Call(t, p.tools["get_device"], fmt.Sprintf(`{"id":%q}`, id), opts); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			for id := range strings.FieldsSeq(tt.invisible) {
				for tool, args := range map[string]string{"get_device": `{"id":%q}`, "get_history": `{"ids":[%q]}`, "get_activity": `{"ids":[%q]}`, "get_statistics": `{"ids":[%q]}`, "get_camera_image": `{"id":%q}`} {
					_, err := toolyardtest.Call(t, p.tools[tool], fmt.Sprintf(args, id), opts)
					if toolyard.AsError(err).Code != toolyard.NotFound || strings.Contains(err.Error(), "mean "+id) {
						t.Errorf("%s %s: %v", tool, id, err)
					}
				}
				res, err := toolyardtest.Call(t, p.tools["list_devices"], `{"limit":200}`, opts)
				if err != nil || slices.Contains(ids(t, toolyardtest.Text(res)), id) {
					t.Errorf("%s is listed (%v)", id, err)
				}
			}
		})
	}
}

func TestHiddenAndDiagnosticEntitiesAreReadById(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	list := ids(t, p.call("list_devices", `{"limit":200}`))
	for _, id := range []string{"sensor.router", "sensor.uptime", "sensor.front_door_battery"} {
		if slices.Contains(list, id) {
			t.Errorf("%s is listed", id)
		}
		p.call("get_device", fmt.Sprintf(`{"id":%q}`, id))
	}
}

func TestGetDevice(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	got := p.call("get_device", `{"id":"Kitchen light"}`)
	for _, want := range []string{
		`"id":"light.kitchen"`, `"area":"Kitchen"`, `"floor":"Ground floor"`, `"state":"on"`, `"labels":["Night"]`, `"manufacturer":"IKEA"`,
		`"brightness":128`, `"actions":["toggle","turn_off","turn_on","set"]`, `"tool":"control_device"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if got := p.call("get_device", `{"id":"lock.front_door"}`); !strings.Contains(got, `"tool":"control_security"`) {
		t.Error(got)
	}
}

// No answer contains a camera's or media player's token, or a position.
func TestSecretAttributesAreNotShown(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"expose":"all"`)
	_, camera := p.home.State("camera.front")
	secrets := []string{camera["access_token"].(string), "token=", "9f8e7d", "52.5", "13.4", "0f0f", "entity_picture", "access_token", "latitude"}
	check := func(what, text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s contains %s", what, secret)
			}
		}
	}
	for id := range p.home.States() {
		check(id, p.call("get_device", fmt.Sprintf(`{"id":%q}`, id)))
		check(id, p.read("homeassistant://states/"+id))
	}
	for _, call := range []string{"list_devices", "home_overview", "list_automations", "list_scenes_and_scripts", "get_activity"} {
		check(call, p.call(call, `{}`))
	}
	for _, id := range []string{"hall", "kitchen", "living_room"} {
		check(id, p.read("homeassistant://areas/"+id))
	}
}

// read reads a resource.
func (p *pack) read(uri string) string {
	p.t.Helper()
	res, err := toolyardtest.Call(p.t, p.offer.Resources[0].Reader, fmt.Sprintf(`{"uri":%q}`, uri), p.options(toolyard.Read, ""))
	if err != nil {
		p.t.Fatalf("%s: %v", uri, err)
	}
	var out struct{ Contents []struct{ URI, Text string } }
	if err := json.Unmarshal(res.Raw(), &out); err != nil || len(out.Contents) != 1 || out.Contents[0].URI != uri {
		p.t.Fatalf("%s: %s (%v)", uri, res.Raw(), err)
	}
	return out.Contents[0].Text
}

func TestHomeOverview(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	p.home.Set("lock.safe", "unlocked", nil)
	var got string
	for range 6000 {
		if got = p.call("home_overview", `{}`); strings.Contains(got, "unlocked") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	for _, want := range []string{
		`{"area":"Kitchen","floor":"Ground floor","devices":4,"on":{"count":1,"names":["Kitchen light"]},"open":{"count":1,"names":["Kitchen window"]}}`,
		`"unlocked":{"count":1,"names":["Safe"]}`, `"low_battery":{"count":1,"names":["Front door battery 12 %"]}`, `"unavailable":{"count":1,"names":["Weather station"]}`,
		`"people":{"count":1,"names":["Ann: home"]}`, `"alarms":{"count":1,"names":["Alarm: disarmed"]}`, `"out_of_scope":3`, `"hidden_or_diagnostic":3`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

var raceDetector bool // the race detector slows everything down

func TestLargeHome(t *testing.T) {
	p := openPack(t, fakehome.Options{Entities: 5000}, "")
	for _, tt := range []struct {
		tool, args string
		limit      int
	}{
		{"home_overview", `{}`, 4 << 10},
		{"list_devices", `{}`, 6 << 10},
		{"list_devices", `{"domain":"sensor"}`, 6 << 10},
		{"list_devices", `{"area":"kitchen"}`, 6 << 10},
	} {
		if got := p.call(tt.tool, tt.args); len(got) > tt.limit {
			t.Errorf("%s %s: %d bytes", tt.tool, tt.args, len(got))
		}
		opts := p.options(toolyard.Read, "")
		call := &toolyard.Call{Tool: p.tools[tt.tool], Args: json.RawMessage(tt.args), AsOf: opts.AsOf, Mode: toolyard.Read}
		call.Clients = opts.Clients
		fastest := time.Hour
		for range 10 {
			start := time.Now()
			if _, err := p.tools[tt.tool].Run(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			fastest = min(fastest, time.Since(start))
		}
		if fastest > 5*time.Millisecond && !raceDetector {
			t.Errorf("%s %s took %v", tt.tool, tt.args, fastest)
		}
		t.Logf("%s %s: %v", tt.tool, tt.args, fastest)
	}
}

// Every page of a list continues where the previous page ended.
func TestListPages(t *testing.T) {
	p := openPack(t, fakehome.Options{Entities: 300}, "")
	seen := map[string]bool{}
	for offset := 0; ; {
		var page struct {
			Devices    []struct{ ID string }
			Total      int
			NextOffset int `json:"next_offset"`
		}
		if err := json.Unmarshal([]byte(p.call("list_devices", fmt.Sprintf(`{"offset":%d}`, offset))), &page); err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Devices {
			if seen[d.ID] {
				t.Fatalf("%s twice", d.ID)
			}
			seen[d.ID] = true
		}
		if offset = page.NextOffset; offset == 0 {
			if len(seen) != page.Total {
				t.Errorf("%d of %d", len(seen), page.Total)
			}
			return
		}
	}
}

func TestOverviewOfAnyHomeIsShort(t *testing.T) {
	p := openPack(t, fakehome.Options{}, `,"expose":"all"`)
	long := strings.Repeat("very long name ", 20)
	for i := range 300 {
		p.home.Set(fmt.Sprintf("lock.l%d", i), "unlocked", map[string]any{"friendly_name": fmt.Sprint(long, i)})
		p.home.Set(fmt.Sprintf("sensor.s%d", i), "unavailable", map[string]any{"friendly_name": fmt.Sprint("\u0001\u2028", long, i)})
	}
	for range 6000 {
		got := p.call("home_overview", `{}`)
		if len(got) > 4<<10 {
			t.Fatalf("%d bytes", len(got))
		}
		if strings.Contains(got, `"unlocked":{"count":300`) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("the locks did not appear")
}

func TestHistory(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	var out struct {
		Series []struct {
			Points  [][2]string
			Total   int
			Thinned string
		}
	}
	if err := json.Unmarshal([]byte(p.call("get_history", `{"ids":["sensor.kitchen_temperature"]}`)), &out); err != nil {
		t.Fatal(err)
	}
	s := out.Series[0]
	spike := slices.ContainsFunc(s.Points, func(p [2]string) bool { return strings.Contains(p[0], "T12:00:00Z") && p[1] == "30" })
	if s.Total < 1439 || len(s.Points) > 200 || len(s.Points) < 150 || s.Thinned == "" || !spike {
		t.Errorf("%d of %d, spike: %v", len(s.Points), s.Total, spike)
	}
	if got := p.call("get_history", `{"ids":["light.hall"]}`); !strings.Contains(got, `"total":1`) || strings.Contains(got, "thinned") {
		t.Error(got)
	}
	p.fails("get_history", `{"ids":["light.hall"],"from":"2026-01-01T00:00:00Z"}`, toolyard.Invalid, "at most 7 days")
	p.fails("get_history", `{"ids":["light.hall"],"from":"2999-01-01T00:00:00Z"}`, toolyard.Invalid, "earlier than now")
}

// At a gate with clock: caller, nothing after the as-of time is returned.
func TestPastAsOfTime(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	opts := p.options(toolyard.Read, "")
	opts.AsOf = time.Now().Add(-48 * time.Hour)
	for _, tool := range []string{"list_devices", "home_overview", "list_automations"} {
		if _, err := toolyardtest.Call(t, p.tools[tool], `{}`, opts); toolyard.AsError(err).Code != toolyard.NoData {
			t.Errorf("%s: %v", tool, err)
		}
	}
	res, err := toolyardtest.Call(t, p.tools["get_history"], `{"ids":["sensor.kitchen_temperature"],"to":"2999-01-01T00:00:00Z"}`, opts)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Series []struct{ Points [][2]string }
	}
	if err := json.Unmarshal(res.Structured, &out); err != nil {
		t.Fatal(err)
	}
	points := out.Series[0].Points
	if last, _ := time.Parse(time.RFC3339, points[len(points)-1][0]); last.After(opts.AsOf) {
		t.Error(last)
	}
}

func TestStatistics(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	got := p.call("get_statistics", `{"ids":["sensor.kitchen_temperature","sensor.energy"],"period":"hour"}`)
	for _, want := range []string{`"mean":20,"min":18,"max":32`, `"change":1.5`, `"unit":"kWh"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %.500s", want, got)
		}
	}
	p.fails("get_statistics", `{"ids":["light.hall"]}`, toolyard.NoData, "no statistics for light.hall")
	p.fails("get_statistics", `{"ids":["sensor.energy"],"period":"5minute","from":"2026-01-01T00:00:00Z"}`, toolyard.Invalid, "rows; the limit is 600")
}

func TestActivity(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	got := p.call("get_activity", `{"area":"hall"}`)
	for _, want := range []string{`"id":"light.hall"`, `"by":"automation Night lights"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "light.kitchen") {
		t.Error(got)
	}
	if got := p.call("get_activity", `{}`); strings.Contains(got, "sensor.diary") {
		t.Error("an entity out of scope is in the activity")
	}
}

func TestCameraImage(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	res, err := toolyardtest.Call(t, p.tools["get_camera_image"], `{"id":"Front camera"}`, p.options(toolyard.Read, ""))
	if err != nil {
		t.Fatal(err)
	}
	image, ok := res.Content[0].(toolyard.Image)
	if !ok || image.MIMEType != "image/jpeg" || len(image.Data) < 1000 {
		t.Errorf("%T", res.Content[0])
	}
	p.fails("get_camera_image", `{"id":"light.hall"}`, toolyard.Invalid, "not a camera")
	p.home.PadPictures(1 << 20)
	p.fails("get_camera_image", `{"id":"camera.front"}`, toolyard.ResultTooLarge, "smaller width")
}

func TestAutomationsScenesAndScripts(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	if got := p.call("list_automations", `{"query":"night"}`); !strings.Contains(got, `{"id":"automation.night","name":"Night lights","enabled":true,"last_run":"2026-02-01T22:00Z"}`) {
		t.Error(got)
	}
	if got := p.call("list_scenes_and_scripts", `{}`); !strings.Contains(got, "scene.movie") || !strings.Contains(got, "script.good_night") || strings.Contains(got, "automation.") {
		t.Error(got)
	}
}

func TestDisconnectedHome(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	p.home.Close()
	var got string
	for range 6000 {
		if got = p.call("home_overview", `{}`); strings.Contains(got, "disconnected") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if !regexp.MustCompile(`Home Assistant is disconnected\. This is its state from \d+ s ago\.`).MatchString(got) {
		t.Error(got)
	}
	p.fails("control_device", `{"ids":["light.hall"],"action":"turn_on"}`, toolyard.Unavailable, "not connected")
	p.fails("get_history", `{"ids":["light.hall"]}`, toolyard.Unavailable, "not connected")
}

func TestRefusedTokenIsAProblem(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	source, err := openWith(t, fmt.Sprintf(`{"url":%q,"token":"wrong"}`, home.URL), client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var problems []toolyard.Problem
	_ = source.Run(ctx, func(o toolyard.Offer) {
		if problems = o.Problems; len(problems) > 0 {
			stop()
		}
	})
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "rejected the access token") || home.Logins() != 1 {
		t.Error(problems, home.Logins())
	}
}

func TestUnknownAreaInTheScopeIsAProblem(t *testing.T) {
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	source, err := openWith(t, fmt.Sprintf(`{"url":%q,"token":%q,"expose":{"areas":["Kitchn","Hall"]}}`, home.URL, fakehome.Token), client)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var problems []toolyard.Problem
	_ = source.Run(ctx, func(o toolyard.Offer) {
		if problems = o.Problems; len(problems) > 0 {
			stop()
		}
	})
	if len(problems) != 1 || problems[0].Message != `expose.areas: Unknown area "Kitchn". Did you mean Kitchen?` || !problems[0].Warning {
		t.Error(problems)
	}
}

func TestSourceOfThePack(t *testing.T) {
	toolyardtest.TestSource(t, func(t *testing.T) toolyard.Source {
		home := fakehome.New(fakehome.Options{})
		t.Cleanup(home.Close)
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		source, err := openWith(t, fmt.Sprintf(`{"url":%q,"token":%q}`, home.URL, fakehome.Token), client)
		if err != nil {
			t.Fatal(err)
		}
		return source
	})
}

func TestSettingsThatAreRefused(t *testing.T) {
	for _, tt := range []struct{ settings, want string }{
		{`{"token":"t"}`, "url"},
		{`{"url":"homeassistant.local","token":"t"}`, "url"},
		{`{"url":"http://x"}`, "token"},
		{`{"url":"http://x","token":"t","expose":"some"}`, "expose"},
		{`{"url":"http://x","token":"t","expose":{}}`, "expose"},
		{`{"url":"http://x","token":"t","deny":["[a.b"]}`, "not a pattern"},
		{`{"url":"http://x","token":"t","confirm":["boiler"]}`, "not a pattern"},
		{`{"url":"http://x","token":"t","codes":{"alarm":"1"}}`, "codes"},
		{`{"url":"http://x","token":"t","nonsense":1}`, "nonsense"},
	} {
		if _, err := openWith(t, tt.settings, http.DefaultClient); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.settings, err)
		}
	}
}

func TestToolsOfThePack(t *testing.T) {
	p := openPack(t, fakehome.Options{}, "")
	var read, write []string
	for name, tool := range p.tools {
		if tool.IsReadOnly() {
			read = append(read, name)
		} else {
			write = append(write, name)
		}
	}
	slices.Sort(read)
	slices.Sort(write)
	if got := strings.Join(read, " "); got != "get_activity get_camera_image get_device get_history get_statistics home_overview list_automations list_devices list_scenes_and_scripts" {
		t.Error(got)
	}
	if got := strings.Join(write, " "); got != "activate_scene control_device control_security run_script send_notification trigger_automation" {
		t.Error(got)
	}
	if slices.Contains(slices.Collect(maps.Keys(p.tools)), "call_service") {
		t.Error("call_service is offered without services")
	}
}
