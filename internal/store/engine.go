package store

import (
	"context"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// engine is a database. It reads and locks rows, lets the ledger change them, and writes the
// changes in one durable transaction.
type engine interface {
	// exchange reads and locks the rows that refs name, calls change, and writes what it
	// changed. Rows are locked in the order limits, balances, holds, runs, approvals, each sorted. Missing
	// rows are absent from the maps, except limits, which are created. An error of change rolls
	// back the transaction. Conflicts with other transactions are retried.
	exchange(ctx context.Context, refs ledger.Refs, change func(*ledger.Rows) error) error
	// append writes calls and intents in one durable transaction. Appending twice has no further
	// effect.
	append(ctx context.Context, rows *ledger.Rows) error
	// clock returns the time of the database.
	clock(ctx context.Context) (time.Time, error)
	// stale finds expired holds, sessions and runs. Each entry can be processed on its own.
	stale(ctx context.Context, limit int) ([]ledger.Refs, error)
	// gather moves sums to the totals.
	gather(ctx context.Context) error
	// maintain deletes rows whose retention is over, and gathers.
	maintain(ctx context.Context, keep time.Duration) error
	// document reads a document. A missing document is empty and has version zero.
	document(ctx context.Context, name string) (body []byte, version int64, err error)
	// setDocument replaces a document if it has the given version, and reports whether it did. It
	// stores the new version in the history unless kept is nil.
	setDocument(ctx context.Context, name string, body []byte, version int64, kept *VersionRow) (done bool, err error)
	// follow reports the versions of all documents, shortly after a change and at other times,
	// until ctx ends.
	follow(ctx context.Context, f follower)
	send(ctx context.Context, to, message string) error
	// explain wraps errors that mean that the database is unavailable in ErrUnavailable.
	explain(err error) error
}

// ErrUnavailable means that the database is unreachable or cannot write at present. The operation
// may or may not have taken effect.
var ErrUnavailable = ledger.ErrUnavailable

// CallRow is a recorded call.
type CallRow = ledger.CallRow

// Mark is the time at which a call reached a step of the call path.
type Mark = ledger.Mark

// Exchange applies a batch in one transaction. Sending a batch again after its reply was lost has
// no further effect.
func (s *ledgerStore) Exchange(ctx context.Context, b *ledger.Batch) (results *ledger.Results, err error) {
	err = s.engine.exchange(ctx, b.Refs(), func(rows *ledger.Rows) (err error) {
		results, err = ledger.Apply(rows, b)
		return err
	})
	return results, err
}
