// Package live tells who watches of calls as they begin and end, and remembers the last ones.
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

// Begun is a call that has begun.
type Begun struct {
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

// Call is a call that has ended, with its result if results are kept.
type Call struct {
	*store.CallRow
	Result json.RawMessage `json:"result,omitempty"`
}

// Event is one thing that happened: one of its fields is set.
type Event struct {
	Begun *Begun
	Call  *Call
	Lost  int // so many events were too fast for who watches
}

// Options are the settings of a Hub.
type Options struct {
	Row func(*toolyard.Call, toolyard.Outcome) *store.CallRow // how a call is told of

	// Result is what is told of a result; nil for nothing.
	Result func(*toolyard.Result) json.RawMessage
	// Others are the calls of other replicas that ended after a time, the newest first; nil
	// for none.
	Others func(ctx context.Context, since time.Time) ([]*store.CallRow, error)

	Now func() time.Time
}

const (
	remembered = 500  // calls
	waiting    = 1024 // events that wait for who watches
)

// Hub is where calls are told of.
type Hub struct {
	opts Options
	wake chan struct{} // somebody began to watch

	mu       sync.Mutex
	last     [remembered]*Call // a ring
	next     int
	byID     map[string]*Call
	told     map[string]time.Time // when calls were told of, as long as they are looked for and somebody watches
	most     int                  // so many, then the old ones go
	watchers map[*Watch]struct{}
	since    time.Time // calls of other replicas that ended before it were looked for, or nobody watched

	watching atomic.Int64 // how many watchers there are

	closing sync.Once
	closed  chan struct{}
}

// New makes a hub.
func New(opts Options) *Hub {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Hub{opts: opts, wake: make(chan struct{}, 1), byID: make(map[string]*Call), told: make(map[string]time.Time), watchers: make(map[*Watch]struct{}), closed: make(chan struct{})}
}

// Policy tells of every call. It stands in front of the others.
func (h *Hub) Policy() toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			start := h.opts.Now()
			h.begin(c)
			res, err := next(ctx, c)
			o := toolyard.Outcome{Result: res, Start: start, Elapsed: h.opts.Now().Sub(start)}
			if err != nil {
				o = toolyard.Outcome{Err: toolyard.AsError(err), Start: start, Elapsed: o.Elapsed}
			}
			ended := &Call{CallRow: h.opts.Row(c, o)}
			if h.opts.Result != nil && o.Result != nil && len(c.Tool.Contexts) == 0 { // otherwise it may be about the caller's own data
				ended.Result = h.opts.Result(o.Result)
			}
			h.end(ended)
			return res, err
		}
	}
}

func (h *Hub) begin(c *toolyard.Call) {
	if !h.watched() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tell(Event{Begun: &Begun{
		ID: c.ID, At: c.Start, Gate: c.Gate, Mode: c.Mode, Caller: c.Caller.ID, Account: c.Caller.Account,
		Server: c.Tool.Server, Tool: c.Tool.Name, Parent: c.Parent,
	}})
}

// end remembers a call and tells of it, unless it was told of before.
func (h *Hub) end(c *Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known(c.ID) {
		return
	}
	if h.opts.Others != nil && len(h.watchers) > 0 {
		h.remember(c)
	}
	if old := h.last[h.next]; old != nil {
		delete(h.byID, old.ID)
	}
	h.last[h.next], h.byID[c.ID] = c, c
	h.next = (h.next + 1) % remembered
	h.tell(Event{Call: c})
}

// known reports whether a call was told of before.
func (h *Hub) known(id string) bool {
	_, told := h.told[id]
	return told || h.byID[id] != nil
}

// remember keeps that a call was told of, and forgets those that are no longer looked for.
func (h *Hub) remember(c *Call) {
	if h.told[c.ID] = h.opts.Now(); len(h.told) > h.most {
		old := h.opts.Now().Add(-2 * lateness)
		maps.DeleteFunc(h.told, func(_ string, at time.Time) bool { return at.Before(old) })
		h.most = max(remembered, 2*len(h.told))
	}
}

// tell tells everyone who watches. Whoever calls holds the lock.
func (h *Hub) tell(e Event) {
	for w := range h.watchers {
		w.send(e)
	}
}

// Find is a call that ended not long ago.
func (h *Hub) Find(id string) (*Call, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.byID[id]
	return c, ok
}

// lastCalls are the calls that are remembered, the oldest first.
func (h *Hub) lastCalls() (list []*Call) {
	for i := range h.last {
		if c := h.last[(h.next+i)%remembered]; c != nil {
			list = append(list, c)
		}
	}
	return list
}

// Watch is somebody who watches.
type Watch struct {
	hub    *Hub
	wants  func(account, caller, server, tool, gate string) bool
	events chan Event
	lost   int
}

// Watch begins to watch the calls that are wanted. It returns those that are remembered, too.
func (h *Hub) Watch(wants func(account, caller, server, tool, gate string) bool) (w *Watch, last []*Call) {
	w = &Watch{hub: h, wants: wants, events: make(chan Event, waiting)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) == 0 {
		h.since = h.opts.Now()
	}
	h.watchers[w] = struct{}{}
	h.watching.Store(int64(len(h.watchers)))
	select {
	case h.wake <- struct{}{}:
	default:
	}
	for _, c := range h.lastCalls() {
		if w.wantsCall(c) {
			last = append(last, c)
		}
	}
	return w, last
}

func (w *Watch) wantsCall(c *Call) bool {
	return w.wants(c.Account, c.Caller, c.Server, c.Tool, c.Gate)
}

// send puts an event where it is read from, or counts it. The hub's lock is held.
func (w *Watch) send(e Event) {
	if b := e.Begun; b != nil && !w.wants(b.Account, b.Caller, b.Server, b.Tool, b.Gate) || e.Call != nil && !w.wantsCall(e.Call) {
		return
	}
	if w.lost > 0 {
		select {
		case w.events <- Event{Lost: w.lost}:
			w.lost = 0
		default:
			w.lost++
			return
		}
	}
	select {
	case w.events <- e:
	default:
		w.lost++
	}
}

// Events are what happens from now on.
func (w *Watch) Events() <-chan Event { return w.events }

// Done is closed when nothing more is told.
func (w *Watch) Done() <-chan struct{} { return w.hub.closed }

// Close ends the watch.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watchers, w)
	w.hub.watching.Store(int64(len(w.hub.watchers)))
	if len(w.hub.watchers) == 0 {
		clear(w.hub.told)
	}
}

// Close ends all watches. Calls go on.
func (h *Hub) Close() { h.closing.Do(func() { close(h.closed) }) }

// watched reports whether somebody watches. Every call asks.
func (h *Hub) watched() bool { return h.watching.Load() > 0 }

// Calls of other replicas are looked for this often, and as far back as they may be late.
const (
	lookPause = 700 * time.Millisecond
	lateness  = 5 * time.Second
)

// Run tells of the calls of other replicas while somebody watches, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	if h.opts.Others == nil {
		return
	}
	for ctx.Err() == nil {
		if !h.watched() {
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
			continue
		}
		h.look(ctx)
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
		}
	}
}

// look asks for the calls of others once. What the store does not tell now it tells later.
func (h *Hub) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lateness)
	defer cancel()
	began, since := h.opts.Now(), h.lookedTo()
	rows, err := h.opts.Others(ctx, since)
	if err != nil {
		return
	}
	for _, row := range slices.Backward(rows) {
		h.end(&Call{CallRow: row})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.Equal(since) && began.Add(-lateness).After(since) { // nobody began to watch meanwhile
		h.since = began.Add(-lateness)
	}
}

func (h *Hub) lookedTo() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since
}
