package hass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// start runs a client for a home until the test ends.
func start(t *testing.T, home *fakehome.Home, edit ...func(*Client)) *Client {
	t.Helper()
	c, err := New(Config{URL: home.URL, Token: fakehome.Token, HTTP: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		t.Fatal(err)
	}
	c.times.minPause = 10 * time.Millisecond
	for _, f := range edit {
		f(c)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = c.Run(ctx); close(done) }()
	t.Cleanup(func() { stop(); <-done; c.config.HTTP.CloseIdleConnections() })
	return c
}

func newHome(t *testing.T, o fakehome.Options) *fakehome.Home {
	t.Helper()
	home := fakehome.New(o)
	t.Cleanup(home.Close)
	return home
}

func ready(t *testing.T, c *Client) *Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err, c.Err())
	}
	s, _, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// converge waits until the mirror equals the home's actual state.
func converge(t *testing.T, c *Client, home *fakehome.Home) {
	t.Helper()
	var got, want map[string]string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		s, age, err := c.Snapshot()
		if err != nil || age > 0 {
			continue
		}
		got, want = make(map[string]string), home.States()
		for _, e := range s.Entities() {
			got[e.ID] = e.State.Value
		}
		if cmp.Equal(got, want) {
			return
		}
	}
	t.Fatalf("the mirror differs after a minute: %v %s", c.Err(), cmp.Diff(want, got))
}

func TestMirrorLoadsTheHome(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	c := start(t, home)
	s := ready(t, c)
	converge(t, c, home)
	for _, tt := range []struct{ id, name, area, floor string }{
		{"light.kitchen", "Kitchen light", "Kitchen", "Ground floor"},        // the device's area
		{"light.living_room", "Reading lamp", "Living room", "Ground floor"}, // its own area takes precedence over the device's
		{"cover.garage", "Garage door", "Garage", ""},
		{"switch.boiler", "Boiler", "", ""},
		{"sun.sun", "Sun", "", ""}, // not in the registry
	} {
		e := s.Entity(tt.id)
		area, floor := "", ""
		if e.Area != nil {
			area = e.Area.Name
			if e.Area.Floor != nil {
				floor = e.Area.Floor.Name
			}
		}
		if e.Name != tt.name || area != tt.area || floor != tt.floor {
			t.Errorf("%s: %q %q %q", tt.id, e.Name, area, floor)
		}
	}
	if e := s.Entity("sensor.front_door_battery"); e.Category != "diagnostic" || e.State.DeviceClass != "battery" || e.State.Unit != "%" || !e.Exposed {
		t.Errorf("%+v", e)
	}
	if s.Entity("sensor.diary").Exposed || s.Entity("sun.sun").Exposed || !s.Entity("sensor.router").Hidden || s.Entity("light.none") != nil {
		t.Error("exposure")
	}
	if s.Entity("lock.front_door").State.Changed.IsZero() || !slices.Contains(s.Entity("lock.front_door").Labels, "critical") {
		t.Errorf("%+v", s.Entity("lock.front_door"))
	}
}

func TestMirrorFollowsChanges(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	changed := make(chan []string, 100)
	c := start(t, home, func(c *Client) { c.config.Changed = func(ids []string) { changed <- ids } })
	before := ready(t, c)
	for ids := <-changed; ids != nil; ids = <-changed { // nil stands for the whole home
	}
	home.Set("light.hall", "on", map[string]any{"brightness": 10, "friendly_name": "Lamp"})
	<-before.Replaced()
	if ids := <-changed; !slices.Equal(ids, []string{"light.hall"}) {
		t.Error(ids)
	}
	e := ready(t, c).Entity("light.hall")
	if e.State.Value != "on" || string(e.State.Attributes["brightness"]) != "10" || e.Name != "Lamp" || e.State.Updated != e.State.Changed {
		t.Errorf("%+v", e.State)
	}
	if before.Entity("light.hall").State.Value != "off" {
		t.Error("a snapshot changed")
	}
	home.Set("light.hall", "on", map[string]any{"brightness": nil})
	home.Remove("switch.coffee")
	home.Set("switch.new", "on", nil)
	converge(t, c, home)
	s := ready(t, c)
	if e := s.Entity("light.hall").State; e.Attributes["brightness"] != nil || !e.Updated.After(e.Changed) {
		t.Errorf("%+v", e)
	}
	home.RenameArea("hall", "Foyer")
	home.MoveEntity("light.hall", "bedroom")
	await(t, "renamed area", func() bool {
		s := ready(t, c)
		return s.Entity("lock.front_door").Area.Name == "Foyer" && s.Entity("light.hall").Area.ID == "bedroom"
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

func TestMirrorRecoversFromACutAtEveryMessage(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	// The first messages are two for authentication, five subscriptions, five registries, and the
	// states.
	for n := range 16 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			home.CutAfter(n)
			c := start(t, home)
			home.Set("switch.coffee", fmt.Sprint("state ", n), nil)
			converge(t, c, home)
			home.Set("switch.coffee", fmt.Sprint("later ", n), nil)
			home.Disconnect()
			converge(t, c, home)
		})
	}
}

func TestRefusedTokenIsNotTriedAgain(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	home.RejectAuth(true)
	c := start(t, home)
	if err := c.Ready(t.Context()); !errors.Is(err, ErrToken) {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // ten times the pause
	if n := home.Logins(); n != 1 {
		t.Errorf("%d logins", n)
	}
	if _, _, err := c.Snapshot(); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
	if err := c.Command(t.Context(), "ping", nil, nil); !errors.Is(err, ErrNotSent) {
		t.Error(err)
	}
}

func TestStaleSnapshotIsRefused(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	var ahead atomic.Int64
	now := time.Now()
	c := start(t, home, func(c *Client) {
		c.config.Now = func() time.Time { return now.Add(time.Duration(ahead.Load())) }
		c.times.minPause, c.times.maxPause = time.Hour, time.Hour
	})
	ready(t, c)
	home.Disconnect()
	await(t, "disconnected", func() bool { return c.Err() != nil })
	for _, tt := range []struct {
		ahead time.Duration
		ok    bool
	}{{10 * time.Second, true}, {29 * time.Second, true}, {31 * time.Second, false}, {time.Hour, false}} {
		ahead.Store(int64(tt.ahead))
		_, age, err := c.Snapshot()
		if (err == nil) != tt.ok || age < tt.ahead {
			t.Errorf("%v: %v %v", tt.ahead, age, err)
		}
	}
}

func TestSilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	home := newHome(t, fakehome.Options{})
	c := start(t, home, func(c *Client) { c.times.ping, c.times.silence = 20*time.Millisecond, 2*time.Second })
	ready(t, c)
	before := home.Logins()
	for round := range 5 {
		time.Sleep(3 * time.Second)
		n := home.Logins()
		if n == before {
			break
		}
		if round == 4 { // a stalled machine may lose some connections, but not all of them
			t.Errorf("%d logins although pings are answered", n)
		}
		before = n
	}
	home.Delay(2500 * time.Millisecond)
	await(t, "another login", func() bool { return home.Logins() > before })
}

func TestLargeHome(t *testing.T) {
	home := newHome(t, fakehome.Options{Entities: 5000})
	home.Pad(10 << 20)
	c := start(t, home)
	s := ready(t, c)
	if e := s.Entity("sensor.padded"); e == nil || len(e.State.Attributes["padding"]) < 10<<20 || len(s.Entities()) < 5000 {
		t.Error(len(s.Entities()))
	}
	home.Pad(33 << 20)
	home.Disconnect()
	await(t, "message refused", func() bool { return c.Err() != nil && strings.Contains(c.Err().Error(), "too big") })
}

func TestCommandsWhileTheHomeChanges(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	c := start(t, home)
	ready(t, c)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				home.RenameArea("hall", fmt.Sprint("Hall ", i))
				home.Set("light.hall", []string{"on", "off"}[i%2], nil)
				time.Sleep(200 * time.Microsecond)
			}
		}
	}()
	for range 50 {
		if err := c.CallService(t.Context(), "switch", "toggle", nil, map[string]any{"entity_id": "switch.coffee"}); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
	home.RenameArea("hall", "Hall")
	await(t, "last name", func() bool { return ready(t, c).Entity("light.hall").Area.Name == "Hall" })
	converge(t, c, home)
	if n := len(home.Calls()); n != 50 {
		t.Error(n)
	}
}

func TestCommands(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	c := start(t, home)
	ready(t, c)
	ctx, now := t.Context(), time.Now()
	points, err := c.History(ctx, "sensor.kitchen_temperature", now.Add(-time.Hour), now)
	if err != nil || len(points) != 60 || points[0].At.IsZero() || points[0].State == "" {
		t.Error(len(points), err)
	}
	rows, err := c.Statistics(ctx, []string{"sensor.kitchen_temperature", "sensor.energy"}, "hour", now.Add(-24*time.Hour), now)
	if err != nil || len(rows["sensor.energy"]) < 24 || *rows["sensor.kitchen_temperature"][0].Mean != 20 || *rows["sensor.energy"][0].Change != 1.5 {
		t.Error(rows, err)
	}
	entries, err := c.Logbook(ctx, []string{"light.hall"}, now.Add(-2*time.Hour), now)
	if err != nil || len(entries) != 1 || entries[0].ContextName != "Night lights" || entries[0].Time().IsZero() {
		t.Errorf("%+v %v", entries, err)
	}
	related, err := c.RelatedEntities(ctx, "scene.leaving")
	if err != nil || !slices.Equal(related, []string{"light.hall", "lock.front_door"}) {
		t.Error(related, err)
	}
	config, err := c.ScriptConfig(ctx, "script.lock_up")
	if err != nil || config["alias"] != "Lock up" {
		t.Error(config, err)
	}
	if _, err := c.ScriptConfig(ctx, "script.none"); !hasCode(err, CodeNotFound) {
		t.Error(err)
	}
	services, err := c.Services(ctx, "notify")
	if err != nil || !slices.Equal(services, []string{"mobile_app_phone", "send_message"}) {
		t.Error(services, err)
	}
	data, mime, err := c.CameraImage(ctx, "camera.front", 320, 1<<20)
	if err != nil || mime != "image/jpeg" || len(data) < 1000 {
		t.Error(len(data), mime, err)
	}
	if _, _, err = c.CameraImage(ctx, "camera.front", 1280, 1000); err == nil {
		t.Error("a large picture was accepted")
	}
	if _, _, err = c.CameraImage(ctx, "camera.none", 320, 1000); err == nil {
		t.Error("a picture of no camera")
	}
}

func hasCode(err error, code string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}

func TestCommandWithoutAnswer(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	c := start(t, home)
	ready(t, c)
	home.HangServices(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.CallService(ctx, "switch", "turn_on", nil, map[string]any{"entity_id": "switch.coffee"})
	if !errors.Is(err, ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	broken := make(chan error)
	go func() { broken <- c.CallService(t.Context(), "switch", "turn_off", nil, nil) }()
	await(t, "second call", func() bool { return len(home.Calls()) == 2 })
	home.Disconnect()
	if err := <-broken; !errors.Is(err, ErrNoAnswer) {
		t.Error(err)
	}
}

func TestMirrorIsBounded(t *testing.T) {
	on := "on"
	e := &entitiesEvent{Added: map[string]*compressedState{}}
	for i := range maxEntities + 1 {
		e.Added[fmt.Sprint("light.l", i)] = &compressedState{State: &on}
	}
	if _, _, err := e.apply(map[string]*State{}); err == nil {
		t.Error("too many entities were accepted")
	}
	if _, err := parseList[Area]([]byte("[" + strings.Repeat("{},", maxEntities) + "{}]")); err == nil {
		t.Error("too many areas were accepted")
	}
}

func TestPendingCommandsAreBounded(t *testing.T) {
	home := newHome(t, fakehome.Options{})
	c := start(t, home)
	ready(t, c)
	s := c.session.Load()
	s.mu.Lock()
	for i := range maxPending {
		s.pending[-i] = nil
	}
	s.mu.Unlock()
	if err := c.CallService(t.Context(), "switch", "turn_on", nil, nil); !errors.Is(err, ErrNotSent) || len(home.Calls()) > 0 {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, config := range []Config{
		{},
		{URL: "ftp://x", Token: "t", HTTP: http.DefaultClient},
		{URL: "192.168.1.5:8123", Token: "t", HTTP: http.DefaultClient},
		{URL: "http://x", HTTP: http.DefaultClient},
		{URL: "http://x", Token: "a b", HTTP: http.DefaultClient},
		{URL: "http://x", Token: "t"},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"type":"auth_required","ha_version":"2026.8.0"}`))
	f.Add([]byte(`{"id":1,"type":"result","success":false,"error":{"code":"not_found","message":"x"}}`))
	f.Add([]byte(`{"id":1,"type":"event","event":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMessage(raw)
		if err == nil && m.Type == "result" && !m.Success && m.Error == nil {
			t.Error("a failure without an error")
		}
	})
}

func FuzzEntities(f *testing.F) {
	f.Add([]byte(`{"a":{"light.a":{"s":"on","a":{"friendly_name":"A"},"c":"X","lc":1763164801.5}}}`), []byte(`{"c":{"light.a":{"+":{"s":"off","lc":1763164802.5},"-":{"a":["friendly_name"]}}}}`))
	f.Add([]byte(`{"a":{"light.a":{"s":"on","lc":1e300,"lu":-1}}}`), []byte(`{"r":["light.a","light.b"],"c":{"light.a":null}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		states := map[string]*State{}
		for _, raw := range [][]byte{first, second} {
			e, err := parseEntities(raw)
			if err != nil {
				return
			}
			changed, _, err := e.apply(states)
			if err != nil {
				return
			}
			s := newSnapshot(&registries{}, states)
			for _, id := range changed {
				if e := s.Entity(id); states[id] != nil && (e == nil || e.State != states[id]) {
					t.Errorf("%q is missing", id)
				}
			}
			for _, e := range s.Entities() {
				if _, err := json.Marshal(e.State.Changed); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func FuzzRegistries(f *testing.F) {
	f.Add("area", []byte(`[{"area_id":"hall","name":"Hall","aliases":["x"],"floor_id":null}]`))
	f.Add("entity", []byte(`[null,{"entity_id":"light.a","device_id":"d","options":{"conversation":{"should_expose":true}}}]`))
	f.Add("device", []byte(`[{"id":"d","area_id":"hall","labels":null}]`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		var r registries
		if r.load(name, raw) == nil {
			s := newSnapshot(&r, map[string]*State{"light.a": newState("on", nil, time.Time{}, time.Time{})})
			if e := s.Entity("light.a"); e == nil || e.Name == "" {
				t.Error(e)
			}
		}
	})
}
