package store

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// Calls are too numerous to add up in a query, so their sums are updated when calls are written: by
// hour for costs, and by minute for traffic. A call and its sums are written in one transaction. If
// there are many accounts and tools, there are nearly as many sums as calls, so sums are regularly
// moved to the totals, which aggregate them further for each kind of query. Sums and totals
// together are always exact.

// shards is the number of rows for each sum. A process always updates the same row.
const shards = 16

// keepMinutes is the retention of sums per minute.
const keepMinutes = 8 * day

// adding returns the clause that adds to an existing sum.
func adding(t *table) string { return t.onConflict(t.rest(`{} = ` + t.name + `.{} + excluded.{}`)) }

// pgWas records how a call was counted before, if the call turns out to be charged.
const pgWas = `, was = json_build_array(calls.account, calls.server, calls.tool, calls.code)`

// pgTallies computes the amounts that written calls add to the sums, and subtracts those that were
// counted before.
const pgTallies = `
	SELECT account, at, server, tool, 1 AS calls, CASE code WHEN 'OK' THEN 0 ELSE 1 END AS errors,
		CASE WHEN price > 0 THEN 1 ELSE 0 END AS charged, price AS usd FROM new
	UNION ALL
	SELECT was ->> 0, at, was ->> 1, was ->> 2, -1, CASE was ->> 3 WHEN 'OK' THEN 0 ELSE -1 END, 0, 0
		FROM new WHERE was IS NOT NULL`

// pgRecord returns the statement that records calls and updates the sums. It is a single statement,
// so that only rows that were actually written count: RETURNING omits unchanged calls, and was
// distinguishes calls that turn out to be charged from new calls. All calls are written before the
// first sum, and sums are written in the order of their keys, hours before minutes, so that
// transactions do not deadlock. The last parameter is the shard.
func pgRecord() string {
	shard := fmt.Sprintf("$%d::bigint", len(callTable.columns)+1)
	return `WITH new AS (` + pgWrite(&callTable, insert) + keepCharged(&callTable, pgWas) + `
		RETURNING account, at, server, tool, code, price, was::json AS was),
	tallies AS (` + pgTallies + `),
	hours AS (INSERT INTO sums (` + sumTable.list() + `)
		SELECT account, date_trunc('hour', at, 'UTC'), server, tool, ` + shard + `, sum(calls), sum(errors), sum(charged), sum(usd)
		FROM tallies GROUP BY 1, 2, 3, 4 ORDER BY account COLLATE "C", 2, server COLLATE "C", tool COLLATE "C"` + adding(&sumTable) + ` RETURNING hour)
	INSERT INTO minutes (` + minuteTable.list() + `)
		SELECT date_trunc('minute', at, 'UTC'), ` + shard + `, sum(calls), sum(errors), sum(usd)
		FROM tallies WHERE (SELECT count(*) FROM hours) > 0 GROUP BY 1 ORDER BY 1` + adding(&minuteTable)
}

// tally is the amount that calls add to a sum.
type tally struct {
	calls, errors, charged int64
	usd                    toolyard.Money
}

// hourKey identifies an hourly sum.
type hourKey struct {
	account      string
	hour         time.Time
	server, tool string
}

func compareHours(a, b hourKey) int {
	return cmp.Or(strings.Compare(a.account, b.account), a.hour.Compare(b.hour), strings.Compare(a.server, b.server), strings.Compare(a.tool, b.tool))
}

// tallies are the amounts that calls add to the sums.
type tallies struct {
	hours   map[hourKey]tally
	minutes map[time.Time]tally
}

// add adds a call, or subtracts it if sign is -1.
func (t *tallies) add(c *CallRow, sign int64) {
	one := tally{calls: sign, usd: c.Price * toolyard.Money(sign)}
	if c.Code != toolyard.OK {
		one.errors = sign
	}
	if c.Price > 0 {
		one.charged = sign
	}
	at := c.At.UTC()
	key := hourKey{clean(c.Account), at.Truncate(time.Hour), clean(c.Server), clean(c.Tool)}
	t.hours[key] = t.hours[key].plus(one)
	minute := at.Truncate(time.Minute)
	t.minutes[minute] = t.minutes[minute].plus(one)
}

func (t tally) plus(o tally) tally {
	return tally{t.calls + o.calls, t.errors + o.errors, t.charged + o.charged, t.usd + o.usd}
}

// rows returns the rows to add, sorted by key.
func (t *tallies) rows() (hours, minutes [][]any) {
	for _, key := range slices.SortedFunc(maps.Keys(t.hours), compareHours) {
		n := t.hours[key]
		hours = append(hours, []any{key.account, key.hour, key.server, key.tool, int64(0), n.calls, n.errors, n.charged, int64(n.usd)})
	}
	for _, minute := range slices.SortedFunc(maps.Keys(t.minutes), time.Time.Compare) {
		n := t.minutes[minute]
		minutes = append(minutes, []any{minute, int64(0), n.calls, n.errors, int64(n.usd)})
	}
	return hours, minutes
}

// SQLite statements for sums.
var (
	liteReadKnown = `SELECT id, at, account, server, tool, code, price FROM calls
		WHERE (at, id) IN (SELECT json_extract(value, '$[1]'), json_extract(value, '$[0]') FROM json_each(?))`
	liteAddHours   = liteWrite(&sumTable, insert) + adding(&sumTable)
	liteAddMinutes = liteWrite(&minuteTable, insert) + adding(&minuteTable)
)

// tally computes the amounts that calls add to the sums. It must run before the calls are written.
func (t *liteTx) tally(calls []*CallRow) (*tallies, error) {
	known := make(map[ledger.CallRef]*CallRow)
	if err := liteQuery(t, liteReadKnown, known, scanKnown, array(pairsOf(calls))); err != nil {
		return nil, err
	}
	sums := &tallies{map[hourKey]tally{}, map[time.Time]tally{}}
	for _, c := range calls {
		old := known[ledger.CallRef{ID: clean(c.ID), At: c.At.UTC().Truncate(time.Microsecond)}]
		switch {
		case old == nil:
			sums.add(c, 1)
		case old.Price == 0 && c.Price > 0: // see keepCharged
			sums.add(old, -1)
			sums.add(c, 1)
		}
	}
	return sums, nil
}

func pairsOf(calls []*CallRow) [][2]any {
	pairs := make([][2]any, len(calls))
	for i, c := range calls {
		pairs[i] = [2]any{clean(c.ID), c.At.UnixMicro()}
	}
	return pairs
}

func scanKnown(s scanner) (ledger.CallRef, *CallRow, error) {
	c := &CallRow{}
	err := s.Scan(&c.ID, &c.At, &c.Account, &c.Server, &c.Tool, &c.Code, &c.Price)
	c.At = c.At.UTC()
	return ledger.CallRef{ID: c.ID, At: c.At}, c, err
}

// addSums adds tallies to the sums per hour and per minute.
func (t *liteTx) addSums(sums *tallies) error {
	hours, minutes := sums.rows()
	if err := t.writeRows(liteAddHours, hours); err != nil {
		return err
	}
	return t.writeRows(liteAddMinutes, minutes)
}

// liteForgetSums returns the statement that subtracts calls from the sums for their hours before
// the calls are deleted.
func liteForgetSums(from string) string {
	return `INSERT INTO sums (` + sumTable.list() + `) SELECT account, at / 3600000000 * 3600000000, server, tool, 0,
		-count(*), -count(*) FILTER (WHERE code <> 'OK'), -count(*) FILTER (WHERE price > 0), -sum(price)
		FROM ` + from + ` GROUP BY 1, 2, 3, 4` + adding(&sumTable)
}
