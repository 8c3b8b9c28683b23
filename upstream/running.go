package upstream

import (
	"sync"
	"time"
)

// runningCalls tracks a link's calls, to determine which call a question belongs to.
type runningCalls struct {
	mu        sync.Mutex
	running   map[int64]*exchange
	abandoned map[int64]time.Time // calls that ended with no response; the server may still ask about them
}

// abandonedTime is how long a server may still ask questions about an abandoned call.
const abandonedTime = time.Minute

func (c *runningCalls) add(x *exchange) {
	if x.onMessage == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		c.running, c.abandoned = make(map[int64]*exchange), make(map[int64]time.Time)
	}
	c.running[x.id] = x
}

func (c *runningCalls) remove(x *exchange, answered bool) {
	if x.onMessage == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, x.id)
	c.purge()
	if !answered {
		c.abandoned[x.id] = time.Now()
	}
}

func (c *runningCalls) purge() {
	for id, at := range c.abandoned {
		if time.Since(at) > abandonedTime {
			delete(c.abandoned, id)
		}
	}
}

// sole returns the only call that a question can belong to, or nil if there are several: a
// question must never reach the wrong caller.
func (c *runningCalls) sole() *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.purge()
	if len(c.running) != 1 || len(c.abandoned) > 0 {
		return nil
	}
	for _, x := range c.running {
		return x
	}
	return nil
}
