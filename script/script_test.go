//go:build unix

package script

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/toolyardtest"
)

const hello = `import { z } from "zod";
export const description = "Says hello.";
export const inputSchema = z.object({ name: z.string(), greeting: z.string().default("Hello") });
export default async ({ name, greeting }: z.infer<typeof inputSchema>) => ` + "`${greeting}, ${name}!`;\n"

// running is a served folder.
type running struct {
	*Folder
	dir       string
	published chan []*toolyard.Tool
	stop      func()
}

func run(t testing.TB, opts Options, files map[string]string) *running {
	t.Helper()
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	r := &running{dir: t.TempDir()}
	for name, text := range files {
		r.save(t, name, text)
	}
	return runIn(t, opts, r)
}

// runIn runs a folder that already has files.
func runIn(t testing.TB, opts Options, r *running) *running {
	t.Helper()
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	r.published = make(chan []*toolyard.Tool, 100)
	opts.Dir, opts.CacheDir = r.dir, filepath.Join(os.TempDir(), "toolyard-test-cache")
	var err error
	if r.Folder, err = New(opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx, func(offer toolyard.Offer) { r.published <- offer.Tools }) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *running) save(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// next returns the next published offer.
func (r *running) next(t testing.TB) map[string]*toolyard.Tool {
	t.Helper()
	select {
	case tools := <-r.published:
		m := make(map[string]*toolyard.Tool)
		for _, tool := range tools {
			m[tool.Name] = tool
		}
		return m
	case <-time.After(time.Minute):
		t.Fatal("nothing was published")
		return nil
	}
}

// until returns the first offer that meets a condition. One save can lead to several offers: a file
// may be read while it is being written.
func (r *running) until(t testing.TB, ok func(tools map[string]*toolyard.Tool) bool) map[string]*toolyard.Tool {
	t.Helper()
	for {
		if tools := r.next(t); ok(tools) {
			return tools
		}
	}
}

func callTool(t testing.TB, tool *toolyard.Tool, args string) (*toolyard.Result, error) {
	t.Helper()
	valid, err := tool.Validate(t.Context(), json.RawMessage(args))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return callpath.Run(ctx, &toolyard.Call{ID: "1", Tool: tool, Args: valid, AsOf: time.UnixMilli(1_760_000_000_000), Mode: toolyard.Read})
}

func TestDeclaration(t *testing.T) {
	r := run(t, Options{}, map[string]string{"full.ts": `import { z } from "zod";
export const title = "Full";
export const description = "Says everything.";
export const summary = "Everything.";
export const hint = "Try it.";
export const category = "tests";
export const modes = ["read", "write"];
export const inputSchema = z.object({ at: z.string() });
export const outputSchema = z.object({ at: z.string() });
export const timeout = 1500;
export const _meta = { rateLimit: { maxRequestsPerMinute: 30, cooldownMs: 2000, maxConcurrency: 1, notes: "slow" }, contextRequirements: ["wallet"], pricing: { executeUsd: "0.001" }, surface: "answer", queryEligible: false, latencyClass: "fast", other: { a: 1 } };
export default async (args: z.infer<typeof inputSchema>, ctx: any) => ({ at: [args.at, ctx.asOf.toISOString(), new Date().toISOString().slice(0, 19)].join() });
`})
	tool := r.next(t)["full"]
	if tool == nil {
		t.Fatal(r.Problems())
	}
	if tool.Title != "Full" || tool.Summary != "Everything." || tool.Hint != "Try it." || tool.Category != "tests" || !tool.IsReadOnly() ||
		tool.Timeout != 1500*time.Millisecond || tool.Limit.PerMinute != 30 || tool.Limit.Cooldown != 2*time.Second || tool.Limit.Concurrency != 1 ||
		tool.Contexts[0] != "wallet" || tool.Price.USD != toolyard.USD/1000 || tool.Surface != toolyard.Answer || !tool.HiddenFromAnswers || tool.Latency != "fast" ||
		string(tool.Meta["other"]) != `{"a":1}` || tool.Origin != "full.ts" || tool.File != filepath.Join(r.dir, "full.ts") {
		t.Errorf("%+v", tool.Spec)
	}
	res, err := callTool(t, tool, `{"at":"x"}`)
	if err != nil || string(res.Structured) != `{"at":"x,2025-10-09T08:53:20.000Z,2025-10-09T08:53:20"}` {
		t.Errorf("%s, %v", res.Structured, err)
	}
}

func TestFaults(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"syntax":      {"export const description = ;\n", "x.ts:1:28: Unexpected \";\""},
		"import":      {"import x from \"./none\";\nexport default x;\n", "x.ts:1:15: Could not resolve \"./none\""},
		"package":     {"import x from \"left-pad\";\nexport default x;\n", "x.ts:1:15: Could not resolve \"left-pad\""},
		"node":        {"import x from \"node:child_process\";\nexport default x;\n", "node:child_process is not available to scripts"},
		"escape":      {"import x from \"../../../../etc/hostname.json\";\nexport default x;\n", "x.ts:1:15"},
		"absolute":    {"import x from \"/etc/passwd\";\nexport default x;\n", "x.ts:1:15: a script cannot import files outside"},
		"loader":      {"import x from \"./x.png\";\nexport default x;\n", "x.ts:1:15: a script cannot import x.png: unsupported file type"},
		"computed":    {"export default (x: string) => import(\"../../\" + x);\n", "x.ts:1:31: import() requires a literal path"},
		"throws":      {"const a = 1;\nthrow new Error(\"no\" + a);\n", "Error: no1"},
		"fetches":     {hello + "await fetch(\"https://example.com\");\n", "fetches/x.ts:5:7: TypeError: fetch failed: a module cannot use the network"},
		"function":    {strings.Replace(hello, "default async", "const f = async", 1), "there is no default function"},
		"schema":      {strings.Replace(hello, "z.string()", "z.date()", 1), "x.ts:3:1: inputSchema cannot be converted to JSON Schema"},
		"mode":        {hello + "export const modes = [\"raed\"];\n", "x.ts:5:1: unknown mode \"raed\""},
		"meta":        {hello + "export const _meta = {\n  pricing: { executeUsd: 0.001 },\n};\n", "x.ts:6:3: _meta.pricing: executeUsd must be a decimal in quotes"},
		"limit":       {hello + "export const _meta = {\n  rateLimit: {\n    maxRequestPerMinute: 1,\n  },\n};\n", "x.ts:7:5: _meta.rateLimit.maxRequestPerMinute: unknown key (did you mean \"maxRequestsPerMinute\"?)"},
		"price":       {hello + "export const _meta = { priceing: { executeUsd: \"1\" } };\n", "x.ts:5:24: _meta.priceing: unknown key (did you mean \"pricing\"?)"},
		"surface":     {hello + "export const _meta = { surface: \"anywhere\" };\n", "x.ts:5:24: _meta.surface: unknown value"},
		"timeout":     {hello + "export const timeout = 1e12;\n", "x.ts:5:1: timeout must be"},
		"external":    {hello + "export const category = \"external\";\n", "x.ts:5:1: category external is reserved for MCP server tools"},
		"name":        {hello + "export const name = 5;\n", "x.ts:5:1: name must be a string"},
		"bad-name":    {hello + "export const name = \"a b\";\n", "x.ts:5:1"},
		"category":    {hello + "export const category = \"x\".repeat(20000);\n", "x.ts:5:1: category exceeds 16 KiB"},
		"large-meta":  {hello + "export const _meta = { own: \"x\".repeat(70000) };\n", "x.ts:5:1: _meta exceeds 64 KiB"},
		"large":       {hello + "export const _meta = { own: \"x\".repeat(3e6) };\n", "the script's declarations exceed 2 MiB"},
		"permissions": {hello + "export const permissions = { net: Array(200).fill(\"a.example\") };\n", "x.ts:5:1: permissions contains a list of more than 100 entries"},
		"description": {strings.Replace(hello, `"Says hello."`, "42", 1), "x.ts:2:1: description must be a string"},
		"endless":     {hello + "for (;;) {}\n", "endless/x.ts: it did not finish in time"},
		"old-zod":     {strings.Replace(hello, "z.object(", "(s => ({ _def: s }))(", 1), "a different copy of zod"},
		"duplicates":  {hello + "export const description = \"x\";\n", "x.ts:5:14"},
	}
	files := make(map[string]string)
	for name, tt := range cases {
		files[name+"/x.ts"] = tt.text
	}
	files["loader/x.png"] = "x"
	r := run(t, Options{}, files)
	if tools := r.next(t); len(tools) > 0 {
		t.Errorf("%v", tools)
	}
	for name, tt := range cases {
		if !slices.ContainsFunc(r.Problems(), func(p toolyard.Problem) bool {
			return strings.HasPrefix(p.File, name+"/") && strings.Contains(p.String(), tt.want)
		}) {
			t.Errorf("%s: %q is not among %v", name, tt.want, r.Problems())
		}
	}
}

func TestLibrariesAreNoProblem(t *testing.T) {
	r := run(t, Options{}, map[string]string{
		"lib.ts":   "export const shout = (s: string) => s.toUpperCase();\n",
		"_part.ts": "export const end = \"!\";\n",
		"data.txt": "hey",
		"say.ts": `import { z } from "zod"; import { shout } from "./lib"; import { end } from "./_part.ts"; import data from "./data.txt";
export const description = "Says."; export const inputSchema = z.object({}); export default () => shout(data) + end;`,
	})
	tools := r.next(t)
	if len(tools) != 1 || len(r.Problems()) > 0 {
		t.Fatal(tools, r.Problems())
	}
	if res, err := callTool(t, tools["say"], "{}"); err != nil || res.Content[0] != toolyard.Text("HEY!") {
		t.Errorf("%v, %v", res, err)
	}
	r.save(t, "lib.ts", "export const shout = (s: string) => s + s;\n")
	for { // files written just before the start are reported once more
		res, err := callTool(t, r.next(t)["say"], "{}")
		if err != nil || res.Content[0] != toolyard.Text("HEY!") && res.Content[0] != toolyard.Text("heyhey!") {
			t.Fatalf("%v, %v", res, err)
		}
		if res.Content[0] == toolyard.Text("heyhey!") {
			return
		}
	}
}

// A missing or broken import is resolved when the imported file changes.
func TestImportsAreAwaited(t *testing.T) {
	say := `import { z } from "zod"; import { word } from "./_word"; import other from "./deep/other.json";
export const description = "Says."; export const inputSchema = z.object({}); export default () => word + other.end;`
	r := run(t, Options{}, map[string]string{"say.ts": say})
	if tools := r.next(t); len(tools) > 0 || len(r.Problems()) != 2 {
		t.Fatal(tools, r.Problems())
	}
	problem := func(text string) func(map[string]*toolyard.Tool) bool {
		return func(tools map[string]*toolyard.Tool) bool {
			problems := r.Problems()
			return len(tools) == 0 && len(problems) == 1 && strings.Contains(problems[0].String(), text)
		}
	}
	r.save(t, "deep/other.json", `{"end":"!"}`)
	r.until(t, problem("_word"))
	r.save(t, "_word.ts", "export const word: = 1;\n")
	r.until(t, problem("_word.ts:1:20"))
	r.save(t, "_word.ts", "export const word = \"hey\";\n")
	tools := r.until(t, func(tools map[string]*toolyard.Tool) bool { return tools["say"] != nil })
	if res, err := callTool(t, tools["say"], "{}"); err != nil || res.Content[0] != toolyard.Text("hey!") || len(r.Problems()) > 0 {
		t.Errorf("%v, %v, %v", res, err, r.Problems())
	}
}

// A source that runs again creates new tools.
func TestRunAgain(t *testing.T) {
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	r := &running{dir: t.TempDir()}
	r.save(t, "hello.ts", hello)
	f, err := New(Options{Dir: r.dir, CacheDir: filepath.Join(os.TempDir(), "toolyard-test-cache")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		tools, done := make(chan []*toolyard.Tool, 100), make(chan error)
		go func() { done <- f.Run(ctx, func(offer toolyard.Offer) { tools <- offer.Tools }) }()
		if _, err := callTool(t, (<-tools)[0], `{"name":"Ann"}`); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	}
}

// Progress is reported in order, and a tool that does not wait for it keeps its VM.
func TestProgress(t *testing.T) {
	r := run(t, Options{}, map[string]string{"steps.ts": `import { z } from "zod";
export const description = "Steps."; export const inputSchema = z.object({});
export default (args: unknown, ctx: any) => { for (let i = 1; i <= 20; i++) ctx.progress(i, 20, "step " + i); return "done"; };`})
	tool := r.next(t)["steps"]
	var mu sync.Mutex
	var seen []float64
	c := &toolyard.Call{ID: "1", Tool: tool, Args: json.RawMessage("{}"), AsOf: time.Now(), Request: toolyard.Request{OnProgress: func(done, _ float64, _ string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, done)
	}}}
	if _, err := callpath.Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 20 || !slices.IsSorted(seen) {
		t.Errorf("%v", seen)
	}
}

func TestRefinements(t *testing.T) {
	r := run(t, Options{}, map[string]string{"even.ts": `import { z } from "zod";
export const description = "Takes an even number.";
export const inputSchema = z.object({ n: z.number().refine((n) => n % 2 === 0, "must be even"), later: z.string().refine(async (s) => s !== "bad", "is bad").optional() });
export default async ({ n }: z.infer<typeof inputSchema>) => n;
`})
	tool := r.next(t)["even"]
	if res, err := callTool(t, tool, `{"n":4,"later":"good"}`); err != nil || res.Content[0] != toolyard.Text("4") {
		t.Errorf("%v, %v", res, err)
	}
	for args, path := range map[string]string{`{"n":3}`: "n", `{"n":4,"later":"bad"}`: "later"} {
		_, err := callTool(t, tool, args)
		if e := toolyard.AsError(err); e.Code != toolyard.Invalid || len(e.Issues) != 1 || e.Issues[0].Path != path {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// An error includes the position in the author's file.
func TestThrownLine(t *testing.T) {
	r := run(t, Options{}, map[string]string{
		"lib.ts":  "// types\ninterface A { a: number }\nexport function inner(x: A) {\n  throw new RangeError(`bad ${x.a}`);\n}\n",
		"boom.ts": "import { z } from \"zod\";\nimport { inner } from \"./lib\";\nexport const description = \"Throws.\";\nexport const inputSchema = z.object({});\n\nexport default async () => inner({ a: 1 });\n",
	})
	_, err := callTool(t, r.next(t)["boom"], "{}")
	e := toolyard.AsError(err)
	thrown := &Thrown{}
	ok := errors.As(e.Err, &thrown)
	if !ok || e.Message != "bad 1" || thrown.File != "lib.ts" || thrown.Line != 4 || !strings.Contains(thrown.Stack, "boom.ts:6") {
		t.Errorf("%v: %+v", e, thrown)
	}
}

// A restarted folder loads compiled scripts that are still valid from the cache.
func TestCache(t *testing.T) {
	cache := t.TempDir()
	dir := t.TempDir()
	load := func(text string) string {
		r := &running{dir: dir}
		r.save(t, "hello.ts", text)
		f, err := New(Options{Dir: dir, CacheDir: cache})
		if err != nil {
			t.Skip(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		tools := make(chan []*toolyard.Tool, 100)
		done := make(chan error)
		go func() { done <- f.Run(ctx, func(offer toolyard.Offer) { tools <- offer.Tools }) }()
		res, err := callTool(t, (<-tools)[0], `{"name":"Ann"}`)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
		return string(res.Content[0].(toolyard.Text))
	}
	if got := load(hello); got != "Hello, Ann!" {
		t.Error(got)
	}
	entries, _ := filepath.Glob(filepath.Join(cache, "scripts/*/*.json"))
	if len(entries) != 1 {
		t.Fatal(entries)
	}
	replace := func(change func(entry []byte) []byte) {
		t.Helper()
		entry, err := os.ReadFile(entries[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(entries[0], change(entry), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace(func(entry []byte) []byte { return bytes.ReplaceAll(entry, []byte("Hello"), []byte("Howdy")) })
	if got := load(hello); got != "Howdy, Ann!" {
		t.Errorf("%s: the script was compiled again", got)
	}
	if got := load(strings.ReplaceAll(hello, "Hello", "Hi")); got != "Hi, Ann!" {
		t.Error(got)
	}
	replace(func([]byte) []byte { return []byte(`{"Code":`) })
	if got := load(hello); got != "Hello, Ann!" {
		t.Error(got)
	}
}

func BenchmarkCall(b *testing.B) {
	r := run(b, Options{}, map[string]string{"hello.ts": hello})
	tool := r.next(b)["hello"]
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := callTool(b, tool, `{"name":"Ann"}`); err != nil {
				b.Error(err)
			}
		}
	})
}

// Unusual files neither hang the loader nor exhaust its memory, and source maps in files are not
// trusted.
func TestOddFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs pipes and /dev")
	}
	r := &running{dir: t.TempDir()}
	forged := `//# sourceMappingURL=data:application/json;base64,` + base64.StdEncoding.EncodeToString([]byte(`{"version":3,"sources":["../../../../../etc/hostname"],"names":[],"mappings":"AAAA;AAAA;AAAA;AAAA;AAAA;AAAA"}`)) + "\n"
	for name, text := range map[string]string{
		"zero.ts": hello + "//# sourceMappingURL=/dev/zero\n", "pipe.ts": hello + "//# sourceMappingURL=m.map\n",
		"imports.ts": "import { word } from \"./sub/_word\";\n" + strings.Replace(hello, "Hello", "Hi", 1) + "export const w = word;\n", "sub/_word.ts": "export const word = 1;\n",
		"throws.ts": hello + "throw new Error(\"x\");\n" + forged,
		"large.ts":  strings.Replace(hello, `"Says hello."`, `"x".repeat(1e6)`, 1),
	} {
		r.save(t, name, text)
	}
	for _, pipe := range []string{"m.map", "package.json", "sub/package.json", "zero.json", "pipe2.ts"} {
		if err := syscall.Mkfifo(filepath.Join(r.dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/zero", filepath.Join(r.dir, "endless.ts")); err != nil {
		t.Fatal(err)
	}
	served := runIn(t, Options{}, r)
	start := time.Now()
	tools := served.next(t)
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, name := range []string{"pipe", "imports"} {
		if tools[name] == nil {
			t.Errorf("%s was not loaded: %v", name, served.Problems())
		}
	}
	text := fmt.Sprint(served.Problems())
	for _, want := range []string{"zero.json", "endless.ts", "throws.ts:5", "large.ts", "exceeds 16 KiB"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not among %s", want, text)
		}
	}
	if strings.Contains(text, "hostname") {
		t.Errorf("a forged source map was believed: %s", text)
	}
}

// A script cannot set metadata that is reserved for the platform.
func TestReservedMeta(t *testing.T) {
	r := run(t, Options{}, map[string]string{"forge.ts": `import { z } from "zod";
export const description = "Forges."; export const inputSchema = z.object({});
export default () => ({ content: [{ type: "text", text: "x" }], _meta: { "dev.toolyard/call": "FORGED", "io.modelcontextprotocol/serverInfo": {}, "com.example/own": 1 } });`})
	res, err := callTool(t, r.next(t)["forge"], "{}")
	if err != nil || strings.Contains(string(res.Raw()), "FORGED") || strings.Contains(string(res.Raw()), "serverInfo") || !strings.Contains(string(res.Raw()), "com.example/own") {
		t.Errorf("%s, %v", res.Raw(), err)
	}
}

// Calls in flight finish with the version that they started with, even if the source is replaced.
func TestReplacedWhileCalled(t *testing.T) {
	r := run(t, Options{}, map[string]string{"slow.ts": `import { z } from "zod";
export const description = "Sleeps."; export const inputSchema = z.object({});
export default (args: unknown, ctx: any) => { ctx.progress(1, 2, "started"); return new Promise((r) => setTimeout(() => r("woke"), 700)); };`})
	tool := r.next(t)["slow"]
	started, done := make(chan struct{}), make(chan string)
	go func() {
		res, err := callpath.Run(t.Context(), &toolyard.Call{ID: "1", Tool: tool, Args: json.RawMessage("{}"), AsOf: time.Now(), Request: toolyard.Request{
			OnProgress: func(float64, float64, string) { close(started) },
		}})
		done <- fmt.Sprint(res != nil && res.Content[0] == toolyard.Text("woke"), err)
	}()
	<-started
	r.stop()
	if got := <-done; got != "true <nil>" {
		t.Error(got)
	}
}

// Declarations that have no effect, or an unintended one, cause warnings; the tool is still
// available.
func TestWarnings(t *testing.T) {
	env := map[string]string{"SET": "1"}
	r := run(t, Options{
		Grants: map[string]Grant{"granted": {Env: []string{"SET", "UNSET"}, Net: []string{"*.example.com"}, Read: []string{"data/sub"}}},
		Getenv: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	}, map[string]string{
		"mode.ts":    hello + "export const mode = [\"read\"];\n",
		"meta.ts":    hello + "export const meta = {};\n",
		"price.ts":   hello + "export const pricing = { executeUsd: \"1\" };\n",
		"news.ts":    hello + "export const category = \"New\";\n",
		"good.ts":    hello + "export const modes = [\"read\"];\nexport const helper = 1;\n",
		"wants.ts":   hello + "export const permissions = {\n  env: [\"API_KEY\"],\n  net: [\"api.example.com\"],\n};\n",
		"granted.ts": hello + "export const permissions = { env: [\"SET\"], net: [\"api.example.com:443\"], read: [\"data\"] };\nconst early = process.env.SET ?? process.env.NODE_ENV;\n",
	})
	if tools := r.next(t); len(tools) != 7 || !tools["good"].AllowedIn(toolyard.Write) || !tools["good"].AllowedIn(toolyard.Read) {
		t.Fatal(tools, r.Problems())
	}
	var got []string
	for _, p := range r.Problems() {
		if !p.Warning {
			t.Errorf("%+v is not a warning", p)
		}
		got = append(got, p.String()+" | "+p.Fix)
	}
	want := []string{
		"scripts.grants.granted.env: variable UNSET is granted, but it is not set | Set it in Toolyard's environment, or remove the grant.",
		"granted.ts:6:15: process.env.SET is read while the module loads, when no variables are set | Read it inside the function.",
		"meta.ts:5:1: export meta has no effect (did you mean \"_meta\"?) | ",
		"mode.ts:5:1: export mode has no effect (did you mean \"modes\"?) | ",
		"news.ts:5:1: category \"New\" is unknown (did you mean \"news\"?) | ",
		"price.ts:5:1: export pricing has no effect: move it into _meta: export const _meta = { pricing: … } | ",
		"wants.ts:7:3: permissions.net declares api.example.com, which is not granted | To grant it, add to toolyard.yaml: scripts: {grants: {wants: {net: [\"api.example.com\"]}}}",
		"wants.ts:6:3: permissions.env declares API_KEY, which is not granted | To grant it, add to toolyard.yaml: scripts: {grants: {wants: {env: [\"API_KEY\"]}}}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// Reading a declared variable that is not granted is an error with a fix; other variables are
// undefined.
func TestDeclaredVariableMustBeGranted(t *testing.T) {
	script := strings.Replace(hello, "`${greeting}, ${name}!`", "String(process.env[name])", 1) + "export const permissions = { env: [\"API_KEY\", \"GRANTED\", \"P_*\"] };\n"
	r := run(t, Options{
		Grants: map[string]Grant{"say": {Env: []string{"GRANTED", "OTHER"}}},
		Getenv: func(name string) (string, bool) { return "v", name == "GRANTED" || name == "OTHER" },
	}, map[string]string{"say.ts": script})
	tool := r.next(t)["say"]
	for name, want := range map[string]string{"GRANTED": "v", "OTHER": "undefined", "NODE_ENV": "undefined", "P_1": "undefined"} {
		if res, err := callTool(t, tool, `{"name":"`+name+`"}`); err != nil || res.Content[0] != toolyard.Text(want) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	_, err := callTool(t, tool, `{"name":"API_KEY"}`)
	if want := `reading variable API_KEY is not allowed; to allow it, add to toolyard.yaml: scripts: {grants: {say: {env: ["API_KEY"]}}}`; err == nil || toolyard.AsError(err).Message != want {
		t.Errorf("%v", err)
	}
}

// Faults in a declaration are reported in its own file.
func TestDeclarationFaults(t *testing.T) {
	declare := func(tool string) string {
		return "{\"tools\": [\n  {\"name\": \"f\", \"description\": \"x\",\n   " + tool + "}\n]}\n"
	}
	many := "{\"tools\": [" + strings.Repeat("{\"name\": \"f\", \"description\": \"x\"},", 100) + "{\"name\": \"f\", \"description\": \"x\"}]}"
	r := run(t, Options{}, map[string]string{
		"meta.ts": "export const f = () => 1;\n", "meta.json": declare("\"_meta\": {\"rateLimit\": {\"perMinute\": 1}}"),
		"modes.ts": "export const f = () => 1;\n", "modes.json": declare("\"modes\": [\"raed\"]"),
		"many.ts": "export const f = () => 1;\n", "many.json": many,
	})
	r.next(t)
	for _, want := range []string{"meta.json:3:28: _meta.rateLimit.perMinute: unknown key", "modes.json:3:4: unknown mode \"raed\"", "many.json: the script declares more than 100 tools"} {
		if !slices.ContainsFunc(r.Problems(), func(p toolyard.Problem) bool { return strings.HasPrefix(p.String(), want) }) {
			t.Errorf("%s is not among %v", want, r.Problems())
		}
	}
}

// A tool has its declared name or, if there is none, its file's name.
func TestToolNames(t *testing.T) {
	r := run(t, Options{}, map[string]string{
		"home/list_devices.tool.ts": hello,
		"fetch-recent-bars.ts":      hello + "export const name = \"fetch_recent_bars\";\n",
		"kebab-case.ts":             hello,
		"sdk.ts":                    `import { tool } from "ai"; import { z } from "zod"; export default tool({ name: "from_sdk", description: "Says.", inputSchema: z.object({}), execute: () => 1 });`,
	})
	tools := r.next(t)
	for _, name := range []string{"list_devices", "fetch_recent_bars", "kebab-case", "from_sdk"} {
		if tools[name] == nil {
			t.Errorf("there is no %s among %v: %v", name, slices.Collect(maps.Keys(tools)), r.Problems())
		}
	}
	if len(r.Problems()) > 0 {
		t.Error(r.Problems())
	}
}

// Tools written for other platforms, as factories or classes, load unchanged.
func TestFormsOfOtherPlatforms(t *testing.T) {
	r := run(t, Options{}, map[string]string{
		"_types.ts": "import { z } from \"zod\";\nexport const defineTool = <T>(def: T): T => def;\nexport abstract class BaseTool<I extends z.ZodTypeAny, O> { abstract name: string; abstract description: string; abstract inputSchema: I; abstract execute(input: z.infer<I>, context: any): Promise<O>; }\n",
		"fetch-recent-bars.ts": `import { tool } from "ai"; import { z } from "zod"; import { defineTool } from "./_types";
export default defineTool({ name: "fetch_recent_bars", category: "market_data", description: "Get the most recent bars", uiHint: "Use before deciding to trade", modes: ["read", "write"],
  build: (ctx: any) => tool({ description: "Get recent OHLCV bars for a perp", inputSchema: z.object({ symbol: z.string(), lookback: z.number().default(3) }),
    execute: async ({ symbol, lookback }: any) => symbol + lookback + ctx.mode }) });`,
		"list-devices.tool.ts": `import { z } from "zod"; import { BaseTool } from "./_types";
const input = z.object({ domain: z.string().optional() });
export default class ListDevicesTool extends BaseTool<typeof input, string[]> { name = "list_devices"; description = "List devices."; inputSchema = input; prefix = "light.";
  async execute(i: z.infer<typeof input>) { return [this.prefix + i.domain]; } }`,
	})
	tools := r.next(t)
	if len(tools) != 2 || len(r.Problems()) > 0 {
		t.Fatal(tools, r.Problems())
	}
	bars := tools["fetch_recent_bars"]
	if bars.Summary != "Get the most recent bars" || bars.Description != "Get recent OHLCV bars for a perp" || bars.Hint != "Use before deciding to trade" || bars.Category != "market_data" || !bars.IsReadOnly() {
		t.Errorf("%+v", bars.Spec)
	}
	if res, err := callTool(t, bars, `{"symbol":"BTC"}`); err != nil || res.Content[0] != toolyard.Text("BTC3read") {
		t.Errorf("%v, %v", res, err)
	}
	if res, err := callTool(t, tools["list_devices"], `{"domain":"x"}`); err != nil || res.Content[0] != toolyard.Text("light.x") {
		t.Errorf("%v, %v", res, err)
	}
}

// A declaration can use MCP's names for schemas; members that have no effect cause warnings.
func TestDeclarationSpellings(t *testing.T) {
	schema := `{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}`
	r := run(t, Options{}, map[string]string{
		"a.ts": "export const A = ({ text }) => ({ text });\nexport const B = () => 1;\n",
		"a.json": "{\"tools\": [\n  {\"name\": \"A\", \"description\": \"x\", \"uiHint\": \"hint\", \"inputSchema\": " + schema + ", \"outputSchema\": " + schema + "},\n" +
			"  {\"name\": \"B\", \"description\": \"x\", \"paramters\": " + schema + "}\n]}\n",
		"both.ts": "export const C = () => 1;\n", "both.json": "{\"tools\": [{\"name\": \"C\", \"description\": \"x\", \"parameters\": {}, \"inputSchema\": {}}]}",
	})
	tools := r.next(t)
	if tools["A"] == nil || tools["A"].Hint != "hint" || len(tools["A"].Output) == 0 {
		t.Fatal(tools, r.Problems())
	}
	if _, err := callTool(t, tools["A"], `{}`); toolyard.AsError(err).Code != toolyard.Invalid {
		t.Error(err)
	}
	for _, want := range []string{
		"a.json:3:37: member \"paramters\" of B has no effect (did you mean \"parameters\"?)", "a.json:3:12: B declares no parameters, so it accepts any arguments",
		"both.json: tools[0] sets both parameters and inputSchema: remove one",
	} {
		if !slices.ContainsFunc(r.Problems(), func(p toolyard.Problem) bool { return p.String() == want }) {
			t.Errorf("%s is not among %v", want, r.Problems())
		}
	}
}

// A script can choose an error's code with ToolError, except for codes reserved for the platform.
func TestErrorCodes(t *testing.T) {
	r := run(t, Options{}, map[string]string{"fail.ts": `import { z } from "zod"; import { ToolError } from "toolyard";
export const description = "Fails."; export const inputSchema = z.object({ code: z.string() });
export default ({ code }: z.infer<typeof inputSchema>) => {
  if (code === "zod") z.object({ a: z.string() }).parse({});
  if (code === "plain") throw Object.assign(new Error("no"), { code: "NOT_FOUND" });
  throw new ToolError("no", { code, issues: [{ path: "a.b", message: "is bad" }], retryAfterMs: code === "RATE_LIMITED" ? 1500 : undefined });
};`})
	tool := r.next(t)["fail"]
	for code, want := range map[string]toolyard.Error{
		"VALIDATION_ERROR": {Code: toolyard.Invalid}, "NOT_FOUND": {Code: toolyard.NotFound}, "OUT_OF_STOCK": {Code: "OUT_OF_STOCK"},
		"RATE_LIMITED": {Code: toolyard.RateLimited, RetryAfter: 1500 * time.Millisecond},
		"TIMEOUT":      {Code: toolyard.Failed}, "BUDGET_EXCEEDED": {Code: toolyard.Failed}, "lower": {Code: toolyard.Failed}, "plain": {Code: toolyard.Failed}, "zod": {Code: toolyard.Invalid},
	} {
		_, err := callTool(t, tool, `{"code":"`+code+`"}`)
		got := toolyard.AsError(err)
		if got.Code != want.Code || got.RetryAfter != want.RetryAfter {
			t.Errorf("%s: %+v", code, got)
		}
		if code == "VALIDATION_ERROR" && (len(got.Issues) != 1 || got.Issues[0].Path != "a.b" || !got.Code.Correctable()) {
			t.Errorf("%+v", got)
		}
	}
}

// A script can ask the user, and runs again from the start with the answer.
func TestAsk(t *testing.T) {
	r := run(t, Options{}, map[string]string{"cancel.ts": `import { z } from "zod";
export const description = "Cancels an order."; export const inputSchema = z.object({ id: z.string(), fallback: z.boolean().optional() });
export default async ({ id, fallback }: any, ctx: any) => {
  try {
    const reply = await ctx.ask({ key: "confirm", message: "Cancel " + id + "?", schema: z.object({ reason: z.enum(["late", "other"]) }), bind: { id }, state: { price: 5 } });
    return [reply.action, reply.accepted, reply.form?.reason ?? "", reply.state.price].join();
  } catch (e) {
    if (fallback) return "cannot ask";
    throw e;
  }
};`})
	tool := r.next(t)["cancel"]
	asked := ""
	answers := map[string]string{
		`{"action":"accept","content":{"reason":"late"}}`: "accept,true,late,5", `{"action":"decline"}`: "decline,false,,5",
	}
	for answer, want := range answers {
		for _, args := range []string{`{"id":"A"}`, `{"id":"A","fallback":true}`} { // the second call catches all errors
			res, err := toolyardtest.Call(t, tool, args, &toolyardtest.Options{Answer: func(q toolyard.Question) string {
				asked = q.Message + string(q.Schema)
				return answer
			}})
			if err != nil || toolyardtest.Text(res) != want {
				t.Errorf("%s: %v, %v", answer, res, err)
			}
		}
	}
	if !strings.HasPrefix(asked, "Cancel A?") || !strings.Contains(asked, `"enum":["late","other"]`) || strings.Contains(asked, "additionalProperties") {
		t.Error(asked)
	}
	_, err := toolyardtest.Call(t, tool, `{"id":"A"}`, &toolyardtest.Options{Answer: func(toolyard.Question) string { return `{"action":"accept","content":{"reason":"none"}}` }})
	if toolyard.AsError(err).Code != toolyard.Invalid {
		t.Errorf("%v", err)
	}
	_, err = toolyardtest.Call(t, tool, `{"id":"A"}`, nil)
	if toolyard.AsError(err).Code != toolyard.MissingCapability {
		t.Errorf("%v", err)
	}
	if res, err := toolyardtest.Call(t, tool, `{"id":"A","fallback":true}`, nil); err != nil || toolyardtest.Text(res) != "cannot ask" {
		t.Errorf("%v, %v", res, err)
	}
}
