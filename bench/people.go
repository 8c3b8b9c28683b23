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

// peopleGoal is how long the API may take to answer a person, at the 95th percentile.
const peopleGoal = 200 * time.Millisecond

// town is how much there is for people to look at, and how long they look.
type town struct {
	tools, servers, calls, sessions, accounts int

	rounds    int // requests for each question
	operators int
	perSecond int // calls while operators watch
	watching  time.Duration
	slack     float64 // how many times the goal may be missed by
}

var (
	fullTown  = town{10_000, 20, 1_000_000, 1_000, 50, 100, 50, 200, 20 * time.Second, 0}
	quickTown = town{2_000, 20, 100_000, 200, 50, 20, 50, 200, 5 * time.Second, 2}
)

// measurePeople shows how fast the API answers those who use the console. The number of calls on
// the record is that of the town if it is zero.
func measurePeople(ctx context.Context, quick bool, calls int) error {
	t := fullTown
	if quick {
		t = quickTown
	}
	if calls != 0 {
		t.calls = calls
	}
	if t.calls < townBatch {
		return fmt.Errorf("%d calls are too few to ask about: say at least -calls %d", t.calls, townBatch)
	}
	c, err := pgtest.Start("", "fsync=off", "max_wal_size=4GB") // what is measured is reading
	if err != nil {
		fmt.Printf("Answers to people were not measured: %v\n\n", err)
		return nil
	}
	err = t.measure(ctx, c)
	return errors.Join(err, c.Close())
}

func (t town) measure(ctx context.Context, c *pgtest.Cluster) error {
	fmt.Printf("What people ask the HTTP API: %d tools, %d servers, %d calls of 30 days on PostgreSQL\n\n", t.tools, t.servers, t.calls)
	address, err := newDatabase(c)
	if err != nil {
		return err
	}
	began := time.Now()
	past, err := t.seed(ctx, address)
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("Seeded in %v: %.0f calls a second, %d bytes each with indexes and sums.\n", took.Round(time.Second), float64(t.calls)/took.Seconds(), past.bytes/int64(t.calls))
	base, stop, err := t.serve(ctx, address)
	if err != nil {
		return err
	}
	defer stop()
	v := newVisitor(base, past.token)
	if err := v.edit(ctx); err != nil {
		return err
	}
	worst, failed := t.ask(ctx, v, past)
	crowd, err := t.crowd(ctx, v, past)
	failed = errors.Join(failed, err)
	if worst = max(worst, crowd); t.slack > 0 && worst > time.Duration(t.slack*float64(peopleGoal)) {
		failed = errors.Join(failed, fmt.Errorf("people wait %v for an answer, and should at most %v", worst, peopleGoal))
	}
	return failed
}

// townTool is the name of a local tool.
func townTool(i int) string {
	verbs := []string{"search", "get", "list", "create", "update", "delete", "export", "compare", "summarize", "watch"}
	nouns := []string{"invoices", "customers", "orders", "tickets", "repositories", "pipelines", "contracts", "payments", "documents", "calendars", "devices", "reports"}
	return fmt.Sprintf("%s_%s_%05d", verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)], i)
}

// goods are the local tools.
func (t town) goods() []*toolyard.Tool {
	categories := []string{"finance", "sales", "support", "engineering", "legal", "operations"}
	classes := []string{"instant", "fast", "slow"}
	tools := goTools(0)
	for i := range t.tools {
		spec := toolyard.Spec{
			Name: townTool(i), Category: categories[i%len(categories)], Terms: toolyard.Terms{Latency: classes[i%len(classes)]}, Effects: toolyard.ReadOnly,
			Description: "Looks at one collection of records and returns those that fit best, with a title, a link and a short excerpt of each.",
		}
		if i%3 == 0 {
			spec.Effects = ""
		}
		tools = append(tools, toolyard.Define(spec, func(_ context.Context, _ *toolyard.Call, in searchArgs) (string, error) { return in.Query, nil }))
	}
	return tools
}

// config is the configuration of the yard.
func (t town) config(address, servers string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "store: %q\nedits: [toolsets, gates]\nrecord: {arguments: shape}\nterms:\n", address)
	for i := 0; i < t.tools; i += 20 {
		fmt.Fprintf(&b, "  %s: {executeUsd: %q, rate: {perMinute: 6000}}\n", townTool(i), "0.001")
	}
	fmt.Fprint(&b, "servers:\n")
	for i := range t.servers {
		fmt.Fprintf(&b, "  %s: {url: \"http://%s/%d\", required: true}\n", townServer(i), servers, i)
	}
	var names []string
	for i := 1; i < t.tools; i += 12 { // none of those that write
		names = append(names, townTool(i))
	}
	fmt.Fprintf(&b, "toolsets:\n  some: {tools: [%s], servers: [{id: %s}]}\n", strings.Join(names, ", "), townServer(0))
	fmt.Fprint(&b, "gates:\n  default: {mode: write, callers: keys}\n  chat: {mode: read, toolset: some, callers: keys}\n  sdk: {mode: write, surface: execute, callers: keys}\n")
	return b.String()
}

func townServer(i int) string { return fmt.Sprintf("s%d", i) }

// serve serves the yard in this process, with its servers.
func (t town) serve(ctx context.Context, address string) (base string, stop func(), err error) {
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
	y, err := yard.New(yard.Options{Tools: t.goods(), ConfigFile: file, Process: yard.Process{Version: "bench"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", stop, err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	go func() { _ = y.Serve(ctx, l) }()
	select {
	case <-y.Ready():
	case <-time.After(time.Minute):
		err = errors.New("the yard does not get ready")
	}
	end := stop
	return "http://" + l.Addr().String(), func() { cancel(); <-ended; end() }, err
}
