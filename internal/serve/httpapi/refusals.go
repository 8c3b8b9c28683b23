package httpapi

import (
	"encoding/json"
	"sync"
	"time"
)

// Bounds on what refused requests leave behind.
const (
	maxRefusals      = 30        // recorded of one caller in refusalTime
	refusalTime      = time.Hour // then the count starts anew
	maxRefused       = 1_000     // callers that are counted, each of whom has a key
	maxOwnChanges    = 600       // that one caller makes to what is their own, or fails to make, in ownChangesTime
	ownChangesTime   = time.Hour
	ownChangesPauses = time.Minute // when a caller with too many should try again
)

// quota counts what callers do, each in a window of time of their own.
type quota struct {
	most   int
	window time.Duration

	mu sync.Mutex
	of map[string]*counted
}

// counted is what one caller did since the beginning of a window.
type counted struct {
	since time.Time
	done  int
	over  int // beyond the quota, since one was allowed the last time
}

// take counts one more of a caller, and reports whether the quota allows it. Over is how many it
// did not allow since the last one that it did.
func (q *quota) take(caller string, now time.Time) (over int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.of[caller]
	if c == nil {
		q.makeRoom(now)
		c = &counted{since: now}
		q.of[caller] = c
	}
	if age := now.Sub(c.since); age < 0 || age >= q.window {
		c.since, c.done = now, 0
	}
	if c.done >= q.most {
		c.over++
		return c.over, false
	}
	c.done++
	over, c.over = c.over, 0
	return over, true
}

// giveBack forgets one that was counted.
func (q *quota) giveBack(caller string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.of[caller]; c != nil && c.done > 0 {
		c.done--
	}
}

// makeRoom forgets callers whose window is over, and when there are none the one that began
// first.
func (q *quota) makeRoom(now time.Time) {
	if q.of == nil {
		q.of = make(map[string]*counted)
	}
	if len(q.of) < maxRefused {
		return
	}
	var oldest string
	for caller, c := range q.of {
		if now.Sub(c.since) >= q.window {
			delete(q.of, caller)
		} else if oldest == "" || c.since.Before(q.of[oldest].since) {
			oldest = caller
		}
	}
	if len(q.of) >= maxRefused {
		delete(q.of, oldest)
	}
}

// unrecorded is the detail of a refusal that stands for others before it.
func unrecorded(n int) json.RawMessage {
	if n == 0 {
		return nil
	}
	detail, _ := json.Marshal(map[string]int{"unrecordedBefore": n}) // always has a JSON form
	return detail
}
