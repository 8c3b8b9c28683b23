package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store/pgtest"
	"github.com/toolyard/toolyard/yard"
)

// consoleGoal is the maximum response time of a console query at the 95th percentile.
const consoleGoal = 200 * time.Millisecond

// scenario describes the amount of data in the yard and the load on it.
type scenario struct {
	tools, servers, calls, sessions, accounts int

	rounds    int // requests per query
	operators int
	perSecond int // calls per second while operators watch
	watching  time.Duration
	slack     float64 // accepted factor above the goal; 0 for no limit
}

var (
	fullScenario  = scenario{10_000, 20, 1_000_000, 1_000, 50, 100, 50, 200, 20 * time.Second, 0}
	quickScenario = scenario{2_000, 20, 100_000, 200, 50, 20, 50, 200, 5 * time.Second, 10}
)

// measureConsole measures the console's queries. If calls is zero, the scenario determines the
// number of recorded calls.
func measureConsole(ctx context.Context, quick bool, calls int) error {
	t := fullScenario
	if quick {
		t = quickScenario
	}
	if calls != 0 {
		t.calls = calls
	}
	if t.calls < historyBatch {
		return fmt.Errorf("%d calls are too few: use at least -calls %d", t.calls, historyBatch)
	}
	c, err := pgtest.Start("", "fsync=off", "max_wal_size=4GB") // only reads are measured
	if err != nil {
		fmt.Printf("The queries of the console were not measured: %v\n\n", err)
		return nil
	}
	err = t.measure(ctx, c)
	return errors.Join(err, c.Close())
}

func (t scenario) measure(ctx context.Context, c *pgtest.Cluster) error {
	fmt.Printf("Console queries: %d tools, %d servers, %d calls in 30 days on PostgreSQL\n\n", t.tools, t.servers, t.calls)
	address, err := newDatabase(c)
	if err != nil {
		return err
	}
	began := time.Now()
	history, err := t.seed(ctx, address)
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("Seeded in %v: %.0f calls a second, %d bytes each with indexes and totals.\n", took.Round(time.Second), float64(t.calls)/took.Seconds(), history.bytes/int64(t.calls))
	base, stop, err := t.serve(ctx, address)
	if err != nil {
		return err
	}
	defer stop()
	v := newAPIClient(base, history.token)
	if err := v.edit(ctx); err != nil {
		return err
	}
	worst, failed := t.runAll(ctx, v, history)
	loaded, err := t.operate(ctx, v, history)
	failed = errors.Join(failed, err)
	if worst = max(worst, loaded); t.slack > 0 && worst > time.Duration(t.slack*float64(consoleGoal)) {
		failed = errors.Join(failed, fmt.Errorf("the slowest query takes %v; the goal is %v", worst, consoleGoal))
	}
	return failed
}

// toolName returns a local tool's name.
func toolName(i int) string {
	verbs := []string{"search", "get", "list", "create", "update", "delete", "export", "compare", "summarize", "watch"}
	nouns := []string{"invoices", "customers", "orders", "tickets", "repositories", "pipelines", "contracts", "payments", "documents", "calendars", "devices", "reports"}
	return fmt.Sprintf("%s_%s_%05d", verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)], i)
}

func (t scenario) localTools() []*toolyard.Tool {
	categories := []string{"finance", "sales", "support", "engineering", "legal", "operations"}
	classes := []string{"instant", "fast", "slow"}
	tools := goTools(0)
	for i := range t.tools {
		spec := toolyard.Spec{
			Name: toolName(i), Category: categories[i%len(categories)], Terms: toolyard.Terms{Latency: classes[i%len(classes)]}, Effects: toolyard.ReadOnly,
			Description: "Looks at one collection of records and returns those that fit best, with a title, a link and a short excerpt of each.",
		}
		if i%3 == 0 {
			spec.Effects = ""
		}
		tools = append(tools, toolyard.Define(spec, func(_ context.Context, _ *toolyard.Call, in searchArgs) (string, error) { return in.Query, nil }))
	}
	return tools
}

// config returns the yard's configuration.
func (t scenario) config(address, servers string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "store: %q\nedits: [toolsets, gates]\nrecord: {arguments: shape}\nterms:\n", address)
	for i := 0; i < t.tools; i += 20 {
		fmt.Fprintf(&b, "  %s: {executeUsd: %q, rate: {perMinute: 6000}}\n", toolName(i), "0.001")
	}
	fmt.Fprint(&b, "servers:\n")
	for i := range t.servers {
		fmt.Fprintf(&b, "  %s: {url: \"http://%s/%d\", required: true}\n", serverName(i), servers, i)
	}
	var names []string
	for i := 1; i < t.tools; i += 12 { // selects read-only tools
		names = append(names, toolName(i))
	}
	fmt.Fprintf(&b, "toolsets:\n  some: {tools: [%s], servers: [{id: %s}]}\n", strings.Join(names, ", "), serverName(0))
	fmt.Fprint(&b, "gates:\n  default: {mode: write, callers: keys}\n  chat: {mode: read, toolset: some, callers: keys}\n  sdk: {mode: write, surface: execute, callers: keys}\n")
	return b.String()
}

func serverName(i int) string { return fmt.Sprintf("s%d", i) }

// serve serves the yard and its servers in this process.
func (t scenario) serve(ctx context.Context, address string) (base string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	dir, err := os.MkdirTemp("", "toolyard-bench-")
	stop = func() {
		cancel()
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		return "", stop, err
	}
	servers, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", stop, err
	}
	go func() { _ = serveMany(servers, func() {}) }()
	context.AfterFunc(ctx, func() { _ = servers.Close() })
	file := filepath.Join(dir, wayConfig)
	if err := os.WriteFile(file, []byte(t.config(address, servers.Addr().String())), 0o600); err != nil {
		return "", stop, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", stop, err
	}
	y, err := yard.New(yard.Options{Tools: t.localTools(), ConfigFile: file, Process: yard.Process{Version: "bench"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", stop, err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	go func() { _ = y.Serve(ctx, l) }()
	select {
	case <-y.Ready():
	case <-time.After(time.Minute):
		err = errors.New("the yard did not become ready")
	}
	end := stop
	return "http://" + l.Addr().String(), func() { cancel(); <-ended; end() }, err
}
