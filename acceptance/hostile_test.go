package acceptance

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (p *process) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/mcp")
}

// resident returns the server's memory in bytes.
func (p *process) resident() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skip("no /proc here")
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// On every route, the server waits at most ten seconds for a body, regardless of its declared
// length. Other callers are not affected, and the declared length uses no memory.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "gates:\n  default: {mode: write}\n")
	before := p.resident()
	var wg sync.WaitGroup
	for _, target := range []string{"POST /mcp", "POST /mcp/nowhere", "POST /healthz", "DELETE /mcp", "GET /nope", "POST /api/tools/catalog"} {
		for _, claim := range []string{"Content-Length: 100", "Content-Length: 1048576", "Transfer-Encoding: chunked", "Content-Length: 100\r\nOrigin: http://evil.example"} {
			for range 20 {
				wg.Go(func() {
					conn, err := net.Dial("tcp", p.address())
					if err != nil {
						t.Error(err)
						return
					}
					defer func() { _ = conn.Close() }()
					_, _ = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp-Protocol-Version: 2026-07-28\r\n%s\r\n\r\n{", target, claim)
					start := time.Now()
					_ = conn.SetReadDeadline(start.Add(50 * time.Second))
					r := bufio.NewReader(conn)
					for err == nil {
						_, err = r.ReadByte()
					}
					if took := time.Since(start); took > 40*time.Second {
						t.Errorf("%s with %s was held for %v", target, claim, took)
					}
				})
			}
		}
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		start := time.Now()
		call(t, modernHTTP{t: t, url: p.url}, "echo", `{"text":"hi"}`).result(t)
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("a regular call took %v", took)
		}
	}
	if grown := p.resident() - before; grown > 100<<20 {
		t.Errorf("the memory grew by %d MiB", grown>>20)
	}
	wg.Wait()
}

// A client that sends requests but does not read responses is disconnected.
func TestSlowReaders(t *testing.T) {
	heavy(t)
	p := serve(t, "testyard", "")
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, withMeta(fmt.Sprintf(`{"name":"echo","arguments":{"text":%q}}`, strings.Repeat("x", 200<<10)), ""))
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	start := time.Now()
	_ = conn.SetWriteDeadline(start.Add(60 * time.Second))
	for err == nil { // reads until the server has sent everything
		_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	if took := time.Since(start); took > 50*time.Second {
		t.Errorf("it was held for %v", took)
	}
}

// A subscription inside a legacy session is refused, because it would never end.
func TestSubscriptionsAreForTheModernEra(t *testing.T) {
	t.Parallel()
	stdio := newStdio(t, "testyard", false)
	if m, _ := stdio.send("5", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("stdio: %+v", m)
	}
	p := serve(t, "testyard", "")
	c := newLegacyHTTP(t, p.url)
	if m, _ := c.send("5", "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("%+v", m)
	}
	p.signal(syscall.SIGTERM)
	start := time.Now()
	if err := p.cmd.Wait(); err != nil || time.Since(start) > time.Minute {
		t.Errorf("the shutdown took %v: %v", time.Since(start), err)
	}
}

// A stdio server that is being stopped still responds to the requests that it has received.
func TestStdioStops(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{true, false} {
		c := newStdio(t, "testyard", modern)
		marker := filepath.Join(t.TempDir(), "sleep")
		params := fmt.Sprintf(`{"name":"sleep","arguments":{"ms":1000,"marker":%q}}`, marker)
		if modern {
			params = withMeta(params, "")
		}
		c.write(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params + `}`)
		soon(t, "the call has started", func() bool { _, err := os.Stat(marker + ".started"); return err == nil })
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if m, _ := c.await("7"); !strings.Contains(string(m.Result), "slept") {
			t.Errorf("modern %v: %s", modern, m.Result)
		}
	}
}

// A client that does not read responses cannot prevent the server from exiting.
func TestStdioStopsWithoutAReader(t *testing.T) {
	t.Parallel()
	c := newStdio(t, "testyard", true)
	close(stop(c)) // the client stops reading
	text := strings.Repeat("x", 1000)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 2000 {
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`+"\n", i, withMeta(`{"name":"echo","arguments":{"text":"`+text+`"}}`, ""))
			if _, err := c.in.Write([]byte(line)); err != nil {
				return
			}
		}
	}()
	time.Sleep(time.Second)
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // the second signal forces an exit
	done := make(chan struct{})
	go func() {
		_ = c.cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it does not exit")
	}
}

func TestGateOfALegacySessionCanGo(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", twoGates)
	c := newLegacyHTTP(t, p.url+"/trade")
	events := c.listen()
	p.configure("gates:\n  chat: {mode: read}\n")
	select {
	case _, open := <-events:
		if open {
			t.Error("received a message from a removed gate")
		}
	case <-time.After(time.Minute):
		t.Error("the stream of a removed gate stays open")
	}
	if res := c.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); res.StatusCode != http.StatusNotFound {
		t.Errorf("a removed gate returned %s", res.Status)
	}
}

// Before shutdown, calls over HTTP+SSE get a response, although their POST requests end earlier.
func TestSSECallsAreAnsweredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "sse: true\n")
	session, err := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil).
		Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: "http://" + p.address() + "/sse"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	marker := filepath.Join(t.TempDir(), "sleep")
	go func() {
		soon(t, "the call has started", func() bool { _, err := os.Stat(marker + ".started"); return err == nil })
		p.signal(syscall.SIGTERM)
	}()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 1500, "marker": marker}})
	if err != nil || res.IsError {
		t.Error(res, err)
	}
}
