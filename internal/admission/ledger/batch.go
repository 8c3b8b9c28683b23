package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
)

// Batch is a set of requests of one replica. It is applied in one transaction, in the order of
// the fields. Sending a batch again after its reply was lost has no further effect.
type Batch struct {
	Replica     string
	Returns     []LimitReturn
	Settlements []Settlement
	Releases    []HoldRelease
	Limits      []LimitRequest
	Holds       []HoldRequest
	Admits      []AdmitRequest
}

// Results are the results of a batch, each list in the order of its requests.
type Results struct {
	Settlements []SettlementResult
	Limits      []LimitGrant
	Holds       []HoldGrant
	Admits      []AdmitResult
}

// LimitRequest leases permits of a limit.
type LimitRequest struct {
	Key         string
	Limit       toolyard.Limit
	Permits     int           // calls to start, for a limit per minute
	Concurrency int           // calls to run at the same time, for a limit on concurrency
	StartRight  bool          // the exclusive right to start calls, for a limit with a cooldown
	SlotTTL     time.Duration // maximum time that a call holds a concurrency slot
}

// LimitGrant is what was leased, which may be less than was requested.
type LimitGrant struct {
	Permits     int
	Epoch       int64 // identifies the grant when it is returned
	Concurrency int
	StartRight  bool
	RetryAfter  time.Duration // when to request the rest; zero if nothing is missing
	Replicas    int           // replicas that use the limit at present
}

// LimitReturn returns part of a grant. The right to start is returned as soon as its call has started.
type LimitReturn struct {
	Key         string
	Limit       toolyard.Limit
	Permits     int
	Epoch       int64 // of the grant
	Concurrency int
	StartRight  bool
}

// HoldRequest leases money and calls from a balance. The replica chooses the ID of the hold, so
// that repeating a request after a lost reply leases once. An existing hold is topped up.
type HoldRequest struct {
	Hold    string
	Serial  int64 // greater than in the previous request for this hold
	Balance string
	Account string         // must own the balance
	Want    toolyard.Money // amount to lease if available
	Min     toolyard.Money // lease nothing if less than this is available
	Calls   int            // if the balance counts calls
	Idle    toolyard.Money // unused money in the hold; returned to the balance if the request is refused
	TTL     time.Duration
}

// HoldGrant is the state of a hold after a HoldRequest.
type HoldGrant struct {
	Unspent    toolyard.Money
	Calls      int
	CountCalls bool // the balance limits the number of calls
	Refused    *Refusal
	Spent      toolyard.Money // by the balance, as recorded in the store
	Remaining  toolyard.Money // of the balance, including what is held
}

// HoldRelease ends a hold, or returns everything but Keep and KeepCalls to the balance.
type HoldRelease struct {
	Hold, Balance string
	Serial        int64 // greater than in the previous request for this hold
	Keep          toolyard.Money
	KeepCalls     int
}

// Refusal is the reason for a refused request.
type Refusal struct {
	Code       toolyard.Code
	Limit      int // index of the exhausted limit of an AdmitRequest
	Message    string
	RetryAfter time.Duration // zero if a retry does not help

	SpendLimit  string        // key of the spend limit that was reached; may be empty
	RenewsAfter time.Duration // until the spend limit renews; zero if that does not help
}

// RunKey is an idempotency key within its scope.
type RunKey struct{ Scope, Key string }

// KeyUsage is what the store holds for the idempotency keys of one scope.
type KeyUsage struct {
	Keys  int
	Bytes int64 // size of the stored results
}

// AdmitRequest reserves everything that one call needs: permits, money and the idempotency key.
type AdmitRequest struct {
	Call     string
	Run      RunKey
	Digest   [sha256.Size]byte
	Limits   []LimitRequest // one permit of each
	Spend    []SpendLimit   // the price counts against each
	Balance  string         // may be empty
	Account  string         // must own the balance
	Price    toolyard.Money
	Timeout  time.Duration // maximum run time of the call
	Approval string        // ID of the approval that the call uses; may be empty
	KeysFull bool          // the caller has used up its idempotency keys: refuse a new one
}

// AdmitResult is the result of an AdmitRequest. The money is in a hold with the ID of the call.
type AdmitResult struct {
	Refused   *Refusal
	Replay    json.RawMessage // result of the earlier call with this key; nil if this call is to run
	Limits    []LimitGrant
	Spent     toolyard.Money
	Remaining toolyard.Money
}

// Settlement ends a call.
type Settlement struct {
	Call    string
	Hold    string // pays for the call; may be empty
	Balance string // of the hold
	Amount  toolyard.Money
	Spend   []string // keys of the spend limits of the call
	Calls   int      // to count
	Seller  string
	EndHold bool    // the hold ends with the call
	Run     *RunKey // stores Outcome under this key; may be nil
	Outcome json.RawMessage
	Unknown bool     // the outcome is unknown
	NotRun  bool     // the call was admitted and did not run: its key is free again
	Unused  string   // ID of the approval of a call that did not start: it can be used again
	Row     *CallRow // recorded with the charge
}

// SettlementResult is the result of a Settlement.
type SettlementResult struct {
	Refused *Refusal
}

// Refs returns the rows that the batch needs.
func (b *Batch) Refs() (r Refs) {
	for _, l := range b.Returns {
		r.Limits = append(r.Limits, l.Key)
	}
	for _, l := range b.Limits {
		r.Limits = append(r.Limits, l.Key)
	}
	for _, s := range b.Settlements {
		r.Limits = append(r.Limits, s.Spend...)
		r.Calls = append(r.Calls, CallRef{s.Call, s.row().At})
		if s.Hold != "" {
			r.Holds = append(r.Holds, s.Hold)
		}
		if s.EndHold && s.Balance != "" {
			r.Balances = append(r.Balances, s.Balance)
		}
		if s.Run != nil {
			r.Runs = append(r.Runs, *s.Run)
		}
		if s.Unused != "" {
			r.Approvals = append(r.Approvals, s.Unused)
		}
	}
	for _, h := range b.Releases {
		r.Holds, r.Balances = append(r.Holds, h.Hold), append(r.Balances, h.Balance)
	}
	for _, h := range b.Holds {
		r.Holds, r.Balances = append(r.Holds, h.Hold), append(r.Balances, h.Balance)
	}
	for _, a := range b.Admits {
		for _, l := range a.Limits {
			r.Limits = append(r.Limits, l.Key)
		}
		for _, l := range a.Spend {
			r.Limits = append(r.Limits, l.Key)
		}
		if a.Balance != "" {
			r.Balances = append(r.Balances, a.Balance)
		}
		r.Runs = append(r.Runs, a.Run)
		if a.Approval != "" {
			r.Approvals = append(r.Approvals, a.Approval)
		}
	}
	return r
}
