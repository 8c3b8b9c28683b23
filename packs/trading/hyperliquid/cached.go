package hyperliquid

import (
	"context"
	"sync"
	"time"
)

// cached holds a value that all callers share until it is too old. Concurrent callers wait for a
// single fetch, made by the first caller.
type cached[T any] struct {
	turn  sync.Mutex // held during a fetch
	mu    sync.Mutex
	value T
	at    time.Time
}

// get returns the value if it is younger than ttl, or fetches it.
func (c *cached[T]) get(ctx context.Context, now func() time.Time, ttl time.Duration, fetch func(context.Context) (T, error)) (T, error) {
	if v, ok := c.fresh(now(), ttl); ok {
		return v, nil
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	if v, ok := c.fresh(now(), ttl); ok {
		return v, nil
	}
	v, err := fetch(ctx)
	if err != nil {
		return v, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.at = v, now()
	return v, nil
}

func (c *cached[T]) fresh(now time.Time, ttl time.Duration) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, !c.at.IsZero() && now.Sub(c.at) < ttl && !now.Before(c.at)
}
