package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// grain is what totals tell apart, and how long the times are that they are of.
type grain string

// grainOf is the grain that has as few rows as an answer needs.
func grainOf(byAccount, byTool bool, span string) grain {
	switch {
	case byAccount && byTool:
		return grain("both/" + span)
	case byTool:
		return grain("tool/" + span)
	}
	return grain("account/" + span)
}

// grainsOf are the grains of some spans, in SQL.
func grainsOf(spans ...string) string {
	var list []string
	for _, span := range spans {
		for _, of := range []string{"account", "tool", "both"} {
			list = append(list, "'"+of+"/"+span+"'")
		}
	}
	return strings.Join(list, ", ")
}

// totals are sums, added up in the way of every grain. The times are those of the hours, days
// and weeks of a sum, in SQL.
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

// What forgets totals before a time: those of hours and days, and then those of weeks. The
// first week is made again, from those of its days that are left.
var (
	pgForgetTotals = `DELETE FROM totals WHERE grain IN (` + grainsOf("hour", "day") + `) AND at < $1`
	pgForgetWeeks  = `DELETE FROM totals WHERE grain IN (` + grainsOf("week") + `) AND at < $1`
	pgFirstWeek    = `INSERT INTO totals (` + totalTable.list() + `) SELECT replace(grain, '/day', '/week'), account, date_trunc('week', at, 'UTC'), server, tool,
		sum(calls), sum(errors), sum(charged), sum(usd) FROM totals WHERE grain IN (` + grainsOf("day") + `) AND at < $1 GROUP BY 1, 2, 3, 4, 5`
)

// gatherChunk is how many sums move at once.
const gatherChunk = 2_000

// What moves the oldest sums to the totals, so many at once. On PostgreSQL a sum that somebody
// is just adding to is left for the next time, so that nobody waits.
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

// gather moves sums to the totals, in small steps.
func (p *postgres) gather(ctx context.Context) error {
	for n := int64(gatherChunk); n == gatherChunk; {
		n = 0 // also when another replica is at it
		err := p.alone(ctx, func(tx pgx.Tx, _ time.Time) error { return tx.QueryRow(ctx, pgGather, gatherChunk).Scan(&n) })
		if err != nil {
			return pgError(err)
		}
	}
	return nil
}

// gather moves sums to the totals, in small steps.
func (l *lite) gather(ctx context.Context) error {
	for n := int64(gatherChunk); n == gatherChunk; {
		var err error
		if n, err = l.together(ctx, liteGather, gatherChunk); err != nil {
			return liteError(err)
		}
	}
	return nil
}

// together runs statements in one transaction, and says how many rows the last one changed.
func (l *lite) together(ctx context.Context, texts []string, args ...any) (n int64, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // it is over if it was committed
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
