// Package ledger implements the rules for limits, money and idempotency keys. It performs no I/O: a
// database engine reads and locks rows, the ledger changes them, and the engine writes the changes
// in the same transaction.
package ledger

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
)

// A Ledger stores accounts and sessions, which are open budgets. Transfers move money between
// balances; no money is created or lost. Amounts are exact.
type Ledger interface {
	// Fund adds money to an account, or withdraws it if the amount is negative. The reference
	// is unique: funding twice with the same reference has no further effect.
	Fund(ctx context.Context, account string, amount toolyard.Money, reference string) error
	// Balance returns an account or session. The error is NotFound if it does not exist.
	Balance(ctx context.Context, id string) (*Balance, error)
	// OpenSession moves money from an account into a new session. The error is BudgetExceeded if the
	// account has too little.
	OpenSession(context.Context, Session) (*Balance, error)
	// CloseSession ends a session and returns its remaining money to the account. Money held for
	// running calls is returned when they end. Closing a closed session has no effect.
	CloseSession(ctx context.Context, id string) (*Balance, error)
	// Audit checks that the books balance.
	Audit(context.Context) error
}

// Session describes a session to open.
type Session struct {
	ID      string // unique
	Account string
	Limit   toolyard.Money // maximum to spend
	Calls   int            // maximum number of calls; zero for no limit
	TTL     time.Duration
}

// State tells whether a balance can be used.
type State string

// States of a balance. An account is always open.
const (
	StateOpen    State = "open"
	StateClosed  State = "closed"
	StateExpired State = "expired"
)

// Balance is an account or a session.
type Balance struct {
	ID        string         `json:"id"`
	Account   string         `json:"account"`
	State     State          `json:"status"`
	Limit     toolyard.Money `json:"limitUsd"`           // sessions only
	Remaining toolyard.Money `json:"remainingUsd"`       // not spent yet, including Held
	Held      toolyard.Money `json:"heldUsd"`            // reserved for running calls
	Spent     toolyard.Money `json:"spentUsd"`           // an account's spending includes its sessions
	Calls     int            `json:"calls,omitempty"`    // number of calls made, if MaxCalls is set
	MaxCalls  int            `json:"maxCalls,omitempty"` // zero for no limit
	Expires   time.Time      `json:"expiresAt,omitzero"`
}
