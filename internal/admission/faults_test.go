package admission

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
)

// flaky is a store that sometimes fails, succeeds without reporting it, or is slow.
type flaky struct {
	Store
	mu      sync.Mutex
	random  *rand.Rand
	rate    float64 // fraction of exchanges that go wrong
	away    bool    // all exchanges go wrong
	next    *fault  // next fault; nil for a random one
	charged map[string]toolyard.Money
}

func newFlaky(s Store, seed uint64) *flaky {
	return &flaky{Store: s, random: rand.New(rand.NewPCG(seed, 1)), charged: map[string]toolyard.Money{}}
}

func (f *flaky) set(rate float64, away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.away = rate, away
}

// fail sets the next fault.
func (f *flaky) fail(next fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = &next
}

// fault is a kind of failure, and a delay.
type fault struct {
	before, after, hang bool
	early, late         time.Duration
}

func (f *flaky) draw() (x fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return fault{before: true}
	}
	if f.next != nil {
		x, f.next = *f.next, nil
		return x
	}
	if f.random.Float64() >= f.rate {
		return x
	}
	switch d := time.Duration(f.random.Int64N(int64(4 * time.Second))); f.random.IntN(6) {
	case 0:
		x.before = true
	case 1:
		x.after = true
	case 2:
		x.before, x.hang = true, true
	case 3:
		x.after, x.hang = true, true
	case 4:
		x.early = d
	default:
		x.late = d
	}
	return x
}

func (f *flaky) Exchange(ctx context.Context, b *ledger.Batch) (*ledger.Results, error) {
	time.Sleep(time.Millisecond) // no store responds immediately
	x := f.draw()
	time.Sleep(x.early)
	if x.before {
		return nil, x.end(ctx)
	}
	a, err := f.Store.Exchange(ctx, b)
	if err != nil {
		return nil, err
	}
	f.note(b, a)
	time.Sleep(x.late)
	if x.after {
		return nil, x.end(ctx)
	}
	return a, nil
}

func (x fault) end(ctx context.Context) error {
	if x.hang {
		<-ctx.Done()
	}
	return ledger.ErrUnavailable
}

// note records charges.
func (f *flaky) note(b *ledger.Batch, a *ledger.Results) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range b.Settlements {
		if a.Settlements[i].Refused == nil && s.Amount > 0 {
			f.charged[s.Call] = s.Amount
		}
	}
}

// world is a set of replicas that share an unreliable store.
type world struct {
	t       *testing.T
	store   *store.Store
	flaky   *flaky
	desks   []*Controller
	running sync.WaitGroup
	stop    context.CancelFunc

	mu    sync.Mutex
	calls int
	ran   []ran
	free  []*Request // calls with a key that were not made
}

// ran is a call that ran.
type ran struct {
	ask        *Request
	start, end time.Time
	err        error // error of settling it
	failed     bool  // the call did not succeed, so it costs nothing
}

func newWorld(t *testing.T, replicas int, seed uint64, change func(*Options)) *world {
	s, err := store.Open(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, flaky: newFlaky(s, seed)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	w.stop = cancel
	for i := range replicas {
		o := Options{Replica: fmt.Sprint("replica-", i), Log: slog.New(slog.DiscardHandler)}
		change(&o)
		d := New(w.flaky, o)
		w.desks = append(w.desks, d)
		w.running.Go(func() { d.Run(ctx) })
	}
	return w
}

func (w *world) fund(account string, amount toolyard.Money) {
	if err := w.store.Fund(w.t.Context(), account, amount, fmt.Sprint(time.Now())); err != nil {
		w.t.Fatal(err)
	}
}

// close stops everything and checks for leftovers.
func (w *world) close() {
	for _, d := range w.desks {
		d.wakeLoop() // a controller that has no requests does not maintain its leases
	}
	time.Sleep(10 * time.Second)
	for _, d := range w.desks {
		d.mu.Lock()
		if n := len(d.queues) + len(d.leases.limits) + len(d.leases.budgets) + len(d.durable) + len(d.outbox.settlements) + len(d.outbox.releases) + len(d.outbox.returns); n > 0 {
			w.t.Errorf("%s is not empty: %d queues, %d limits, %d budgets, %d waiters", d.opts.Replica, len(d.queues), len(d.leases.limits), len(d.leases.budgets), len(d.durable))
		}
		d.mu.Unlock()
	}
	w.stop()
	w.running.Wait()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

// Limits used in these tests.
var (
	busyTool = LimitRef{Key: "busy", Name: "busy", Limit: toolyard.Limit{PerMinute: 300, Concurrency: 3}}
	coolTool = LimitRef{Key: "cool", Name: "cool", Limit: toolyard.Limit{Cooldown: 150 * time.Millisecond}}
)

// ask returns a random request. Half of the requests have a price, and a third have a key.
func (w *world) ask(r *rand.Rand) *Request {
	w.mu.Lock()
	w.calls++
	id := fmt.Sprint("call-", w.calls)
	w.mu.Unlock()
	a := &Request{
		CallID: id, Caller: fmt.Sprint("caller-", r.IntN(3)), Account: "acme", Seller: "shop",
		Timeout: 2 * time.Second, Wait: time.Duration(1+r.IntN(20)) * time.Second,
	}
	if r.IntN(3) > 0 {
		a.Limits = append(a.Limits, []LimitRef{busyTool, coolTool}[r.IntN(2)])
	}
	if r.IntN(2) == 0 || len(a.Limits) == 0 {
		a.Balance, a.Price = "acme", toolyard.Money(1+9*r.IntN(2))
	}
	if r.IntN(3) == 0 {
		a.Scope, a.Key, a.Digest = "acme", id, sha256.Sum256([]byte(id))
	}
	return a
}

// call makes a call that may be canceled at any time.
func (w *world) call(r *rand.Rand, a *Request) {
	d := w.desks[r.IntN(len(w.desks))]
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	if r.IntN(4) == 0 {
		defer time.AfterFunc(time.Duration(r.Int64N(int64(3*time.Second))), cancel).Stop()
	}
	asked := time.Now()
	ticket, err := d.Admit(ctx, a)
	if took := time.Since(asked); took > max(a.Wait, storeTimeout)+100*time.Millisecond { // the store may be slow
		w.t.Errorf("%s got %v after %v, with a wait of %v", a.CallID, err, took, a.Wait)
	}
	if err != nil {
		w.refused(a, err)
		return
	}
	made := ran{ask: a, start: time.Now(), failed: r.IntN(5) == 0}
	time.Sleep(time.Duration(r.Int64N(int64(200 * time.Millisecond))))
	made.end = time.Now()
	o := toolyard.Outcome{Result: &toolyard.Result{}}
	if made.failed {
		o = toolyard.Outcome{Err: &toolyard.Error{Code: toolyard.Failed}}
	}
	_, made.err = d.Settle(ctx, ticket, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran = append(w.ran, made)
}

func (w *world) refused(a *Request, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.Key != "" {
		w.free = append(w.free, a)
	}
	switch code := toolyard.AsError(err).Code; code {
	case toolyard.RateLimited, toolyard.BudgetExceeded, toolyard.Unavailable, toolyard.Canceled:
	default:
		w.t.Errorf("%s: %s: %v", a.CallID, code, err)
	}
}

// load makes callers send calls one after another.
func (w *world) load(callers, each int, seed uint64) {
	var all sync.WaitGroup
	for i := range callers {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range each {
				w.call(r, w.ask(r))
			}
		})
	}
	all.Wait()
}

// checkLimits checks that no limit was exceeded.
func (w *world) checkLimits(p LimitRef) {
	var of []ran
	for _, r := range w.ran {
		if slices.ContainsFunc(r.ask.Limits, func(other LimitRef) bool { return other.Key == p.Key }) {
			of = append(of, r)
		}
	}
	slices.SortFunc(of, func(a, b ran) int { return a.start.Compare(b.start) })
	for i, r := range of {
		if n := p.Limit.PerMinute; n > 0 && i >= n && r.start.Sub(of[i-n].start) < time.Minute {
			w.t.Errorf("%s: %d calls began within %v", p.Key, n+1, r.start.Sub(of[i-n].start))
		}
		if i > 0 && r.start.Sub(of[i-1].start) < p.Limit.Cooldown {
			w.t.Errorf("%s: %s began %v after %s", p.Key, r.ask.CallID, r.start.Sub(of[i-1].start), of[i-1].ask.CallID)
		}
		at := 0
		for _, other := range of[:i+1] {
			if other.end.After(r.start) {
				at++
			}
		}
		if n := p.Limit.Concurrency; n > 0 && at > n {
			w.t.Errorf("%s: %d calls ran concurrently when %s began", p.Key, at, r.ask.CallID)
		}
	}
}

// checkMoney checks that exactly the successful calls were charged.
func (w *world) checkMoney() (spent toolyard.Money) {
	told := map[string]bool{}
	for _, r := range w.ran {
		amount, charged := w.flaky.charged[r.ask.CallID]
		told[r.ask.CallID] = true
		switch {
		case r.failed || r.ask.Price == 0:
			if charged {
				w.t.Errorf("%s was charged by mistake", r.ask.CallID)
			}
		case r.err == nil && amount != r.ask.Price:
			w.t.Errorf("%s succeeded but was charged %s of %s", r.ask.CallID, amount, r.ask.Price)
		case r.err != nil && toolyard.AsError(r.err).Code != toolyard.OutcomeUnknown:
			w.t.Errorf("%s: %v", r.ask.CallID, r.err)
		}
	}
	for call, amount := range w.flaky.charged {
		if spent += amount; !told[call] {
			w.t.Errorf("%s was charged but did not run", call)
		}
	}
	p, err := w.store.Balance(w.t.Context(), "acme")
	if err != nil || p.Spent != spent {
		w.t.Errorf("%+v was spent, and %s charged: %v", p, spent, err)
	}
	return spent
}

// checkKeys reuses the keys of calls that did not run.
func (w *world) checkKeys() {
	for i, a := range w.free {
		again := *a
		again.CallID, again.Wait, again.Price, again.Balance, again.Limits = a.CallID+"-again", time.Second, 0, "", nil
		ticket, err := w.desks[i%len(w.desks)].Admit(w.t.Context(), &again)
		if err != nil || ticket.Replay != nil {
			w.t.Errorf("the key of %s, which did not run, is not free: %v", a.CallID, err)
			continue
		}
		if _, err := w.desks[i%len(w.desks)].Settle(w.t.Context(), ticket, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
			w.t.Error(err)
		}
	}
}

// spendAll spends the remaining money, one call at a time, on all replicas.
func (w *world) spendAll() (n toolyard.Money) {
	for i := 0; ; i++ {
		a := &Request{CallID: fmt.Sprint("rest-", i), Caller: "ann", Account: "acme", Balance: "acme", Price: 1, Seller: "shop", Timeout: time.Second, Wait: 3 * time.Second}
		d := w.desks[i%len(w.desks)]
		ticket, err := d.Admit(w.t.Context(), a)
		if err != nil {
			if toolyard.AsError(err).Code != toolyard.BudgetExceeded {
				w.t.Errorf("spending the rest: %v", err)
			}
			return n
		}
		if _, err := d.Settle(w.t.Context(), ticket, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
			w.t.Errorf("spending the rest: %v", err)
			return n
		}
		n++
	}
}

// Three replicas handle thousands of calls while their store hangs or fails before or after a
// change, and callers cancel at any time. No limit is exceeded, each successful call is charged
// exactly once, and at the end all money and keys are usable.
func TestFaults(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() { // slow with the race detector
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const budget = 1500
				w := newWorld(t, 3, seed, func(*Options) {})
				w.fund("acme", budget)
				w.flaky.set(0.05, false)
				w.load(30, 30, seed)
				w.flaky.set(0, false)
				time.Sleep(40 * time.Second) // all leases expire
				w.checkLimits(busyTool)
				w.checkLimits(coolTool)
				spent := w.checkMoney()
				t.Logf("%d calls of %d ran, and cost %d", len(w.ran), w.calls, spent)
				w.checkKeys()
				if rest := w.spendAll(); spent+rest != budget {
					t.Errorf("of %d, %d was spent, and then %d", budget, spent, rest)
				}
				w.close()
			})
		})
	}
}

// plain returns a request that has no limits.
func plain(id string, change func(*Request)) *Request {
	a := &Request{CallID: id, Caller: "ann", Account: "acme", Seller: "shop", Timeout: 5 * time.Second, Wait: 30 * time.Second}
	change(a)
	return a
}

func succeeded() toolyard.Outcome { return toolyard.Outcome{Result: &toolyard.Result{}} }

func code(err error) toolyard.Code {
	if err == nil {
		return toolyard.OK
	}
	return toolyard.AsError(err).Code
}

// While the store is down, calls that do not need it run, and calls that need money, a key or a
// limit are refused promptly.
func TestAnUnavailableStore(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Request)
		local  bool
		want   toolyard.Code
	}{
		{"nothing", func(*Request) {}, false, toolyard.OK},
		{"of this replica", func(a *Request) {
			a.Limits = []LimitRef{{Key: "own", Local: true, Limit: toolyard.Limit{Concurrency: 1}}}
		}, false, toolyard.OK},
		{"money", func(a *Request) { a.Balance, a.Price = "acme", 1 }, false, toolyard.Unavailable},
		{"money, alone", func(a *Request) { a.Balance, a.Price = "acme", 1 }, true, toolyard.Unavailable},
		{"key", func(a *Request) { a.Scope, a.Key = "acme", "k" }, false, toolyard.Unavailable},
		{"key, alone", func(a *Request) { a.Scope, a.Key = "acme", "k" }, true, toolyard.Unavailable},
		{"limit", func(a *Request) { a.Limits = []LimitRef{busyTool} }, false, toolyard.Unavailable},
		{"limit, alone", func(a *Request) { a.Limits = []LimitRef{busyTool} }, true, toolyard.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 0, func(o *Options) { o.LocalFallback = tt.local })
				w.fund("acme", 10)
				w.flaky.set(0, true)
				time.Sleep(time.Second)
				asked := time.Now()
				ticket, err := w.desks[0].Admit(t.Context(), plain("c", tt.change))
				if took := time.Since(asked); code(err) != tt.want || took > 3*time.Second {
					t.Errorf("%v after %v", err, took)
				}
				if err == nil {
					if _, err := w.desks[0].Settle(t.Context(), ticket, succeeded()); err != nil {
						t.Error(err)
					}
				}
				w.flaky.set(0, false)
				w.close()
			})
		})
	}
}

// A replica that cannot reach the store stays within its share of a limit.
func TestAloneWithinItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := LimitRef{Key: "tool", Limit: toolyard.Limit{PerMinute: 9}}
		w := newWorld(t, 3, 0, func(o *Options) { o.LocalFallback = true })
		for i, d := range w.desks { // lets each replica see the others
			if _, err := d.Admit(t.Context(), plain(fmt.Sprint(i), func(a *Request) { a.Limits = []LimitRef{tool} })); err != nil {
				t.Fatal(err)
			}
		}
		w.flaky.set(0, true)
		n := 0
		for i := range 10 {
			a := plain(fmt.Sprint("alone-", i), func(a *Request) { a.Limits, a.Wait = []LimitRef{tool}, 4*time.Second })
			if _, err := w.desks[2].Admit(t.Context(), a); err == nil {
				n++
			}
		}
		if n != 3 {
			t.Errorf("%d calls of a share of 3", n)
		}
		w.flaky.set(0, false)
		w.close()
	})
}

// A call that ends while the store is down is settled when the store is back. If its money was
// already returned, the call is not charged, and its caller gets an error.
func TestSettlingWhileTheStoreIsDown(t *testing.T) {
	for _, tt := range []struct {
		away    time.Duration
		durable bool
		want    toolyard.Code
		charged int
	}{
		{3 * time.Second, false, toolyard.OK, 1},
		{3 * time.Second, true, toolyard.OK, 1},
		{time.Minute, false, toolyard.OutcomeUnknown, 0},
		{time.Minute, true, toolyard.OutcomeUnknown, 0},
	} {
		t.Run(fmt.Sprintf("%v, durable %v", tt.away, tt.durable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2, 0, func(*Options) {})
				w.fund("acme", 10)
				a := plain("c", func(a *Request) { a.Balance, a.Price, a.Writes = "acme", 4, tt.durable })
				ticket, err := w.desks[0].Admit(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				w.flaky.set(0, true)
				settled := make(chan error, 1)
				go func() {
					_, err := w.desks[0].Settle(t.Context(), ticket, succeeded())
					settled <- err
				}()
				time.Sleep(tt.away) // replicas sweep in the meantime
				w.flaky.set(0, false)
				if err := <-settled; code(err) != tt.want {
					t.Error(err)
				}
				time.Sleep(10 * time.Second)
				if len(w.flaky.charged) != tt.charged {
					t.Errorf("charged: %v", w.flaky.charged)
				}
				if rest := w.spendAll(); rest != toolyard.Money(10-4*tt.charged) {
					t.Errorf("%d was left", rest)
				}
				w.close()
			})
		})
	}
}

// A caller that cancels during a request to the store leaves nothing behind: the key is free and
// the money is returned well before the reservation expires, even if the reply was lost.
func TestCancelingWhileTheStoreIsQueried(t *testing.T) {
	for name, x := range map[string]fault{
		"slow": {late: 500 * time.Millisecond}, "slow to begin": {early: 500 * time.Millisecond}, "lost": {after: true}, "lost and slow": {after: true, hang: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 0, func(*Options) {})
				w.fund("acme", 10)
				w.flaky.next = &x
				a := plain("c", func(a *Request) {
					a.Balance, a.Price, a.Scope, a.Key, a.Timeout = "acme", 10, "acme", "k", time.Hour
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				if _, err := w.desks[0].Admit(ctx, a); err == nil {
					t.Fatal("it was admitted")
				}
				time.Sleep(7 * time.Second)
				a.CallID = "d"
				ticket, err := w.desks[0].Admit(t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.desks[0].Settle(t.Context(), ticket, succeeded()); err != nil {
					t.Error(err)
				}
				w.close()
			})
		})
	}
}

// A cheap call that arrives while the store handles an expensive one does not take money that is
// returned when the store refuses the expensive call, even if the refusal is lost.
func TestACheapCallNextToAnExpensiveOne(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 2, 0, func(*Options) {})
			w.fund("acme", 11)
			admit := func(d *Controller, id string, price toolyard.Money) *Admission {
				line := LimitRef{Key: id, Local: true, Limit: toolyard.Limit{Concurrency: 1}} // prevents calls from queuing behind each other
				a := plain(id, func(a *Request) { a.Balance, a.Price, a.Limits = "acme", price, []LimitRef{line} })
				ticket, err := d.Admit(t.Context(), a)
				if err != nil && code(err) != toolyard.BudgetExceeded {
					t.Fatal(id, err)
				}
				return ticket
			}
			other := admit(w.desks[1], "other", 6) // takes all money that the replica does not have
			first := admit(w.desks[0], "first", 5)
			if _, err := w.desks[0].Settle(t.Context(), first, toolyard.Outcome{Err: &toolyard.Error{Code: toolyard.Failed}}); err != nil {
				t.Fatal(err)
			}
			w.flaky.next = &fault{after: lost}
			var dear sync.WaitGroup
			dear.Go(func() { admit(w.desks[0], "dear", 7) })
			time.Sleep(500 * time.Microsecond) // the store is handling the request
			if lost {
				time.Sleep(5 * time.Millisecond) // no further request has been sent yet
			}
			if cheap := admit(w.desks[0], "cheap", 5); cheap != nil {
				time.Sleep(time.Second)
				if _, err := w.desks[0].Settle(t.Context(), cheap, succeeded()); err != nil {
					t.Errorf("lost %v: %v", lost, err)
				}
			}
			dear.Wait()
			if _, err := w.desks[1].Settle(t.Context(), other, succeeded()); err != nil {
				t.Error(err)
			}
			w.close()
		})
	}
}

// Calls that wait for a narrow limit do not block other calls from a wide limit that both need.
func TestANarrowLimitLeavesTheWideOneAlone(t *testing.T) {
	for i := range 6 {
		wide, keyed := []toolyard.Limit{{PerMinute: 60}, {Concurrency: 1}, {Cooldown: 200 * time.Millisecond}}[i/2], i%2 == 1
		t.Run(fmt.Sprintf("%d %v %d, keyed %v", wide.PerMinute, wide.Cooldown, wide.Concurrency, keyed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := LimitRef{Key: "server", Name: "server", Limit: wide}
				narrow := LimitRef{Key: "narrow", Name: "narrow", Limit: toolyard.Limit{PerMinute: 1}}
				w := newWorld(t, 2, 0, func(*Options) {})
				var all sync.WaitGroup
				call := func(d *Controller, id string, wait time.Duration, limits ...LimitRef) bool {
					a := plain(id, func(a *Request) { a.Limits, a.Wait = limits, wait })
					if keyed && len(limits) > 1 {
						a.Scope, a.Key = "acme", id
					}
					ticket, err := d.Admit(t.Context(), a)
					if err == nil {
						_, err = d.Settle(t.Context(), ticket, succeeded())
					}
					return err == nil
				}
				for i := range 20 {
					all.Go(func() { call(w.desks[0], fmt.Sprint("narrow-", i), 2*time.Minute, server, narrow) })
				}
				time.Sleep(5 * time.Second)
				n := 0
				for i := range 20 {
					if call(w.desks[1], fmt.Sprint("wide-", i), 10*time.Second, server) {
						n++
					}
				}
				if n < 20 {
					t.Errorf("%d of 20 calls ran", n)
				}
				all.Wait()
				w.close()
			})
		})
	}
}

// A call that the store admits too late does not start, and its key is free.
func TestALateReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0, func(*Options) {})
		w.flaky.next = &fault{late: 3 * time.Second}
		a := plain("c", func(a *Request) { a.Scope, a.Key, a.Limits = "acme", "k", []LimitRef{coolTool} })
		if _, err := w.desks[0].Admit(t.Context(), a); code(err) != toolyard.Unavailable {
			t.Error(err)
		}
		a.CallID = "d"
		ticket, err := w.desks[0].Admit(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.desks[0].Settle(t.Context(), ticket, succeeded()); err != nil {
			t.Error(err)
		}
		w.close()
	})
}
