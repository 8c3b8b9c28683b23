package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/store"
)

// span is a call that ran.
type span struct {
	caller     string
	start, end time.Time
}

// load keeps replicas busy for a while. Each caller sends calls one after another with no pauses,
// each to a random replica.
func load(t *testing.T, replicas int, callers map[string]int, limit toolyard.Limit, during, work time.Duration) (spans []span) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := store.Open(ctx, "memory")
	if err != nil {
		t.Fatal(err)
	}
	var desks []*admission.Controller
	var running sync.WaitGroup
	for i := range replicas {
		d := admission.New(s, options(fmt.Sprint("replica-", i)))
		desks = append(desks, d)
		running.Go(func() { d.Run(ctx) })
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(during)
	for caller, n := range callers {
		for i := range n {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			wg.Go(func() {
				for time.Now().Before(end) {
					a := &admission.Request{
						CallID: fmt.Sprint(caller, random.Int64()), Caller: caller, Timeout: 10 * time.Second, Wait: time.Minute,
						Limits: []admission.LimitRef{{Key: "tool", Name: "the tool", Limit: limit}},
					}
					d := desks[random.IntN(replicas)]
					ticket, err := d.Admit(ctx, a)
					if err != nil {
						time.Sleep(max(time.Millisecond, min(toolyard.AsError(err).RetryAfter, time.Second)))
						continue
					}
					sp := span{caller: caller, start: time.Now()}
					time.Sleep(work/2 + time.Duration(random.Int64N(int64(work))))
					sp.end = time.Now()
					mu.Lock()
					spans = append(spans, sp)
					mu.Unlock()
					if _, err := d.Settle(ctx, ticket, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	cancel()
	running.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start.Compare(b.start) })
	return spans
}

// used returns the share of a limit that was used, and reports violations.
func used(t *testing.T, spans []span, l toolyard.Limit, during time.Duration) (share float64) {
	for i := range spans {
		if n := l.PerMinute; n > 0 && i >= n && spans[i].start.Sub(spans[i-n].start) < time.Minute {
			t.Fatalf("%d calls began within %v", n+1, spans[i].start.Sub(spans[i-n].start))
		}
		if i > 0 && spans[i].start.Sub(spans[i-1].start) < l.Cooldown {
			t.Fatalf("two calls began within %v", spans[i].start.Sub(spans[i-1].start))
		}
		if l.Concurrency > 0 {
			at := 0
			for j := max(0, i-200); j <= i; j++ {
				if spans[j].end.After(spans[i].start) {
					at++
				}
			}
			if at > l.Concurrency {
				t.Fatalf("%d calls ran concurrently", at)
			}
		}
	}
	// Ignore the first minute, in which a whole minute's permits are available at once.
	after := spans[0].start.Add(time.Minute)
	later := slices.IndexFunc(spans, func(s span) bool { return s.start.After(after) })
	possible := (during - time.Minute).Minutes() * float64(l.PerMinute)
	if l.PerMinute == 0 {
		possible = float64(during-time.Minute) / float64(l.Cooldown)
	}
	return float64(len(spans)-later) / possible
}

// Three replicas request more than the limit for ten minutes: the limit is never exceeded, and
// nearly all of it is used.
func TestLimitsOverTenMinutes(t *testing.T) {
	for _, tt := range []struct {
		limit  toolyard.Limit
		work   time.Duration
		during time.Duration
	}{
		{toolyard.Limit{PerMinute: 600}, 50 * time.Millisecond, 10 * time.Minute},
		{toolyard.Limit{PerMinute: 30, Cooldown: 2 * time.Second, Concurrency: 1}, 100 * time.Millisecond, 10 * time.Minute},
		{toolyard.Limit{PerMinute: 120, Cooldown: 400 * time.Millisecond, Concurrency: 2}, 300 * time.Millisecond, 10 * time.Minute},
		{toolyard.Limit{Cooldown: 100 * time.Millisecond}, 10 * time.Millisecond, 10 * time.Minute},
		{toolyard.Limit{PerMinute: 3}, 10 * time.Millisecond, 10 * time.Minute},
		{toolyard.Limit{PerMinute: 6000, Concurrency: 10}, 40 * time.Millisecond, 2 * time.Minute},
	} {
		if testing.Short() && (tt.limit.PerMinute > 1000 || tt.limit.PerMinute == 0) { // thousands of calls
			continue
		}
		t.Run(fmt.Sprintf("%d per minute, %v, %d at once", tt.limit.PerMinute, tt.limit.Cooldown, tt.limit.Concurrency), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				during := tt.during
				if testing.Short() { // slow with the race detector
					during = min(during, 90*time.Second)
				}
				spans := load(t, 3, map[string]int{"ann": 12, "bob": 12}, tt.limit, during, tt.work)
				share := used(t, spans, tt.limit, during)
				t.Logf("%d calls, %.1f %% of what is allowed", len(spans), 100*share)
				if share < 0.95 {
					t.Errorf("only %.1f %% of the limit was used", 100*share)
				}
			})
		})
	}
}

// A caller gets its share of a limit even if another caller floods it.
func TestLimitsAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		during := 5 * time.Minute
		if testing.Short() {
			during = 150 * time.Second
		}
		limit := toolyard.Limit{PerMinute: 300, Concurrency: 4}
		spans := load(t, 3, map[string]int{"flood": 100, "modest": 10}, limit, during, 50*time.Millisecond)
		if share := used(t, spans, limit, during); share < 0.95 {
			t.Errorf("only %.1f %% of the limit was used", 100*share)
		}
		began, modest, all := spans[0].start, 0, 0
		for _, s := range spans {
			if s.start.Sub(began) >= during { // no new calls arrive, and most waiting calls belong to one caller
				break
			}
			if all++; s.caller == "modest" {
				modest++
			}
		}
		share := float64(modest) / float64(all)
		t.Logf("%d calls, %.1f %% of them of the modest caller", all, 100*share)
		if share < 0.4 {
			t.Errorf("the modest caller got %.1f %%", 100*share)
		}
	})
}
