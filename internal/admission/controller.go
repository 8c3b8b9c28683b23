// Package admission admits calls: it is the part of a replica that asks the store for permits,
// money and idempotency keys, and it implements Admitter.
//
// What many calls need is leased from the store in chunks (lane.go for limits, wallet.go for
// money), so that most calls are admitted without asking anybody. Calls that wait stand in
// lines (line.go), in which callers take turns. One loop (loop.go) sends all that waits to
// the store as one batch, one batch after the other. A call with an idempotency key, and a
// paid one that writes, is admitted by the store itself, so that it is on record there before
// it runs.
package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// Store is what the desk asks of the store.
type Store interface {
	Exchange(context.Context, *ledger.Batch) (*ledger.Results, error)
	Sweep(ctx context.Context, limit int) (more bool, err error)
	KeyUsage(ctx context.Context, scope string) (ledger.KeyUsage, error)
}

// Options are the settings of a desk.
type Options struct {
	Replica string                                                 // unique among the replicas that share the store
	Local   bool                                                   // while the store is away, count limits alone for a while
	Row     func(*toolyard.Call, toolyard.Outcome) *ledger.CallRow // nil for no record
	OnStore func(up bool)                                          // is told when the store goes away and comes back
	Log     *slog.Logger
}

// Controller admits the calls of one replica.
type Controller struct {
	store Store
	opts  Options
	wake  chan struct{} // there is something to send
	ended chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex
	seq     uint64
	lines   map[string]*line
	lanes   map[string]*lane
	wallets map[walletKey]*wallet
	durable []*visitor // those that the store admits, in order of arrival
	backlog backlog
	keys    keyUse
	out     outbox
	away    time.Time // since when the store does not answer; zero if it does
	alone   ledger.LocalLimits
	closed  bool
}

// New makes a desk. It admits once Run runs.
func New(s Store, o Options) *Controller {
	if o.OnStore == nil {
		o.OnStore = func(bool) {}
	}
	return &Controller{
		store: s, opts: o, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		lines: make(map[string]*line), lanes: make(map[string]*lane), wallets: make(map[walletKey]*wallet),
	}
}

var _ Admitter = (*Controller)(nil)

// visitor is a call that wants to be admitted.
type visitor struct {
	ask      *Request
	line     *line  // nil for one that the store admits
	seq      uint64 // in which order it came
	entered  time.Time
	deadline time.Time       // until when it waits for limits and money, once the store has answered
	reason   *toolyard.Error // why it is not admitted yet
	backlog  *backlog        // that counts it; nil for none
	next     time.Time       // when to ask the store for it again
	short    time.Time       // since when the store refuses it
	asked    bool            // the store is being asked for it
	since    time.Time       // when the store was asked first for what it has not refused yet
	doubted  bool            // the store may have admitted it, and the answer was lost
	left     bool            // it does not wait any more
	done     chan struct{}   // closed when there is a ticket or an error
	ticket   *Admission
	err      *toolyard.Error
}

// taken is what a ticket has taken.
type taken struct {
	lanes   []used
	wallet  *wallet // nil for one that the store admitted, and for one that nothing pays for
	durable bool
	paces   []ledger.LimitGrant // of one that the store admitted
	spent   toolyard.Money      // by the purse, before this call
	rest    toolyard.Money      // that the purse could spend, before this call
}

// used is a lane that a call runs in, and its slot there.
type used struct {
	lane *lane
	slot slot
}

// Admit implements Admitter.
func (d *Controller) Admit(ctx context.Context, ask *Request) (*Admission, error) {
	if ask.Empty() {
		return &Admission{Request: ask, Reserved: &taken{}}, nil
	}
	if !ask.Durable() {
		return d.admit(ctx, ask, false)
	}
	d.keys.count(ctx, d.store, ask)
	local, shared := split(ask)
	since := time.Now()
	place, err := d.admit(ctx, local, false)
	if err != nil {
		return nil, err
	}
	shared.Wait -= time.Since(since)
	t, err := d.admit(ctx, shared, true)
	if err != nil || t.Replay != nil {
		d.release(place)
		return t, err
	}
	t.Reserved.(*taken).lanes = place.Reserved.(*taken).lanes
	return t, nil
}

// split parts what this replica has to itself from what the store admits.
func split(ask *Request) (local, shared *Request) {
	local, shared = &Request{}, &Request{}
	*local, *shared = *ask, *ask
	local.Balance, local.Limits, shared.Limits = "", nil, nil
	for _, p := range ask.Limits {
		if p.Local {
			local.Limits = append(local.Limits, p)
		} else {
			shared.Limits = append(shared.Limits, p)
		}
	}
	return local, shared
}

// admit waits until everything is there, or until it is no use to wait.
func (d *Controller) admit(ctx context.Context, ask *Request, durable bool) (*Admission, error) {
	if !durable && len(ask.Limits) == 0 && ask.Balance == "" {
		return &Admission{Request: ask, Reserved: &taken{}}, nil
	}
	v := d.enter(ask, durable)
	if !v.ended() {
		d.await(ctx, v)
	}
	if v.err != nil {
		return nil, v.err
	}
	d.begun(v)
	return v.ticket, nil
}

func (d *Controller) await(ctx context.Context, v *visitor) {
	timer := time.NewTimer(time.Until(v.deadline))
	defer timer.Stop()
	for {
		select {
		case <-v.done:
			return
		case <-timer.C:
			timer.Reset(d.expire(v))
		case <-ctx.Done():
			d.mu.Lock()
			defer d.mu.Unlock()
			d.leave(v, toolyard.AsError(ctx.Err()))
			return
		}
	}
}

// release gives back the permits of a ticket.
func (d *Controller) release(t *Admission) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range t.Reserved.(*taken).lanes {
		u.lane.end(d, u.slot)
	}
}

// enter puts a call in line, and serves it at once if everything is there.
func (d *Controller) enter(ask *Request, durable bool) *visitor {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	now := time.Now()
	v := &visitor{ask: ask, seq: d.seq, entered: now, deadline: now.Add(ask.Wait), done: make(chan struct{})}
	switch {
	case d.closed:
		v.end(nil, errClosing)
	case durable:
		d.durable = append(d.durable, v)
	default:
		v.line = d.lineOf(ask)
		v.line.push(v)
		d.serve(v.line)
		if !v.ended() {
			v.line.foresee(v, now)
		}
	}
	if v.ended() {
		return v
	}
	if full := d.backlog.add(v); full != nil {
		d.leave(v, full)
		return v
	}
	d.call()
	return v
}

// expire ends a visitor that has waited as long as it may, or returns how much longer it may
// wait. How long a call waits for a limit is its own affair; the store has patience time to
// answer at all, even for a call that does not want to wait.
func (d *Controller) expire(v *visitor) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.ended() {
		return patience
	}
	err := v.reason
	if err == nil && v.line != nil {
		err = v.line.busy(v)
	}
	if err == nil {
		if left := time.Until(v.entered.Add(patience)); left > 0 {
			return left
		}
		err = &toolyard.Error{Code: toolyard.Unavailable, Message: "The store did not answer in time, so the call was not made.", RetryAfter: time.Second}
	}
	if err.Code == toolyard.RateLimited && v.ask.Wait > 0 { // it has waited for long, so it need not come back at once
		again := *err
		again.RetryAfter = max(again.RetryAfter, time.Second)
		err = &again
	}
	d.leave(v, err)
	return 0
}

// leave ends a visitor that waits no longer, unless it was served meanwhile.
func (d *Controller) leave(v *visitor, err *toolyard.Error) {
	if v.ended() {
		return
	}
	d.abandon(v)
	if v.line != nil {
		v.line.remove(v)
	}
	v.end(nil, err)
}

func (v *visitor) end(t *Admission, err *toolyard.Error) {
	if v.backlog != nil {
		v.backlog.remove(v)
	}
	v.ticket, v.err = t, err
	close(v.done)
}

func (v *visitor) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// begun notes that the call of a visitor begins now: its cooldowns count from here.
func (d *Controller) begun(v *visitor) {
	t := v.ticket.Reserved.(*taken)
	if t.durable && v.ticket.Replay == nil {
		d.returnTurns(v.ask, t)
		return
	}
	if !slices.ContainsFunc(v.ask.Limits, func(p LimitRef) bool { return p.Limit.Cooldown > 0 }) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range t.lanes {
		if u.lane.Limit.Cooldown > 0 {
			u.lane.begun(d, time.Now())
		}
	}
}

// returnTurns gives back the turns of a call that the store admitted.
func (d *Controller) returnTurns(ask *Request, t *taken) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, p := range ask.Limits {
		if p.Limit.Cooldown > 0 {
			d.giveBack(p, ledger.LimitReturn{Turn: true, Epoch: t.paces[i].Epoch})
			d.call()
		}
	}
}

// giveBack tells the store, with the next batch, what of a limit is not used any more.
func (d *Controller) giveBack(p LimitRef, r ledger.LimitReturn) {
	r.Key, r.Limit = p.Key, p.Limit
	d.out.returns = append(d.out.returns, r)
}

// call wakes the loop.
func (d *Controller) call() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// settleTime is how long a caller waits for its charge to be durable.
const settleTime = 10 * time.Second

// Settle implements Admitter.
func (d *Controller) Settle(_ context.Context, t *Admission, o toolyard.Outcome) (*toolyard.Receipt, error) {
	s := d.settlement(t, o)
	if s == nil {
		return nil, nil
	}
	patience := time.NewTimer(settleTime) // also for a caller that has left
	defer patience.Stop()
	select {
	case <-s.done:
	case <-d.ended:
		return nil, &toolyard.Error{Code: toolyard.OutcomeUnknown, Message: "The call has run, but the yard has closed before its charge was on record."}
	case <-patience.C:
		return nil, &toolyard.Error{Code: toolyard.OutcomeUnknown, Message: "The call has run, but the store does not answer, so its charge is not on record yet."}
	}
	if r := s.refused; r != nil {
		return nil, &toolyard.Error{Code: r.Code, Message: "The call has run, but it could not be settled. " + r.Message}
	}
	return s.receipt, nil
}

// settlement gives back what the call does not need any more, and is what the store has to
// be told of it: nil for nothing.
func (d *Controller) settlement(t *Admission, o toolyard.Outcome) *settling {
	took, ask := t.Reserved.(*taken), t.Request
	asks := o.Err == nil && o.Result.InputRequired() // it comes back with answers, and counts then
	charged := ask.Price
	if asks || o.Code() != toolyard.OK {
		charged = 0
	}
	s := &settling{Settlement: ledger.Settlement{Call: ask.Call, Amount: charged, Seller: ask.Seller}, done: make(chan struct{})}
	s.receipt = &toolyard.Receipt{Call: ask.Call, Price: charged, ChargedTo: ask.Balance}
	if charged > 0 && ask.Of != nil && d.opts.Row != nil {
		ask.Of.Receipt = s.receipt
		s.Row = d.opts.Row(ask.Of, o)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range took.lanes {
		u.lane.end(d, u.slot)
	}
	switch w := took.wallet; {
	case took.durable:
		d.settleDurable(s, ask, took.paces, o, asks)
		if ask.Balance != "" {
			spent, rest := took.spent+charged, took.rest-charged
			s.receipt.Spent, s.receipt.Remaining = &spent, &rest
		}
	case w == nil:
		return nil
	case asks, charged == 0 && !w.counts:
		w.giveBack(d, ask.Price)
		return nil
	default:
		s.wallet, s.price = w, ask.Price
		s.Hold, s.Balance, s.Calls = w.hold, w.purse, 1
	}
	d.out.settles = append(d.out.settles, s)
	d.call()
	return s
}

// settleDurable completes the settlement of a call that the store admitted.
func (d *Controller) settleDurable(s *settling, ask *Request, paces []ledger.LimitGrant, o toolyard.Outcome, asks bool) {
	for i, p := range ask.Limits {
		if p.Limit.Concurrency > 0 {
			d.giveBack(p, ledger.LimitReturn{Concurrency: 1, Epoch: paces[i].Epoch})
		}
	}
	s.ofRun(ask)
	if asks {
		s.NotRun = true // the key is free for the call with the answers
		return
	}
	s.Calls = 1
	if ask.Key == "" {
		return // nobody can ask for it again
	}
	switch {
	case o.Err == nil:
		s.Outcome = d.keep(ask, encode(o.Result))
	case o.Err.Code == toolyard.Timeout, o.Err.Code == toolyard.Canceled, o.Err.Code == toolyard.Unavailable:
		s.Unknown = true
	default:
		s.Outcome = d.keep(ask, encode(o.Err.Result()))
	}
}

// encode is a result as it is kept for who asks again.
func encode(r *toolyard.Result) json.RawMessage {
	raw, err := r.MarshalJSON()
	if err != nil { // it has been checked
		return json.RawMessage(`{"content":[],"isError":true}`)
	}
	return raw
}

// runOf is the idempotency key of a call. A call without one is its own.
func runOf(ask *Request) ledger.RunKey {
	if ask.Key == "" {
		return ledger.RunKey{Scope: "call", Key: ask.Call}
	}
	return ledger.RunKey{Scope: ask.Scope, Key: ask.Key}
}

// LimitStatus is how a limit stands at this replica.
type LimitStatus struct{ Waiting, Running int }

// Limits are the limits that calls have come to lately, by their keys.
func (d *Controller) Limits() map[string]LimitStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	lanes := make(map[string]LimitStatus, len(d.lanes))
	for key, l := range d.lanes {
		lanes[key] = LimitStatus{Waiting: l.waiting(), Running: l.running}
	}
	return lanes
}
