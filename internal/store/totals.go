package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// grain is a grouping and a unit of time for totals.
type grain string

// grainOf returns the grain with the fewest rows that can answer a query.
func grainOf(byAccount, byTool bool, span string) grain {
	switch {
	case byAccount && byTool:
		return grain("both/" + span)
	case byTool:
		return grain("tool/" + span)
	}
	return grain("account/" + span)
}

// grainsOf returns the grains for the given spans as SQL.
func grainsOf(spans ...string) string {
	var list []string
	for _, span := range spans {
		for _, of := range []string{"account", "tool", "both"} {
			list = append(list, "'"+of+"/"+span+"'")
		}
	}
	return strings.Join(list, ", ")
}

// totals returns the query that aggregates sums for every grain. hour, day and week are SQL
// expressions for a sum's time.
func totals(from, hour, day, week string) string {
	var parts []string
	for _, of := range []struct{ byAccount, byTool bool }{{true, false}, {false, true}, {true, true}} {
		account, tool := "''", "'', ''"
		if of.byAccount {
			account = "account"
		}
		if of.byTool {
			tool = "server, tool"
		}
		for _, span := range []struct{ name, at string }{{"hour", hour}, {"day", day}, {"week", week}} {
			parts = append(parts, `SELECT '`+string(grainOf(of.byAccount, of.byTool, span.name))+`', `+account+`, `+span.at+`, `+tool+`,
				sum(calls), sum(errors), sum(charged), sum(usd) FROM `+from+` GROUP BY 2, 3, 4, 5`)
		}
	}
	return `INSERT INTO totals (` + totalTable.list() + `) ` + strings.Join(parts, ` UNION ALL `) + adding(&totalTable)
}

// Statements that delete totals before a time: first those for hours and days, then those for
// weeks. The first week is recomputed from the remaining days.
var (
	pgForgetTotals = `DELETE FROM totals WHERE grain IN (` + grainsOf("hour", "day") + `) AND at < $1`
	pgForgetWeeks  = `DELETE FROM totals WHERE grain IN (` + grainsOf("week") + `) AND at < $1`
	pgFirstWeek    = `INSERT INTO totals (` + totalTable.list() + `) SELECT replace(grain, '/day', '/week'), account, date_trunc('week', at, 'UTC'), server, tool,
		sum(calls), sum(errors), sum(charged), sum(usd) FROM totals WHERE grain IN (` + grainsOf("day") + `) AND at < $1 GROUP BY 1, 2, 3, 4, 5`
)

// gatherChunk is the number of sums moved in one step.
const gatherChunk = 2_000

// Statements that move the oldest sums to the totals. PostgreSQL skips locked sums, so that no
// transaction has to wait.
var (
	pgGather = `WITH picked AS MATERIALIZED (SELECT ` + sumKey + ` FROM sums ORDER BY hour LIMIT $1 FOR UPDATE SKIP LOCKED),
		moved AS (DELETE FROM sums WHERE (` + sumKey + `) IN (SELECT * FROM picked) RETURNING *),
		written AS (` + totals("moved", "hour", "date_trunc('day', hour, 'UTC')", "date_trunc('week', hour, 'UTC')") + `)
		SELECT count(*) FROM moved`
	liteGather = []string{
		totals(`(SELECT * FROM sums ORDER BY hour, `+sumKey+` LIMIT $1)`, "hour", "hour / 86400000000 * 86400000000", "(hour + 259200000000) / 604800000000 * 604800000000 - 259200000000"),
		`DELETE FROM sums WHERE (` + sumKey + `) IN (SELECT ` + sumKey + ` FROM sums ORDER BY hour, ` + sumKey + ` LIMIT $1)`,
	}
	sumKey = write("{}", ", ", sumTable.columns[:sumTable.keys], 1)
)

// gather moves sums to the totals in small steps.
func (p *postgres) gather(ctx context.Context) error {
	for n := int64(gatherChunk); n == gatherChunk; {
		n = 0 // stays zero if another replica is already doing it
		err := p.exclusively(ctx, func(tx pgx.Tx, _ time.Time) error { return tx.QueryRow(ctx, pgGather, gatherChunk).Scan(&n) })
		if err != nil {
			return pgError(err)
		}
	}
	return nil
}

// gather moves sums to the totals in small steps.
func (l *lite) gather(ctx context.Context) error {
	for n := int64(gatherChunk); n == gatherChunk; {
		var err error
		if n, err = l.inTransaction(ctx, liteGather, gatherChunk); err != nil {
			return liteError(err)
		}
	}
	return nil
}

// inTransaction runs statements in one transaction and returns the number of rows that the last one
// changed.
func (l *lite) inTransaction(ctx context.Context, texts []string, args ...any) (n int64, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after the commit
	var done sql.Result
	for _, text := range texts {
		if done, err = tx.ExecContext(ctx, text, args...); err != nil {
			return 0, err
		}
	}
	if n, err = done.RowsAffected(); err != nil {
		return 0, err
	}
	return n, tx.Commit()
}
