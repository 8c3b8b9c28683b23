package yard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

func TestMain(m *testing.M) {
	// The thread that starts processes lives as long as this process.
	leaktest.Main(m, goleak.IgnoreTopFunction("github.com/toolyard/toolyard/internal/trust/subprocess.startEach"))
}

// start runs a yard until the test ends.
func start(t *testing.T, opts yard.Options) *yard.Yard {
	t.Helper()
	y, err := yard.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	<-y.Ready()
	return y
}

func names(t *testing.T, y *yard.Yard, gate string) (list []string) {
	t.Helper()
	v, ok := y.View(gate)
	if !ok {
		t.Fatalf("no gate %q", gate)
	}
	for _, b := range v.Tools {
		list = append(list, b.Name)
	}
	return list
}

func TestEveryRouteRefusesCrossOriginRequests(t *testing.T) {
	y := start(t, yard.Options{Tools: basics.Tools()})
	server := httptest.NewServer(y.Handler())
	defer server.Close()
	for _, path := range []string{"/mcp", "/mcp/default", "/api/tools/catalog", "/healthz", "/readyz", "/licenses", "/metrics"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Origin", "http://evil.example")
			res, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %s", method, path, res.Status)
			}
		}
	}
}

// If a binary lacks the license texts, the response names the command that collects them.
func TestLicensesAreServed(t *testing.T) {
	y := start(t, yard.Options{Tools: basics.Tools()})
	w := httptest.NewRecorder()
	y.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/licenses", http.NoBody))
	want := map[int]string{http.StatusOK: "Permission is hereby granted", http.StatusNotFound: "make build"}[w.Code]
	if want == "" || !strings.Contains(w.Body.String(), want) {
		t.Errorf("status %d without %q", w.Code, want)
	}
}

func TestRootRedirectsToTheConsole(t *testing.T) {
	y := start(t, yard.Options{Tools: basics.Tools()})
	for path, want := range map[string]int{"/": http.StatusFound, "/nowhere": http.StatusNotFound} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, http.NoBody)
		for key, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} {
			if path == "/" { // as if followed from another site
				r.Header.Set(key, value)
			}
		}
		y.Handler().ServeHTTP(w, r)
		if w.Code != want || (path == "/" && w.Header().Get("Location") != "/console/") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
}

// lateSource is a source that loads slowly.
type lateSource []*toolyard.Tool

// Run implements [toolyard.Source].
func (s lateSource) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	time.Sleep(50 * time.Millisecond)
	publish(toolyard.Offer{Tools: s})
	<-ctx.Done()
	return nil
}

// Toolsets are checked once all sources are loaded, so a start that has no problems logs none.
func TestStartLogsNoFalseProblems(t *testing.T) {
	log := &syncLog{}
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte("toolsets: {a: {tools: [late]}, b: {tools: [never]}}\ngates: {one: {mode: write, toolset: a}, two: {mode: write, toolset: b}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	late := toolyard.Define(toolyard.Spec{Name: "late"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
	y, err := yard.New(yard.Options{ConfigFile: file, Sources: map[string]toolyard.Source{"late": lateSource{late}}, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(ctx)
	}()
	within(t, time.Minute, "the missing tool is logged", func() bool { return log.has("tool: never") })
	cancel()
	<-done
	if text := log.String(); strings.Contains(text, "tool: late") || strings.Contains(text, "problem resolved") || strings.Count(text, "tool: never") != 1 {
		t.Error(text)
	}
}

// Request bodies also have a deadline in programs that embed the handler.
func TestEmbeddedHandlerTimesOutSlowBodies(t *testing.T) {
	t.Parallel() // takes ten seconds
	y := start(t, yard.Options{Tools: basics.Tools()})
	server := httptest.NewServer(y.Handler())
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
}

func TestGateOptionsAreValidated(t *testing.T) {
	_, err := yard.New(yard.Options{Gates: []yard.Gate{{Name: "chat", Mode: toolyard.Read, Naming: "plian"}}})
	if err == nil || !strings.Contains(err.Error(), `gate "chat": Naming "plian" is not one of plain, mcp, client`) {
		t.Error(err)
	}
}

// TestGateOptionsSelectNames checks that a gate in an embedding program can choose its naming
// scheme.
func TestGateOptionsSelectNames(t *testing.T) {
	y := start(t, yard.Options{Tools: basics.Tools(), Gates: []yard.Gate{{Name: "chat", Mode: toolyard.Read, Naming: "client"}}})
	if list := names(t, y, "chat"); len(list) == 0 || !strings.HasPrefix(list[0], "mcp_") {
		t.Error(list)
	}
}

func TestCallTakesTheCallPath(t *testing.T) {
	y := start(t, yard.Options{Tools: basics.Tools(), Gates: []yard.Gate{{Name: "chat", Mode: toolyard.Read}}})
	res, err := y.Call(t.Context(), "", toolyard.Caller{ID: "ann"}, "hello", json.RawMessage(`{"name":"Ann"}`))
	if err != nil || res.Content[0] != toolyard.Text("Hello, Ann!") {
		t.Error(res, err)
	}
	for want, call := range map[toolyard.Code][2]string{
		toolyard.Invalid:     {"hello", `{}`},
		toolyard.UnknownTool: {"nope", `{}`},
	} {
		if _, err := y.Call(t.Context(), "chat", toolyard.Caller{}, call[0], json.RawMessage(call[1])); toolyard.AsError(err).Code != want {
			t.Errorf("%v: %v", call, err)
		}
	}
	if _, err := y.Call(t.Context(), "elsewhere", toolyard.Caller{}, "hello", nil); toolyard.AsError(err).Code != toolyard.NotFound {
		t.Error(err)
	}
}

func TestReloadIsAllOrNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("toolsets: {one: {tools: [hello]}}\ngates: {a: {mode: read, toolset: one}, b: {mode: read}}\n")
	y := start(t, yard.Options{Tools: basics.Tools(), ConfigFile: file})
	if got := fmt.Sprint(y.Gates(), names(t, y, "a"), len(names(t, y, "b"))); got != "[a b] [hello] 5" {
		t.Error(got)
	}
	for _, broken := range []string{"gates: {a: {mode: x}}\n", "gates: [\n", "toolsets: {one: {tools: [helo]}}\ngates: {a: {mode: read, toolset: one}}\n", "gates: {a: {mode: read, callers: keys}}\n"} {
		write(broken)
		if err := y.Reload(); err == nil || !strings.Contains(err.Error(), "toolyard.yaml:") {
			t.Errorf("%q: %v", broken, err)
		}
		if got := fmt.Sprint(y.Gates(), names(t, y, "a")); got != "[a b] [hello]" {
			t.Errorf("%q changed the yard to %s", broken, got)
		}
	}
	for _, lost := range []string{"", "# gone\n", "gates:\n", "toolsets: {one: {tools: [hello]}}\n"} {
		write(lost)
		if err := y.Reload(); err == nil {
			t.Errorf("%q removed all gates", lost)
		}
	}
	write("gates: {c: {mode: write}}\n")
	if err := y.Reload(); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(y.Gates(), len(names(t, y, "c"))); got != "[c] 5" {
		t.Error(got)
	}
}

func TestNewRefusesABadConfiguration(t *testing.T) {
	_, err := yard.New(yard.Options{ConfigFile: filepath.Join(t.TempDir(), "absent.yaml")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Metrics are public until a gate requires keys; then they require the role viewer.
func TestMetricsRequireViewerOnceAGateRequiresKeys(t *testing.T) {
	roles := map[string]string{"Bearer plain": "gate:a", "Bearer sees": identity.Viewer, "Bearer does": identity.Operator}
	identify := func(r *http.Request) (toolyard.Caller, error) {
		role, ok := roles[r.Header.Get("Authorization")]
		if !ok {
			return toolyard.Caller{ID: ident.Anonymous}, nil
		}
		return toolyard.Caller{ID: "ann", Roles: []string{role}}, nil
	}
	for _, tt := range []struct {
		known  bool
		header string
		want   int
	}{
		{false, "", 200},
		{false, "Bearer plain", 200},
		{true, "", 401},
		{true, "Bearer plain", 403},
		{true, "Bearer sees", 200},
		{true, "Bearer does", 200},
	} {
		y := start(t, yard.Options{Tools: basics.Tools(), Identify: identify, Gates: []yard.Gate{
			{Name: "a", Mode: toolyard.Read}, {Name: "b", Mode: toolyard.Read, RequireAuth: tt.known},
		}})
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil)
		if tt.header != "" {
			r.Header.Set("Authorization", tt.header)
		}
		w := httptest.NewRecorder()
		y.Handler().ServeHTTP(w, r)
		shown := strings.Contains(w.Body.String(), "toolyard_catalog_generation")
		if w.Code != tt.want || shown != (tt.want == 200) || (w.Header().Get("WWW-Authenticate") == "") != shown {
			t.Errorf("%+v: %d %.80s", tt, w.Code, w.Body)
		}
	}
}

// Once metrics have required a key, they still require it when no gate does anymore.
func TestMetricsStayProtected(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	write := func(gates string) {
		if err := os.WriteFile(file, []byte("gates: {"+gates+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a: {mode: read}, b: {mode: read, callers: keys}")
	y := start(t, yard.Options{ConfigFile: file, Tools: basics.Tools()})
	write("a: {mode: read}")
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	y.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d %.80s", w.Code, w.Body)
	}
}

// If metrics.listen is set, metrics are public at that address and absent from the main one.
func TestMetricsAtASeparateAddress(t *testing.T) {
	listen := func(host string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l, free := listen("127.0.0.1"), listen(unusedHost(t))
	own := free.Addr().String()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	text := fmt.Sprintf("metrics: {listen: %q}\ngates: {a: {mode: read, callers: keys}}\n", own)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	y := start(t, yard.Options{ConfigFile: file, Tools: basics.Tools()})
	if err := y.Serve(t.Context(), listen("127.0.0.1")); err == nil || !strings.HasPrefix(err.Error(), "metrics: listen tcp "+own) {
		t.Errorf("with an address in use: %v", err)
	}
	_ = free.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- y.Serve(ctx, l) }()
	for url, want := range map[string]int{
		"http://" + own + "/metrics":               200,
		"http://" + own + "/healthz":               404,
		"http://" + l.Addr().String() + "/healthz": 200,
		"http://" + l.Addr().String() + "/metrics": 404,
	} {
		within(t, time.Minute, fmt.Sprint(url, " answers ", want), func() bool { return status(t, url) == want })
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if got := status(t, "http://"+own+"/metrics"); got != 0 {
		t.Errorf("metrics after the end: %d", got)
	}
}

// unusedHost returns a loopback address at which no other process listens, so that a port stays
// free after it is closed. If the system has only one loopback address, it returns that one.
func unusedHost(t *testing.T) string {
	t.Helper()
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 1+pid>>16%250, pid>>8%256, 1+pid%250)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host+":0")
	if err != nil {
		return "127.0.0.1"
	}
	_ = l.Close()
	return host
}

// status returns the status of a GET request, or 0 if the connection fails.
func status(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode
}

func TestTheLogFollowsTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte("log: {level: debug, format: json, file: yard.log}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log, opened := &syncLog{}, ""
	opts := yard.Options{ConfigFile: file, Tools: basics.Tools(), Command: yard.Command{OpenLog: func(level, format, file string) (*slog.Logger, error) {
		opened += fmt.Sprint(level, " ", format, " ", filepath.Base(file))
		return slog.New(slog.NewTextHandler(log, nil)), nil
	}}}
	start(t, opts)
	if opened != "debug json yard.log" || !log.has("TOOL_REGISTERED") {
		t.Errorf("opened %q", opened)
	}
	opts.Command.OpenLog = func(string, string, string) (*slog.Logger, error) { return nil, errors.New("disk full") }
	if _, err := yard.New(opts); err == nil || err.Error() != "log: disk full" {
		t.Error(err)
	}
}

func ExampleNew() {
	hello := toolyard.Define(toolyard.Spec{Name: "hello", Effects: toolyard.ReadOnly},
		func(_ context.Context, _ *toolyard.Call, in struct {
			Name string `json:"name"`
		},
		) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{hello}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go y.Run(ctx)
	server := httptest.NewServer(y.Handler())
	defer server.Close()

	res, err := http.Get(server.URL + "/api/tools/catalog")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(string(body))
	// Output: [{"name":"hello","category":"","description":"","modes":["read","write"],"inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false},"surface":"both","queryEligible":true,"latencyClass":"slow","executeEligible":false}]
}

// Changes to the file are detected through a link, and while other files in the directory change
// constantly.
func TestTheConfigurationFileIsWatched(t *testing.T) {
	for _, linked := range []bool{false, true} {
		t.Run(fmt.Sprint("linked ", linked), func(t *testing.T) {
			dir, real := t.TempDir(), t.TempDir()
			file := filepath.Join(dir, "toolyard.yaml")
			target := file
			if linked {
				target = filepath.Join(real, "real.yaml")
			}
			write := func(name, text string) {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Error(err)
				}
			}
			write(target, "gates: {a: {mode: read}}\n")
			if linked {
				if err := os.Symlink(target, file); err != nil {
					t.Fatal(err)
				}
			}
			y := start(t, yard.Options{Tools: basics.Tools(), ConfigFile: file})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = y.WatchConfig(ctx, nil)
			}()
			defer func() {
				cancel()
				<-done
			}()
			write(target, "gates: {b: {mode: read}}\n") // may happen before the watch begins
			for deadline := time.Now().Add(time.Minute); fmt.Sprint(y.Gates()) != "[b]"; time.Sleep(5 * time.Millisecond) {
				write(filepath.Join(dir, "busy.log"), time.Now().String())
				if time.Now().After(deadline) {
					t.Fatal("the change was not detected")
				}
			}
		})
	}
}

// A change between the start of the yard and the start of the watch is not lost.
func TestAChangeBeforeTheWatchIsApplied(t *testing.T) {
	file := writeConfig(t, "gates: {a: {mode: read}}\n")
	y := start(t, yard.Options{Tools: basics.Tools(), ConfigFile: file})
	write(t, file, "gates: {b: {mode: read}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = y.WatchConfig(ctx, nil)
	}()
	eventually(t, "the new gate is served", func() bool { return fmt.Sprint(y.Gates()) == "[b]" })
	cancel()
	<-done
}

// The catalog marks servers that are down, and /readyz fails only if a required one is.
func TestServersThatAreDown(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "toolyard.yaml")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("toolyard.yaml", "servers:\n  gone: {command: /bin/false, required: true}\n")
	definition := `{"name":"t","inputSchema":{"type":"object"}}`
	book, err := pin.Open(yard.LockFile(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Update("gone", func(e *pin.Entry) { e.Tools = map[string]json.RawMessage{"t": json.RawMessage(definition)} }); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	<-y.Ready()
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "localhost"
		y.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if status, body := get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "gone") {
		t.Error(status, body)
	}
	if _, body := get("/api/tools/catalog"); !strings.Contains(body, `"name":"mcp_gone__t"`) || !strings.Contains(body, `"down":true`) {
		t.Error(body)
	}
	if _, err := y.Call(t.Context(), "", toolyard.Caller{}, "mcp_gone__t", json.RawMessage(`{}`)); toolyard.AsError(err).Code != toolyard.Unavailable {
		t.Error(err)
	}
}
