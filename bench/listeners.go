package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// streamsPerConnection is the number of listeners that share a connection, as behind a proxy. Each
// connection belongs to a separate caller, because one caller may use only a quarter of the
// streams.
const streamsPerConnection = 500

const (
	listenersConfig = "listeners.yaml"
	callerHeader    = "Bench-Caller"
)

// callerOf identifies the caller by a header.
func callerOf(r *http.Request) (toolyard.Caller, error) {
	return toolyard.Caller{ID: r.Header.Get(callerHeader)}, nil
}

// startForListeners starts a yard that allows n open streams.
func startForListeners(ctx context.Context, n int) (c *contender, err error) {
	dir, err := os.MkdirTemp("", "toolyard-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the yard has read the file by the time it is ready
	text := fmt.Sprintf("limits:\n  streams: %d\n", max(n, 4*streamsPerConnection))
	if err := os.WriteFile(filepath.Join(dir, listenersConfig), []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startWith(ctx, "listeners", nil, "-serve", "listeners", "-dir", dir)
}

// measureListeners opens many subscriptions and changes a tool.
func measureListeners(ctx context.Context, n int) error {
	c, err := startForListeners(ctx, n)
	if err != nil {
		return err
	}
	defer c.stop()
	before, err := c.resident()
	if err != nil {
		return err
	}
	opened := time.Now()
	all, err := openListeners(ctx, c.addr, n)
	if err != nil {
		return err
	}
	open := time.Since(opened)
	after, err := c.resident()
	if err != nil {
		return err
	}
	calls, err := c.load(request("tools/call", "echo", callBody), 1, 2*time.Second)
	if err != nil {
		return err
	}
	changed := time.Now()
	if _, err := io.WriteString(c.in, "change\n"); err != nil {
		return err
	}
	notified := make([]time.Duration, 0, n)
	for range n {
		select {
		case at := <-all:
			notified = append(notified, at.Sub(changed))
		case <-ctx.Done():
			return fmt.Errorf("%d of %d listeners were notified: %w", len(notified), n, ctx.Err())
		}
	}
	slices.Sort(notified)
	fmt.Printf("\n%d open listeners on one process (HTTP/2, %d per connection, with the load generator on the same cores)\n\n", n, streamsPerConnection)
	fmt.Printf("| opened in | memory each | notified of a change, median / last | call latency during that time |\n|---|---|---|---|\n")
	fmt.Printf("| %v | %.1f KiB | %v / %v | %.0f µs |\n", open.Round(100*time.Millisecond), float64(after-before)/float64(n)/1024,
		notified[n/2].Round(time.Millisecond), notified[n-1].Round(time.Millisecond), 1e6/calls.perSecond)
	return nil
}

// resident returns the process's memory in bytes.
func (c *contender) resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS for %s", c.name)
}

// openListeners opens n subscriptions and returns when all are acknowledged. The channel receives
// the time at which each was notified of a change.
func openListeners(ctx context.Context, addr string, n int) (<-chan time.Time, error) {
	notified := make(chan time.Time, n)
	acknowledged, failed := make(chan struct{}, n), make(chan error, n)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	slots := make(chan struct{}, 64) // limits concurrent openings
	var wg sync.WaitGroup
	for first := 0; first < n; first += streamsPerConnection {
		client, caller := &http.Client{Transport: &http.Transport{Protocols: &protocols}}, fmt.Sprint("caller-", first)
		for range min(streamsPerConnection, n-first) {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				if err := listen(ctx, client, addr, caller, acknowledged, notified); err != nil {
					failed <- err
				}
			})
		}
	}
	wg.Wait()
	for range n {
		select {
		case <-acknowledged:
		case err := <-failed:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return notified, nil
}

func listen(ctx context.Context, client *http.Client, addr, caller string, acknowledged chan<- struct{}, notified chan<- time.Time) error {
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header = http.Header{"Mcp-Protocol-Version": {version}, "Mcp-Method": {"subscriptions/listen"}, "Accept": {"text/event-stream"}, callerHeader: {caller}}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return fmt.Errorf("a listener was refused: %s", res.Status)
	}
	go func() {
		defer func() { _ = res.Body.Close() }()
		lines := bufio.NewReaderSize(res.Body, 512)
		for {
			line, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.Contains(line, "acknowledged"):
				acknowledged <- struct{}{}
			case strings.Contains(line, "list_changed"):
				notified <- time.Now()
			}
		}
	}()
	return nil
}
