//go:build unix

package script

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/jsvm"
)

// runTests runs the test files of a folder.
func runTests(t *testing.T, o TestOptions, files map[string]string) []TestFile {
	t.Helper()
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	r := &running{dir: t.TempDir()}
	for name, text := range files {
		r.save(t, name, text)
	}
	f, err := New(Options{Dir: r.dir, Base: r.dir, CacheDir: filepath.Join(os.TempDir(), "toolyard-test-cache")})
	if err != nil {
		t.Fatal(err)
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	results, err := f.Test(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// outcomes lists all files' tests as file, full name and outcome.
func outcomes(files []TestFile) (list []string) {
	for _, f := range files {
		for _, p := range f.Problems {
			list = append(list, p.String())
		}
		for _, t := range f.Tests {
			list = append(list, f.Path+": "+t.FullName()+": "+string(t.Outcome))
		}
	}
	return list
}

func TestFrameworkMatchers(t *testing.T) {
	source, err := os.ReadFile("testdata/framework.test.ts")
	if err != nil {
		t.Fatal(err)
	}
	files := runTests(t, TestOptions{}, map[string]string{"framework.test.ts": string(source)})
	passed := 0
	for _, f := range files {
		for _, p := range f.Problems {
			t.Error(p)
		}
		for _, r := range f.Tests {
			if passed++; r.Outcome != Passed {
				t.Errorf("%s: %s: %v\n%s", r.FullName(), r.Outcome, r.Failure, r.Stack)
			}
		}
	}
	if passed < 50 {
		t.Errorf("only %d tests ran", passed)
	}
}

// Tests written for other platforms run unchanged: they use globals, context factories and mocks.
func TestGlobalsAndFactories(t *testing.T) {
	got := runTests(t, TestOptions{}, map[string]string{
		"testing.ts": `export const makeMockContext = (parts: object) => ({ asOf: new Date(0), mode: "read", ...parts }) as any;`,
		"tools/fetch-recent-bars.ts": `import { tool } from "ai"; import { z } from "zod";
export default { name: "fetch_recent_bars", build: (ctx: any) => tool({ description: "Bars", inputSchema: z.object({ symbol: z.string(), lookback: z.number() }),
  execute: async ({ symbol, lookback }: any) => ctx.bars.recent({ symbol, lookback, asOf: ctx.asOf }) }) };`,
		"tools/__tests__/fetch-recent-bars.test.ts": `import fetchRecentBars from "../fetch-recent-bars";
import { makeMockContext } from "../../testing";
test("returns bars in descending order, capped at lookback", async () => {
  const bars = Array.from({ length: 10 }, (_, i) => ({ ts: 100 - i }));
  const ctx = makeMockContext({ bars: { recent: vi.fn().mockResolvedValue(bars) } });
  const def = fetchRecentBars.build(ctx);
  const result = await def.execute({ symbol: "BTC", interval: "5m", lookback: 10 }, {});
  expect(result).toHaveLength(10);
  expect(result[0].ts).toBeGreaterThan(result[1].ts);
});`,
		"tools/__tests__/helpers.ts": `export const nothing = 1;`,
	})
	want := []string{"tools/__tests__/fetch-recent-bars.test.ts: returns bars in descending order, capped at lookback: passed"}
	if diff := cmp.Diff(want, outcomes(got)); diff != "" {
		t.Error(diff)
	}
}

func TestFailuresHaveTheirLine(t *testing.T) {
	got := runTests(t, TestOptions{}, map[string]string{
		"a.test.ts": `import { expect, test } from "toolyard/test";
import { inner } from "./lib";

test("fails", () => {
  expect(1 + 1).toBe(3);
});
test("throws elsewhere", () => inner());
test("rejects", async () => {
  await expect(Promise.resolve(1)).resolves.toBe(2);
});
test("forgets to await", () => { expect(Promise.resolve(1)).resolves.toBe(2); });
test("loops", () => { for (;;); }, 300);
test("waits", () => new Promise(() => setTimeout(() => {}, 60_000)), 300);
test("allocates", () => { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); });
test("logs", () => { console.log("one", { two: 2 }); });
test.skip("is skipped", () => {});
test.todo("is missing");
test("skips itself", (t) => t.skip("not here"));
`,
		"b.test.ts":   "import { test } from \"toolyard/test\";\ntest.only(\"one\", () => {});\ntest(\"two\", () => {});\n",
		"c.test.ts":   "const x: = 1;\n",
		"d.test.ts":   "throw new Error(\"not loaded\");\n",
		"e.spec.ts":   "export {};\n",
		"lib.ts":      "export function inner() {\n  throw new RangeError(\"bad\");\n}\n",
		"n.test.ts":   "import { describe, it } from \"node:test\";\nimport assert from \"node:assert/strict\";\ndescribe(\"node\", () => {\n  it(\"works\", async (t) => { await t.test(\"sub\", () => assert.equal(1, 2)); });\n});\n",
		"ignored.txt": "x",
	})
	want := []string{
		"a.test.ts: fails: failed", "a.test.ts: throws elsewhere: failed", "a.test.ts: rejects: failed", "a.test.ts: forgets to await: failed", "a.test.ts: loops: failed", "a.test.ts: waits: failed",
		"a.test.ts: allocates: failed", "a.test.ts: logs: passed", "a.test.ts: is skipped: skipped", "a.test.ts: is missing: todo", "a.test.ts: skips itself: skipped",
		"b.test.ts: one: passed", "b.test.ts: two: skipped",
		"c.test.ts:1:10: Unexpected \"=\"", "d.test.ts:1:11: Error: not loaded", "e.spec.ts: the file has no tests",
		"n.test.ts: node > works: failed",
	}
	if diff := cmp.Diff(want, outcomes(got)); diff != "" {
		t.Fatal(diff)
	}
	failures := map[string]string{
		"fails": "a.test.ts:5:", "throws elsewhere": "lib.ts:2:", "rejects": "a.test.ts:9:", "forgets to await": "a.test.ts:11:",
		"loops": "the test did not finish within 300ms", "waits": "the test did not finish within 300ms", "allocates": "memory", "node > works": "n.test.ts:4:",
	}
	for _, f := range got {
		for _, r := range f.Tests {
			if want := failures[r.FullName()]; want != "" && !strings.Contains(r.Failure.String(), want) {
				t.Errorf("%s: %v, want %s", r.FullName(), r.Failure, want)
			}
			if r.FullName() == "logs" && !slices.Equal(r.Log, []string{"one { two: 2 }"}) {
				t.Errorf("%q", r.Log)
			}
		}
	}
	if frame := got[0].Tests[0].Failure.Frame; !strings.Contains(frame, "5 |   expect(1 + 1).toBe(3);") {
		t.Errorf("%s", frame)
	}
}

// call() performs the steps of a real call.
func TestCallsInTests(t *testing.T) {
	got := runTests(t, TestOptions{}, map[string]string{
		"tool.ts": `import { z } from "zod"; import { ToolError } from "toolyard";
export const description = "Says."; export const modes = ["read"];
export const inputSchema = z.object({ name: z.string().trim().default("you"), fail: z.boolean().optional() });
export const outputSchema = z.object({ text: z.string(), at: z.string() });
export default async ({ name, fail }: z.infer<typeof inputSchema>, ctx: any) => {
  if (fail) throw new ToolError("no such name", { code: "NOT_FOUND", issues: [{ path: "name", message: "is unknown" }] });
  if (name === "bad") return { text: 1 } as any;
  const other = await ctx.mcp.callTool("crm", "find", { name });
  const note = ctx.mcp.ReadResource("", "note://1").contents[0].text;
  return { text: [name, other.structuredContent.id, note, ctx.authorized?.user_id].join(), at: new Date().toISOString().slice(0, 10) };
};`,
		"tool.test.ts": `import { call, context, expect, test } from "toolyard/test";
import * as tool from "./tool";
const ctx = () => context({ user: "ann", asOf: "2020-01-02T00:00:00Z", resources: { "note://1": "hi" }, servers: { crm: { tools: { find: async ({ name }) => ({ id: name.length }) } } } });
test("defaults, fakes and the as-of time", async () => {
  expect((await call(tool, {}, ctx())).structuredContent).toEqual({ text: "you,3,hi,ann", at: "2020-01-02" });
  expect((await call(tool, { name: " Bo " }, ctx())).structuredContent).toMatchObject({ text: "Bo,2,hi,ann" });
});
test("a misspelled argument", async () => {
  const r = await call(tool, { nmae: "x" }, ctx());
  expect(r.content[0]).toMatchObject({ text: expect.stringContaining("did you mean \"name\"?") });
});
test("an invalid result", async () => {
  expect((await call(tool, { name: "bad" }, ctx()))._meta!["dev.toolyard/error"].error).toBe("OUTPUT_ERROR");
});
test("a code of the tool", async () => {
  const r = await call(tool, { fail: true }, ctx());
  expect(r._meta!["dev.toolyard/error"]).toMatchObject({ error: "NOT_FOUND", correctable: true, issues: [{ path: "name", message: "is unknown" }] });
});
test("a missing fake", async () => {
  expect((await call(tool, {})).content[0]).toMatchObject({ text: expect.stringContaining("unknown server crm") });
});
test("questions", async () => {
  const ask = (answers: object) => context({ answers }).ask({ key: "sure", message: "Sure?", state: 1 });
  expect(await ask({ sure: true })).toEqual({ action: "accept", accepted: true, form: {}, state: 1 });
  expect(await ask({ sure: false })).toMatchObject({ action: "decline", accepted: false });
  expect(await ask({ sure: { reason: "late" } })).toMatchObject({ accepted: true, form: { reason: "late" } });
  await expect(ask({})).rejects.toThrow("no answer to question sure");
});
test("only a function", async () => {
  await expect(call(tool.default, {})).rejects.toThrow("requires the whole module");
});
`,
	})
	for _, f := range got {
		for _, r := range f.Tests {
			if r.Outcome != Passed {
				t.Errorf("%s: %v", r.FullName(), r.Failure)
			}
		}
	}
	if len(got) != 1 || len(got[0].Tests) != 7 {
		t.Error(outcomes(got))
	}
}

func TestTestSelection(t *testing.T) {
	files := map[string]string{
		"a.test.ts":                    "test(\"one\", () => {}); test(\"two\", () => {});",
		"sub/__tests__/b.ts":           "test(\"three\", () => {});",
		"node_modules/x/c.test.ts":     "test(\"four\", () => {});",
		".hidden/d.test.ts":            "test(\"five\", () => {});",
		"sub/__tests__/deeper/also.ts": "test(\"six\", () => {});",
	}
	got := runTests(t, TestOptions{Name: regexp.MustCompile("^t")}, files)
	want := []string{"a.test.ts: one: skipped", "a.test.ts: two: passed", "sub/__tests__/b.ts: three: passed", "sub/__tests__/deeper/also.ts: six: skipped"}
	if diff := cmp.Diff(want, outcomes(got)); diff != "" {
		t.Error(diff)
	}
	if got := runTests(t, TestOptions{Files: []string{"b.ts", "also"}}, files); len(got) != 2 {
		t.Error(outcomes(got))
	}
}

func TestWatchTestsFollowsChanges(t *testing.T) {
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	r := &running{dir: t.TempDir()}
	r.save(t, "a.test.ts", "import { n } from \"./lib\"; test(\"n\", () => { expect(n).toBe(2); });")
	r.save(t, "lib.ts", "export const n = 1;")
	f, err := New(Options{Dir: r.dir, CacheDir: filepath.Join(os.TempDir(), "toolyard-test-cache")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	runs := make(chan string, 100)
	watching.Go(func() {
		f.WatchTests(ctx, TestOptions{Timeout: time.Minute}, func(files []TestFile, err error) { runs <- strings.Join(outcomes(files), " ") })
	})
	if got := <-runs; got != "a.test.ts: n: failed" {
		t.Fatal(got)
	}
	r.save(t, "lib.ts", "export const n = 2 ;")
	last := ""
	for deadline := time.After(3 * time.Minute); last != "a.test.ts: n: passed"; { // the file may be read while it is being written
		select {
		case last = <-runs:
		case <-deadline:
			t.Fatalf("the tests were not run again; the last run: %s", last)
		}
	}
}
