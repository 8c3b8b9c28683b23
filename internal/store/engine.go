package store

import (
	"context"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// engine is a database. It reads and locks rows, lets the ledger change them, and writes the
// changes in one durable transaction.
type engine interface {
	// exchange reads and locks the rows listed in refs, calls change, and writes the rows that it
	// changed. Rows are locked in the order limits, balances, holds, runs, approvals, each sorted.
	// Missing rows are absent from the maps, except limits, which are created. If change returns an
	// error, the transaction is rolled back. Conflicts with other transactions are retried.
	exchange(ctx context.Context, refs ledger.Refs, change func(*ledger.Rows) error) error
	// append writes calls and intents in one durable transaction. It is idempotent.
	append(ctx context.Context, rows *ledger.Rows) error
	// clock returns the database's time.
	clock(ctx context.Context) (time.Time, error)
	// stale finds expired holds, sessions and runs. Each entry can be processed separately.
	stale(ctx context.Context, limit int) ([]ledger.Refs, error)
	// gather moves sums to the totals.
	gather(ctx context.Context) error
	// maintain deletes rows past their retention and calls gather.
	maintain(ctx context.Context, keep time.Duration) error
	// document reads a document. If it does not exist, the body is empty and the version is zero.
	document(ctx context.Context, name string) (body []byte, version int64, err error)
	// setDocument replaces a document if it has the given version, and reports whether it did. If
	// kept is not nil, it also stores the new version in the history.
	setDocument(ctx context.Context, name string, body []byte, version int64, kept *VersionRow) (done bool, err error)
	// follow reports the versions of all documents shortly after each change, and also at other
	// times, until ctx ends.
	follow(ctx context.Context, f follower)
	send(ctx context.Context, to, message string) error
	// explain wraps errors in ErrUnavailable if they mean that the database is unavailable.
	explain(err error) error
}

// ErrUnavailable means that the database is unreachable or currently cannot write. The operation
// may or may not have taken effect.
var ErrUnavailable = ledger.ErrUnavailable

// CallRow is a recorded call.
type CallRow = ledger.CallRow

// Mark records when a call reached a step of the call path.
type Mark = ledger.Mark

// Exchange applies a batch in one transaction. If a reply is lost, it is safe to send the batch
// again.
func (s *ledgerStore) Exchange(ctx context.Context, b *ledger.Batch) (results *ledger.Results, err error) {
	err = s.engine.exchange(ctx, b.Refs(), func(rows *ledger.Rows) (err error) {
		results, err = ledger.Apply(rows, b)
		return err
	})
	return results, err
}
