// Package admission decides whether a call may run now. It reserves permits, money and
// idempotency keys in a store that all replicas share, and implements [Admitter].
//
// The [Controller] leases permits ([limitLease]) and money ([budgetLease]) from the store in
// chunks, so that most calls are admitted without a request to the store. Calls that have to wait
// are in a [queue], in which callers take turns. One loop (loop.go) sends all pending requests to
// the store as one batch after another. A call with an idempotency key, a paid write and a paid call
// with a spend limit are admitted by the store itself, so that they are durable before they run.
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

// Store is the shared state of all replicas.
type Store interface {
	Exchange(context.Context, *ledger.Batch) (*ledger.Results, error)
	Sweep(ctx context.Context, limit int) (more bool, err error)
	KeyUsage(ctx context.Context, scope string) (ledger.KeyUsage, error)
}

// Options are the options of a Controller.
type Options struct {
	Replica       string                                                 // unique among the replicas that share the store
	LocalFallback bool                                                   // enforce limits locally for a while if the store is unavailable
	Row           func(*toolyard.Call, toolyard.Outcome) *ledger.CallRow // nil to record nothing
	OnStore       func(up bool)                                          // called when the store becomes unavailable and available again
	Log           *slog.Logger

	OnSpendRefused func(key string) // called when a spend limit refuses a call
}

// Controller admits the calls of one replica.
type Controller struct {
	store Store
	opts  Options
	wake  chan struct{} // wakes the loop
	ended chan struct{} // closed when the loop has ended
	keys  keyUsage

	mu      sync.Mutex
	seq     uint64 // of the last waiter or hold
	queues  map[string]*queue
	leases  leases
	durable []*waiter // admitted by the store, in order of arrival
	backlog backlog
	outbox  outbox
	closed  bool
}

// leases are what the replica has leased from the store.
type leases struct {
	limits  map[string]*limitLease
	budgets map[budgetKey]*budgetLease
}

// New returns a Controller. It admits calls while Run runs.
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

// reservation is what an admission has reserved.
type reservation struct {
	limits  []usedLimit
	budget  *budgetLease // nil if the store admitted the call or the call is free
	durable bool         // admitted by the store, with the following figures
	grants  []ledger.LimitGrant
	spent   toolyard.Money // by the balance, before this call
	rest    toolyard.Money // of the balance, before this call
}

// usedLimit is a limit that a running call counts for.
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

// split separates the local limits of a request from what the store admits.
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

// admit waits until everything is reserved, or until waiting does not help.
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

// release returns the permits of an admission.
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
// deadline limits the wait for limits and money; the store has storeTimeout to respond, even if the
// call does not want to wait.
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
	if err.Code == toolyard.RateLimited && w.request.Wait > 0 { // it has already waited: no immediate retry
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

// started records that an admitted call is starting, and with it its cooldowns.
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

// returnStartRights returns the rights to start of a call that the store admitted.
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

// settleTimeout is how long a caller waits for its charge to be durable.
const settleTimeout = 10 * time.Second

// Settle implements Admitter.
func (c *Controller) Settle(_ context.Context, a *Admission, o toolyard.Outcome) (*toolyard.Receipt, error) {
	s := c.settlement(a, o)
	if s == nil {
		return nil, nil
	}
	timeout := time.NewTimer(settleTimeout) // also if the client has disconnected
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

// settlement releases what the call no longer needs, and returns what has to be sent to the store,
// or nil.
func (c *Controller) settlement(a *Admission, o toolyard.Outcome) *settling {
	res, request := reserved(a), a.Request
	needsInput := o.Err == nil && o.Result.InputRequired() // the call is repeated with the input, and charged then
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
		s.NotRun = true // the key is free for the call with the input
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
		s.NotRun = true // the key is free for a retry
	case o.Err.Code == toolyard.Timeout, o.Err.Code == toolyard.Canceled, o.Err.Code == toolyard.Unavailable:
		s.Unknown = true
	default:
		s.Outcome = c.boundOutcome(r, encode(o.Err.Result()))
	}
}

// encode returns a result as it is stored under its idempotency key.
func encode(r *toolyard.Result) json.RawMessage {
	raw, err := r.MarshalJSON()
	if err != nil { // the result was validated
		return json.RawMessage(`{"content":[],"isError":true}`)
	}
	return raw
}

// runKey returns the idempotency key of a call. Without one, the ID of the call serves.
func runKey(r *Request) ledger.RunKey {
	if r.Key == "" {
		return ledger.RunKey{Scope: "call", Key: r.CallID}
	}
	return ledger.RunKey{Scope: r.Scope, Key: r.Key}
}

// LimitStatus is the state of a limit at this replica.
type LimitStatus struct{ Waiting, Running int }

// Limits returns the limits of recent calls by key.
func (c *Controller) Limits() map[string]LimitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	limits := make(map[string]LimitStatus, len(c.leases.limits))
	for key, l := range c.leases.limits {
		limits[key] = LimitStatus{Waiting: l.waiting(), Running: l.running}
	}
	return limits
}
