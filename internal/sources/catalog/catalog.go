// Package catalog runs sources and publishes their offers as immutable generations. A source that
// fails is restarted; in the meantime, its tools stay listed and the failure is reported as a
// problem.
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
	"github.com/toolyard/toolyard/internal/base/backoff"
)

// Generation is an immutable snapshot of everything that the sources offer. A call finishes on the
// generation on which it started.
type Generation struct {
	Number   uint64
	Offered  uint64 // number of the generation that last changed the offer
	Offer           // tools sorted by server, name and origin
	Problems []toolyard.Problem

	next chan struct{}
}

// Next returns a channel that is closed when there is a newer generation.
func (g *Generation) Next() <-chan struct{} { return g.next }

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	Registered EventKind = "TOOL_REGISTERED"
	Changed    EventKind = "TOOL_CHANGED"
	Removed    EventKind = "TOOL_REMOVED"
)

// Event reports that a tool was added, changed or removed.
type Event struct {
	Kind   EventKind
	Source string
	Tool   *toolyard.Tool
}

// Options configures a Catalog. The zero value is valid.
type Options struct {
	Log      *slog.Logger  // nil discards all messages
	OnEvent  func(Event)   // called with the lock held, so it must not call the catalog
	Debounce time.Duration // changes within this time are batched into one generation; 10 ms if zero
}

// Catalog runs sources and merges their offers.
type Catalog struct {
	opts  Options
	now   atomic.Pointer[Generation]
	ready chan struct{}

	mu      sync.Mutex
	offers  map[string]*offer
	pending *time.Timer // publishes the next generation; nil if none is scheduled
	tools   map[identity]*toolyard.Tool
	running context.Context // Run's context; nil before Run
	wg      sync.WaitGroup  // running sources
}

// offer is the last offer from one source.
type offer struct {
	Offer
	problems []toolyard.Problem
	failure  *toolyard.Problem
	reported bool // published or failed at least once

	source toolyard.Source
	stop   context.CancelFunc // nil while the source is not running
}

type identity struct{ source, server, name, origin string }

// New returns a catalog. Its generation is empty until Run is called.
func New(sources map[string]toolyard.Source, opts Options) *Catalog {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	opts.Debounce = cmp.Or(opts.Debounce, 10*time.Millisecond)
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

// Set replaces the sources. Unchanged sources keep running. Sources that are missing are stopped
// and their tools removed, and new sources are started.
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
	c.schedule()
}

// same reports whether two sources are equal. Sources that cannot be compared are never equal.
func same(a, b toolyard.Source) bool {
	static, ok := a.(Static)
	other, ok2 := b.(Static)
	if ok && ok2 {
		return slices.Equal(static, other)
	}
	return reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// start starts a source if the catalog is running. The caller holds c.mu.
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

// Now returns the current generation.
func (c *Catalog) Now() *Generation { return c.now.Load() }

// Ready returns a channel that is closed when every source has published or failed once and the
// current generation includes the result.
func (c *Catalog) Ready() <-chan struct{} { return c.ready }

// Run runs the sources until ctx ends, and waits for them to stop.
func (c *Catalog) Run(ctx context.Context) {
	c.mu.Lock()
	c.running = ctx
	for id := range c.offers {
		c.start(id)
	}
	c.schedule()
	c.mu.Unlock()
	<-ctx.Done()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending != nil {
		c.pending.Stop()
	}
}

// Delays before a failed source is restarted.
const (
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

func (c *Catalog) supervise(ctx context.Context, id string, o *offer) {
	pause := minPause
	for {
		start := time.Now()
		err := c.runOnce(ctx, id, o)
		if ctx.Err() != nil || err == nil {
			return
		}
		if time.Since(start) > maxPause {
			pause = minPause
		}
		c.opts.Log.Warn("source failed; restarting it", "source", id, "error", err, "pause", pause)
		c.update(o, func() { o.failure = &toolyard.Problem{Source: id, Subject: id, Message: err.Error()} })
		if !backoff.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// runOnce runs a source until it returns. A panic is a failure, and so is returning before
// publishing an offer.
func (c *Catalog) runOnce(ctx context.Context, id string, o *offer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			c.opts.Log.Error("source panicked", "source", id, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	offered := false
	err = o.source.Run(ctx, func(published toolyard.Offer) {
		if slices.Contains(published.Tools, nil) || slices.Contains(published.Resources, nil) || slices.Contains(published.Prompts, nil) {
			panic("the source published a nil tool, resource or prompt")
		}
		offer := Offer{Tools: slices.Clone(published.Tools), Resources: slices.Clone(published.Resources), Prompts: slices.Clone(published.Prompts)}
		problems := slices.Clone(published.Problems)
		offered = true
		c.update(o, func() { o.Offer, o.problems, o.failure = offer, problems, nil })
	})
	if err == nil && !offered && ctx.Err() == nil {
		err = errors.New("the source returned without publishing an offer")
	}
	return err
}

// update changes a source's offer and schedules a generation.
func (c *Catalog) update(o *offer, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	o.reported = true
	c.schedule()
}

// schedule schedules a generation if the catalog is running. A scheduled generation is never
// postponed, because a source that publishes continuously must not delay the others. The caller
// holds c.mu.
func (c *Catalog) schedule() {
	if c.pending == nil && c.running != nil && c.running.Err() == nil {
		c.pending = time.AfterFunc(c.opts.Debounce, c.publish)
	}
}

// Flush publishes the current offers immediately.
func (c *Catalog) Flush() { c.publish() }

// publish merges all offers into the next generation, unless nothing changed.
func (c *Catalog) publish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = nil
	old := c.now.Load()
	next := &Generation{Number: old.Number + 1, next: make(chan struct{})}
	tools := make(map[identity]*toolyard.Tool, len(old.Tools))
	silent := 0 // number of sources that have not reported yet
	for _, id := range slices.Sorted(maps.Keys(c.offers)) {
		o := c.offers[id]
		if !o.reported {
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
		c.emit(c.tools, tools)
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

// emit emits an event for each tool that was added, changed or removed.
func (c *Catalog) emit(before, after map[identity]*toolyard.Tool) {
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
