package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// recorder collects a yard's calls.
type recorder struct {
	mu    sync.Mutex
	calls []*toolyard.Call
	codes []toolyard.Code
}

func (*recorder) Intent(context.Context, *toolyard.Call) error { return nil }

func (r *recorder) Outcome(_ context.Context, c *toolyard.Call, o toolyard.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.codes = append(r.calls, c), append(r.codes, o.Code())
}

// of returns the recorded calls of a tool.
func (r *recorder) of(tool string) (calls []*toolyard.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if c.Tool.Name == tool {
			calls = append(calls, c)
		}
	}
	return calls
}

// shop has tools that read and tools that write, and counts their runs.
type shop struct {
	recorder
	shipped atomic.Int64
}

func (s *shop) tools() []*toolyard.Tool {
	type order struct {
		ID    int     `json:"id"`
		Total float64 `json:"total"`
	}
	type orders struct {
		Orders []order `json:"orders"`
	}
	text := func(name string, effects toolyard.Effects) *toolyard.Tool {
		return toolyard.Define(toolyard.Spec{Name: name, Description: "Does " + name + ".", Effects: effects}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return name, nil })
	}
	return []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "list_orders", Description: "Lists the open orders.", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call, struct{}) (orders, error) {
			return orders{[]order{{1, 50}, {2, 500}, {3, 70}}}, nil
		}),
		toolyard.Define(toolyard.Spec{Name: "ship", Description: "Ships an order."}, func(_ context.Context, _ *toolyard.Call, o order) (string, error) {
			return fmt.Sprint("shipped ", o.ID, " as ", s.shipped.Add(1)), nil
		}),
		text("inbox", toolyard.ReadOnly), text("web", toolyard.ReadOnly), text("send", ""), text("delete", ""),
	}
}

// start runs a yard with the shop's tools.
func (s *shop) start(t *testing.T, config string) *yard.Yard {
	t.Helper()
	return start(t, yard.Options{ConfigFile: writeConfig(t, config), Tools: s.tools(), Recorders: []toolyard.Recorder{s}})
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := t.TempDir() + "/toolyard.yaml"
	write(t, file, text)
	return file
}

var ann = toolyard.Caller{ID: "ann", Account: "acme"}

// runCode runs code at a gate and returns the result's text items.
func runCode(t *testing.T, y *yard.Yard, gate string, caller toolyard.Caller, code, run string) (string, *toolyard.Result) {
	t.Helper()
	args, err := json.Marshal(map[string]string{"code": code, "run": run})
	if err != nil {
		t.Fatal(err)
	}
	res, err := y.Call(t.Context(), gate, caller, "run_code", args)
	if err != nil {
		return "error: " + err.Error(), &toolyard.Result{}
	}
	var texts []string
	for _, c := range res.Items() {
		texts = append(texts, string(c.(toolyard.Text)))
	}
	return strings.Join(texts, "\n"), res
}

// textOf returns the first text of a response.
func textOf(m map[string]any) string {
	content, _ := m["result"].(map[string]any)["content"].([]any)
	return at(content[0].(map[string]any), "text")
}

const codeGates = `gates: {code: {mode: write, offer: code}, read: {mode: read, offer: code}}` + "\n"

func TestCodeGateServesBothEras(t *testing.T) {
	var s shop
	y := s.start(t, codeGates)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			c := connect(t, y, "code", era, `{}`, nil)
			list := c.request(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + c.meta + `}}}`)
			var names []string
			for _, tool := range list["result"].(map[string]any)["tools"].([]any) {
				names = append(names, tool.(map[string]any)["name"].(string))
			}
			if diff := cmp.Diff([]string{"search_tools", "describe_tools", "run_code", "call_tool", "call_write_tool", "read_result"}, names); diff != "" {
				t.Error(diff)
			}
			before := len(s.of("list_orders"))
			m := c.call("run_code", `{"code":"const { orders }: any = await tools.list_orders();\nconst found = await tools.search('ship an order');\nreturn { n: orders.length, found: found.includes('ship(') };"}`)
			if got := textOf(m); got != `{"n":3,"found":true}` {
				t.Errorf("%v", m)
			}
			made := s.of("list_orders")[before:]
			runs := s.of("run_code")
			if len(made) != 1 || made[0].Parent != runs[len(runs)-1].ID || made[0].Depth != 1 || made[0].Gate != "code" {
				t.Errorf("recorded %+v", made)
			}
			if m := c.call("run_code", `{"code":"const = 1"}`); code(m) != "VALIDATION_ERROR" || !strings.Contains(textOf(m), "(line 1, column 7)") {
				t.Errorf("%v", m)
			}
			if m := c.call("run_code", `{"cod":"return 1"}`); code(m) != "VALIDATION_ERROR" {
				t.Errorf("%v", m)
			}
		})
	}
	if n := len(s.of("search_tools")); n != 0 {
		t.Errorf("%d searches are recorded as calls", n)
	}
}

func TestCodeAtAReadGateCallsOnlyReaders(t *testing.T) {
	var s shop
	y := s.start(t, codeGates)
	const source = `const seen = [];
for (const name of ["ship", "call_write_tool", "delete"]) try { await tools[name]({ id: 1, total: 1, name: "ship", arguments: {} }); } catch (e) { seen.push(e.code); }
try { await tools.call_tool({ name: "ship", arguments: { id: 1, total: 1 } }); } catch (e) { seen.push(e.code); }
return [seen, (await tools.list_orders()).orders.length];`
	if got, _ := runCode(t, y, "read", toolyard.Caller{}, source, ""); got != `[["METHOD_NOT_FOUND","METHOD_NOT_FOUND","METHOD_NOT_FOUND","METHOD_NOT_FOUND"],3]` {
		t.Error(got)
	}
	if n := s.shipped.Load(); n != 0 {
		t.Errorf("shipped %d times", n)
	}
	if runs := s.of("run_code"); len(runs) != 1 || !runs[0].Tool.IsReadOnly() {
		t.Error("the run is not recorded as a read")
	}
}

// Attack 11: rules apply to each call, regardless of how the code writes it.
func TestRulesJudgeEveryCallOfCode(t *testing.T) {
	var s shop
	y := s.start(t, codeGates+"rules: [{name: no-delete, tools: [delete], then: deny}]\n")
	for _, source := range []string{
		`await tools.delete();`,
		`const f = tools["del" + "ete"]; await f();`,
		`await tools.call("delete", {});`,
		`await tools.call_write_tool({ name: "delete", arguments: {} });`,
		`await new Proxy(tools, {})["de" + "lete"]();`,
		`JSON.stringify = () => "{}"; await Reflect.get(tools, "delete")();`,
	} {
		if got, res := runCode(t, y, "code", ann, source, ""); !res.IsError || !strings.HasPrefix(got, "ToolError AUTHORIZATION_ERROR: Denied by rule no-delete.") {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// Attack 10: code cannot run more code, not even through its gate.
func TestCodeCannotRunCodeThroughItsGate(t *testing.T) {
	var s shop
	y := s.start(t, codeGates)
	for _, source := range []string{`await tools.run_code({ code: "return 1" });`, `await tools.call("run_code", { code: "return 1" });`} {
		if got, res := runCode(t, y, "code", ann, source, ""); !res.IsError || !strings.Contains(got, "Code cannot run other code. Call the tools directly.") {
			t.Errorf("%s: %s", source, got)
		}
	}
}

// Attack 15: when the same run is sent many times at once, it writes once.
func TestTheSameRunAtOnceWritesOnce(t *testing.T) {
	var s shop
	y := s.start(t, "store: memory\n"+codeGates)
	const source = `const { orders } = await tools.list_orders();
const done = [];
for (const { id, total } of orders) {
  for (;;) {
    try { done.push(await tools.ship({ id, total })); break; } catch (e) { if (e.code !== "IN_PROGRESS") throw e; await new Promise((r) => setTimeout(r, 20)); }
  }
}
return done;`
	first, res := runCode(t, y, "code", ann, source, "")
	if res.IsError || s.shipped.Load() != 3 {
		t.Fatal(first)
	}
	var meta struct{ ID string }
	if err := json.Unmarshal(res.Meta["dev.toolyard/run"], &meta); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, _ := runCode(t, y, "code", ann, source, meta.ID); got != first {
				t.Errorf("%s, want %s", got, first)
			}
		})
	}
	wg.Wait()
	if n := s.shipped.Load(); n != 3 {
		t.Errorf("shipped %d times", n)
	}
	// Another caller has separate keys, and an unauthenticated caller has none.
	if got, _ := runCode(t, y, "code", toolyard.Caller{ID: "bob", Account: "acme"}, source, meta.ID); got == first || s.shipped.Load() != 6 {
		t.Errorf("another caller: %s", got)
	}
	if got, _ := runCode(t, y, "code", toolyard.Caller{}, source, meta.ID); !strings.Contains(got, "Omit run to start again") {
		t.Errorf("an unauthenticated caller: %s", got)
	}
	keys := make(map[string]bool)
	for _, c := range s.of("ship") {
		keys[c.IdempotencyKey] = true
	}
	if len(keys) != 3 || !keys[meta.ID+"/2"] || slices.ContainsFunc(s.of("list_orders"), func(c *toolyard.Call) bool { return c.IdempotencyKey != "" }) {
		t.Errorf("keys %v", keys)
	}
}

const labelled = codeGates + `terms: {inbox: {labels: [private]}, web: {labels: [untrusted]}, send: {labels: [egress]}}` + "\n"

// Attack 31: after code has read private data and untrusted text, in either order, it cannot send
// data out.
func TestTaintedCodeCannotSendDataOut(t *testing.T) {
	var s shop
	y := s.start(t, labelled)
	for source, allowed := range map[string]bool{
		`await tools.send();`:                                                                              true,
		`await tools.inbox(); await tools.send();`:                                                         true,
		`await tools.web(); await tools.send();`:                                                           true,
		`await tools.inbox(); await tools.web(); await tools.send();`:                                      false,
		`await tools.web(); await tools.inbox(); await tools.send();`:                                      false,
		`await Promise.all([tools.web(), tools.inbox()]); await tools.call_write_tool({ name: "send" });`:  false,
		`await tools.web(); await tools.inbox(); try { await tools.send(); } catch {} await tools.send();`: false,
	} {
		before := len(s.of("send"))
		got, res := runCode(t, y, "code", ann, source, "")
		if res.IsError == allowed || !allowed && !strings.Contains(got, "ToolError APPROVAL_REQUIRED") {
			t.Errorf("%s: %s", source, got)
		}
		for _, c := range s.of("send")[before:] {
			if c.Ran() != allowed {
				t.Errorf("%s: send ran: %v", source, c.Ran())
			}
		}
	}
}

func TestTrifectaIsAProblemUnlessAccepted(t *testing.T) {
	find := func(config string) string {
		var s shop
		for _, p := range s.start(t, config).Problems() {
			if strings.Contains(p.Message, "private data") {
				return p.Subject + ": " + p.Message
			}
		}
		return ""
	}
	if got := find(labelled); !strings.HasPrefix(got, "gate code: its code can read private data (inbox of Go) and untrusted text (web of Go), and send data out (send of Go)") {
		t.Errorf("%q", got)
	}
	accepted := strings.Replace(labelled, "offer: code}, read", "offer: code, accept: trifecta}, read", 1)
	if got := find(accepted); got != "" {
		t.Errorf("accepted: %q", got)
	}
}
