package upstream

import (
	"sync"
	"time"
)

// calls are the calls that run over a link, which a server may have a question about.
type calls struct {
	mu      sync.Mutex
	running map[int64]*query
	left    map[int64]time.Time // those that were given up, and may be asked about yet
}

// stale is how long a call that was given up may still be asked about.
const stale = time.Minute

func (c *calls) enter(q *query) {
	if q.heard == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running, c.left = make(map[int64]*query), make(map[int64]time.Time)
	}
	c.running[q.id] = q
}

// leave ends a call, and notes whether the server may still be at it.
func (c *calls) leave(q *query, answered bool) {
	if q.heard == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, q.id)
	c.purge()
	if !answered {
		c.left[q.id] = time.Now()
	}
}

// purge forgets calls that were given up long ago.
func (c *calls) purge() {
	for id, at := range c.left {
		if time.Since(at) > stale {
			delete(c.left, id)
		}
	}
}

// only is the one call that a question can be about, nil if there is another that it may
// be about too: nobody is asked what is meant for somebody else.
func (c *calls) only() *query {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.purge()
	if len(c.running) != 1 || len(c.left) > 0 {
		return nil
	}
	for _, q := range c.running {
		return q
	}
	return nil
}
