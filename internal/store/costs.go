package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// MaxMinutes is the maximum number of rows that Traffic returns.
const MaxMinutes = 20_000

// CostQuery selects and groups calls by cost.
type CostQuery struct {
	Account      string    // empty selects all accounts
	Since, Until time.Time // Until is exclusive; zero means no bound
	By           []string  // account, tool, and one of day, week or month; if empty, the result is a single row
	Top          int       // maximum number of groups, ranked by Most; zero for all
	Most         Most      // Spent if empty
}

// Most specifies how groups are ranked.
type Most string

// The rankings.
const (
	Spent  Most = "usd"
	Called Most = "calls"
)

// order returns the SQL order and the maximum number of groups.
func (q *CostQuery) order() (order string, limit int) {
	switch {
	case q.Top <= 0:
		return "4 DESC, 1, 2, 3", MaxGroups + 1
	case q.Most == Called:
		return "5 DESC, 8 DESC, 4 DESC, 1, 2, 3", q.Top
	}
	return "8 DESC, 5 DESC, 4 DESC, 1, 2, 3", q.Top
}

// CostRow is the cost of a group of calls. Fields that the query does not group by are empty.
type CostRow struct {
	Account string         `json:"account,omitempty"`
	Server  string         `json:"server,omitempty"`
	Tool    string         `json:"tool,omitempty"`
	Day     string         `json:"day,omitempty" doc:"The day in UTC, such as 2026-11-15; by week its Monday, by month its first day."`
	Calls   int64          `json:"calls"`
	Errors  int64          `json:"errors"`  // number of calls that failed
	Charged int64          `json:"charged"` // number of calls that had a price
	USD     toolyard.Money `json:"usd"`
}

// TrafficRow is the traffic in one minute.
type TrafficRow struct {
	At     time.Time      `json:"at"` // start of the minute
	Calls  int64          `json:"calls"`
	Errors int64          `json:"errors"`
	USD    toolyard.Money `json:"usd"`
}

// groups returns the result's columns and the positions of the columns to group by. The other
// columns are empty, because including them would require grouping by all columns.
func (s *callStore) groups(by []string) (columns, grouped []string, err error) {
	columns = []string{"''", "''", "''", "''"}
	known := []struct {
		by     string
		at     int
		column string
	}{
		{"account", 0, "account"},
		{"tool", 1, "server"},
		{"tool", 2, "tool"},
		{"day", 3, s.dateOfCall("day")},
		{"week", 3, s.dateOfCall("week")},
		{"month", 3, s.dateOfCall("month")},
	}
	for _, g := range by {
		found := false
		for _, c := range known {
			if c.by != g {
				continue
			}
			if found = true; columns[c.at] != "''" {
				return nil, nil, toolyard.Errorf(toolyard.Invalid, "costs can be grouped by only one of day, week and month")
			}
			columns[c.at], grouped = c.column, append(grouped, strconv.Itoa(c.at+1))
		}
		if !found {
			return nil, nil, toolyard.Errorf(toolyard.Invalid, "costs can be grouped by account, tool, day, week or month, not by %q", g)
		}
	}
	return columns, grouped, nil
}

// dateOfCall returns the SQL expression for the first day of a call's day, week or month in UTC.
// Weeks start on Monday.
func (s *callStore) dateOfCall(unit string) string {
	if !s.isLite() {
		return "to_char(date_trunc('" + unit + "', at AT TIME ZONE 'UTC'), 'YYYY-MM-DD')"
	}
	modifiers := map[string]string{"day": "", "week": ", 'weekday 0', '-6 days'", "month": ", 'start of month'"}
	return "date(at / 1000000, 'unixepoch'" + modifiers[unit] + ")"
}

// Costs returns the cost of calls, newest day first. It is exact for any interval: whole hours are
// pre-aggregated, and only the remainder is read from the calls.
func (s *callStore) Costs(ctx context.Context, q CostQuery) ([]CostRow, error) {
	columns, grouped, err := s.groups(q.By)
	if err != nil {
		return nil, err
	}
	f := &filter{}
	order, limit := q.order()
	text := "SELECT " + strings.Join(columns, ", ") + ", CAST(sum(calls) AS bigint), CAST(sum(errors) AS bigint)," +
		" CAST(sum(charged) AS bigint), CAST(sum(usd) AS bigint) FROM (" + f.parts(q) + ") AS parts" +
		groupBy(grouped) + " HAVING sum(calls) > 0 ORDER BY " + order + " LIMIT " + f.arg(limit)
	return collect(ctx, s.database, MaxGroups, func(s scanner) (r CostRow, err error) {
		err = s.Scan(&r.Account, &r.Server, &r.Tool, &r.Day, &r.Calls, &r.Errors, &r.Charged, &r.USD)
		return r, err
	}, text, f.args)
}

// groupBy returns the GROUP BY clause. If there are no columns, all rows form one group.
func groupBy(columns []string) string {
	if len(columns) == 0 {
		return ""
	}
	return " GROUP BY " + strings.Join(columns, ", ")
}

// Sources of costs.
const (
	partOfTotals = "SELECT account, server, tool, at, calls, errors, charged, usd FROM totals"
	partOfSums   = "SELECT account, server, tool, hour AS at, calls, errors, charged, usd FROM sums"
	partOfCalls  = "SELECT account, server, tool, at, 1 AS calls, CASE code WHEN 'OK' THEN 0 ELSE 1 END AS errors," +
		" CASE WHEN price > 0 THEN 1 ELSE 0 END AS charged, price AS usd FROM calls"
)

// parts returns a query over the parts of an interval: totals of its whole weeks, of the whole days
// around them, and of the whole hours around those; the sums for these hours that have not been
// moved to the totals yet; and the calls outside whole hours.
func (f *filter) parts(q CostQuery) string {
	var parts []string
	add := func(text, column string, grain grain, s span) {
		of := &filter{args: f.args}
		of.equal("grain", string(grain))
		of.equal("account", q.Account)
		of.between(column, s.since, s.until)
		f.args, parts = of.args, append(parts, text+of.String())
	}
	byAccount, byTool := q.Account != "" || slices.Contains(q.By, "account"), slices.Contains(q.By, "tool")
	hours, calls := span{q.Since, q.Until}.whole(time.Hour)
	add(partOfSums, "hour", "", hours)
	days, besides := hours.whole(day)
	for _, s := range besides {
		add(partOfTotals, "at", grainOf(byAccount, byTool, "hour"), s)
	}
	if slices.Contains(q.By, "day") || slices.Contains(q.By, "month") { // weeks overlap months
		besides = []span{days}
	} else {
		var weeks span
		weeks, besides = days.whole(week)
		add(partOfTotals, "at", grainOf(byAccount, byTool, "week"), weeks)
	}
	for _, s := range besides {
		add(partOfTotals, "at", grainOf(byAccount, byTool, "day"), s)
	}
	for _, s := range calls {
		add(partOfCalls, "at", "", s)
	}
	return strings.Join(parts, " UNION ALL ")
}

// span is a half-open interval. A zero time means no bound.
type span struct{ since, until time.Time }

// whole returns the whole units in a span, such as hours, and the spans before and after them.
func (s span) whole(unit time.Duration) (inner span, beside []span) {
	if inner = s; !s.since.IsZero() {
		inner.since = roundUp(s.since, unit)
	}
	if !s.until.IsZero() {
		inner.until = s.until.UTC().Truncate(unit)
	}
	if !s.until.IsZero() && inner.since.After(inner.until) { // there are no whole units
		return span{inner.since, inner.since}, []span{s}
	}
	if !inner.since.Equal(s.since) {
		beside = append(beside, span{s.since, inner.since})
	}
	if !inner.until.Equal(s.until) {
		beside = append(beside, span{inner.until, s.until})
	}
	return inner, beside
}

// Traffic returns the traffic for each minute in an interval, oldest first. Minutes with no calls
// are omitted, and minutes older than 8 days are deleted.
func (s *callStore) Traffic(ctx context.Context, since, until time.Time) ([]TrafficRow, error) {
	f := &filter{}
	f.between("minute", since, until)
	text := "SELECT minute, CAST(sum(calls) AS bigint), CAST(sum(errors) AS bigint), CAST(sum(usd) AS bigint) FROM minutes" + f.String() +
		" GROUP BY minute HAVING sum(calls) > 0 ORDER BY minute LIMIT " + f.arg(MaxMinutes+1)
	return collect(ctx, s.database, MaxMinutes, func(s scanner) (r TrafficRow, err error) {
		err = s.Scan(&r.At, &r.Calls, &r.Errors, &r.USD)
		r.At = r.At.UTC()
		return r, err
	}, text, f.args)
}
