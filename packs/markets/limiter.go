package markets

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	longestWait = 2 * time.Second // of a request in the queue
	steps       = 100             // per window
)

// limiter limits the weight of requests in any window of time. Waiting requests are served in order
// of arrival.
type limiter struct {
	budget int
	window time.Duration
	now    func() time.Time
	start  time.Time // times below are relative to it, and so monotonic

	mu    sync.Mutex
	spent []spending    // the oldest first
	last  time.Duration // time of the last scheduled request
	until time.Duration // before which nothing may be sent
}

// spending is the weight of all requests in one step.
type spending struct {
	end    time.Duration // of the step
	weight int
}

func newLimiter(budget int, window time.Duration, now func() time.Time) *limiter {
	return &limiter{budget: budget, window: window, now: now, start: now()}
}

// busy is returned for a request that would wait too long.
type busy struct{ wait time.Duration }

func (e *busy) Error() string { return fmt.Sprintf("the budget is spent for the next %s", e.wait) }

// take waits until weight, which is at most the budget, is available. It returns a *busy immediately
// if the wait would be too long.
func (l *limiter) take(ctx context.Context, weight int) error {
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
func (l *limiter) book(weight int) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Sub(l.start)
	from := max(now, l.last, l.until) // no request is scheduled before
	l.spent = slices.DeleteFunc(l.spent, func(s spending) bool { return s.end+l.window <= from })
	at := l.next(from, weight)
	if wait := at - now; wait > longestWait {
		return 0, &busy{wait}
	}
	l.last = at
	step := l.window / steps
	end := (at/step + 1) * step
	if n := len(l.spent); n > 0 && l.spent[n-1].end == end {
		l.spent[n-1].weight += weight
	} else {
		l.spent = append(l.spent, spending{end, weight})
	}
	return at - now, nil
}

// next returns the earliest time, not before at, at which weight fits into the window that ends then.
func (l *limiter) next(at time.Duration, weight int) time.Duration {
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

// pause delays all requests.
func (l *limiter) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = max(l.until, l.now().Sub(l.start)+d)
}
