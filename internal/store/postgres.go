package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// postgres is the engine for PostgreSQL. It uses the server's time.
type postgres struct {
	pool    *pgxpool.Pool
	db      *sql.DB // uses the same pool
	reports *sql.DB // may use half of the pool
	shard   int64   // shard for the sums
}

// Connection defaults.
const (
	poolConns      = 8
	healthPeriod   = time.Second
	connectTimeout = 2 * time.Second
)

// sessionParams limits the duration of a statement and of an idle transaction. Otherwise, a replica
// that stops between two statements would hold its locks forever.
var sessionParams = map[string]string{
	"application_name":                    "toolyard",
	"statement_timeout":                   "10s",
	"idle_in_transaction_session_timeout": "10s",
}

// openPostgres opens the database at a URL, which may list several hosts. With
// target_session_attrs=read-write, it connects to the host that accepts writes.
func openPostgres(ctx context.Context, address string) (*Store, error) {
	config, err := poolConfig(address)
	if err != nil {
		return nil, err
	}
	if err := migrateAt(context.WithoutCancel(ctx), config.ConnConfig.Copy()); err != nil { // slow when a new version starts for the first time
		return nil, pgError(err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, pgError(err)
	}
	p := &postgres{pool: pool, db: stdlib.OpenDBFromPool(pool), reports: stdlib.OpenDBFromPool(pool), shard: rand.Int64N(shards)} //nolint:gosec // spreads load
	p.reports.SetMaxOpenConns(int(max(1, config.MaxConns/2)))
	_ = p.createDays(ctx) // if a partition is missing, calls go to calls_default; Maintain tries again and reports errors
	return newStore(&database{engine: p, db: p.db, reports: p.reports}, "postgres", p.close), nil
}

func (p *postgres) close() error {
	err := errors.Join(p.reports.Close(), p.db.Close())
	p.pool.Close()
	return err
}

// poolConfig parses an address and applies the defaults.
func poolConfig(address string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err) // the driver omits the password
	}
	given := url.Values{}
	if _, query, ok := strings.Cut(address, "?"); ok {
		given, _ = url.ParseQuery(query) // the driver has validated it
	}
	if !given.Has("pool_max_conns") {
		config.MaxConns = poolConns
	}
	if !given.Has("pool_health_check_period") {
		config.HealthCheckPeriod = healthPeriod
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	for name, value := range sessionParams {
		if _, ok := config.ConnConfig.RuntimeParams[name]; !ok {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	return config, nil
}

// migrateAt migrates the tables on its own connection, which has no statement timeout.
func migrateAt(ctx context.Context, config *pgx.ConnConfig) error {
	delete(config.RuntimeParams, "statement_timeout")
	delete(config.RuntimeParams, "idle_in_transaction_session_timeout")
	db := stdlib.OpenDB(*config)
	return errors.Join(postgresMigrator.migrate(ctx, db), db.Close())
}

// Statements that read and lock rows in the order of their keys.
var (
	pgCreateLimits = `INSERT INTO limits (key) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING`
	pgLockLimits   = pgLock(&limitTable)
	pgLockBalances = pgLock(&balanceTable)
	pgLockApproved = pgLock(&approvalTable)
	pgLockHolds    = `SELECT ` + holdTable.list() + ` FROM holds WHERE id IN (
		SELECT unnest($1::text[]) UNION SELECT id FROM holds WHERE balance = ANY($2::text[]) AND expires <= clock_timestamp()
	) ORDER BY id FOR UPDATE`
	pgLockRuns = `SELECT ` + runTable.list() + ` FROM runs
		WHERE (scope, key) IN (SELECT * FROM unnest($1::text[], $2::text[])) ORDER BY scope, key FOR UPDATE`
	pgCharged = `SELECT id FROM transfers WHERE id = ANY($1::text[]) UNION ALL
		SELECT id FROM unnest($1::text[], $2::timestamptz[]) AS given (id, at) JOIN calls USING (id, at) WHERE price > 0`
)

func pgLock(t *table) string {
	name := t.columns[0].name
	return `SELECT ` + t.list() + ` FROM ` + t.name + ` WHERE ` + name + ` = ANY($1::text[]) ORDER BY ` + name + ` FOR UPDATE`
}

// pgTypes maps kinds of columns to PostgreSQL types.
var pgTypes = map[kind]string{
	text: "text", number: "bigint", moment: "timestamptz", blob: "bytea", optionalText: "text", optionalMoment: "timestamptz",
}

// pgWrites contains all statements that write.
var pgWrites = writeStatements(pgWrite)

// pgWrite returns the statement for an action on any number of rows. The rows are passed as one
// array per column.
func pgWrite(t *table, a action) string {
	columns := t.columns
	if a == remove {
		columns = columns[:t.keys]
	}
	arrays, names := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		arrays[i], names[i] = fmt.Sprintf("$%d::%s[]", i+1, pgTypes[c.kind]), c.name
	}
	given := fmt.Sprintf("unnest(%s) AS given (%s)", strings.Join(arrays, ", "), strings.Join(names, ", "))
	same := t.key(t.name + `.{} = given.{}`)
	switch a {
	case update:
		return `UPDATE ` + t.name + ` SET ` + t.rest(`{} = given.{}`) + ` FROM ` + given + ` WHERE ` + same
	case remove:
		return `DELETE FROM ` + t.name + ` USING ` + given + ` WHERE ` + same
	case insertIfAbsent:
		return pgWrite(t, insert) + ` ON CONFLICT DO NOTHING`
	case insertCall:
		return pgRecord()
	default:
		return `INSERT INTO ` + t.name + ` (` + t.list() + `) SELECT * FROM ` + given
	}
}

// pgArrays converts rows to one array per column.
func pgArrays(columns []column, rows [][]any) []any {
	arrays := make([]any, len(columns))
	for i, c := range columns {
		switch c.kind {
		case text:
			arrays[i] = gather[string](rows, i)
		case number:
			arrays[i] = gather[int64](rows, i)
		case moment:
			arrays[i] = gather[time.Time](rows, i)
		case blob:
			arrays[i] = gather[[]byte](rows, i)
		case optionalText:
			arrays[i] = gatherOptional[string](rows, i)
		case optionalMoment:
			arrays[i] = gatherOptional[time.Time](rows, i)
		}
	}
	return arrays
}

func gather[T any](rows [][]any, column int) []T {
	list := make([]T, len(rows))
	for i, row := range rows {
		list[i] = row[column].(T)
	}
	return list
}

func gatherOptional[T any](rows [][]any, column int) []*T {
	list := make([]*T, len(rows))
	for i, row := range rows {
		if value, ok := row[column].(T); ok {
			list[i] = &value
		}
	}
	return list
}

// exchange needs two round trips: one begins the transaction and locks and reads rows, the other
// writes and commits. Read committed is sufficient, because every row that is read stays locked
// until the end. Rows are always locked in the same order, so transactions do not deadlock. If two
// transactions insert the same missing row, one of them fails and sees the row when it is retried.
func (p *postgres) exchange(ctx context.Context, refs ledger.Refs, change func(*ledger.Rows) error) error {
	refs.Sort()
	if err := checkRefs(&refs); err != nil {
		return err
	}
	return retry(ctx, func() (bool, error) {
		again, err := p.attempt(ctx, refs, change)
		return again && ctx.Err() == nil, err
	})
}

// attempt tries an exchange once and reports whether to try again.
func (p *postgres) attempt(ctx context.Context, refs ledger.Refs, change func(*ledger.Rows) error) (again bool, err error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return false, pgError(err)
	}
	defer conn.Release()
	r, err := pgRead(ctx, conn, refs)
	if err != nil {
		p.undo(ctx, conn, err)
		return pgAgain(err) || pgBroken(err), pgError(err)
	}
	if err := change(r); err != nil {
		p.undo(ctx, conn, nil)
		return false, err
	}
	w := writesOf(r)
	if w.empty() {
		p.undo(ctx, conn, nil)
		return false, nil
	}
	return p.commit(ctx, conn, w, &pgx.Batch{})
}

// append needs one round trip. It is idempotent, so it is retried if the connection breaks.
func (p *postgres) append(ctx context.Context, rows *ledger.Rows) error {
	return retry(ctx, func() (bool, error) {
		conn, err := p.pool.Acquire(ctx)
		if err != nil {
			return false, pgError(err)
		}
		defer conn.Release()
		b := &pgx.Batch{}
		b.Queue(pgBegin)
		b.Queue(pgNoScans)
		again, err := p.commit(ctx, conn, writesOf(rows), b)
		return (again || pgBroken(err)) && ctx.Err() == nil, err
	})
}

// commit writes and commits the transaction that the batch began, and reports whether to try again.
func (p *postgres) commit(ctx context.Context, conn *pgxpool.Conn, w *writes, b *pgx.Batch) (again bool, err error) {
	err = p.sendWrites(ctx, conn, w, b)
	switch {
	case err == nil:
		return false, nil
	case pgUnsure(err):
		p.undo(ctx, conn, err)
		return false, fmt.Errorf("store: %w: the connection was lost during COMMIT; the transaction may have been committed: %w", ErrUnavailable, err)
	}
	p.undo(ctx, conn, err)
	return pgAgain(err), pgError(err)
}

// Statements that begin a transaction. Plans are cached, so a plan made for a small table must also
// be suitable for a large one.
const (
	pgBegin   = `BEGIN ISOLATION LEVEL READ COMMITTED`
	pgNoScans = `SET LOCAL enable_seqscan = off`
)

// pgRead begins a transaction and locks and reads rows.
func pgRead(ctx context.Context, conn *pgxpool.Conn, refs ledger.Refs) (*ledger.Rows, error) {
	r, b := ledger.NewRows(), &pgx.Batch{}
	b.Queue(pgBegin)
	b.Queue(pgNoScans)
	if len(refs.Limits) > 0 {
		b.Queue(pgCreateLimits, refs.Limits)
		b.Queue(pgLockLimits, refs.Limits).Query(pgCollect(r.Limits, scanLimit))
	}
	if len(refs.Balances) > 0 {
		b.Queue(pgLockBalances, refs.Balances).Query(pgCollect(r.Balances, scanBalance))
	}
	if len(refs.Balances)+len(refs.Holds) > 0 {
		b.Queue(pgLockHolds, refs.Holds, refs.Balances).Query(pgCollect(r.Holds, scanHold))
	}
	if len(refs.Runs) > 0 {
		scopes, keys := make([]string, len(refs.Runs)), make([]string, len(refs.Runs))
		for i, id := range refs.Runs {
			scopes[i], keys[i] = id.Scope, id.Key
		}
		b.Queue(pgLockRuns, scopes, keys).Query(pgCollect(r.Runs, scanRun))
	}
	if len(refs.Approvals) > 0 {
		b.Queue(pgLockApproved, refs.Approvals).Query(pgCollect(r.Approvals, scanApprovalUse))
	}
	if len(refs.Calls) > 0 {
		ids, times := make([]string, len(refs.Calls)), make([]time.Time, len(refs.Calls))
		for i, c := range refs.Calls {
			ids[i], times[i] = c.ID, c.At
		}
		b.Queue(pgCharged, ids, times).Query(pgCollect(r.Charged, scanName))
	}
	b.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&r.Now) })
	err := conn.SendBatch(ctx, b).Close()
	r.Now = r.Now.UTC()
	return r, err
}

func pgCollect[K comparable, R any](into map[K]R, scan func(scanner) (K, R, error)) func(pgx.Rows) error {
	return func(found pgx.Rows) error { return collectRows(found, into, scan) }
}

// sendWrites writes and commits. If a statement fails, the server skips the rest.
func (p *postgres) sendWrites(ctx context.Context, conn *pgxpool.Conn, w *writes, b *pgx.Batch) error {
	err := w.each(func(t *table, a action, rows [][]any) error {
		columns := t.columns
		if a == remove {
			columns = columns[:t.keys]
		}
		args := pgArrays(columns, rows)
		if a == insertCall {
			args = append(args, p.shard)
		}
		b.Queue(pgWrites[writing{t, a}], args...)
		return nil
	})
	if err != nil {
		return err
	}
	b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the database server did not commit: %s", tag)
		}
		return nil
	})
	return conn.SendBatch(ctx, b).Close()
}

// undo rolls back a transaction. If that fails, the pool closes the connection and the server ends
// the transaction. If the error affects other connections too, all connections are replaced,
// because another server may accept writes by now.
func (p *postgres) undo(ctx context.Context, conn *pgxpool.Conn, why error) {
	if pgBroken(why) || pgCode(why) == "25006" {
		p.pool.Reset()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, `ROLLBACK`)
}

// pgCode returns the code of a server error, or "".
func pgCode(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// pgAgain reports whether a transaction failed only because of a concurrent transaction.
func pgAgain(err error) bool {
	switch pgCode(err) {
	case "40001", "40P01", "23505": // serialization failure, deadlock, unique violation
		return true
	}
	return false
}

// pgBroken reports whether an established connection was lost.
func pgBroken(err error) bool {
	if e := (*pgconn.ConnectError)(nil); errors.As(err, &e) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch pgCode(err) {
	case "57P01", "57P02", "57P05", "25P03": // the server closed the connection
		return true
	}
	e := net.Error(nil)
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &e) || pgconn.SafeToRetry(err)
}

// pgUnsure reports whether a failed commit may have taken effect, because the server did not reply
// or is shutting down.
func pgUnsure(err error) bool {
	code := pgCode(err)
	return code == "" || code == "40003" || strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "08")
}

func (*postgres) explain(err error) error { return pgError(err) }

// pgError wraps transient errors in ErrUnavailable.
func pgError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	e := (*pgconn.ConnectError)(nil)
	if errors.As(err, &e) || pgBroken(err) || errors.Is(err, context.DeadlineExceeded) || pgUnable(pgCode(err)) {
		return fmt.Errorf("store: %w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("store: %w", err)
}

// pgUnable reports whether a code means that the server currently cannot process the request.
func pgUnable(code string) bool {
	switch code {
	case "25006", "55P03", "57014", "57P03": // read only, locked, timed out, starting or stopping
		return true
	}
	for _, class := range []string{"08", "40", "53", "58"} { // connections, conflicts, resources, system errors
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

func (p *postgres) clock(ctx context.Context) (now time.Time, err error) {
	err = p.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return now.UTC(), pgError(err)
}

func (p *postgres) stale(ctx context.Context, limit int) ([]ledger.Refs, error) {
	now, err := p.clock(ctx)
	if err != nil {
		return nil, err
	}
	names, err := staleRefs(ctx, p.db, now, limit)
	return names, pgError(err)
}

// Calls are partitioned by day. Weekly totals start on Monday.
const (
	day  = 24 * time.Hour
	week = 7 * day
)

// daysAhead is the number of daily partitions created in advance.
const daysAhead = 2

// dayTable is the prefix of partition names; the date follows in dayFormat.
const dayTable, dayFormat = "calls_", "20060102"

func (p *postgres) maintain(ctx context.Context, keep time.Duration) error {
	err := p.createDays(ctx)
	if keep > 0 {
		err = errors.Join(err, p.exclusively(ctx, func(tx pgx.Tx, now time.Time) error { return dropDays(ctx, tx, now.Add(-keep).Truncate(day)) }))
	}
	if keep <= 0 || keep > keepMinutes {
		keep = keepMinutes
	}
	return pgError(errors.Join(err, p.gather(ctx), p.deleteRuns(ctx), p.deleteLimits(ctx),
		p.deleteOlder(ctx, `DELETE FROM minutes WHERE minute < now() - $1::interval`, keep),
		p.deleteOlder(ctx, `DELETE FROM messages WHERE at < now() - $1::interval`, keepMessages),
		p.deleteOlder(ctx, `DELETE FROM balances WHERE `+emptySession+` AND expires < now() - $1::interval`, keepSessions),
		p.deleteOlder(ctx, `DELETE FROM approvals WHERE expires < now() - $1::interval`, keepApprovals),
		p.deleteOlder(ctx, `DELETE FROM grants WHERE expires < now() - $1::interval`, keepApprovals),
		p.deleteOlder(ctx, `DELETE FROM consumed WHERE until < now() - $1::interval`, keepConsumed),
		p.deleteOlder(ctx, `DELETE FROM results WHERE expires < now() - $1::interval`, 0)))
}

// pgIdleLimit selects limits that have not been used for a while and currently restrict nothing.
const pgIdleLimit = `(state::jsonb ->> 'last')::timestamptz < now() - $1::interval AND state::jsonb -> 'turn' IS NULL
	AND coalesce((state::jsonb ->> 'next')::timestamptz, '-infinity') < now()`

// deleteLimits deletes the state of limits that are not in use, because limits per caller can be
// numerous. Its lock prevents calls from using a row between creating it and locking it.
func (p *postgres) deleteLimits(ctx context.Context) error {
	for {
		rows, err := p.pool.Query(ctx, `SELECT key FROM limits WHERE `+pgIdleLimit+` LIMIT $2`, keepLimits, limitChunk)
		if err != nil {
			return err
		}
		keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(keys) == 0 {
			return err
		}
		err = p.exclusively(ctx, func(tx pgx.Tx, _ time.Time) error {
			if _, err := tx.Exec(ctx, `LOCK TABLE limits IN SHARE ROW EXCLUSIVE MODE`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DELETE FROM limits WHERE key = ANY($2::text[]) AND `+pgIdleLimit, keepLimits, keys)
			return err
		})
		if err != nil || len(keys) < limitChunk {
			return err
		}
	}
}

// deleteOlder deletes rows older than keep.
func (p *postgres) deleteOlder(ctx context.Context, text string, keep time.Duration) error {
	_, err := p.pool.Exec(ctx, text, keep)
	return err
}

// exclusively runs do in a transaction, unless another replica is already doing so. It delays calls
// only briefly.
func (p *postgres) exclusively(ctx context.Context, do func(tx pgx.Tx, now time.Time) error) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '2s'`); err != nil {
			return err
		}
		free, now := false, time.Time{}
		row := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtext('toolyard'), hashtext(current_schema())), clock_timestamp()`)
		if err := row.Scan(&free, &now); err != nil || !free {
			return err
		}
		return do(tx, now.UTC())
	})
}

// createDays creates the partitions for today and the next days, each in its own transaction, so
// that one failure does not affect the others.
func (p *postgres) createDays(ctx context.Context) error {
	var all error
	for ahead := range daysAhead + 1 {
		all = errors.Join(all, p.exclusively(ctx, func(tx pgx.Tx, now time.Time) error {
			return createDay(ctx, tx, now.Truncate(day).Add(time.Duration(ahead)*day))
		}))
	}
	return all
}

// createDay creates the partition for a day and moves existing calls of that day to it.
func createDay(ctx context.Context, tx pgx.Tx, from time.Time) error {
	name, there := dayTable+from.Format(dayFormat), false
	err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&there)
	if err != nil || there {
		return err
	}
	to := from.Add(day)
	for _, text := range []string{
		`LOCK TABLE calls_default IN ACCESS EXCLUSIVE MODE`,
		`CREATE TABLE ` + name + ` (LIKE calls INCLUDING ALL)`,
		fmt.Sprintf(`WITH moved AS (DELETE FROM calls_default WHERE at >= '%s' AND at < '%s' RETURNING *) INSERT INTO %s SELECT * FROM moved`,
			from.Format(time.RFC3339), to.Format(time.RFC3339), name),
		fmt.Sprintf(`ALTER TABLE calls ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, name, from.Format(time.RFC3339), to.Format(time.RFC3339)),
	} {
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// dropDays deletes the calls before a day and their sums. It locks the tables, so that no other
// transaction writes such calls or locks such sums.
func dropDays(ctx context.Context, tx pgx.Tx, since time.Time) error {
	for _, text := range []string{`SET LOCAL statement_timeout = 0`, `LOCK TABLE calls_default IN SHARE MODE`} {
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
	}
	for _, text := range []string{retire(`calls_default WHERE price > 0 AND at < $1`), `DELETE FROM calls_default WHERE at < $1`} {
		if _, err := tx.Exec(ctx, text, since); err != nil {
			return err
		}
	}
	names, err := daysBefore(ctx, tx, since)
	if err != nil {
		return err
	}
	for _, name := range names {
		for _, text := range []string{`LOCK TABLE ` + name + ` IN SHARE MODE`, retire(name + ` WHERE price > 0`)} {
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
		}
	}
	if err := deleteSums(ctx, tx, since); err != nil {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, `DROP TABLE `+strings.Join(names, ", "))
	return err
}

// deleteSums deletes the sums and totals before a day.
func deleteSums(ctx context.Context, tx pgx.Tx, since time.Time) error {
	if _, err := tx.Exec(ctx, `DELETE FROM sums WHERE hour < $1`, since); err != nil {
		return err
	}
	gone, err := tx.Exec(ctx, pgForgetTotals, since)
	if err != nil || gone.RowsAffected() == 0 { // the weeks are up to date
		return err
	}
	if _, err := tx.Exec(ctx, pgForgetWeeks, since); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, pgFirstWeek, roundUp(since, week))
	return err
}

// daysBefore returns the partitions for the days before a day.
func daysBefore(ctx context.Context, tx pgx.Tx, since time.Time) ([]string, error) {
	found, err := tx.Query(ctx, `SELECT relname FROM pg_class JOIN pg_inherits ON pg_class.oid = inhrelid WHERE inhparent = 'calls'::regclass`)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	return slices.DeleteFunc(names, func(name string) bool {
		from, err := time.Parse(dayTable+dayFormat, name)
		return err != nil || !from.Before(since) // calls_default, or a day to keep
	}), err
}

// pgChunk is the number of runs deleted in one statement.
const pgChunk = 10_000

// deleteRuns deletes expired runs in small steps.
func (p *postgres) deleteRuns(ctx context.Context) error {
	for {
		tag, err := p.pool.Exec(ctx, `DELETE FROM runs WHERE (scope, key) IN (SELECT scope, key FROM runs
			WHERE state <> 'running' AND until <= now() LIMIT $1 FOR UPDATE SKIP LOCKED)`, pgChunk)
		if err != nil || tag.RowsAffected() < pgChunk {
			return err
		}
	}
}
