package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Raw JSON from a source is delivered unchanged in both eras and over both transports.
func TestByteFidelity(t *testing.T) {
	t.Parallel()
	const want = `{"zeta":1,"content":[{"type":"hologram","beam":1.10,"<&>":"é\u00e9"},{"type":"text","text":"hi","later":9007199254740993}],` +
		`"structuredContent":{"zeta":1,"alpha":9007199254740993,"f":1.10,"e":1E2},"_meta":{"z":9007199254740993,"a":null},"resultType":"complete","future":{"b":1,"a":2}}`
	for name, c := range clients(t, serve(t, "testyard", "")) {
		// Toolyard sets only the members that belong to this connection: resultType, and the server
		// in _meta.
		want, ours := strings.Replace(want, `"resultType":"complete",`, "", 1), regexp.MustCompile(`"resultType":"complete",|"io.modelcontextprotocol/serverInfo":\{[^}]*\},|"dev.toolyard/call":"\w+",`)
		if m := call(t, c, "fidelity", "{}"); ours.ReplaceAllString(string(m.Result), "") != want {
			t.Errorf("%s:\n got %s\nwant %s", name, m.Result, want)
		}
	}
}

// IDs and progress tokens are returned byte for byte.
func TestBigIDsSurvive(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t, serve(t, "testyard", bothStyles)) {
		for _, id := range []string{"9007199254740993", "1152921504606846977", "-9007199254740993", "9223372036854775807", `"text"`, `"9007199254740993"`, "0"} {
			params := `{"name":"test_tool_with_progress","_meta":{"progressToken":9007199254740995}}`
			if strings.HasPrefix(name, "2026") { // TestProgressAndLog covers the token in this era
				params = `{"name":"echo","arguments":{"text":"9007199254740993"}}`
			}
			m, before := c.send(id, "tools/call", params)
			if strings.HasPrefix(name, "2025") && (len(before) != 3 || !strings.Contains(string(before[2].Params), `"progressToken":9007199254740995`)) {
				t.Errorf("%s: progress %+v", name, before)
			}
			if string(m.ID) != id {
				t.Errorf("%s: ID %s was returned as %s", name, id, m.ID)
			}
		}
	}
}

func TestProgressAndLog(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	c := modernHTTP{t: t, url: p.url, meta: `,"progressToken":9007199254740995,"io.modelcontextprotocol/logLevel":"info"`}
	m, before := c.send("1", "tools/call", `{"name":"test_tool_with_progress"}`)
	if m.result(t).IsError || len(before) != 3 || string(before[1].Params) != `{"progressToken":9007199254740995,"progress":50,"total":100}` {
		t.Errorf("%+v", before)
	}
	if _, before := c.send("1", "tools/call", `{"name":"test_tool_with_logging"}`); len(before) != 3 || string(before[0].Params) != `{"data":"Tool execution started","level":"info"}` {
		t.Errorf("%+v", before)
	}
	if _, before := (modernHTTP{t: t, url: p.url}).send("1", "tools/call", `{"name":"test_tool_with_logging"}`); len(before) != 0 {
		t.Errorf("a client without a subscription got %+v", before)
	}
}

// One change causes one new generation, and one notification to every listener of either era.
func TestListChanged(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	modern := modernHTTP{t: t, url: p.url}
	res, err := modern.post(t.Context(), `"sub-1"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	streams := map[string]<-chan message{"2026-07-28": follow(t, res), "2025-11-25": newLegacyHTTP(t, p.url).listen()}
	ack := <-streams["2026-07-28"]
	if ack.Method != "notifications/subscriptions/acknowledged" || !strings.Contains(string(ack.Params), `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`) {
		t.Errorf("%s %s", ack.Method, ack.Params)
	}
	for round := range 3 {
		call(t, modern, "flip", "{}").result(t)
		notifiedOfChange(t, streams)
		if want := fmt.Sprint("changing_", round+1); !slices.Contains(listTools(t, modern), want) {
			t.Errorf("%s is not listed", want)
		}
	}
	notNotified(t, streams)
}

func TestListChangedOnStdio(t *testing.T) {
	t.Parallel()
	legacy := newStdio(t, "testyard", false)
	_, before := legacy.send("1", "tools/call", `{"name":"flip"}`)
	if len(before) == 0 {
		before = append(before, legacy.next())
	}
	if before[0].Method != "notifications/tools/list_changed" {
		t.Errorf("%+v", before)
	}
	modern := newStdio(t, "testyard", true)
	modern.write(`{"jsonrpc":"2.0","id":9007199254740993,"method":"subscriptions/listen","params":` + withMeta(`{"notifications":{"toolsListChanged":true}}`, "") + `}`)
	if ack := modern.next(); ack.Method != "notifications/subscriptions/acknowledged" {
		t.Errorf("%+v", ack)
	}
	_, before = modern.send("2", "tools/call", `{"name":"flip"}`)
	if len(before) == 0 {
		before = append(before, modern.next())
	}
	if before[0].Method != "notifications/tools/list_changed" || !strings.Contains(string(before[0].Params), `"io.modelcontextprotocol/subscriptionId":9007199254740993`) {
		t.Errorf("%s %s", before[0].Method, before[0].Params)
	}
}

// If the client disconnects or cancels a call, the tool's context is canceled.
func TestCancellation(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	dir := t.TempDir()
	sleep := func(marker string) string {
		return fmt.Sprintf(`{"name":"sleep","arguments":{"ms":20000,"marker":%q}}`, filepath.Join(dir, marker))
	}
	started := func(marker string) {
		soon(t, marker+" has started", func() bool { _, err := os.Stat(filepath.Join(dir, marker+".started")); return err == nil })
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		started("modern-http")
	}()
	if res, err := (modernHTTP{t: t, url: p.url}).post(ctx, "1", "tools/call", sleep("modern-http")); err == nil {
		_ = res.Body.Close()
		t.Error("the call ended")
	}
	legacy := newLegacyHTTP(t, p.url)
	go func() {
		started("legacy-http")
		_ = (&legacyHTTP{t: t, url: p.url, session: legacy.session}).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9007199254740993}}`).Body.Close()
	}()
	legacyDone := make(chan struct{})
	go func() {
		defer close(legacyDone)
		res := legacy.post(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":` + sleep("legacy-http") + `}`)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}()
	for _, modern := range []bool{true, false} {
		c := newStdio(t, "testyard", modern)
		params := sleep(fmt.Sprint("stdio-", modern))
		if modern {
			params = withMeta(params, "")
		}
		c.write(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params + `}`)
		started(fmt.Sprint("stdio-", modern))
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	}
	for _, marker := range []string{"modern-http", "legacy-http", "stdio-true", "stdio-false"} {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, marker)); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s: the tool was not canceled", marker)
				break
			}
		}
	}
	<-legacyDone
}

func TestACrashIsOneFailedCall(t *testing.T) {
	t.Parallel()
	for name, c := range clients(t, serve(t, "testyard", "")) {
		for range 3 {
			if r := call(t, c, "crash", "{}").result(t); !r.IsError || r.Content[0].Text != "Error: crash crashed." {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if r := call(t, c, "echo", `{"text":"still here"}`).result(t); r.Content[0].Text != "still here" {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// The HTTP+SSE transport of 2024-11-05 is served if the configuration enables it.
func TestSSE(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "sse: true\n")
	session, err := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil).
		Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: strings.TrimSuffix(p.url, "/mcp") + "/sse"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != "hi" {
		t.Error(res, err)
	}
	if res, err := http.Get(strings.TrimSuffix(serve(t, "testyard", "").url, "/mcp") + "/sse"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("without the option /sse is %v (%v)", res.Status, err)
	}
}

// The Go SDK's client works over either transport.
func TestGoSDKClient(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil).
			Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatalf("%q: %v", version, err)
		}
		n := 0
		for _, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatalf("%q: %v", version, err)
			}
			n++
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hi"}})
		if err != nil || n < 20 || res.Content[0].(*mcp.TextContent).Text != "hi" {
			t.Errorf("%q: %d tools, %v, %v", version, n, res, err)
		}
		_ = session.Close()
	}
}

func TestTenThousandTools(t *testing.T) {
	t.Parallel()
	start := time.Now()
	p := serve(t, "testyard", "", "TESTYARD_TOOLS=10000")
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the start took %v", took)
	}
	for name, c := range map[string]client{"2026-07-28": modernHTTP{t: t, url: p.url}, "2025-11-25": newLegacyHTTP(t, p.url)} {
		seen, pages := make(map[string]bool), 0
		for cursor := ""; ; pages++ {
			m, _ := c.send("1", "tools/list", fmt.Sprintf(`{"cursor":%q}`, cursor))
			var page struct {
				Tools      []struct{ Name string }
				NextCursor *string
			}
			if err := json.Unmarshal(m.Result, &page); err != nil || m.Error != nil {
				t.Fatal(err, m.Error)
			}
			for _, tool := range page.Tools {
				seen[tool.Name] = true
			}
			if page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
		if len(seen) != 10_001 || pages != 10 {
			t.Errorf("%s: %d tools on %d pages", name, len(seen), pages+1)
		}
		if m, _ := c.send("1", "tools/list", `{"cursor":"?"}`); m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%s: a bad cursor: %+v", name, m)
		}
	}
}

// A new configuration is applied as a whole or not at all.
func TestReload(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "gates:\n  default: {mode: write}\n")
	c := modernHTTP{t: t, url: p.url}
	all := listTools(t, c)
	wait := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	p.configure("toolsets: {one: {tools: [echo]}}\ngates:\n  default: {mode: read, toolset: one}\n")
	wait("the change of the file was not seen", func() bool { return slices.Equal(listTools(t, c), []string{"echo"}) })

	p.configure("gates:\n  default: {mode: raed}\n")
	if found := p.logged(1, func(l map[string]any) bool {
		return strings.Contains(fmt.Sprint(l["error"]), `toolyard.yaml:2:13: gates.default.mode: must be one of "read", "write"`)
	}); len(found) == 0 {
		t.Error("the error was not logged")
	}
	if got := listTools(t, c); !slices.Equal(got, []string{"echo"}) {
		t.Errorf("a broken file changed the tools to %v", got)
	}
	p.configure("gates:\n  default: {mode: write}\n")
	p.signal(syscall.SIGHUP)
	wait("the old tools did not come back", func() bool { return slices.Equal(listTools(t, c), all) })
}

// Calls in flight complete when the server is stopped.
func TestGracefulShutdown(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	legacy := newLegacyHTTP(t, p.url)
	legacy.listen()
	modern := modernHTTP{t: t, url: p.url}
	stream, err := modern.post(t.Context(), "5", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
	if err != nil {
		t.Fatal(err)
	}
	events := follow(t, stream)
	results := make(chan string, 20)
	for i := range 20 {
		go func() {
			var c client = modern
			if i%2 == 0 {
				c = &legacyHTTP{t: t, url: p.url, session: legacy.session}
			}
			answer := "nothing"
			defer func() { results <- answer }()
			m, _ := c.send(fmt.Sprint(100+i), "tools/call", fmt.Sprintf(`{"name":"sleep","arguments":{"ms":1000,"marker":%q}}`, filepath.Join(p.dir, fmt.Sprint(i))))
			answer = string(m.Result)
		}()
	}
	soon(t, "all calls have started", func() bool {
		started, _ := filepath.Glob(filepath.Join(p.dir, "*.started"))
		return len(started) == 20
	})
	p.signal(syscall.SIGTERM)
	for range 20 {
		if r := <-results; !strings.Contains(r, "slept") {
			t.Errorf("a call in flight got %q", r)
		}
	}
	start := time.Now()
	if err := p.cmd.Wait(); err != nil || time.Since(start) > time.Minute {
		t.Errorf("the shutdown took %v: %v", time.Since(start), err)
	}
	var last message
	for m := range events {
		last = m
	}
	if string(last.ID) != "5" || !strings.Contains(string(last.Result), `"resultType":"complete"`) {
		t.Errorf("the listener was not notified of the shutdown: %+v", last)
	}
}

func TestMetricsAndHealth(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	call(t, modernHTTP{t: t, url: p.url}, "echo", `{"text":"hi"}`)
	call(t, modernHTTP{t: t, url: p.url}, "throw", `{}`)
	for path, want := range map[string][]string{
		"/healthz": {"ok"},
		"/readyz":  {"ok"},
		"/metrics": {
			`toolyard_calls_total{code="OK",gate="default",server="",tool="echo"} 1`,
			`toolyard_calls_total{code="TOOL_EXECUTION_ERROR",gate="default",server="",tool="throw"} 1`,
			`mcp_server_operation_duration_seconds_count{code="OK",gate="default",tool="echo"} 1`, "\ntoolyard_catalog_generation ",
		},
	} {
		for _, w := range want { // a call is counted only after its response is sent
			soon(t, path+" has "+w, func() bool { return strings.Contains(p.get(path), w) })
		}
	}
}

// A trace collector receives a span for each call. The span is a child of the caller's span.
func TestTraces(t *testing.T) {
	t.Parallel()
	traces := newCollector(t)
	p := serve(t, "testyard", "", "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=50")
	c := modernHTTP{t: t, url: p.url, meta: `,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`}
	call(t, c, "echo", `{"text":"hi"}`)
	trace := []byte{0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c}
	for _, want := range []string{"tools/call echo", "mcp.method.name", "gen_ai.tool.name", "execute_tool", string(trace)} {
		soon(t, fmt.Sprintf("the spans have %q", want), func() bool { return strings.Contains(traces.text(), want) })
	}
}

func TestListeningOutsideLoopbackIsExplicit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ config, listen string }{{"", "0.0.0.0:0"}, {"", ":0"}, {"listen: 0.0.0.0:0\n", ""}} {
		args := []string{"serve", "--http"}
		if tt.listen != "" {
			args = append(args, "--listen", tt.listen)
		}
		if code, _, errs := run(t, "toolyard", tt.config, args...); code != 1 || !strings.Contains(errs, "anonymous: true") {
			t.Errorf("%+v: exit %d %s", tt, code, errs)
		}
	}
}
