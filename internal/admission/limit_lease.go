package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// limitLease is the part of a limit that this replica has leased.
type limitLease struct {
	LimitRef
	permits    []permits
	slots      []slot // unused
	running    int    // number of slots in use
	startRight startRightLease
	queues     []*queue
	fairness   fairness
	retryAt    time.Time // time of the next request
	freeAt     time.Time // when an exhausted limit may have capacity again; zero if unknown
	replicas   int
	rate       rateMeter
	slotTTL    time.Duration // longest time that a call may hold a slot
	mean       time.Duration // recent run time of calls under a local limit; zero if unknown
}

// slot is the right to run one call.
type slot struct {
	epoch int64     // epoch of the grant
	until time.Time // zero if there is no slot
	taken time.Time // when a call took the slot; local limits only
}

// permits are the permits from one grant.
type permits struct {
	n     int
	epoch int64
	until time.Time
}

// startRightLease is the exclusive right to start calls under a limit with a cooldown.
type startRightLease struct {
	until    time.Time // zero if there is no lease
	epoch    int64     // epoch of the grant
	starting bool      // an admitted call has not started yet
	next     time.Time // end of the cooldown
}

func (c *Controller) limitLeaseFor(ref LimitRef) *limitLease {
	l := c.leases.limits[ref.Key]
	if l == nil {
		l = &limitLease{LimitRef: ref}
		c.leases.limits[ref.Key] = l
	}
	return l
}

// ready reports whether a call may start.
func (l *limitLease) ready(c *Controller, r *Request, now time.Time) bool {
	l.slotTTL = max(l.slotTTL, r.Timeout+ledger.Grace)
	l.expire(c, now)
	switch {
	case l.Local:
		return l.running < l.Limit.Concurrency
	case l.Limit.PerMinute > 0 && len(l.permits) == 0:
	case l.Limit.Concurrency > 0 && !l.hasSlot(now.Add(r.Timeout)):
	case l.Limit.Cooldown > 0 && (l.startRight.until.IsZero() || l.startRight.starting || l.startRight.next.After(now)):
	default:
		return true
	}
	return false
}

// hasSlot reports whether a slot is valid until the given time.
func (l *limitLease) hasSlot(until time.Time) bool {
	return slices.ContainsFunc(l.slots, func(s slot) bool { return !s.until.Before(until) })
}

// expire drops permits, slots and start rights that may no longer be used. Unused permits can be
// returned at any time.
func (l *limitLease) expire(c *Controller, now time.Time) {
	l.permits = slices.DeleteFunc(l.permits, func(p permits) bool {
		if p.until.After(now) {
			return p.n == 0
		}
		l.returnPermits(c, p)
		return true
	})
	l.slots = slices.DeleteFunc(l.slots, func(s slot) bool { return !s.until.After(now) })
	if !l.startRight.until.After(now) && !l.startRight.starting {
		l.startRight.until = time.Time{}
	}
}

func (l *limitLease) returnPermits(c *Controller, p permits) {
	if p.n > 0 {
		c.giveBack(l.LimitRef, ledger.LimitReturn{Permits: p.n, Epoch: p.epoch})
	}
}

// take takes a permit, a slot and the start right for a call, and returns the slot.
func (l *limitLease) take(r *Request, now time.Time) (taken slot) {
	l.rate.count(now)
	if l.Local {
		l.running++
		return slot{until: now.Add(time.Hour), taken: now}
	}
	if l.Limit.PerMinute > 0 {
		l.permits[0].n--
	}
	if l.Limit.Concurrency > 0 {
		i := slices.IndexFunc(l.slots, func(s slot) bool { return !s.until.Before(now.Add(r.Timeout)) })
		taken = l.slots[i]
		l.slots = slices.Delete(l.slots, i, i+1)
		l.running++
	}
	l.startRight.starting = l.Limit.Cooldown > 0
	return taken
}

// started starts the cooldown. It returns the start right if that expires before it can be used
// again.
func (l *limitLease) started(c *Controller, now time.Time) {
	l.startRight.starting, l.startRight.next = false, now.Add(l.Limit.Cooldown+ledger.Slack)
	if l.startRight.until.IsZero() {
		return
	}
	if !l.startRight.next.Before(l.startRight.until) || l.Limit.Cooldown > ledger.StartRightTTL/4 || l.waiting() == 0 {
		l.returnStartRight(c)
	}
	c.wakeLoop()
}

// returnStartRight returns the start right together with all idle slots: the next replica needs a
// slot too, and this replica requests slots with its next start right.
func (l *limitLease) returnStartRight(c *Controller) {
	l.startRight.until = time.Time{}
	if l.replicas > 1 {
		l.returnSlots(c)
	}
	c.giveBack(l.LimitRef, ledger.LimitReturn{StartRight: true, Epoch: l.startRight.epoch})
}

// end frees a call's slot. If other replicas use the limit, the slot is returned immediately.
func (l *limitLease) end(c *Controller, s slot) {
	if s.until.IsZero() {
		return
	}
	l.running--
	switch {
	case l.Local:
		l.observe(time.Since(s.taken))
		l.rate.last = time.Now() // keep the mean for calls that follow immediately
		c.serve(l.queues...)
	case !s.until.After(time.Now()): // the store has expired it
	case l.replicas > 1:
		l.returnSlot(c, s)
		l.retryAt = time.Time{}
		c.wakeLoop()
	default:
		l.slots = append(l.slots, s)
		if l.waiting() > 0 {
			c.serve(l.queues...)
			c.wakeLoop()
		}
	}
}

func (l *limitLease) returnSlots(c *Controller) {
	for _, s := range l.slots {
		l.returnSlot(c, s)
	}
	l.slots = nil
}

func (l *limitLease) returnSlot(c *Controller, s slot) {
	c.giveBack(l.LimitRef, ledger.LimitReturn{Concurrency: 1, Epoch: s.epoch})
}

func (l *limitLease) waiting() int { return waitingIn(l.queues) }

// demand returns the number of waiting calls, excluding those known to be waiting for another
// limit.
func (l *limitLease) demand(now time.Time) (n int) {
	for _, q := range l.queues {
		if !slices.ContainsFunc(q.limits, func(other *limitLease) bool { return other != l && other.freeAt.After(now) }) {
			n += q.n
		}
	}
	return n
}

// request returns the next request to the store, if there is one.
func (l *limitLease) request(c *Controller, now time.Time) (ledger.LimitRequest, bool) {
	if l.Local {
		return ledger.LimitRequest{}, false
	}
	l.expire(c, now)
	waiting := l.demand(now)
	ahead := l.rate.expected(now)
	if (waiting == 0 && ahead == 0) || l.retryAt.After(now) {
		return ledger.LimitRequest{}, false
	}
	r := ledger.LimitRequest{Key: l.Key, Limit: l.Limit, SlotTTL: l.slotTTL}
	if l.Limit.PerMinute > 0 {
		have := 0
		for _, p := range l.permits {
			have += p.n
		}
		if want := min(waiting+ahead, l.Limit.PerMinute); have < (want+1)/2 {
			r.Permits = want - have
		}
	}
	if l.Limit.Concurrency > 0 && waiting > 0 {
		fresh := 0
		for _, s := range l.slots {
			if s.until.After(now.Add(l.slotTTL - ledger.Grace)) {
				fresh++
			}
		}
		r.Concurrency = max(0, min(waiting, l.Limit.Concurrency)-fresh)
	}
	r.StartRight = l.Limit.Cooldown > 0 && l.startRight.until.IsZero() && waiting > 0
	if waiting == 0 && l.Limit.Cooldown > 0 {
		return r, false
	}
	return r, r.Permits > 0 || r.Concurrency > 0 || r.StartRight
}

// pollTime is the longest pause between requests while calls are waiting.
const pollTime = 300 * time.Millisecond

// granted adds a grant. sent is the time just before the request was sent.
func (l *limitLease) granted(c *Controller, r ledger.LimitRequest, g ledger.LimitGrant, sent time.Time) {
	now := time.Now()
	l.replicas = g.Replicas
	if g.Permits > 0 && l.Limit.PerMinute > 0 {
		l.permits = append(l.permits, permits{g.Permits, g.Epoch, sent.Add(ledger.PermitTTL)})
	}
	for range g.Concurrency {
		l.slots = append(l.slots, slot{epoch: g.Epoch, until: sent.Add(r.SlotTTL)})
	}
	if g.StartRight && r.Limit.Cooldown > 0 {
		l.startRight.until, l.startRight.epoch = sent.Add(ledger.StartRightTTL), g.Epoch
	}
	l.retryAt, l.freeAt = time.Time{}, time.Time{}
	c.serve(l.queues...)
	if g.RetryAfter > 0 {
		l.retryAt, l.freeAt = now.Add(min(g.RetryAfter, pollTime)), now.Add(g.RetryAfter)
		reason := limitReached(l.LimitRef, g.RetryAfter)
		for _, q := range l.queues {
			q.refuse(now, g.RetryAfter, reason)
		}
	}
}

// limitReached returns an error with the limit, the callers it applies to, and when to retry.
func limitReached(l LimitRef, after time.Duration) *toolyard.Error {
	seconds := max(1, (after+time.Second-1)/time.Second)
	message := fmt.Sprintf("The limit for %s has been reached: %s. Try again in %d s.", l.Name, l.describe(), seconds)
	return &toolyard.Error{Code: toolyard.RateLimited, Message: message, RetryAfter: after}
}

// describe formats the limit's values.
func (l LimitRef) describe() string {
	var parts []string
	if l.Limit.PerMinute > 0 {
		parts = append(parts, fmt.Sprintf("%d calls per minute", l.Limit.PerMinute))
	}
	if l.Limit.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d concurrent calls", l.Limit.Concurrency))
	}
	if l.Limit.Cooldown > 0 {
		parts = append(parts, fmt.Sprintf("at least %v between calls", l.Limit.Cooldown))
	}
	return strings.Join(parts, ", ")
}

// observe updates the mean run time. Recent calls have the most weight.
func (l *limitLease) observe(took time.Duration) {
	if l.mean == 0 {
		l.mean = took
	}
	l.mean += (took - l.mean) / 4
}

// hopeless reports whether a call under a local limit would wait too long, and returns the expected
// wait. Because this is an estimate, a call is refused only if it would wait more than twice as
// long as allowed.
func (l *limitLease) hopeless(r *Request) (wait time.Duration, hopeless bool) {
	if !l.Local || l.running < l.Limit.Concurrency {
		return 0, false
	}
	if r.Wait > 0 && l.estimate(l.waiting()) <= 2*r.Wait { // short enough even for the last call in the queue
		return 0, false
	}
	wait = l.expectedWait(r.Caller)
	return wait, r.Wait <= 0 || wait > 2*r.Wait
}

// expectedWait returns how long a caller's last call will wait. Callers take turns, so it waits
// behind as many calls from each other caller as its own caller has queued.
func (l *limitLease) expectedWait(caller string) time.Duration {
	waiting := make(map[string]int)
	for _, q := range l.queues {
		for name, list := range q.waiting {
			waiting[name] += len(list)
		}
	}
	own, before := max(1, waiting[caller]), 0
	for _, n := range waiting {
		before += min(n, own)
	}
	return l.estimate(max(1, before))
}

// estimate returns how long it takes to start the given number of waiting calls.
func (l *limitLease) estimate(calls int) time.Duration {
	return l.mean * time.Duration(calls) / time.Duration(max(1, l.Limit.Concurrency))
}

// refusal returns the error for a call that finds all slots in use.
func (l *limitLease) refusal(after time.Duration) *toolyard.Error {
	return &toolyard.Error{
		Code: toolyard.RateLimited, RetryAfter: max(after, 100*time.Millisecond),
		Message: fmt.Sprintf("%s is busy: %d calls are running and %d are waiting. Try again later.", l.Name, l.running, l.waiting()),
	}
}

// returnIdle returns unneeded permits, slots and start rights, and reports whether nothing is left.
func (l *limitLease) returnIdle(c *Controller, now time.Time) (empty bool) {
	l.expire(c, now)
	if l.demand(now) > 0 || l.rate.expected(now) > 0 || now.Sub(l.rate.last) < l.idleTime() {
		return false
	}
	if l.Local {
		return l.running == 0 && l.waiting() == 0
	}
	for _, p := range l.permits {
		l.returnPermits(c, p)
	}
	l.returnSlots(c)
	l.permits = nil
	if !l.startRight.until.IsZero() && !l.startRight.starting {
		l.returnStartRight(c)
	}
	return l.running == 0 && !l.startRight.starting && l.waiting() == 0
}

// idleTime is the time after which an unused lease is returned.
func (l *limitLease) idleTime() time.Duration {
	if l.replicas > 1 {
		return 50 * time.Millisecond
	}
	return 400 * time.Millisecond
}
