// Package ratelimit limits requests to a service that counts weight per time window and network
// address. Packs that use the same service share one limiter, because they share the address.
package ratelimit

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/toolyard/toolyard/internal/trust/outbound"
)

const (
	longestWait = 2 * time.Second // longest wait in the queue
	steps       = 100             // steps per window
)

// Limiter limits the weight of requests in any window of time. Waiting requests are served in order
// of arrival.
type Limiter struct {
	budget int
	window time.Duration
	now    func() time.Time
	start  time.Time // origin of all times below, which are therefore monotonic

	mu    sync.Mutex
	spent []spending    // oldest first
	last  time.Duration // time of the last scheduled request
	until time.Duration // nothing may be sent before this time
}

// spending is the weight of all requests in one step.
type spending struct {
	end    time.Duration // end of the step
	weight int
}

// New returns a limiter that is not shared.
func New(budget int, window time.Duration, now func() time.Time) *Limiter {
	return &Limiter{budget: budget, window: window, now: now, start: now()}
}

// RetryAfter returns the pause in a service's Retry-After header, at most limit. It returns zero if
// there is none.
func RetryAfter(h http.Header, now time.Time, limit time.Duration) time.Duration {
	return outbound.RetryAfter(h, now, limit)
}

var shared = struct {
	sync.Mutex
	byHost map[string]weak.Pointer[Limiter]
}{byHost: map[string]weak.Pointer[Limiter]{}}

// Shared returns this process's limiter for a host. If budgets differ, the smallest applies. The
// limiter exists as long as it is in use.
func Shared(host string, budget int, window time.Duration, now func() time.Time) *Limiter {
	shared.Lock()
	defer shared.Unlock()
	for name, l := range shared.byHost {
		if l.Value() == nil {
			delete(shared.byHost, name)
		}
	}
	if l := shared.byHost[host].Value(); l != nil && l.window == window {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.budget = min(l.budget, budget)
		return l
	}
	l := New(budget, window, now)
	shared.byHost[host] = weak.Make(l)
	return l
}

// Budget returns the weight per window.
func (l *Limiter) Budget() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget
}

// BusyError is returned for a request that would wait too long.
type BusyError struct{ Wait time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the budget is exhausted for the next %s", e.Wait)
}

// Take waits until weight, which is at most the budget, is available. It returns a *BusyError
// immediately if the wait would be too long.
func (l *Limiter) Take(ctx context.Context, weight int) error {
	wait, err := l.book(weight)
	if err != nil || wait <= 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// book schedules a request and returns the time until it may be sent.
func (l *Limiter) book(weight int) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Sub(l.start)
	from := max(now, l.last, l.until) // requests are scheduled in order
	l.spent = slices.DeleteFunc(l.spent, func(s spending) bool { return s.end+l.window <= from })
	at := l.next(from, weight)
	if wait := at - now; wait > longestWait {
		return 0, &BusyError{wait}
	}
	l.last = at
	l.add(at, weight)
	return at - now, nil
}

// add records a request's weight at a time that is not before any recorded time.
func (l *Limiter) add(at time.Duration, weight int) {
	step := l.window / steps
	end := (at/step + 1) * step
	if n := len(l.spent); n > 0 && l.spent[n-1].end == end {
		l.spent[n-1].weight += weight
	} else {
		l.spent = append(l.spent, spending{end, weight})
	}
}

// next returns the earliest time, not before at, when weight fits into the window that ends then.
func (l *Limiter) next(at time.Duration, weight int) time.Duration {
	total := weight
	for _, s := range l.spent {
		total += s.weight
	}
	for _, s := range l.spent {
		if total <= l.budget {
			break
		}
		at = s.end + l.window
		total -= s.weight
	}
	return at
}

// Charge adds weight that becomes known only after the request is sent.
func (l *Limiter) Charge(weight int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(max(l.now().Sub(l.start), l.last), weight)
}

// Pause delays all requests.
func (l *Limiter) Pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = max(l.until, l.now().Sub(l.start)+d)
}
