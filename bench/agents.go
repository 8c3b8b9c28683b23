package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/yard"
)

// A long query has 25 turns with four calls each, and a final turn with the answer.
const (
	longTurns = 26
	longCalls = 100
)

var wireFormats = []string{"anthropic", "openai", "chat", "gemini"}

// modelScript returns the model's script: a long query, a short one, and one that is never
// answered.
func modelScript() ([]byte, error) {
	conversation := func(match string, turns, calls int) map[string]any {
		var list []any
		for n := range turns - 1 {
			var requested []any
			for i := range calls {
				requested = append(requested, map[string]any{"name": "lookup", "arguments": map[string]int{"n": n*calls + i}})
			}
			list = append(list, map[string]any{"think": "The next ones.", "call": requested})
		}
		return map[string]any{"match": match, "turns": append(list, map[string]any{"say": "That is all [e1]."})}
	}
	return json.Marshal(map[string]any{"conversations": []any{
		conversation("long", longTurns, longCalls/(longTurns-1)), conversation("short", 3, 2),
		map[string]any{"match": "wait", "turns": []any{map[string]any{"say": "never", "fault": map[string]any{"hang": true}}}},
	}})
}

// serveModel serves the agents' model. It responds at once, or with a pause before each event.
func serveModel(l net.Listener, ready func(), pause time.Duration) error {
	text, err := modelScript()
	if err != nil {
		return err
	}
	script, err := fakemodel.Parse(text)
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	server, err := fakemodel.New(fakemodel.Options{Script: script, Address: address, Delay: pause})
	if err != nil {
		return err
	}
	defer server.Close()
	ready()
	_, _ = io.Copy(io.Discard, os.Stdin) // blocks until the benchmark ends
	return nil
}

// agentBench is a yard with an agent for each wire format.
type agentBench struct {
	*yard.Yard
	stop func()
}

// newAgentBench starts a yard whose models are at the given address.
func newAgentBench(address string) (*agentBench, error) {
	dir, err := os.MkdirTemp("", "toolyard-bench")
	if err != nil {
		return nil, err
	}
	var models, agents strings.Builder
	for _, api := range wireFormats {
		base := (&fakemodel.Server{URL: "http://" + address}).BaseURL(api)
		fmt.Fprintf(&models, "  %s: {api: %s, model: fake, url: %q, private: true, concurrency: 1000, auth: {secretRef: env:MODEL_KEY}}\n", api, api, base)
		fmt.Fprintf(&agents, "  %s: {model: %s, gate: work, instructions: You look things up.}\n", api, api)
	}
	config := "models:\n" + models.String() + "agents:\n" + agents.String() +
		"gates:\n  work: {mode: read, surface: answer}\n  code: {mode: read, naming: plain, offer: code}\n  ask: {mode: read, agents: [" + strings.Join(wireFormats, ", ") + "]}\n"
	file := filepath.Join(dir, "toolyard.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	type number struct {
		N int `json:"n"`
	}
	lookup := toolyard.Define(toolyard.Spec{Name: "lookup", Description: "Looks up a number.", Effects: toolyard.ReadOnly}, func(_ context.Context, _ *toolyard.Call, in number) (map[string]any, error) {
		return map[string]any{"n": in.N, "text": strings.Repeat("x", 200)}, nil
	})
	y, err := yard.New(yard.Options{
		ConfigFile: file, Tools: []*toolyard.Tool{lookup}, Log: slog.New(slog.DiscardHandler),
		Process: yard.Process{Version: "bench", Getenv: modelKey},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	<-y.Ready()
	return &agentBench{y, func() { cancel(); <-ended; _ = os.RemoveAll(dir) }}, nil
}

func modelKey(name string) (string, bool) {
	if name == "MODEL_KEY" {
		return fakemodel.Key, true
	}
	return "", false
}

// ask sends a question to an agent and checks the number of calls.
func (b *agentBench) ask(ctx context.Context, agent, question string, calls int) error {
	res, err := b.Call(ctx, "ask", toolyard.Caller{ID: "bench"}, "ask_"+agent, fmt.Appendf(nil, `{"query":%q,"shape":"answer"}`, question))
	if err != nil {
		return err
	}
	var answer struct{ Usage struct{ Calls, Failed int } }
	if err := json.Unmarshal(res.Structured, &answer); err != nil {
		return err
	}
	if answer.Usage.Calls != calls || answer.Usage.Failed > 0 {
		return fmt.Errorf("%s made %d calls, %d of which failed; want %d", agent, answer.Usage.Calls, answer.Usage.Failed, calls)
	}
	return nil
}

// ballast is the amount of memory that toolyard serve reserves to make garbage collection less
// frequent.
const ballast = 32 << 20

// measureAgents measures the overhead of queries in addition to their models and tools.
func measureAgents(ctx context.Context, quick bool) error {
	defer runtime.KeepAlive(make([]byte, ballast))
	model, err := start(ctx, "model", 0)
	if err != nil {
		return err
	}
	defer model.stop()
	repeat, waiting := 20, 1000
	if quick {
		repeat, waiting = 5, 100
	}
	if err := measureTurns(ctx, model.addr, repeat); err != nil {
		return err
	}
	b, err := newAgentBench(model.addr)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.measureWaiting(ctx, waiting); err != nil {
		return err
	}
	slow, err := start(ctx, "slow-model", 0)
	if err != nil {
		return err
	}
	defer slow.stop()
	if err := measureAtOnce(ctx, slow.addr, waiting); err != nil {
		return err
	}
	return b.measureCode(ctx, 20*repeat)
}

// turnRounds is the number of rounds in which queries and bare loops alternate, so that both run
// under the same load. The lowest CPU time of any round is reported, which still varies between
// runs.
const turnRounds = 4

// measureTurns compares long queries with a loop that sends the same requests and discards the
// responses.
func measureTurns(ctx context.Context, address string, repeat int) error {
	fmt.Printf("A query with %d calls in %d turns: CPU per turn, lowest of %d rounds with %d queries each\n\n| wire format | query | bare loop of the same requests | overhead per turn |\n|---|---|---|---|\n",
		longCalls, longTurns, turnRounds, repeat)
	for _, api := range wireFormats {
		requests, err := recordRequests(ctx, address, api)
		if err != nil {
			return err
		}
		b, err := newAgentBench(address)
		if err != nil {
			return err
		}
		query, bare, err := lowestPerTurn(repeat,
			func() error { return b.ask(ctx, api, "long", longCalls) },
			func() error { return sendAll(ctx, address, requests) })
		b.stop()
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %v | %v | %v |\n", api, query.Round(time.Microsecond), bare.Round(time.Microsecond), (query - bare).Round(time.Microsecond))
	}
	fmt.Println()
	return nil
}

// lowestPerTurn returns the lowest CPU time per turn for two ways of exchanging the same requests.
func lowestPerTurn(repeat int, query, bare func() error) (ofQuery, ofBare time.Duration, err error) {
	ofQuery, ofBare = time.Hour, time.Hour
	for range turnRounds {
		q, err := cpuPerTurn(repeat, query)
		if err != nil {
			return 0, 0, err
		}
		b, err := cpuPerTurn(repeat, bare)
		if err != nil {
			return 0, 0, err
		}
		ofQuery, ofBare = min(ofQuery, q), min(ofBare, b)
	}
	return ofQuery, ofBare, nil
}

func cpuPerTurn(repeat int, run func() error) (time.Duration, error) {
	if err := run(); err != nil { // opens connections
		return 0, err
	}
	before, err := cpuOf(os.Getpid())
	if err != nil {
		return 0, err
	}
	for range repeat {
		if err := run(); err != nil {
			return 0, err
		}
	}
	after, err := cpuOf(os.Getpid())
	return (after - before) / time.Duration(repeat*longTurns), err
}

// recordedRequest is a query's request to its model.
type recordedRequest struct {
	path   string
	header http.Header
	body   []byte
}

// recordRequests returns a long query's requests.
func recordRequests(ctx context.Context, address, api string) (list []recordedRequest, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the model refuses an incomplete body
		list = append(list, recordedRequest{r.URL.RequestURI(), r.Header.Clone(), body})
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	b, err := newAgentBench(l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer b.stop()
	err = b.ask(ctx, api, "long", longCalls)
	return list, err
}

// sendAll sends requests one at a time and discards the responses.
func sendAll(ctx context.Context, address string, requests []recordedRequest) error {
	for _, r := range requests {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+r.path, bytes.NewReader(r.body))
		if err != nil {
			return err
		}
		req.Header = r.header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d: %w", res.StatusCode, err)
		}
	}
	return nil
}

// inUse returns the memory of live objects and stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second collection empties pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// measureWaiting measures the memory used by queries whose model has not responded yet.
func (b *agentBench) measureWaiting(ctx context.Context, n int) error {
	if err := b.ask(ctx, "chat", "short", 4); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := inUse()
	var ended sync.WaitGroup
	var failed atomic.Int64
	for range n {
		ended.Go(func() {
			if b.ask(ctx, "chat", "wait", 0) != nil && ctx.Err() == nil {
				failed.Add(1)
			}
		})
	}
	time.Sleep(5 * time.Second) // waits until all requests are sent
	each := (inUse() - before) / int64(n)
	cancel()
	ended.Wait()
	fmt.Printf("%d queries whose model thinks: %d KiB each (goal: at most 256 KiB); %d failed\n\n", n, each>>10, failed.Load())
	return nil
}

// measureAtOnce runs many queries at the same time, with a slow model.
func measureAtOnce(ctx context.Context, address string, n int) error {
	b, err := newAgentBench(address)
	if err != nil {
		return err
	}
	defer b.stop()
	before, err := residentMemory()
	if err != nil {
		return err
	}
	var ended sync.WaitGroup
	var failed atomic.Int64
	durations := make([]time.Duration, n)
	for i := range n {
		ended.Go(func() {
			began := time.Now()
			if err := b.ask(ctx, wireFormats[i%len(wireFormats)], "short", 4); err != nil {
				failed.Add(1)
			}
			durations[i] = time.Since(began)
		})
	}
	done := make(chan struct{})
	go func() { ended.Wait(); close(done) }()
	most := before
	for open := true; open; {
		select {
		case <-done:
			open = false
		case <-time.After(50 * time.Millisecond):
			if now, err := residentMemory(); err == nil {
				most = max(most, now)
			}
		}
	}
	slices.Sort(durations)
	fmt.Printf("%d queries at once on one replica, 3 turns and 4 calls each, in four wire formats: %d failed, p50 %v, slowest %v; the process grew by %d MiB to %d MiB\n\n",
		n, failed.Load(), durations[n/2].Round(time.Millisecond), durations[n-1].Round(time.Millisecond), (most-before)>>20, most>>20)
	return nil
}

// residentMemory returns this process's resident memory, in bytes.
func residentMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	return kib << 10, err
}
