// Package live streams calls to observers as they start and end, and keeps the most recent ones.
package live

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// Start is the start of a call.
type Start struct {
	ID      string        `json:"id"`
	At      time.Time     `json:"at"`
	Gate    string        `json:"gate"`
	Mode    toolyard.Mode `json:"mode"`
	Caller  string        `json:"caller"`
	Account string        `json:"account,omitempty"`
	Server  string        `json:"server,omitempty"`
	Tool    string        `json:"tool"`
	Parent  string        `json:"parent,omitempty"`
}

// Call is a call that has ended. It includes the result if Options.Result is set.
type Call struct {
	*store.CallRow
	Result json.RawMessage `json:"result,omitempty"`
}

// Approval reports that an approval was requested or decided.
type Approval struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	State   string `json:"state"`
}

// Event has exactly one field set.
type Event struct {
	Start    *Start
	Call     *Call
	Approval *Approval
	Lost     int // number of events dropped because the observer was too slow
}

// Options configures a Hub.
type Options struct {
	// Row converts a finished call to a row for observers.
	Row func(*toolyard.Call, toolyard.Outcome) *store.CallRow
	// Result returns the part of a result that observers see. It may be nil.
	Result func(*toolyard.Result) json.RawMessage
	// Others returns other replicas' calls that ended after since, newest first. It may be nil.
	Others func(ctx context.Context, since time.Time) ([]*store.CallRow, error)

	Now func() time.Time
}

const (
	maxRecent = 500  // number of calls to keep
	maxQueued = 1024 // maximum number of events queued for one observer
)

// Hub distributes calls to observers.
type Hub struct {
	opts Options
	wake chan struct{} // notifies Run of the first observer

	mu        sync.Mutex
	recent    [maxRecent]*Call // ring buffer
	next      int              // next index in recent
	byID      map[string]*Call
	seen      map[string]time.Time // when each call was published, to drop duplicates from the store
	maxSeen   int                  // size of seen at which old entries are dropped
	observers map[*Observer]struct{}
	since     time.Time // calls from other replicas are read from this time on

	observed atomic.Int64 // number of observers

	closing sync.Once
	closed  chan struct{}
}

// New returns a hub.
func New(opts Options) *Hub {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Hub{opts: opts, wake: make(chan struct{}, 1), byID: make(map[string]*Call), seen: make(map[string]time.Time), observers: make(map[*Observer]struct{}), closed: make(chan struct{})}
}

// Policy publishes every call. It must be the outermost policy.
func (h *Hub) Policy() toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			start := h.opts.Now()
			h.publishStart(c)
			res, err := next(ctx, c)
			o := toolyard.Outcome{Result: res, Start: start, Elapsed: h.opts.Now().Sub(start)}
			if err != nil {
				o = toolyard.Outcome{Err: toolyard.AsError(err), Start: start, Elapsed: o.Elapsed}
			}
			ended := &Call{CallRow: h.opts.Row(c, o)}
			if h.opts.Result != nil && o.Result != nil && len(c.Tool.Contexts) == 0 { // results based on context may contain private data
				ended.Result = h.opts.Result(o.Result)
			}
			h.publishEnd(ended)
			return res, err
		}
	}
}

func (h *Hub) publishStart(c *toolyard.Call) {
	if !h.isObserved() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.send(Event{Start: &Start{
		ID: c.ID, At: c.Start, Gate: c.Gate, Mode: c.Mode, Caller: c.Caller.ID, Account: c.Caller.Account,
		Server: c.Tool.Server, Tool: c.Tool.Name, Parent: c.Parent,
	}})
}

// publishEnd stores a call and publishes it, unless it was published before.
func (h *Hub) publishEnd(c *Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, seen := h.seen[c.ID]; seen || h.byID[c.ID] != nil {
		return
	}
	if h.opts.Others != nil && len(h.observers) > 0 {
		h.markSeen(c)
	}
	if old := h.recent[h.next]; old != nil {
		delete(h.byID, old.ID)
	}
	h.recent[h.next], h.byID[c.ID] = c, c
	h.next = (h.next + 1) % maxRecent
	h.send(Event{Call: c})
}

// markSeen marks a call as published and drops marks that are no longer needed.
func (h *Hub) markSeen(c *Call) {
	if h.seen[c.ID] = h.opts.Now(); len(h.seen) > h.maxSeen {
		old := h.opts.Now().Add(-2 * maxDelay)
		maps.DeleteFunc(h.seen, func(_ string, at time.Time) bool { return at.Before(old) })
		h.maxSeen = max(maxRecent, 2*len(h.seen))
	}
}

// send sends an event to all observers. The caller holds h.mu.
func (h *Hub) send(e Event) {
	for o := range h.observers {
		o.send(e)
	}
}

// ApprovalChanged publishes that an approval was requested or decided.
func (h *Hub) ApprovalChanged(id, account, state string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.send(Event{Approval: &Approval{id, account, state}})
}

// Find returns a recent call.
func (h *Hub) Find(id string) (*Call, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.byID[id]
	return c, ok
}

// recentCalls returns the stored calls, oldest first. The caller holds h.mu.
func (h *Hub) recentCalls() (list []*Call) {
	for i := range h.recent {
		if c := h.recent[(h.next+i)%maxRecent]; c != nil {
			list = append(list, c)
		}
	}
	return list
}

// Observer receives events that match a filter.
type Observer struct {
	hub    *Hub
	filter func(account, caller, server, tool, gate string) bool
	events chan Event
	lost   int
}

// Observe adds an observer of the calls that match the filter, and returns the matching recent
// calls. The caller must close the observer.
func (h *Hub) Observe(filter func(account, caller, server, tool, gate string) bool) (o *Observer, recent []*Call) {
	o = &Observer{hub: h, filter: filter, events: make(chan Event, maxQueued)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.observers) == 0 {
		h.since = h.opts.Now()
	}
	h.observers[o] = struct{}{}
	h.observed.Store(int64(len(h.observers)))
	select {
	case h.wake <- struct{}{}:
	default:
	}
	for _, c := range h.recentCalls() {
		if o.matches(c) {
			recent = append(recent, c)
		}
	}
	return o, recent
}

func (o *Observer) matches(c *Call) bool {
	return o.filter(c.Account, c.Caller, c.Server, c.Tool, c.Gate)
}

// send queues a matching event, or counts it as lost. The caller holds the hub's lock.
func (o *Observer) send(e Event) {
	if a := e.Approval; a != nil && !o.filter(a.Account, "", "", "", "") {
		return
	}
	if s := e.Start; s != nil && !o.filter(s.Account, s.Caller, s.Server, s.Tool, s.Gate) || e.Call != nil && !o.matches(e.Call) {
		return
	}
	if o.lost > 0 {
		select {
		case o.events <- Event{Lost: o.lost}:
			o.lost = 0
		default:
			o.lost++
			return
		}
	}
	select {
	case o.events <- e:
	default:
		o.lost++
	}
}

// Events returns the channel of events.
func (o *Observer) Events() <-chan Event { return o.events }

// Done returns a channel that is closed when the hub is closed.
func (o *Observer) Done() <-chan struct{} { return o.hub.closed }

// Close removes the observer.
func (o *Observer) Close() {
	o.hub.mu.Lock()
	defer o.hub.mu.Unlock()
	delete(o.hub.observers, o)
	o.hub.observed.Store(int64(len(o.hub.observers)))
	if len(o.hub.observers) == 0 {
		clear(o.hub.seen)
	}
}

// Close notifies all observers that there are no more events. Running calls are not affected.
func (h *Hub) Close() { h.closing.Do(func() { close(h.closed) }) }

// isObserved is checked on every call, so it uses no lock.
func (h *Hub) isObserved() bool { return h.observed.Load() > 0 }

const (
	pollInterval = 700 * time.Millisecond // interval between reads of other replicas' calls
	maxDelay     = 5 * time.Second        // maximum time until a call reaches the store
)

// Run publishes other replicas' calls while there are observers, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	if h.opts.Others == nil {
		return
	}
	for ctx.Err() == nil {
		if !h.isObserved() {
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
			continue
		}
		h.poll(ctx)
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
	}
}

// poll reads other replicas' calls once. After an error, the next poll reads them again.
func (h *Hub) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxDelay)
	defer cancel()
	start, since := h.opts.Now(), h.pollSince()
	rows, err := h.opts.Others(ctx, since)
	if err != nil {
		return
	}
	for _, row := range slices.Backward(rows) {
		h.publishEnd(&Call{CallRow: row})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.Equal(since) && start.Add(-maxDelay).After(since) { // otherwise a new observer has reset it
		h.since = start.Add(-maxDelay)
	}
}

func (h *Hub) pollSince() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since
}
