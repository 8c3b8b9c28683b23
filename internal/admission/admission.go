package admission

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// An Admitter decides whether a call may run now. It reserves the permits, money and idempotency
// key that the call needs, either all or none. Replicas that share a store share limits and money.
type Admitter interface {
	// Admit reserves what the call needs. It waits for limits and money for up to Request.Wait;
	// waiting for the store's reply has a separate limit. Errors are of type *toolyard.Error:
	// RateLimited, BudgetExceeded, NotFound, IdempotencyConflict, InProgress, OutcomeUnknown or
	// Unavailable. An admission with a Replay belongs to a call that has already run: don't run or
	// settle it again.
	Admit(context.Context, *Request) (*Admission, error)
	// Settle ends the admission. It charges a successful call, refunds a failed one, returns the
	// permits, and stores the result under the idempotency key. If Settle returns nil, the charge
	// is durable.
	Settle(context.Context, *Admission, toolyard.Outcome) (*toolyard.Receipt, error)
}

// Request describes a call to be admitted.
type Request struct {
	Call   *toolyard.Call // the call to record; may be nil
	CallID string         // required even if Call is nil
	Caller string         // callers that share a limit take turns
	Limits []LimitRef     // limits that apply to the call, widest first

	Price   toolyard.Money      // zero for a free call
	Balance string              // ID of the account or session that pays; a session also limits the number of calls
	Account string              // the account that must own the balance
	Seller  string              // account that receives the money
	Spend   []ledger.SpendLimit // daily and monthly limits on the price of calls

	Key    string            // idempotency key; may be empty
	Scope  string            // namespace in which Key is unique
	Digest [sha256.Size]byte // hash of the tool and its arguments

	Approval string // ID of the approval that the call uses; may be empty

	Writes  bool          // the call may change something
	Timeout time.Duration // maximum run time once admitted
	Wait    time.Duration // maximum wait for limits and money; zero to refuse immediately
}

// Price returns the price of a call: its tool's price at gates that charge for calls, otherwise
// zero.
func Price(c *toolyard.Call) toolyard.Money {
	if p := c.Tool.Price; c.Surface == toolyard.Execute && p.Set && !p.OptOut {
		return p.USD
	}
	return 0
}

// LimitRef refers to a limit. References with the same key share one limit.
type LimitRef struct {
	Key   string
	Name  string // for messages
	Limit toolyard.Limit
	Local bool // each replica enforces the limit separately; only Concurrency applies
}

// Durable reports whether the call must be stored before it runs, because it has an idempotency
// key, uses an approval, is a paid write, or counts against a spend limit. Such a call continues if
// the client disconnects.
func (r *Request) Durable() bool {
	return r.Key != "" || r.Approval != "" || (r.Writes && r.Price > 0) || len(r.Spend) > 0
}

// Empty reports whether the call needs no admission.
func (r *Request) Empty() bool {
	return len(r.Limits) == 0 && r.Balance == "" && r.Key == "" && r.Approval == ""
}

// Admission is permission to run a call.
type Admission struct {
	Request  *Request
	Replay   *toolyard.Result // result of an earlier call with the same idempotency key; nil if this call should run
	Reserved any              // private to the Admitter
}
