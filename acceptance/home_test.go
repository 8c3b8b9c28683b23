package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakehome"
)

// For the official client, the fake home is a real Home Assistant.
func TestOfficialHomeAssistantClientUsesTheFake(t *testing.T) {
	t.Parallel()
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	out, err := node(t, script(t, "home.mjs"), home.URL, fakehome.Token)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"version":"2026.8.0"`, `"areas":["hall","kitchen","living_room","bedroom","garage"]`, `"exposed":false`, `"seen":["on","off"]`,
		`"brightness":128`, `"changed":"20"`, `"notFound":"not_found"`, `"unknown":"unknown_command"`, `"refused":2`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if home.Logins() != 2 || len(home.Calls()) != 1 {
		t.Error(home.Logins(), home.Calls())
	}
}

// homeConfig returns a configuration with a home, and additional settings for its pack.
func homeConfig(home *fakehome.Home, settings, gates string) string {
	return fmt.Sprintf("packs:\n  homeassistant: {url: %q, token: %q%s}\ngates: %s\n", home.URL, fakehome.Token, settings, gates)
}

// homeWrites are calls to all tools that change the home.
var homeWrites = map[string]string{
	"control_device":     `{"ids":["light.hall"],"action":"turn_on"}`,
	"control_security":   `{"id":"lock.front_door","action":"unlock"}`,
	"activate_scene":     `{"id":"scene.movie"}`,
	"run_script":         `{"id":"script.good_night"}`,
	"trigger_automation": `{"id":"automation.night"}`,
	"send_notification":  `{"target":"mobile_app_phone","message":"hi"}`,
	"call_service":       `{"service":"light.turn_on","ids":["light.hall"]}`,
}

// homeReads are calls to all tools that change nothing.
var homeReads = map[string]string{
	"list_devices": `{"area":"kitchen"}`, "get_device": `{"id":"light.hall"}`, "home_overview": `{}`, "get_history": `{"ids":["light.hall"]}`,
	"get_statistics": `{"ids":["sensor.energy"]}`, "get_activity": `{}`, "get_camera_image": `{"id":"camera.front"}`, "list_automations": `{}`, "list_scenes_and_scripts": `{}`,
}

// At a read gate, no tool, resource, script or nested call reaches one of the home's services.
func TestReadGateNeverChangesTheHome(t *testing.T) {
	t.Parallel()
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	writes, err := json.Marshal(homeWrites)
	if err != nil {
		t.Fatal(err)
	}
	nested := func(modes string) string {
		return fmt.Sprintf(`import { z } from "zod";
export const description = "Tries to change the home.";
export const modes = %s;
export const inputSchema = z.object({});
export default async (_: {}, ctx: any) => {
	const outcomes: Record<string, string> = {};
	for (const [name, args] of Object.entries(%s)) {
		try {
			const r = await ctx.mcp.callTool("", name, JSON.parse(args));
			outcomes[name] = r.isError ? "refused" : "ran";
		} catch (e) {
			outcomes[name] = "refused";
		}
	}
	return outcomes;
};
`, modes, writes)
	}
	dir := folder(t, map[string]string{"tools/sneaky.ts": nested(`["read", "write"]`), "tools/open.ts": nested(`["write"]`)})
	config := homeConfig(home, `, services: ["light.*"]`, `{default: {mode: read, naming: plain}, control: {mode: write, naming: plain}}`)
	p := serveIn(t, dir, "toolyard", config+"scripts: {dir: tools}\n")
	for era, c := range map[string]client{"modern": modernHTTP{t: t, url: p.url}, "legacy": newLegacyHTTP(t, p.url)} {
		names := listTools(t, c)
		for tool := range homeReads {
			if r := call(t, c, tool, homeReads[tool]).result(t); r.IsError {
				t.Errorf("%s %s: %v", era, tool, r.Content)
			}
		}
		for tool := range homeWrites {
			if strings.Contains(strings.Join(names, " "), tool) {
				t.Errorf("%s: %s is listed", era, tool)
			}
			if m := call(t, c, tool, homeWrites[tool]); m.Error == nil && !m.result(t).IsError {
				t.Errorf("%s: %s ran", era, tool)
			}
		}
		r := call(t, c, "sneaky", `{}`).result(t)
		if got := string(r.Structured); strings.Contains(got, "ran") || strings.Count(got, "refused") != len(homeWrites) {
			t.Errorf("%s: %s", era, got)
		}
		for _, uri := range []string{"homeassistant://states/lock.front_door", "homeassistant://areas/hall"} {
			if m, _ := c.send("7", "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); m.Error != nil || !strings.Contains(string(m.Result), "front_door") {
				t.Errorf("%s %s: %+v", era, uri, m)
			}
		}
	}
	// A read-only script at the write gate does not reach one either.
	r := call(t, modernHTTP{t: t, url: p.url + "/control"}, "sneaky", `{}`).result(t)
	if got := string(r.Structured); strings.Contains(got, "ran") {
		t.Error(got)
	}
	if calls := home.Calls(); len(calls) != 0 {
		t.Fatalf("%d service calls: %v", len(calls), calls)
	}
	// If the same script may write, it can run the tools that need no confirmation.
	r = call(t, modernHTTP{t: t, url: p.url + "/control"}, "open", `{}`).result(t)
	if got := string(r.Structured); strings.Count(got, `"ran"`) != len(homeWrites)-1 || !strings.Contains(got, `"control_security":"refused"`) {
		t.Error(got)
	}
	if state, _ := home.State("lock.front_door"); state != "locked" {
		t.Error(state)
	}
}

// homeLocks are ways to reach the front door.
var homeLocks = []struct{ tool, args string }{
	{"control_security", `{"id":"lock.front_door","action":"unlock"}`},
	{"control_security", `{"area":"hall","action":"unlock"}`},
	{"activate_scene", `{"id":"scene.leaving"}`},
	{"run_script", `{"id":"script.leave_home"}`},
	{"run_script", `{"id":"script.leave_by_turn_on"}`},
}

// No matter how a lock is reached, clients of both eras ask their user, and a refusal changes
// nothing.
func TestLocksAreAskedInBothEras(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"ask-modern.mjs", "ask-legacy.mjs"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			home := fakehome.New(fakehome.Options{})
			defer home.Close()
			p := serve(t, "toolyard", homeConfig(home, "", "{default: {mode: write}}"))
			ask := func(tool, args, name string) (asked []string, text string) {
				t.Helper()
				out, err := node(t, script(t, file), p.url, tool, name, "", args)
				var got struct {
					Asked []string
					Text  string
				}
				if err != nil || json.Unmarshal([]byte(out), &got) != nil {
					t.Fatal(out, err)
				}
				return got.Asked, got.Text
			}
			for _, lock := range homeLocks {
				asked, text := ask(lock.tool, lock.args, "")
				if len(asked) != 1 || !strings.Contains(asked[0], "Front door") || !strings.Contains(text, "Nothing was changed") {
					t.Errorf("%s %s: %v %s", lock.tool, lock.args, asked, text)
				}
			}
			if calls := home.Calls(); len(calls) != 0 {
				t.Fatalf("declined, but: %v", calls)
			}
			if _, text := ask("control_device", `{"area":"hall","domain":"lock","action":"open"}`, "Ann"); !strings.Contains(text, "control_security") || len(home.Calls()) != 0 {
				t.Error(text, home.Calls())
			}
			ask("control_security", homeLocks[0].args, "Ann")
			if state, _ := home.State("lock.front_door"); state != "unlocked" {
				t.Error(state)
			}
		})
	}
}

// A confirmation has no effect if its state was tampered with or belongs to another caller, if the
// arguments differ, or if the lock's state has changed in the meantime.
func TestForgedConfirmationsChangeNothing(t *testing.T) {
	t.Parallel()
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	p := serve(t, "testyard", homeConfig(home, "", "{default: {mode: write}}"), "TESTYARD_KEYS=a=ann b=bob")
	base := "http://" + p.address()
	ann, bob := person{t, base, "a"}, person{t, base, "b"}
	const tool, args = "control_security", `{"id":"lock.front_door","action":"unlock"}`
	first := ann.call(tool, args, "")
	if first.InputRequired == nil || !strings.Contains(first.InputRequired.Questions["confirm"].Message, "Unlock “Front door” (Hall), now locked for 1 h? Requested by ann.") {
		t.Fatalf("%+v", first)
	}
	state := first.InputRequired.State
	for name, got := range map[string]turn{
		"bob with ann's state":     bob.call(tool, args, filled("confirm", state, "{}")),
		"another entity":           ann.call(tool, `{"id":"lock.safe","action":"unlock"}`, filled("confirm", state, "{}")),
		"another action":           ann.call(tool, `{"id":"lock.front_door","action":"open"}`, filled("confirm", state, "{}")),
		"a state that was changed": ann.call(tool, args, filled("confirm", state+"A", "{}")),
		"an answer without state":  ann.call(tool, args, `,"answers":{"confirm":{"action":"accept","content":{}}}`),
		"another tool":             ann.call("run_script", `{"id":"script.lock_up"}`, filled("confirm", state, "{}")),
	} {
		if got.Result != nil && !got.Result.IsError {
			t.Errorf("%s: %+v", name, got)
		}
	}
	home.Set("lock.front_door", "jammed", nil)
	soon(t, "the yard has the new state", func() bool {
		got := ann.call("get_device", `{"id":"lock.front_door"}`, "")
		return strings.Contains(fmt.Sprintf("%+v", got.Result), "jammed")
	})
	again := ann.call(tool, args, filled("confirm", state, "{}"))
	if again.InputRequired == nil || !strings.Contains(again.InputRequired.Questions["confirm"].Message, "now jammed") {
		t.Fatalf("%+v", again)
	}
	if calls := home.Calls(); len(calls) != 0 {
		t.Fatal(calls)
	}
	done := ann.call(tool, args, filled("confirm", again.InputRequired.State, "{}"))
	if got, _ := home.State("lock.front_door"); got != "unlocked" || done.Result == nil || done.Result.IsError {
		t.Errorf("%s %+v", got, done)
	}
}

// Clients of both eras are notified when a device changes.
func TestHomeResourceUpdates(t *testing.T) {
	t.Parallel()
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	p := serve(t, "toolyard", homeConfig(home, "", "{default: {mode: read}}"))
	const uri = "homeassistant://states/light.hall"
	modern := modernHTTP{t: t, url: p.url}
	call(t, modern, "home_overview", `{}`) // waits until the home is loaded
	res, err := modern.post(t.Context(), "5", "subscriptions/listen", fmt.Sprintf(`{"notifications":{"resourceSubscriptions":[%q]}}`, uri))
	if err != nil {
		t.Fatal(err)
	}
	legacy := newLegacyHTTP(t, p.url)
	streams := map[string]<-chan message{"modern": follow(t, res), "legacy": legacy.listen()}
	<-streams["modern"] // reads the acknowledgement
	if m, _ := legacy.send("6", "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); m.Error != nil {
		t.Fatal(m.Error)
	}
	home.Set("light.hall", "on", nil)
	for era, stream := range streams {
		for deadline := time.After(time.Minute); ; {
			select {
			case m := <-stream:
				if m.Method != "notifications/resources/updated" {
					continue
				}
				if !strings.Contains(string(m.Params), uri) {
					t.Errorf("%s: %s", era, m.Params)
				}
			case <-deadline:
				t.Errorf("%s: not notified", era)
			}
			break
		}
	}
}
