package toolyard

import (
	"context"
	"crypto/sha256"
	"time"
)

// An Admitter decides whether a call may run now: it takes the permits, the money and the
// idempotency key that the call needs, all of them or none. Every replica that shares a
// store sees the same limits and the same money.
type Admitter interface {
	// Admit waits for what the call needs, at most as long as the ask says, and takes it. How
	// long the store may take to answer is bounded beside that.
	// An error is of type *Error: Exhausted, Budget, Conflict, InFlight, Unknown or
	// Unavailable. A ticket with a replay means that the call ran before: it must not run
	// again, and there is nothing to settle.
	Admit(context.Context, *Ask) (*Ticket, error)
	// Settle ends the admission: it charges for a call that succeeded, gives the money back
	// for one that did not, gives back the permits, and keeps the result for the idempotency
	// key. When it returns without an error, the charge is durable.
	Settle(context.Context, *Ticket, Outcome) (*Receipt, error)
}

// Ask is what a call needs to be admitted.
type Ask struct {
	Of     *Call  // the call itself, for the record; nil for none
	Call   string // its id
	Caller string // whose turn it is: callers of one limit take turns
	Paces  []Pace // limits that it counts for, the widest first

	Price   Money  // zero for nothing
	Purse   string // what pays: an account or a session; also counts the calls of a session
	Account string // that the purse must be of
	Seller  string // who is paid

	Key    string            // idempotency key, empty for none
	Scope  string            // within which the key is unique
	Digest [sha256.Size]byte // of what is called with which arguments

	Writes  bool          // it may change something
	Timeout time.Duration // how long it may take once admitted
	Wait    time.Duration // how long it may wait for limits and money; zero for not at all
}

// Pace is a limit and the key that everything counts for that shares it.
type Pace struct {
	Key   string
	Name  string // what is limited, for people
	Limit Limit
	Local bool // each replica has the limit for itself; only its concurrency counts
}

// Limited reports whether the limit limits anything.
func (l Limit) Limited() bool { return l.PerMinute > 0 || l.Cooldown > 0 || l.Concurrency > 0 }

// Durable reports whether a trace of the call must be durable before it runs: its key, or
// that it may change something and is paid for. Who leaves does not stop such a call.
func (a *Ask) Durable() bool { return a.Key != "" || (a.Writes && a.Price > 0) }

// Empty reports whether a call needs nothing to be admitted.
func (a *Ask) Empty() bool { return len(a.Paces) == 0 && a.Purse == "" && a.Key == "" }

// Ticket is an admission.
type Ticket struct {
	Ask    *Ask
	Replay *Result // what the call with the same idempotency key returned; nil for a call that is to run
	Taken  any     // what the admitter remembers
}

// Receipt says what a call cost. What the purse has spent and has left is as far as this
// replica knows, and not there if it does not.
type Receipt struct {
	Call      string `json:"call"`
	Price     Money  `json:"priceUsd"` // what was charged; zero for a call that failed
	Purse     string `json:"chargedTo,omitempty"`
	Spent     *Money `json:"spentUsd,omitempty"`
	Remaining *Money `json:"remainingUsd,omitempty"`
	Replayed  bool   `json:"replayed,omitempty"` // charged when it ran, not again
}
