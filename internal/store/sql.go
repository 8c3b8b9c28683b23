package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/backoff"
)

// Retries of transactions that conflict with others.
const (
	maxTries = 10
	maxPause = 50 * time.Millisecond
)

// retry calls do until it does not request another try, at most maxTries times.
func retry(ctx context.Context, do func() (again bool, err error)) error {
	pause := time.Millisecond
	for try := 1; ; try++ {
		again, err := do()
		if !again || try == maxTries {
			return err
		}
		if !backoff.Sleep(ctx, pause/2) {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// AppendCalls records calls, all of them or none. A call that is recorded already is not
// changed. The caller bounds the number of calls.
func (s *callStore) AppendCalls(ctx context.Context, calls []*CallRow) error {
	if len(calls) == 0 {
		return nil
	}
	return s.engine.append(ctx, &ledger.Rows{Calls: calls})
}

// Maintain deletes calls and queries that are older than keep, with their sums, unless keep is zero.
// It also records write calls whose outcome was lost, and deletes expired idempotency keys and old entries of the audit log. Any replica may run it,
// about once an hour.
func (s *Store) Maintain(ctx context.Context, keep time.Duration) error {
	err := errors.Join(s.recordLostCalls(ctx), s.engine.maintain(ctx, keep))
	if keep > 0 {
		err = errors.Join(err, s.deleteQueries(ctx, time.Now().Add(-keep)))
	}
	return err
}

// retire returns the statement that adds the price of calls that are about to be deleted to the
// retired amounts of the balances that paid, so that the books still balance.
func retire(from string) string {
	return `INSERT INTO retired (balance, amount) SELECT CASE WHEN session <> '' THEN session ELSE account END, sum(price)
		FROM ` + from + ` GROUP BY 1 ON CONFLICT (balance) DO UPDATE SET amount = retired.amount + excluded.amount`
}

// staleRefs finds expired holds with their balances and accounts, which get the money back;
// sessions that have expired, or have ended and still have money, with their accounts; and
// expired runs.
func staleRefs(ctx context.Context, db *sql.DB, now time.Time, limit int) (list []ledger.Refs, err error) {
	find := func(read func(scanner) (ledger.Refs, error), text string, args ...any) {
		if err == nil {
			err = query(ctx, db, func(s scanner) error {
				r, err := read(s)
				list = append(list, r)
				return err
			}, text, args...)
		}
	}
	session := func(s scanner) (ledger.Refs, error) {
		var id, account string
		err := s.Scan(&id, &account)
		return ledger.Refs{Balances: []string{id, account}}, err
	}
	find(func(s scanner) (ledger.Refs, error) {
		var hold, balance, account string
		err := s.Scan(&hold, &balance, &account)
		return ledger.Refs{Holds: []string{hold}, Balances: []string{balance, account}}, err
	}, `SELECT holds.id, balance, account FROM holds JOIN balances ON balances.id = balance WHERE holds.expires <= $1 ORDER BY holds.expires LIMIT $2`, now, limit)
	find(session, `SELECT id, account FROM balances WHERE state = 'open' AND expires <= $1 ORDER BY expires LIMIT $2`, now, limit)
	find(session, `SELECT id, account FROM balances WHERE state <> 'open' AND available > 0 ORDER BY id LIMIT $1`, limit)
	find(func(s scanner) (ledger.Refs, error) {
		var key ledger.RunKey
		err := s.Scan(&key.Scope, &key.Key)
		return ledger.Refs{Runs: []ledger.RunKey{key}}, err
	}, `SELECT scope, key FROM runs WHERE state = 'running' AND until <= $1 ORDER BY until LIMIT $2`, now, limit)
	return list, err
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// query calls do for every row of the result.
func query(ctx context.Context, db querier, do func(scanner) error, text string, args ...any) error {
	result, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer result.Close() //nolint:errcheck // Err reports failures
	for result.Next() {
		if err := do(result); err != nil {
			return err
		}
	}
	return result.Err()
}
