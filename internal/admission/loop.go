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
	// patience is how long a call waits for a store that does not answer.
	patience = 2 * time.Second
	// exchangeTime is how long one exchange may take.
	exchangeTime = 5 * time.Second
	// sweepTime is how often what has run out is looked for.
	sweepTime = time.Second
	// maxSweeps is how often in a row the store is asked to end what has expired.
	maxSweeps = 50
	// tick is how often leases are looked after.
	tick = 25 * time.Millisecond
	// manyCalls is how many settled calls make it worth to wait for more, and gatherTime is
	// for how long at most.
	manyCalls, gatherTime = 4, 2 * time.Millisecond
	// maxBatch is how many calls one batch settles, and admits, at most.
	maxBatch = 2000
	// aloneTime is for how long limits are counted alone while the store is away.
	aloneTime = time.Minute
)

// outbox is what the store is to be told.
type outbox struct {
	returns []ledger.LimitReturn
	settles []*settling
	drops   []ledger.HoldRelease
}

// settling is a call that is being settled.
type settling struct {
	ledger.Settlement
	wallet  *wallet        // nil for a call that the store admitted
	price   toolyard.Money // what was taken for it
	receipt *toolyard.Receipt
	refused *ledger.Refusal
	done    chan struct{} // closed when it is durable or refused
}

// ofRun says that it ends a call that the store admitted, and with it what was held for it.
func (s *settling) ofRun(ask *Request) {
	id := runOf(ask)
	s.Run, s.EndHold = &id, true
	if ask.Balance != "" {
		s.Hold, s.Balance = ask.Call, ask.Balance
	}
}

// batch is a batch, and who waits for it.
type batch struct {
	ledger.Batch
	settles []*settling
	lanes   []*lane
	wallets []*wallet
	admits  []*visitor
}

func (b *batch) empty() bool { return len(b.Returns)+b.size() == 0 }

// size is how many things the batch asks for.
func (b *batch) size() int {
	return len(b.settles) + len(b.Releases) + len(b.lanes) + len(b.wallets) + len(b.admits)
}

// Run talks to the store until ctx ends, and then gives back what was leased.
func (d *Controller) Run(ctx context.Context) {
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		d.sweep(ctx)
	}()
	for pause := time.Duration(0); ctx.Err() == nil; {
		b, wait := d.collect(time.Now())
		if b.empty() {
			d.rest(ctx, wait, true)
			continue
		}
		began := time.Now()
		if d.exchange(ctx, b) {
			pause = 0
			d.gather(ctx, len(b.settles), time.Since(began))
			continue
		}
		pause = min(max(2*pause, 20*time.Millisecond), 500*time.Millisecond)
		d.rest(ctx, backoff.Jitter(pause), false)
	}
	<-swept
	d.close(context.WithoutCancel(ctx))
}

// gather waits a moment for the callers whom a batch has let go, if they are several: what
// they do next then fills one batch, not two that take turns.
func (d *Controller) gather(ctx context.Context, settled int, took time.Duration) {
	if wait := min(took/4, gatherTime); settled >= manyCalls && wait > 0 {
		d.rest(ctx, wait, false)
	}
}

// rest waits, and ends early if there is something to do.
func (d *Controller) rest(ctx context.Context, wait time.Duration, wakeable bool) {
	wake := d.wake
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

// collect is all that is to be said to the store now, and for how long there is nothing more
// if it is nothing: zero for ever.
func (d *Controller) collect(now time.Time) (b *batch, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b = &batch{Batch: ledger.Batch{Replica: d.opts.Replica}}
	for _, l := range d.lanes {
		d.tend(l, now)
		if ask, ok := l.ask(d, now); ok {
			b.lanes, b.Limits = append(b.lanes, l), append(b.Limits, ask)
		}
	}
	for key, w := range d.wallets {
		if f, ok := w.ask(d, now); ok {
			b.wallets, b.Holds = append(b.wallets, w), append(b.Holds, f)
		} else if w.sleep(d, now) {
			d.forget(w.lines)
			delete(d.wallets, key)
		}
	}
	d.collectAdmits(b, now)
	d.collectOutbox(b)
	if len(d.lanes)+len(d.wallets)+len(d.durable) > 0 {
		wait = tick
	}
	for _, l := range d.lanes {
		if l.waiting() > 0 && l.next.After(now) {
			wait = min(wait, l.next.Sub(now))
		}
	}
	return b, wait
}

// tend serves a lane whose cooldown is over, and gives back what it does not need.
func (d *Controller) tend(l *lane, now time.Time) {
	if l.Limit.Cooldown > 0 && !l.turn.IsZero() && !l.busy && !l.next.After(now) {
		d.serve(l.lines...)
	}
	if l.rest(d, now) && !slices.ContainsFunc(l.lines, func(line *line) bool { return line.wallet != nil && line.wallet.begun > 0 }) {
		d.forget(l.lines)
		delete(d.lanes, l.Key)
	}
}

// forget removes lines that nobody waits in. What they lead to is looked up again for the
// next call.
func (d *Controller) forget(lines []*line) {
	for _, l := range slices.Clone(lines) {
		delete(d.lines, l.name)
		is := func(other *line) bool { return other == l }
		for _, lane := range l.lanes {
			lane.lines = slices.DeleteFunc(lane.lines, is)
		}
		if l.wallet != nil {
			l.wallet.lines = slices.DeleteFunc(l.wallet.lines, is)
		}
	}
}

func (d *Controller) collectOutbox(b *batch) {
	n := min(len(d.out.settles), maxBatch)
	b.settles = d.out.settles[:n:n]
	d.out.settles = d.out.settles[n:]
	for _, s := range b.settles {
		b.Settlements = append(b.Settlements, s.Settlement)
	}
	b.Returns, b.Releases = d.out.returns, d.out.drops
	d.out.returns, d.out.drops = nil, nil
}

func (d *Controller) collectAdmits(b *batch, now time.Time) {
	d.durable = slices.DeleteFunc(d.durable, func(v *visitor) bool { return v.ended() && !v.asked })
	for _, v := range inTurn(d.durable) {
		if v.next.After(now) || len(b.admits) == maxBatch {
			continue
		}
		if v.asked = true; v.since.IsZero() {
			v.since = now
		}
		b.admits = append(b.admits, v)
		ask := admission(v.ask)
		ask.KeysFull = d.keys.full(v.ask)
		b.Admits = append(b.Admits, ask)
	}
}

// inTurn lets callers take turns, and keeps the order of the calls of each.
func inTurn(visitors []*visitor) []*visitor {
	nth, round := make(map[string]int), make(map[*visitor]int, len(visitors))
	for _, v := range visitors {
		round[v] = nth[v.ask.Caller]
		nth[v.ask.Caller]++
	}
	if len(nth) <= 1 {
		return visitors
	}
	visitors = slices.Clone(visitors)
	slices.SortStableFunc(visitors, func(a, b *visitor) int { return round[a] - round[b] })
	return visitors
}

// admission is an ask as the store takes it.
func admission(a *Request) ledger.AdmitRequest {
	s := ledger.AdmitRequest{Call: a.Call, Run: runOf(a), Digest: a.Digest, Balance: a.Balance, Account: a.Account, Price: a.Price, Timeout: a.Timeout}
	for _, p := range a.Limits {
		s.Limits = append(s.Limits, ledger.LimitRequest{Key: p.Key, Limit: p.Limit, Permits: 1, Concurrency: 1, Turn: true, Hold: a.Timeout + ledger.Grace})
	}
	return s
}

// exchange sends a batch and spreads its answers. It reports whether there were any.
func (d *Controller) exchange(ctx context.Context, b *batch) bool {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangeTime)
	defer cancel()
	answers, err := d.store.Exchange(ctx, &b.Batch)
	refused := err != nil && !errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil // the store is there, and does not take it
	if refused && b.size() > 1 {
		for _, part := range b.parts() {
			d.exchange(ctx, part)
		}
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case refused:
		d.discard(b, err)
		return true
	case err != nil:
		d.failed(b, err)
		return false
	}
	if !d.away.IsZero() {
		d.opts.Log.Info("the store is back", "away", time.Since(d.away).Round(time.Millisecond))
		d.away = time.Time{}
		d.opts.OnStore(true)
	}
	for i, s := range b.settles {
		d.settled(s, answers.Settlements[i].Refused)
	}
	for i, l := range b.lanes {
		l.granted(d, b.Limits[i], answers.Limits[i], sent)
	}
	for i, w := range b.wallets {
		w.granted(d, b.Holds[i], answers.Holds[i], sent)
	}
	for i, v := range b.admits {
		d.admitted(v, answers.Admits[i])
	}
	return true
}

// parts are batches of one thing each, so that one that the store does not take does not
// hold up the others. Permits to give back are not among them: they run out by themselves.
func (b *batch) parts() (list []*batch) {
	part := func() *batch {
		list = append(list, &batch{Batch: ledger.Batch{Replica: b.Replica}})
		return list[len(list)-1]
	}
	for i, s := range b.settles {
		p := part()
		p.settles, p.Settlements = []*settling{s}, b.Settlements[i:i+1]
	}
	for i := range b.Releases {
		part().Releases = b.Releases[i : i+1]
	}
	for i, l := range b.lanes {
		p := part()
		p.lanes, p.Limits = []*lane{l}, b.Limits[i:i+1]
	}
	for i, w := range b.wallets {
		p := part()
		p.wallets, p.Holds = []*wallet{w}, b.Holds[i:i+1]
	}
	for i, v := range b.admits {
		p := part()
		p.admits, p.Admits = []*visitor{v}, b.Admits[i:i+1]
	}
	return list
}

// discard gives up what the store does not take.
func (d *Controller) discard(b *batch, err error) {
	d.opts.Log.Error("the store does not take something", "error", err)
	refused := &ledger.Refusal{Code: toolyard.Internal, Message: "The store does not take it."}
	reason := &toolyard.Error{Code: refused.Code, Message: refused.Message, Err: err}
	for _, s := range b.settles {
		d.settled(s, refused)
	}
	for _, l := range b.lanes {
		l.again = time.Now().Add(pollTime)
		for _, line := range l.lines {
			line.refuse(time.Now(), forever, reason)
		}
	}
	for _, w := range b.wallets {
		w.over()
		w.refuse(refused)
	}
	for _, v := range b.admits {
		if v.asked = false; !v.ended() {
			v.end(nil, reason)
		}
	}
}

// settled notes that a call is settled, and lets its caller go.
func (d *Controller) settled(s *settling, refused *ledger.Refusal) {
	if w := s.wallet; w != nil {
		w.settled(s.price, s.Amount)
		if refused != nil && (w.hold == s.Hold || w.hold == "") {
			w.over()
		}
		spent, rest := w.spent, w.rest
		s.receipt.Spent, s.receipt.Remaining = &spent, &rest
	}
	if refused != nil {
		d.opts.Log.Error("a call could not be settled", "call", s.Call, "problem", refused.Message)
	}
	s.refused = refused
	close(s.done)
}

// admitted ends the waiting of a visitor whom the store has answered, if it has.
func (d *Controller) admitted(v *visitor, a ledger.AdmitResult) {
	late := len(v.ask.Limits) > 0 && time.Since(v.since) > ledger.PermitTTL // what was granted may not be used any more
	v.asked, v.since = false, time.Time{}
	r := a.Refused
	switch {
	case r == nil && a.Replay == nil && v.left:
		d.undo(v, a.Limits)
	case v.left:
	case r == nil && a.Replay == nil && late:
		d.undo(v, a.Limits)
		v.end(nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The store that keeps limits answered too late, so the call was not made.", RetryAfter: time.Second})
	case r == nil && a.Replay == nil:
		v.end(&Admission{Request: v.ask, Reserved: &taken{durable: true, paces: a.Limits, spent: a.Spent, rest: a.Remaining}}, nil)
	case r == nil:
		res, err := toolyard.RawResult(a.Replay)
		if err != nil {
			v.end(nil, &toolyard.Error{Code: toolyard.Internal, Message: "The result on record cannot be read.", Err: err})
			return
		}
		v.end(&Admission{Request: v.ask, Replay: res, Reserved: &taken{durable: true}}, nil)
	default:
		d.postpone(v, r)
	}
}

// postpone lets a visitor wait if that may help, and refuses it otherwise.
func (d *Controller) postpone(v *visitor, r *ledger.Refusal) {
	reason := &toolyard.Error{Code: r.Code, Message: r.Message, RetryAfter: r.RetryAfter}
	if r.Code == toolyard.RateLimited && r.Message == "" {
		reason = reached(v.ask.Limits[r.Limit].Name, r.RetryAfter)
	}
	if r.Code == toolyard.BudgetExceeded {
		reason.RetryAfter = 0
		if w := d.wallets[walletKey{v.ask.Balance, v.ask.Account}]; w != nil && w.waiting() == 0 {
			w.pulse = pulse{} // what this replica has leased may be what is missing
		}
	}
	now := time.Now()
	if v.short.IsZero() {
		v.short = now
	}
	waits := r.RetryAfter > 0 && r.Code != toolyard.InProgress && now.Add(r.RetryAfter).Before(v.deadline) &&
		(r.Code != toolyard.BudgetExceeded || now.Sub(v.short) < shortTime)
	if !waits {
		v.end(nil, reason)
		return
	}
	v.reason, v.next = reason, now.Add(min(r.RetryAfter, pollTime))
}

// undo gives back what was taken for a visitor that has left. Paces are what it was granted;
// if it is not known whether it was, they run out by themselves.
func (d *Controller) undo(v *visitor, paces []ledger.LimitGrant) {
	for i, g := range paces {
		p := v.ask.Limits[i]
		r := ledger.LimitReturn{Permits: 1, Epoch: g.Epoch, Turn: p.Limit.Cooldown > 0}
		if p.Limit.Concurrency > 0 {
			r.Concurrency = 1
		}
		d.giveBack(p, r)
	}
	s := &settling{Settlement: ledger.Settlement{Call: v.ask.Call, NotRun: true}, done: make(chan struct{})}
	s.ofRun(v.ask)
	d.out.settles = append(d.out.settles, s)
}

// failed keeps what must reach the store, and refuses whom it cannot serve. Permits that
// were to be given back are not: whether they were is not known, and they run out by
// themselves.
func (d *Controller) failed(b *batch, err error) {
	now := time.Now()
	if d.away.IsZero() {
		d.away = now
		d.opts.Log.Warn("the store does not answer", "error", err)
		d.opts.OnStore(false)
	}
	d.out.settles = append(slices.Clone(b.settles), d.out.settles...)
	d.out.drops = append(b.Releases, d.out.drops...)
	for _, w := range b.wallets {
		if w.pledged {
			w.left, w.pledged = 0, false // it may be gone
		}
	}
	for _, v := range b.admits {
		v.asked, v.doubted = false, true
		if v.left {
			d.undo(v, nil)
		}
	}
	if d.opts.Local && now.Sub(d.away) < aloneTime && errors.Is(err, ledger.ErrUnavailable) {
		d.goAlone(b, now)
	}
	d.refuseAll(now)
}

// goAlone grants what the lanes ask for from this replica's share of their limits.
func (d *Controller) goAlone(b *batch, now time.Time) {
	for _, r := range b.Returns {
		d.alone.Return(now, r)
	}
	for i, l := range b.lanes {
		replicas := max(1, l.replicas)
		g := d.alone.Lease(now, b.Limits[i], replicas)
		g.Replicas = replicas
		l.granted(d, b.Limits[i], g, now)
	}
}

// refuseAll refuses all who have waited for the store long enough.
func (d *Controller) refuseAll(now time.Time) {
	reason := &toolyard.Error{Code: toolyard.Unavailable, Message: "The store that keeps limits and money cannot be reached, so the call was not made.", RetryAfter: time.Second}
	over := func(v *visitor) bool { return now.After(v.entered.Add(patience)) }
	for _, l := range d.lines {
		for _, v := range l.all() {
			if over(v) {
				l.remove(v)
				v.end(nil, reason)
			}
		}
	}
	for _, v := range d.durable {
		if over(v) && !v.ended() {
			d.abandon(v)
			v.end(nil, reason)
		}
	}
}

// abandon notes that a visitor waits no longer. If the store may have admitted it, that is
// undone.
func (d *Controller) abandon(v *visitor) {
	v.left = true
	if v.doubted && !v.asked {
		d.undo(v, nil)
		d.call()
	}
}

// sweep ends what others left behind.
func (d *Controller) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		d.rest(ctx, backoff.Jitter(sweepTime), false)
		for more, n := true, 0; more && n < maxSweeps && ctx.Err() == nil; n++ {
			var err error
			more, err = d.store.Sweep(ctx, 200)
			switch {
			case err == nil:
			case errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil:
				more = false // the loop says that the store is away
			default:
				d.opts.Log.Error("expired rows of the store could not be ended; they are tried again in a minute", "error", err)
			}
		}
	}
}

// close sends what is left, and gives back what was leased.
func (d *Controller) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	d.mu.Lock()
	d.closed = true
	for _, l := range d.lines {
		l.refuse(time.Now(), forever, errClosing)
	}
	for _, v := range d.durable {
		if !v.ended() {
			d.abandon(v)
			v.end(nil, errClosing)
		}
	}
	for _, l := range d.lanes {
		l.pulse = pulse{}
	}
	for _, w := range d.wallets {
		w.pulse = pulse{}
	}
	d.mu.Unlock()
	defer close(d.ended)
	for ctx.Err() == nil {
		b, _ := d.collect(time.Now())
		if b.empty() {
			return
		}
		if !d.exchange(ctx, b) {
			d.rest(ctx, 100*time.Millisecond, false)
		}
	}
}

// errClosing is what those are told who come or wait when the yard closes.
var errClosing = &toolyard.Error{Code: toolyard.Unavailable, Message: "The yard is closing.", RetryAfter: time.Second}
