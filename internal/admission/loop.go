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
	// storeTimeout is how long a call waits for a store that is not responding.
	storeTimeout = 2 * time.Second
	// exchangeTimeout limits one exchange with the store.
	exchangeTimeout = 5 * time.Second
	// sweepTime is the interval between sweeps for expired rows.
	sweepTime = time.Second
	// maxSweeps is the maximum number of consecutive sweeps.
	maxSweeps = 50
	// tick is the interval at which leases are maintained.
	tick = 25 * time.Millisecond
	// After a batch of at least gatherCalls settlements, the loop waits up to gatherTime for more.
	gatherCalls, gatherTime = 4, 2 * time.Millisecond
	// maxBatch is the maximum number of settlements in one batch, and also of admissions.
	maxBatch = 2000
	// localTime is how long limits are enforced locally while the store is unavailable.
	localTime = time.Minute
)

// outbox collects messages for the next batch.
type outbox struct {
	returns     []ledger.LimitReturn
	settlements []*settling
	releases    []ledger.HoldRelease
}

type settling struct {
	ledger.Settlement
	budget  *budgetLease   // nil if the store admitted the call
	price   toolyard.Money // reserved price
	receipt *toolyard.Receipt
	refused *ledger.Refusal
	done    chan struct{} // closed when the settlement is durable or refused
}

// endRun ends the run and the hold of a call that the store admitted.
func (s *settling) endRun(r *Request) {
	key := runKey(r)
	s.Run, s.EndHold = &key, true
	for _, l := range r.Spend {
		s.Spend = append(s.Spend, l.Key)
	}
	if r.Balance != "" {
		s.Hold, s.Balance = r.CallID, r.Balance
	}
}

// batch is a ledger batch together with the recipients of its results.
type batch struct {
	ledger.Batch
	settlements []*settling
	limits      []*limitLease
	budgets     []*budgetLease
	waiters     []*waiter
}

func (b *batch) empty() bool { return len(b.Returns)+b.size() == 0 }

// size returns the number of requests, excluding returned permits.
func (b *batch) size() int {
	return len(b.settlements) + len(b.Releases) + len(b.limits) + len(b.budgets) + len(b.waiters)
}

// loop exchanges batches with the store.
type loop struct {
	*Controller
	outage outage
}

// outage tracks how long the store has been unavailable.
type outage struct {
	since time.Time // zero if the store is available
	local ledger.LocalLimits
}

// Run exchanges batches with the store until ctx ends, and then returns all leases.
func (c *Controller) Run(ctx context.Context) { (&loop{Controller: c}).run(ctx) }

func (o *loop) run(ctx context.Context) {
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		o.sweep(ctx)
	}()
	for pause := time.Duration(0); ctx.Err() == nil; {
		b, wait := o.collect(time.Now())
		if b.empty() {
			o.sleep(ctx, wait, true)
			continue
		}
		start := time.Now()
		if o.exchange(ctx, b) {
			pause = 0
			o.gather(ctx, len(b.settlements), time.Since(start))
			continue
		}
		pause = min(max(2*pause, 20*time.Millisecond), 500*time.Millisecond)
		o.sleep(ctx, backoff.Jitter(pause), false)
	}
	<-swept
	o.close(context.WithoutCancel(ctx))
}

// gather waits briefly if a batch released several callers, so that their next calls share one
// batch instead of alternating between two.
func (o *loop) gather(ctx context.Context, settled int, took time.Duration) {
	if wait := min(took/4, gatherTime); settled >= gatherCalls && wait > 0 {
		o.sleep(ctx, wait, false)
	}
}

// sleep waits until the time has passed or ctx ends, or until it is woken if wakeable is set. A
// wait of zero never times out.
func (o *loop) sleep(ctx context.Context, wait time.Duration, wakeable bool) {
	wake := o.wake
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

// collect returns the next batch, and how long to wait if it is empty. A wait of zero means no
// limit.
func (o *loop) collect(now time.Time) (b *batch, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b = &batch{Batch: ledger.Batch{Replica: o.opts.Replica}}
	for _, l := range o.leases.limits {
		o.maintain(l, now)
		if r, ok := l.request(o.Controller, now); ok {
			b.limits, b.Limits = append(b.limits, l), append(b.Limits, r)
		}
	}
	for key, l := range o.leases.budgets {
		if r, ok := l.request(o.Controller, now); ok {
			b.budgets, b.Holds = append(b.budgets, l), append(b.Holds, r)
		} else if l.returnIdle(o.Controller, now) {
			o.deleteQueues(l.queues)
			delete(o.leases.budgets, key)
		}
	}
	o.collectAdmits(b, now)
	o.collectOutbox(b)
	if len(o.leases.limits)+len(o.leases.budgets)+len(o.durable) > 0 {
		wait = tick
	}
	for _, l := range o.leases.limits {
		if l.waiting() > 0 && l.startRight.next.After(now) {
			wait = min(wait, l.startRight.next.Sub(now))
		}
	}
	return b, wait
}

// maintain serves a limit whose cooldown is over, and returns the parts of its lease that are not
// needed.
func (o *loop) maintain(l *limitLease, now time.Time) {
	if l.Limit.Cooldown > 0 && !l.startRight.until.IsZero() && !l.startRight.starting && !l.startRight.next.After(now) {
		o.serve(l.queues...)
	}
	if l.returnIdle(o.Controller, now) && !slices.ContainsFunc(l.queues, func(q *queue) bool { return q.budget != nil && q.budget.taken.calls > 0 }) {
		o.deleteQueues(l.queues)
		delete(o.leases.limits, l.Key)
	}
}

// deleteQueues deletes empty queues. The next call creates them again.
func (o *loop) deleteQueues(queues []*queue) {
	for _, q := range slices.Clone(queues) {
		delete(o.queues, q.name)
		same := func(other *queue) bool { return other == q }
		for _, l := range q.limits {
			l.queues = slices.DeleteFunc(l.queues, same)
		}
		if q.budget != nil {
			q.budget.queues = slices.DeleteFunc(q.budget.queues, same)
		}
	}
}

func (o *loop) collectOutbox(b *batch) {
	n := min(len(o.outbox.settlements), maxBatch)
	b.settlements = o.outbox.settlements[:n:n]
	o.outbox.settlements = o.outbox.settlements[n:]
	for _, s := range b.settlements {
		b.Settlements = append(b.Settlements, s.Settlement)
	}
	b.Returns, b.Releases = o.outbox.returns, o.outbox.releases
	o.outbox.returns, o.outbox.releases = nil, nil
}

func (o *loop) collectAdmits(b *batch, now time.Time) {
	o.durable = slices.DeleteFunc(o.durable, func(w *waiter) bool { return w.finished() && !w.attempt.inFlight })
	for _, w := range inTurn(o.durable) {
		if w.attempt.next.After(now) || len(b.waiters) == maxBatch {
			continue
		}
		if w.attempt.inFlight = true; w.attempt.sent.IsZero() {
			w.attempt.sent = now
		}
		b.waiters = append(b.waiters, w)
		r := admitRequest(w.request)
		r.KeysFull = o.keys.full(w.request)
		b.Admits = append(b.Admits, r)
	}
}

// inTurn orders waiters so that callers take turns. Calls from the same caller stay in order.
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

// admitRequest converts a request to the ledger's type.
func admitRequest(r *Request) ledger.AdmitRequest {
	a := ledger.AdmitRequest{Call: r.CallID, Run: runKey(r), Digest: r.Digest, Balance: r.Balance, Account: r.Account, Price: r.Price, Spend: r.Spend, Timeout: r.Timeout, Approval: r.Approval}
	for _, l := range r.Limits {
		a.Limits = append(a.Limits, ledger.LimitRequest{Key: l.Key, Limit: l.Limit, Permits: 1, Concurrency: 1, StartRight: true, SlotTTL: r.Timeout + ledger.Grace})
	}
	return a
}

// exchange sends a batch and distributes its results. It reports whether the store replied.
func (o *loop) exchange(ctx context.Context, b *batch) bool {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTimeout)
	defer cancel()
	results, err := o.store.Exchange(ctx, &b.Batch)
	rejected := err != nil && !errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil
	if rejected && b.size() > 1 {
		for _, part := range b.parts() {
			o.exchange(ctx, part)
		}
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case rejected:
		o.discard(b, err)
		return true
	case err != nil:
		o.unavailable(b, err)
		return false
	}
	if !o.outage.since.IsZero() {
		o.opts.Log.Info("store available again", "after", time.Since(o.outage.since).Round(time.Millisecond))
		o.outage.since = time.Time{}
		o.opts.OnStore(true)
	}
	for i, s := range b.settlements {
		o.settled(s, results.Settlements[i].Refused)
	}
	for i, l := range b.limits {
		l.granted(o.Controller, b.Limits[i], results.Limits[i], sent)
	}
	for i, l := range b.budgets {
		l.granted(o.Controller, b.Holds[i], results.Holds[i], sent)
	}
	for i, w := range b.waiters {
		o.admitted(w, results.Admits[i])
	}
	return true
}

// parts splits a batch into single requests, so that a rejected request does not block the others.
// Returned permits are omitted because they expire anyway.
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

// discard fails all requests in a batch that the store rejected.
func (o *loop) discard(b *batch, err error) {
	o.opts.Log.Error("store rejected a request", "error", err)
	refused := &ledger.Refusal{Code: toolyard.Internal, Message: "The store rejected the request."}
	reason := &toolyard.Error{Code: refused.Code, Message: refused.Message, Err: err}
	for _, s := range b.settlements {
		o.settled(s, refused)
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

func (o *loop) settled(s *settling, refused *ledger.Refusal) {
	if b := s.budget; b != nil {
		b.settled(s.price, s.Amount)
		if refused != nil && (b.hold == s.Hold || b.hold == "") {
			b.reset()
		}
		spent, rest := b.spent, b.rest
		s.receipt.Spent, s.receipt.Remaining = &spent, &rest
	}
	if refused != nil {
		o.opts.Log.Error("could not settle a call", "call", s.Call, "problem", refused.Message)
	}
	s.refused = refused
	close(s.done)
}

// admitted processes the store's reply for a waiter.
func (o *loop) admitted(w *waiter, a ledger.AdmitResult) {
	late := len(w.request.Limits) > 0 && time.Since(w.attempt.sent) > ledger.PermitTTL // the grant has expired
	w.attempt.inFlight, w.attempt.sent = false, time.Time{}
	r := a.Refused
	switch {
	case r == nil && a.Replay == nil && w.attempt.canceled:
		o.undo(w, a.Limits)
	case w.attempt.canceled:
	case r == nil && a.Replay == nil && late:
		o.undo(w, a.Limits)
		w.finish(nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The store responded too late, so the call was not run.", RetryAfter: time.Second})
	case r == nil && a.Replay == nil:
		w.finish(&Admission{Request: w.request, Reserved: &reservation{durable: true, grants: a.Limits, spent: a.Spent, rest: a.Remaining}}, nil)
	case r == nil:
		result := &toolyard.Result{}
		if err := result.UnmarshalJSON(a.Replay); err != nil {
			w.finish(nil, &toolyard.Error{Code: toolyard.Internal, Message: "The stored result could not be decoded.", Err: err})
			return
		}
		w.finish(&Admission{Request: w.request, Replay: result, Reserved: &reservation{durable: true}}, nil)
	default:
		o.postpone(w, r)
	}
}

// postpone keeps a refused waiter waiting if that may help, and refuses it otherwise.
func (o *loop) postpone(w *waiter, r *ledger.Refusal) {
	reason := &toolyard.Error{Code: r.Code, Message: r.Message, RetryAfter: r.RetryAfter}
	if r.Code == toolyard.RateLimited && r.Message == "" {
		reason = limitReached(w.request.Limits[r.Limit], r.RetryAfter)
	}
	if r.Code == toolyard.BudgetExceeded {
		reason.RetryAfter = r.RenewsAfter
		if b := o.leases.budgets[budgetKey{w.request.Balance, w.request.Account}]; b != nil && b.waiting() == 0 {
			b.rate = rateMeter{} // return the lease, in case it holds the missing money
		}
	}
	now := time.Now()
	if w.attempt.refusedSince.IsZero() {
		w.attempt.refusedSince = now
	}
	waits := r.RetryAfter > 0 && r.Code != toolyard.InProgress && now.Add(r.RetryAfter).Before(w.deadline) &&
		(r.Code != toolyard.BudgetExceeded || now.Sub(w.attempt.refusedSince) < shortTime)
	if !waits {
		if r.SpendLimit != "" {
			o.opts.OnSpendRefused(r.SpendLimit)
		}
		w.finish(nil, reason)
		return
	}
	w.reason, w.attempt.next = reason, now.Add(min(r.RetryAfter, pollTime))
}

// undo returns the reservations of a canceled waiter. If grants is nil, it is unknown whether
// permits were granted; they expire.
func (c *Controller) undo(w *waiter, grants []ledger.LimitGrant) {
	for i, g := range grants {
		l := w.request.Limits[i]
		r := ledger.LimitReturn{Permits: 1, Epoch: g.Epoch, StartRight: l.Limit.Cooldown > 0}
		if l.Limit.Concurrency > 0 {
			r.Concurrency = 1
		}
		c.giveBack(l, r)
	}
	s := &settling{Settlement: ledger.Settlement{Call: w.request.CallID, NotRun: true, Unused: w.request.Approval}, done: make(chan struct{})}
	s.endRun(w.request)
	c.outbox.settlements = append(c.outbox.settlements, s)
}

// unavailable handles a batch that received no reply. It queues settlements and releases again, and
// refuses calls that have waited long enough. It drops returned permits: it is unknown whether the
// store received them, and they expire.
func (o *loop) unavailable(b *batch, err error) {
	now := time.Now()
	if o.outage.since.IsZero() {
		o.outage.since = now
		o.opts.Log.Warn("store unavailable", "error", err)
		o.opts.OnStore(false)
	}
	o.outbox.settlements = append(slices.Clone(b.settlements), o.outbox.settlements...)
	o.outbox.releases = append(b.Releases, o.outbox.releases...)
	for _, l := range b.budgets {
		if l.pledged {
			l.available.money, l.pledged = 0, false // the store may have taken the money back
		}
	}
	for _, w := range b.waiters {
		w.attempt.inFlight, w.attempt.uncertain = false, true
		if w.attempt.canceled {
			o.undo(w, nil)
		}
	}
	if o.opts.LocalFallback && now.Sub(o.outage.since) < localTime && errors.Is(err, ledger.ErrUnavailable) {
		o.leaseLocally(b, now)
	}
	o.refuseOverdue(now)
}

// leaseLocally grants limits from this replica's share.
func (o *loop) leaseLocally(b *batch, now time.Time) {
	for _, r := range b.Returns {
		o.outage.local.Return(now, r)
	}
	for i, l := range b.limits {
		replicas := max(1, l.replicas)
		g := o.outage.local.Lease(now, b.Limits[i], replicas)
		g.Replicas = replicas
		l.granted(o.Controller, b.Limits[i], g, now)
	}
}

// refuseOverdue refuses all waiters that have waited too long for the store.
func (o *loop) refuseOverdue(now time.Time) {
	reason := &toolyard.Error{Code: toolyard.Unavailable, Message: "The store for limits and balances is unavailable, so the call was not run.", RetryAfter: time.Second}
	overdue := func(w *waiter) bool { return now.After(w.entered.Add(storeTimeout)) }
	for _, q := range o.queues {
		for _, w := range q.all() {
			if overdue(w) {
				q.remove(w)
				w.finish(nil, reason)
			}
		}
	}
	for _, w := range o.durable {
		if overdue(w) && !w.finished() {
			o.abandon(w)
			w.finish(nil, reason)
		}
	}
}

// abandon cancels a waiter. If the store may have admitted it, abandon undoes the admission.
func (c *Controller) abandon(w *waiter) {
	w.attempt.canceled = true
	if w.attempt.uncertain && !w.attempt.inFlight {
		c.undo(w, nil)
		c.wakeLoop()
	}
}

// sweep expires rows that stopped replicas left in the store.
func (o *loop) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		o.sleep(ctx, backoff.Jitter(sweepTime), false)
		for more, n := true, 0; more && n < maxSweeps && ctx.Err() == nil; n++ {
			var err error
			more, err = o.store.Sweep(ctx, 200)
			switch {
			case err == nil:
			case errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil:
				more = false // the loop logs the error
			default:
				o.opts.Log.Error("could not remove expired rows from the store; skipping them for one minute", "error", err)
			}
		}
	}
}

// close sends the remaining requests and returns all leases.
func (o *loop) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	o.mu.Lock()
	o.closed = true
	for _, q := range o.queues {
		q.refuse(time.Now(), forever, errClosing)
	}
	for _, w := range o.durable {
		if !w.finished() {
			o.abandon(w)
			w.finish(nil, errClosing)
		}
	}
	for _, l := range o.leases.limits {
		l.rate = rateMeter{}
	}
	for _, l := range o.leases.budgets {
		l.rate = rateMeter{}
	}
	o.mu.Unlock()
	defer close(o.ended)
	for ctx.Err() == nil {
		b, _ := o.collect(time.Now())
		if b.empty() {
			return
		}
		if !o.exchange(ctx, b) {
			o.sleep(ctx, 100*time.Millisecond, false)
		}
	}
}

// errClosing is the error for calls that arrive or wait while the yard shuts down.
var errClosing = &toolyard.Error{Code: toolyard.Unavailable, Message: "The yard is shutting down.", RetryAfter: time.Second}
