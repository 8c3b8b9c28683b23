package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/script"
)

// toolFunc implements a fakeGate's tool.
type toolFunc func(args map[string]any) (*toolyard.Result, error)

// fakeGate has tools, and stores results by idempotency key, as a yard with a store does.
type fakeGate struct {
	tools map[string]toolFunc
	wait  func() // called during each call; may be nil

	running, most atomic.Int32

	mu     sync.Mutex
	made   []string // calls that ran, with their arguments
	stored map[string]storedCall
}

type storedCall struct {
	request string
	result  *toolyard.Result
	err     error
}

func (g *fakeGate) call(ctx context.Context, run *toolyard.Call, name string, args json.RawMessage, key string) (*toolyard.Call, *toolyard.Result, error) {
	n := g.running.Add(1)
	defer g.running.Add(-1)
	for {
		most := g.most.Load()
		if n <= most || g.most.CompareAndSwap(most, n) {
			break
		}
	}
	if g.wait != nil {
		g.wait()
	}
	c := &toolyard.Call{ID: ident.NewCallID(time.Now()), Caller: run.Caller}
	c.Parent = run.ID
	f, ok := g.tools[name]
	if !ok {
		return nil, nil, toolyard.Errorf(toolyard.UnknownTool, "Unknown tool %q.", name)
	}
	var values map[string]any
	if err := json.Unmarshal(args, &values); err != nil {
		return c, nil, toolyard.Errorf(toolyard.Invalid, "not an object")
	}
	request := name + string(args)
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, ok := g.stored[key]; ok && key != "" {
		if s.request != request {
			return c, nil, toolyard.Errorf(toolyard.IdempotencyConflict, "The idempotency key was used for another call.")
		}
		return c, s.result, s.err
	}
	res, err := f(values)
	if code := toolyard.Code(""); err != nil {
		if code = toolyard.AsError(err).Code; code == "APPROVAL_REQUIRED" {
			return c, res, err // the call did not run
		}
	}
	g.made = append(g.made, request)
	if key != "" {
		g.stored[key] = storedCall{request, res, err}
	}
	c.Receipt = &toolyard.Receipt{Price: 1000}
	return c, res, err
}

func newGate(tools map[string]toolFunc) *fakeGate {
	return &fakeGate{tools: tools, stored: make(map[string]storedCall)}
}

func text(s string) (*toolyard.Result, error) {
	return &toolyard.Result{Content: []toolyard.Content{toolyard.Text(s)}}, nil
}

// newCode starts an engine for a gate.
func newCode(t testing.TB, g *fakeGate, change ...func(*script.CodeOptions)) *script.Code {
	t.Helper()
	opts := script.CodeOptions{Call: g.call, Durable: true, CacheDir: filepath.Join(os.TempDir(), "toolyard-test-cache")}
	for _, f := range change {
		f(&opts)
	}
	code, err := script.NewCode(opts)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(code.Close)
	return code
}

// runOf describes a code run at a gate.
type runOf struct {
	code *script.Code
	mode toolyard.Mode
	run  string
}

func (r runOf) do(t testing.TB, source string) (*toolyard.Result, error) {
	t.Helper()
	tool, err := r.code.Tool(r.mode)
	if err != nil {
		t.Fatal(err)
	}
	args, err := json.Marshal(map[string]string{"code": source, "run": r.run})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &toolyard.Call{ID: ident.NewCallID(now), Tool: tool, Args: args, Caller: toolyard.Caller{ID: "ann", Account: "acme"}, Mode: r.mode, AsOf: now, Start: now}
	return tool.Run(t.Context(), c)
}

// value runs code and returns its value as text.
func (r runOf) value(t testing.TB, source string) string {
	t.Helper()
	res, err := r.do(t, source)
	if err != nil {
		t.Fatal(err)
	}
	if res.IsError {
		t.Fatalf("%s", textsOf(res))
	}
	return string(res.Content[0].(toolyard.Text))
}

func textsOf(res *toolyard.Result) string {
	var texts []string
	for _, c := range res.Content {
		texts = append(texts, string(c.(toolyard.Text)))
	}
	return strings.Join(texts, "\n")
}

// idOf returns a run's ID.
func idOf(t testing.TB, res *toolyard.Result) string {
	t.Helper()
	var meta struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(res.Meta["dev.toolyard/run"], &meta); err != nil || meta.ID == "" {
		t.Fatalf("%s: %v", res.Meta["dev.toolyard/run"], err)
	}
	return meta.ID
}

var sampleTools = map[string]toolFunc{
	"add": func(args map[string]any) (*toolyard.Result, error) {
		a, _ := args["a"].(float64)
		b, _ := args["b"].(float64)
		return &toolyard.Result{Structured: fmt.Appendf(nil, `{"sum":%v}`, a+b)}, nil
	},
	"json":    func(map[string]any) (*toolyard.Result, error) { return text(` {"a": [1, 2]} `) },
	"number":  func(map[string]any) (*toolyard.Result, error) { return text("20.5") },
	"long-id": func(map[string]any) (*toolyard.Result, error) { return text("12345678901234567890") },
	"words":   func(map[string]any) (*toolyard.Result, error) { return text("hello, world") },
	"nothing": func(map[string]any) (*toolyard.Result, error) { return &toolyard.Result{}, nil },
	"picture": func(map[string]any) (*toolyard.Result, error) {
		return &toolyard.Result{Content: []toolyard.Content{toolyard.Text("a"), toolyard.Image{Data: []byte("x"), MIMEType: "image/png"}}}, nil
	},
	"fails": func(map[string]any) (*toolyard.Result, error) { return toolyard.Failure("no such order"), nil },
	"limits": func(map[string]any) (*toolyard.Result, error) {
		return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many calls.", RetryAfter: 1500 * time.Millisecond}
	},
	"invalid": func(map[string]any) (*toolyard.Result, error) {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "Invalid arguments", Issues: []toolyard.Issue{{Path: "a", Message: "is required"}}}
	},
	"search_tools": func(args map[string]any) (*toolyard.Result, error) {
		return text(fmt.Sprint("found ", args["query"], args["limit"]))
	},
	"describe_tools": func(args map[string]any) (*toolyard.Result, error) {
		return text(fmt.Sprint("described ", args["names"]))
	},
	"search": func(map[string]any) (*toolyard.Result, error) { return text("the tool") },
}

func TestCodeValuesOfCalls(t *testing.T) {
	r := runOf{code: newCode(t, newGate(sampleTools)), mode: toolyard.Read}
	for source, want := range map[string]string{
		`return await tools.add({ a: 1, b: 2 });`:             `{"sum":3}`,
		`return (await tools.json()).a[1];`:                   `2`,
		`return (await tools.number()) * 2;`:                  `41`,
		`return await tools["long-id"]();`:                    `12345678901234567890`,
		`return await tools.words({});`:                       `hello, world`,
		`return await tools.nothing();`:                       `null`,
		`return (await tools.picture()).content[1].mimeType;`: `image/png`,
		`return;`: `The code returned no value.`,
		`return { at: new Date(0), big: [1n].length };`:                                                              `{"at":"1970-01-01T00:00:00.000Z","big":1}`,
		`return await tools.search("orders", { limit: 3 });`:                                                         `found orders3`,
		`return await tools.describe("a", "b");`:                                                                     `described [a b]`,
		`return await tools.call("search", {});`:                                                                     `the tool`,
		`type T = { a: number }; enum E { A = 7 } const t = { a: E.A } as T; return t.a satisfies number;`:           `7`,
		`return [typeof tools.then, tools instanceof Object, (await import("node:process")).env.HOME];`:              `["undefined",false,null]`,
		`const all = await Promise.all([1, 2, 3].map((a) => tools.add({ a, b: 1 }))); return all.map((x) => x.sum);`: `[2,3,4]`,
	} {
		t.Run(source, func(t *testing.T) {
			if got := r.value(t, source); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func TestCodeCatchesToolErrors(t *testing.T) {
	r := runOf{code: newCode(t, newGate(sampleTools)), mode: toolyard.Read}
	const source = `const seen = [];
for (const name of ["fails", "limits", "invalid", "unknown"]) {
  try { await tools[name](); } catch (e) {
    const { code, message, retryable, retryAfterMs, issues } = e;
    seen.push([e instanceof ToolError, e.name, code, message, retryable, retryAfterMs, issues]);
  }
}
return seen;`
	want := `[[true,"ToolError","TOOL_EXECUTION_ERROR","no such order",false,null,null],` +
		`[true,"ToolError","RATE_LIMITED","Too many calls.",true,1500,null],` +
		`[true,"ToolError","VALIDATION_ERROR","Invalid arguments",false,null,[{"path":"a","message":"is required"}]],` +
		`[true,"ToolError","METHOD_NOT_FOUND","Unknown tool \"unknown\".",false,null,null]]`
	if diff := cmp.Diff(want, r.value(t, source)); diff != "" {
		t.Error(diff)
	}
}

// The error for an uncaught exception includes the line in the model's code, the calls and the
// console output.
func TestCodeFailureNamesLineCallsAndLogs(t *testing.T) {
	r := runOf{code: newCode(t, newGate(sampleTools)), mode: toolyard.Write}
	for _, test := range []struct{ name, source, want string }{
		{
			"an exception", "interface A { b: string }\nconsole.log('start', { n: 1 });\nawait tools.add({ a: 1 });\nawait tools.add({ a: 2 });\nconst x: A | undefined = undefined;\n  return x!.b.length;",
			"TypeError: cannot read property 'b' of undefined\nat line 6, column 10:\n6 |   return x!.b.length;\n  |          ^\nCalls made: add: OK (2 times)\nConsole output:\nstart { n: 1 }",
		},
		{
			"a failed call", "const a = 1;\nconsole.warn('hm');\nreturn await tools.limits();",
			"ToolError RATE_LIMITED: Too many calls.\nat line 3, column 20:\n3 | return await tools.limits();\n  |                    ^\nCalls made: limits: RATE_LIMITED\nConsole output:\nwarn: hm",
		},
		{"a thrown string", "throw 'no';", "Error: no"},
		{"a cyclic value", "const a: any = {}; a.a = a; return a;", "TypeError: the result has no JSON form: circular reference"},
		{"a promise that never settles", "await new Promise(() => {});", "The code was stopped: it is waiting for a promise that never settles."},
		{"fetch", "await fetch('https://example.com');", "NotCapable: fetch is not available here: call a tool instead\nat line 1, column 7:\n1 | await fetch('https://example.com');\n  |       ^"},
		{"keys of tools", "return Object.keys(tools);", "TypeError: tools cannot be listed: use await tools.search(\"what you need\")\nat line 1, column 20:\n1 | return Object.keys(tools);\n  |                    ^"},
	} {
		t.Run(test.name, func(t *testing.T) {
			res, err := r.do(t, test.source)
			if err != nil || !res.IsError {
				t.Fatal(res, err)
			}
			if diff := cmp.Diff(test.want, textsOf(res)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCodeSyntaxErrorsNameTheLine(t *testing.T) {
	g := newGate(sampleTools)
	r := runOf{code: newCode(t, g), mode: toolyard.Write}
	for source, want := range map[string]string{
		"await tools.add({});\nconst = 1;":          "(line 2, column 7)\n2 | const = 1;\n  |       ^",
		"import fs from 'fs';":                      "it cannot import or export anything",
		"export default 1;":                         "it cannot import or export anything",
		"if (true) {":                               "(line 1, column",
		"return 1; }); evil(); (async () => { \n +": "(line",
	} {
		_, err := r.do(t, source)
		if e := toolyard.AsError(err); err == nil || e.Code != toolyard.Invalid || !strings.Contains(e.Message, want) {
			t.Errorf("%q: %v", source, err)
		}
	}
	if len(g.made) > 0 {
		t.Errorf("code with syntax errors made calls: %v", g.made)
	}
}

// Attack 13: if code closes the enclosing function early, it runs in the same VM with no tools, or
// not at all.
func TestCodeThatClosesItsFunctionGetsNoTools(t *testing.T) {
	g := newGate(sampleTools)
	r := runOf{code: newCode(t, g), mode: toolyard.Write}
	for _, source := range []string{
		"}); tools.add({}); (async function() {",
		"}); (async function(t) { await t.add({}); })({ add() {} }); ({",
		"}; evil(); ({",
		"return import('./secret.ts')",
		"const { readFileSync } = await import('node:fs'); return readFileSync('/etc/passwd', 'utf8')",
		"return globalThis.__host ?? globalThis.__runtime ?? require('fs')",
		"return this.constructor.constructor('return process')().mainModule.require('fs')",
	} {
		res, err := r.do(t, source)
		if err == nil && !res.IsError {
			t.Errorf("%s: %s", source, textsOf(res))
		}
	}
	if len(g.made) > 0 {
		t.Errorf("calls were made: %v", g.made)
	}
}

// Attack 10: endless loops, memory bombs and floods of promises are stopped, and the next run
// works.
func TestCodeStopsAtItsLimits(t *testing.T) {
	g := newGate(sampleTools)
	r := runOf{code: newCode(t, g, func(o *script.CodeOptions) { o.CPU = 250 * time.Millisecond; o.Memory = 16 << 20 }), mode: toolyard.Read}
	for name, source := range map[string]string{
		"an endless loop":            "await tools.add({}); for (;;) {}",
		"an endless chain":           "const again = () => Promise.resolve().then(again); await again();",
		"a memory bomb":              "const a = []; for (;;) a.push(new Array(1000).fill(1));",
		"a million promises":         "await Promise.all(Array.from({ length: 1e6 }, () => tools.add({})));",
		"a getter that never ends":   "return { get a() { for (;;) {} } };",
		"a string of 1 GiB":          "return 'x'.repeat(2 ** 30);",
		"a cyclic value":             "const a = {}; a.a = a; return a;",
		"deep recursion":             "const f = () => f() + 1; return f();",
		"a regular expression":       "return /^(a+)+$/.test('a'.repeat(40) + 'b');",
		"a toJSON that never ends":   "return { toJSON() { for (;;) {} } };",
		"a thenable that never ends": "return { then() { for (;;) {} } };",
	} {
		t.Run(name, func(t *testing.T) {
			if res, err := r.do(t, source); err == nil && !res.IsError {
				t.Errorf("it returned %.100s", textsOf(res))
			}
			if got := r.value(t, "return 1 + 1"); got != "2" {
				t.Errorf("the next run: %s", got)
			}
		})
	}
}

// Attack 10: the 101st call is refused and does not reach the gate.
func TestCodeCallLimit(t *testing.T) {
	g := newGate(sampleTools)
	r := runOf{code: newCode(t, g), mode: toolyard.Read}
	got := r.value(t, `let made = 0;
try { for (;;) { await tools.add({ a: made }); made++; } } catch (e) { return [made, e.code]; }`)
	if got != `[100,"CALL_LIMIT"]` || len(g.made) != 100 {
		t.Errorf("%s, and %d calls at the gate", got, len(g.made))
	}
	got = r.value(t, `const all = await Promise.allSettled(Array.from({ length: 300 }, (_, a) => tools.add({ a })));
return [all.filter((x) => x.status === "fulfilled").length, all[299].reason.code];`)
	if got != `[100,"CALL_LIMIT"]` || len(g.made) != 200 {
		t.Errorf("at once: %s, and %d calls at the gate", got, len(g.made))
	}
}

// Attack 10: calls beyond 16 concurrent ones wait and are not refused.
func TestCodeRunsSixteenCallsAtOnce(t *testing.T) {
	g := newGate(sampleTools)
	var arrived sync.WaitGroup
	arrived.Add(16)
	var once atomic.Int32
	g.wait = func() {
		if once.Add(1) <= 16 { // the first 16 wait for each other
			arrived.Done()
			arrived.Wait()
		}
	}
	r := runOf{code: newCode(t, g), mode: toolyard.Read}
	got := r.value(t, `return (await Promise.all(Array.from({ length: 50 }, (_, a) => tools.add({ a, b: 0 })))).length;`)
	if most := g.most.Load(); got != "50" || most != 16 {
		t.Errorf("%s calls, at most %d at once", got, most)
	}
}

// Attack 10: code cannot start more code through a tool, at any depth.
func TestCodeCannotStartCode(t *testing.T) {
	g := newGate(nil)
	code := newCode(t, g, func(o *script.CodeOptions) {
		gate := o.Call
		o.Call = func(ctx context.Context, run *toolyard.Call, name string, args json.RawMessage, key string) (*toolyard.Call, *toolyard.Result, error) {
			if name != "indirect" {
				return gate(ctx, run, name, args, key)
			}
			inner := *run // a tool that passes on its context
			inner.Args, inner.Depth = json.RawMessage(`{"code":"return 1"}`), run.Depth+2
			res, err := run.Tool.Run(ctx, &inner)
			return &inner, res, err
		}
	})
	r := runOf{code: code, mode: toolyard.Write}
	if got := r.value(t, `try { return await tools.indirect(); } catch (e) { return e.code; }`); got != string(toolyard.PermissionDenied) {
		t.Error(got)
	}
}

// Attack 11: aliases, proxies and patched globals affect neither the calls that reach the gate nor
// those of the next run.
func TestCodeCannotHideCalls(t *testing.T) {
	g := newGate(sampleTools)
	r := runOf{code: newCode(t, g), mode: toolyard.Write}
	for _, source := range []string{
		`const f = tools["a" + "dd"]; await f({ a: 1 });`,
		`await new Proxy(tools, { get: (t, k) => t[k === "x" ? "add" : k] }).x({ a: 1 });`,
		`Promise.prototype.then = function () { return this; }; await tools.add({ a: 1 });`,
		`JSON.stringify = () => '{"n":1,"name":"words","args":{}}'; await tools.add({ a: 1 });`,
		`JSON.parse = () => ({ name: "words" }); globalThis.Promise = class {}; await tools.add({ a: 1 });`,
		`Object.prototype.error = undefined; Array.prototype.push = () => {}; await tools.add({ a: 1 });`,
		`Reflect.apply = () => {}; globalThis.eval = null; Function.prototype.call = null; await tools.add({ a: 1 });`,
		`const { add } = { add: Reflect.get(tools, "add") }; await add.call(null, { a: 1 });`,
	} {
		g.made = nil
		if _, err := r.do(t, source); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{`add{"a":1}`}, g.made); diff != "" {
			t.Errorf("%s: %s", source, diff)
		}
		if got := r.value(t, `return (await tools.add({ a: 2, b: 2 })).sum;`); got != "4" {
			t.Errorf("after %s: %s", source, got)
		}
	}
	g.made = nil
	for _, source := range []string{`tools.add = () => 1;`, `delete tools.add;`, `Object.defineProperty(tools, "add", { value: 1 });`, `Object.setPrototypeOf(tools, {});`} {
		if res, err := r.do(t, source); err != nil || !res.IsError {
			t.Errorf("%s: %v %v", source, res, err)
		}
	}
	// A forged number can neither duplicate a call nor use another call's key.
	_, err := r.do(t, `Object.prototype.toJSON = function () { return this.name ? { n: 1, name: "add", args: { a: 7 } } : this; };
await Promise.allSettled([tools.add({}), tools.add({}), tools.add({})]);`)
	if err != nil || len(g.made) != 1 {
		t.Errorf("%v, %v", g.made, err)
	}
}

// Attack 16: values and console output that are too large are shortened.
func TestCodeShortensValuesAndLogs(t *testing.T) {
	r := runOf{code: newCode(t, newGate(nil)), mode: toolyard.Read}
	res, err := r.do(t, `for (let i = 0; i < 5000; i++) console.log("line " + i); return "é".repeat(50000) + "END";`)
	if err != nil || res.IsError {
		t.Fatal(res, err)
	}
	value, logs := string(res.Content[0].(toolyard.Text)), string(res.Content[1].(toolyard.Text))
	if len(value) > 25<<10 || !strings.HasSuffix(value, "END") || !strings.HasPrefix(value, "éé") || !strings.Contains(value, "of 100003 bytes omitted") || strings.Contains(value, "\ufffd") {
		t.Errorf("value of %d bytes: %.40s", len(value), value)
	}
	if len(logs) > 9<<10 || !strings.Contains(logs, "line 1\n") || !strings.Contains(logs, "more lines omitted]") {
		t.Errorf("logs of %d bytes", len(logs))
	}
}

func TestCodeSumsWhatItsCallsCost(t *testing.T) {
	r := runOf{code: newCode(t, newGate(sampleTools)), mode: toolyard.Read}
	res, err := r.do(t, `await tools.add({}); await tools.add({}); throw new Error("late");`)
	if err != nil {
		t.Fatal(err)
	}
	var meta struct {
		Calls   int            `json:"calls"`
		Charged toolyard.Money `json:"chargedUsd"`
	}
	if err := json.Unmarshal(res.Meta["dev.toolyard/run"], &meta); err != nil || meta.Calls != 2 || meta.Charged != 2000 {
		t.Errorf("%+v %v", meta, err)
	}
}

func TestCodeThatForgetsAwaitIsTold(t *testing.T) {
	started := make(chan struct{})
	code := newCode(t, newGate(nil), func(o *script.CodeOptions) {
		o.Call = func(ctx context.Context, run *toolyard.Call, name string, _ json.RawMessage, _ string) (*toolyard.Call, *toolyard.Result, error) {
			if name == "slow" {
				close(started)
				<-ctx.Done() // blocks until the code has ended
				return run, nil, ctx.Err()
			}
			<-started
			res, err := text("y")
			return run, res, err
		}
	})
	res, err := runOf{code: code, mode: toolyard.Read}.do(t, `tools.slow(); await tools.quick(); return "done";`)
	if err != nil || !strings.Contains(textsOf(res), "1 call had not finished when the code ended and may have been canceled: use await.") {
		t.Error(textsOf(res), err)
	}
}

// orders is a gate whose tool ship needs approval for orders above 100.
func orders() (g *fakeGate, approve func()) {
	approved := false
	g = newGate(map[string]toolFunc{
		"list": func(map[string]any) (*toolyard.Result, error) {
			return &toolyard.Result{Structured: json.RawMessage(`{"orders":[{"id":1,"total":50},{"id":2,"total":500},{"id":3,"total":70}]}`)}, nil
		},
	})
	g.tools["ship"] = func(args map[string]any) (*toolyard.Result, error) {
		if total, _ := args["total"].(float64); total > 100 && !approved {
			return nil, &toolyard.Error{Code: toolyard.ApprovalRequired, Message: "Rule big-orders requires approval.", Approval: "06ea"}
		}
		return text("shipped")
	}
	return g, func() { g.mu.Lock(); approved = true; g.mu.Unlock() }
}

// Attack 12: code can catch APPROVAL_REQUIRED and continue, but the call does not run. After
// approval, the run is continued, and only that call runs.
func TestCodeContinuesAfterApproval(t *testing.T) {
	g, approve := orders()
	r := runOf{code: newCode(t, g), mode: toolyard.Write}
	const source = `const { orders } = await tools.list();
const shipped = [];
for (const { id, total } of orders) {
  try { shipped.push([id, await tools.ship({ id, total, at: Date.now(), ref: Math.random() })]); } catch (e) { shipped.push([id, e.code]); }
}
return shipped;`
	res, err := r.do(t, source)
	if err != nil || !strings.HasPrefix(textsOf(res), `[[1,"shipped"],[2,"APPROVAL_REQUIRED"],[3,"shipped"]]`) {
		t.Fatal(textsOf(res), err)
	}
	id := idOf(t, res)
	if !strings.Contains(textsOf(res), `Waiting for approval: ship (approval 06ea). Once approved, call run_code again with the same code and run: "`+id+`"`) {
		t.Error(textsOf(res))
	}
	count := func() (n int) {
		for _, made := range g.made {
			if strings.HasPrefix(made, "ship") {
				n++
			}
		}
		return n
	}
	if count() != 2 {
		t.Fatalf("%v", g.made)
	}
	again := runOf{code: r.code, mode: r.mode, run: id}
	if got := again.value(t, source); !strings.Contains(got, `[2,"APPROVAL_REQUIRED"]`) || count() != 2 {
		t.Errorf("before the approval: %s, %v", got, g.made)
	}
	approve()
	if got := again.value(t, source); got != `[[1,"shipped"],[2,"shipped"],[3,"shipped"]]` || count() != 3 {
		t.Errorf("after the approval: %s, %v", got, g.made)
	}
	if got := again.value(t, source); got != `[[1,"shipped"],[2,"shipped"],[3,"shipped"]]` || count() != 3 {
		t.Errorf("once more: %s, %v", got, g.made)
	}
}

func TestCodeThatDivergesIsAConflict(t *testing.T) {
	g := newGate(map[string]toolFunc{"put": func(map[string]any) (*toolyard.Result, error) { return text("ok") }})
	n := 0
	g.tools["next"] = func(map[string]any) (*toolyard.Result, error) { n++; return text(fmt.Sprint(n)) }
	r := runOf{code: newCode(t, g), mode: toolyard.Write}
	g.tools["next_reader"] = g.tools["next"]
	const source = `const outside = await tools.next_reader(); return await tools.put({ outside });`
	res, err := r.do(t, source)
	if err != nil || res.IsError {
		t.Fatal(res, err)
	}
	delete(g.stored, idOf(t, res)+"/1") // reads are not stored
	res, err = runOf{r.code, r.mode, idOf(t, res)}.do(t, source)
	if err != nil || !res.IsError || !strings.HasPrefix(textsOf(res), "ToolError IDEMPOTENCY_CONFLICT") {
		t.Error(textsOf(res), err)
	}
}

func TestCodeContinuesOnlyItsOwnRuns(t *testing.T) {
	g := newGate(sampleTools)
	code := newCode(t, g)
	res, err := runOf{code: code, mode: toolyard.Write}.do(t, "return 1")
	if err != nil {
		t.Fatal(err)
	}
	id := idOf(t, res)
	digest := id[strings.Index(id, "-"):]
	for _, test := range []struct {
		name, run, source string
		code              toolyard.Code
	}{
		{"other code", id, "return 2", toolyard.Invalid},
		{"not a run", "x", "return 1", toolyard.NotFound},
		{"the future", ident.NewCallID(time.Now().Add(time.Hour)) + digest, "return 1", toolyard.NotFound},
		{"two days ago", ident.NewCallID(time.Now().Add(-48*time.Hour)) + digest, "return 1", toolyard.NotFound},
	} {
		_, err := runOf{code, toolyard.Write, test.run}.do(t, test.source)
		if e, ok := errors.AsType[*toolyard.Error](err); !ok || e.Code != test.code {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	without := newCode(t, g, func(o *script.CodeOptions) { o.Durable = false })
	if _, err := (runOf{without, toolyard.Write, id}).do(t, "return 1"); err == nil || !strings.Contains(err.Error(), "Omit run to start again; calls that already ran will be repeated.") {
		t.Errorf("without a store: %v", err)
	}
}

// A run's calls have the same numbers in every run, even if the calls end in a different order,
// because results are delivered in the order of the calls.
func TestCodeRepeatsItsCallsInAnyOrderOfResults(t *testing.T) {
	g := newGate(map[string]toolFunc{
		"get": func(args map[string]any) (*toolyard.Result, error) { return text(fmt.Sprint("v", args["id"])) },
		"put": func(map[string]any) (*toolyard.Result, error) { return text("ok") },
	})
	code := newCode(t, g)
	const source = `const done = await Promise.all([1, 2, 3, 4, 5, 6].map(async (id) => {
  const value = await tools.get({ id });
  for (let i = 0; i < id % 3; i++) await null;
  return await tools.put({ id, value, ref: crypto.randomUUID() });
}));
return done.length;`
	rapid.Check(t, func(rt *rapid.T) {
		delays := rapid.SliceOfN(rapid.IntRange(0, 3), 24, 24).Draw(rt, "delays")
		var n atomic.Int32
		g.wait = func() { time.Sleep(time.Duration(delays[int(n.Add(1))%len(delays)]) * time.Millisecond) }
		g.made, g.stored = nil, make(map[string]storedCall)
		res, err := runOf{code: code, mode: toolyard.Write}.do(t, source)
		if err != nil || res.IsError {
			rt.Fatal(err, textsOf(res))
		}
		first := len(g.made)
		res, err = runOf{code, toolyard.Write, idOf(t, res)}.do(t, source)
		if err != nil || res.IsError || len(g.made) != first {
			rt.Fatalf("%v %s: %v", err, textsOf(res), g.made)
		}
	})
}

func BenchmarkCodeSnippet(b *testing.B) {
	r := runOf{code: newCode(b, newGate(sampleTools)), mode: toolyard.Write}
	r.value(b, "return 1")
	for b.Loop() {
		r.value(b, "const a: number = 1; return a + 1;")
	}
}

func BenchmarkCodeTenCalls(b *testing.B) {
	r := runOf{code: newCode(b, newGate(sampleTools)), mode: toolyard.Write}
	const source = `let sum = 0; for (let i = 0; i < 10; i++) sum = (await tools.add({ a: sum, b: i })).sum; return sum;`
	r.value(b, source)
	for b.Loop() {
		r.value(b, source)
	}
}
