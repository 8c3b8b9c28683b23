package jsvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// runtimeTable lists expressions that use built-ins, and their results in Node.
var runtimeTable = []struct{ expression, want string }{
	{`new URL("../b?x=1#y", "https://user@EXAMPLE.com:443/a/c/d").href`, "https://user@example.com/a/b?x=1#y"},
	{`new URL("http://bücher.example/ä").href`, "http://xn--bcher-kva.example/%C3%A4"},
	{`new URL("http://0x7f.1/").hostname`, "127.0.0.1"},
	{`URL.canParse("http://")`, "false"},
	{`[...new URLSearchParams("a=1&b=%20&a=+")].join("|")`, "a,1|b, |a, "},
	{`new TextEncoder().encode("é€😀").join()`, "195,169,226,130,172,240,159,152,128"},
	{`new TextDecoder().decode(new Uint8Array([0xff, 65])).charCodeAt(0)`, "65533"},
	{`btoa("hi") + atob("aGk=")`, "aGk=hi"},
	{`Buffer.from("héllo").toString("hex")`, "68c3a96c6c6f"},
	{`Buffer.concat([Buffer.from("a"), Buffer.from([98])]).toString("base64")`, "YWI="},
	{`structuredClone({ d: new Date(0), m: new Map([[1, { a: [1n] }]]), r: /x/g }).m.get(1).a[0]`, "1"},
	{`(() => { try { structuredClone(() => 1) } catch (e) { return e.name } })()`, "DataCloneError"},
	{`crypto.randomUUID().length + "," + (crypto.randomUUID() !== crypto.randomUUID())`, "36,true"},
	{`crypto.getRandomValues(new Uint8Array(8)).length`, "8"},
	{`Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("abc"))).toString("hex").slice(0, 16)`, "ba7816bf8f01cfea"},
	{`createHash("sha1").update("abc").digest("hex")`, "a9993e364706816aba3e25717850c26c9cd0d89d"},
	{`createHmac("sha256", "key").update("The quick brown fox jumps over the lazy dog").digest("hex").slice(0, 16)`, "f7bc83f430538424"},
	{`new Date(1760000000000).toLocaleString("en-US", { timeZone: "America/New_York", dateStyle: "full", timeStyle: "long" })`, "Thursday, October 9, 2025 at 4:53:20 AM EDT"},
	{`new Intl.DateTimeFormat("en-US", { timeZone: "Asia/Kolkata", hour: "2-digit", minute: "2-digit", hour12: false }).format(new Date(1760000000000))`, "14:23"},
	{`(() => { try { new Intl.DateTimeFormat("en", { timeZone: "Mars/Phobos" }) } catch (e) { return e.name } })()`, "RangeError"},
	{`new Intl.NumberFormat("en-US", { style: "currency", currency: "EUR" }).format(1234567.891)`, "€1,234,567.89"},
	{`(1234.5).toLocaleString("en-US")`, "1,234.5"},
	{`new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-1, "day")`, "yesterday"},
	{`["b", "a", "C", "ä"].sort((x, y) => x.localeCompare(y)).join()`, "a,ä,b,C"},
	{`new Intl.PluralRules("en", { type: "ordinal" }).select(22)`, "two"},
	{`join("/a", "../b", "./c.txt") + basename("/x/y.ts", ".ts") + extname("a.tar.gz")`, "/b/c.txty.gz"},
	{`format("%s %d %j", "a", 42, { b: 1 })`, `a 42 {"b":1}`},
	{`inspect({ m: new Map([["k", [1]]]) })`, "{ m: Map(1) { 'k' => [ 1 ] } }"},
	{`[Intl.DateTimeFormat, Intl.NumberFormat, Intl.Collator, Intl.ListFormat, Intl.Segmenter, URL, Headers, AbortSignal, Buffer].map((c) => c.name).join()`, "DateTimeFormat,NumberFormat,Collator,ListFormat,Segmenter,URL,Headers,AbortSignal,Buffer"},
	{`(() => { const e = new EventEmitter(); let n = 0; e.once("x", (v) => (n += v)); e.emit("x", 2); e.emit("x", 2); return n })()`, "2"},
	{`await new Promise((r) => { const c = new AbortController(); c.signal.addEventListener("abort", () => r(c.signal.reason.name)); c.abort() })`, "AbortError"},
	{`await Promise.race([new Promise(() => {}), sleep(5, "slept")])`, "slept"},
	{`new Headers([["A", "1"], ["a", "2"]]).get("a")`, "1, 2"},
	{`(await new Response('{"a":1}').json()).a + (await new Response("x").text())`, "1x"},
	{`new Request("http://x/", { method: "post", body: "y" }).method`, "POST"},
	{`performance.now() < 1000 && performance.now() >= 0`, "true"},
	{`typeof process.env.PATH + process.platform.length + process.cwd()`, "undefined5/"},
	{`[1, 2, 3, 4].values().filter((n) => n % 2).map((n) => n * 2).toArray().join()`, "2,6"},
	{`[..."añ"].length + "x".at(-1) + Object.groupBy([1, 2, 3], (n) => (n % 2 ? "odd" : "even")).odd.length`, "2x2"},
	{`(Math.random() !== Math.random()) + "," + (Math.random() < 1)`, "true,true"},
	{`new Date().toISOString().slice(0, 19)`, "2025-10-09T08:53:20"},
	{`typeof require + typeof module + typeof document + typeof WebAssembly`, "undefinedundefinedundefinedundefined"},
}

func TestRuntime(t *testing.T) {
	p := testPool(t)
	var b strings.Builder
	b.WriteString(`import { createHash, createHmac } from "node:crypto"; import { join, basename, extname } from "node:path";
import { format, inspect } from "node:util"; import { EventEmitter } from "node:events"; import { setTimeout as sleep } from "node:timers/promises";
export default async () => {
  const out = [];
`)
	for _, row := range runtimeTable {
		fmt.Fprintf(&b, "  try { out.push(String(%s)) } catch (e) { out.push(\"threw \" + e) }\n", row.expression)
	}
	b.WriteString("  return out;\n};\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	raw, err := p.Run(ctx, &Run{Module: NewModule("m.js", b.String(), nil), Request: json.RawMessage("{}"), Now: time.UnixMilli(1_760_000_000_000)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := json.Unmarshal(raw, &got); err != nil || len(got) != len(runtimeTable) {
		t.Fatal(err, len(got))
	}
	for i, row := range runtimeTable {
		if got[i] != row.want {
			t.Errorf("%s\n  is %q, not %q", row.expression, got[i], row.want)
		}
	}
}

// Every module that the compiler accepts exists.
func TestModulesAreThere(t *testing.T) {
	p := testPool(t)
	for _, name := range Modules() {
		m := NewModule("m.js", fmt.Sprintf("import * as all from %q; import one from %q; export default () => Object.keys(all).length > 1 && one !== undefined", name, name), nil)
		if got, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage("{}"), Once: true}); err != nil || string(got) != "true" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// Errors name the value that is not callable or iterable.
func TestErrorsNameTheirSubject(t *testing.T) {
	p := testPool(t)
	m := compileText(t, `
const o: any = { a: { b: 1 }, list: [1] };
export const a = () => { o.a.nothing(1); };
export const b = () => { const x: any = 5; return 1 + x(2); };
export const c = () => o.list.mapp((z: any) => z).join(",");
export const d = () => { new o.Thing(); };
export const e = () => { o["we ird"](); };
export const f = () => {
  return o.a
    .c();
};
export const g = () => { for (const k of o.a) {} };
export const h = () => [1].map(o.nope);
export const i = () => { throw new TypeError("not a function"); };
`)
	for call, want := range map[string]string{
		"a": "TypeError: o.a.nothing is not a function", "b": "TypeError: x is not a function", "c": "TypeError: o.list.mapp is not a function",
		"d": "TypeError: o.Thing is not a constructor", "e": `TypeError: o["we ird"] is not a function`, "f": "TypeError: o.a.c is not a function",
		"g": "TypeError: o.a is not iterable", "h": "TypeError: an argument to map is not a function",
	} {
		if _, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{"call":"` + call + `"}`)}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
}

// Errors from host requests include the line of the script that made the request.
func TestRefusalsHaveALine(t *testing.T) {
	p := testPool(t)
	m := compileText(t, "\nconst get = async (url: string) => {\n  const r = await fetch(url, { method: 'POST', body: 'x' });\n  return r.status;\n};\nexport default () => get('https://example.com');\n")
	_, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{}`), Host: func(context.Context, string, json.RawMessage) (any, error) {
		return nil, &Refusal{Name: "TypeError", Message: "connection refused"}
	}})
	var e *Exception
	if !errors.As(err, &e) || e.Error() != "TypeError: fetch failed: connection refused" || e.File != "m.ts" || e.Line != 3 {
		t.Errorf("%+v", err)
	}
	top := compileText(t, "export default 1;\n\nawait fetch('https://example.com');\n")
	if _, err := p.Run(t.Context(), &Run{Module: top, Request: json.RawMessage(`{}`)}); !errors.As(err, &e) || e.Line != 3 || !strings.Contains(e.Message, "while it loads") {
		t.Errorf("%+v", err)
	}
}

func TestLogOfACallIsBounded(t *testing.T) {
	p := testPool(t)
	for body, most := range map[string]int{"console.log('x')": maxLines, "console.log('x'.repeat(9000))": maxLog/9000 + 2} {
		m := NewModule("m.js", "export default () => { for (let i = 0; i < 2000; i++) "+body+"; }", nil)
		lines, last := 0, ""
		_, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{}`), Log: func(_ slog.Level, text string) {
			lines++
			if last = text; len(text) > maxLine {
				t.Errorf("a line of %d bytes", len(text))
			}
		}})
		if err != nil || lines > most || lines < 10 || !strings.Contains(last, "the rest is dropped") && most < maxMessages {
			t.Errorf("%s: %d lines, the last is %.100s: %v", body, lines, last, err)
		}
	}
}
