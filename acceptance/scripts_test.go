package acceptance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const helloScript = `import { z } from "zod";
export const description = "Says hello to a person by name";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  name: z.string().describe("The person to greet"),
  greeting: z.string().default("Hello").describe("What to say"),
});
export default async ({ name, greeting }: z.infer<typeof inputSchema>) => ` + "`${greeting}, ${name}!`;\n"

// tool returns a script that takes no arguments and returns an expression.
func tool(expression string) string {
	return `import { z } from "zod";
export const description = "Returns something.";
export const modes = ["read", "write"];
export const inputSchema = z.object({});
export default async (args: unknown, ctx: any) => (` + expression + `);
`
}

// folder writes files and returns their folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		save(t, filepath.Join(dir, name), text)
	}
	return dir
}

func save(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const scriptConfig = "scripts: {dir: tools}\n"

// serveScripts serves a folder of scripts.
func serveScripts(t *testing.T, files map[string]string) *process {
	t.Helper()
	moved := make(map[string]string)
	for name, text := range files {
		moved["tools/"+name] = text
	}
	return serveIn(t, folder(t, moved), "toolyard", scriptConfig)
}

// eras returns a client of each era.
func eras(t *testing.T, p *process) map[string]client {
	t.Helper()
	return map[string]client{"2026-07-28": modernHTTP{t: t, url: p.url}, "2025-11-25": newLegacyHTTP(t, p.url)}
}

func TestScriptToolIsListedWithItsSchema(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{"hello.ts": helloScript})
	for name, c := range eras(t, p) {
		m, _ := c.send("1", "tools/list", "")
		var list struct {
			Tools []struct {
				Name        string
				InputSchema struct {
					Type       string
					Properties map[string]struct{ Description string }
				}
			}
		}
		if err := json.Unmarshal(m.Result, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Tools) != 1 || list.Tools[0].Name != "hello" || list.Tools[0].InputSchema.Type != "object" ||
			list.Tools[0].InputSchema.Properties["name"].Description != "The person to greet" {
			t.Errorf("%s: %s", name, m.Result)
		}
	}
}

func TestBrokenScriptsAreReportedAndOthersServed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"tools/hello.ts": helloScript,
		"tools/a.ts":     "import { z } from \"zod\";\nexport const inputSchema = z.object({});\nexport default () => 1;\n",
		"tools/b.ts":     "export const description = \"b\";\nexport default () => 1;\n",
		"tools/c.ts":     "import { z } from \"zod\";\nexport const description = \"c\";\nexport const inputSchema = z.object({});\n",
		"tools/d.ts":     "import { z } from \"zod\";\nexport const description = \"d\";\n\nexport const inputSchema = z.string();\nexport default () => 1;\n",
		"toolyard.yaml":  scriptConfig,
	})
	p := serveIn(t, dir, "toolyard", "")
	if got := listTools(t, modernHTTP{t: t, url: p.url}); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("%v", got)
	}
	code, out, errs := runIn(t, dir, nil, "toolyard", "check")
	for _, want := range []string{`a.ts:1:1: there is no description`, `b.ts:1:1: there is no inputSchema`, `c.ts:1:1: there is no default function`, `d.ts:4:1: inputSchema must be a z.object()`} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if code != 1 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	warned := p.logged(4, func(l map[string]any) bool { return l["msg"] == "problem" })
	if len(warned) != 4 {
		t.Errorf("%d problems were logged: %v", len(warned), warned)
	}
}

// sameTexts checks the texts of a result, in both eras.
func sameTexts(t *testing.T, script string, isError bool, want ...string) {
	t.Helper()
	for name, c := range eras(t, serveScripts(t, map[string]string{"it.ts": script})) {
		r := call(t, c, "it", "{}").result(t)
		var got []string
		for _, item := range r.Content {
			if got = append(got, item.Text); item.Type != "text" {
				t.Errorf("%s: %+v", name, item)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || r.IsError != isError {
			t.Errorf("%s: isError %v: %s", name, r.IsError, diff)
		}
	}
}

func TestPrimitiveResultsBecomeText(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{`"Hello, World!"`: "Hello, World!", "42": "42", "true": "true"} {
		sameTexts(t, tool(expression), false, want)
	}
}

func TestObjectResultsBecomeStructuredContent(t *testing.T) {
	t.Parallel()
	p := serveIn(t, folder(t, nil), "toolyard", "scripts: {dir: "+examples(t)+"}\n")
	for name, c := range eras(t, p) {
		w := call(t, c, "weather", `{"location":"Oslo"}`).result(t)
		want := map[string]any{
			"location": "Oslo", "temperature": 22.5, "conditions": "Partly cloudy", "humidity": 65.0,
			"wind": map[string]any{"speed": 12.0, "direction": "NW"},
		}
		for part, raw := range map[string]string{"structured content": string(w.Structured), "text": w.Content[0].Text} {
			var got map[string]any
			if err := json.Unmarshal([]byte(raw), &got); err != nil {
				t.Errorf("%s: %s: %v", name, part, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s: %s", name, part, diff)
			}
		}
		if len(w.Content) != 1 || w.Content[0].Type != "text" {
			t.Errorf("%s: %+v", name, w.Content)
		}
	}
}

func TestArrayResultsBecomeContentItems(t *testing.T) {
	t.Parallel()
	sameTexts(t, tool(`["First", "Second", "Third"]`), false, "First", "Second", "Third")
}

func TestReturnedErrorsKeepTheirText(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{"failed.ts": tool(`{ isError: true, error: "Not found" }`)})
	for name, c := range eras(t, p) {
		m := call(t, c, "failed", "{}")
		if r := m.result(t); !r.IsError || len(r.Content) != 1 || r.Content[0].Text != "Not found" || r.Structured != nil {
			t.Errorf("%s: %s", name, m.Result)
		}
	}
}

func TestThrownErrorsFailOnlyTheirCall(t *testing.T) {
	t.Parallel()
	sameTexts(t, tool(`(() => { throw new Error("boom") })()`), true, "Error: boom")
}

func TestContentResultsPassUnchanged(t *testing.T) {
	t.Parallel()
	items := map[string]string{
		"image": `{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}`,
		"link":  `{"type":"resource_link","uri":"file:///a.txt","name":"a.txt"}`,
	}
	p := serveScripts(t, map[string]string{"image.ts": tool(items["image"]), "link.ts": tool(items["link"])})
	for name, c := range eras(t, p) {
		for tool, want := range items {
			if m := call(t, c, tool, "{}"); !strings.Contains(string(m.Result), `"content":[`+want+`]`) {
				t.Errorf("%s: %s", name, m.Result)
			}
		}
	}
}

func TestSchemaDefaultsReachTheScript(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"dev/hello.ts": helloScript})
	for args, want := range map[string]string{`{"name":"Ann"}`: "Hello, Ann!\n", `{"name":"Ann","greeting":"Hi"}`: "Hi, Ann!\n"} {
		if code, out, errs := runIn(t, dir, nil, "toolyard", "call", "--target", "dev", "hello", "--args", args); code != 0 || out != want {
			t.Errorf("%s: %d %q %s", args, code, out, errs)
		}
	}
}

func TestArgumentsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	p := serveIn(t, folder(t, nil), "toolyard", "scripts: {dir: "+examples(t)+"}\n")
	for name, c := range eras(t, p) {
		for args, want := range map[string]string{`{"text":"abc","case":"reverse"}`: "cba", `{"text":"abc","case":"reverse","repeat":2}`: "abc"} {
			if r := call(t, c, "textutil", args).result(t); r.IsError || r.Content[0].Text != want {
				t.Errorf("%s: %s: %+v", name, args, r)
			}
		}
		if r := call(t, c, "textutil", `{"text":"abc","case":"reverse","repeat":0}`).result(t); !r.IsError || !strings.Contains(string(r.failure()), "repeat") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func examples(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../examples/tools")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNestedDefaultsAndIssuePaths(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{"nested.ts": `import { z } from "zod";
export const description = "Shows what it gets.";
export const inputSchema = z.object({
  count: z.number().int().min(1).max(100),
  format: z.enum(["json", "csv", "xml"]),
  options: z.object({ verbose: z.boolean().default(false), depth: z.number().int().min(0).max(5) }).optional(),
});
export default (args: z.infer<typeof inputSchema>) => args;
`})
	for name, c := range eras(t, p) {
		good := call(t, c, "nested", `{"count":5,"format":"csv","options":{"depth":5}}`).result(t)
		var got struct{ Options struct{ Verbose *bool } }
		if json.Unmarshal(good.Structured, &got) != nil || got.Options.Verbose == nil || *got.Options.Verbose {
			t.Errorf("%s: %s", name, good.Structured)
		}
		bad := call(t, c, "nested", `{"count":5,"format":"csv","options":{"depth":6}}`).result(t)
		if !bad.IsError || !strings.Contains(string(bad.failure()), `"path":"options.depth"`) {
			t.Errorf("%s: %s", name, bad.failure())
		}
	}
}

func TestSourceNotesNameTheScriptFile(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"tools/hello.ts": helloScript})
	notes := regexp.MustCompile(`\\n\\n---\\nSource: ([^\\]*)\\nNote: This tool is dynamically loaded\. [^"]*"`)
	sources := func(c client) (paths []string) {
		m, _ := c.send("1", "tools/list", "")
		for _, found := range notes.FindAllStringSubmatch(string(m.Result), -1) {
			paths = append(paths, found[1])
		}
		return paths
	}
	p := serveIn(t, dir, "testyard", scriptConfig+"gates: {plain: {mode: write}, full: {mode: write, sourceNotes: absolute}, some: {mode: write, sourceNotes: relative}}\n")
	for gate, want := range map[string][]string{"plain": nil, "full": {filepath.Join(dir, "tools/hello.ts")}, "some": {"hello.ts"}} {
		if diff := cmp.Diff(want, sources(modernHTTP{t: t, url: p.url + "/" + gate})); diff != "" {
			t.Errorf("%s: %s", gate, diff)
		}
	}
	if got := sources(newStdioIn(t, dir, nil, "testyard", true, "--gate", "plain")); !slices.Equal(got, []string{"hello.ts"}) {
		t.Errorf("on stdio: %v", got)
	}
}

func TestClientNamesAndPlainNamesAreCallable(t *testing.T) {
	t.Parallel()
	p := serveIn(t, folder(t, map[string]string{"tools/hello.ts": helloScript}), "toolyard", "name: trinity\n"+scriptConfig+"gates: {default: {mode: write, naming: client}}\n")
	c := modernHTTP{t: t, url: p.url}
	if got := listTools(t, c); !slices.Equal(got, []string{"mcp_trinity_hello"}) {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"mcp_trinity_hello", "hello"} {
		if r := call(t, c, name, `{"name":"Ann"}`).result(t); r.Content[0].Text != "Hello, Ann!" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestScriptQueriesSeeOnlyTheirCallersRows(t *testing.T) {
	t.Parallel()
	p := serveIn(t, folder(t, nil), "testyard", "scripts: {dir: "+examples(t)+"}\ngates: {default: {mode: read, toolset: expenses}}\ntoolsets: {expenses: {tools: [Query]}}\n", "TESTYARD_KEYS=a=ann b=bob")
	for key, user := range map[string]string{"a": "ann", "b": "bob"} {
		r := call(t, modernHTTP{t: t, url: p.url, key: key}, "Query", `{"query":""}`).result(t)
		var found struct {
			Results []struct {
				User string `json:"user_id"`
			}
		}
		if err := json.Unmarshal(r.Structured, &found); err != nil || len(found.Results) == 0 || len(found.Results) > 10 {
			t.Fatalf("%s: %d rows, %v: %s", user, len(found.Results), err, r.Structured)
		}
		for _, row := range found.Results {
			if row.User != user {
				t.Errorf("%s sees a row of %q", user, row.User)
			}
		}
	}
	res, err := modernHTTP{t: t, url: p.url}.post(t.Context(), "1", "tools/call", `{"name":"Query","arguments":{"query":""}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a credential: %s", res.Status)
	}
}

func TestScriptCallsOtherToolsInParallel(t *testing.T) {
	t.Parallel()
	p := serveIn(t, folder(t, map[string]string{
		"tools/both.ts": tool(`(() => ({
	results: ctx.mcp.CallToolsParallel("", [{ name: "meet" }, { name: "echo", arguments: { text: "b" } }, { name: "meet" }, { name: "none" }]).map((r: any) => [r.isError ?? false, r.content[0].text]),
}))()`),
		"tools/promises.ts":  tool(`(await Promise.all([1, 2].map(() => ctx.mcp.callTool("", "meet", {})))).map((r) => r.content[0].text)`),
		"tools/docs.ts":      tool(`({ tools: ctx.mcp.ListTools("docs").map((t: any) => t.name), found: ctx.mcp.CallTool("docs", "search", { text: "x" }), resources: ctx.mcp.ListResources("docs"), read: ctx.mcp.ReadResource("docs", "resource://readme") })`),
		"tools/writes.ts":    tool(`ctx.mcp.CallTool("", "propose_order", {})`),
		"tools/unknown.ts":   tool(`ctx.mcp.ListResources("nobody")`),
		"tools/recursive.ts": tool(`ctx.mcp.CallTool("", "recursive", {})`),
	}), "testyard", scriptConfig+"gates: {default: {mode: write}, chat: {mode: read}}\n")
	c := modernHTTP{t: t, url: p.url}
	var both struct{ Results [][2]any }
	r := call(t, c, "both", "{}").result(t)
	if err := json.Unmarshal(r.Structured, &both); err != nil {
		t.Fatal(err, string(r.Structured))
	}
	if diff := cmp.Diff([][2]any{{false, "met"}, {false, "b"}, {false, "met"}, {true, "Unknown tool: none"}}, both.Results); diff != "" {
		t.Error(diff)
	}
	if r := call(t, c, "promises", "{}").result(t); len(r.Content) != 2 || r.IsError || r.Content[0].Text != "met" || r.Content[1].Text != "met" {
		t.Errorf("%+v", r)
	}
	d := string(call(t, c, "docs", "{}").result(t).Structured)
	for _, want := range []string{`"tools":["search"]`, `"found x"`, `"uri":"resource://readme"`, `"text":"Read me."`} {
		if !strings.Contains(d, want) {
			t.Errorf("%s is not in %s", want, d)
		}
	}
	for gate, reason := range map[string]string{"": "is read-only and cannot call", "/chat": "Unknown tool"} {
		if m := string(call(t, modernHTTP{t: t, url: p.url + gate}, "writes", "{}").Result); !strings.Contains(m, reason) {
			t.Errorf("%s: a read-only tool called a write tool: %s", gate, m)
		}
	}
	if orders := call(t, c, "dump_context", "{}").result(t); !strings.Contains(string(orders.Structured), `"orders":0`) {
		t.Errorf("%s", orders.Structured)
	}
	if m := call(t, c, "unknown", "{}").result(t); !m.IsError || !strings.Contains(m.Content[0].Text, "Unknown server: nobody") {
		t.Errorf("%+v", m)
	}
	if m := string(call(t, c, "recursive", "{}").Result); !strings.Contains(m, "more than 8 levels deep") {
		t.Errorf("%s", m)
	}
}

// Every operation in ctx.mcp works with the tools and resources of MCP servers of either era.
func TestScriptUsesAServer(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			p := serveIn(t, folder(t, map[string]string{
				"tools/all.ts": tool(`({
	tools: ctx.mcp.ListTools("up").map((t: any) => t.name),
	one: ctx.mcp.CallTool("up", "echo", { text: "a" }).content[0].text,
	many: ctx.mcp.CallToolsParallel("up", [{ name: "echo", arguments: { text: "b" } }, { name: "none" }, { name: "echo", arguments: { text: "c" } }]).map((r: any) => [r.isError ?? false, r.content[0].text]),
	resources: ctx.mcp.ListResources("up").map((r: any) => r.uri),
	read: ctx.mcp.ReadResource("up", "resource://data").contents[0].text,
	template: (await ctx.mcp.readResource("up", "resource://item/7")).contents[0].uri,
	promised: (await ctx.mcp.callTool("up", "echo", { text: "d" })).content[0].text,
	hidden: await ctx.mcp.readResource("up", "resource://secret").catch((e: any) => e.message),
})`),
			}), "toolyard", scriptConfig+servers(onStdio("up", era, `effects: {"*": read}`, `resources: ["resource://data", "resource://item/*"]`))+"gates: {default: {mode: read}}\n")
			r := call(t, modernHTTP{t: t, url: p.url}, "all", "{}").result(t)
			var got struct {
				Tools, Resources                      []string
				One, Read, Template, Promised, Hidden string
				Many                                  [][2]any
			}
			if err := json.Unmarshal(r.Structured, &got); err != nil {
				t.Fatalf("%v: %+v", err, r)
			}
			if !slices.Contains(got.Tools, "echo") || !slices.Equal(got.Resources, []string{"resource://data"}) {
				t.Errorf("%q, %q", got.Tools, got.Resources)
			}
			if diff := cmp.Diff([][2]any{{false, "b"}, {true, "Unknown tool: none"}, {false, "c"}}, got.Many); diff != "" {
				t.Error(diff)
			}
			if got.One != "a" || got.Promised != "d" || !strings.Contains(got.Read, "this is data") || got.Template != "resource://item/7" || !strings.Contains(got.Hidden, "resource://secret") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSavedScriptIsLiveForConnectedClients(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{"hello.ts": helloScript})
	modern := modernHTTP{t: t, url: p.url}
	res, err := modern.post(t.Context(), `"s"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	streams := map[string]<-chan message{"2026-07-28": follow(t, res), "2025-11-25": newLegacyHTTP(t, p.url).listen()}
	<-streams["2026-07-28"] // reads the acknowledgement
	pid := p.cmd.Process.Pid
	changed := strings.NewReplacer("greeting", "words", "Hello", "Howdy").Replace(helloScript)
	save(t, filepath.Join(p.dir, "tools/hello.ts"), changed)
	notifiedOfChange(t, streams)
	if r := call(t, modern, "hello", `{"name":"Ann"}`).result(t); r.Content[0].Text != "Howdy, Ann!" {
		t.Errorf("%+v", r)
	}
	if m, _ := modern.send("1", "tools/list", ""); !strings.Contains(string(m.Result), `"words"`) {
		t.Errorf("%s", m.Result)
	}
	notNotified(t, streams)
	if p.cmd.Process.Pid != pid || p.cmd.ProcessState != nil {
		t.Error("the process was replaced")
	}
}

func TestScriptFilesCanBeAddedRenamedAndDeleted(t *testing.T) {
	t.Parallel()
	p := serveScripts(t, map[string]string{"hello.ts": helloScript})
	c := modernHTTP{t: t, url: p.url}
	file := func(name string) string { return filepath.Join(p.dir, "tools", name) }
	soon := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s did not happen; there are %v", what, listTools(t, c))
			}
		}
	}
	lists := func(want ...string) func() bool {
		return func() bool { return slices.Equal(listTools(t, c), want) }
	}
	save(t, file("deep/down/more.ts"), tool("1"))
	soon("adding", lists("hello", "more"))
	if err := os.Rename(file("deep/down/more.ts"), file("other.ts")); err != nil {
		t.Fatal(err)
	}
	soon("renaming", lists("hello", "other"))
	if err := os.Remove(file("other.ts")); err != nil {
		t.Fatal(err)
	}
	soon("deleting", lists("hello"))

	res, err := c.post(t.Context(), `"s"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	stream := follow(t, res)
	<-stream
	start := time.Now()
	for i := range 10 {
		save(t, file("hello.ts"), strings.ReplaceAll(helloScript, "Hello", fmt.Sprint("Hello", i)))
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(start)
	says := func(want string) func() bool {
		return func() bool { return call(t, c, "hello", `{"name":"Ann"}`).result(t).Content[0].Text == want }
	}
	soon("the last of ten saves", says("Hello9, Ann!"))
	if n := len(stream); n > 3+int(took/(80*time.Millisecond)) { // the folder must be unchanged for that long
		t.Errorf("ten saves in %v gave %d notifications", took, n)
	}

	save(t, file("hello.ts"), strings.Replace(helloScript, "export default", "export default (((", 1))
	problem := func(l map[string]any) bool { return l["msg"] == "problem" && l["file"] == "hello.ts" }
	found := p.logged(1, problem)
	if len(found) != 1 || found[0]["line"] != 8.0 {
		t.Errorf("a syntax error is not reported with its line: %v", found)
	}
	if !says("Hello9, Ann!")() {
		t.Error("a broken save lost the tool")
	}
	save(t, file("hello.ts"), helloScript)
	soon("the next good save", says("Hello, Ann!"))
	if gone := p.logged(1, func(l map[string]any) bool { return l["msg"] == "problem resolved" }); len(gone) != 1 {
		t.Errorf("the problem stayed: %v", gone)
	}

	save(t, file("sub/hello.ts"), helloScript)
	if both := p.logged(1, func(l map[string]any) bool {
		text := fmt.Sprint(l["problem"])
		return l["msg"] == "problem" && strings.Contains(text, "of sub/hello.ts") && strings.Contains(text, "of hello.ts")
	}); len(both) != 1 || !says("Hello, Ann!")() { // the existing tool stays available
		t.Errorf("both files should be named: %v", p.logged(1, func(l map[string]any) bool { return l["msg"] == "problem" }))
	}
}

func TestFlagsOverrideEnvironmentAndDefaults(t *testing.T) {
	t.Parallel()
	files := map[string]string{"example/one.ts": tool("1"), "other/two.ts": tool("2"), "other/deep/three.ts": tool("3")}
	for name, tt := range map[string]struct {
		env, args []string
		want      []string
	}{
		"nothing":          {want: []string{"one"}},
		"MCP_TARGET":       {env: []string{"MCP_TARGET=other"}, want: []string{"three", "two"}},
		"--target":         {env: []string{"MCP_TARGET=example"}, args: []string{"--target", "other"}, want: []string{"three", "two"}},
		"MCP_GLOB":         {env: []string{"MCP_TARGET=other", "MCP_GLOB=deep/*.ts"}, want: []string{"three"}},
		"--glob":           {env: []string{"MCP_TARGET=other", "MCP_GLOB=deep/*.ts"}, args: []string{"--glob", "*.ts"}, want: []string{"two"}},
		"MCP_MODE is said": {env: []string{"MCP_MODE=stdio"}, want: []string{"one"}},
	} {
		c := newStdioIn(t, folder(t, files), tt.env, "toolyard", true, tt.args...)
		if diff := cmp.Diff(tt.want, listTools(t, c)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	port := func() string { return freeAddress(t)[len("127.0.0.1:"):] }
	env, flag := port(), port()
	defaultPort.Lock()
	defer defaultPort.Unlock()
	for name, tt := range map[string]struct {
		env, args []string
		port      string
	}{
		"MCP_MODE":       {env: []string{"MCP_MODE=http"}, port: "3001"},
		"MCP_PORT":       {env: []string{"MCP_MODE=http", "MCP_PORT=" + env}, port: env},
		"--port":         {env: []string{"MCP_MODE=http", "MCP_PORT=" + env}, args: []string{"--port", flag}, port: flag},
		"--port, --http": {args: []string{"--http", "--port", flag}, port: flag},
	} {
		dir := folder(t, files)
		log := filepath.Join(dir, "log")
		p := start(t, dir, append(tt.env, "LOG_FILE="+log), append([]string{"serve"}, tt.args...)...)
		c := modernHTTP{t: t, url: "http://127.0.0.1:" + tt.port + "/mcp"}
		p.await(c.url)
		if got := listTools(t, c); !slices.Equal(got, []string{"one"}) {
			t.Errorf("%s: %v", name, got)
		}
		soon(t, name+": the log is in LOG_FILE", func() bool {
			data, err := os.ReadFile(log)
			return err == nil && strings.Contains(string(data), "TOOL_REGISTERED")
		})
		p.end()
		if p.text() != "" {
			t.Errorf("%s: standard error has %s", name, p.text())
		}
	}
	for _, bad := range [][]string{{"MCP_MODE=udp"}, {"MCP_MODE=http", "MCP_PORT=many"}, {"MCP_TARGET=nowhere"}} {
		if code, _, errs := runIn(t, folder(t, files), bad, "toolyard", "serve"); code != 2 || errs == "" {
			t.Errorf("%v: exit %d: %s", bad, code, errs)
		}
	}
}

// A script can access only what the operator grants.
func TestScriptGrants(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://localhost:1/", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"method":%q,"auth":%q}`, r.Method, r.Header.Get("Authorization"))
	}))
	defer web.Close()
	host := strings.TrimPrefix(web.URL, "http://")
	get := func(url string) string {
		return tool(fmt.Sprintf(`await fetch(%q, { method: "POST", body: "x", headers: { authorization: "k" } }).then((r) => r.json())`, url))
	}
	read := func(path string) string {
		return `import fs from "node:fs";` + "\n" + tool(fmt.Sprintf(`fs.readFileSync(%q, "utf8")`, path))
	}
	files := map[string]string{
		"data/a.txt": "inside", "secret.txt": "outside",
		"tools/net.ts": get(web.URL), "tools/nonet.ts": get(web.URL), "tools/star.ts": get(web.URL), "tools/away.ts": get(web.URL + "/away"),
		"tools/narrow.ts":   get(web.URL) + `export const permissions = { net: ["elsewhere.example"] };`,
		"tools/widen.ts":    get(web.URL) + `export const permissions = { net: ["127.0.0.1"] };`,
		"tools/widelink.ts": read("data/link.txt") + `export const permissions = { read: ["data/link.txt", "/"] };`,
		"tools/wideenv.ts":  tool("String(process.env.SECRET_B)") + `export const permissions = { env: ["*"] };`,
		"tools/read.ts":     read("data/a.txt"), "tools/noread.ts": read("data/a.txt"), "tools/up.ts": read("data/../secret.txt"), "tools/link.ts": read("data/link.txt"), "tools/dir.ts": read("data"),
		"tools/env.ts": tool(`[process.env.SECRET_A, process.env.SECRET_B, process.env.PATH, JSON.stringify(process.env)].join()`),
	}
	dir := folder(t, files)
	if err := os.Symlink("../secret.txt", filepath.Join(dir, "data/link.txt")); err != nil {
		t.Fatal(err)
	}
	p := serveIn(t, dir, "toolyard", `scripts:
  dir: tools
  grants:
    net: {net: ["`+host+`"]}
    narrow: {net: ["`+host+`"]}
    away: {net: ["`+host+`"]}
    star: {net: ["*"]}
    widen: {net: ["*"]}
    widelink: {read: [data]}
    wideenv: {env: [SECRET_A]}
    read: {read: [data]}
    up: {read: [data]}
    link: {read: [data]}
    dir: {read: [data]}
    env: {env: [SECRET_A]}
`, "SECRET_A=1", "SECRET_B=2")
	c := modernHTTP{t: t, url: p.url}
	for tool, want := range map[string]string{
		"widen": "is not allowed", "widelink": "rror", "wideenv": "undefined",
		"net": `{"method":"POST","auth":"k"}`, "nonet": "is not allowed; to allow it", "star": "is not allowed", "away": "is not allowed", "narrow": "is not allowed",
		"read": "inside", "noread": "is not allowed; to allow it", "up": "is not allowed", "link": "rror", "dir": "rror",
		"env": `1,,,{"SECRET_A":"1"}`,
	} {
		r := call(t, c, tool, "{}").result(t)
		if len(r.Content) == 0 || !strings.Contains(r.Content[0].Text, want) || strings.Contains(r.Content[0].Text, "outside") {
			t.Errorf("%s: %+v", tool, r.Content)
		}
	}
	if n := served.Load(); n != 2 { // by net, and by the first step of away
		t.Errorf("the server was reached %d times", n)
	}
}

// The state of one call is not visible to the next, unless the tool opts in.
func TestScriptIsolation(t *testing.T) {
	t.Parallel()
	body := tool(`(() => {
	count++; globalThis.left = (globalThis.left ?? 0) + 1; (Array.prototype as any).left = ((Array.prototype as any).left ?? 0) + 1;
	return [count, (globalThis as any).left, ([] as any).left].join();
})()`) + "let count = 0;\n"
	p := serveScripts(t, map[string]string{"alone.ts": body, "other.ts": tool(`[typeof (globalThis as any).left, typeof ([] as any).left].join()`), "kept.ts": body + "export const shared = true;\n"})
	c := modernHTTP{t: t, url: p.url}
	for range 20 {
		if r := call(t, c, "alone", "{}").result(t); r.Content[0].Text != "1,1,1" {
			t.Fatalf("%+v", r)
		}
		if r := call(t, c, "other", "{}").result(t); r.Content[0].Text != "undefined,undefined" {
			t.Fatalf("%+v", r)
		}
	}
	last := ""
	for range 20 {
		last = call(t, c, "kept", "{}").result(t).Content[0].Text
	}
	if last == "1,1,1" {
		t.Error("shared state is not kept")
	}
}

// The examples work as described, with the required grants.
func TestScriptExamples(t *testing.T) {
	t.Parallel()
	rates := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"amount":1,"base":%q,"date":"2026-11-13","rates":{"USD":1.17}}`, r.URL.Query().Get("base"))
	}))
	defer rates.Close()
	dir := folder(t, map[string]string{"data/a.txt": "one\ntwo\nthree\n"})
	p := serveIn(t, dir, "toolyard", `scripts:
  dir: `+examples(t)+`
  grants:
    readfile: {read: [data]}
    fetch_rates: {net: ["`+strings.TrimPrefix(rates.URL, "http://")+`"], env: [RATES_URL]}
`, "RATES_URL="+rates.URL)
	c := modernHTTP{t: t, url: p.url}
	for _, tt := range []struct{ tool, args, want string }{
		{"hello", `{"name":"Ann"}`, "^Hello, Ann!$"},
		{"calculator", `{"operation":"multiply","a":6,"b":7}`, "^42$"},
		{"calculator", `{"operation":"divide","a":1,"b":0}`, "zero"},
		{"timestamp", `{"format":"human","timezone":"America/New_York"}`, "E[SD]T$"},
		{"timestamp", `{"format":"iso","timezone":"Mars/Phobos"}`, "Mars"},
		{"textutil", `{"text":"hello big world","case":"title"}`, "^Hello Big World$"},
		{"random", `{"type":"uuid"}`, "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"},
		{"random", `{"type":"number","min":5,"max":5}`, "^5$"},
		{"weather", `{"location":"Oslo"}`, `"direction":"NW"`},
		{"weather", `{"location":"unknown"}`, "unknown"},
		{"readfile", `{"filepath":"data/a.txt","maxLines":2}`, "^one\ntwo$"},
		{"readfile", `{"filepath":"../a.txt"}`, "^Failed to read file: .* is not allowed"},
		{"fetch_rates", `{"base":"EUR"}`, `"USD":1.17`},
		{"compare", `{"locations":["Oslo","unknown"]}`, `"failed":\["unknown"\]`},
		{"Recognize", `{"text":"Taxi 20 EUR"}`, "0.95"},
		{"wordcount", `{"text":"a b c"}`, `"words":3`},
		{"split_bill", `{"total":10}`, "^5$"},
	} {
		r := call(t, c, tt.tool, tt.args).result(t)
		if len(r.Content) == 0 || !regexp.MustCompile(tt.want).MatchString(r.Content[0].Text) {
			t.Errorf("%s %s: %+v", tt.tool, tt.args, r.Content)
		}
	}
	for _, command := range []string{"check", "test"} {
		if code, out, errs := runIn(t, dir, nil, "toolyard", command); code != 0 {
			t.Errorf("%s%s", out, errs)
		}
	}
}

// The metadata reference passes its tests and all lint checks, and each gate offers the tools that
// the metadata selects.
func TestReferenceExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/reference")); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runIn(t, dir, nil, "toolyard", "test"); code != 0 {
		t.Errorf("%s%s", out, errs)
	}
	if code, out, errs := runIn(t, dir, nil, "toolyard", "check", "--lint"); code != 0 || errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	for gate, want := range map[string][]string{"answers": {"compare_gas_prices", "get_gas_prices"}, "execute": {"get_gas_prices", "stream_live_trades"}} {
		_, out, errs := runIn(t, dir, nil, "toolyard", "tools", "--gate", gate, "--json")
		var listed []struct {
			Name string
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(out), &listed); err != nil {
			t.Fatal(err, out, errs)
		}
		var names []string
		for _, l := range listed {
			names = append(names, l.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %v", gate, names)
		}
	}
}

// The tools for the caller's positions pass their tests and all lint checks.
func TestPositionsExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../examples/positions")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"test"}, {"check", "--lint"}} {
		if code, out, errs := runIn(t, dir, nil, "toolyard", args...); code != 0 {
			t.Errorf("%v: %s%s", args, out, errs)
		}
	}
	_, out, errs := runIn(t, dir, nil, "toolyard", "call", "cross_platform_analysis")
	if !strings.Contains(out+errs, "NO_DATA") {
		t.Errorf("without linked accounts: %s%s", out, errs)
	}
}

// Editors get zod and the runtime types from the files that toolyard new writes: the compiler
// accepts all examples and templates, and rejects unknown names.
func TestScriptTypes(t *testing.T) {
	heavy(t)
	dir := folder(t, nil)
	for _, template := range []string{"hello", "fetch", "readfile", "structured", "calls", "declared"} {
		if code, _, errs := runIn(t, dir, nil, "toolyard", "new", "my_"+template, "--template", template); code != 0 {
			t.Fatal(errs)
		}
	}
	if code, out, errs := runIn(t, dir, nil, "toolyard", "check"); code != 0 {
		t.Fatalf("the templates do not load: %s%s", out, errs)
	}
	if code, out, errs := runIn(t, dir, nil, "toolyard", "test"); code != 0 {
		t.Errorf("the tests of the templates fail: %s%s", out, errs)
	}
	for to, from := range map[string]string{"tools/examples": "../examples/tools", "tools/reference": "../examples/reference/tools", "tools/positions": "../examples/positions/tools"} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	compile := func() (string, error) {
		tsc, err := filepath.Abs("clients/node_modules/typescript/bin/tsc")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "node", tsc, "-p", filepath.Join(dir, "tools")).CombinedOutput()
		return string(out), err
	}
	if out, err := compile(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	save(t, filepath.Join(dir, "tools/wrong.ts"), strings.Replace(helloScript, "{ name, greeting }", "{ nmae }", 1)+"import cp from \"node:child_process\";\ndocument.title;\n")
	out, err := compile()
	for _, want := range []string{"nmae", "node:child_process", "document"} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s passes: %s", want, out)
		}
	}
}
