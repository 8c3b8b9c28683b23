package toolyard

import (
	"context"
	"time"
)

// A Ledger keeps the books: accounts, and sessions, which are open budgets. Money moves by
// transfers from one place to another and is never made or lost. Amounts are exact.
type Ledger interface {
	// Fund puts money into an account, or takes it out if the amount is negative. The
	// reference is unique: funding twice with one reference funds once.
	Fund(ctx context.Context, account string, amount Money, reference string) error
	// Purse is an account or a session as it is now. Its error is NotFound for none.
	Purse(ctx context.Context, id string) (*Purse, error)
	// OpenSession moves money from an account into a new session. Its error is Budget when
	// the account has not as much.
	OpenSession(context.Context, Session) (*Purse, error)
	// CloseSession ends a session and gives what is left back to its account. Money that is
	// held for calls in flight comes back when they end. Closing twice is closing once.
	CloseSession(ctx context.Context, id string) (*Purse, error)
	// Audit checks the books: an error says what does not add up.
	Audit(context.Context) error
}

// Session is a budget to open.
type Session struct {
	ID      string // unique
	Account string
	Limit   Money // what may be spent
	Calls   int   // how many calls may be made; zero for any number
	TTL     time.Duration
}

// PurseState is whether a purse can be used.
type PurseState string

// The states of a purse. An account is always open.
const (
	PurseOpen    PurseState = "open"
	PurseClosed  PurseState = "closed"
	PurseExpired PurseState = "expired"
)

// Purse is an account or a session: something that money is taken from.
type Purse struct {
	ID        string     `json:"id"`
	Account   string     `json:"account"`
	State     PurseState `json:"status"`
	Limit     Money      `json:"limitUsd"`           // of a session
	Remaining Money      `json:"remainingUsd"`       // not spent yet, including what is held for calls in flight
	Held      Money      `json:"heldUsd"`            // of that, what is held for calls in flight
	Spent     Money      `json:"spentUsd"`           // by calls; of an account also by calls that its sessions paid
	Calls     int        `json:"calls,omitempty"`    // that were made, if their number is bounded
	MaxCalls  int        `json:"maxCalls,omitempty"` // zero for any number
	Expires   time.Time  `json:"expiresAt,omitzero"`
}
