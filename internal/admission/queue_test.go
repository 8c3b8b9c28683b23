package admission

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// onDesk runs a test with a controller and a store in fake time.
func onDesk(t *testing.T, test func(t *testing.T, d *Controller, f *flaky)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := store.Open(ctx, "memory")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Fund(ctx, "acme", toolyard.USD, "first"); err != nil {
			t.Fatal(err)
		}
		f := newFlaky(s, 1)
		d := New(f, Options{Replica: "one", Log: slog.New(slog.DiscardHandler)})
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(ctx) })
		test(t, d, f)
		cancel()
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

var calls atomic.Int64

// toServer returns a call to a server with limited concurrency.
func toServer(caller string, concurrency int, wait time.Duration) *Request {
	return &Request{
		CallID: fmt.Sprint("call-", calls.Add(1)), Caller: caller, Account: "acme", Timeout: 30 * time.Second, Wait: wait,
		Limits: []LimitRef{{Key: "at once/docs", Name: "The server docs", Local: true, Limit: toolyard.Limit{Concurrency: concurrency}}},
	}
}

// make admits a call, runs it and settles it.
func (d *Controller) make(t *testing.T, ask *Request, work time.Duration) *toolyard.Error {
	ticket, err := d.Admit(t.Context(), ask)
	if err != nil {
		return toolyard.AsError(err)
	}
	time.Sleep(work)
	if _, err := d.Settle(t.Context(), ticket, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
		t.Error(err)
	}
	return nil
}

// Many clients of a server with low concurrency are all served if calls are short.
func TestQuickCallsQueueWithoutRefusals(t *testing.T) {
	for _, clients := range []int{64, 512} {
		onDesk(t, func(t *testing.T, d *Controller, _ *flaky) {
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range 20 {
						if err := d.make(t, toServer("ann", 8, 10*time.Second), 5*time.Millisecond); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if d.backlog.all != (usage{}) || len(d.backlog.caller) != 0 {
				t.Errorf("nothing is waiting, but it counts %+v", d.backlog)
			}
		})
	}
}

// A call that cannot be admitted in time is refused immediately with a retry time. Other calls
// wait.
func TestHopelessWaitsAreRefusedAtOnce(t *testing.T) {
	onDesk(t, func(t *testing.T, d *Controller, _ *flaky) {
		if err := d.make(t, toServer("ann", 1, 0), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var refused []time.Duration // retry times
		for range 10 {
			wg.Go(func() {
				began := time.Now()
				err := d.make(t, toServer("ann", 1, 10*time.Second), 5*time.Second)
				if err == nil || time.Since(began) > 0 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, err.RetryAfter)
			})
			synctest.Wait()
		}
		// One call runs, and four wait at most twice as long as allowed. The error for each of the
		// others contains the expected wait.
		if want := []time.Duration{15 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second}; !slices.Equal(refused, want) {
			t.Errorf("refused with %v, want %v", refused, want)
		}
		if err := d.make(t, toServer("bob", 1, 10*time.Second), time.Second); err != nil { // the next waiter
			t.Error(err)
		}
		wg.Wait()
	})
}

// A call that must not wait is admitted if there is capacity, even if the store is slow, and is
// refused otherwise.
func TestCallsThatDoNotWait(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond} {
		onDesk(t, func(t *testing.T, d *Controller, f *flaky) {
			limited := func(key string) *Request {
				a := toServer("ann", 8, wait)
				a.Key, a.Scope = key, "acme"
				a.Limits = append(a.Limits, LimitRef{Key: "tool/slow", Name: "the tool slow", Limit: toolyard.Limit{PerMinute: 3}})
				a.Balance, a.Price = "acme", toolyard.USD/1000
				return a
			}
			for i, ask := range []*Request{limited(""), limited("key"), limited("")} {
				f.fail(fault{early: 300 * time.Millisecond})
				if err := d.make(t, ask, time.Millisecond); err != nil {
					t.Errorf("wait %v: call %d: %v", wait, i, err)
				}
				time.Sleep(2 * time.Second) // leases are returned
			}
			began := time.Now()
			if err := d.make(t, limited(""), 0); err == nil || err.Code != toolyard.RateLimited || err.RetryAfter < 30*time.Second || time.Since(began) > time.Second {
				t.Errorf("wait %v: after %v: %v", wait, time.Since(began), err)
			}
			f.set(0, true)
			if err := d.make(t, limited(""), 0); err == nil || !err.Retryable() {
				t.Errorf("wait %v: while the store is away: %v", wait, err)
			}
			f.set(0, false)
		})
	}
}

// If a call waits for a busy server, its error is about the server, not about the store.
func TestABusyServerIsNamed(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		onDesk(t, func(t *testing.T, d *Controller, _ *flaky) {
			ticket, err := d.Admit(t.Context(), toServer("ann", 1, 0))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			e := d.make(t, toServer("bob", 1, wait), 0)
			if e == nil || e.Code != toolyard.RateLimited || e.RetryAfter <= 0 || time.Since(began) != wait {
				t.Errorf("wait %v: after %v: %v", wait, time.Since(began), e)
			}
			if _, err := d.Settle(t.Context(), ticket, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// One caller cannot prevent another from waiting, no matter how many calls it makes. The number and
// size of waiting calls are limited.
func TestOneCallerCannotFillTheQueue(t *testing.T) {
	for name, test := range map[string]struct{ args, fit int }{
		"many calls":  {0, maxWaiting / callerShare},
		"large calls": {1 << 20, maxWaitingBytes / callerShare / (1<<20 + waiterBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			onDesk(t, func(t *testing.T, d *Controller, _ *flaky) {
				ctx, cancel := context.WithCancel(t.Context())
				ticket, err := d.Admit(ctx, toServer("ann", 1, time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				args := make([]byte, test.args)
				var wg sync.WaitGroup
				var full atomic.Int64
				wait := func(caller string) {
					wg.Go(func() {
						ask := toServer(caller, 1, time.Minute)
						ask.Call = &toolyard.Call{Args: args}
						if _, err := d.Admit(ctx, ask); err != nil && toolyard.AsError(err).Code == toolyard.RateLimited {
							full.Add(1)
						}
					})
				}
				for range test.fit + 10 {
					wait("ann")
				}
				synctest.Wait()
				if full.Load() != 10 {
					t.Errorf("%d were refused", full.Load())
				}
				wait("bob")
				synctest.Wait()
				if full.Load() != 10 || d.Limits()["at once/docs"].Waiting != test.fit+1 {
					t.Errorf("another caller may not wait: %d were refused", full.Load())
				}
				cancel()
				wg.Wait()
				if d.backlog.all != (usage{}) {
					t.Errorf("nothing is waiting, but it counts %+v", d.backlog.all)
				}
				if _, err := d.Settle(t.Context(), ticket, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
