package policy

import (
	"context"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// Lane is what the tools of one server share: so many calls run at once, so many more wait,
// and the others are told when to come back.
type Lane struct {
	slots chan struct{}
	queue int
	wait  time.Duration

	mu      sync.Mutex
	waiting int
	usual   time.Duration // how long a call takes, roughly
}

// NewLane makes a lane for so many calls at once. Queue is how many more may wait, and wait
// is for how long.
func NewLane(concurrency, queue int, wait time.Duration) *Lane {
	return &Lane{slots: make(chan struct{}, concurrency), queue: queue, wait: wait}
}

// Pace lets a call run when its lane has room. A call whose tool has no lane just runs.
func Pace(lane func(*toolyard.Tool) *Lane) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			l := lane(c.Tool)
			if l == nil {
				return next(ctx, c)
			}
			if err := l.enter(ctx, c.Tool.Server); err != nil {
				return nil, err
			}
			start := time.Now()
			defer func() { l.leave(time.Since(start)) }()
			return next(ctx, c)
		}
	}
}

// enter waits for a slot.
func (l *Lane) enter(ctx context.Context, server string) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	if !l.line(1) {
		return l.busy(server)
	}
	defer l.line(-1)
	patience := time.NewTimer(l.wait)
	defer patience.Stop()
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-patience.C:
		return l.busy(server)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Lane) leave(took time.Duration) {
	l.mu.Lock()
	l.usual += (took - l.usual) / 8
	l.mu.Unlock()
	<-l.slots
}

// line changes how many wait, and reports whether there was room.
func (l *Lane) line(change int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting+change > l.queue {
		return false
	}
	l.waiting += change
	return true
}

// busy tells a caller to come back when those who wait have probably been served.
func (l *Lane) busy(server string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	after := l.usual * time.Duration(l.waiting+1) / time.Duration(cap(l.slots))
	return &toolyard.Error{
		Code: toolyard.Exhausted, RetryAfter: min(max(after, 100*time.Millisecond), time.Minute),
		Message: "The server " + server + " has as many calls as it may have at once. Try again later.",
	}
}
