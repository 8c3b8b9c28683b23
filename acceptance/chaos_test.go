package acceptance

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// kills returns the number of kills: CHAOS_KILLS (make chaos sets 1000), or else 100 in CI and 60
// elsewhere.
func kills(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("CHAOS_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("CHAOS_KILLS: %v", err)
		}
		return n
	}
	if os.Getenv("CI") != "" {
		return 100
	}
	return 60
}

// TestChaosMoney spends one session from all replicas concurrently, and then a thousand sessions.
func TestChaosMoney(t *testing.T) {
	url := pgtest.ForTest(t).Database(t)
	_, b := salesFleet(t, 3, url)
	s := b.mustOpen("0.5")
	start := time.Now()
	l := newLoad(b, func(int) order { return order{Tool: "note_read", Session: s.ID} })
	each(1000, func(i int) { l.one(i) })
	blast := time.Since(start)
	if n := l.count(); n > 500 {
		t.Errorf("%d calls were paid; there was money for 500", n)
	}
	// Leases that a replica does not use return to the store when they expire.
	for deadline := time.Now().Add(time.Minute); l.count() < 500 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		l.one(0)
	}
	for i := range 3 {
		if got := b.must(i, order{Tool: "note_read", Session: s.ID}); got.status != http.StatusPaymentRequired || got.Error != "BUDGET_EXCEEDED" {
			t.Errorf("a call without money: %+v", got)
		}
	}
	checkSession(t, b, s.ID, "0.5", "0")
	t.Logf("one session: 1,000 calls in %s; %s", blast.Round(time.Millisecond), l.figures())
	chaosSessions(t, b, 1000)
	settled(t, url, time.Minute)
	books := audit(t, url)
	if sum, calls := books.spent(s.ID); calls != 500 || sum != toolyard.USD/2 || l.count() != 500 {
		t.Errorf("%d calls were acknowledged, %d charged, %s in all", l.count(), calls, sum)
	}
	if len(books.charges) != 500+2000 {
		t.Errorf("%d charges", len(books.charges))
	}
}

// chaosSessions opens sessions with money for two calls each, and attempts three.
func chaosSessions(t *testing.T, b *buyer, n int) {
	t.Helper()
	sessions := make([]session, n)
	var failures sync.Map
	each(n, func(i int) {
		var err error
		if sessions[i], err = b.open("0.0025"); err != nil {
			failures.Store(i, err)
		}
	})
	failures.Range(func(_, err any) bool { t.Fatal(err); return false })
	start := time.Now()
	l := newLoad(b, func(i int) order { return order{Tool: "note_read", Session: sessions[i/3].ID} })
	each(3*n, func(i int) { l.one(i) })
	blast := time.Since(start)
	for deadline := time.Now().Add(2 * time.Minute); l.count() < 2*n && time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		each(n, func(i int) {
			if b.look(sessions[i].ID).Spent < 2*toolyard.USD/1000 {
				l.one(3 * i)
			}
		})
	}
	each(n, func(i int) { checkSession(t, b, sessions[i].ID, "0.002", "0.0005") })
	if l.count() != 2*n {
		t.Errorf("%d calls were acknowledged; there is money for %d", l.count(), 2*n)
	}
	t.Logf("%d sessions: %d calls in %s; %s", n, 3*n, blast.Round(time.Millisecond), l.figures())
}

// each calls do n times, up to a thousand calls at a time.
func each(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, 1000) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// killer kills random replicas one at a time and restarts each immediately.
func (f *fleet) killer(ctx context.Context, n int) (killed int, err error) {
	for killed < n && ctx.Err() == nil {
		r := f.replicas[mathrand.IntN(len(f.replicas))]
		time.Sleep(mathrand.N(150 * time.Millisecond))
		r.kill()
		killed++
		if err := r.start(); err != nil {
			return killed, err
		}
		if err := r.ready(3 * time.Minute); err != nil { // other tests may be using the machine too
			return killed, err
		}
	}
	return killed, nil
}

// sharing is the number of workers that share a session.
const sharing = 4

// spenders are workers that spend sessions. Exhausted sessions are replaced.
type spenders struct {
	*load
	limit string

	mu  sync.Mutex
	all []session
	now map[int]session // keyed by group of workers
}

func newSpenders(b *buyer, limit string) *spenders {
	p := &spenders{limit: limit, now: make(map[int]session)}
	p.load = newLoad(b, func(worker int) order {
		o := order{Tool: []string{"note_read", "note_write"}[worker%2], Session: p.session(worker).ID}
		if worker%sharing == 0 {
			o.Key = rand.Text()
		}
		return o
	})
	return p
}

func (p *spenders) session(worker int) session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now[worker/sharing]
}

// replace opens a new session for workers that share one.
func (p *spenders) replace(worker int) error {
	s, err := p.buyer.open(p.limit)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.all = append(p.all, s)
		p.now[worker/sharing] = s
	}
	return err
}

// work sends calls until ctx ends.
func (p *spenders) work(ctx context.Context, worker int) {
	for refused := 0; ctx.Err() == nil; {
		switch s := p.one(worker); {
		case s == nil:
			time.Sleep(5 * time.Millisecond)
		case s.status != http.StatusPaymentRequired:
			refused = 0
		case worker%sharing == 0 && refused > 5:
			refused = 0
			_ = p.replace(worker) // if this fails, the next attempt may succeed
		default:
			refused++
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// within checks that no session exceeded its limit and that each session matches the ledger.
func (p *spenders) within(t *testing.T, b books) {
	t.Helper()
	for _, s := range p.all {
		if sum, _ := b.spent(s.ID); sum > s.Limit {
			t.Errorf("%s of %s was spent", sum, s.Limit)
		} else if now := p.buyer.look(s.ID); now.Spent != sum || now.Held != 0 || now.Remaining != s.Limit-sum {
			t.Errorf("%s was charged, but the session has %+v", sum, now)
		}
	}
}

// TestChaosKills kills replicas under load. Every acknowledged call is charged exactly once, and no
// more money is spent than there is.
func TestChaosKills(t *testing.T) {
	url := pgtest.ForTest(t).Database(t)
	f, b := salesFleet(t, 3, url)
	p := newSpenders(b, "0.1")
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Minute)
	defer stop()
	var wg sync.WaitGroup
	for w := range 24 {
		if w%sharing == 0 {
			if err := p.replace(w); err != nil {
				t.Fatal(err)
			}
		}
		wg.Go(func() { p.work(ctx, w) })
	}
	start := time.Now()
	killed, err := f.killer(ctx, kills(t))
	took := time.Since(start)
	stop()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	settled(t, url, time.Minute)
	books := audit(t, url)
	p.paid(t, f, books)
	p.within(t, books)
	t.Logf("%d kills in %s, %d sessions, %d charges, %d runs; %s", killed, took.Round(time.Second), len(p.all), len(books.charges), len(f.runs()), p.figures())
}

// TestChaosOneKey sends one idempotency key a thousand times concurrently while replicas are
// killed.
func TestChaosOneKey(t *testing.T) {
	url := pgtest.ForTest(t).Database(t)
	f, b := salesFleet(t, 3, url)
	killed, acknowledged, silent := 0, 0, 0
	answers := make(map[order]string) // result of each key; empty if there is none
	for round := range max(3, kills(t)/20) {
		o := order{Tool: "note_write", Args: work{MS: 100 * (round % 5)}, Key: fmt.Sprintf("round-%d-%s", round, rand.Text())}
		results, statuses, n := f.repeatUnderKills(b, o)
		ran, charged := f.ofKey(o.Key, readBooks(t.Context(), t, url))
		if ran > 1 || charged > ran || len(results) > 1 || len(results) == 1 && charged != 1 {
			t.Errorf("one key ran %d times, was charged %d times, and has %d results: %v", ran, charged, len(results), statuses)
		}
		answers[o] = strings.Join(slices.Collect(maps.Keys(results)), " ")
		killed, acknowledged, silent = killed+n, acknowledged+len(results), silent+ran-min(ran, len(results))
	}
	settled(t, url, time.Minute)
	unknown := 0
	for o, want := range answers {
		s := b.must(0, o)
		if s.good() && want != "" && string(s.Result.Structured) != want || !s.good() && (want != "" || s.Error != "OUTCOME_UNKNOWN") {
			t.Errorf("a key with the result %q now returns %+v", want, s)
		}
		if !s.good() {
			unknown++
		}
		if ran, charged := f.ofKey(o.Key, readBooks(t.Context(), t, url)); ran > 1 || s.good() != (charged == 1) {
			t.Errorf("the last response is %+v; it ran %d times and was charged %d times", s, ran, charged)
		}
	}
	audit(t, url)
	t.Logf("%d keys, each sent 1,000 times, %d kills: %d acknowledged, %d ran without a response, %d with an unknown outcome", len(answers), killed, acknowledged, silent, unknown)
}

// repeatUnderKills sends one order a thousand times concurrently while replicas are killed.
func (f *fleet) repeatUnderKills(b *buyer, o order) (results map[string]bool, statuses map[int]int, killed int) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() {
		var err error
		killed, err = f.killer(ctx, 1000)
		done <- err
	}()
	results, statuses = b.repeat(1000, o)
	stop()
	if err := <-done; err != nil {
		f.t.Fatal(err)
	}
	return results, statuses, killed
}

// repeat sends one order n times concurrently. It returns the distinct results and the number of
// responses by status; status 0 means no response.
func (b *buyer) repeat(n int, o order) (results map[string]bool, statuses map[int]int) {
	var mu sync.Mutex
	results, statuses = make(map[string]bool), make(map[int]int)
	each(n, func(i int) {
		s, err := b.buy(i%len(b.bases), o)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			statuses[0]++
			return
		}
		statuses[s.status]++
		if s.good() {
			results[string(s.Result.Structured)] = true
		}
	})
	return results, statuses
}

// ofKey counts an idempotency key's runs and charges.
func (f *fleet) ofKey(key string, b books) (ran, charged int) {
	f.t.Helper()
	for _, n := range f.readNotes() {
		if n.Key == key && n.Event == "began" {
			ran++
			if _, ok := b.charges[n.Call]; ok {
				charged++
			}
		}
	}
	return ran, charged
}

// pace is a limit to test under real load.
type pace struct {
	rate     string
	limit    toolyard.Limit
	ms       int           // duration of a call
	possible int           // possible starts during the load; a permit becomes available again 61.5 s after it was granted
	apart    time.Duration // minimum time between two starts that use the same permit; zero if a minute's whole limit can start immediately, so that callers do not take turns
}

// pressure is the duration of the load. It is longer than the window of a limit per minute, so that
// a second window begins.
const pressure = 75 * time.Second

// TestChaosLimits floods three replicas with tool calls. No limit is exceeded, almost no capacity
// is wasted, and a flooding caller does not starve another.
func TestChaosLimits(t *testing.T) {
	heavy(t)
	var all sync.WaitGroup // these mostly wait, so they count as one parallel test
	defer all.Wait()
	for name, p := range map[string]pace{
		"per minute":  {"perMinute: 120", toolyard.Limit{PerMinute: 120}, 0, 240, 0},
		"cooldown":    {"cooldown: 1s", toolyard.Limit{Cooldown: time.Second}, 0, 74, time.Second},
		"concurrency": {"concurrency: 3", toolyard.Limit{Concurrency: 3}, 1000, 225, time.Second},
		"all":         {"perMinute: 60, cooldown: 500ms, concurrency: 2", toolyard.Limit{PerMinute: 60, Cooldown: 500 * time.Millisecond, Concurrency: 2}, 800, 86, 500 * time.Millisecond},
	} {
		all.Go(func() { t.Run(name, p.flood) })
	}
}

// flood checks the limit under load from two callers.
func (p pace) flood(t *testing.T) {
	url := pgtest.ForTest(t).Database(t)
	f := newFleet(t, 3, url, fmt.Sprintf("store: %q\nlimits: {wait: 5s, timeout: 5s}\nlog: {level: warn}\ngates: {default: {mode: read, callers: keys}}\nterms: {note_paced: {rate: {%s}}}\n", url, p.rate))
	flood, modest := f.buyer("flood", "flood", ""), f.buyer("modest", "modest", "")
	ctx, stop := context.WithTimeout(t.Context(), pressure)
	defer stop()
	var wg sync.WaitGroup
	for w := range 60 + 10 {
		b := flood
		if w >= 60 {
			b = modest
		}
		wg.Go(func() { press(ctx, b, w, p.ms) })
	}
	latency := probe(ctx, modest)
	wg.Wait()
	p.check(t, f.readNotes(), latency)
}

// probe returns the mean latency of calls to a tool that has no limit, which shows how busy the
// machine is.
func probe(ctx context.Context, b *buyer) time.Duration {
	var sum, n time.Duration
	for ctx.Err() == nil {
		start := time.Now()
		res, err := modernHTTP{url: b.bases[int(n)%len(b.bases)] + "/mcp", key: b.token}.post(ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"x"}}`)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			sum, n = sum+time.Since(start), n+1
		}
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
	return sum / max(1, n)
}

// TestChaosCallerQuota floods three replicas, which are constantly being killed, as two callers
// that each have a quota of 60 calls per minute. No caller starts 61 calls within a minute, and
// almost none of a quota is wasted.
func TestChaosCallerQuota(t *testing.T) {
	if os.Getenv("CHAOS_KILLS") == "" {
		t.Skip("takes minutes; run make chaos")
	}
	const windows = 3
	url := pgtest.ForTest(t).Database(t)
	f := newFleet(t, 3, url, fmt.Sprintf("store: %q\nlimits: {wait: 5s, timeout: 5s}\nlog: {level: warn}\ngates: {default: {mode: read, callers: keys, rate: [{per: caller, perMinute: 60}, {perMinute: 1000}]}}\n", url))
	ctx, stop := context.WithTimeout(t.Context(), (windows-1)*62*time.Second+45*time.Second) // long enough for the last window on a busy machine, and too short for another window
	defer stop()
	var wg sync.WaitGroup
	for w := range 20 {
		b := f.buyer([]string{"ann", "bob"}[w%2], "team", "")
		wg.Go(func() { press(ctx, b, w, 0) })
	}
	killed, err := f.killer(ctx, kills(t))
	if err != nil {
		t.Error(err)
	}
	wg.Wait()
	starts := make(map[string][]noted)
	for _, n := range f.readNotes() {
		if n.Event != "ended" {
			starts[n.Caller] = append(starts[n.Caller], n)
		}
	}
	for caller, list := range starts {
		slices.SortFunc(list, func(a, b noted) int { return a.At.Compare(b.At) })
		busiest := 0
		for i, n := range list {
			end, _ := slices.BinarySearchFunc(list, n.At.Add(time.Minute), func(n noted, at time.Time) int { return n.At.Compare(at) })
			busiest = max(busiest, end-i)
		}
		t.Logf("%s: %d starts of %d, at most %d in a minute, %d kills", caller, len(list), windows*60, busiest, killed)
		if busiest > 60 {
			t.Errorf("%s: %d starts in a minute", caller, busiest)
		}
		if len(list) < windows*60*98/100 {
			t.Errorf("%s: %d of %d calls started", caller, len(list), windows*60)
		}
	}
	if len(starts) != 2 {
		t.Errorf("%d callers were served", len(starts))
	}
}

// press calls a tool repeatedly.
func press(ctx context.Context, b *buyer, worker, ms int) {
	for i := 0; ctx.Err() == nil; i++ {
		c := modernHTTP{url: b.bases[(worker+i)%len(b.bases)] + "/mcp", key: b.token}
		res, err := c.post(ctx, "1", "tools/call", fmt.Sprintf(`{"name":"note_paced","arguments":{"ms":%d}}`, ms))
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// lateness is how long after its permit was granted a call may start if its process gets no CPU
// time.
const lateness = 5 * time.Second

// check checks the runs that the tool recorded. They may start later than permitted.
func (p pace) check(t *testing.T, notes []noted, latency time.Duration) {
	t.Helper()
	slices.SortFunc(notes, func(a, b noted) int { return a.At.Compare(b.At) })
	var starts []noted
	var gaps []time.Duration
	running, peak := 0, 0
	callers := make(map[string]int)
	for _, n := range notes {
		if n.Event == "ended" {
			running--
			continue
		}
		running++
		peak = max(peak, running)
		if len(starts) > 0 {
			gaps = append(gaps, n.At.Sub(starts[len(starts)-1].At))
		}
		starts = append(starts, n)
		callers[n.Caller]++
	}
	if len(gaps) == 0 {
		t.Fatalf("%d starts", len(starts))
	}
	slices.Sort(gaps)
	median := gaps[len(gaps)/2]
	busiest := most(starts, time.Minute-lateness)
	t.Logf("%s: %d starts, at most %d in %s, %d concurrent, median gap %s, by caller %v, latency %s",
		p.rate, len(starts), busiest, time.Minute-lateness, peak, median.Round(time.Microsecond), callers, latency.Round(time.Microsecond))
	if p.limit.PerMinute > 0 && busiest > p.limit.PerMinute {
		t.Errorf("%d starts in %s", busiest, time.Minute-lateness)
	}
	if p.limit.Concurrency > 0 && peak > p.limit.Concurrency {
		t.Errorf("%d concurrent calls", peak)
	}
	if c := p.limit.Cooldown; c > 0 {
		if median < c*9/10 {
			t.Errorf("half of the starts are at most %s apart", median)
		}
		for _, span := range []time.Duration{10 * time.Second, 30 * time.Second, pressure} {
			if n := most(starts, span-lateness); n > int(span/c)+1 {
				t.Errorf("%d starts in %s", n, span-lateness)
			}
		}
	}
	enough := 0.8 * float64(p.possible)
	if p.apart > 0 { // the next start needs several requests between processes
		enough *= float64(p.apart) / float64(p.apart+4*latency)
	}
	if float64(len(starts)) < enough {
		t.Errorf("%d starts; %d were possible", len(starts), p.possible)
	}
	if modest := float64(callers["modest"]); p.apart > 0 && modest < 0.4*float64(len(starts)) {
		t.Errorf("the modest caller got %.0f of %d", modest, len(starts))
	}
}

// most returns the largest number of starts within a period.
func most(starts []noted, within time.Duration) (n int) {
	for i, s := range starts {
		end, _ := slices.BinarySearchFunc(starts, s.At.Add(within), func(n noted, at time.Time) int { return n.At.Compare(at) })
		n = max(n, end-i)
	}
	return n
}
