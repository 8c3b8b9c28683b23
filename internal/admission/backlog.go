package admission

import (
	"time"

	"github.com/toolyard/toolyard"
)

// Bounds on the calls that wait at one replica. One caller can use a quarter of each, so that
// it cannot keep the others out.
const (
	maxWaiting      = 10_000
	maxWaitingBytes = 128 << 20
	callerShare     = 4
	// waiterBytes is what a waiting call takes beside its arguments.
	waiterBytes = 4 << 10
)

// backlog counts the calls that wait.
type backlog struct {
	all    usage
	caller map[string]usage
}

// usage is a number of waiting calls, and the memory that they take.
type usage struct {
	calls int
	bytes int64
}

func (u usage) plus(calls int, bytes int64) usage { return usage{u.calls + calls, u.bytes + bytes} }

// exceeds reports whether it is more than one of so many equal shares of the bounds.
func (u usage) exceeds(shares int) bool {
	return u.calls > maxWaiting/shares || u.bytes > maxWaitingBytes/int64(shares)
}

// add counts a call that begins to wait, or says why it may not.
func (b *backlog) add(v *visitor) *toolyard.Error {
	all, own := b.all.plus(1, v.size()), b.caller[v.ask.Caller].plus(1, v.size())
	switch {
	case own.exceeds(callerShare):
		return errCallerFull
	case all.exceeds(1):
		return errFull
	}
	if b.caller == nil {
		b.caller = make(map[string]usage)
	}
	b.all, b.caller[v.ask.Caller], v.backlog = all, own, b
	return nil
}

// remove forgets a call that does not wait any more.
func (b *backlog) remove(v *visitor) {
	b.all = b.all.plus(-1, -v.size())
	own := b.caller[v.ask.Caller].plus(-1, -v.size())
	if b.caller[v.ask.Caller] = own; own.calls == 0 {
		delete(b.caller, v.ask.Caller)
	}
}

// size is how much memory a waiting call takes.
func (v *visitor) size() int64 {
	if v.ask.Of == nil {
		return waiterBytes
	}
	return waiterBytes + int64(len(v.ask.Of.Args))
}

var (
	errFull       = &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many calls are waiting here. Try again later.", RetryAfter: time.Second}
	errCallerFull = &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many of your calls are waiting here. Make fewer calls at once.", RetryAfter: time.Second}
)
