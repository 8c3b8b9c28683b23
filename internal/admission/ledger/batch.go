package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
)

// Batch is a set of requests from one replica. It is applied in one transaction, in the order of
// the fields. If a reply is lost, it is safe to send the batch again.
type Batch struct {
	Replica     string
	Returns     []LimitReturn
	Settlements []Settlement
	Releases    []HoldRelease
	Limits      []LimitRequest
	Holds       []HoldRequest
	Admits      []AdmitRequest
}

// Results are a batch's results. Each list is in the order of its requests.
type Results struct {
	Settlements []SettlementResult
	Limits      []LimitGrant
	Holds       []HoldGrant
	Admits      []AdmitResult
}

// LimitRequest leases part of a limit.
type LimitRequest struct {
	Key         string
	Limit       toolyard.Limit
	Permits     int           // number of calls to start, for a limit per minute
	Concurrency int           // number of concurrent calls, for a concurrency limit
	StartRight  bool          // requests the exclusive right to start calls, for a limit with a cooldown
	SlotTTL     time.Duration // longest time that a call may hold a concurrency slot
}

// LimitGrant is the leased part of a limit. It may be less than requested.
type LimitGrant struct {
	Permits     int
	Epoch       int64 // identifies the grant when it is returned
	Concurrency int
	StartRight  bool
	RetryAfter  time.Duration // when to request the rest; zero if the grant is complete
	Replicas    int           // number of replicas that currently use the limit
}

// LimitReturn returns part of a grant. A start right is returned as soon as its call has started.
type LimitReturn struct {
	Key         string
	Limit       toolyard.Limit
	Permits     int
	Epoch       int64 // epoch of the grant
	Concurrency int
	StartRight  bool
}

// HoldRequest leases money and calls from a balance. The replica chooses the hold's ID, so a
// request that is repeated after a lost reply leases only once. An existing hold is topped up.
type HoldRequest struct {
	Hold    string
	Serial  int64 // greater than in the previous request for this hold
	Balance string
	Account string         // must own the balance
	Want    toolyard.Money // amount to lease if available
	Min     toolyard.Money // lease nothing if less than this is available
	Calls   int            // number of calls to lease, if the balance limits calls
	Idle    toolyard.Money // unused money in the hold; returned to the balance if the request is refused
	TTL     time.Duration
}

// HoldGrant is the state of a hold after a HoldRequest.
type HoldGrant struct {
	Unspent    toolyard.Money
	Calls      int
	CountCalls bool // the balance limits the number of calls
	Refused    *Refusal
	Spent      toolyard.Money // the balance's spending, as recorded in the store
	Remaining  toolyard.Money // the balance's remaining money, including holds
}

// HoldRelease ends a hold, or returns everything but Keep and KeepCalls to the balance.
type HoldRelease struct {
	Hold, Balance string
	Serial        int64 // greater than in the previous request for this hold
	Keep          toolyard.Money
	KeepCalls     int
}

// Refusal explains why a request was refused.
type Refusal struct {
	Code       toolyard.Code
	Limit      int // index of the exhausted limit in the AdmitRequest
	Message    string
	RetryAfter time.Duration // zero if a retry would not help

	SpendLimit  string        // key of the spend limit that was reached; may be empty
	RenewsAfter time.Duration // time until the spend limit renews; zero if that would not help
}

// RunKey is an idempotency key within its scope.
type RunKey struct{ Scope, Key string }

// KeyUsage is the storage used by the idempotency keys in one scope.
type KeyUsage struct {
	Keys  int
	Bytes int64 // size of the stored results
}

// AdmitRequest reserves everything that one call needs: permits, money and the idempotency key.
type AdmitRequest struct {
	Call     string
	Run      RunKey
	Digest   [sha256.Size]byte
	Limits   []LimitRequest // one permit from each
	Spend    []SpendLimit   // limits that count the price
	Balance  string         // may be empty
	Account  string         // must own the balance
	Price    toolyard.Money
	Timeout  time.Duration // maximum run time of the call
	Approval string        // ID of the approval that the call uses; may be empty
	KeysFull bool          // the caller has used up its idempotency keys: refuse a new one
}

// AdmitResult is the result of an AdmitRequest. The money is in a hold whose ID is the call's ID.
type AdmitResult struct {
	Refused   *Refusal
	Replay    json.RawMessage // result of an earlier call with this key; nil if this call should run
	Limits    []LimitGrant
	Spent     toolyard.Money
	Remaining toolyard.Money
}

// Settlement ends a call.
type Settlement struct {
	Call    string
	Hold    string // pays for the call; may be empty
	Balance string // balance that the hold belongs to
	Amount  toolyard.Money
	Spend   []string // keys of the call's spend limits
	Calls   int      // number of calls to count
	Seller  string
	EndHold bool    // the hold ends with the call
	Run     *RunKey // key under which Outcome is stored; may be nil
	Outcome json.RawMessage
	Unknown bool     // the outcome is unknown
	NotRun  bool     // the call was admitted but did not run, so its key becomes available again
	Unused  string   // ID of an approval whose call did not start, so that it can be used again
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
