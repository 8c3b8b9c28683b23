package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// ErrUnavailable means that the store is unreachable or currently cannot write. The operation may
// or may not have taken effect; it is safe to send a batch again.
var ErrUnavailable = errors.New("the store is unavailable")

// Refs lists the rows that a transaction reads and locks.
type Refs struct {
	Limits   []string
	Balances []string // includes their expired holds
	Holds    []string
	Runs     []RunKey
	Calls    []CallRef // used to find calls that were already charged

	Approvals []string
}

// CallRef identifies a recorded call, or a transfer if the time is zero.
type CallRef struct {
	ID string
	At time.Time
}

// Sort sorts the lists and removes duplicates.
func (r *Refs) Sort() {
	for _, list := range []*[]string{&r.Limits, &r.Balances, &r.Holds, &r.Approvals} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(r.Runs, RunKey.Compare)
	r.Runs = slices.Compact(r.Runs)
}

// Compare orders keys by scope, then by key.
func (k RunKey) Compare(other RunKey) int {
	return cmp.Or(strings.Compare(k.Scope, other.Scope), strings.Compare(k.Key, other.Key))
}

// Rows are the rows of a transaction. The engine fills in the maps. It writes the transfers, the
// calls, and every row whose Change is not Unchanged.
type Rows struct {
	Now       time.Time // database time, read after the rows were locked
	Limits    map[string]*LimitRow
	Balances  map[string]*BalanceRow
	Holds     map[string]*HoldRow
	Runs      map[RunKey]*RunRow
	Charged   map[string]bool // IDs of calls that were already charged, and of existing transfers
	Transfers []Transfer
	Calls     []*CallRow // existing rows are not overwritten
	Intents   []*Intent
	Approvals map[string]*ApprovalRow
}

// NewRows returns empty rows.
func NewRows() *Rows {
	return &Rows{
		Limits: map[string]*LimitRow{}, Balances: map[string]*BalanceRow{}, Holds: map[string]*HoldRow{},
		Runs: map[RunKey]*RunRow{}, Charged: map[string]bool{}, Approvals: map[string]*ApprovalRow{},
	}
}

// Change is a row's pending change.
type Change int

// The changes. If a Created row already exists when it is inserted, the whole transaction is
// retried.
const (
	Unchanged Change = iota
	Created
	Changed
	Deleted
)

// Pending returns the change.
func (c Change) Pending() Change { return c }

// Mark marks the row as modified. A new row stays Created.
func (c *Change) Mark() {
	if *c != Created {
		*c = Changed
	}
}

// replaces returns the change for a row that is written regardless of whether it exists.
func replaces(exists bool) Change {
	if exists {
		return Changed
	}
	return Created
}

// LimitRow is a limit's usage.
type LimitRow struct {
	Change
	State json.RawMessage // nil for a new limit
}

// BalanceRow is an account or a session.
type BalanceRow struct {
	Change
	ID        string
	Account   string // an account stores its own ID
	State     State
	Limit     toolyard.Money // sessions only
	Available toolyard.Money // neither spent nor held; never negative
	Held      toolyard.Money // spent and unspent money of its holds
	Spent     toolyard.Money // spending of holds that have ended
	Calls     int            // calls of holds that have ended
	HeldCalls int            // spent and unspent calls of its holds
	MaxCalls  int            // zero for no limit
	Expires   time.Time      // zero if it does not expire
}

// HoldRow is money from a balance that is reserved for one replica's calls, or for one call.
type HoldRow struct {
	Change
	ID           string
	Balance      string
	Replica      string
	Serial       int64 // serial number of the last request that topped up the hold
	Unspent      toolyard.Money
	Spent        toolyard.Money
	CallsUnspent int
	CallsSpent   int
	Expires      time.Time
}

// RunState is the state of a call with an idempotency key.
type RunState string

// The states of a run.
const (
	RunRunning RunState = "running"
	RunDone    RunState = "done"
	RunUnknown RunState = "unknown" // started, but the outcome is unknown
)

// RunRow is a call with an idempotency key.
type RunRow struct {
	Change
	Key     RunKey
	Digest  [sha256.Size]byte
	Call    string
	State   RunState
	Until   time.Time // deadline of a running call, or end of retention of a finished one
	Outcome json.RawMessage
}

// Transfer moves money between two places: balance/ID, hold/ID, sales/ID or world. All charges from
// one hold to one seller in a transaction are combined into one transfer. Each call's price is in
// its CallRow, which is written in the same transaction.
type Transfer struct {
	ID       string // unique; a charge uses the call's ID
	From, To string
	Amount   toolyard.Money
	Kind     string // fund, open, lease, charge, release, close, count
	Balance  string // for a charge, the balance that the hold belongs to
	At       time.Time
}

// CallRow is a recorded call. It is part of the ledger because a charge is recorded together with
// its call.
type CallRow struct {
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	Elapsed    time.Duration   `json:"elapsedNs"`
	Gate       string          `json:"gate"`
	Mode       toolyard.Mode   `json:"mode"`
	Caller     string          `json:"caller"`
	Account    string          `json:"account,omitempty"`
	Session    string          `json:"session,omitempty"`
	Server     string          `json:"server,omitempty"`
	Tool       string          `json:"tool"`
	Generation uint64          `json:"generation"`
	AsOf       time.Time       `json:"asOf,omitzero" doc:"As-of time, if the caller set it."` // zero if the caller did not set it
	Code       toolyard.Code   `json:"code"`
	Price      toolyard.Money  `json:"priceUsd"`
	ArgsSize   int             `json:"argsBytes"`
	ResultSize int             `json:"resultBytes"`
	Args       json.RawMessage `json:"args,omitempty"`    // omitted if the configuration does not store arguments
	Parent     string          `json:"parent,omitempty"`  // the call that made this call
	Message    string          `json:"message,omitempty"` // error message of a failed call
	Intended   bool            `json:"-"`                 // its Intent is stored, and will be deleted when the call is recorded
	Marks      []Mark          `json:"marks,omitempty"`   // when the call reached each step, in whole microseconds
}

// Intent is a write call that is about to run. If an intent still exists after Until, the call's
// outcome was never recorded.
type Intent struct {
	Call  *CallRow // recorded if the outcome never is
	Until time.Time
}

// Payer returns the balance that paid for the call if it had a price.
func (r *CallRow) Payer() string { return cmp.Or(r.Session, r.Account) }

// Mark records when a call reached a step of the call path.
type Mark struct {
	Step string        `json:"step"`
	At   time.Duration `json:"atNs"` // since the start of the call
}
