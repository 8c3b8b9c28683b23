// Package ledger decides about limits, money and idempotency keys. It performs no I/O: a
// database engine reads and locks rows, the ledger changes them, and the engine writes the
// changes in the same transaction.
package ledger

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
)

// A Ledger stores accounts and sessions, which are open budgets. Money moves between balances
// by transfers and is never created or lost. Amounts are exact.
type Ledger interface {
	// Fund adds money to an account, or withdraws it if the amount is negative. The reference
	// is unique: funding twice with the same reference has no further effect.
	Fund(ctx context.Context, account string, amount toolyard.Money, reference string) error
	// Balance returns an account or session. The error is NotFound if there is none.
	Balance(ctx context.Context, id string) (*Balance, error)
	// OpenSession moves money from an account into a new session. The error is BudgetExceeded if the
	// account has too little.
	OpenSession(context.Context, Session) (*Balance, error)
	// CloseSession ends a session and returns its remaining money to the account. Money held
	// for calls in flight returns when they end. Closing a closed session has no effect.
	CloseSession(ctx context.Context, id string) (*Balance, error)
	// Audit checks that the books balance.
	Audit(context.Context) error
}

// Session is a budget to open.
type Session struct {
	ID      string // unique
	Account string
	Limit   toolyard.Money // maximum to spend
	Calls   int            // maximum number of calls; zero for no maximum
	TTL     time.Duration
}

// State is whether a balance can be used.
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
	Held      toolyard.Money `json:"heldUsd"`            // reserved for calls in flight
	Spent     toolyard.Money `json:"spentUsd"`           // by calls; for an account, including calls paid by its sessions
	Calls     int            `json:"calls,omitempty"`    // calls made, if MaxCalls is set
	MaxCalls  int            `json:"maxCalls,omitempty"` // zero for no maximum
	Expires   time.Time      `json:"expiresAt,omitzero"`
}
