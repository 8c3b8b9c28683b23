// Package admission decides whether a call may run now. It reserves permits, money and
// idempotency keys in a store that all replicas share, and implements [Admitter].
//
// The [Controller] leases permits ([limitLease]) and money ([budgetLease]) from the store in
// chunks, so that most calls are admitted without a request to the store. Calls that have to wait
// are in a [queue], in which callers take turns. One loop (loop.go) sends all pending requests to
// the store in successive batches. The store itself admits calls with an idempotency key, paid
// writes, and paid calls with a spend limit, so that they are durable before they run.
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

// Store holds the state that all replicas share.
type Store interface {
	Exchange(context.Context, *ledger.Batch) (*ledger.Results, error)
	Sweep(ctx context.Context, limit int) (more bool, err error)
	KeyUsage(ctx context.Context, scope string) (ledger.KeyUsage, error)
}

// Options configure a Controller.
type Options struct {
	Replica       string                                                 // unique among the replicas that share the store
	LocalFallback bool                                                   // enforce limits locally for a while if the store is unavailable
	Row           func(*toolyard.Call, toolyard.Outcome) *ledger.CallRow // nil disables recording
	OnStore       func(up bool)                                          // called when the store becomes unavailable or available again
	Log           *slog.Logger

	OnSpendRefused func(key string) // called when a spend limit refuses a call
}

// Controller admits the calls of one replica.
type Controller struct {
	store Store
	opts  Options
	wake  chan struct{} // wakes the loop
	ended chan struct{} // closed when the loop ends
	keys  keyUsage

	mu      sync.Mutex
	seq     uint64 // last sequence number of a waiter or hold
	queues  map[string]*queue
	leases  leases
	durable []*waiter // waiters that the store admits, in order of arrival
	backlog backlog
	outbox  outbox
	closed  bool
}

// leases are the limits and budgets that this replica has leased from the store.
type leases struct {
	limits  map[string]*limitLease
	budgets map[budgetKey]*budgetLease
}

// New returns a Controller. It admits calls while [Controller.Run] is running.
func New(s Store, o Options) *Controller {
	if o.OnStore == nil {
		o.OnStore = func(bool) {}
	}
	if o.OnSpendRefused == nil {
		o.OnSpendRefused = func(string) {}
	}
	return &Controller{
		store: s, opts: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), queues: make(map[string]*queue),
		leases: leases{limits: make(map[string]*limitLease), budgets: make(map[budgetKey]*budgetLease)},
	}
}

var _ Admitter = (*Controller)(nil)

// reservation holds everything reserved for an admitted call.
type reservation struct {
	limits  []usedLimit
	budget  *budgetLease // nil if the store admitted the call or the call is free
	durable bool         // admitted by the store, which also set the fields below
	grants  []ledger.LimitGrant
	spent   toolyard.Money // the balance's spending before this call
	rest    toolyard.Money // the balance's remaining money before this call
}

// usedLimit is a limit that counts a running call.
type usedLimit struct {
	lease *limitLease
	slot  slot
}

func reserved(a *Admission) *reservation { return a.Reserved.(*reservation) }

// Admit implements Admitter.
func (c *Controller) Admit(ctx context.Context, r *Request) (*Admission, error) {
	if r.Empty() {
		return &Admission{Request: r, Reserved: &reservation{}}, nil
	}
	if !r.Durable() {
		return c.admit(ctx, r, false)
	}
	c.keys.count(ctx, c.store, r)
	local, shared := split(r)
	since := time.Now()
	first, err := c.admit(ctx, local, false)
	if err != nil {
		return nil, err
	}
	shared.Wait -= time.Since(since)
	a, err := c.admit(ctx, shared, true)
	if err != nil || a.Replay != nil {
		c.release(first)
		return a, err
	}
	reserved(a).limits = reserved(first).limits
	return a, nil
}

// split separates a request's local limits from the part that the store admits.
func split(r *Request) (local, shared *Request) {
	local, shared = &Request{}, &Request{}
	*local, *shared = *r, *r
	local.Balance, local.Limits, shared.Limits = "", nil, nil
	for _, l := range r.Limits {
		if l.Local {
			local.Limits = append(local.Limits, l)
		} else {
			shared.Limits = append(shared.Limits, l)
		}
	}
	return local, shared
}

// admit waits until everything is reserved, or until waiting would not help.
func (c *Controller) admit(ctx context.Context, r *Request, durable bool) (*Admission, error) {
	if !durable && len(r.Limits) == 0 && r.Balance == "" {
		return &Admission{Request: r, Reserved: &reservation{}}, nil
	}
	w := c.enter(r, durable)
	if !w.finished() {
		c.await(ctx, w)
	}
	if w.err != nil {
		return nil, w.err
	}
	c.started(w)
	return w.admission, nil
}

func (c *Controller) await(ctx context.Context, w *waiter) {
	timer := time.NewTimer(time.Until(w.deadline))
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-timer.C:
			timer.Reset(c.expire(w))
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			c.cancel(w, toolyard.AsError(ctx.Err()))
			return
		}
	}
}

// release returns an admission's permits.
func (c *Controller) release(a *Admission) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range reserved(a).limits {
		u.lease.end(c, u.slot)
	}
}

// enter queues a call, and admits it immediately if everything is available.
func (c *Controller) enter(r *Request, durable bool) *waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	now := time.Now()
	w := &waiter{request: r, seq: c.seq, entered: now, deadline: now.Add(r.Wait), done: make(chan struct{})}
	switch {
	case c.closed:
		w.finish(nil, errClosing)
	case durable:
		c.durable = append(c.durable, w)
	default:
		w.queue = c.queueFor(r)
		w.queue.push(w)
		c.serve(w.queue)
		if !w.finished() {
			w.queue.refuseEarly(w, now)
		}
	}
	if w.finished() {
		return w
	}
	if full := c.backlog.add(w); full != nil {
		c.cancel(w, full)
		return w
	}
	c.wakeLoop()
	return w
}

// expire ends a waiter that has reached its deadline, or returns how much longer it may wait. The
// deadline limits the wait for limits and money. The store always has storeTimeout to respond, even
// if the call must not wait.
func (c *Controller) expire(w *waiter) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.finished() {
		return storeTimeout
	}
	err := w.reason
	if err == nil && w.queue != nil {
		err = w.queue.busy(w)
	}
	if err == nil {
		if left := time.Until(w.entered.Add(storeTimeout)); left > 0 {
			return left
		}
		err = &toolyard.Error{Code: toolyard.Unavailable, Message: "The store did not respond in time, so the call was not run.", RetryAfter: time.Second}
	}
	if err.Code == toolyard.RateLimited && w.request.Wait > 0 { // the call has already waited, so don't suggest an immediate retry
		again := *err
		again.RetryAfter = max(again.RetryAfter, time.Second)
		err = &again
	}
	c.cancel(w, err)
	return 0
}

// cancel ends a waiter, unless it was admitted in the meantime.
func (c *Controller) cancel(w *waiter, err *toolyard.Error) {
	if w.finished() {
		return
	}
	c.abandon(w)
	if w.queue != nil {
		w.queue.remove(w)
	}
	w.finish(nil, err)
}

// started records the start of an admitted call, which also starts its cooldowns.
func (c *Controller) started(w *waiter) {
	r := reserved(w.admission)
	if r.durable && w.admission.Replay == nil {
		c.returnStartRights(w.request, r)
		return
	}
	if !slices.ContainsFunc(w.request.Limits, func(l LimitRef) bool { return l.Limit.Cooldown > 0 }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range r.limits {
		if u.lease.Limit.Cooldown > 0 {
			u.lease.started(c, time.Now())
		}
	}
}

// returnStartRights returns the start rights of a call that the store admitted.
func (c *Controller) returnStartRights(request *Request, r *reservation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, l := range request.Limits {
		if l.Limit.Cooldown > 0 {
			c.giveBack(l, ledger.LimitReturn{StartRight: true, Epoch: r.grants[i].Epoch})
			c.wakeLoop()
		}
	}
}

// giveBack returns part of a limit to the store with the next batch.
func (c *Controller) giveBack(l LimitRef, r ledger.LimitReturn) {
	r.Key, r.Limit = l.Key, l.Limit
	c.outbox.returns = append(c.outbox.returns, r)
}

func (c *Controller) wakeLoop() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// settleTimeout is how long a caller waits for its charge to become durable.
const settleTimeout = 10 * time.Second

// Settle implements Admitter.
func (c *Controller) Settle(_ context.Context, a *Admission, o toolyard.Outcome) (*toolyard.Receipt, error) {
	s := c.settlement(a, o)
	if s == nil {
		return nil, nil
	}
	timeout := time.NewTimer(settleTimeout) // applies even if the client has disconnected
	defer timeout.Stop()
	select {
	case <-s.done:
	case <-c.ended:
		return nil, &toolyard.Error{Code: toolyard.OutcomeUnknown, Message: "The call ran, but the yard closed before its charge was recorded."}
	case <-timeout.C:
		return nil, &toolyard.Error{Code: toolyard.OutcomeUnknown, Message: "The call ran, but the store is not responding, so its charge has not been recorded yet."}
	}
	if r := s.refused; r != nil {
		return nil, &toolyard.Error{Code: r.Code, Message: "The call ran, but its charge could not be settled. " + r.Message}
	}
	return s.receipt, nil
}

// settlement releases the resources that the call no longer needs. It returns the settlement to
// send to the store, or nil if there is none.
func (c *Controller) settlement(a *Admission, o toolyard.Outcome) *settling {
	res, request := reserved(a), a.Request
	needsInput := o.Err == nil && o.Result.InputRequired() // the client repeats the call with the input, and the repeated call is charged
	charged := request.Price
	if needsInput || o.Code() != toolyard.OK {
		charged = 0
	}
	s := &settling{Settlement: ledger.Settlement{Call: request.CallID, Amount: charged, Seller: request.Seller}, done: make(chan struct{})}
	s.receipt = &toolyard.Receipt{Call: request.CallID, Price: charged, ChargedTo: request.Balance}
	if charged > 0 && request.Call != nil && c.opts.Row != nil {
		request.Call.Receipt = s.receipt
		s.Row = c.opts.Row(request.Call, o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range res.limits {
		u.lease.end(c, u.slot)
	}
	switch b := res.budget; {
	case res.durable:
		c.settleDurable(s, request, res.grants, o, needsInput)
		if request.Balance != "" {
			spent, rest := res.spent+charged, res.rest-charged
			s.receipt.Spent, s.receipt.Remaining = &spent, &rest
		}
	case b == nil:
		return nil
	case needsInput, charged == 0 && !b.countsCalls:
		b.giveBack(c, request.Price)
		return nil
	default:
		s.budget, s.price = b, request.Price
		s.Hold, s.Balance, s.Calls = b.hold, b.balance, 1
	}
	c.outbox.settlements = append(c.outbox.settlements, s)
	c.wakeLoop()
	return s
}

// settleDurable completes the settlement of a call that the store admitted.
func (c *Controller) settleDurable(s *settling, r *Request, grants []ledger.LimitGrant, o toolyard.Outcome, needsInput bool) {
	for i, l := range r.Limits {
		if l.Limit.Concurrency > 0 {
			c.giveBack(l, ledger.LimitReturn{Concurrency: 1, Epoch: grants[i].Epoch})
		}
	}
	s.endRun(r)
	if r.Call != nil && !r.Call.Ran() {
		s.Unused = r.Approval
	}
	if needsInput {
		s.NotRun = true // frees the key for the call with the input
		return
	}
	s.Calls = 1
	if r.Key == "" {
		return
	}
	switch {
	case o.Err == nil:
		s.Outcome = c.boundOutcome(r, encode(o.Result))
	case o.Err.Retryable():
		s.NotRun = true // frees the key for a retry
	case o.Err.Code == toolyard.Timeout, o.Err.Code == toolyard.Canceled, o.Err.Code == toolyard.Unavailable:
		s.Unknown = true
	default:
		s.Outcome = c.boundOutcome(r, encode(o.Err.Result()))
	}
}

// encode returns a result in the form stored under its idempotency key.
func encode(r *toolyard.Result) json.RawMessage {
	raw, err := r.MarshalJSON()
	if err != nil { // cannot happen: the result was validated
		return json.RawMessage(`{"content":[],"isError":true}`)
	}
	return raw
}

// runKey returns a call's idempotency key, or the call's ID if it has none.
func runKey(r *Request) ledger.RunKey {
	if r.Key == "" {
		return ledger.RunKey{Scope: "call", Key: r.CallID}
	}
	return ledger.RunKey{Scope: r.Scope, Key: r.Key}
}

// LimitStatus is the state of a limit on this replica.
type LimitStatus struct{ Waiting, Running int }

// Limits returns the status of recently used limits by key.
func (c *Controller) Limits() map[string]LimitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	limits := make(map[string]LimitStatus, len(c.leases.limits))
	for key, l := range c.leases.limits {
		limits[key] = LimitStatus{Waiting: l.waiting(), Running: l.running}
	}
	return limits
}
