package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/identity"
	"github.com/toolyard/toolyard/internal/pgtest"
	"github.com/toolyard/toolyard/internal/store"
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

const (
	townSpan  = 30*24*time.Hour - time.Hour // how far back calls go
	townBatch = 5_000                       // calls that are written at once
)

// measurePeople shows how fast the API answers those who use the console.
func measurePeople(ctx context.Context, quick bool) error {
	t := fullTown
	if quick {
		t = quickTown
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
	fmt.Printf("Seeded in %v.\n", time.Since(began).Round(time.Second))
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
	classes := []toolyard.Latency{toolyard.Instant, toolyard.Fast, toolyard.Slow}
	tools := goTools(0)
	for i := range t.tools {
		spec := toolyard.Spec{
			Name: townTool(i), Category: categories[i%len(categories)], Latency: classes[i%len(classes)], Modes: toolyard.ReadOnly,
			Description: "Looks at one collection of records and returns those that fit best, with a title, a link and a short excerpt of each.",
		}
		if i%3 == 0 {
			spec.Modes = nil
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
	y, err := yard.New(yard.Options{Tools: t.goods(), ConfigFile: file, Version: "bench", Log: slog.New(slog.DiscardHandler)})
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

// past is what was seeded, as far as questions name it.
type past struct {
	token    string // of an operator
	sessions []string
	calls    []string // ids of some calls
	parents  []string // those that made others
}

// seed fills a new database.
func (t town) seed(ctx context.Context, address string) (*past, error) {
	s, err := store.Open(ctx, address+"&statement_timeout=60s") // this much is not written at once otherwise
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	p := &past{}
	if err := t.seedBooks(ctx, s, p); err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	if err := makeDays(ctx, db); err != nil {
		return nil, err
	}
	if err := t.seedCalls(ctx, s, p); err != nil {
		return nil, err
	}
	if err := s.Maintain(ctx, 0); err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "VACUUM ANALYZE") // as a server does by itself, sooner or later
	return p, err
}

// makeDays makes the partitions of the days that are over, as the store did when they were
// to come.
func makeDays(ctx context.Context, db *sql.DB) error {
	for at := time.Now().UTC().Add(-townSpan).Truncate(24 * time.Hour); at.Before(time.Now()); at = at.Add(24 * time.Hour) {
		text := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS calls_%s PARTITION OF calls FOR VALUES FROM ('%s') TO ('%s')`,
			at.Format("20060102"), at.Format(time.RFC3339), at.Add(24*time.Hour).Format(time.RFC3339))
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// seedBooks makes accounts, sessions, keys, and changes that people made.
func (t town) seedBooks(ctx context.Context, s *store.Store, p *past) error {
	for i := range t.accounts {
		if err := s.Fund(ctx, account(i), funds, "bench"); err != nil {
			return err
		}
		key, token, err := identity.New("bench", account(i), "", []string{identity.Operator, identity.Write}, 0, time.Now())
		if err == nil {
			p.token = token
			err = s.PutKey(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	for i := range t.sessions {
		id := "sess_" + strings.ToLower(rand.Text())
		p.sessions = append(p.sessions, id)
		if _, err := s.OpenSession(ctx, toolyard.Session{ID: id, Account: account(i % t.accounts), Limit: toolyard.USD, TTL: 24 * time.Hour}); err != nil {
			return err
		}
		if i%3 == 0 {
			if _, err := s.CloseSession(ctx, id); err != nil {
				return err
			}
		}
		at := time.Now().Add(-time.Duration(i) * time.Minute)
		change := &store.Change{ID: toolyard.NewCallID(at), At: at, Caller: account(i % t.accounts), Deed: []string{"toolset.put", "server.approve", "key.make"}[i%3], Subject: townServer(i % t.servers), Status: http.StatusOK}
		if err := s.BeginChange(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// seedCalls writes the calls, the oldest first, some batches at a time.
func (t town) seedCalls(ctx context.Context, s *store.Store, p *past) error {
	batches := make(chan []*store.CallRow)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for batch := range batches {
				if err := s.AppendCalls(ctx, batch); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	next, apart := t.caller(p), townSpan/time.Duration(t.calls)
	for n := 0; n < t.calls && failed.Load() == nil; n += townBatch {
		batch := make([]*store.CallRow, townBatch)
		for i := range batch {
			batch[i] = next(time.Now().Add(-apart * time.Duration(t.calls-n-i)))
		}
		batches <- batch
		if n%(t.calls/5) == 0 {
			fmt.Printf("%d calls …\n", n)
		}
	}
	close(batches)
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// caller returns what makes up a call at a time. Some tools are much more popular than others,
// and who calls one calls it a few times in a row.
func (t town) caller(p *past) func(at time.Time) *store.CallRow {
	popular := mathrand.NewZipf(mathrand.New(mathrand.NewPCG(1, 2)), 1.1, 4, uint64(t.tools-1))
	n, left, who, tool, before := 0, 0, 0, "", ""
	return func(at time.Time) *store.CallRow {
		if left--; left < 0 {
			left, who, tool = mathrand.N(10), mathrand.N(t.accounts), townTool(int(popular.Uint64()))
		}
		r := &store.CallRow{
			ID: toolyard.NewCallID(at), At: at, Elapsed: time.Duration(mathrand.ExpFloat64() * float64(40*time.Millisecond)), Gate: "default", Mode: toolyard.Read,
			Caller: account(who), Account: account(who), Tool: tool, Generation: 1, Code: toolyard.OK, ArgsSize: 60, ResultSize: 900,
			Marks: []toolyard.Mark{{Step: "record"}, {Step: "admit", At: 20 * time.Microsecond}, {Step: "run", At: 90 * time.Microsecond}, {Step: "ran", At: 10 * time.Millisecond}},
		}
		switch n++; n % 10 {
		case 0:
			r.Server = townServer(n / 10 % t.servers)
			r.Tool, _ = searchTool(mathrand.N(toolsPerEach))
		case 1, 2:
			r.Gate, r.Price, r.Session = "sdk", toolyard.USD/1000, p.sessions[mathrand.N(t.sessions/t.accounts)*t.accounts+who]
		case 4:
			r.Parent, p.parents = before, append(p.parents, before)
		}
		if n%20 == 13 {
			r.Code, r.Message = failures[n/20%len(failures)], "It did not work out this time."
		}
		if n%1000 == 0 {
			p.calls = append(p.calls, r.ID)
		}
		before = r.ID
		return r
	}
}

// failures are what calls fail with.
var failures = []toolyard.Code{toolyard.Failed, toolyard.Timeout, toolyard.Unavailable, toolyard.Invalid}

// visitor is a person with a browser.
type visitor struct {
	base, token string
	http        *http.Client
}

func newVisitor(base, token string) *visitor {
	return &visitor{base, token, &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 200, DisableCompression: true}}}
}

// send sends a request, with a body if it is not empty.
func (v *visitor) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.base+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+v.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return v.http.Do(r)
}

// do sends a request and reads the answer, which must be a good one.
func (v *visitor) do(ctx context.Context, method, path, body string) ([]byte, error) {
	res, err := v.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = refusal(fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, data[:min(len(data), 600)]))
	}
	return data, err
}

// refusal is an answer that is not a good one.
type refusal string

func (r refusal) Error() string { return string(r) }

// edit changes something a few times, so that there are versions to look at.
func (v *visitor) edit(ctx context.Context) error {
	for version := range 5 {
		body := fmt.Sprintf(`{"tools":[%q,%q],"version":%d}`, townTool(1), townTool(version+2), version)
		if _, err := v.do(ctx, http.MethodPut, "/toolsets/mine", body); err != nil {
			return err
		}
	}
	return nil
}

// question is something that a screen asks for.
type question struct {
	title string
	path  func() string
	body  string // of a POST
	pages int    // how deep to go; 0 for no pages
}

// answers are how long answers took, by what was asked, and how large the last one was.
type answers struct {
	mu      sync.Mutex
	took    map[string][]time.Duration
	size    map[string]int
	refused map[string]error
}

func newAnswers() *answers {
	return &answers{took: make(map[string][]time.Duration), size: make(map[string]int), refused: make(map[string]error)}
}

// ask asks a question, and goes on to its other pages.
func (a *answers) ask(ctx context.Context, v *visitor, q *question) error {
	method, path := http.MethodGet, q.path()
	if q.body != "" {
		method = http.MethodPost
	}
	for page := 1; page <= max(q.pages, 1); page++ {
		title := q.title
		if page > 1 {
			title = fmt.Sprintf("%s, page %d", q.title, page)
		}
		began := time.Now()
		data, err := v.do(ctx, method, path, q.body)
		if r := refusal(""); errors.As(err, &r) {
			a.refuse(title, r)
			return nil
		}
		if err != nil {
			return err
		}
		a.add(title, time.Since(began), len(data))
		if q.pages == 0 {
			return nil
		}
		var more struct{ Next string }
		if err := json.Unmarshal(data, &more); err != nil {
			return err
		}
		if more.Next == "" {
			return nil
		}
		path = q.path() + "&before=" + url.QueryEscape(more.Next)
	}
	return nil
}

func (a *answers) add(title string, took time.Duration, size int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took[title], a.size[title] = append(a.took[title], took), size
}

func (a *answers) refuse(title string, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[title] = why
}

// refusals are what was refused, which is nothing if all is well.
func (a *answers) refusals() (all error) {
	for _, title := range slices.Sorted(maps.Keys(a.refused)) {
		all = errors.Join(all, fmt.Errorf("%s: %w", title, a.refused[title]))
	}
	return all
}

// better takes over the answers of another turn where they were faster.
func (a *answers) better(turn *answers) {
	for title, took := range turn.took {
		if before, ok := a.took[title]; !ok || p95(took) < p95(before) {
			a.took[title], a.size[title] = took, turn.size[title]
		}
	}
	maps.Copy(a.refused, turn.refused)
}

// late reports whether a question, or one of its pages, missed the goal.
func (a *answers) late(q *question) bool {
	for title, took := range a.took {
		if (title == q.title || strings.HasPrefix(title, q.title+", page")) && p95(took) > peopleGoal {
			return true
		}
	}
	return false
}

func p95(took []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(took))[(len(took)*95+99)/100-1]
}

// print prints a line for each question, and returns the worst 95th percentile.
func (a *answers) print() (worst time.Duration) {
	fmt.Printf("| asked | times | p50 | p95 | max | bytes |\n|---|---|---|---|---|---|\n")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }
	slowest := ""
	for _, title := range slices.Sorted(maps.Keys(a.took)) {
		took := slices.Sorted(slices.Values(a.took[title]))
		if p := p95(took); p > worst {
			worst, slowest = p, title
		}
		fmt.Printf("| %s | %d | %s | %s | %s | %d |\n", title, len(took), ms(took[len(took)/2]), ms(p95(took)), ms(took[len(took)-1]), a.size[title])
	}
	fmt.Printf("\nThe slowest is %s: %s at p95 (goal: under %s).\n\n", slowest, ms(worst), ms(peopleGoal))
	return worst
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
		"/gates", "/gates/chat", "/gates/default", "/edits", "/edits/3", "/accounts", "/account", "/sessions", "/sessions?state=open", "/keys", "/changes", "/changes?deed=server.approve", "/changes?subject=s3",
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
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for _, days := range []int{1, 7, 30} {
		since := "&since=" + today.Add(-time.Duration(days-1)*24*time.Hour).Format(time.RFC3339)
		for _, by := range []string{"account&top=200", "tool&top=200", "day", "tool,day"} {
			if by == "tool,day" {
				since = "&since=" + time.Now().Add(-time.Duration(days)*24*time.Hour).UTC().Format(time.RFC3339)
			}
			path := "/costs?by=" + by + since
			q := question{title: fmt.Sprintf("/costs?by=%s, %d days", by, days), path: func() string { return path }}
			if by == "tool,day" && days > 1 { // of one account: all of them are more than one answer holds
				q.title += ", an account"
				q.path = func() string { return path + "&account=" + payer[mathrand.N(len(payer))] }
			}
			list = append(list, q)
		}
	}
	return list
}

// askTurns is how often a question is asked anew that was answered late: the machine may do
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

// stream is a live stream and the calls that it told of.
type stream struct {
	mu   sync.Mutex
	seen map[string]int // how often
	lost int
}

// watch opens a live stream, which ends with the context.
func (v *visitor) watch(ctx context.Context) (*stream, error) {
	patient := &visitor{v.base, v.token, &http.Client{Transport: v.http.Transport}}
	res, err := patient.send(ctx, http.MethodGet, "/calls/live", "")
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("the live stream: %s", res.Status)
	}
	s := &stream{seen: make(map[string]int)}
	go func() {
		defer func() { _ = res.Body.Close() }()
		s.follow(res.Body)
	}()
	return s, nil
}

// follow reads a stream to its end.
func (s *stream) follow(body io.Reader) {
	lines := bufio.NewReader(body)
	event := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if kind, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(bytes.TrimSpace(kind))
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || event == "begin" {
			continue
		}
		var told struct {
			ID    string
			Count int
		}
		_ = json.Unmarshal(data, &told)
		s.mu.Lock()
		s.seen[told.ID]++
		s.lost += told.Count
		s.mu.Unlock()
	}
}

// check is how many of some calls the stream did not tell of, or more than once, and how many
// events it lost.
func (s *stream) check(calls []string) (missing, again, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range calls {
		switch n := s.seen[id]; n {
		case 0:
			missing++
		default:
			again += n - 1
		}
	}
	return missing, again, s.lost
}

// crowd is many operators at once, each with a live stream, while tools are called.
func (t town) crowd(ctx context.Context, v *visitor, p *past) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Printf("%d operators, each with a live stream and a request a second, and %d calls a second, for %v …\n\n", t.operators, t.perSecond, t.watching)
	var streams []*stream
	for range t.operators {
		s, err := v.watch(ctx)
		if err != nil {
			return 0, err
		}
		streams = append(streams, s)
	}
	r := &rush{answers: newAnswers(), visitor: v, questions: t.questions(p), until: time.Now().Add(t.watching)}
	for range t.operators {
		r.running.Go(func() { r.note("", r.look(ctx)) })
	}
	apart := time.Second / time.Duration(t.perSecond)
	for at := r.until.Add(-t.watching); at.Before(r.until); at = at.Add(apart) { // also when it is late
		time.Sleep(time.Until(at))
		r.running.Go(func() { r.note(r.call(ctx)) })
	}
	r.running.Wait()
	if r.failed != nil {
		return 0, r.failed
	}
	return r.answers.print(), errors.Join(told(streams, r.made), r.answers.refusals())
}

// rush is a time in which much happens at once.
type rush struct {
	answers   *answers
	visitor   *visitor
	questions []question
	until     time.Time
	running   sync.WaitGroup

	mu     sync.Mutex
	made   []string // the ids of calls
	failed error
}

// note notes a call that was made, or a failure.
func (r *rush) note(call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if call != "" {
		r.made = append(r.made, call)
	}
	r.failed = errors.Join(r.failed, err)
}

// look is an operator who asks something every second.
func (r *rush) look(ctx context.Context) error {
	for time.Sleep(mathrand.N(time.Second)); time.Now().Before(r.until); time.Sleep(time.Second) {
		q := r.questions[mathrand.N(len(r.questions))]
		q.title, q.pages = "anything of the above", 0
		if err := r.answers.ask(ctx, r.visitor, &q); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool and returns the id of the call.
func (r *rush) call(ctx context.Context) (string, error) {
	began := time.Now()
	data, err := r.visitor.do(ctx, http.MethodPost, "/calls", `{"tool":"echo","args":{"text":"hello world"},"gate":"default"}`)
	if err != nil {
		return "", err
	}
	r.answers.add("a call of a tool", time.Since(began), len(data))
	var answer struct{ Receipt struct{ Call string } }
	err = json.Unmarshal(data, &answer)
	return answer.Receipt.Call, err
}

// told checks that every stream told of every call once, if only after a moment.
func told(streams []*stream, made []string) error {
	var missing, again, lost int
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		missing, again, lost = 0, 0, 0
		for _, s := range streams {
			m, a, l := s.check(made)
			missing, again, lost = missing+m, again+a, lost+l
		}
		if missing == 0 || time.Now().After(deadline) {
			break
		}
	}
	fmt.Printf("%d calls were made; %d streams together missed %d of them, told of %d once more, and of %d lost events.\n\n", len(made), len(streams), missing, again, lost)
	if missing+again > 0 {
		return fmt.Errorf("live streams missed %d of %d calls, and told of %d again", missing, len(made)*len(streams), again)
	}
	return nil
}
