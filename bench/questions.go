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

// question is something that a screen asks for.
type question struct {
	title string
	path  func() string
	body  string // of a POST
	pages int    // how deep to go; 0 for no pages
}

// questions are what the screens ask for.
func (t town) questions(p *past) []question {
	fixed := func(path string) func() string { return func() string { return path } }
	some := func(format string, values ...string) func() string {
		return func() string { return fmt.Sprintf(format, values[mathrand.N(len(values))]) }
	}
	list := []question{{title: "preview of a toolset", path: fixed("/toolsets/some/preview"), body: fmt.Sprintf(`{"tools":[%q],"servers":[{"id":"s1"}]}`, townTool(1))}}
	for _, path := range []string{
		"/me", "/overview", "/traffic?minutes=60", "/traffic?minutes=1440", "/problems", "/limits", "/servers", "/servers/s1", "/servers/s1/pending", "/toolsets", "/toolsets/some",
		"/gates", "/gates/chat", "/gates/default", "/edits", "/edits/3", "/accounts", "/account", "/sessions", "/sessions?state=open", "/keys", "/changes", "/changes?action=server.approve", "/changes?subject=s3",
		"/tools", "/tools?q=s", "/tools?q=se", "/tools?q=search+inv", "/tools?q=invoices", "/tools?q=upd+cust", "/tools?q=collection+records", "/tools?q=nothing+at+all", "/tools?source=-", "/tools?source=s1", "/tools?category=finance&mode=read",
		"/tools?price=paid", "/tools?latency=fast", "/tools?gate=chat", "/tools?problem=true", "/tools?limit=200&offset=1500", "/latencies",
	} {
		list = append(list, question{title: path, path: fixed(path)})
	}
	names := make([]string, 100)
	for i := range names {
		names[i] = townTool(i * i % t.tools)
	}
	payer := []string{account(1), account(2), account(3), account(4)}
	list = append(list, []question{
		{title: "/tools/-/{name}", path: some("/tools/-/%s", names...)},
		{title: "/tools/s1/{name}", path: fixed("/tools/s1/search_collection_00007")},
		{title: "/sessions?account", path: some("/sessions?account=%s", payer...)},
		{title: "/sessions/{id}", path: some("/sessions/%s", p.sessions...)},
		{title: "/calls/{id}", path: some("/calls/%s", p.calls...)},
		{title: "/latencies?server", path: fixed("/latencies?server=s1")},
		{title: "/latencies?tool", path: some("/latencies?tool=%s", names...)},
		{title: "/latencies?account", path: some("/latencies?account=%s", payer...)},
	}...)
	return slices.Concat(list, callQuestions(p, names, payer), costQuestions(payer))
}

// callQuestions ask for the record, with each filter, three pages deep.
func callQuestions(p *past, names, payer []string) (list []question) {
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	for name, values := range map[string][]string{
		"limit": {"100"}, "account": payer, "caller": payer, "session": p.sessions, "server": {"s1", "s2"}, "tool": names, "gate": {"default", "sdk", "chat"}, "code": {"OK", "TIMEOUT", "CANCELED"},
		"failed": {"true"}, "parent": p.parents[:100], "since": {ago(time.Hour), ago(24 * time.Hour)}, "until": {ago(72 * time.Hour), ago(600 * time.Hour)},
		"failed=true&account": payer, "failed=true&tool": names, "failed=true&caller": payer, "gate=sdk&account": payer, "gate=chat&tool": names, "server=s1&tool": {"search_collection_00007"}, "code=TIMEOUT&server": {"s1"},
	} {
		list = append(list, question{title: "/calls?" + name, pages: 3, path: func() string {
			return "/calls?" + name + "=" + url.QueryEscape(values[mathrand.N(len(values))])
		}})
	}
	return list
}

// costQuestions ask what calls have cost, in whole days and in rankings as the console asks, and
// in the ragged time of a program.
func costQuestions(payer []string) (list []question) {
	const ragged = "tool,day&top=10000" // as many rows as an answer holds
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for _, days := range []int{1, 7, 30} {
		since := "&since=" + today.Add(-time.Duration(days-1)*24*time.Hour).Format(time.RFC3339)
		for _, by := range []string{"account&top=200", "tool&top=200", "day", ragged} {
			if by == ragged {
				since = "&since=" + time.Now().Add(-time.Duration(days)*24*time.Hour).UTC().Format(time.RFC3339)
			}
			path := "/costs?by=" + by + since
			q := question{title: fmt.Sprintf("/costs?by=%s, %d days", by, days), path: func() string { return path }}
			if by == ragged && days > 1 { // of one account, as there are too many of all
				q.title += ", an account"
				q.path = func() string { return path + "&account=" + payer[mathrand.N(len(payer))] }
			}
			list = append(list, q)
		}
	}
	return list
}

// askTurns is how often a slow query is repeated: the machine may do
// other work too.
const askTurns = 3

// ask asks all questions, and returns the worst 95th percentile.
func (t town) ask(ctx context.Context, v *visitor, p *past) (time.Duration, error) {
	questions := t.questions(p)
	if err := askOnce(ctx, v, newAnswers(), questions, 1); err != nil { // so that nothing is built for the first time
		return 0, err
	}
	best := newAnswers()
	for turns := askTurns; turns > 0 && len(questions) > 0; turns-- {
		fmt.Printf("%d questions, %d times each, %d at once …\n", len(questions), t.rounds, askers)
		turn := newAnswers()
		if err := askOnce(ctx, v, turn, questions, t.rounds); err != nil {
			return 0, err
		}
		best.better(turn)
		questions = slices.DeleteFunc(questions, func(q question) bool { return !best.late(&q) })
	}
	fmt.Println()
	return best.print(), best.refusals()
}

// askers is how many ask at once. Server, database and askers share the machine.
const askers = 4

// askOnce asks questions some times each in a mixed order.
func askOnce(ctx context.Context, v *visitor, into *answers, questions []question, rounds int) error {
	var turns []*question
	for i := range questions {
		turns = append(turns, slices.Repeat([]*question{&questions[i]}, rounds)...)
	}
	mathrand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range askers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(turns)) && failed.Load() == nil; i = next.Add(1) - 1 {
				if err := into.ask(ctx, v, turns[i]); err != nil {
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
