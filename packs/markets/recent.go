package markets

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Bounds on what is remembered of answers.
const (
	recentFor   = 2 * time.Second
	recentMax   = 10_000
	recentBytes = 64 << 20
)

// recent lets those who ask the same at nearly the same time share one answer. Failures are
// shared only by those who wait for them together.
type recent struct {
	now func() time.Time

	mu      sync.Mutex
	flights map[string]*flight
	kept    map[string]*list.Element // of *answer
	order   *list.List               // the newest first
	bytes   int
}

// answer is one that arrived.
type answer struct {
	key  string
	data json.RawMessage
	at   time.Time
}

// flight is an answer on its way.
type flight struct {
	waiting int // how many want it; under the lock of recent
	stop    context.CancelFunc
	done    chan struct{}   // closed when what follows is set
	data    json.RawMessage // shared: not to be changed
	err     error
}

func newRecent(now func() time.Time) *recent {
	return &recent{now: now, flights: map[string]*flight{}, kept: map[string]*list.Element{}, order: list.New()}
}

// get is the answer for a key: a recent one, one that is on its way, or what ask finds. What ask
// does goes on when one of those who wait leaves, and ends when all have left.
func (r *recent) get(ctx context.Context, key string, ask func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	f := r.join(ctx, key, ask)
	select {
	case <-f.done:
		return f.data, f.err
	case <-ctx.Done():
		r.leave(key, f)
		return nil, ctx.Err()
	}
}

// join waits for the answer of a key with others, or begins to ask.
func (r *recent) join(ctx context.Context, key string, ask func(context.Context) (json.RawMessage, error)) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
	if e, ok := r.kept[key]; ok {
		f := &flight{done: make(chan struct{}), data: e.Value.(*answer).data}
		close(f.done)
		return f
	}
	if f := r.flights[key]; f != nil {
		f.waiting++
		return f
	}
	f := &flight{waiting: 1, done: make(chan struct{})}
	ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.flights[key] = f
	go func() {
		defer f.stop()
		data, err := safely(func() (json.RawMessage, error) { return ask(ctx) })
		r.land(key, f, data, err)
	}()
	return f
}

// safely makes a panic an error: what strangers send must not end the process.
func safely[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// leave gives up waiting. An answer that nobody waits for is not asked for any longer.
func (r *recent) leave(key string, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiting--; f.waiting == 0 && r.flights[key] == f {
		delete(r.flights, key)
		f.stop()
	}
}

// land hands an answer to all who wait for it, and keeps it if it is a good one.
func (r *recent) land(key string, f *flight, data json.RawMessage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(f.done)
	f.data, f.err = data, err
	if r.flights[key] != f {
		return // all have left
	}
	delete(r.flights, key)
	if err == nil {
		r.kept[key] = r.order.PushFront(&answer{key, data, r.now()})
		r.bytes += len(data)
		r.forget()
	}
}

// forget drops the answers that are not recent any more, and the oldest when there are too many.
func (r *recent) forget() {
	now := r.now()
	for e := r.order.Back(); e != nil; e = r.order.Back() {
		a := e.Value.(*answer)
		age := now.Sub(a.at)
		if age >= 0 && age < recentFor && r.order.Len() <= recentMax && r.bytes <= recentBytes {
			return
		}
		r.order.Remove(e)
		delete(r.kept, a.key)
		r.bytes -= len(a.data)
	}
}
