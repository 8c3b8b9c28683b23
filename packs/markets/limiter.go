package markets

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	longestWait = 2 * time.Second // that somebody waits for their turn
	steps       = 100             // how finely a window is counted
)

// limiter spends at most its budget of weight in any window of time. Those who must wait get
// their turns in the order in which they came.
type limiter struct {
	budget int
	window time.Duration
	now    func() time.Time
	start  time.Time // times below are since then: they do not jump with the clock

	mu    sync.Mutex
	spent []spending    // the oldest first
	last  time.Duration // when the last turn is
	until time.Duration // before which nothing may be sent
}

// spending is the weight of all turns in one step.
type spending struct {
	end    time.Duration // of the step
	weight int
}

func newLimiter(budget int, window time.Duration, now func() time.Time) *limiter {
	return &limiter{budget: budget, window: window, now: now, start: now()}
}

// busy says that a turn would come too late to wait for it.
type busy struct{ wait time.Duration }

func (e *busy) Error() string { return fmt.Sprintf("the budget is spent for the next %s", e.wait) }

// take waits for a turn and spends weight, which is not more than the budget. Somebody who would
// wait too long gets a *busy at once.
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

// book finds the next turn, spends its weight and says how long it is until then.
func (l *limiter) book(weight int) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Sub(l.start)
	from := max(now, l.last, l.until) // no turn will be before that any more
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

// next is the first time, not before at, at which weight fits into the window that ends then.
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

// pause lets nobody have a turn for a while.
func (l *limiter) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = max(l.until, l.now().Sub(l.start)+d)
}
