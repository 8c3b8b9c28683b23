package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// lite is the engine for SQLite. It has a single connection, so transactions are serialized.
// Starting a query while another result is open deadlocks. It uses the process's time.
type lite struct {
	db       *sql.DB
	prepared map[string]*sql.Stmt // by text
}

// Statements that read. Lists of names are passed as JSON arrays.
var (
	liteCreateLimits = `INSERT INTO limits (key) SELECT value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING`
	liteReadLimits   = liteRead(&limitTable)
	liteReadBalances = liteRead(&balanceTable)
	liteReadHolds    = liteRead(&holdTable) + ` OR id IN (SELECT id FROM holds WHERE balance IN (SELECT value FROM json_each(?)) AND expires <= ?)`
	liteReadApproved = liteRead(&approvalTable)
	liteReadRuns     = `SELECT ` + runTable.list() + ` FROM runs WHERE (scope, key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))`
	liteReadCharged  = `SELECT id FROM transfers WHERE id IN (SELECT json_extract(value, '$[0]') FROM json_each($1)) UNION ALL
		SELECT id FROM calls WHERE (at, id) IN (SELECT json_extract(value, '$[1]'), json_extract(value, '$[0]') FROM json_each($1)) AND price > 0`
)

func liteRead(t *table) string {
	name := t.columns[0].name
	return `SELECT ` + t.list() + ` FROM ` + t.name + ` WHERE ` + name + ` IN (SELECT value FROM json_each(?))`
}

// liteWrites contains all statements that write.
var liteWrites = writeStatements(liteWrite)

// liteWrite returns the statement for an action on one row.
func liteWrite(t *table, a action) string {
	switch a {
	case update:
		return `UPDATE ` + t.name + ` SET ` + t.rest(`{} = ?#`) + ` WHERE ` + t.key(`{} = ?#`)
	case remove:
		return `DELETE FROM ` + t.name + ` WHERE ` + t.key(`{} = ?#`)
	case insertIfAbsent:
		return liteWrite(t, insert) + ` ON CONFLICT DO NOTHING`
	case insertCall:
		return liteWrite(t, insert) + keepCharged(t, "")
	default:
		return `INSERT INTO ` + t.name + ` (` + t.list() + `) VALUES (` + t.each(`?`) + `)`
	}
}

// openSQLite opens a file, or an in-memory database if the path is empty.
func openSQLite(ctx context.Context, path string) (*Store, error) {
	address, err := liteAddress(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", address)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	db.SetMaxOpenConns(1) // never closed, because that would delete an in-memory database
	l := &lite{db: db, prepared: map[string]*sql.Stmt{}}
	err = retry(ctx, func() (bool, error) { // while another process migrates
		err := sqliteMigrator.migrate(ctx, db)
		return err != nil && !errors.Is(err, errNewer), err
	})
	if err != nil {
		return nil, errors.Join(liteError(err), db.Close())
	}
	if err := l.prepare(ctx); err != nil {
		return nil, errors.Join(liteError(err), db.Close())
	}
	if path == "" {
		return newStore(&database{engine: l, db: db, reports: db}, "memory", db.Close), nil
	}
	// Reports have their own connections, so that calls do not have to wait for them.
	others, err := sql.Open("sqlite", address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), db.Close())
	}
	others.SetMaxOpenConns(4)
	return newStore(&database{engine: l, db: others, reports: others}, "sqlite", func() error { return errors.Join(others.Close(), db.Close()) }), nil
}

// liteAddress returns a file's address for the driver. It creates a missing file that only the
// owner can access.
func liteAddress(path string) (string, error) {
	options := url.Values{
		"_txlock":              {"immediate"},
		"_busy_timeout":        {"5000"},
		"_foreign_keys":        {"on"},
		"_time_integer_format": {"unix_micro"},
		"_inttotime":           {"true"},
	}
	if path == "" {
		return "file::memory:?" + options.Encode(), nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator chooses the file
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	options.Set("_journal_mode", "WAL")
	options.Set("_synchronous", "FULL")
	path = filepath.ToSlash(path)
	if filepath.VolumeName(path) != "" {
		path = "/" + path
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode(), nil
}

// prepare prepares the statements used by exchange.
func (l *lite) prepare(ctx context.Context) error {
	texts := []string{liteCreateLimits, liteReadLimits, liteReadBalances, liteReadHolds, liteReadRuns, liteReadApproved, liteReadCharged, liteReadKnown, liteAddHours, liteAddMinutes}
	texts = slices.AppendSeq(texts, maps.Values(liteWrites))
	for _, text := range texts {
		statement, err := l.db.PrepareContext(ctx, text)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		l.prepared[text] = statement
	}
	return nil
}

// exchange waits for its turn until ctx ends. Once a transaction has begun, it is completed, which
// takes milliseconds.
func (l *lite) exchange(ctx context.Context, refs ledger.Refs, change func(*ledger.Rows) error) error {
	refs.Sort()
	if err := checkRefs(&refs); err != nil {
		return err
	}
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return liteError(err)
	}
	defer conn.Close() //nolint:errcheck // returns it to the pool
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return liteError(err)
	}
	defer tx.Rollback() //nolint:errcheck // no effect after the commit
	t := &liteTx{ctx: ctx, tx: tx, prepared: l.prepared}
	r, err := t.read(refs)
	if err != nil {
		return liteError(err)
	}
	if err := change(r); err != nil {
		return err
	}
	w := writesOf(r)
	if w.empty() {
		return nil
	}
	if err := t.writeAll(w); err != nil {
		return liteError(err)
	}
	return liteError(tx.Commit())
}

func (l *lite) append(ctx context.Context, rows *ledger.Rows) error {
	return l.exchange(ctx, ledger.Refs{}, func(r *ledger.Rows) error {
		now := r.Now
		*r = *rows
		r.Now = now
		return nil
	})
}

// liteTx is a transaction.
type liteTx struct {
	ctx      context.Context //nolint:containedctx // lives as long as the transaction
	tx       *sql.Tx
	prepared map[string]*sql.Stmt
}

// read reads rows. No other transaction writes until this one ends.
func (t *liteTx) read(refs ledger.Refs) (*ledger.Rows, error) {
	r := ledger.NewRows()
	r.Now = liteNow()
	err := errors.Join(
		t.createLimits(refs.Limits),
		liteCollect(t, liteReadLimits, r.Limits, scanLimit, refs.Limits),
		liteCollect(t, liteReadBalances, r.Balances, scanBalance, refs.Balances),
		t.readCharged(r, refs.Calls),
		t.readHolds(r, refs),
		t.readRuns(r, refs.Runs),
		liteCollect(t, liteReadApproved, r.Approvals, scanApprovalUse, refs.Approvals),
	)
	return r, err
}

func (t *liteTx) createLimits(names []string) error {
	if len(names) == 0 {
		return nil
	}
	_, err := t.tx.StmtContext(t.ctx, t.prepared[liteCreateLimits]).ExecContext(t.ctx, array(names))
	return err
}

func (t *liteTx) readHolds(r *ledger.Rows, refs ledger.Refs) error {
	if len(refs.Holds)+len(refs.Balances) == 0 {
		return nil
	}
	return liteQuery(t, liteReadHolds, r.Holds, scanHold, array(refs.Holds), array(refs.Balances), r.Now)
}

// readCharged finds calls by time and ID, which is the table's key.
func (t *liteTx) readCharged(r *ledger.Rows, names []ledger.CallRef) error {
	if len(names) == 0 {
		return nil
	}
	pairs := make([][2]any, len(names))
	for i, c := range names {
		pairs[i] = [2]any{c.ID, c.At.UnixMicro()}
	}
	return liteQuery(t, liteReadCharged, r.Charged, scanName, array(pairs))
}

func (t *liteTx) readRuns(r *ledger.Rows, names []ledger.RunKey) error {
	if len(names) == 0 {
		return nil
	}
	pairs := make([][2]string, len(names))
	for i, id := range names {
		pairs[i] = [2]string{id.Scope, id.Key}
	}
	return liteQuery(t, liteReadRuns, r.Runs, scanRun, array(pairs))
}

func liteCollect[R any](t *liteTx, text string, into map[string]R, scan func(scanner) (string, R, error), names []string) error {
	if len(names) == 0 {
		return nil
	}
	return liteQuery(t, text, into, scan, array(names))
}

func liteQuery[K comparable, R any](t *liteTx, text string, into map[K]R, scan func(scanner) (K, R, error), args ...any) error {
	found, err := t.tx.StmtContext(t.ctx, t.prepared[text]).QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	defer found.Close() //nolint:errcheck // collectRows reports errors
	return collectRows(found, into, scan)
}

// writeAll writes rows and the sums for the recorded calls.
func (t *liteTx) writeAll(w *writes) error {
	if len(w.record) == 0 {
		return w.each(t.write)
	}
	sums, err := t.tally(w.record)
	if err != nil {
		return err
	}
	if err := w.each(t.write); err != nil {
		return err
	}
	return t.addSums(sums)
}

// write performs an action on a table's rows.
func (t *liteTx) write(to *table, a action, rows [][]any) error {
	if a == remove {
		for i := range rows {
			rows[i] = rows[i][:to.keys]
		}
	}
	return t.writeRows(liteWrites[writing{to, a}], rows)
}

// writeRows executes a statement for each row.
func (t *liteTx) writeRows(text string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	statement := t.tx.StmtContext(t.ctx, t.prepared[text])
	for _, values := range rows {
		if _, err := statement.ExecContext(t.ctx, values...); err != nil {
			return err
		}
	}
	return nil
}

// array encodes a list as JSON.
func array[T any](list []T) string {
	if len(list) == 0 {
		return "[]"
	}
	b, _ := json.Marshal(list) //nolint:errchkjson // strings and numbers only
	return string(b)
}

// liteNow returns the time in the database's precision.
func liteNow() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (*lite) explain(err error) error { return liteError(err) }

// liteError wraps transient errors in ErrUnavailable.
func liteError(err error) error {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded) || liteUnable(err):
		return fmt.Errorf("store: %w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("store: %w", err)
}

// liteUnable reports whether the file currently cannot be read or written.
func liteUnable(err error) bool {
	e := (*sqlite.Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff { // primary result code
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

func (*lite) clock(context.Context) (time.Time, error) { return liteNow(), nil }

func (l *lite) stale(ctx context.Context, limit int) ([]ledger.Refs, error) {
	names, err := staleRefs(ctx, l.db, liteNow(), limit)
	return names, liteError(err)
}

// liteChunk is the number of rows deleted in one statement. It is small so that calls do not have
// to wait long.
const liteChunk = 5000

func (l *lite) maintain(ctx context.Context, keep time.Duration) error {
	now, minutes := liteNow(), keepMinutes
	if keep > 0 {
		minutes = min(minutes, keep)
	}
	err := errors.Join(
		l.trim(ctx, `DELETE FROM runs WHERE rowid IN (SELECT rowid FROM runs WHERE state <> 'running' AND until <= $1 LIMIT $2)`, now),
		l.trim(ctx, `DELETE FROM minutes WHERE (minute, shard) IN (SELECT minute, shard FROM minutes WHERE minute < $1 LIMIT $2)`, now.Add(-minutes)),
		l.trim(ctx, `DELETE FROM balances WHERE id IN (SELECT id FROM balances WHERE `+emptySession+` AND expires < $1 LIMIT $2)`, now.Add(-keepSessions)),
		l.trim(ctx, `DELETE FROM approvals WHERE id IN (SELECT id FROM approvals WHERE expires < $1 LIMIT $2)`, now.Add(-keepApprovals)),
		l.trim(ctx, `DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE expires < $1 LIMIT $2)`, now.Add(-keepApprovals)),
		l.trim(ctx, `DELETE FROM consumed WHERE id IN (SELECT id FROM consumed WHERE until < $1 LIMIT $2)`, now.Add(-keepConsumed)),
		l.trim(ctx, `DELETE FROM results WHERE id IN (SELECT id FROM results WHERE expires < $1 LIMIT $2)`, now),
		l.trim(ctx, `DELETE FROM limits WHERE key IN (SELECT key FROM limits WHERE julianday(json_extract(state, '$.last')) < julianday($1 / 1e6, 'unixepoch')
			AND json_extract(state, '$.turn') IS NULL AND coalesce(julianday(json_extract(state, '$.next')), 0) < julianday('now') LIMIT $2)`, now.Add(-keepLimits)),
	)
	if err == nil && keep > 0 {
		err = l.deleteCalls(ctx, now.Add(-keep))
	}
	if err == nil {
		err = l.gather(ctx)
	}
	if err == nil && keep > 0 {
		err = l.trim(ctx, `DELETE FROM totals WHERE (grain, account, at, server, tool) IN
			(SELECT grain, account, at, server, tool FROM totals WHERE at < $1 AND calls = 0 LIMIT $2)`, now.Add(-keep))
	}
	return liteError(err)
}

// deleteCalls deletes the calls before a time in small steps and subtracts them from the sums.
func (l *lite) deleteCalls(ctx context.Context, since time.Time) error {
	const old = `(at, id) IN (SELECT at, id FROM calls WHERE at < $1 ORDER BY at, id LIMIT $2)`
	step := []string{retire(`calls WHERE price > 0 AND ` + old), liteForgetSums(`calls WHERE ` + old), `DELETE FROM calls WHERE ` + old}
	for n := int64(liteChunk); n == liteChunk; {
		var err error
		if n, err = l.inTransaction(ctx, step, since, liteChunk); err != nil {
			return err
		}
	}
	return nil
}

// trim deletes rows in small steps.
func (l *lite) trim(ctx context.Context, text string, before time.Time) error {
	for {
		result, err := l.db.ExecContext(ctx, text, before, liteChunk)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n < liteChunk {
			return err
		}
	}
}
