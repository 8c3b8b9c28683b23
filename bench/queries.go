package main

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// query is a request that a screen of the console sends.
type query struct {
	title string
	path  func() string
	body  string // body of a POST request
	pages int    // number of pages to read; 0 if there is no paging
}

// queries returns all screens' requests.
func (t scenario) queries(p *history) []query {
	fixed := func(path string) func() string { return func() string { return path } }
	some := func(format string, values ...string) func() string {
		return func() string { return fmt.Sprintf(format, values[mathrand.N(len(values))]) }
	}
	list := []query{{title: "preview of a toolset", path: fixed("/toolsets/some/preview"), body: fmt.Sprintf(`{"tools":[%q],"servers":[{"id":"s1"}]}`, toolName(1))}}
	for _, path := range []string{
		"/me", "/overview", "/traffic?minutes=60", "/traffic?minutes=1440", "/problems", "/limits", "/servers", "/servers/s1", "/servers/s1/pending", "/toolsets", "/toolsets/some",
		"/gates", "/gates/chat", "/gates/default", "/edits", "/edits/3", "/accounts", "/account", "/sessions", "/sessions?state=open", "/keys", "/changes", "/changes?action=server.approve", "/changes?subject=s3",
		"/tools", "/tools?q=s", "/tools?q=se", "/tools?q=search+inv", "/tools?q=invoices", "/tools?q=upd+cust", "/tools?q=collection+records", "/tools?q=nothing+at+all", "/tools?source=-", "/tools?source=s1", "/tools?category=finance&mode=read",
		"/tools?price=paid", "/tools?latency=fast", "/tools?gate=chat", "/tools?problem=true", "/tools?limit=200&offset=1500", "/latencies",
	} {
		list = append(list, query{title: path, path: fixed(path)})
	}
	names := make([]string, 100)
	for i := range names {
		names[i] = toolName(i * i % t.tools)
	}
	payer := []string{account(1), account(2), account(3), account(4)}
	list = append(list, []query{
		{title: "/tools/-/{name}", path: some("/tools/-/%s", names...)},
		{title: "/tools/s1/{name}", path: fixed("/tools/s1/search_collection_00007")},
		{title: "/sessions?account", path: some("/sessions?account=%s", payer...)},
		{title: "/sessions/{id}", path: some("/sessions/%s", p.sessions...)},
		{title: "/calls/{id}", path: some("/calls/%s", p.calls...)},
		{title: "/latencies?server", path: fixed("/latencies?server=s1")},
		{title: "/latencies?tool", path: some("/latencies?tool=%s", names...)},
		{title: "/latencies?account", path: some("/latencies?account=%s", payer...)},
	}...)
	return slices.Concat(list, callQueries(p, names, payer), costQueries(payer))
}

// callQueries returns queries that list recorded calls with each filter, three pages deep.
func callQueries(p *history, names, payer []string) (list []query) {
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	for name, values := range map[string][]string{
		"limit": {"100"}, "account": payer, "caller": payer, "session": p.sessions, "server": {"s1", "s2"}, "tool": names, "gate": {"default", "sdk", "chat"}, "code": {"OK", "TIMEOUT", "CANCELED"},
		"failed": {"true"}, "parent": p.parents[:100], "since": {ago(time.Hour), ago(24 * time.Hour)}, "until": {ago(72 * time.Hour), ago(600 * time.Hour)},
		"failed=true&account": payer, "failed=true&tool": names, "failed=true&caller": payer, "gate=sdk&account": payer, "gate=chat&tool": names, "server=s1&tool": {"search_collection_00007"}, "code=TIMEOUT&server": {"s1"},
	} {
		list = append(list, query{title: "/calls?" + name, pages: 3, path: func() string {
			return "/calls?" + name + "=" + url.QueryEscape(values[mathrand.N(len(values))])
		}})
	}
	return list
}

// costQueries returns queries for costs: for whole days and rankings, as in the console, and for
// arbitrary periods, as in a program.
func costQueries(payer []string) (list []query) {
	const ragged = "tool,day&top=10000" // maximum number of rows
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for _, days := range []int{1, 7, 30} {
		since := "&since=" + today.Add(-time.Duration(days-1)*24*time.Hour).Format(time.RFC3339)
		for _, by := range []string{"account&top=200", "tool&top=200", "day", ragged} {
			if by == ragged {
				since = "&since=" + time.Now().Add(-time.Duration(days)*24*time.Hour).UTC().Format(time.RFC3339)
			}
			path := "/costs?by=" + by + since
			q := query{title: fmt.Sprintf("/costs?by=%s, %d days", by, days), path: func() string { return path }}
			if by == ragged && days > 1 { // only for one account, because all accounts together have too many rows
				q.title += ", an account"
				q.path = func() string { return path + "&account=" + payer[mathrand.N(len(payer))] }
			}
			list = append(list, q)
		}
	}
	return list
}

// queryTurns is how many times slow queries are measured again, because the machine may be busy.
const queryTurns = 3

// runAll runs all queries and returns the worst 95th percentile.
func (t scenario) runAll(ctx context.Context, v *apiClient, p *history) (time.Duration, error) {
	queries := t.queries(p)
	if err := runQueries(ctx, v, newTimings(), queries, 1); err != nil { // warm up
		return 0, err
	}
	best := newTimings()
	for turns := queryTurns; turns > 0 && len(queries) > 0; turns-- {
		fmt.Printf("%d queries, %d times each, %d in parallel …\n", len(queries), t.rounds, parallelQueries)
		turn := newTimings()
		if err := runQueries(ctx, v, turn, queries, t.rounds); err != nil {
			return 0, err
		}
		best.better(turn)
		queries = slices.DeleteFunc(queries, func(q query) bool { return !best.late(&q) })
	}
	fmt.Println()
	return best.print(), best.refusals()
}

// parallelQueries is the number of concurrent queries. The server, the database and the client
// share the machine.
const parallelQueries = 4

// runQueries runs each query several times, in random order.
func runQueries(ctx context.Context, v *apiClient, into *timings, queries []query, rounds int) error {
	var turns []*query
	for i := range queries {
		turns = append(turns, slices.Repeat([]*query{&queries[i]}, rounds)...)
	}
	mathrand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range parallelQueries {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(turns)) && failed.Load() == nil; i = next.Add(1) - 1 {
				if err := into.run(ctx, v, turns[i]); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
