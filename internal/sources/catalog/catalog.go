// Package catalog runs sources and publishes what they offer as immutable
// generations. A source that fails is run again; its tools stay listed, and what is
// wrong with it is data beside them.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/backoff"
)

// Generation is everything that the sources offered at one moment. It never changes:
// a call ends on the generation that it began with.
type Generation struct {
	Number   uint64
	Offered  uint64 // the number of the generation that the offer is from
	Offer           // tools ordered by server, name and origin
	Problems []toolyard.Problem

	next chan struct{}
}

// Next is closed when there is a newer generation.
func (g *Generation) Next() <-chan struct{} { return g.next }

// EventKind says what happened to a tool.
type EventKind string

// The events of a tool.
const (
	Registered EventKind = "TOOL_REGISTERED"
	Changed    EventKind = "TOOL_CHANGED"
	Removed    EventKind = "TOOL_REMOVED"
)

// Event tells that a tool came, changed or went.
type Event struct {
	Kind   EventKind
	Source string
	Tool   *toolyard.Tool
}

// Options are the settings of a Catalog. The zero value works.
type Options struct {
	Log     *slog.Logger  // nil for none
	OnEvent func(Event)   // told of every tool that comes, changes or goes; it must not call back
	Settle  time.Duration // changes within this time make one generation; zero for 10 ms
}

// Catalog runs sources.
type Catalog struct {
	opts  Options
	now   atomic.Pointer[Generation]
	ready chan struct{}

	mu      sync.Mutex
	offers  map[string]*offer
	pending *time.Timer // the next generation, if one is due
	tools   map[identity]*toolyard.Tool
	running context.Context // of Run; nil before it, and ended after
	wg      sync.WaitGroup  // the sources that run
}

// offer is what one source last said.
type offer struct {
	Offer
	problems []toolyard.Problem
	failure  *toolyard.Problem
	spoken   bool

	source toolyard.Source
	stop   context.CancelFunc // nil while it does not run
}

type identity struct{ source, server, name, origin string }

// New makes a catalog of the sources. It has an empty generation until Run.
func New(sources map[string]toolyard.Source, opts Options) *Catalog {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	opts.Settle = cmp.Or(opts.Settle, 10*time.Millisecond)
	c := &Catalog{
		opts:   opts,
		ready:  make(chan struct{}),
		offers: make(map[string]*offer, len(sources)),
		tools:  make(map[identity]*toolyard.Tool),
	}
	c.now.Store(&Generation{next: make(chan struct{})})
	c.Set(sources)
	return c
}

// Set makes these the sources. One that was there under the same name goes on as it is,
// one that is no longer there is stopped and its tools are gone, a new one is started.
func (c *Catalog) Set(sources map[string]toolyard.Source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, o := range c.offers {
		if s, ok := sources[id]; ok && same(s, o.source) {
			continue
		}
		if o.stop != nil {
			o.stop()
		}
		delete(c.offers, id)
	}
	for id, s := range sources {
		if _, ok := c.offers[id]; !ok {
			c.offers[id] = &offer{source: s}
			c.start(id)
		}
	}
	c.due()
}

// same reports whether two sources are one. What cannot be compared is taken for another.
func same(a, b toolyard.Source) bool {
	static, ok := a.(Static)
	other, ok2 := b.(Static)
	if ok && ok2 {
		return slices.Equal(static, other)
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// start runs a source, if the catalog runs. The lock is held.
func (c *Catalog) start(id string) {
	if c.running == nil || c.running.Err() != nil {
		return
	}
	o := c.offers[id]
	ctx, stop := context.WithCancel(c.running)
	o.stop = stop
	c.wg.Go(func() {
		defer stop()
		c.supervise(ctx, id, o)
	})
}

// Now is the current generation.
func (c *Catalog) Now() *Generation { return c.now.Load() }

// Ready is closed when every source has published or failed once, and a generation
// holds what they said.
func (c *Catalog) Ready() <-chan struct{} { return c.ready }

// Run runs the sources until ctx ends, and returns when all have stopped.
func (c *Catalog) Run(ctx context.Context) {
	c.mu.Lock()
	c.running = ctx
	for id := range c.offers {
		c.start(id)
	}
	c.due()
	c.mu.Unlock()
	<-ctx.Done()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		c.pending.Stop()
	}
}

// The pauses between two runs of a source that fails.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

func (c *Catalog) supervise(ctx context.Context, id string, o *offer) {
	pause := firstPause
	for {
		start := time.Now()
		err := c.runOnce(ctx, id, o)
		if ctx.Err() != nil || err == nil {
			return
		}
		if time.Since(start) > lastPause {
			pause = firstPause
		}
		c.opts.Log.Warn("source failed", "source", id, "error", err, "again", pause)
		c.say(o, func() { o.failure = &toolyard.Problem{Source: id, Subject: id, Message: err.Error()} })
		if !backoff.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// runOnce runs a source to its end. A panic, and an end without ever having offered
// anything, are failures.
func (c *Catalog) runOnce(ctx context.Context, id string, o *offer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.opts.Log.Error("source panicked", "source", id, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	offered := false
	err = o.source.Run(ctx, func(tools []*toolyard.Tool) {
		if slices.Contains(tools, nil) {
			panic("a tool is nil")
		}
		var problems []toolyard.Problem
		if t, ok := o.source.(toolyard.ProblemReporter); ok {
			problems = t.Problems()
		}
		offer := offerOf(o.source, tools)
		offered = true
		c.say(o, func() { o.Offer, o.problems, o.failure = offer, problems, nil })
	})
	if err == nil && !offered && ctx.Err() == nil {
		err = errors.New("it ended without offering anything")
	}
	return err
}

// offerOf is what a source offers beside the tools that it publishes.
func offerOf(s toolyard.Source, tools []*toolyard.Tool) Offer {
	o := Offer{Tools: slices.Clone(tools)}
	if l, ok := s.(toolyard.ResourceProvider); ok {
		o.Resources = slices.Clone(l.Resources())
	}
	if p, ok := s.(toolyard.PromptProvider); ok {
		o.Prompts = slices.Clone(p.Prompts())
	}
	return o
}

// say changes what a source offers and makes a generation due.
func (c *Catalog) say(o *offer, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	o.spoken = true
	c.due()
}

// due makes a generation due, if the catalog runs. One that is due already is not put
// off: a source that never rests must not hold up the others. The lock is held.
func (c *Catalog) due() {
	if c.pending == nil && c.running != nil && c.running.Err() == nil {
		c.pending = time.AfterFunc(c.opts.Settle, c.publish)
	}
}

// Flush makes what the sources have said so far the current generation, without waiting for
// more.
func (c *Catalog) Flush() { c.publish() }

// publish makes the next generation of all offers, unless nothing changed.
func (c *Catalog) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = nil
	old := c.now.Load()
	next := &Generation{Number: old.Number + 1, next: make(chan struct{})}
	tools := make(map[identity]*toolyard.Tool, len(old.Tools))
	silent := 0 // sources that have said nothing yet
	for _, id := range slices.Sorted(maps.Keys(c.offers)) {
		o := c.offers[id]
		if !o.spoken {
			silent++
		}
		for _, t := range o.Tools {
			tools[identity{id, t.Server, t.Name, t.Origin}] = t
		}
		next.Tools = append(next.Tools, o.Tools...)
		next.Resources = append(next.Resources, o.Resources...)
		next.Prompts = append(next.Prompts, o.Prompts...)
		next.Problems = append(next.Problems, o.problems...)
		if o.failure != nil {
			next.Problems = append(next.Problems, *o.failure)
		}
	}
	slices.SortStableFunc(next.Tools, func(a, b *toolyard.Tool) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Origin, b.Origin))
	})
	if next.Offered = next.Number; old.Number > 0 && sameOffer(old.Offer, next.Offer) {
		next.Offered, next.Offer = old.Offered, old.Offer
	}
	if next.Offered == next.Number || !slices.Equal(old.Problems, next.Problems) {
		c.tell(c.tools, tools)
		c.tools = tools
		c.now.Store(next)
		close(old.next)
	}
	select {
	case <-c.ready:
	default:
		if silent == 0 {
			close(c.ready)
		}
	}
}

func sameOffer(a, b Offer) bool {
	return slices.Equal(a.Tools, b.Tools) && slices.Equal(a.Resources, b.Resources) && slices.Equal(a.Prompts, b.Prompts)
}

// tell emits an event for each tool that came, changed or went.
func (c *Catalog) tell(before, after map[identity]*toolyard.Tool) {
	if c.opts.OnEvent == nil {
		return
	}
	var events []Event
	for id, t := range after {
		if old, ok := before[id]; !ok {
			events = append(events, Event{Registered, id.source, t})
		} else if old.Digest() != t.Digest() {
			events = append(events, Event{Changed, id.source, t})
		}
	}
	for id, t := range before {
		if _, ok := after[id]; !ok {
			events = append(events, Event{Removed, id.source, t})
		}
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Tool.Name, b.Tool.Name))
	})
	for _, e := range events {
		c.opts.OnEvent(e)
	}
}
