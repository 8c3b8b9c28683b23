// Package acceptance runs the built binaries over real transports, with at least one test for each
// acceptance check.
package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var bin string // folder with the binaries

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: acceptance tests drive built binaries; run without -short")
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "toolyard-acceptance-")
	if err != nil {
		panic(err)
	}
	bin = dir
	build := exec.Command("go", "build", "-o", dir, "../cmd/toolyard", "./testyard", "./fakemcp", "./conformanceclient")
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is a test's server process.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string // URL of the default gate
	dir string

	mu   sync.Mutex
	logs bytes.Buffer
}

// Write receives the server's log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs.Write(b)
}

// log returns the server's log lines so far. Each is a JSON object.
func (p *process) log() (lines []map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range bytes.Lines(p.logs.Bytes()) {
		var o map[string]any
		if json.Unmarshal(line, &o) == nil {
			lines = append(lines, o)
		}
	}
	return lines
}

// logged waits until the log has n matching lines.
func (p *process) logged(n int, match func(map[string]any) bool) (found []map[string]any) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		found = nil
		for _, line := range p.log() {
			if match(line) {
				found = append(found, line)
			}
		}
		if len(found) >= n || time.Now().After(deadline) {
			return found
		}
	}
}

// serve starts a binary's serve command on a free port, with a configuration unless it is empty.
func serve(t *testing.T, program, config string, env ...string) *process {
	t.Helper()
	return serveIn(t, t.TempDir(), program, config, env...)
}

// serveIn is like serve, in a prepared folder.
func serveIn(t *testing.T, dir, program, config string, env ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir}
	if config != "" {
		p.configure(config)
	}
	address := freeAddress(t)
	p.url = "http://" + address + "/mcp"
	p.launch(program, env, "serve", "--listen", address)
	p.await(p.url)
	return p
}

// start starts the toolyard binary with the given arguments.
func start(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir}
	p.launch("toolyard", env, args...)
	return p
}

func (p *process) launch(program string, env []string, args ...string) {
	p.t.Helper()
	p.cmd = exec.Command(filepath.Join(bin, program), args...)
	p.cmd.Dir, p.cmd.Stderr, p.cmd.Env = p.dir, p, append(os.Environ(), env...)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.end)
}

// end stops the server.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// await waits until the server is ready.
func (p *process) await(url string) {
	p.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		res, err := http.Get(strings.TrimSuffix(url, "/mcp") + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Fatalf("the server did not become ready:\n%s", p.logs.String())
}

// configure replaces the configuration atomically. A server that reads it in between must not see
// an empty file, which is a valid configuration.
func (p *process) configure(config string) {
	p.t.Helper()
	next := filepath.Join(p.t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(next, []byte(config), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(p.dir, "toolyard.yaml")); err != nil {
		p.t.Fatal(err)
	}
}

// addresses counts the addresses used by this process. Each process starts at a different number.
var addresses atomic.Int64

func init() { addresses.Store(int64(os.Getpid()) * 101) }

// freeAddress returns an address that a server can listen on. The system does not use its port for
// outgoing connections, so it stays free until the server starts.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+addresses.Add(1)%10_000)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// defaultPort is locked by tests that listen on the default port, 3001.
var defaultPort sync.Mutex

// run runs a command in a new folder and returns its exit code.
func run(t *testing.T, program, config string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	if config != "" {
		if err := os.WriteFile(filepath.Join(dir, "toolyard.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return runIn(t, dir, nil, program, args...)
}

// runIn is like run, with a prepared folder and environment.
func runIn(t *testing.T, dir string, env []string, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// message is a received JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// result is a tool's result.
type result struct {
	Content    []struct{ Type, Text string }
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool
	Meta       map[string]json.RawMessage `json:"_meta"`
}

// failure returns a result's error data.
func (r result) failure() json.RawMessage { return r.Meta["dev.toolyard/error"] }

func (m message) result(t *testing.T) (r result) {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("error %d: %s", m.Error.Code, m.Error.Message)
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatalf("%s: %v", m.Result, err)
	}
	return r
}

// client is an MCP client of either era over either transport. It decodes as little as possible.
type client interface {
	// send sends a request and returns its response and the messages that preceded it. params is a
	// JSON object, or empty.
	send(id, method, params string) (message, []message)
}

func call(t *testing.T, c client, tool, args string) message {
	t.Helper()
	m, _ := c.send("1", "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
	return m
}

func listTools(t *testing.T, c client) (names []string) {
	t.Helper()
	m, _ := c.send("1", "tools/list", "")
	var list struct{ Tools []struct{ Name string } }
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// withMeta adds the modern era's members to params.
func withMeta(params, more string) string {
	meta := `"_meta":{` + modernMeta + more + `}`
	if rest := strings.TrimPrefix(params, "{"); params != "" && rest != "}" {
		return "{" + meta + "," + rest
	}
	return "{" + meta + "}"
}

// modernHTTP is a client for 2026-07-28.
type modernHTTP struct {
	t    *testing.T
	url  string
	meta string // additional members for _meta, each preceded by a comma
	key  string // bearer token; may be empty
}

func (c modernHTTP) send(id, method, params string) (message, []message) {
	c.t.Helper()
	res, err := c.post(c.t.Context(), id, method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return lastOf(c.t, readMessages(c.t, res))
}

func (c modernHTTP) post(ctx context.Context, id, method, params string) (*http.Response, error) {
	var name struct{ Name, URI string }
	_ = json.Unmarshal([]byte(params), &name)
	if method == "resources/read" {
		name.Name = name.URI
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, withMeta(params, c.meta))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name.Name != "" {
		r.Header.Set("Mcp-Name", name.Name)
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return http.DefaultClient.Do(r)
}

// legacyHTTP is a client for 2025-11-25 with an MCP session.
type legacyHTTP struct {
	t       *testing.T
	url     string
	session string
	key     string // bearer token; may be empty
}

const initialize = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"acceptance","version":"1"}}`

func newLegacyHTTP(t *testing.T, url string) *legacyHTTP {
	t.Helper()
	c := &legacyHTTP{t: t, url: url}
	if m, _ := c.send("0", "initialize", initialize); m.Error != nil || c.session == "" {
		t.Fatalf("initialize: %+v", m)
	}
	res := c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_ = res.Body.Close()
	return c
}

func (c *legacyHTTP) request(method, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return r
}

func (c *legacyHTTP) post(body string) *http.Response {
	c.t.Helper()
	res, err := http.DefaultClient.Do(c.request(http.MethodPost, body))
	if err != nil {
		c.t.Fatal(err)
	}
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return res
}

func (c *legacyHTTP) send(id, method, params string) (message, []message) {
	c.t.Helper()
	if params == "" {
		params = "{}"
	}
	res := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	defer func() { _ = res.Body.Close() }()
	return lastOf(c.t, readMessages(c.t, res))
}

// listen opens the MCP session's stream and delivers its messages.
func (c *legacyHTTP) listen() <-chan message {
	c.t.Helper()
	res, err := http.DefaultClient.Do(c.request(http.MethodGet, ""))
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatal(res, err)
	}
	return follow(c.t, res)
}

func lastOf(t *testing.T, all []message) (message, []message) {
	t.Helper()
	if len(all) == 0 {
		t.Fatal("there was no response")
	}
	return all[len(all)-1], all[:len(all)-1]
}

// readMessages reads the messages in a body, which is JSON or an event stream.
func readMessages(t *testing.T, res *http.Response) (all []message) {
	t.Helper()
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(res.Body)
		var m message
		if err != nil || json.Unmarshal(body, &m) != nil {
			t.Fatalf("%s: %q (%v)", res.Status, body, err)
		}
		return []message{m}
	}
	for m := range follow(t, res) {
		all = append(all, m)
	}
	return all
}

// follow delivers an event stream's messages until it ends.
func follow(t *testing.T, res *http.Response) <-chan message {
	t.Cleanup(func() { _ = res.Body.Close() })
	out := make(chan message, 100)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var m message
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &m) == nil {
				out <- m
			}
		}
	}()
	return out
}

// notifiedOfChange checks that each listener is notified of the changed tools.
func notifiedOfChange(t *testing.T, streams map[string]<-chan message) {
	t.Helper()
	for name, stream := range streams {
		select {
		case m := <-stream:
			if m.Method != "notifications/tools/list_changed" {
				t.Errorf("%s: %s", name, m.Method)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: not notified", name)
		}
	}
}

// notNotified checks that no listener receives another notification.
func notNotified(t *testing.T, streams map[string]<-chan message) {
	t.Helper()
	time.Sleep(300 * time.Millisecond)
	for name, stream := range streams {
		if len(stream) > 0 {
			t.Errorf("%s: notified more than once: %+v", name, <-stream)
		}
	}
}

// stdio is a client of either era that starts the server itself.
type stdio struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	deaf   chan struct{} // closed when the client stops reading
	modern bool
}

// stop returns the channel that stops the client's reader when it is closed.
func stop(c *stdio) chan struct{} { return c.deaf }

func newStdio(t *testing.T, program string, modern bool, args ...string) *stdio {
	t.Helper()
	return newStdioIn(t, t.TempDir(), nil, program, modern, args...)
}

// newStdioIn is like newStdio, with a prepared folder and environment.
func newStdioIn(t *testing.T, dir string, env []string, program string, modern bool, args ...string) *stdio {
	t.Helper()
	c := &stdio{t: t, modern: modern, lines: make(chan string, 1000), deaf: make(chan struct{})}
	c.cmd = exec.Command(filepath.Join(bin, program), append([]string{"serve"}, args...)...)
	c.cmd.Dir, c.cmd.Env = dir, append(os.Environ(), env...)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 64<<20)
		for s.Scan() {
			select {
			case c.lines <- s.Text():
			case <-c.deaf:
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.in.Close()
		select {
		case <-c.deaf:
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
			return
		default:
		}
		timer := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
		defer timer.Stop()
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("the server did not exit cleanly after its input ended: %v", err)
		}
	})
	if !modern {
		if m, _ := c.send("0", "initialize", initialize); m.Error != nil {
			t.Fatal(m.Error)
		}
		c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return c
}

func (c *stdio) write(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *stdio) send(id, method, params string) (message, []message) {
	c.t.Helper()
	if c.modern {
		params = withMeta(params, "")
	} else if params == "" {
		params = "{}"
	}
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return c.await(id)
}

// await reads messages until the response with the given ID.
func (c *stdio) await(id string) (message, []message) {
	c.t.Helper()
	var before []message
	for {
		m := c.next()
		if string(m.ID) == id && m.Method == "" {
			return m, before
		}
		before = append(before, m)
	}
}

func (c *stdio) next() message {
	c.t.Helper()
	select {
	case line, ok := <-c.lines:
		var m message
		if !ok || json.Unmarshal([]byte(line), &m) != nil {
			c.t.Fatalf("unexpected standard output %q", line)
		}
		return m
	case <-time.After(90 * time.Second):
		c.t.Fatal("no answer")
	}
	panic("unreachable")
}

// clients returns clients of both eras over both transports.
func clients(t *testing.T, p *process) map[string]client {
	t.Helper()
	return map[string]client{
		"2026-07-28 http":  modernHTTP{t: t, url: p.url},
		"2025-11-25 http":  newLegacyHTTP(t, p.url),
		"2026-07-28 stdio": newStdio(t, "testyard", true),
		"2025-11-25 stdio": newStdio(t, "testyard", false),
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// busy limits the number of CPU-intensive tests that run at a time.
var busy = make(chan struct{}, 2)

// heavy marks a CPU-intensive test, such as one that uses a browser, as parallel. Two of them run
// at a time. Most other tests spend their time waiting, so more of them can run.
func heavy(t *testing.T) {
	t.Helper()
	t.Parallel()
	busy <- struct{}{}
	t.Cleanup(func() { <-busy })
}
