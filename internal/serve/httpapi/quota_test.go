package httpapi

import (
	"fmt"
	"testing"
	"time"
)

func TestQuotaLimitsEventsPerCaller(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	q := quota{limit: 2, window: time.Hour}
	take := func(caller string, at time.Time, over int, ok bool) {
		t.Helper()
		if gotOver, got := q.acquire(caller, at); gotOver != over || got != ok {
			t.Errorf("%s: %d %v, want %d %v", caller, gotOver, got, over, ok)
		}
	}
	take("a", now, 0, true)
	take("a", now, 0, true)
	take("a", now, 1, false)
	take("b", now, 0, true) // each caller has its own quota
	take("a", now.Add(time.Hour-1), 2, false)
	take("a", now.Add(time.Hour), 2, true) // reports the number of rejected events
	take("a", now.Add(time.Hour), 0, true)
	q.release("a")
	take("a", now.Add(time.Hour), 0, true)
	take("a", now, 0, true) // the clock was set back
	for i := range 3 * maxCounters {
		q.acquire(fmt.Sprint(i), now.Add(time.Duration(i)))
	}
	if len(q.counters) > maxCounters {
		t.Errorf("%d callers are remembered", len(q.counters))
	}
}
