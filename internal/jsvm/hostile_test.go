//go:build linux

package jsvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hostile lists programs that try to hang, exhaust memory, crash or escape. Each is the body of a
// function. Programs that end on their own specify the result.
var hostile = []struct{ name, body, want string }{
	{"endless loop", `for (;;) {}`, "stopped"},
	{"endless loop that catches", `for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }`, "stopped"},
	{"endless comparator", `[3, 2, 1].sort(() => { for (;;) {} })`, "stopped"},
	{"endless microtasks", `const f = () => Promise.resolve().then(f); await f(); for (;;) await null`, "stopped"},
	{"endless getter", `JSON.stringify({ get a() { for (;;) {} } })`, "stopped"},
	{"native search", `Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)`, "stopped"},
	{"native includes", `Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)`, "stopped"},
	{"native join", `Array.prototype.join.call({ length: 2 ** 32 - 1 }, "")`, "any"},
	{"regular expression", `/^(a+)+$/.test("a".repeat(40) + "b")`, "any"},
	{"big shift", `1n << 2n ** 34n`, "any"},
	{"big power", `let n = 7n; for (;;) n **= 7n`, "any"},
	{"big text", `"x".repeat(2 ** 30 - 1)`, "any"},
	{"doubled text", `let s = "x"; for (;;) s += s`, "any"},
	{"array bomb", `const a = []; for (;;) a.push(new Array(1000).fill(a.length))`, "any"},
	{"object bomb", `let o = {}; for (let i = 0; ; i++) o["k" + i] = { o }`, "any"},
	{"buffer bomb", `const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))`, "any"},
	{"closures", `let f = () => 0; for (;;) { const g = f; f = () => g() + 1 }`, "any"},
	{"map bomb", `const m = new Map(); for (let i = 0; ; i++) m.set({}, i)`, "any"},
	{"memory, caught", `const a = []; for (;;) try { for (;;) a.push("x".repeat(1 << 16) + a.length) } catch {}`, "stopped"},
	{"recursion", `const f = () => f() + 1; return f()`, "any"},
	{"toString recursion", `const o = { toString() { return "" + this } }; return "" + o`, "any"},
	{"recursion that catches", `const f = () => { try { f() } catch { f() } }; f()`, "any"},
	{"deep JSON", `return JSON.parse("[".repeat(2e6))`, "any"},
	{"deep value", `let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return a`, "any"},
	{"circular value", `const a = []; a.push(a); return a`, "any"},
	{"replace bomb", `"a".repeat(1e6).replace(/a/g, "b".repeat(1e4))`, "any"},
	{"large result", `return "x".repeat(40 << 20)`, "any"},
	{"promise that never settles", `await new Promise(() => {})`, "stopped"},
	{"timer for ever", `setInterval(() => {}, 1); await new Promise(() => {})`, "stopped"},
	{"many timers", `for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e9)`, "any"},
	{"log flood", `for (let i = 0; i < 1e5; i++) console.log("x".repeat(1e4))`, "any"},
	{"eval", `return eval("globalThis.constructor.constructor('return process')()")?.env?.PATH ?? "nothing"`, "any"},
	{"function constructor", `return Function("for (;;) {}")()`, "stopped"},
	{"prototype pollution", `Object.prototype.polluted = 1; Array.prototype.push = null; JSON.stringify = null; Promise.prototype.then = null; return 1`, "any"},
	{"poisoned promise", `Promise.prototype.then = () => { for (;;) {} }; await 1; return 1`, "any"},
	{"thenable", `return { then() { for (;;) {} } }`, "stopped"},
	{"proxy", `return new Proxy({}, { get() { for (;;) {} }, ownKeys() { for (;;) {} } })`, "stopped"},
	{"getter in result", `return { get a() { throw new Error("x") } }`, "any"},
	{"toJSON", `return { toJSON() { for (;;) {} } }`, "stopped"},
	{"error with getters", `const e = new Error("x"); Object.defineProperty(e, "message", { get() { for (;;) {} } }); throw e`, "stopped"},
	{"throw nothing", `throw undefined`, "any"},
	{"throw a symbol", `throw Symbol("x")`, "any"},
	{"import escape", `return (await import(["/etc", "passwd"].join("/"))).default`, "any"},
	{"import of the host", `return Object.keys(await import(["harness", "js"].join(".")))`, "any"},
	{"host functions", `return [typeof __host, typeof __runtime, typeof __provided, typeof std, typeof os, typeof scriptArgs].join()`, "any"},
	{"weak references", `const r = new FinalizationRegistry(() => { for (;;) {} }); for (;;) r.register({}, 1)`, "any"},
	{"generator", `function* g() { for (;;) yield 1 } return [...g()].length`, "any"},
	{"async generator", `async function* g() { for (;;) yield 1 } for await (const x of g()) ;`, "stopped"},
	{"typed array", `const a = new Uint8Array(8); a.__proto__ = null; return new DataView(a.buffer, 0, 2 ** 31)`, "any"},
	{"resizable buffer", `const b = new ArrayBuffer(8, { maxByteLength: 2 ** 31 }); b.resize(2 ** 31); return b.byteLength`, "any"},
	{"shared buffer", `const b = new SharedArrayBuffer(1 << 20); Atomics.wait(new Int32Array(b), 0, 0); return 1`, "any"},
	{"random flood", `for (;;) crypto.getRandomValues(new Uint8Array(65536))`, "stopped"},
	{"structured clone", `let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; structuredClone(a)`, "any"},
	{"inspect", `let a = {}; for (let i = 0; i < 1e5; i++) a = { a }; console.log(a); return 1`, "any"},
	{"setter within a host error", `for (let i = 0; i < 1000; i++) setTimeout(() => {}, 1e9);
		Object.defineProperty(Error.prototype, "message", { set() { try { setTimeout(() => {}, 1e9) } catch {} } });
		setTimeout(() => {}, 1e9)`, "any"},
	{"immediates and a post", `const p = crypto.subtle.digest("SHA-256", new Uint8Array(9)); const f = () => setImmediate(f); f(); await new Promise(() => {})`, "stopped"},
	{"date", `return new Date(8.64e15 + 1).toLocaleString("en-US", { timeZone: "../../../etc/passwd" })`, "any"},
}

func TestHostile(t *testing.T) {
	if raceEnabled {
		t.Skip("times and memory mean nothing under the race detector")
	}
	const timeout, limit = 500 * time.Millisecond, 64 << 20
	p := testPool(t, func(o *Options) { o.Workers, o.Memory = 1, limit })
	good := compileText(t, `export default () => [typeof ({}).polluted, typeof [].push, JSON.stringify({a: 1})].join()`)
	check := func(after string) int {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := p.Run(ctx, &Run{Module: good, Request: json.RawMessage("{}")})
		if err != nil || string(got) != `"undefined,function,{\"a\":1}"` {
			t.Fatalf("after %s: %s, %v", after, got, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.workers[0].process.PID()
	}
	pid := check("nothing")
	kills := 0
	for _, h := range hostile {
		m := NewModule("m.js", "export default async () => {\n"+h.body+"\n};\nexport const ok = () => typeof ({}).polluted;", nil)
		_, _ = p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{"call":"ok"}`)}) // loads the module
		before := resident(t, pid, true)
		var got json.RawMessage
		var err error
		var took time.Duration
		for range 20 { // the machine may be busy, but a program that is not stopped would be late every time
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			start := time.Now()
			got, err = p.Run(ctx, &Run{Module: m, Request: json.RawMessage("{}")})
			took = time.Since(start)
			cancel()
			if took < timeout+50*time.Millisecond {
				break
			}
		}
		grown := resident(t, pid, false) - before
		if over := took - timeout; over > 50*time.Millisecond {
			t.Errorf("%s: ended %v after its deadline", h.name, over)
		}
		var s *Stopped
		if h.want == "stopped" && !errors.As(err, &s) {
			t.Errorf("%s: %.60s, %v", h.name, got, err)
		}
		if grown > limit+16<<20 {
			t.Errorf("%s: took %d MiB", h.name, grown>>20)
		}
		if again, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{"call":"ok"}`)}); err != nil || string(again) != `"undefined"` {
			t.Errorf("%s: the next call: %s, %v", h.name, again, err)
		}
		if now := check(h.name); now != pid {
			t.Logf("%s: its worker was ended", h.name)
			pid = now
			kills++
		}
		t.Logf("%-28s %7.1f ms %4d MiB  %.60s %.80v", h.name, float64(took.Microseconds())/1000, grown>>20, got, err)
	}
	t.Logf("%d programs, %d workers ended", len(hostile), kills)
}

// resident returns the peak memory of a process since the last reset.
func resident(t *testing.T, pid int, reset bool) int {
	t.Helper()
	if reset {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0 // the process has ended
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); f[0] == "VmHWM:" {
			n, _ := strconv.Atoi(f[1])
			return n << 10
		}
	}
	return 0
}

// These modules are malicious while they load.
func TestHostileLoad(t *testing.T) {
	p := testPool(t, func(o *Options) { o.Workers = 1 })
	for name, text := range map[string]string{
		"endless":       `for (;;) {} export default 1`,
		"await":         `await new Promise(() => {}); export default 1`,
		"await timers":  `for (;;) await new Promise((r) => setTimeout(r, 1)); export default 1`,
		"throw":         `throw new Error("no"); export default 1`,
		"memory":        `const a = []; for (;;) a.push("x".repeat(1e6) + a.length); export default 1`,
		"fetch":         `await fetch("http://127.0.0.1:1/"); export default 1`,
		"read":          `import fs from "node:fs"; export default fs.readFileSync("/etc/passwd", "utf8")`,
		"proxy":         `export default new Proxy(() => {}, { get() { for (;;) {} }, apply() { for (;;) {} } })`,
		"then":          `export function then() { for (;;) {} } export default 1`,
		"cycle":         `export default globalThis; globalThis.default = globalThis`,
		"frozen":        `Object.freeze(Object.prototype); Object.freeze(Array.prototype); export default () => 1`,
		"patched":       `JSON.parse = () => { for (;;) {} }; Map.prototype.get = null; export default () => 1`,
		"harness":       `globalThis.__runtime = { install() {} }; export default () => 1`,
		"syntax of old": `with ({}) {} export default 1`,
	} {
		m := NewModule("m.js", text, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		start := time.Now()
		got, err := p.Run(ctx, &Run{Module: m, Request: json.RawMessage("{}")})
		if over := time.Since(start) - 300*time.Millisecond; over > time.Minute {
			t.Errorf("%s: ended %v after its deadline", name, over)
		}
		cancel()
		t.Logf("%-14s %.60s %.100v", name, got, err)
		good := NewModule("g.js", "export default () => 42", nil)
		if got, err := p.Run(t.Context(), &Run{Module: good, Request: json.RawMessage("{}")}); err != nil || string(got) != "42" {
			t.Fatalf("after %s: %s, %v", name, got, err)
		}
	}
}

// runPatiently runs a module, and repeats the run if another run caused the worker to be killed.
func runPatiently(t *testing.T, p *Pool, r *Run) (answer json.RawMessage, err error) {
	t.Helper()
	for range 20 {
		answer, err = p.Run(t.Context(), r)
		if stopped, ok := errors.AsType[*Stopped](err); !ok || stopped.Reason != WorkerDied {
			break
		}
	}
	return answer, err
}

// After a generated program, the next run finds the VM intact, no matter what the program did.
func TestGeneratedPrograms(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 200
	}
	p := testPool(t)
	good := NewModule("g.js", "export default (n) => [n, typeof ({}).p, [3, 1, 2].sort().join()].join()", nil)
	var ended, threw, stopped atomic.Int64
	var wg sync.WaitGroup
	next := make(chan uint64)
	for range 4 {
		wg.Go(func() {
			for seed := range next {
				r := rand.New(rand.NewPCG(seed, 1))
				m := NewModule("m.js", "export default async (x) => {\n"+program(r, 5)+"\n};", nil)
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
				_, err := p.Run(ctx, &Run{Module: m, Request: json.RawMessage(`{"args":[1,"a",{"b":null}]}`), Once: seed%4 > 0})
				cancel()
				var e *Exception
				switch {
				case err == nil:
					ended.Add(1)
				case errors.As(err, &e):
					threw.Add(1)
				default:
					stopped.Add(1)
				}
				if seed%10 == 0 {
					got, err := runPatiently(t, p, &Run{Module: good, Request: json.RawMessage(`{"args":7}`)})
					if err != nil || string(got) != `"7,undefined,1,2,3"` {
						t.Errorf("after program %d: %s, %v", seed, got, err)
					}
				}
			}
		})
	}
	for seed := range uint64(n) {
		next <- seed
	}
	close(next)
	wg.Wait()
	t.Logf("%d programs: %d ended, %d threw, %d were stopped", n, ended.Load(), threw.Load(), stopped.Load())
	if !testing.Short() && (ended.Load() == 0 || threw.Load() == 0 || stopped.Load() == 0) {
		t.Error("the programs are not varied enough")
	}
}

// program generates random statements.
func program(r *rand.Rand, depth int) string {
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(statement(r, depth) + "\n")
	}
	return b.String()
}

func statement(r *rand.Rand, depth int) string {
	if depth == 0 {
		return expression(r, 1) + ";"
	}
	e := func() string { return expression(r, depth-1) }
	switch r.IntN(12) {
	case 0:
		return "try { " + program(r, depth-1) + " } catch (x) { " + e() + " } finally { " + e() + " }"
	case 1:
		return "for (let i = 0; i < " + pick(r, "3", "1e3", "1e9", "x.length", "Infinity") + "; i++) { " + program(r, depth-1) + " }"
	case 2:
		return "if (" + e() + ") { " + program(r, depth-1) + " }"
	case 3:
		return "return " + e() + ";"
	case 4:
		return "throw " + e() + ";"
	case 5:
		return pick(r, "Object", "Array", "Promise", "Function", "RegExp", "Map", "Error", "String") + ".prototype." +
			pick(r, "then", "toString", "p", "constructor", "valueOf", "length", "get", "stack", "toJSON") + " = " + e() + ";"
	case 6:
		return "await (" + e() + ");"
	case 7:
		return "x = " + e() + ";"
	}
	return e() + ";"
}

func expression(r *rand.Rand, depth int) string {
	if depth == 0 {
		return pick(r, "x", "0", "-1", "2**53", "NaN", `"a"`, `"\ud800"`, "null", "undefined", "1n", "{}", "[]", "/(a*)*b/", "globalThis", "Symbol.iterator", "new Date(NaN)", "async () => x", "class A { #p = 1 }", "arguments")
	}
	e := func() string { return "(" + expression(r, depth-1) + ")" }
	switch r.IntN(14) {
	case 0:
		return e() + pick(r, "+", "-", "*", "**", "<<", "==", "in", " instanceof ", "??", ",", "%") + e()
	case 1:
		return e() + "?.[" + e() + "]"
	case 2:
		return e() + "?.(" + e() + ")"
	case 3:
		return pick(r, "JSON.stringify", "JSON.parse", "Object.keys", "structuredClone", "String", "Array.from", "Promise.resolve", "eval", "Function", "Number", "BigInt", "Reflect.ownKeys", "encodeURIComponent", "btoa", "setTimeout", "console.log", "new URL", "new Intl.NumberFormat", "Object.freeze", "Buffer.from", "new Proxy", "new Uint8Array") + e()
	case 4:
		return "[" + e() + ", ..." + e() + "]"
	case 5:
		return "{ a: " + e() + ", get b() { return " + e() + " }, toString() { return " + e() + " } }"
	case 6:
		return "`" + "${" + e() + "}`.repeat(" + pick(r, "2", "1e5", "-1", "2**29") + ")"
	case 7:
		return "new Array(" + pick(r, "3", "1e6", "2**32", "-1") + ").fill(" + e() + ").map(() => " + e() + ")"
	case 8:
		return "(function f() { return f(" + e() + ") })()"
	case 9:
		return "await import(" + e() + ")"
	case 10:
		return e() + ".constructor?.constructor?.(" + e() + ")"
	case 11:
		return "new Promise((r) => " + e() + ")"
	case 12:
		return `"` + strings.Repeat("ab", r.IntN(20)) + `".replace(/(a|b)*c/g, ` + e() + ")"
	}
	return e()
}

func pick(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }
