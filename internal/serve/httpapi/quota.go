package httpapi

import (
	"encoding/json"
	"sync"
	"time"
)

// Limits on the audit records that callers without the scope operator can cause.
const (
	maxRefusals     = 30 // per caller within refusalTime
	refusalTime     = time.Hour
	maxOwnChanges   = 600 // per caller within ownChangesTime, including failed changes
	ownChangesTime  = time.Hour
	ownChangesRetry = time.Minute
	maxCounters     = 1_000 // maximum number of callers counted at the same time
)

// quota limits events per caller within a time window. A caller's window starts with its first
// event.
type quota struct {
	limit  int
	window time.Duration

	mu       sync.Mutex
	counters map[string]*counter // by caller
}

type counter struct {
	since time.Time
	used  int
	over  int // number of events over the limit since the last allowed one
}

// acquire counts a caller's event and reports whether it is within the limit. over is the number of
// rejected events since the last allowed one.
func (q *quota) acquire(caller string, now time.Time) (over int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counters[caller]
	if c == nil {
		q.makeRoom(now)
		c = &counter{since: now}
		q.counters[caller] = c
	}
	if age := now.Sub(c.since); age < 0 || age >= q.window {
		c.since, c.used = now, 0
	}
	if c.used >= q.limit {
		c.over++
		return c.over, false
	}
	c.used++
	over, c.over = c.over, 0
	return over, true
}

// release undoes acquire.
func (q *quota) release(caller string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.counters[caller]; c != nil && c.used > 0 {
		c.used--
	}
}

// makeRoom drops callers whose window has ended. If there are none, it drops the caller with the
// oldest window.
func (q *quota) makeRoom(now time.Time) {
	if q.counters == nil {
		q.counters = make(map[string]*counter)
	}
	if len(q.counters) < maxCounters {
		return
	}
	var oldest string
	for caller, c := range q.counters {
		if now.Sub(c.since) >= q.window {
			delete(q.counters, caller)
		} else if oldest == "" || c.since.Before(q.counters[oldest].since) {
			oldest = caller
		}
	}
	if len(q.counters) >= maxCounters {
		delete(q.counters, oldest)
	}
}

// unrecorded returns the audit detail for a refusal after n refusals that were not recorded.
func unrecorded(n int) json.RawMessage {
	if n == 0 {
		return nil
	}
	detail, _ := json.Marshal(map[string]int{"unrecordedBefore": n}) // cannot fail
	return detail
}
