package admission

import (
	"time"

	"github.com/toolyard/toolyard"
)

// Limits on the calls waiting at one replica. A single caller may use a quarter of each.
const (
	maxWaiting      = 10_000
	maxWaitingBytes = 128 << 20
	callerShare     = 4
	// waiterBytes is the memory that a waiting call uses, excluding its arguments.
	waiterBytes = 4 << 10
)

// backlog counts the waiting calls.
type backlog struct {
	all    usage
	caller map[string]usage
}

// usage is a number of waiting calls and the memory they use.
type usage struct {
	calls int
	bytes int64
}

func (u usage) plus(calls int, bytes int64) usage { return usage{u.calls + calls, u.bytes + bytes} }

// exceeds reports whether u is larger than one share of the limits when they are divided equally
// into the given number of shares.
func (u usage) exceeds(shares int) bool {
	return u.calls > maxWaiting/shares || u.bytes > maxWaitingBytes/int64(shares)
}

// add counts a waiter, or returns an error if it may not wait.
func (b *backlog) add(w *waiter) *toolyard.Error {
	all, own := b.all.plus(1, w.size()), b.caller[w.request.Caller].plus(1, w.size())
	switch {
	case own.exceeds(callerShare):
		return errCallerFull
	case all.exceeds(1):
		return errFull
	}
	if b.caller == nil {
		b.caller = make(map[string]usage)
	}
	b.all, b.caller[w.request.Caller], w.backlog = all, own, b
	return nil
}

func (b *backlog) remove(w *waiter) {
	b.all = b.all.plus(-1, -w.size())
	own := b.caller[w.request.Caller].plus(-1, -w.size())
	if b.caller[w.request.Caller] = own; own.calls == 0 {
		delete(b.caller, w.request.Caller)
	}
}

var (
	errFull       = &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many calls are waiting. Try again later.", RetryAfter: time.Second}
	errCallerFull = &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many of your calls are waiting. Reduce the number of concurrent calls.", RetryAfter: time.Second}
)
