package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// maxFindings is the maximum number of findings in a report.
const maxFindings = 20

// moved computes the net amount transferred to each place.
const moved = `WITH moved AS (SELECT place, sum(amount) AS net FROM (
	SELECT target AS place, amount FROM transfers UNION ALL SELECT source, -amount FROM transfers) AS entries GROUP BY place) `

// audits are queries that return no rows if the books balance. A row contains a name, the actual
// amount and the expected amount.
var audits = []struct{ finding, text string }{
	{"%[1]s has a balance of %[2]s, but its transfers total %[3]s", moved + `SELECT id, available, coalesce(net, 0) FROM balances
		LEFT JOIN moved ON place = 'balance/' || id WHERE available <> coalesce(net, 0)`},
	{"hold %[1]s has %[2]s left, but its transfers total %[3]s", moved + `SELECT id, unspent, coalesce(net, 0) FROM holds
		LEFT JOIN moved ON place = 'hold/' || id WHERE unspent <> coalesce(net, 0)`},
	{"%[1]s no longer exists, but its transfers total %[2]s", moved + `SELECT place, net, 0 FROM moved
		WHERE net <> 0 AND place <> 'world' AND substr(place, 1, 6) <> 'sales/'
		AND NOT EXISTS (SELECT 1 FROM balances WHERE place = 'balance/' || id) AND NOT EXISTS (SELECT 1 FROM holds WHERE place = 'hold/' || id)`},
	{"%[1]s has %[2]s on hold, but its holds total %[3]s", `SELECT balances.id, held, coalesce(sum(unspent + holds.spent), 0) FROM balances
		LEFT JOIN holds ON balance = balances.id GROUP BY balances.id, held HAVING held <> coalesce(sum(unspent + holds.spent), 0)`},
	{"%[1]s has %[2]s calls on hold, but its holds total %[3]s", `SELECT balances.id, held_calls, coalesce(sum(calls_unspent + calls_spent), 0)
		FROM balances LEFT JOIN holds ON balance = balances.id
		GROUP BY balances.id, held_calls HAVING held_calls <> coalesce(sum(calls_unspent + calls_spent), 0)`},
	{"%[1]s has spent %[2]s, but its charges total %[3]s", `SELECT id, spent + by_holds, charged FROM (SELECT id, spent,
		coalesce((SELECT sum(holds.spent) FROM holds WHERE balance = balances.id), 0) AS by_holds,
		coalesce((SELECT sum(amount) FROM transfers WHERE kind = 'charge' AND balance = balances.id), 0) AS charged FROM balances) AS sums
		WHERE spent + by_holds <> charged`},
	{"charge %[1]s belongs to a missing account or session", `SELECT id, 0, 0 FROM transfers
		WHERE kind = 'charge' AND NOT EXISTS (SELECT 1 FROM balances WHERE balances.id = balance)`},
	{"%[1]s was charged %[2]s, but its recorded calls total %[3]s", `SELECT balance, sum(charged), sum(recorded) FROM (
		SELECT balance, amount AS charged, 0 AS recorded FROM transfers WHERE kind = 'charge'
		UNION ALL SELECT CASE WHEN session <> '' THEN session ELSE account END, 0, price FROM calls WHERE price > 0
		UNION ALL SELECT balance, 0, amount FROM retired) AS sums GROUP BY balance HAVING sum(charged) <> sum(recorded)`},
	{"account %[1]s has %[2]s in the totals but %[3]s in the recorded calls", `SELECT account,
		sum(summed) || ' calls of ' || sum(usd), sum(recorded) || ' calls of ' || sum(price) FROM (
		SELECT account, calls AS summed, usd, 0 AS recorded, 0 AS price FROM sums
		UNION ALL SELECT account, calls, usd, 0, 0 FROM totals WHERE grain = 'account/day'
		UNION ALL SELECT account, 0, 0, 1, price FROM calls) AS counted
		GROUP BY account HAVING sum(summed) <> sum(recorded) OR sum(usd) <> sum(price)`},
	{"the totals by %[1]s count %[2]s calls, but the totals by account/day count %[3]s", `SELECT grain, sum(calls), whole.n FROM totals,
		(SELECT sum(calls) AS n FROM totals WHERE grain = 'account/day') AS whole GROUP BY grain, whole.n HAVING sum(calls) <> whole.n`},
	{"%[1]s has a negative amount: %[2]s", `SELECT id, least, 0 FROM (SELECT id, CASE WHEN available < 0 THEN available WHEN held < 0 THEN held
		WHEN spent < 0 THEN spent WHEN calls < 0 THEN calls ELSE held_calls END AS least FROM balances) AS lows WHERE least < 0`},
	{"hold %[1]s has a negative amount: %[2]s", `SELECT id, least, 0 FROM (SELECT id, CASE WHEN unspent < 0 THEN unspent WHEN spent < 0 THEN spent
		WHEN calls_unspent < 0 THEN calls_unspent ELSE calls_spent END AS least FROM holds) AS lows WHERE least < 0`},
}

// Audit implements ledger.Ledger. It reads the books as of one point in time. Amounts in findings
// are in billionths of a dollar.
func (s *ledgerStore) Audit(ctx context.Context) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return fmt.Errorf("store: audit: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // read-only
	if _, ok := s.engine.(*postgres); ok {
		if _, err := tx.ExecContext(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return fmt.Errorf("store: audit: %w", err)
		}
	}
	findings, err := audit(ctx, tx)
	switch {
	case err != nil:
		return fmt.Errorf("store: audit: %w", err)
	case len(findings) > maxFindings:
		findings = append(findings[:maxFindings-1], "and more")
	case len(findings) == 0:
		return nil
	}
	return fmt.Errorf("the ledger is inconsistent:\n%s", strings.Join(findings, "\n"))
}

// audit collects findings up to the maximum.
func audit(ctx context.Context, tx *sql.Tx) (findings []string, err error) {
	for _, a := range audits {
		if len(findings) > maxFindings {
			return findings, nil
		}
		err := query(ctx, tx, func(s scanner) error {
			var name, is, should string
			err := s.Scan(&name, &is, &should)
			findings = append(findings, fmt.Sprintf(a.finding, name, is, should))
			return err
		}, a.text+` LIMIT $1`, maxFindings)
		if err != nil {
			return nil, err
		}
	}
	return findings, nil
}
