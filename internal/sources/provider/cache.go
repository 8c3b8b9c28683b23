package provider

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Limits on a Cache.
const (
	maxEntries = 10_000
	maxBytes   = 64 << 20
)

// Cache shares one response between concurrent requests for the same key and then keeps it for a
// while. Failures are shared only between requests that were already waiting.
type Cache struct {
	ttl time.Duration
	now func() time.Time

	mu      sync.Mutex
	flights map[string]*flight
	entries map[string]*list.Element // elements contain *entry
	order   *list.List               // newest first
	bytes   int
}

// entry is a cached response.
type entry struct {
	key  string
	data json.RawMessage
	at   time.Time
}

// flight is a request in progress.
type flight struct {
	waiting int // guarded by the cache's lock
	stop    context.CancelFunc
	done    chan struct{}   // closed when data and err are set
	data    json.RawMessage // shared: must not be modified
	err     error
}

// NewCache returns a cache whose entries expire after ttl. If ttl is zero, only concurrent requests
// share a response.
func NewCache(ttl time.Duration, now func() time.Time) *Cache {
	return &Cache{ttl: ttl, now: now, flights: map[string]*flight{}, entries: map[string]*list.Element{}, order: list.New()}
}

// Get returns the response for a key from the cache, from a request in progress, or from fetch.
// Canceling one of several waiting requests does not affect the fetch, but canceling the last one
// cancels it. The response is shared and must not be modified.
func (c *Cache) Get(ctx context.Context, key string, fetch func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	f := c.join(ctx, key, fetch)
	select {
	case <-f.done:
		return f.data, f.err
	case <-ctx.Done():
		c.leave(key, f)
		return nil, ctx.Err()
	}
}

// join joins the request in progress for a key, or starts one.
func (c *Cache) join(ctx context.Context, key string, fetch func(context.Context) (json.RawMessage, error)) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict()
	if e, ok := c.entries[key]; ok {
		f := &flight{done: make(chan struct{}), data: e.Value.(*entry).data}
		close(f.done)
		return f
	}
	if f := c.flights[key]; f != nil {
		f.waiting++
		return f
	}
	f := &flight{waiting: 1, done: make(chan struct{})}
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.flights[key] = f
	go func() {
		defer f.stop()
		data, err := CatchPanic(func() (json.RawMessage, error) { return fetch(ctx) })
		c.land(key, f, data, err)
	}()
	return f
}

// CatchPanic turns a panic into an error, because a provider must not crash the process.
func CatchPanic[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// leave stops waiting for a request in progress, and cancels it if no one else is waiting for it.
func (c *Cache) leave(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting == 0 && c.flights[key] == f {
		delete(c.flights, key)
		f.stop()
	}
}

// land ends a request in progress, and caches the response if it succeeded.
func (c *Cache) land(key string, f *flight, data json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	f.data, f.err = data, err
	if c.flights[key] != f {
		return // canceled
	}
	delete(c.flights, key)
	if err == nil && c.ttl > 0 {
		c.entries[key] = c.order.PushFront(&entry{key, data, c.now()})
		c.bytes += len(data)
		c.evict()
	}
}

// evict removes expired entries, and then the oldest ones while the cache is too large.
func (c *Cache) evict() {
	now := c.now()
	for e := c.order.Back(); e != nil; e = c.order.Back() {
		oldest := e.Value.(*entry)
		age := now.Sub(oldest.at)
		if age >= 0 && age < c.ttl && c.order.Len() <= maxEntries && c.bytes <= maxBytes {
			return
		}
		c.order.Remove(e)
		delete(c.entries, oldest.key)
		c.bytes -= len(oldest.data)
	}
}
