package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/backoff"
)

const (
	// storeTimeout is how long a call waits for a store that does not respond.
	storeTimeout = 2 * time.Second
	// exchangeTimeout bounds one exchange with the store.
	exchangeTimeout = 5 * time.Second
	// sweepTime is the interval of sweeps for expired rows.
	sweepTime = time.Second
	// maxSweeps is the maximum number of consecutive sweeps.
	maxSweeps = 50
	// tick is the interval at which leases are maintained.
	tick = 25 * time.Millisecond
	// After a batch of at least gatherCalls settlements, the loop waits up to gatherTime for more.
	gatherCalls, gatherTime = 4, 2 * time.Millisecond
	// maxBatch is the maximum number of settlements, and of admissions, in one batch.
	maxBatch = 2000
	// localTime is how long limits are enforced locally while the store is unavailable.
	localTime = time.Minute
)

// outbox is what the next batch has to tell the store.
type outbox struct {
	returns     []ledger.LimitReturn
	settlements []*settling
	releases    []ledger.HoldRelease
}

// settling is a call being settled.
type settling struct {
	ledger.Settlement
	budget  *budgetLease   // nil if the store admitted the call
	price   toolyard.Money // reserved
	receipt *toolyard.Receipt
	refused *ledger.Refusal
	done    chan struct{} // closed when the settlement is durable or refused
}

// endRun ends the run and the hold of a call that the store admitted.
func (s *settling) endRun(r *Request) {
	key := runKey(r)
	s.Run, s.EndHold = &key, true
	if r.Balance != "" {
		s.Hold, s.Balance = r.CallID, r.Balance
	}
}

// batch is a batch and the recipients of its results.
type batch struct {
	ledger.Batch
	settlements []*settling
	limits      []*limitLease
	budgets     []*budgetLease
	waiters     []*waiter
}

func (b *batch) empty() bool { return len(b.Returns)+b.size() == 0 }

// size returns the number of requests, without returned permits.
func (b *batch) size() int {
	return len(b.settlements) + len(b.Releases) + len(b.limits) + len(b.budgets) + len(b.waiters)
}

// Run exchanges batches with the store until ctx ends, and then returns all leases.
func (c *Controller) Run(ctx context.Context) {
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		c.sweep(ctx)
	}()
	for pause := time.Duration(0); ctx.Err() == nil; {
		b, wait := c.collect(time.Now())
		if b.empty() {
			c.sleep(ctx, wait, true)
			continue
		}
		start := time.Now()
		if c.exchange(ctx, b) {
			pause = 0
			c.gather(ctx, len(b.settlements), time.Since(start))
			continue
		}
		pause = min(max(2*pause, 20*time.Millisecond), 500*time.Millisecond)
		c.sleep(ctx, backoff.Jitter(pause), false)
	}
	<-swept
	c.close(context.WithoutCancel(ctx))
}

// gather waits a moment for the callers that a batch has released, if there are several: their
// next calls then share one batch instead of alternating between two.
func (c *Controller) gather(ctx context.Context, settled int, took time.Duration) {
	if wait := min(took/4, gatherTime); settled >= gatherCalls && wait > 0 {
		c.sleep(ctx, wait, false)
	}
}

// sleep waits until the time is over, until it is woken if that is allowed, or until ctx ends. A
// wait of zero has no end.
func (c *Controller) sleep(ctx context.Context, wait time.Duration, wakeable bool) {
	wake := c.wake
	if !wakeable {
		wake = nil
	}
	var timer <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-wake:
	case <-timer:
	case <-ctx.Done():
	}
}

// collect returns the next batch, and how long to wait if it is empty: zero for no limit.
func (c *Controller) collect(now time.Time) (b *batch, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b = &batch{Batch: ledger.Batch{Replica: c.opts.Replica}}
	for _, l := range c.leases.limits {
		c.maintain(l, now)
		if r, ok := l.request(c, now); ok {
			b.limits, b.Limits = append(b.limits, l), append(b.Limits, r)
		}
	}
	for key, l := range c.leases.budgets {
		if r, ok := l.request(c, now); ok {
			b.budgets, b.Holds = append(b.budgets, l), append(b.Holds, r)
		} else if l.returnIdle(c, now) {
			c.deleteQueues(l.queues)
			delete(c.leases.budgets, key)
		}
	}
	c.collectAdmits(b, now)
	c.collectOutbox(b)
	if len(c.leases.limits)+len(c.leases.budgets)+len(c.durable) > 0 {
		wait = tick
	}
	for _, l := range c.leases.limits {
		if l.waiting() > 0 && l.turn.next.After(now) {
			wait = min(wait, l.turn.next.Sub(now))
		}
	}
	return b, wait
}

// maintain serves a limit whose cooldown is over, and returns what it does not need.
func (c *Controller) maintain(l *limitLease, now time.Time) {
	if l.Limit.Cooldown > 0 && !l.turn.until.IsZero() && !l.turn.starting && !l.turn.next.After(now) {
		c.serve(l.queues...)
	}
	if l.returnIdle(c, now) && !slices.ContainsFunc(l.queues, func(q *queue) bool { return q.budget != nil && q.budget.taken.calls > 0 }) {
		c.deleteQueues(l.queues)
		delete(c.leases.limits, l.Key)
	}
}

// deleteQueues deletes empty queues. The next call creates them again.
func (c *Controller) deleteQueues(queues []*queue) {
	for _, q := range slices.Clone(queues) {
		delete(c.queues, q.name)
		same := func(other *queue) bool { return other == q }
		for _, l := range q.limits {
			l.queues = slices.DeleteFunc(l.queues, same)
		}
		if q.budget != nil {
			q.budget.queues = slices.DeleteFunc(q.budget.queues, same)
		}
	}
}

func (c *Controller) collectOutbox(b *batch) {
	n := min(len(c.outbox.settlements), maxBatch)
	b.settlements = c.outbox.settlements[:n:n]
	c.outbox.settlements = c.outbox.settlements[n:]
	for _, s := range b.settlements {
		b.Settlements = append(b.Settlements, s.Settlement)
	}
	b.Returns, b.Releases = c.outbox.returns, c.outbox.releases
	c.outbox.returns, c.outbox.releases = nil, nil
}

func (c *Controller) collectAdmits(b *batch, now time.Time) {
	c.durable = slices.DeleteFunc(c.durable, func(w *waiter) bool { return w.finished() && !w.attempt.inFlight })
	for _, w := range inTurn(c.durable) {
		if w.attempt.next.After(now) || len(b.waiters) == maxBatch {
			continue
		}
		if w.attempt.inFlight = true; w.attempt.sent.IsZero() {
			w.attempt.sent = now
		}
		b.waiters = append(b.waiters, w)
		r := admitRequest(w.request)
		r.KeysFull = c.keys.full(w.request)
		b.Admits = append(b.Admits, r)
	}
}

// inTurn orders waiters so that callers take turns; the calls of one caller stay in order.
func inTurn(waiters []*waiter) []*waiter {
	nth, round := make(map[string]int), make(map[*waiter]int, len(waiters))
	for _, w := range waiters {
		round[w] = nth[w.request.Caller]
		nth[w.request.Caller]++
	}
	if len(nth) <= 1 {
		return waiters
	}
	waiters = slices.Clone(waiters)
	slices.SortStableFunc(waiters, func(a, b *waiter) int { return round[a] - round[b] })
	return waiters
}

// admitRequest converts a request for the ledger.
func admitRequest(r *Request) ledger.AdmitRequest {
	a := ledger.AdmitRequest{Call: r.CallID, Run: runKey(r), Digest: r.Digest, Balance: r.Balance, Account: r.Account, Price: r.Price, Timeout: r.Timeout}
	for _, l := range r.Limits {
		a.Limits = append(a.Limits, ledger.LimitRequest{Key: l.Key, Limit: l.Limit, Permits: 1, Concurrency: 1, Turn: true, SlotTTL: r.Timeout + ledger.Grace})
	}
	return a
}

// exchange sends a batch and distributes its results. It reports whether the store replied.
func (c *Controller) exchange(ctx context.Context, b *batch) bool {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTimeout)
	defer cancel()
	results, err := c.store.Exchange(ctx, &b.Batch)
	rejected := err != nil && !errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil
	if rejected && b.size() > 1 {
		for _, part := range b.parts() {
			c.exchange(ctx, part)
		}
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case rejected:
		c.discard(b, err)
		return true
	case err != nil:
		c.unavailable(b, err)
		return false
	}
	if !c.outage.since.IsZero() {
		c.opts.Log.Info("the store is available again", "after", time.Since(c.outage.since).Round(time.Millisecond))
		c.outage.since = time.Time{}
		c.opts.OnStore(true)
	}
	for i, s := range b.settlements {
		c.settled(s, results.Settlements[i].Refused)
	}
	for i, l := range b.limits {
		l.granted(c, b.Limits[i], results.Limits[i], sent)
	}
	for i, l := range b.budgets {
		l.granted(c, b.Holds[i], results.Holds[i], sent)
	}
	for i, w := range b.waiters {
		c.admitted(w, results.Admits[i])
	}
	return true
}

// parts splits a batch into single requests, so that a rejected one does not block the others.
// Returned permits are not included: they expire.
func (b *batch) parts() (list []*batch) {
	part := func() *batch {
		list = append(list, &batch{Batch: ledger.Batch{Replica: b.Replica}})
		return list[len(list)-1]
	}
	for i, s := range b.settlements {
		p := part()
		p.settlements, p.Settlements = []*settling{s}, b.Settlements[i:i+1]
	}
	for i := range b.Releases {
		part().Releases = b.Releases[i : i+1]
	}
	for i, l := range b.limits {
		p := part()
		p.limits, p.Limits = []*limitLease{l}, b.Limits[i:i+1]
	}
	for i, l := range b.budgets {
		p := part()
		p.budgets, p.Holds = []*budgetLease{l}, b.Holds[i:i+1]
	}
	for i, w := range b.waiters {
		p := part()
		p.waiters, p.Admits = []*waiter{w}, b.Admits[i:i+1]
	}
	return list
}

// discard fails the requests of a batch that the store rejected.
func (c *Controller) discard(b *batch, err error) {
	c.opts.Log.Error("the store rejected a request", "error", err)
	refused := &ledger.Refusal{Code: toolyard.Internal, Message: "The store rejected the request."}
	reason := &toolyard.Error{Code: refused.Code, Message: refused.Message, Err: err}
	for _, s := range b.settlements {
		c.settled(s, refused)
	}
	for _, l := range b.limits {
		l.retryAt = time.Now().Add(pollTime)
		for _, q := range l.queues {
			q.refuse(time.Now(), forever, reason)
		}
	}
	for _, l := range b.budgets {
		l.reset()
		l.refuse(refused)
	}
	for _, w := range b.waiters {
		if w.attempt.inFlight = false; !w.finished() {
			w.finish(nil, reason)
		}
	}
}

// settled completes a settlement.
func (c *Controller) settled(s *settling, refused *ledger.Refusal) {
	if b := s.budget; b != nil {
		b.settled(s.price, s.Amount)
		if refused != nil && (b.hold == s.Hold || b.hold == "") {
			b.reset()
		}
		spent, rest := b.spent, b.rest
		s.receipt.Spent, s.receipt.Remaining = &spent, &rest
	}
	if refused != nil {
		c.opts.Log.Error("a call could not be settled", "call", s.Call, "problem", refused.Message)
	}
	s.refused = refused
	close(s.done)
}

// admitted processes the reply of the store for a waiter.
func (c *Controller) admitted(w *waiter, a ledger.AdmitResult) {
	late := len(w.request.Limits) > 0 && time.Since(w.attempt.sent) > ledger.PermitTTL // the grant has expired
	w.attempt.inFlight, w.attempt.sent = false, time.Time{}
	r := a.Refused
	switch {
	case r == nil && a.Replay == nil && w.attempt.canceled:
		c.undo(w, a.Limits)
	case w.attempt.canceled:
	case r == nil && a.Replay == nil && late:
		c.undo(w, a.Limits)
		w.finish(nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The store responded too late; the call did not run.", RetryAfter: time.Second})
	case r == nil && a.Replay == nil:
		w.finish(&Admission{Request: w.request, Reserved: &reservation{durable: true, grants: a.Limits, spent: a.Spent, rest: a.Remaining}}, nil)
	case r == nil:
		result := &toolyard.Result{}
		if err := result.UnmarshalJSON(a.Replay); err != nil {
			w.finish(nil, &toolyard.Error{Code: toolyard.Internal, Message: "The stored result cannot be decoded.", Err: err})
			return
		}
		w.finish(&Admission{Request: w.request, Replay: result, Reserved: &reservation{durable: true}}, nil)
	default:
		c.postpone(w, r)
	}
}

// postpone lets a refused waiter wait if that may help, and refuses it otherwise.
func (c *Controller) postpone(w *waiter, r *ledger.Refusal) {
	reason := &toolyard.Error{Code: r.Code, Message: r.Message, RetryAfter: r.RetryAfter}
	if r.Code == toolyard.RateLimited && r.Message == "" {
		reason = limitReached(w.request.Limits[r.Limit].Name, r.RetryAfter)
	}
	if r.Code == toolyard.BudgetExceeded {
		reason.RetryAfter = 0
		if b := c.leases.budgets[budgetKey{w.request.Balance, w.request.Account}]; b != nil && b.waiting() == 0 {
			b.rate = rateMeter{} // return the lease: it may be what is missing
		}
	}
	now := time.Now()
	if w.attempt.refusedSince.IsZero() {
		w.attempt.refusedSince = now
	}
	waits := r.RetryAfter > 0 && r.Code != toolyard.InProgress && now.Add(r.RetryAfter).Before(w.deadline) &&
		(r.Code != toolyard.BudgetExceeded || now.Sub(w.attempt.refusedSince) < shortTime)
	if !waits {
		w.finish(nil, reason)
		return
	}
	w.reason, w.attempt.next = reason, now.Add(min(r.RetryAfter, pollTime))
}

// undo returns what was reserved for a canceled waiter. Without grants, because it is not known
// whether there were any, permits expire.
func (c *Controller) undo(w *waiter, grants []ledger.LimitGrant) {
	for i, g := range grants {
		l := w.request.Limits[i]
		r := ledger.LimitReturn{Permits: 1, Epoch: g.Epoch, Turn: l.Limit.Cooldown > 0}
		if l.Limit.Concurrency > 0 {
			r.Concurrency = 1
		}
		c.giveBack(l, r)
	}
	s := &settling{Settlement: ledger.Settlement{Call: w.request.CallID, NotRun: true}, done: make(chan struct{})}
	s.endRun(w.request)
	c.outbox.settlements = append(c.outbox.settlements, s)
}

// unavailable handles a batch without a reply: settlements and releases are sent again, and calls
// that have waited long enough are refused. Returned permits are dropped: it is not known whether
// they were returned, and they expire.
func (c *Controller) unavailable(b *batch, err error) {
	now := time.Now()
	if c.outage.since.IsZero() {
		c.outage.since = now
		c.opts.Log.Warn("the store is unavailable", "error", err)
		c.opts.OnStore(false)
	}
	c.outbox.settlements = append(slices.Clone(b.settlements), c.outbox.settlements...)
	c.outbox.releases = append(b.Releases, c.outbox.releases...)
	for _, l := range b.budgets {
		if l.pledged {
			l.available.money, l.pledged = 0, false // it may have been returned
		}
	}
	for _, w := range b.waiters {
		w.attempt.inFlight, w.attempt.uncertain = false, true
		if w.attempt.canceled {
			c.undo(w, nil)
		}
	}
	if c.opts.Local && now.Sub(c.outage.since) < localTime && errors.Is(err, ledger.ErrUnavailable) {
		c.leaseLocally(b, now)
	}
	c.refuseOverdue(now)
}

// leaseLocally grants limits from the share of this replica.
func (c *Controller) leaseLocally(b *batch, now time.Time) {
	for _, r := range b.Returns {
		c.outage.local.Return(now, r)
	}
	for i, l := range b.limits {
		replicas := max(1, l.replicas)
		g := c.outage.local.Lease(now, b.Limits[i], replicas)
		g.Replicas = replicas
		l.granted(c, b.Limits[i], g, now)
	}
}

// refuseOverdue refuses all waiters that have waited for the store long enough.
func (c *Controller) refuseOverdue(now time.Time) {
	reason := &toolyard.Error{Code: toolyard.Unavailable, Message: "The store of limits and money is unavailable; the call did not run.", RetryAfter: time.Second}
	overdue := func(w *waiter) bool { return now.After(w.entered.Add(storeTimeout)) }
	for _, q := range c.queues {
		for _, w := range q.all() {
			if overdue(w) {
				q.remove(w)
				w.finish(nil, reason)
			}
		}
	}
	for _, w := range c.durable {
		if overdue(w) && !w.finished() {
			c.abandon(w)
			w.finish(nil, reason)
		}
	}
}

// abandon cancels a waiter. If the store may have admitted it, that is undone.
func (c *Controller) abandon(w *waiter) {
	w.attempt.canceled = true
	if w.attempt.uncertain && !w.attempt.inFlight {
		c.undo(w, nil)
		c.wakeLoop()
	}
}

// sweep expires what stopped replicas left in the store.
func (c *Controller) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		c.sleep(ctx, backoff.Jitter(sweepTime), false)
		for more, n := true, 0; more && n < maxSweeps && ctx.Err() == nil; n++ {
			var err error
			more, err = c.store.Sweep(ctx, 200)
			switch {
			case err == nil:
			case errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil:
				more = false // the loop logs it
			default:
				c.opts.Log.Error("expired rows of the store could not be removed; trying again in a minute", "error", err)
			}
		}
	}
}

// close sends what is left, and returns all leases.
func (c *Controller) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	c.mu.Lock()
	c.closed = true
	for _, q := range c.queues {
		q.refuse(time.Now(), forever, errClosing)
	}
	for _, w := range c.durable {
		if !w.finished() {
			c.abandon(w)
			w.finish(nil, errClosing)
		}
	}
	for _, l := range c.leases.limits {
		l.rate = rateMeter{}
	}
	for _, l := range c.leases.budgets {
		l.rate = rateMeter{}
	}
	c.mu.Unlock()
	defer close(c.ended)
	for ctx.Err() == nil {
		b, _ := c.collect(time.Now())
		if b.empty() {
			return
		}
		if !c.exchange(ctx, b) {
			c.sleep(ctx, 100*time.Millisecond, false)
		}
	}
}

// errClosing refuses calls that arrive or wait when the yard closes.
var errClosing = &toolyard.Error{Code: toolyard.Unavailable, Message: "The yard is closing.", RetryAfter: time.Second}
