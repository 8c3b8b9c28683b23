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

// ErrUnavailable means that the store is unreachable or cannot write at present. The operation
// may or may not have taken effect; a batch can be sent again.
var ErrUnavailable = errors.New("the store is unavailable")

// Refs name the rows that a transaction reads and locks.
type Refs struct {
	Limits   []string
	Balances []string // together with their expired holds
	Holds    []string
	Runs     []RunKey
	Calls    []CallRef // to find those that were charged already

	Approvals []string
}

// CallRef identifies a recorded call, or a transfer if the time is zero.
type CallRef struct {
	ID string
	At time.Time
}

// Sort sorts the names and removes duplicates.
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

// Rows are the rows of a transaction. The engine fills in the maps and writes every row whose
// Change is not Unchanged, the transfers and the calls.
type Rows struct {
	Now       time.Time // time of the database, read after the rows were locked
	Limits    map[string]*LimitRow
	Balances  map[string]*BalanceRow
	Holds     map[string]*HoldRow
	Runs      map[RunKey]*RunRow
	Charged   map[string]bool // IDs of calls that were charged already, and of existing transfers
	Transfers []Transfer
	Calls     []*CallRow // an existing row is not overwritten
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

// Change is the pending change of a row.
type Change int

// The changes. If a Created row exists by the time it is inserted, the whole transaction is
// tried again.
const (
	Unchanged Change = iota
	Created
	Changed
	Deleted
)

// Pending returns the change.
func (c Change) Pending() Change { return c }

// Mark notes that the row was modified. A new row stays Created.
func (c *Change) Mark() {
	if *c != Created {
		*c = Changed
	}
}

// replaces returns the change for a row that is written whether or not it exists.
func replaces(exists bool) Change {
	if exists {
		return Changed
	}
	return Created
}

// LimitRow is the usage of a limit.
type LimitRow struct {
	Change
	State json.RawMessage // nil for a new limit
}

// BalanceRow is an account or a session.
type BalanceRow struct {
	Change
	ID        string
	Account   string // its own ID for an account
	State     State
	Limit     toolyard.Money // sessions only
	Available toolyard.Money // neither spent nor held; never negative
	Held      toolyard.Money // unspent and spent money of its holds
	Spent     toolyard.Money // by holds that have ended
	Calls     int            // by holds that have ended
	HeldCalls int            // unspent and spent calls of its holds
	MaxCalls  int            // zero for no maximum
	Expires   time.Time      // zero for never
}

// HoldRow is money of a balance that is reserved for the calls of a replica, or for one call.
type HoldRow struct {
	Change
	ID           string
	Balance      string
	Replica      string
	Serial       int64 // of the last request that topped it up
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
	RunUnknown RunState = "unknown" // it started, and its outcome is unknown
)

// RunRow is a call with an idempotency key.
type RunRow struct {
	Change
	Key     RunKey
	Digest  [sha256.Size]byte
	Call    string
	State   RunState
	Until   time.Time // deadline of a running call; end of retention of a finished one
	Outcome json.RawMessage
}

// Transfer moves money between two places: balance/ID, hold/ID, sales/ID or world. All charges of
// a transaction from one hold to one seller are written as one transfer; the price of each call
// is in its CallRow, which is written in the same transaction.
type Transfer struct {
	ID       string // unique; for a charge, the ID of the call
	From, To string
	Amount   toolyard.Money
	Kind     string // fund, open, lease, charge, release, close, count
	Balance  string // for a charge: the balance behind the hold
	At       time.Time
}

// CallRow is a recorded call. It belongs to the ledger because a charge is recorded with its
// call.
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
	AsOf       time.Time       `json:"asOf,omitzero" doc:"As-of time, if the caller set it."` // zero if it was the time of the call
	Code       toolyard.Code   `json:"code"`
	Price      toolyard.Money  `json:"priceUsd"`
	ArgsSize   int             `json:"argsBytes"`
	ResultSize int             `json:"resultBytes"`
	Args       json.RawMessage `json:"args,omitempty"`    // as far as the configuration stores them
	Parent     string          `json:"parent,omitempty"`  // the call that made this call
	Message    string          `json:"message,omitempty"` // of a failure
	Intended   bool            `json:"-"`                 // its Intent is stored, and is deleted when the call is recorded
	Marks      []Mark          `json:"marks,omitempty"`   // when the call reached each step of its path, in whole microseconds
}

// Intent is a write call that is about to run. An intent that outlives Until belongs to a call whose
// outcome was never recorded.
type Intent struct {
	Call  *CallRow // to record if the outcome is never recorded
	Until time.Time
}

// Payer returns the balance that paid for the call, if it had a price.
func (r *CallRow) Payer() string { return cmp.Or(r.Session, r.Account) }

// Mark is the time at which a call reached a step of the call path.
type Mark struct {
	Step string        `json:"step"`
	At   time.Duration `json:"atNs"` // since the start of the call
}
