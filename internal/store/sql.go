package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/backoff"
)

// Limits on retries of transactions that conflict with others.
const (
	maxTries = 10
	maxPause = 50 * time.Millisecond
)

// retry calls do until it returns false, but at most maxTries times.
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

// AppendCalls records calls, either all or none. Calls that are already recorded are not changed.
// The caller limits the number of calls.
func (s *callStore) AppendCalls(ctx context.Context, calls []*CallRow) error {
	if len(calls) == 0 {
		return nil
	}
	return s.engine.append(ctx, &ledger.Rows{Calls: calls})
}

// Retention is how long data is stored. Other kinds of data have a fixed retention, or are stored
// until they are removed; docs/OPERATE.md lists all tables.
type Retention struct {
	Calls    time.Duration // recorded calls with their sums, and queries; zero means forever
	Audit    time.Duration // audit log; zero means 400 days
	Inactive time.Duration // people who make no calls, invalid keys, and links and connections of such callers; zero means forever
}

// Maintain deletes data past its retention. It also records write calls whose outcome was lost, and
// deletes expired idempotency keys. Any replica may run it, about once an hour.
func (s *Store) Maintain(ctx context.Context, r Retention) error {
	err := errors.Join(s.recordLostCalls(ctx), s.engine.maintain(ctx, r.Calls))
	if r.Calls > 0 {
		err = errors.Join(err, s.deleteQueries(ctx, time.Now().Add(-r.Calls)))
	}
	now, clockErr := s.engine.clock(ctx)
	if clockErr != nil {
		return errors.Join(err, clockErr)
	}
	err = errors.Join(err, s.trim(ctx, "changes", "id", `at < $1`, now.Add(-cmp.Or(r.Audit, keepChanges))))
	if r.Inactive > 0 {
		err = errors.Join(err, s.deleteInactive(ctx, now.Add(-r.Inactive)))
	}
	return err
}

// deleteInactive deletes entries that have not been used since the given time. It keeps blocks.
func (s *database) deleteInactive(ctx context.Context, since time.Time) error {
	return errors.Join(
		s.trim(ctx, "people", "caller", `blocked = 0 AND seen < $1`, micros(since)),
		s.trim(ctx, "keys", "prefix", `revoked BETWEEN 1 AND $1 OR expires BETWEEN 1 AND $1`, micros(since)),
		s.trim(ctx, "connections", "account, caller, server", unused("connections"), micros(since)),
		s.trim(ctx, "links", "account, caller, kind", unused("links"), micros(since)),
	)
}

// unused returns the condition for rows in a table that have not been used since a time, and whose
// callers have no key and have not been seen either. Callers that an embedding program identifies
// are in neither table.
func unused(table string) string {
	return strings.ReplaceAll(`used < $1
		AND NOT EXISTS (SELECT 1 FROM people WHERE people.caller = TABLE.caller AND seen >= $1)
		AND NOT EXISTS (SELECT 1 FROM keys WHERE keys.caller = TABLE.caller AND keys.account IN (TABLE.account, ''))`, "TABLE", table)
}

// trimChunk is the number of rows deleted in one statement. It is small so that calls do not have
// to wait long.
const trimChunk = 5000

// trim deletes rows in small steps.
func (s *database) trim(ctx context.Context, table, key, where string, before any) error {
	for {
		result, err := s.db.ExecContext(ctx, `DELETE FROM `+table+` WHERE (`+key+`) IN (SELECT `+key+` FROM `+table+` WHERE `+where+` LIMIT $2)`, before, trimChunk) //nolint:gosec // the texts are constants
		if err != nil {
			return s.engine.explain(err)
		}
		if n, err := result.RowsAffected(); err != nil || n < trimChunk {
			return err
		}
	}
}

// retire returns the statement that adds the prices of calls to the retired amounts of the balances
// that paid, before the calls are deleted. This way, the books still balance.
func retire(from string) string {
	return `INSERT INTO retired (balance, amount) SELECT CASE WHEN session <> '' THEN session ELSE account END, sum(price)
		FROM ` + from + ` GROUP BY 1 ON CONFLICT (balance) DO UPDATE SET amount = retired.amount + excluded.amount`
}

// staleRefs finds expired holds, with the balances and accounts that get the money back; sessions
// that have expired, or have ended and still have money, with their accounts; and expired runs.
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

// query calls do for each row in the result.
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
