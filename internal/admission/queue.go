package admission

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// queue holds the calls that wait for the same limits and budget. Callers take turns; calls from
// the same caller stay in order.
type queue struct {
	name     string
	limits   []*limitLease
	budget   *budgetLease // may be nil
	fairness *fairness
	waiting  map[string][]*waiter // by caller, in order of arrival
	n        int
}

// fairness counts how often each caller was served. Queues with the same narrowest limit share it.
type fairness struct {
	round  uint64            // how often the callers that still wait were served
	served map[string]uint64 // by caller; omitted if not greater than round
}

// lead returns how much more often a caller was served than the callers that are waiting.
func (t *fairness) lead(caller string) uint64 { return max(t.served[caller], t.round) - t.round }

// maxServed is the number of callers above which entries that no longer matter are deleted.
const maxServed = 1000

func (t *fairness) serve(caller string) {
	t.round += t.lead(caller)
	if t.served == nil {
		t.served = make(map[string]uint64)
	}
	t.served[caller] = t.round + 1
	if len(t.served) > maxServed {
		maps.DeleteFunc(t.served, func(_ string, n uint64) bool { return n <= t.round })
	}
}

// queueFor returns the queue for a request.
func (c *Controller) queueFor(r *Request) *queue {
	var b strings.Builder
	for _, l := range r.Limits {
		b.WriteString(l.Key + "\n")
	}
	if r.Balance != "" {
		b.WriteString("\n" + r.Balance + "\n" + r.Account)
	}
	q := c.queues[b.String()]
	if q == nil {
		q = c.newQueue(b.String(), r)
	}
	for i, l := range r.Limits { // the configuration may have changed
		q.limits[i].LimitRef = l
	}
	return q
}

func (c *Controller) newQueue(name string, r *Request) *queue {
	q := &queue{name: name, fairness: &fairness{}, waiting: make(map[string][]*waiter)}
	for _, ref := range r.Limits {
		l := c.limitLeaseFor(ref)
		l.queues = append(l.queues, q)
		q.limits = append(q.limits, l)
		if ref.Limit.Per == "" || len(q.limits) == 1 { // the narrowest limit shared by callers
			q.fairness = &l.fairness
		}
	}
	if r.Balance != "" {
		q.budget = c.budgetLeaseFor(r)
		q.budget.queues = append(q.budget.queues, q)
	}
	c.queues[name] = q
	return q
}

// next returns the next waiter to serve, or nil.
func (q *queue) next() (first *waiter) {
	for _, list := range q.waiting {
		if w := list[0]; first == nil || q.before(w, first) {
			first = w
		}
	}
	return first
}

// before reports whether w comes before other, which may be in another queue.
func (q *queue) before(w, other *waiter) bool {
	mine, theirs := q.fairness.lead(w.request.Caller), other.queue.fairness.lead(other.request.Caller)
	return mine < theirs || mine == theirs && w.seq < other.seq
}

// forever is longer than any wait.
const forever = time.Duration(1 << 62)

// busy returns the error if a local limit blocks a waiter, or nil.
func (q *queue) busy(w *waiter) *toolyard.Error {
	for _, l := range q.limits {
		if l.Local && l.running >= l.Limit.Concurrency {
			return l.refusal(l.expectedWait(w.request.Caller))
		}
	}
	return nil
}

// push appends a waiter to its caller's calls.
func (q *queue) push(w *waiter) {
	q.waiting[w.request.Caller] = append(q.waiting[w.request.Caller], w)
	q.n++
}

func (q *queue) remove(w *waiter) {
	list := q.waiting[w.request.Caller]
	i := slices.Index(list, w)
	if i < 0 {
		return
	}
	q.n--
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(q.waiting, w.request.Caller)
		return
	}
	q.waiting[w.request.Caller] = list
}

// waitingIn returns the number of waiters in the queues.
func waitingIn(queues []*queue) (n int) {
	for _, q := range queues {
		n += q.n
	}
	return n
}

func (q *queue) all() []*waiter { return slices.Concat(slices.Collect(maps.Values(q.waiting))...) }

// refuseEarly refuses a waiter if it is already known that it cannot be admitted in time.
func (q *queue) refuseEarly(w *waiter, now time.Time) {
	for _, l := range q.limits {
		if wait, hopeless := l.hopeless(w.request); hopeless {
			q.remove(w)
			w.finish(nil, l.refusal(wait-max(0, w.request.Wait)))
			return
		}
		if !l.freeAt.After(now) {
			continue
		}
		w.reason = limitReached(l.LimitRef, l.freeAt.Sub(now))
		if w.deadline.Before(l.freeAt) {
			q.remove(w)
			w.finish(nil, w.reason)
			return
		}
	}
}

// serve admits waiters from the queues in turn while permits and money are available. A waiter that
// cannot be admitted blocks only its own queue.
func (c *Controller) serve(queues ...*queue) {
	next := make([]*waiter, 0, len(queues))
	for _, q := range queues {
		if w := q.next(); w != nil {
			next = append(next, w)
		}
	}
	for len(next) > 0 {
		first := 0
		for i, w := range next {
			if w.queue.before(w, next[first]) {
				first = i
			}
		}
		w := next[first]
		if full := w.queue.fullLimit(c, w.request); full != nil { // the limit is full for the other queues too
			next = slices.DeleteFunc(next, func(w *waiter) bool { return slices.Contains(w.queue.limits, full) })
			continue
		}
		if b := w.queue.budget; b != nil && !b.ready(w.request, time.Now()) {
			next = slices.Delete(next, first, first+1)
			continue
		}
		w.queue.remove(w)
		w.queue.fairness.serve(w.request.Caller)
		w.finish(w.queue.take(w.request, time.Now()), nil)
		if next[first] = w.queue.next(); next[first] == nil {
			next = slices.Delete(next, first, first+1)
		}
	}
}

// fullLimit returns a limit that currently allows no call, or nil.
func (q *queue) fullLimit(c *Controller, r *Request) *limitLease {
	for _, l := range q.limits {
		if !l.ready(c, r, time.Now()) {
			return l
		}
	}
	return nil
}

// take reserves everything that a call needs.
func (q *queue) take(r *Request, now time.Time) *Admission {
	res := &reservation{budget: q.budget}
	for _, l := range q.limits {
		res.limits = append(res.limits, usedLimit{l, l.take(r, now)})
	}
	if q.budget != nil {
		q.budget.take(r, now)
	}
	return &Admission{Request: r, Reserved: res}
}

// refuse refuses the waiters whose deadline is too early, and stores the reason for the others.
func (q *queue) refuse(now time.Time, after time.Duration, reason *toolyard.Error) {
	for _, w := range q.all() {
		if w.deadline.Before(now.Add(after)) {
			q.remove(w)
			w.finish(nil, reason)
		} else {
			w.reason = reason
		}
	}
}
