package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestInvalidOutputIsNotDelivered(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t, serve(t, "testyard", "")) {
		good := call(t, c, "score", `{"score":90}`).result(t)
		if good.IsError || string(good.Structured) != `{"riskScore":90}` {
			t.Errorf("%s: %+v", name, good)
		}
		bad := call(t, c, "score", `{"score":101}`)
		r := bad.result(t)
		var e struct {
			Error  string
			Issues []struct{ Path string }
		}
		_ = json.Unmarshal(r.failure(), &e)
		if !r.IsError || e.Error != "OUTPUT_ERROR" || len(e.Issues) != 1 || e.Issues[0].Path != "riskScore" {
			t.Errorf("%s: %s", name, bad.Result)
		}
		if strings.Contains(string(bad.Result), `"riskScore":101`) {
			t.Errorf("%s: the malformed result was delivered: %s", name, bad.Result)
		}
	}
}

func TestEachToolIsRegisteredOnceInTheLog(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	c := modernHTTP{t: t, url: p.url}
	registered := func(l map[string]any) bool { return l["event"] == "TOOL_REGISTERED" }
	names := listTools(t, c)
	seen := make(map[any]int)
	for _, l := range p.logged(len(names), registered) {
		seen[l["tool"]]++
	}
	for _, n := range names {
		if n = strings.TrimPrefix(n, "mcp_docs__"); seen[n] != 1 { // events contain the tool's own name
			t.Errorf("%s was registered %d times", n, seen[n])
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d tools registered, %d listed", len(seen), len(names))
	}
	call(t, c, "flip", "{}")
	if got := p.logged(len(names)+1, registered); len(got) != len(names)+1 {
		t.Errorf("one more tool, but %d records", len(got))
	}
}

// Adding a file registers its tool once; saving the file again does not register it again.
func TestAddedFileRegistersItsToolOnce(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{"hello.ts": helloScript})
	registered := func(name string) func(map[string]any) bool {
		return func(l map[string]any) bool { return l["event"] == "TOOL_REGISTERED" && l["tool"] == name }
	}
	c := modernHTTP{t: t, url: p.url}
	save(t, filepath.Join(p.dir, "tools/second.ts"), helloScript)
	soon(t, "the second tool is listed", func() bool { return slices.Contains(listTools(t, c), "second") })
	save(t, filepath.Join(p.dir, "tools/second.ts"), strings.Replace(helloScript, "Hello", "Howdy", 1))
	save(t, filepath.Join(p.dir, "tools/third.ts"), helloScript)
	soon(t, "the third tool is listed", func() bool { return slices.Contains(listTools(t, c), "third") })
	for _, name := range []string{"hello", "second", "third"} {
		if got := p.logged(1, registered(name)); len(got) != 1 {
			t.Errorf("%s was registered %d times", name, len(got))
		}
	}
}

func TestListIsTheSameOverEveryTransport(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	want := listTools(t, modernHTTP{t: t, url: p.url})
	if !slices.IsSorted(want) || len(want) < 20 {
		t.Errorf("the order is not fixed: %v", want)
	}
	for name, c := range clients(t, p) {
		for range 2 {
			if diff := cmp.Diff(want, listTools(t, c)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
	code, out, _ := run(t, "testyard", "", "tools", "--json")
	var listed []struct{ Name string }
	if err := json.Unmarshal([]byte(out), &listed); err != nil || code != 0 {
		t.Fatal(code, err)
	}
	var names []string
	for _, l := range listed {
		names = append(names, l.Name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("command line: %s", diff)
	}
}

func TestCatalogNeedsNoExternalService(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	res, err := http.Get(strings.TrimSuffix(p.url, "/mcp") + "/api/tools/catalog")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	var entries []map[string]any
	if err := json.Unmarshal(body, &entries); err != nil || res.StatusCode != 200 {
		t.Fatalf("%s: %v", res.Status, err)
	}
	for _, e := range entries {
		for _, key := range []string{"name", "category", "description", "modes", "inputSchema"} {
			if e[key] == nil {
				t.Errorf("%v has no %s", e["name"], key)
			}
		}
		const hint = "Use to read recent price action before deciding to trade"
		if e["name"] == "fetch_recent_bars" && e["uiHint"] != hint {
			t.Errorf("uiHint is %v, want %s", e["uiHint"], hint)
		}
	}
	if len(entries) != len(listTools(t, modernHTTP{t: t, url: p.url})) {
		t.Error("the catalog and the list differ")
	}
}

func TestToolsetWithUnavailableToolIsNotBound(t *testing.T) {
	t.Parallel()
	config := func(tool string) string {
		return fmt.Sprintf("toolsets:\n  mine:\n    tools: [echo, %s]\ngates:\n  chat: {mode: read, toolset: mine}\n", tool)
	}
	for tool, want := range map[string]string{
		"propose_order": "toolyard.yaml:3:19: gate chat, toolset mine: Tool propose_order not allowed in mode read",
		"nope":          "toolyard.yaml:3:19: gate chat, toolset mine: Unknown tool: nope",
	} {
		for _, command := range []string{"check", "tools", "serve"} {
			code, out, errs := run(t, "testyard", config(tool), command)
			if code != 1 || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s with %s: exit %d, %q %q", command, tool, code, out, errs)
			}
		}
	}
	// A running yard keeps its previous configuration.
	p := serve(t, "testyard", config("fetch_recent_bars"))
	p.configure(config("propose_order"))
	p.logged(1, func(l map[string]any) bool {
		return strings.Contains(fmt.Sprint(l["error"]), "not allowed in mode read")
	})
	if diff := cmp.Diff([]string{"echo", "fetch_recent_bars"}, listTools(t, modernHTTP{t: t, url: p.url})); diff != "" {
		t.Error(diff)
	}
}

const twoGates = "gates:\n  chat: {mode: read}\n  trade: {mode: write}\n"

func TestReadGateRefusesForgedWriteCall(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", twoGates)
	chat, trade := modernHTTP{t: t, url: p.url + "/chat"}, modernHTTP{t: t, url: p.url + "/trade"}
	if slices.Contains(listTools(t, chat), "propose_order") || !slices.Contains(listTools(t, trade), "propose_order") {
		t.Error("propose_order is listed in the wrong place")
	}
	for name, c := range map[string]client{"2026-07-28": chat, "2025-11-25": newLegacyHTTP(t, p.url+"/chat")} {
		for _, alias := range []string{"propose_order", "mcp_toolyard_propose_order"} {
			if m := call(t, c, alias, "{}"); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(string(m.Error.Data), "METHOD_NOT_FOUND") {
				t.Errorf("%s: a forged call of %s returned %s", name, alias, m.Result)
			}
		}
	}
	if got := string(call(t, chat, "dump_context", "{}").result(t).Structured); got != `{"broker":false,"caller":"anonymous","gate":"chat","mode":"read","orders":0}` {
		t.Errorf("chat: %s", got)
	}
	call(t, trade, "propose_order", "{}").result(t)
	if got := string(call(t, trade, "dump_context", "{}").result(t).Structured); got != `{"broker":true,"caller":"anonymous","gate":"trade","mode":"write","orders":1}` {
		t.Errorf("trade: %s", got)
	}
	if res, err := (modernHTTP{t: t, url: p.url}).post(t.Context(), "1", "tools/list", ""); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("with two gates and no default, /mcp is %v (%v)", res.Status, err)
	}
}

func TestConcurrentCallsLogTheirOwnRequestID(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	var mu sync.Mutex
	ids := make(map[string]string) // the caller's ID, keyed by text
	var wg sync.WaitGroup
	for _, text := range []string{"one", "two", "three", "four"} {
		wg.Go(func() {
			r := call(t, modernHTTP{t: t, url: p.url}, "log_id", fmt.Sprintf(`{"text":%q}`, text)).result(t)
			var id string
			_ = json.Unmarshal(r.Meta["dev.toolyard/call"], &id)
			mu.Lock()
			defer mu.Unlock()
			ids[text] = id
		})
	}
	wg.Wait()
	seen := make(map[any]bool)
	for _, l := range p.logged(4, func(l map[string]any) bool { return l["msg"] == "inside" }) {
		if l["call"] != ids[fmt.Sprint(l["text"])] || seen[l["call"]] {
			t.Errorf("%v does not match %v", l, ids)
		}
		seen[l["call"]] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d ids", len(seen))
	}
}

func TestGoToolTimesOutAndIsCanceled(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	marker := filepath.Join(p.dir, "marker")
	start := time.Now()
	r := call(t, modernHTTP{t: t, url: p.url}, "sleep", fmt.Sprintf(`{"ms":90000,"marker":%q}`, marker)).result(t)
	if took := time.Since(start); took < 29500*time.Millisecond || took > 80*time.Second {
		t.Errorf("it took %v", took)
	}
	if !r.IsError || !strings.Contains(string(r.failure()), `"error":"TIMEOUT"`) || !strings.Contains(string(r.failure()), `"retryable":false`) {
		t.Errorf("%+v", r)
	}
	for range 3000 {
		if data, err := os.ReadFile(marker); err == nil && string(data) == "cleaned" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the tool's context was not canceled")
}

const bothStyles = "gates:\n  default: {mode: write}\n  protocol: {mode: write, errors: protocol}\n"

func TestUnknownToolError(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", bothStyles)
	for url, number := range map[string]int{p.url: -32602, p.url + "/protocol": -32601} {
		for name, c := range map[string]client{"2026-07-28": modernHTTP{t: t, url: url}, "2025-11-25": newLegacyHTTP(t, url)} {
			m := call(t, c, "nope", "{}")
			if m.Error == nil || m.Error.Code != number || !strings.Contains(string(m.Error.Data), `"METHOD_NOT_FOUND"`) {
				t.Errorf("%s at %s: %+v", name, url, m.Error)
			}
		}
	}
}

func TestErrorStylesOfAGate(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", bothStyles)
	const badArgs = `{"symbol":"BTC","interval":"2m","lookback":501}`
	for name, c := range map[string]client{"2026-07-28": modernHTTP{t: t, url: p.url}, "2025-11-25": newLegacyHTTP(t, p.url)} {
		invalid := call(t, c, "fetch_recent_bars", badArgs).result(t)
		var data struct {
			Error                  string
			Retryable, Correctable bool
			Issues                 []struct{ Path string }
		}
		_ = json.Unmarshal(invalid.failure(), &data)
		if !invalid.IsError || data.Error != "VALIDATION_ERROR" || data.Retryable || !data.Correctable || len(data.Issues) != 2 || data.Issues[0].Path != "interval" {
			t.Errorf("%s: %+v", name, data)
		}
		thrown := call(t, c, "throw", "{}").result(t)
		_ = json.Unmarshal(thrown.failure(), &data)
		if !thrown.IsError || data.Error != "TOOL_EXECUTION_ERROR" || data.Retryable || data.Correctable || thrown.Content[0].Text != "Error: boom" {
			t.Errorf("%s: %+v", name, thrown)
		}
	}
	for name, c := range map[string]client{"2026-07-28": modernHTTP{t: t, url: p.url + "/protocol"}, "2025-11-25": newLegacyHTTP(t, p.url+"/protocol")} {
		if m := call(t, c, "fetch_recent_bars", badArgs); m.Error == nil || m.Error.Code != -32001 || !strings.Contains(string(m.Error.Data), `"issues":[{"path":"interval"`) {
			t.Errorf("%s: %+v", name, m.Error)
		}
		if m := call(t, c, "throw", "{}"); m.Error == nil || m.Error.Code != -32000 || !strings.Contains(string(m.Error.Data), `"message":"boom"`) {
			t.Errorf("%s: %+v", name, m.Error)
		}
	}
}
