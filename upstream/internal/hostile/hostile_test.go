package hostile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/base/leaktest"
)

// The test binary also serves on stdio. Its arguments are then a behaviour's name and a seed.
func TestMain(m *testing.M) {
	if os.Getenv("HOSTILE_SERVE") != "" {
		b, _ := Find(os.Args[1])
		seed, _ := strconv.ParseUint(os.Args[2], 10, 64)
		ServeStdio(b, seed, os.Stdin, os.Stdout, os.Stderr)
		os.Exit(0)
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "16") // the tests spend most of their time waiting
	leaktest.Main(m)
}

// client is a minimal client for both eras. It accepts only valid responses.
type client struct {
	t      *testing.T
	modern bool
	ids    int
	send   func(ctx context.Context, body string, heard func(line []byte) bool)
}

// request sends a request and returns the first valid response within the time limit.
func (c *client) request(method, params string, patience time.Duration) (result json.RawMessage) {
	c.ids++
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if c.modern {
		params = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}` + strings.Replace(params, "{", ",", 1)
		params = strings.Replace(params, ",}", "}", 1)
	}
	c.send(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.ids, method, params), func(line []byte) bool {
		result = valid(line, c.ids)
		return result != nil
	})
	return result
}

// valid returns the result in a line if the line is a strictly valid response to the request with
// this ID.
func valid(line []byte, id int) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil || string(m["id"]) != strconv.Itoa(id) || m["error"] != nil || string(m["jsonrpc"]) != `"2.0"` {
		return nil
	}
	var result struct{ ResultType *string }
	if json.Unmarshal(m["result"], &result) != nil || (result.ResultType != nil && *result.ResultType != "complete") || string(m["result"]) == "null" {
		return nil
	}
	return m["result"]
}

// Time limits for a response that must arrive, and for one that may not.
const (
	longPatience  = time.Minute
	shortPatience = 300 * time.Millisecond
)

// patienceFor returns how long to wait for a server's first responses. It is longer if the server
// behaves until the last call.
func patienceFor(b Behaviour, seed uint64) time.Duration {
	if b.Name == Honest.Name || b.Point(seed) == "tools/call" {
		return longPatience
	}
	return shortPatience
}

// converse runs a whole conversation and returns both tools' results. The last result has its own
// time limit.
func (c *client) converse(patience, last time.Duration) (echo, bad string) {
	first := "initialize"
	if c.modern {
		first = "server/discover"
	}
	if c.request(first, `{}`, patience) == nil {
		return "", ""
	}
	if !c.modern {
		ctx, cancel := context.WithTimeout(c.t.Context(), patience)
		defer cancel()
		c.send(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	}
	if c.request("tools/list", `{}`, patience) == nil {
		return "", ""
	}
	echo = string(c.request("tools/call", `{"name":"echo","arguments":{"text":"hi"}}`, patience))
	bad = string(c.request("tools/call", `{"name":"bad","arguments":{}}`, last))
	return echo, bad
}

// overStdio starts a server as a process.
func overStdio(t *testing.T, b Behaviour, seed uint64) *client {
	cmd := exec.Command(os.Args[0], b.Name, strconv.FormatUint(seed, 10))
	cmd.Env = append(os.Environ(), "HOSTILE_SERVE=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	lines, gone := make(chan []byte), make(chan struct{})
	go readLines(out, lines, gone)
	t.Cleanup(func() {
		close(gone)
		_ = in.Close()
		_ = out.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &client{t: t, modern: b.modern(seed), send: func(ctx context.Context, body string, heard func([]byte) bool) {
		_, _ = io.WriteString(in, body+"\n") // a server that has exited does not respond
		for heard != nil {
			select {
			case line, ok := <-lines:
				if !ok || heard(line) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}}
}

// readLines reads lines of at most a megabyte and skips longer ones.
func readLines(r io.Reader, lines chan<- []byte, gone <-chan struct{}) {
	defer close(lines)
	br := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := br.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		select {
		case lines <- bytes.Clone(line):
		case <-gone:
			return
		}
	}
}

// overHTTP starts a server over HTTP.
func overHTTP(t *testing.T, b Behaviour, seed uint64) *client {
	server := httptest.NewServer(Handler(b, seed))
	t.Cleanup(func() { closeServer(server) })
	session := ""
	return &client{t: t, modern: b.modern(seed), send: func(ctx context.Context, body string, heard func([]byte) bool) {
		req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/mcp", strings.NewReader(body))
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := plain(t).Do(req)
		if err != nil {
			return
		}
		defer func() { _ = res.Body.Close() }()
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		if heard != nil && res.StatusCode == 200 && res.Header.Get("Content-Encoding") == "" {
			hear(res, heard)
		}
	}}
}

// hear reads a response according to its content type.
func hear(res *http.Response, heard func([]byte) bool) {
	body := io.LimitReader(res.Body, 1<<20)
	if res.Header.Get("Content-Type") == "application/json" {
		if data, err := io.ReadAll(body); err == nil {
			heard(data)
		}
		return
	}
	events(body, func(_ string, data []byte) bool { return heard(data) })
}

// events reads an event stream in which every event has one line of data.
func events(r io.Reader, heard func(name string, data []byte) bool) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	name := ""
	for scanner.Scan() {
		if after, ok := bytes.CutPrefix(scanner.Bytes(), []byte("event: ")); ok {
			name = string(after)
		}
		if data, ok := bytes.CutPrefix(scanner.Bytes(), []byte("data: ")); ok && heard(name, data) {
			return
		}
	}
}

// plain is a client that neither follows redirects nor decompresses.
func plain(t *testing.T) *http.Client {
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func closeServer(s *httptest.Server) {
	s.CloseClientConnections()
	s.Close()
}

// overSSE starts a server over HTTP+SSE and opens its stream.
func overSSE(t *testing.T, b Behaviour, seed uint64) *client {
	server := httptest.NewServer(Handler(b, seed))
	ctx, cancel := context.WithCancel(t.Context())
	lines, address := make(chan []byte), make(chan string, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(lines)
		follow(ctx, t, server.URL, lines, address)
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		closeServer(server)
	})
	to := ""
	select {
	case to = <-address:
	case <-time.After(max(patienceFor(b, seed), time.Second)):
	}
	return &client{t: t, send: func(ctx context.Context, body string, heard func([]byte) bool) {
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL+to, strings.NewReader(body))
		if to == "" || err != nil {
			return
		}
		res, err := plain(t).Do(req)
		if err != nil {
			return
		}
		_ = res.Body.Close()
		for heard != nil {
			select {
			case line, ok := <-lines:
				if !ok || heard(line) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}}
}

// follow reads an HTTP+SSE stream.
func follow(ctx context.Context, t *testing.T, url string, lines chan<- []byte, address chan<- string) {
	req, _ := http.NewRequestWithContext(ctx, "GET", url+"/sse", nil)
	res, err := plain(t).Do(req)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	events(res.Body, func(name string, data []byte) bool {
		if name == "endpoint" {
			select {
			case address <- string(data):
			default:
			}
			return false
		}
		select {
		case lines <- bytes.Clone(data):
			return false
		case <-ctx.Done():
			return true
		}
	})
}

var transports = map[Transport]func(*testing.T, Behaviour, uint64) *client{Stdio: overStdio, HTTP: overHTTP, SSE: overSSE}

func TestHonest(t *testing.T) {
	for transport, open := range transports {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(transport, seed), func(t *testing.T) {
				echo, bad := open(t, Honest, seed).converse(longPatience, longPatience)
				if !strings.Contains(echo, `"text":"hi"`) || !strings.Contains(bad, `"well"`) {
					t.Errorf("%s, %s", echo, bad)
				}
			})
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range Behaviours {
		if seen[b.Name] || !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(b.Name) || b.About == "" {
			t.Errorf("%q: %q", b.Name, b.About)
		}
		if b.strike == nil && b.respond == nil && b.pour == nil && b.start == nil {
			t.Errorf("%s does nothing", b.Name)
		}
		seen[b.Name] = true
	}
	if len(seen) < 60 {
		t.Errorf("there are only %d behaviours", len(seen))
	}
	t.Logf("%d behaviours", len(seen))
	if _, ok := Find("no-such"); ok {
		t.Error("found what is not there")
	}
}

// A server that misbehaves at calls is correct up to that point, and an unanswered call gets no
// response that a strict client accepts.
func TestBehaviours(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 1
	}
	for _, b := range Behaviours {
		b.Lure, b.LureFile = "http://127.0.0.1:9", "/nonexistent"
		for _, transport := range b.Transports {
			for seed := range seeds {
				t.Run(fmt.Sprintf("%s/%s/%d", b.Name, transport, seed), func(t *testing.T) {
					t.Parallel()
					works := b.Point(seed) == "tools/call"
					echo, bad := transports[transport](t, b, seed).converse(patienceFor(b, seed), shortPatience)
					if works && !strings.Contains(echo, `"text":"hi"`) {
						t.Errorf("echo does not work: %.200s", echo)
					}
					if b.Unanswered && bad != "" && works {
						t.Errorf("an answer: %.200s", bad)
					}
				})
			}
		}
	}
}
