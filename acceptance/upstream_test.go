package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
)

// onStdio configures a fakemcp server that Toolyard starts.
func onStdio(id, era string, lines ...string) string {
	return server(id, append([]string{
		fmt.Sprintf("command: %q", filepath.Join(bin, "fakemcp")), fmt.Sprintf("args: [-era, %s, -name, %q]", era, id),
	}, lines...)...)
}

// onHTTP configures a server at a URL.
func onHTTP(id, url string, lines ...string) string {
	return server(id, append([]string{"url: " + url}, lines...)...)
}

// server returns a server's entry in a configuration. Servers are required unless a line overrides
// this.
func server(id string, lines ...string) string {
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "required:") }) {
		lines = append(lines, "required: true")
	}
	return fmt.Sprintf("  %q:\n    %s\n", id, strings.Join(lines, "\n    "))
}

// servers returns the configuration section with the servers.
func servers(entries ...string) string { return "servers:\n" + strings.Join(entries, "") }

// startFake starts a fakemcp server over HTTP and waits until it is ready.
func startFake(t *testing.T, address, era string, env ...string) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir(), url: "http://" + address + "/mcp"}
	p.launch("fakemcp", env, "-http", address, "-era", era, "-name", era)
	soon(t, "fakemcp listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return p
}

// eachUpstream runs a test with servers of both eras, over all of the era's transports.
func eachUpstream(t *testing.T, test func(t *testing.T, configured func(lines ...string) string)) {
	t.Helper()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era+" stdio", func(t *testing.T) {
			t.Parallel()
			test(t, func(lines ...string) string { return onStdio("up", era, lines...) })
		})
		t.Run(era+" http", func(t *testing.T) {
			t.Parallel()
			p := startFake(t, freeAddress(t), era)
			test(t, func(lines ...string) string { return onHTTP("up", p.url, lines...) })
		})
	}
	t.Run("legacy sse", func(t *testing.T) {
		t.Parallel()
		url := strings.TrimSuffix(startFake(t, freeAddress(t), "legacy").url, "/mcp") + "/sse"
		test(t, func(lines ...string) string { return onHTTP("up", url, lines...) })
	})
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// failure is an error result's content.
type failure struct {
	Error, Message string
	Retryable      *bool
	Correctable    bool
	RetryAfterMs   int
	Issues         []struct{ Path string }
}

// failed checks that a call failed with the given code and retryability.
func failed(t *testing.T, m message, code string, retryable bool) failure {
	t.Helper()
	r := m.result(t)
	var f failure
	err := json.Unmarshal(r.failure(), &f)
	if code == "UNAVAILABLE" {
		retryable = f.RetryAfterMs > 0 // nothing ran in this case
	}
	if err != nil || !r.IsError || f.Error != code || f.Retryable == nil || *f.Retryable != retryable || f.Correctable != toolyard.Code(code).Correctable() {
		t.Errorf("it is not %s, retryable %v: %s", code, retryable, m.Result)
	}
	return f
}

// text returns a result's first text.
func text(t *testing.T, m message) string {
	t.Helper()
	r := m.result(t)
	if r.IsError || len(r.Content) == 0 {
		t.Errorf("it failed: %s", m.Result)
		return ""
	}
	return r.Content[0].Text
}

// report is the result of the fakemcp tools count and last.
type report struct {
	Server                       string
	Calls, Reads, Peak, Canceled int
	Tool                         string
	Arguments                    json.RawMessage
	Meta                         map[string]json.RawMessage
	Headers                      http.Header
	Env                          string
	PID                          int
}

func reported(t *testing.T, c client, tool string) (r report) {
	t.Helper()
	m := call(t, c, tool, "{}")
	if err := json.Unmarshal(m.result(t).Structured, &r); err != nil {
		t.Fatalf("%s: %s", tool, m.Result)
	}
	return r
}

// onceBegun calls act once another call is running on a server. It does not block.
func onceBegun(t *testing.T, c client, id string, act func()) {
	t.Helper()
	before := reported(t, c, "mcp_"+id+"__count").Calls
	go func() {
		soon(t, "the call has begun", func() bool { return reported(t, c, "mcp_"+id+"__count").Calls > before })
		act()
	}()
}

// problem reports whether the log contains a problem with the given words.
func (p *process) problem(words ...string) bool {
	p.t.Helper()
	return len(p.logged(1, func(l map[string]any) bool {
		whole := fmt.Sprint(l["problem"], " ", l["fix"])
		return l["msg"] == "problem" && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(whole, w) })
	})) > 0
}

// get fetches a page outside MCP.
func (p *process) get(path string) string {
	p.t.Helper()
	res, err := http.Get(strings.TrimSuffix(p.url, "/mcp") + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatal(path, res.Status, err)
	}
	return string(body)
}

func TestServerToolsAreListedBesideLocalTools(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", servers(onStdio("hyperliquid-info-mcp", "both")))
	for name, c := range eras(t, p) {
		tools := listTools(t, c)
		for _, want := range []string{"mcp_hyperliquid-info-mcp__echo", "fetch_recent_bars"} {
			if !slices.Contains(tools, want) {
				t.Errorf("%s: there is no %s in %v", name, want, tools)
			}
		}
		if got := text(t, call(t, c, "mcp_hyperliquid-info-mcp__echo", `{"text":"hi"}`)); got != "hi" {
			t.Errorf("%s: %q", name, got)
		}
	}
	var entries []struct{ Name, Category string }
	if err := json.Unmarshal([]byte(p.get("/api/tools/catalog")), &entries); err != nil {
		t.Fatal(err)
	}
	categories := make(map[string]string)
	for _, e := range entries {
		categories[e.Name] = e.Category
	}
	if got := categories["mcp_hyperliquid-info-mcp__echo"]; got != "external" {
		t.Errorf("its category is %q", got)
	}
	if _, ok := categories["fetch_recent_bars"]; !ok {
		t.Error("the catalog has no built-in tools beside it")
	}
}

func TestPlainNamesReachTheirServer(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", servers(onStdio("github.enterprise", "legacy"), onStdio("echo", "modern"))+
		"gates: {default: {mode: write, naming: dotted}, plain: {mode: write}}\n")
	for name, c := range eras(t, p) {
		for tool, want := range map[string][2]string{"github_enterprise__echo": {"github.enterprise", "echo"}, "echo__ping": {"echo", "ping"}} {
			if !slices.Contains(listTools(t, c), tool) {
				t.Errorf("%s: there is no %s", name, tool)
			}
			text(t, call(t, c, tool, `{"text":"x"}`))
			prefix, _, _ := strings.Cut(tool, "__")
			if got := reported(t, c, prefix+"__last"); got.Server != want[0] || got.Tool != want[1] {
				t.Errorf("%s: %s reached %s of %s", name, tool, got.Tool, got.Server)
			}
		}
	}
	if tools := listTools(t, modernHTTP{t: t, url: p.url + "/plain"}); !slices.Contains(tools, "mcp_github_enterprise__echo") || !slices.Contains(tools, "mcp_echo__ping") {
		t.Errorf("%v", tools)
	}
}

// The same server under two IDs is reported as a single problem. It is the same problem at each
// start, regardless of approvals and of which server connects first.
func TestOneServerUnderTwoIDsIsOneProblem(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"toolyard.yaml": servers(onStdio("one", "both"), onStdio("two", "both")) + "gates:\n  chat: {mode: read}\n  desk: {mode: write}\n",
	})
	for start := range 4 {
		_, out, errs := runIn(t, dir, nil, "toolyard", "check")
		if strings.Count(errs, "error: ") != 1 || !strings.Contains(errs, "error: gates chat, desk: servers one, two offer resources with the same URIs, and none of them is served: resource://data") {
			t.Errorf("start %d: %s%s", start, out, errs)
		}
	}
}

func TestInvalidServerIDsAreRefusedAtLoad(t *testing.T) {
	t.Parallel()
	good := onStdio("good", "both")
	for _, id := range []string{"my_server", "a..b", ".a", "a b", ""} {
		for _, command := range []string{"check", "serve"} {
			code, out, errs := run(t, "toolyard", servers(good, onStdio(id, "both")), command)
			if code != 1 || out != "" || !strings.Contains(errs, "toolyard.yaml:6:") || !strings.Contains(errs, strconv.Quote(id)) ||
				!strings.Contains(errs, "use letters, digits and -") {
				t.Errorf("%s with %q: exit %d, %q %q", command, id, code, out, errs)
			}
		}
	}
	p := serve(t, "toolyard", servers(good))
	c := modernHTTP{t: t, url: p.url}
	before := reported(t, c, "mcp_good__count").Calls
	p.configure(servers(good, onStdio("my_server", "both")))
	if refused := p.logged(1, func(l map[string]any) bool { return strings.Contains(fmt.Sprint(l["error"]), `"my_server"`) }); len(refused) == 0 {
		t.Error("the refusal is not logged")
	}
	text(t, call(t, c, "mcp_good__ping", "{}"))
	if got := reported(t, c, "mcp_good__count").Calls; got != before+1 {
		t.Errorf("the unaffected server was restarted: %d calls before, %d after", before, got)
	}
}

func TestNameCollisionKeepsTheEarlierTool(t *testing.T) {
	t.Parallel()
	config := scriptConfig + servers(onStdio("one", "both"))
	p := serveIn(t, folder(t, map[string]string{"tools/hello.ts": helloScript}), "toolyard", config)
	c := modernHTTP{t: t, url: p.url}
	if !slices.Contains(listTools(t, c), "mcp_one__a__b") || text(t, call(t, c, "mcp_one__a__b", "{}")) != "pong" {
		t.Error("a__b cannot be listed and called")
	}
	save(t, filepath.Join(p.dir, "tools/mcp_one__a__b.ts"), tool(`"stolen"`))
	if !p.problem("mcp_one__a__b", "one", "mcp_one__a__b.ts", "only") {
		t.Error("no problem names both origins")
	}
	if got := text(t, call(t, c, "mcp_one__a__b", "{}")); got != "pong" {
		t.Errorf("the newcomer took the name: %q", got)
	}

	fresh := serveIn(t, folder(t, map[string]string{"tools/mcp_one__a__b.ts": tool(`"stolen"`)}), "toolyard", config)
	if !fresh.problem("mcp_one__a__b", "one", "mcp_one__a__b.ts", "none is served") {
		t.Error("no problem names both origins")
	}
	if tools := listTools(t, modernHTTP{t: t, url: fresh.url}); slices.Contains(tools, "mcp_one__a__b") || !slices.Contains(tools, "mcp_one__echo") {
		t.Errorf("%v", tools)
	}
	if m := call(t, modernHTTP{t: t, url: fresh.url}, "mcp_one__a__b", "{}"); m.Error == nil {
		t.Errorf("one of the two can be called: %s", m.Result)
	}
}

func TestReadGateHidesUntrustedServerTools(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", servers(
		onStdio("none", "modern"), onStdio("hints", "modern", "trust: annotations"),
		onStdio("marked", "legacy", "effects: {rd: read}"), onStdio("all", "legacy", `effects: {"*": read, rm: write}`),
	)+twoGates)
	shown := func(gate string) (names []string) {
		for _, name := range listTools(t, modernHTTP{t: t, url: p.url + gate}) {
			if regexp.MustCompile("__(rd|rm|plain)$").MatchString(name) {
				names = append(names, name)
			}
		}
		return names
	}
	if diff := cmp.Diff([]string{"mcp_all__plain", "mcp_all__rd", "mcp_hints__rd", "mcp_marked__rd"}, shown("/chat")); diff != "" {
		t.Errorf("chat: %s", diff)
	}
	if got := shown("/trade"); len(got) != 12 {
		t.Errorf("trade: %v", got)
	}
	for name, c := range map[string]client{"2026-07-28": modernHTTP{t: t, url: p.url + "/chat"}, "2025-11-25": newLegacyHTTP(t, p.url+"/chat")} {
		for _, tool := range []string{"mcp_none__rd", "mcp_hints__rm", "mcp_hints__plain", "mcp_marked__rm", "mcp_all__rm"} {
			if m := call(t, c, tool, "{}"); m.Error == nil || !strings.Contains(string(m.Error.Data), "METHOD_NOT_FOUND") {
				t.Errorf("%s: a forged call of %s returned %s", name, tool, m.Result)
			}
		}
		if got := text(t, call(t, c, "mcp_hints__rd", "{}")); got != "pong" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestServerOverEveryTransport(t *testing.T) {
	t.Parallel()
	modern, legacy, both := startFake(t, freeAddress(t), "modern"), startFake(t, freeAddress(t), "legacy"), startFake(t, freeAddress(t), "both")
	sse := func(p *process) string { return strings.TrimSuffix(p.url, "/mcp") + "/sse" }
	p := serve(t, "toolyard", servers(
		onStdio("stdio-modern", "modern", "env: {TEST_ENV: given}", "transport: stdio"), onStdio("stdio-legacy", "legacy", "env: {TEST_ENV: given}"),
		onHTTP("http-modern", modern.url), onHTTP("http-legacy", legacy.url, "transport: http"), onHTTP("http-both", both.url),
		onHTTP("sse-said", sse(both), "transport: sse"), onHTTP("sse-found", sse(legacy)),
	))
	for name, c := range eras(t, p) {
		for _, id := range []string{"stdio-modern", "stdio-legacy", "http-modern", "http-legacy", "http-both", "sse-said", "sse-found"} {
			if got := text(t, call(t, c, "mcp_"+id+"__echo", `{"text":"hi"}`)); got != "hi" {
				t.Errorf("%s: %s: %q", name, id, got)
			}
			got := reported(t, c, "mcp_"+id+"__last")
			if want := map[bool]string{true: "given"}[strings.HasPrefix(id, "stdio")]; got.Env != want {
				t.Errorf("%s: %s sees %q", name, id, got.Env)
			}
			version := strings.Trim(string(got.Meta["io.modelcontextprotocol/protocolVersion"]), `"`)
			if modern := strings.HasSuffix(id, "modern") || id == "http-both"; modern != (version == "2026-07-28") {
				t.Errorf("%s: %s was contacted with version %q", name, id, version)
			}
		}
	}
}

func TestServerCredentialsNeverLeak(t *testing.T) {
	t.Parallel()
	const secret = "canary-of-ac33-5b1f"
	fake := startFake(t, freeAddress(t), "both")
	config := "log: {level: debug}\nsecrets: {token: \"env:AC33_TOKEN\"}\n" + servers(onHTTP("up", fake.url, "auth: {type: bearer, secretRef: token}"))
	p := serve(t, "toolyard", config, "AC33_TOKEN="+secret)
	for name, c := range eras(t, p) {
		text(t, call(t, c, "mcp_up__ping", "{}"))
		if got := reported(t, c, "mcp_up__last").Headers.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("%s: %q", name, got)
		}
	}
	code, out, errs := runIn(t, p.dir, []string{"AC33_TOKEN=" + secret}, "toolyard", "check")
	if code != 0 {
		t.Errorf("check: %s%s", out, errs)
	}
	catalog := p.get("/api/tools/catalog")
	fake.end()
	down := call(t, modernHTTP{t: t, url: p.url}, "mcp_up__ping", "{}")
	failed(t, down, "UNAVAILABLE", false)
	for name, where := range map[string]string{
		"catalog": catalog, "log": p.text(), "error": string(down.Result), "check": out + errs, "metrics": p.get("/metrics"),
	} {
		if strings.Contains(where, secret) {
			t.Errorf("the secret is in the %s: %s", name, where)
		}
	}
}

// text returns the whole log.
func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.String()
}

func TestServerOutsideTheCatalogIsRefused(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer web.Close()
	for _, pick := range []string{"nobody", "{id: nobody}", "{id: nobody, tools: [x]}", strconv.Quote(web.URL)} {
		config := servers(onHTTP("known", web.URL+"/mcp")) + fmt.Sprintf("toolsets:\n  mine: {servers: [%s]}\ngates:\n  default: {mode: write, toolset: mine}\n", pick)
		id := strings.Trim(strings.Split(strings.TrimPrefix(pick, "{id: "), ",")[0], `}"`)
		for _, command := range []string{"check", "tools", "serve"} {
			code, out, errs := run(t, "toolyard", config, command)
			if code != 1 || out != "" || !strings.Contains(errs, "toolyard.yaml:6:") || !strings.Contains(errs, id) {
				t.Errorf("%s with %s: exit %d, %q %q", command, pick, code, out, errs)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections were made for a configuration that is refused", n)
	}
}

func TestServerToolFilter(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", servers(
		onStdio("one", "modern", "tools: [echo]"), onStdio("absent", "legacy"), onStdio("empty", "modern", "tools: []"),
		onStdio("wrong", "modern", "tools: [Echo]"),
	)+`toolsets:
  bare: {servers: [one, absent]}
  picked: {servers: [{id: absent, tools: [ping, rd]}]}
gates: {default: {mode: write}, bare: {mode: write, toolset: bare}, picked: {mode: write, toolset: picked}}
`)
	of := func(gate, id string) (n int, names []string) {
		for _, name := range listTools(t, modernHTTP{t: t, url: p.url + gate}) {
			if tool, ok := strings.CutPrefix(name, "mcp_"+id+"__"); ok {
				names = append(names, tool)
			}
		}
		return len(names), names
	}
	if _, names := of("/default", "one"); !slices.Equal(names, []string{"echo"}) {
		t.Errorf("one: %v", names)
	}
	absent, all := of("/default", "absent")
	if empty, _ := of("/default", "empty"); absent < 15 || empty != absent {
		t.Errorf("absent shows %d, empty %d", absent, empty)
	}
	if n, names := of("/default", "wrong"); n != 0 {
		t.Errorf("wrong: %v", names)
	}
	if !p.problem("wrong", "Echo", "echo") {
		t.Errorf("there is no problem that suggests echo: %s", p.text())
	}
	if _, names := of("/bare", "absent"); !slices.Equal(names, all) {
		t.Errorf("a bare entry shows %v", names)
	}
	if n, _ := of("/bare", "empty"); n != 0 {
		t.Errorf("a server that is not in the toolset shows %d tools", n)
	}
	if _, names := of("/picked", "absent"); !slices.Equal(names, []string{"ping", "rd"}) {
		t.Errorf("picked: %v", names)
	}
}

// read reads a resource. The client also sends params.name as a header; for a resource, the header
// contains the URI.
func read(c client, uri string) message {
	m, _ := c.send("1", "resources/read", fmt.Sprintf(`{"uri":%q,"name":%[1]q}`, uri))
	return m
}

func TestServerResourceFilter(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", servers(onStdio("up", "modern", `resources: ["resource://data"]`))+"gates: {default: {mode: write}}\n")
	toolset := serve(t, "toolyard", servers(onStdio("up", "legacy", `resources: ["resource://data", "resource://item/*"]`))+
		"toolsets: {t: {servers: [{id: up, resources: [\"resource://data\"]}]}}\ngates: {default: {mode: write, toolset: t}}\n")
	for where, p := range map[string]*process{"server": p, "toolset": toolset} {
		for name, c := range eras(t, p) {
			if m := read(c, "resource://data"); m.Error != nil || !strings.Contains(string(m.Result), "this is data") {
				t.Errorf("%s, %s: %+v", where, name, m)
			}
			before := reported(t, c, "mcp_up__count").Reads
			for _, uri := range []string{"resource://secret", "resource://item/1", "resource://data/", "resource://data?x", "RESOURCE://data", "file:///etc/passwd"} {
				if m := read(c, uri); m.Error == nil {
					t.Errorf("%s, %s: %s can be read: %s", where, name, uri, m.Result)
				}
			}
			if got := reported(t, c, "mcp_up__count").Reads; got != before {
				t.Errorf("%s, %s: %d refused reads reached the server", where, name, got-before)
			}
			list, _ := c.send("1", "resources/list", "")
			if !strings.Contains(string(list.Result), `"resource://data"`) || strings.Contains(string(list.Result), "resource://secret") {
				t.Errorf("%s, %s: %s", where, name, list.Result)
			}
		}
	}
}

func TestServerCallTimesOut(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", servers(
		onStdio("default", "modern"), onStdio("short", "legacy", "limits: {timeout: 500ms}"), onStdio("tool", "modern", "timeouts: {sleep: 700ms}"),
	))
	var wg sync.WaitGroup
	for id, limit := range map[string]time.Duration{"default": 10 * time.Second, "short": 500 * time.Millisecond, "tool": 700 * time.Millisecond} {
		wg.Go(func() {
			c, start := modernHTTP{t: t, url: p.url}, time.Now()
			m := call(t, c, "mcp_"+id+"__sleep", `{"ms":60000}`)
			if took := time.Since(start); took < limit-50*time.Millisecond || took > limit+40*time.Second {
				t.Errorf("%s: it took %v", id, took)
			}
			failed(t, m, "TIMEOUT", false)
			soon(t, "the server is told", func() bool { return reported(t, c, "mcp_"+id+"__count").Canceled == 1 })
		})
		wg.Go(func() {
			var took []time.Duration
			for range 20 {
				start := time.Now()
				text(t, call(t, modernHTTP{t: t, url: p.url}, "mcp_"+id+"__ping", "{}"))
				took = append(took, time.Since(start))
				time.Sleep(20 * time.Millisecond)
			}
			slices.Sort(took)
			if median := took[len(took)/2]; median > 5*time.Second {
				t.Errorf("%s: other calls took %v in the meantime", id, median)
			}
		})
	}
	wg.Wait()
}

// Of five calls, two run and three wait, and another server is not affected.
func TestServerConcurrencyIsLimited(t *testing.T) {
	t.Parallel()
	fake := startFake(t, freeAddress(t), "modern")
	p := serve(t, "toolyard", servers(
		onHTTP("a", fake.url, "limits: {concurrency: 2, timeout: 2m}"), onHTTP("a-unlimited", fake.url), onStdio("b", "modern"),
	))
	c := modernHTTP{t: t, url: p.url}
	seen := func() report { return reported(t, c, "mcp_a-unlimited__count") }
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if res, err := c.post(ctx, "1", "tools/call", `{"name":"mcp_a__sleep","arguments":{"ms":100000}}`); err == nil {
				_ = res.Body.Close()
				t.Error("a call ended")
			}
		})
	}
	soon(t, "two calls have begun", func() bool { return seen().Calls >= 2 })
	text(t, call(t, c, "mcp_b__ping", "{}"))
	time.Sleep(300 * time.Millisecond) // gives further calls time to begin
	if got := seen(); got.Calls != 2 {
		t.Errorf("%d calls have begun", got.Calls)
	}
	cancel()
	wg.Wait()
	for range 5 {
		wg.Go(func() { text(t, call(t, c, "mcp_a__sleep", `{"ms":50}`)) })
	}
	wg.Wait()
	if got := seen().Peak; got != 2 {
		t.Errorf("%d calls ran concurrently", got)
	}
}

func TestArgumentSizeIsLimited(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured("limits: {args: 1KiB}")))
		for name, c := range eras(t, p) {
			args := func(size int) string {
				return `{"text":"` + strings.Repeat("x", size-len(`{"text":""}`)) + `"}`
			}
			before := reported(t, c, "mcp_up__count").Calls
			failed(t, call(t, c, "mcp_up__echo", args(1025)), "SIZE_LIMIT", false)
			if got := reported(t, c, "mcp_up__count").Calls; got != before {
				t.Errorf("%s: a refused call reached the server", name)
			}
			if got := text(t, call(t, c, "mcp_up__echo", args(1024))); len(got) != 1013 {
				t.Errorf("%s: %d bytes came back", name, len(got))
			}
			if got := reported(t, c, "mcp_up__count").Calls; got != before+1 {
				t.Errorf("%s: %d calls", name, got-before)
			}
		}
	})
}

func TestOversizedResultIsTruncated(t *testing.T) {
	t.Parallel()
	const limit = 4096
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured("limits: {result: 4KiB}")))
		for name, c := range eras(t, p) {
			for _, n := range []int{10 * limit, 3 << 20} {
				m := call(t, c, "mcp_up__big", fmt.Sprintf(`{"n":%d}`, n))
				var size int
				r := m.result(t)
				for _, item := range r.Content {
					size += len(item.Text)
				}
				if r.IsError || size == 0 || size > limit {
					t.Errorf("%s: %d bytes of content for %d: %.300s", name, size, n, m.Result)
				}
				var truncated struct{ Size int }
				if err := json.Unmarshal(r.Meta["dev.toolyard/truncated"], &truncated); err != nil || truncated.Size < n || truncated.Size > n+1000 {
					t.Errorf("%s: the mark is %s", name, r.Meta["dev.toolyard/truncated"])
				}
			}
			if got := text(t, call(t, c, "mcp_up__big", `{"n":3000}`)); len(got) != 3000 {
				t.Errorf("%s: %d bytes for what fits", name, len(got))
			}
		}
	})
}

// children returns a process's child processes, optionally only those of some programs.
func children(t *testing.T, parent int, programs ...string) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
		fields := strings.Fields(string(data[end+1:]))
		wanted := len(programs) == 0 || slices.Contains(programs, string(data[open+1:end]))
		if wanted && fields[1] == strconv.Itoa(parent) && fields[0] != "Z" {
			pid, _ := strconv.Atoi(strings.TrimSpace(string(data[:open])))
			pids = append(pids, pid)
		}
	}
	return pids
}

// runs reports whether a process exists and is not a zombie, which its new parent may never reap.
func runs(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	end := bytes.LastIndexByte(data, ')')
	return err == nil && end >= 0 && !strings.HasPrefix(string(data[end+1:]), " Z")
}

// The delays between restarts of an unresponsive server double, apart from jitter.
func TestRestartPausesGrow(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	serve(t, "toolyard", servers(server("up", "command: sh", fmt.Sprintf("args: [-c, %q]", "date +%s%N >> "+starts+"; exit 1"), "required: false")))
	const n = 13 // two requests for each attempt, one for each era, with delays of 20, 40, 80, 160, 320 and 640 ms
	var times []int64
	soon(t, "the server was started again and again", func() bool {
		data, _ := os.ReadFile(starts)
		times = nil
		for line := range strings.FieldsSeq(string(data)) {
			ns, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				return false // the line is incomplete
			}
			times = append(times, ns)
		}
		return len(times) >= n
	})
	first, second := time.Duration(times[6]-times[0]), time.Duration(times[12]-times[6])
	if second < 500*time.Millisecond { // half of 160, 320 and 640 ms
		t.Errorf("the first three attempts took %v, the next three %v", first, second)
	}
}

func TestServerCrashFailsTheCallAndRestarts(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			p := serve(t, "testyard", servers(onStdio("up", era, "env: {TEST_NOTE: the last words}", "limits: {timeout: 2m}"), onStdio("other", era)))
			c := modernHTTP{t: t, url: p.url}
			alone := func() int {
				soon(t, "there are two children", func() bool { return len(children(t, p.cmd.Process.Pid, "fakemcp")) == 2 })
				return reported(t, c, "mcp_up__last").PID
			}
			back := func() {
				soon(t, "the server is back", func() bool { return !call(t, c, "mcp_up__ping", "{}").result(t).IsError })
			}
			text(t, call(t, c, "mcp_up__spill", `{"how":"stderr","pad":0}`))
			pid := alone()

			onceBegun(t, c, "up", func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
			m := call(t, c, "mcp_up__sleep", `{"ms":300000}`)
			if f := failed(t, m, "UNAVAILABLE", false); !strings.Contains(f.Message, "the last words") {
				t.Errorf("the message lacks the last output of the server: %s", f.Message)
			}
			text(t, call(t, c, "mcp_other__ping", "{}"))
			text(t, call(t, c, "echo", `{"text":"hi"}`))
			back()

			var f failure
			for range 3 { // a busy machine may be slow to read the last output
				f = failed(t, call(t, c, "mcp_up__die", "{}"), "UNAVAILABLE", false)
				back()
				if strings.Contains(f.Message, "dying as asked") {
					break
				}
			}
			if !strings.Contains(f.Message, "dying as asked") {
				t.Errorf("the message lacks the last output of the server: %s", f.Message)
			}
			if alone() == pid {
				t.Error("it is the same process")
			}
			if tools := listTools(t, c); !slices.Contains(tools, "mcp_up__echo") {
				t.Errorf("the tools are not back: %v", tools)
			}
		})
	}
}

// faulty forwards requests to a server, or responds with a status and a misleading text.
type faulty struct {
	status atomic.Int32
	*httptest.Server
}

const misleading = "invalid connection type: required argument, timeout, not found"

func newFaulty(t *testing.T, target string) *faulty {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := new(faulty)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: u.Scheme, Host: u.Host})
	proxy.FlushInterval = -1
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(f.status.Load()); status != 0 {
			http.Error(w, misleading, status)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func TestRetryableFollowsTheCause(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			gone, behind := startFake(t, freeAddress(t), era), startFake(t, freeAddress(t), era)
			proxy := newFaulty(t, behind.url)
			p := serve(t, "toolyard", servers(onHTTP("gone", gone.url), onHTTP("up", proxy.URL+"/mcp", "timeouts: {sleep: 500ms}")))
			gone.end()
			for name, c := range eras(t, p) {
				for fault, tt := range map[string]struct{ args, path string }{
					"missing field":    {`{"symbol":"invalid connection type","side":"buy"}`, "quantity"},
					"wrong type":       {`{"symbol":1,"side":"buy","quantity":1}`, "symbol"},
					"bad enum":         {`{"symbol":"invalid connection type","side":"timeout","quantity":1}`, "side"},
					"schema violation": {`{"symbol":"invalid connection type","side":"sell","quantity":0}`, "quantity"},
				} {
					f := failed(t, call(t, c, "mcp_up__order", tt.args), "VALIDATION_ERROR", false)
					if len(f.Issues) != 1 || f.Issues[0].Path != tt.path {
						t.Errorf("%s: %s: %+v", name, fault, f)
					}
				}
				failed(t, call(t, c, "mcp_gone__echo", `{"text":"invalid arguments"}`), "UNAVAILABLE", false)
				failed(t, call(t, c, "mcp_up__sleep", `{"ms":60000}`), "TIMEOUT", false)
				for status, code := range map[int32]string{401: "AUTHENTICATION_ERROR", 503: "UNAVAILABLE"} {
					proxy.status.Store(status)
					failed(t, call(t, c, "mcp_up__ping", `{}`), code, false)
					proxy.status.Store(0)
					soon(t, "the server is used again", func() bool { return !call(t, c, "mcp_up__ping", "{}").result(t).IsError })
				}
			}
		})
	}
}

// listeners returns a client of each era that listens for tool changes.
func listeners(t *testing.T, p *process) map[string]<-chan message {
	t.Helper()
	res, err := modernHTTP{t: t, url: p.url}.post(t.Context(), `"s"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	streams := map[string]<-chan message{"2026-07-28": follow(t, res), "2025-11-25": newLegacyHTTP(t, p.url).listen()}
	<-streams["2026-07-28"] // reads the acknowledgement
	return streams
}

// If the server is not pinned, clients see a new tool immediately.
func TestUpstreamListChanged(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured("pin: off")))
		c, streams := modernHTTP{t: t, url: p.url}, listeners(t, p)
		text(t, call(t, c, "mcp_up__grow", "{}"))
		notifiedOfChange(t, streams)
		if got := text(t, call(t, c, "mcp_up__grown", "{}")); got != "new" {
			t.Errorf("%q", got)
		}
		text(t, call(t, c, "mcp_up__mutate", "{}"))
		notifiedOfChange(t, streams)
		if m, _ := c.send("1", "tools/list", ""); !strings.Contains(string(m.Result), "Does something else now.") {
			t.Error("the new description is not listed")
		}
	})
}

// A pinned server's new and changed tools are withheld until they are approved.
func TestUpstreamApproval(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		c := modernHTTP{t: t, url: p.url}
		if _, err := os.Stat(filepath.Join(p.dir, "toolyard.lock")); err != nil {
			t.Errorf("the first offer is not pinned: %v", err)
		}
		text(t, call(t, c, "mcp_up__grow", "{}"))
		if !p.problem("grown", "approve") {
			t.Errorf("no problem reports that grown is new: %s", p.text())
		}
		text(t, call(t, c, "mcp_up__mutate", "{}"))
		if !p.problem("plain", "approve") {
			t.Errorf("no problem reports that plain has changed: %s", p.text())
		}
		for _, tool := range []string{"mcp_up__grown", "mcp_up__plain"} {
			if m := call(t, c, tool, "{}"); m.Error == nil && !m.result(t).IsError {
				t.Errorf("%s is served: %s", tool, m.Result)
			}
		}
		text(t, call(t, c, "mcp_up__echo", `{"text":"the others go on"}`))

		if strings.Contains(configured(), "command:") {
			return // the approving process would start its own copy of the server, which has not changed
		}
		approve(t, p)
	})
}

// approve lists the changes in the server up, checks that listing approves nothing, and then
// approves them.
func approve(t *testing.T, p *process) {
	t.Helper()
	c := modernHTTP{t: t, url: p.url}
	for how, want := range map[string]int{"--list": 1, "--yes=false": 1} { // lists the changes but does not approve them
		if code, out, errs := runIn(t, p.dir, nil, "toolyard", "approve", how, "up"); code != want || !strings.Contains(out, "grown") {
			t.Errorf("approve %s: exit %d: %s%s", how, code, out, errs)
		}
	}
	if m := call(t, c, "mcp_up__grown", "{}"); m.Error == nil {
		t.Errorf("it is served before it is approved: %s", m.Result)
	}
	streams := listeners(t, p)
	code, out, errs := runIn(t, p.dir, nil, "toolyard", "approve", "--yes", "up")
	for _, want := range []string{"grown", "plain", "Does what plain does.", "Does something else now."} {
		if code != 0 || !strings.Contains(out+errs, want) {
			t.Errorf("approve: exit %d, without %q: %s%s", code, want, out, errs)
		}
	}
	notifiedOfChange(t, streams)
	for tool, want := range map[string]string{"mcp_up__grown": "new", "mcp_up__plain": "changed"} {
		soon(t, tool+" is served", func() bool {
			m := call(t, c, tool, "{}")
			return m.Error == nil && strings.Contains(string(m.Result), want)
		})
	}
}

// With pin: approve, no tool is served before it is approved.
func TestUpstreamApprovalOfAll(t *testing.T) {
	t.Parallel()
	config := servers(onStdio("up", "both", "pin: approve", "required: false"))
	p := serve(t, "toolyard", config)
	c := modernHTTP{t: t, url: p.url}
	if !p.problem("up", "approve") {
		t.Errorf("no problem has a fix: %s", p.text())
	}
	if slices.ContainsFunc(listTools(t, c), func(name string) bool { return strings.HasPrefix(name, "mcp_up__") }) {
		t.Error("it is served")
	}
	if code, out, errs := runIn(t, p.dir, nil, "toolyard", "approve", "--yes", "up"); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	soon(t, "it is served", func() bool { return slices.Contains(listTools(t, c), "mcp_up__echo") })
}

// Approvals survive a restart, and approved tools are listed while the server is down.
func TestUpstreamPinsSurviveARestart(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	fake := startFake(t, address, "both")
	config := servers(onHTTP("up", fake.url, "required: false"))
	first := serve(t, "toolyard", config)
	soon(t, "the tools are there", func() bool {
		return slices.Contains(listTools(t, modernHTTP{t: t, url: first.url}), "mcp_up__plain")
	})
	first.end()
	other := serve(t, "toolyard", servers(onHTTP("up", fake.url)))
	text(t, call(t, modernHTTP{t: t, url: other.url}, "mcp_up__mutate", "{}"))

	second := serveIn(t, first.dir, "toolyard", config)
	if !second.problem("plain", "approve") {
		t.Errorf("no problem reports that plain has changed: %s", second.text())
	}
	soon(t, "the changed tool is withheld, and others are served", func() bool {
		tools := listTools(t, modernHTTP{t: t, url: second.url})
		return !slices.Contains(tools, "mcp_up__plain") && slices.Contains(tools, "mcp_up__echo")
	})
	second.end()
	fake.end()

	third := serveIn(t, first.dir, "toolyard", config)
	c := modernHTTP{t: t, url: third.url}
	soon(t, "approved tools are listed while the server is down", func() bool { return slices.Contains(listTools(t, c), "mcp_up__echo") })
	failed(t, call(t, c, "mcp_up__ping", "{}"), "UNAVAILABLE", false)
}

// A changed configuration starts and stops only the affected servers.
func TestUpstreamReload(t *testing.T) {
	t.Parallel()
	stays := onStdio("stays", "both")
	p := serve(t, "toolyard", servers(stays))
	c := modernHTTP{t: t, url: p.url}
	pid := func() int {
		text(t, call(t, c, "mcp_stays__ping", "{}"))
		return reported(t, c, "mcp_stays__last").PID
	}
	before := pid()
	p.configure(servers(stays, onStdio("comes", "both", "tools: [ping]")))
	soon(t, "the new server is there", func() bool { return slices.Contains(listTools(t, c), "mcp_comes__ping") })
	p.configure(servers(stays, onStdio("comes", "both", "tools: [ping, rd]")))
	soon(t, "it shows another tool", func() bool { return slices.Contains(listTools(t, c), "mcp_comes__rd") })
	p.configure(servers(stays))
	soon(t, "it is gone", func() bool { return !slices.Contains(listTools(t, c), "mcp_comes__ping") })
	soon(t, "its process is gone", func() bool { return len(children(t, p.cmd.Process.Pid, "fakemcp")) == 1 })
	if pid() != before {
		t.Error("the other server was restarted")
	}
}

// A server's response reaches the client unchanged.
func TestUpstreamFidelity(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		for name, c := range eras(t, p) {
			m := call(t, c, "mcp_up__odd", "{}")
			if m.Error != nil {
				t.Errorf("%s: %+v", name, m.Error)
				continue
			}
			for _, want := range []string{
				`"future":{"zeta":1,"alpha":[2]}`,
				`"content":[{"type":"text","text":"<b>&amp;</b>","zone":9007199254740993},{"type":"hologram","depth":18446744073709551617,"data":"%%","angle":1.10}]`,
				`"structuredContent":{"zeta":1,"alpha":9007199254740993,"price":1.10,"more":{"b":[1E+2,-0.0],"a":"<p>"}}`,
				`"com.example/count":9007199254740993`,
			} {
				if !strings.Contains(string(m.Result), want) {
					t.Errorf("%s: without %s: %s", name, want, m.Result)
				}
			}
		}
	})
}

func TestUpstreamProgress(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		modern := modernHTTP{t: t, url: p.url, meta: `,"progressToken":9007199254740993`}
		_, before := modern.send("1", "tools/call", `{"name":"mcp_up__progress","arguments":{"n":5}}`)
		told(t, "2026-07-28", before, 5, "9007199254740993")
		_, before = newLegacyHTTP(t, p.url).send("1", "tools/call", `{"name":"mcp_up__progress","arguments":{"n":5},"_meta":{"progressToken":"mine"}}`)
		told(t, "2025-11-25", before, 5, `"mine"`)
		if _, before := (modernHTTP{t: t, url: p.url}).send("1", "tools/call", `{"name":"mcp_up__progress","arguments":{"n":5}}`); len(before) > 0 {
			t.Errorf("progress was reported without a token: %+v", before)
		}
	})
}

// told checks that progress was reported n times, in order and with the client's token.
func told(t *testing.T, name string, before []message, n int, token string) {
	t.Helper()
	if len(before) != n {
		t.Errorf("%s: told %d times", name, len(before))
	}
	for i, m := range before {
		var p struct {
			ProgressToken   json.RawMessage
			Progress, Total float64
			Message         string
		}
		if err := json.Unmarshal(m.Params, &p); err != nil || m.Method != "notifications/progress" || string(p.ProgressToken) != token ||
			p.Progress != float64(i+1) || p.Total != float64(n) || p.Message != fmt.Sprint("step ", i+1) {
			t.Errorf("%s: %s %s", name, m.Method, m.Params)
		}
	}
}

// If the client disconnects or cancels a call, the call is canceled on the server.
func TestUpstreamCancellation(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured("limits: {timeout: 2m}")))
		c := modernHTTP{t: t, url: p.url}
		const params = `{"name":"mcp_up__sleep","arguments":{"ms":300000}}`
		ctx, cancel := context.WithCancel(t.Context())
		onceBegun(t, c, "up", cancel)
		if res, err := c.post(ctx, "1", "tools/call", params); err == nil {
			_ = res.Body.Close()
			t.Error("the call ended")
		}
		soon(t, "the modern client's end is seen", func() bool { return reported(t, c, "mcp_up__count").Canceled == 1 })

		legacy := newLegacyHTTP(t, p.url)
		onceBegun(t, c, "up", func() {
			_ = (&legacyHTTP{t: t, url: p.url, session: legacy.session}).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).Body.Close()
		})
		res := legacy.post(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params + `}`)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		soon(t, "the legacy client's word is seen", func() bool { return reported(t, c, "mcp_up__count").Canceled == 2 })
		text(t, call(t, c, "mcp_up__ping", "{}"))
	})
}

// A server can ask the user in all combinations of eras, through official clients.
func TestUpstreamElicitation(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		for _, client := range []string{"ask-legacy.mjs", "ask-modern.mjs"} {
			for answer, want := range map[string]string{"Ann": "Hello, Ann!", "": "decline"} {
				out, err := node(t, script(t, client), p.url, "mcp_up__ask", answer)
				var got struct {
					Asked []string
					Text  string
				}
				if err != nil || json.Unmarshal([]byte(out), &got) != nil {
					t.Errorf("%s: %v %s", client, err, out)
					continue
				}
				if !slices.Equal(got.Asked, []string{"Who are you?"}) || got.Text != want {
					t.Errorf("%s: %+v", client, got)
				}
			}
		}
		// A client that does not support elicitation gets an error, and the server does not wait.
		for name, c := range eras(t, p) {
			start := time.Now()
			if m := call(t, c, "mcp_up__ask", "{}"); m.Error == nil && !m.result(t).IsError || time.Since(start) > time.Minute {
				t.Errorf("%s: after %v: %s", name, time.Since(start), m.Result)
			}
		}
	})
}

// asking is a modern client that answers questions.
type asking struct {
	t        *testing.T
	url, key string
}

// call calls a tool. more contains additional members of the params, each preceded by a comma. It
// returns the result's text, or the questions and their state.
func (a asking) call(tool, more string) (text, question, state string) {
	a.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}},"name":%q,"arguments":{}%s}}`, tool, more)
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.url, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": tool, "Authorization": "Bearer " + a.key,
	} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	m, _ := lastOf(a.t, readMessages(a.t, res))
	var result struct {
		Content       []struct{ Text string }
		InputRequests map[string]json.RawMessage
		RequestState  string
	}
	if m.Error != nil {
		return "error: " + m.Error.Message, "", ""
	}
	if err := json.Unmarshal(m.Result, &result); err != nil {
		a.t.Fatalf("%s: %v", m.Result, err)
	}
	for key := range result.InputRequests {
		return "", key, result.RequestState
	}
	return result.Content[0].Text, "", ""
}

// answer returns the members that answer a call's question.
func answer(question, state, name string) string {
	return fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"name":%q}}},"requestState":%q`, question, name, state)
}

// A question can be answered only by its caller, once, and only for its own call.
func TestUpstreamQuestionsAreKeptApart(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "testyard", servers(configured()), "TESTYARD_KEYS=a=ann b=bob")
		ann, bob := asking{t, p.url, "a"}, asking{t, p.url, "b"}
		_, question, state := ann.call("mcp_up__ask", "")
		if question == "" || state == "" {
			t.Fatal("ann is not asked")
		}
		// If all messages share one stream, a second question cannot be distinguished from the
		// first, so no question is asked.
		oneStream := regexp.MustCompile("/sse|-era, legacy").MatchString(configured())
		refused, other, bobs := bob.call("mcp_up__ask", "")
		if asked := other != ""; asked == oneStream {
			t.Errorf("bob: asked %v: %q", asked, refused)
		}
		for what, text := range map[string]func() (string, string, string){
			"bob with ann's state":     func() (string, string, string) { return bob.call("mcp_up__ask", answer(question, state, "Eve")) },
			"ann for another tool":     func() (string, string, string) { return ann.call("mcp_up__echo", answer(question, state, "Eve")) },
			"a state that was changed": func() (string, string, string) { return ann.call("mcp_up__ask", answer(question, state+"x", "Eve")) },
			"a state of nobody":        func() (string, string, string) { return ann.call("mcp_up__ask", answer(question, "asked", "Eve")) },
		} {
			if got, _, _ := text(); strings.Contains(got, "Eve") {
				t.Errorf("%s: %q", what, got)
			}
		}
		if got, _, _ := bob.call("mcp_up__ask", answer(other, bobs, "Bob")); got != "Hello, Bob!" && !oneStream {
			t.Errorf("bob: %q", got)
		}
		if got, _, _ := ann.call("mcp_up__ask", answer(question, state, "Ann")); got != "Hello, Ann!" {
			t.Errorf("ann: %q", got)
		}
	})
}

// A client that starts Toolyard itself also sees the servers and their questions.
func TestUpstreamOnStdio(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"toolyard.yaml": servers(onStdio("modern", "modern"), onStdio("legacy", "legacy"))})
	for _, modern := range []bool{true, false} {
		c := newStdioIn(t, dir, nil, "toolyard", modern)
		for _, id := range []string{"modern", "legacy"} {
			if got := text(t, call(t, c, "mcp_"+id+"__echo", `{"text":"hi"}`)); got != "hi" {
				t.Errorf("modern %v: %s: %q", modern, id, got)
			}
		}
	}
	for _, client := range []string{"ask-legacy.mjs", "ask-modern.mjs"} {
		for _, id := range []string{"modern", "legacy"} {
			out, err := node(t, script(t, client), filepath.Join(bin, "toolyard"), "mcp_"+id+"__ask", "Ann", filepath.Join(dir, "toolyard.yaml"))
			if err != nil || !strings.Contains(out, "Hello, Ann!") {
				t.Errorf("%s, %s: %v %s", client, id, err, out)
			}
		}
	}
}

// Connection-specific metadata is not forwarded; the trace context is.
func TestUpstreamMeta(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	const own = `"traceparent":"00-` + trace + `-00f067aa0ba902b7-01","tracestate":"vendor=1","baggage":"k=v"`
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		modern := modernHTTP{t: t, url: p.url, meta: `,"io.modelcontextprotocol/clientInfo":{"name":"nosy","version":"1"},"progressToken":"mine",` + own}
		legacy := newLegacyHTTP(t, p.url)
		for name, send := range map[string]func(){
			"2026-07-28": func() { modern.send("1", "tools/call", `{"name":"mcp_up__ping","arguments":{}}`) },
			"2025-11-25": func() {
				legacy.send("1", "tools/call", `{"name":"mcp_up__ping","arguments":{},"_meta":{"progressToken":"mine",`+own+`}}`)
			},
		} {
			send()
			got := reported(t, legacy, "mcp_up__last").Meta
			if parent := string(got["traceparent"]); !strings.Contains(parent, trace) {
				t.Errorf("%s: the trace is %s", name, parent)
			}
			if string(got["tracestate"]) != `"vendor=1"` || string(got["baggage"]) != `"k=v"` {
				t.Errorf("%s: the trace context is lost: %s", name, got)
			}
			if strings.Contains(string(got["io.modelcontextprotocol/clientInfo"]), "nosy") || string(got["progressToken"]) == `"mine"` {
				t.Errorf("%s: hop metadata was forwarded: %s", name, got)
			}
		}
	})
}

// A server that does not respond at startup does not delay other servers.
func TestUpstreamHangs(t *testing.T) {
	t.Parallel()
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	start := time.Now()
	p := serve(t, "testyard", servers(
		server("silent", "command: sleep", `args: ["1000"]`, "required: false"), onHTTP("deaf", "http://"+deaf.Addr().String()+"/mcp", "required: false"),
		server("missing", "command: no-such-program-here", "required: false"), onStdio("good", "both"),
	))
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it was ready after %v", took)
	}
	c := modernHTTP{t: t, url: p.url}
	text(t, call(t, c, "echo", `{"text":"hi"}`))
	text(t, call(t, c, "mcp_good__ping", "{}"))
	if !p.problem("missing", "no-such-program-here") {
		t.Errorf("no problem reports that the program is missing: %s", p.text())
	}
	var started []int
	soon(t, "it has two children", func() bool {
		started = children(t, p.cmd.Process.Pid, "fakemcp", "sleep")
		return len(started) == 2
	})
	p.signal(syscall.SIGTERM)
	timer := time.AfterFunc(time.Minute, p.end)
	defer timer.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it did not exit cleanly: %v", err)
	}
	for _, pid := range started {
		soon(t, fmt.Sprintf("its child %d has ended", pid), func() bool { return !runs(pid) })
	}
}

// Servers end with the process that started them, no matter how it ends.
func TestUpstreamEndsWithUs(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", servers(onStdio("good", "both"), server("deaf", "command: sleep", `args: ["1000"]`, "required: false")))
	var started []int
	soon(t, "both servers have started", func() bool {
		started = children(t, p.cmd.Process.Pid, "fakemcp", "sleep")
		return len(started) == 2
	})
	p.signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
	for _, pid := range started {
		soon(t, fmt.Sprintf("its child %d ends", pid), func() bool { return !runs(pid) })
	}
}

// A yard is not ready until its required servers are.
func TestUpstreamRequired(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	p := &process{t: t, dir: t.TempDir()}
	p.configure(servers(onHTTP("late", "http://"+address+"/mcp")))
	own := freeAddress(t)
	p.url = "http://" + own + "/mcp"
	p.launch("toolyard", nil, "serve", "--listen", own)
	base := "http://" + own
	soon(t, "it is alive", func() bool {
		res, err := http.Get(base + "/healthz")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	time.Sleep(500 * time.Millisecond)
	res, err := http.Get(base + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode == http.StatusOK {
		t.Error("it is ready without a required server")
	}
	startFake(t, address, "both")
	p.await(p.url)
	text(t, call(t, modernHTTP{t: t, url: p.url}, "mcp_late__ping", "{}"))
}

// A server that was restarted, or that lost the session, is used again, with no action by clients.
func TestUpstreamRecovers(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			address := freeAddress(t)
			fake := startFake(t, address, era)
			p := serve(t, "toolyard", servers(onHTTP("up", fake.url), onHTTP("sse", "http://"+address+"/sse", "transport: sse")))
			for name, c := range eras(t, p) {
				text(t, call(t, c, "mcp_up__ping", "{}"))
				res, err := http.Post("http://"+address+"/forget", "", nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if got := text(t, call(t, c, "mcp_up__ping", "{}")); got != "pong" {
					t.Errorf("%s: the first call after losing the session: %q", name, got)
				}
				fake.end()
				failed(t, call(t, c, "mcp_up__ping", "{}"), "UNAVAILABLE", false)
				fake = startFake(t, address, era)
				for _, tool := range []string{"mcp_up__ping", "mcp_sse__ping"} {
					soon(t, name+": the server is used again", func() bool { return !call(t, c, tool, "{}").result(t).IsError })
				}
			}
		})
	}
}

// The servers' prompts and resource templates are passed through.
func TestUpstreamPromptsAndTemplates(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		for name, c := range eras(t, p) {
			for _, tt := range []struct{ method, params, want string }{
				{"prompts/list", "", `"mcp_up__greet"`},
				{"prompts/get", `{"name":"mcp_up__greet","arguments":{"name":"Ann"}}`, "Say hello to Ann."},
				{"resources/list", "", `"resource://secret"`},
				{"resources/templates/list", "", `"resource://item/{id}"`},
				{"resources/read", `{"uri":"resource://item/7","name":"resource://item/7"}`, "this is item/7"},
			} {
				if m, _ := c.send("1", tt.method, tt.params); m.Error != nil || !strings.Contains(string(m.Result), tt.want) {
					t.Errorf("%s: %s: error %+v, result %s, want %s", name, tt.method, m.Error, m.Result, tt.want)
				}
			}
		}
	})
}
