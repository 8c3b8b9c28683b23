package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// memoryBus connects servers in one process.
type memoryBus struct {
	mu       sync.Mutex
	replicas []*mcpserver.Server
	stored   []string // sessions whose end was stored
	sent     atomic.Int64
}

func (f *memoryBus) Send(_ context.Context, _ string, message []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent.Add(1)
	for _, s := range f.replicas {
		s.Receive(message)
	}
	return nil
}

func (f *memoryBus) EndSession(_ context.Context, id string, _ toolyard.Caller, _ time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored = append(f.stored, id)
	return nil
}

// startReplicas starts replicas that share a key, and returns their addresses. Their clock stands
// still, so all messages in a test count as sent within one second.
func startReplicas(t *testing.T, n int, offer catalog.Offer) (*memoryBus, []string) {
	t.Helper()
	f, now := &memoryBus{}, time.Now()
	var urls []string
	for i := range n {
		s := mcpserver.New(mcpserver.Options{
			Call: callpath.Run, Now: func() time.Time { return now }, Replicas: mcpserver.ReplicaOptions{Bus: f, ID: fmt.Sprint("r", i), Keys: seal.NewKeyring(func() [][]byte { return [][]byte{[]byte("one key for all")} })},
			Authorize: func(r *http.Request, _ *gates.Gate) (toolyard.Caller, error) {
				if who := r.Header.Get("Who"); who != "" {
					return toolyard.Caller{ID: who, Account: who}, nil
				}
				return toolyard.Caller{ID: ident.Anonymous}, nil
			},
		})
		s.Publish(defaultGate, offer, true)
		server := httptest.NewServer(s.Handler(func(*http.Request) string { return "default" }))
		t.Cleanup(server.Close)
		t.Cleanup(s.Close)
		f.replicas, urls = append(f.replicas, s), append(urls, server.URL)
	}
	return f, urls
}

// legacyClient sends the messages of a session to any replica.
type legacyClient struct {
	t       *testing.T
	who     string
	session string
}

func (c *legacyClient) do(ctx context.Context, method, url, body string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for name, value := range map[string]string{"Who": c.who, "Mcp-Session-Id": c.session} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

func (c *legacyClient) send(method, url, body string) (int, string) {
	c.t.Helper()
	res := c.do(c.t.Context(), method, url, body)
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`

func connect(t *testing.T, url, who string) *legacyClient {
	t.Helper()
	c := &legacyClient{t: t, who: who}
	res := c.do(t.Context(), http.MethodPost, url, initialize)
	_ = res.Body.Close()
	if c.session = res.Header.Get("Mcp-Session-Id"); c.session == "" {
		t.Fatal("no session")
	}
	return c
}

// waiting is a tool that runs until it is canceled.
func waiting(started chan<- string) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "wait"}, func(ctx context.Context, _ *toolyard.Call, _ struct{}) (string, error) {
		started <- "started"
		<-ctx.Done()
		started <- "canceled"
		return "", ctx.Err()
	})
}

func TestSessionIsServedByAnyReplica(t *testing.T) {
	started := make(chan string, 2)
	_, urls := startReplicas(t, 3, catalog.Offer{Tools: []*toolyard.Tool{waiting(started), raw(toolyard.Spec{Name: "ask"}, asker)}})
	c := connect(t, urls[0], "ann")
	for i, url := range urls {
		if status, text := c.send(http.MethodPost, url, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); status != 200 || !strings.Contains(text, `"name":"wait"`) {
			t.Errorf("replica %d: %d %s", i, status, text)
		}
	}
	t.Run("cancel", func(t *testing.T) {
		ended := make(chan string)
		go func() {
			_, text := c.send(http.MethodPost, urls[1], `{"jsonrpc":"2.0","id":"w<1>","method":"tools/call","params":{"name":"wait","arguments":{}}}`)
			ended <- text
		}()
		<-started
		if status, text := c.send(http.MethodPost, urls[2], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w<1>"}}`); status != http.StatusAccepted {
			t.Errorf("%d %s", status, text)
		}
		if got := <-started; got != "canceled" {
			t.Error(got)
		}
		if text := <-ended; !strings.Contains(text, "CANCELED") {
			t.Error(text)
		}
	})
	t.Run("answer", func(t *testing.T) {
		res := c.do(t.Context(), http.MethodPost, urls[1], `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`)
		defer func() { _ = res.Body.Close() }()
		lines := bufio.NewScanner(res.Body)
		question := event(t, lines)
		answer := `{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept","content":{"n":7,"é":"x"}}}`
		other := connect(t, urls[0], "bob")
		if status, _ := other.send(http.MethodPost, urls[2], strings.Replace(answer, "7", "666", 1)); status != http.StatusAccepted {
			t.Error("an answer that is not wanted is not accepted")
		}
		if status, text := c.send(http.MethodPost, urls[2], answer); status != http.StatusAccepted {
			t.Errorf("%d %s", status, text)
		}
		if got := event(t, lines); !strings.Contains(string(got.Result), `{\"n\":7,\"é\":\"x\"}`) {
			t.Errorf("%s", got.Result)
		}
	})
}

type wireMessage struct{ ID, Result json.RawMessage }

// event returns the next message in a stream.
func event(t *testing.T, lines *bufio.Scanner) (m wireMessage) {
	t.Helper()
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	t.Fatal("the stream has ended")
	return m
}

func TestDeletedSessionEndsAtAllReplicas(t *testing.T) {
	f, urls := startReplicas(t, 2, catalog.Offer{})
	for stored, who := range []string{"", "ann"} { // the end of an anonymous session is not stored
		c := connect(t, urls[0], who)
		if status, text := c.send(http.MethodDelete, urls[1], ""); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, text)
		}
		for _, url := range urls {
			if status, _ := c.send(http.MethodPost, url, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); status != http.StatusNotFound {
				t.Errorf("%q: a deleted session answers %d", who, status)
			}
		}
		if len(f.stored) != stored {
			t.Errorf("%q: %d ends were stored", who, len(f.stored))
		}
	}
}

func TestOneCallerCannotFloodTheFleet(t *testing.T) {
	f, urls := startReplicas(t, 2, catalog.Offer{})
	c := connect(t, urls[0], "ann")
	refused := 0
	for range 300 {
		if status, _ := c.send(http.MethodPost, urls[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`); status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 250 || f.sent.Load() != 50 {
		t.Errorf("%d refused, %d sent", refused, f.sent.Load())
	}
	for range 100 { // answers to unknown questions are dropped
		c.send(http.MethodPost, urls[0], `{"jsonrpc":"2.0","id":"made up","result":{}}`)
	}
	if f.sent.Load() != 50 {
		t.Errorf("%d sent", f.sent.Load())
	}
}

func TestClientWithoutSessionIsServed(t *testing.T) {
	_, urls := startReplicas(t, 1, catalog.Offer{Tools: []*toolyard.Tool{raw(toolyard.Spec{Name: "ask"}, asker)}})
	c := &legacyClient{t: t}
	if status, text := c.send(http.MethodPost, urls[0], `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); status != 200 || !strings.Contains(text, `"ask"`) {
		t.Errorf("%d %s", status, text)
	}
	if _, text := c.send(http.MethodPost, urls[0], `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`); !strings.Contains(text, "-32021") {
		t.Errorf("it was asked: %s", text)
	}
}

func TestStreamNotifiesOfChangesAtAnyReplica(t *testing.T) {
	f, urls := startReplicas(t, 2, catalog.Offer{Tools: []*toolyard.Tool{raw(toolyard.Spec{Name: "ask"}, asker)}})
	c := connect(t, urls[0], "ann")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := c.do(ctx, http.MethodGet, urls[1], "")
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	lines.Scan() // wait until the stream is open
	f.replicas[1].Publish(defaultGate, catalog.Offer{}, true)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
			return
		}
	}
	t.Error("no change was reported")
}

func TestSlowBodyIsAuthorizedAgain(t *testing.T) {
	for _, era := range []string{"2026-07-28", "2025-11-25"} {
		tool, reached := counter()
		s := mcpserver.New(mcpserver.Options{
			Call: callpath.Run,
			Authorize: func(_ *http.Request, g *gates.Gate) (toolyard.Caller, error) {
				if g.RequireAuth {
					return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "This gate needs a key.")
				}
				return toolyard.Caller{ID: ident.Anonymous}, nil
			},
		})
		offer := catalog.Offer{Tools: []*toolyard.Tool{tool}}
		s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write}}, offer, true)
		server := httptest.NewServer(s.Handler(func(*http.Request) string { return "default" }))
		body, send := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Mcp-Protocol-Version", era)
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", "count")
		message := goodCall
		if era < "2026" {
			message = strings.Replace(goodCall, ","+goodMeta, "", 1)
		}
		status := make(chan int)
		go func() {
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				status <- 0
				return
			}
			_ = res.Body.Close()
			status <- res.StatusCode
		}()
		_, _ = io.WriteString(send, message[:20])
		time.Sleep(50 * time.Millisecond) // the request has been authorized by now
		s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write, RequireAuth: true}}, offer, true)
		_, _ = io.WriteString(send, message[20:])
		_ = send.Close()
		if got := <-status; got != http.StatusUnauthorized || reached.Load() > 0 {
			t.Errorf("%s: %d, ran %d times", era, got, reached.Load())
		}
		server.Close()
		s.Close()
	}
}

// One caller cannot use all streams, and a stream ends when its caller loses access.
func TestStreamsAreLimited(t *testing.T) {
	var revoked atomic.Bool
	s := mcpserver.New(mcpserver.Options{
		Call: callpath.Run, MaxStreams: 8, Keepalive: 20 * time.Millisecond,
		Authorize: func(r *http.Request, _ *gates.Gate) (toolyard.Caller, error) {
			if who := r.Header.Get("Who"); who != "" {
				if revoked.Load() {
					return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "It was revoked.")
				}
				return toolyard.Caller{ID: who, Account: who}, nil
			}
			return toolyard.Caller{ID: ident.Anonymous}, nil
		},
	})
	defer s.Close()
	s.Publish(defaultGate, catalog.Offer{}, true)
	gate := func(*http.Request) string { return "default" }
	server, sse := httptest.NewServer(s.Handler(gate)), httptest.NewServer(s.SSEHandler(gate))
	defer server.Close()
	defer sse.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all []*http.Response
	open := func(who string) int {
		c := connect(t, server.URL, who)
		res := c.do(ctx, http.MethodGet, server.URL, "")
		all = append(all, res)
		return res.StatusCode
	}
	for i, want := range []int{200, 200, 429} {
		if got := open("ann"); got != want {
			t.Errorf("stream %d of ann: %d", i, got)
		}
	}
	for _, who := range []string{"", "bob"} {
		if got := open(who); got != 200 {
			t.Errorf("%q: %d", who, got)
		}
	}
	anonymous := &legacyClient{t: t}
	for i, want := range []int{200, 429} {
		res := anonymous.do(ctx, http.MethodGet, sse.URL, "")
		if all = append(all, res); res.StatusCode != want {
			t.Errorf("HTTP+SSE %d: %d", i, res.StatusCode)
		}
	}
	revoked.Store(true)
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, all[0].Body); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a stream outlives the right to it")
	}
	cancel()
	for _, res := range all {
		_ = res.Body.Close()
	}
}

func TestLargeMetadataIsCheap(t *testing.T) {
	tool, _ := counter()
	h := newServer(t, tool).Handler(func(*http.Request) string { return "default" })
	nested := strings.Repeat(`{"a":[`, 25) + "1" + strings.Repeat("]}", 25)
	meta := `{"x":[` + strings.Repeat(nested+",", 3000) + `1]}`
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"n":1,"s":"x"},"_meta":` + meta + `}}`
	const limit = 50 * slower * time.Millisecond
	w, cost := measure(limit, func() *httptest.ResponseRecorder { return post(h, []byte(body), nil) })
	if cost > limit || !strings.Contains(w.Body.String(), "reached") {
		t.Errorf("%v of CPU for %d bytes: %.200s", cost, len(body), w.Body)
	}
}

// Calls that wait for an answer hold memory, so their number is limited.
func TestWaitingCallsAreLimited(t *testing.T) {
	s := newServer(t, raw(toolyard.Spec{Name: "ask"}, asker))
	server := httptest.NewServer(s.Handler(func(*http.Request) string { return "default" }))
	defer server.Close()
	c := connect(t, server.URL, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := `{"x":"` + strings.Repeat("x", 200<<10) + `"}`
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask","arguments":` + args + `}}`
	waiting := 0
	for range 60 {
		res := c.do(ctx, http.MethodPost, server.URL, call)
		defer func() { _ = res.Body.Close() }()
		if res.Header.Get("Content-Type") == "text/event-stream" {
			waiting++
			continue
		}
		text, _ := io.ReadAll(res.Body)
		if !strings.Contains(string(text), "waiting for an answer") || !strings.Contains(string(text), "RATE_LIMITED") {
			t.Fatalf("%.300s", text)
		}
		break
	}
	if waiting < 20 || waiting > 41 { // 8 MiB of arguments
		t.Errorf("%d calls wait", waiting)
	}
}

func TestUnfinishedBodiesAreLimited(t *testing.T) {
	tool, _ := counter()
	s := newServer(t, tool)
	server := httptest.NewServer(s.Handler(func(*http.Request) string { return "default" }))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	statuses := make(chan int, 40)
	var clients sync.WaitGroup
	defer clients.Wait()
	for range 40 {
		body, send := io.Pipe()
		defer func() { _ = send.Close() }()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 1 << 20
		r.Header.Set("Content-Type", "application/json")
		clients.Go(func() {
			if res, err := http.DefaultClient.Do(r); err == nil {
				_ = res.Body.Close()
				statuses <- res.StatusCode
			}
		})
		clients.Go(func() { _, _ = send.Write(make([]byte, 100<<10)) })
	}
	for range 8 { // 32 of 40 MiB fit
		select {
		case status := <-statuses:
			if status != http.StatusTooManyRequests {
				t.Errorf("%d", status)
			}
		case <-time.After(time.Minute):
			t.Fatal("an unfinished body is not refused")
		}
	}
	cancel()
}

func TestAnonymousCallersCannotExhaustTheFleetRate(t *testing.T) {
	f, urls := startReplicas(t, 2, catalog.Offer{})
	long := &legacyClient{t: t, session: connect(t, urls[0], "").session}
	if status, _ := long.send(http.MethodPost, urls[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"`+strings.Repeat("x", 10_000)+`"}}`); status != http.StatusAccepted || f.sent.Load() > 0 {
		t.Errorf("%d, %d were sent", status, f.sent.Load())
	}
	for range 300 {
		long.send(http.MethodPost, urls[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	}
	ann := connect(t, urls[0], "ann")
	if status, text := ann.send(http.MethodDelete, urls[0], ""); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
}

// Cancellations and log levels on stdio are not sent to other replicas in either era.
func TestConnectionsSendNoFleetMessages(t *testing.T) {
	f, _ := startReplicas(t, 2, catalog.Offer{})
	c := open(t, f.replicas[0], `{}`)
	defer c.close()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9,` + goodMeta + `}}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`)
	if line := c.next(); !strings.Contains(line, `"result":{}`) || f.sent.Load() > 0 {
		t.Errorf("%d were sent: %s", f.sent.Load(), line)
	}
}
