package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// Bounds on what one question to the record returns.
const (
	MaxCalls  = 1_000  // rows of Calls
	MaxGroups = 10_000 // rows of Costs and Latencies
)

// Cursor is a place in the record: behind the call with this time and id.
type Cursor struct {
	At time.Time
	ID string
}

// CallQuery selects calls. Empty fields select everything.
type CallQuery struct {
	Account, Caller, Session, Server, Tool, Gate, Code string

	Since, Until time.Time // Until itself is left out
	Before       Cursor    // only calls behind this place; the zero value is the beginning
	Limit        int       // at most MaxCalls, which zero means too
}

// CostQuery asks what calls have cost.
type CostQuery struct {
	Account      string // empty for all
	Since, Until time.Time
	By           []string // account, tool, day; none for one sum of everything
}

// CostRow is what a group of calls has cost. Fields that the query does not group by are
// empty.
type CostRow struct {
	Account string         `json:"account,omitempty"`
	Server  string         `json:"server,omitempty"`
	Tool    string         `json:"tool,omitempty"`
	Day     string         `json:"day,omitempty"` // in UTC: 2026-11-15
	Calls   int64          `json:"calls"`
	Charged int64          `json:"charged"` // of the calls, those that cost something
	USD     toolyard.Money `json:"usd"`
}

// LatencyQuery asks how long calls took. Empty fields select everything.
type LatencyQuery struct {
	Account, Server, Tool string
	Since, Until          time.Time
}

// LatencyRow is how long the calls of a tool took, whatever their outcome. A percentile is
// the time of one of the calls: the shortest that so many were not longer than.
type LatencyRow struct {
	Server string        `json:"server,omitempty"`
	Tool   string        `json:"tool"`
	Calls  int64         `json:"calls"`
	Errors int64         `json:"errors"` // of the calls, those that did not end well
	P50    time.Duration `json:"p50Ns"`
	P95    time.Duration `json:"p95Ns"`
	P99    time.Duration `json:"p99Ns"`
}

// filter collects conditions and their arguments. Arguments are numbered as they come, which
// is the order that SQLite counts in.
type filter struct {
	where []string
	args  []any
}

// arg adds an argument and returns its placeholder.
func (f *filter) arg(value any) string {
	f.args = append(f.args, value)
	return fmt.Sprintf("$%d", len(f.args))
}

func (f *filter) equal(column, value string) {
	if value != "" {
		f.where = append(f.where, column+" = "+f.arg(value))
	}
}

func (f *filter) between(since, until time.Time) {
	if !since.IsZero() {
		f.where = append(f.where, "at >= "+f.arg(since.UTC()))
	}
	if !until.IsZero() {
		f.where = append(f.where, "at < "+f.arg(until.UTC()))
	}
}

func (f *filter) String() string {
	if len(f.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.where, " AND ")
}

// Calls are calls on the record, the newest first.
func (s *Store) Calls(ctx context.Context, q CallQuery) ([]*CallRow, error) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("account", q.Account)
	f.equal("caller", q.Caller)
	if f.equal("session", q.Session); q.Session != "" {
		f.where = append(f.where, "session <> ''") // says what the index says
	}
	f.equal("server", q.Server)
	f.equal("tool", q.Tool)
	f.equal("gate", q.Gate)
	f.equal("code", q.Code)
	f.between(q.Since, q.Until)
	if !q.Before.At.IsZero() {
		f.where = append(f.where, fmt.Sprintf("(at, id) < (%s, %s)", f.arg(q.Before.At.UTC()), f.arg(q.Before.ID)))
	}
	text := "SELECT " + callTable.list() + " FROM calls" + f.String() + " ORDER BY at DESC, id DESC LIMIT " + f.arg(q.Limit)
	return collect(ctx, s, q.Limit, scanCall, text, f.args)
}

func scanCall(s scanner) (*CallRow, error) {
	var r CallRow
	var generation int64
	var args sql.NullString
	err := s.Scan(&r.ID, &r.At, &r.Elapsed, &r.Gate, &r.Mode, &r.Caller, &r.Account, &r.Session, &r.Server, &r.Tool, &generation,
		&r.Code, &r.Price, &r.ArgsSize, &r.ResultSize, &args)
	r.At, r.Generation = r.At.UTC(), uint64(generation) //nolint:gosec // it was one
	if args.String != "" {
		r.Args = json.RawMessage(args.String)
	}
	return &r, err
}

// groups are the columns that costs can be grouped by.
func (s *Store) groups(by []string) (columns []string, err error) {
	for _, g := range by {
		if !slices.Contains([]string{"account", "tool", "day"}, g) {
			return nil, toolyard.Errorf(toolyard.Invalid, "costs are by account, tool or day, not by %q", g)
		}
	}
	columns = []string{"''", "''", "''", "''"}
	if slices.Contains(by, "account") {
		columns[0] = "account"
	}
	if slices.Contains(by, "tool") {
		columns[1], columns[2] = "server", "tool"
	}
	if slices.Contains(by, "day") {
		columns[3] = s.dayOfCall()
	}
	return columns, nil
}

// Costs are what calls have cost, the newest day first.
func (s *Store) Costs(ctx context.Context, q CostQuery) ([]CostRow, error) {
	columns, err := s.groups(q.By)
	if err != nil {
		return nil, err
	}
	f := &filter{}
	f.equal("account", q.Account)
	f.between(q.Since, q.Until)
	text := "SELECT " + strings.Join(columns, ", ") + ", count(*), count(*) FILTER (WHERE price > 0)," +
		" CAST(coalesce(sum(price), 0) AS bigint) FROM calls" + f.String() +
		" GROUP BY 1, 2, 3, 4 ORDER BY 4 DESC, 1, 2, 3 LIMIT " + f.arg(MaxGroups+1)
	return collect(ctx, s, MaxGroups, func(s scanner) (r CostRow, err error) {
		err = s.Scan(&r.Account, &r.Server, &r.Tool, &r.Day, &r.Calls, &r.Charged, &r.USD)
		return r, err
	}, text, f.args)
}

// Latencies are how long the calls of each tool took. Of n calls in the order of their
// times, a percentile p is the time of the one with the number p*n/100, rounded up.
func (s *Store) Latencies(ctx context.Context, q LatencyQuery) ([]LatencyRow, error) {
	f := &filter{}
	f.equal("account", q.Account)
	f.equal("server", q.Server)
	f.equal("tool", q.Tool)
	f.between(q.Since, q.Until)
	percentiles, from := s.percentiles(f.String())
	text := "SELECT server, tool, count(*), count(*) FILTER (WHERE code <> 'OK'), " + percentiles + " FROM " + from +
		" GROUP BY server, tool ORDER BY server, tool LIMIT " + f.arg(MaxGroups+1)
	return collect(ctx, s, MaxGroups, func(s scanner) (r LatencyRow, err error) {
		err = s.Scan(&r.Server, &r.Tool, &r.Calls, &r.Errors, &r.P50, &r.P95, &r.P99)
		return r, err
	}, text, f.args)
}

// collect reads the rows of a query. More than most are an error: a part of an answer could
// be taken for the whole.
func collect[T any](ctx context.Context, s *Store, most int, scan func(scanner) (T, error), text string, args []any) (list []T, err error) {
	err = query(ctx, s.db, func(row scanner) error {
		if len(list) == most {
			return errTooManyRows
		}
		item, err := scan(row)
		list = append(list, item)
		return err
	}, text, args...)
	switch {
	case err == nil:
		return list, nil
	case errors.Is(err, errTooManyRows):
		return nil, toolyard.Errorf(toolyard.Invalid, "The answer has more than %d rows; ask for less time.", most)
	case ctx.Err() != nil: // it is the question that took too long
		return nil, fmt.Errorf("store: record of calls: %w", ctx.Err())
	}
	return nil, s.engine.explain(err)
}

var errTooManyRows = errors.New("too many rows")

// isLite reports whether the database is SQLite.
func (s *Store) isLite() bool {
	_, is := s.engine.(*lite)
	return is
}

// percentiles are the columns with the percentiles of calls, in SQL, and what they are read
// from. PostgreSQL has a function for them; SQLite has to number the calls of each tool.
func (s *Store) percentiles(where string) (columns, from string) {
	format := "percentile_disc(0.%d) WITHIN GROUP (ORDER BY elapsed_ns)"
	from = "calls" + where
	if s.isLite() {
		format = "max(elapsed_ns) FILTER (WHERE i = (n * %d + 99) / 100)"
		from = "(SELECT server, tool, code, elapsed_ns, count(*) OVER (PARTITION BY server, tool) AS n," +
			" row_number() OVER (PARTITION BY server, tool ORDER BY elapsed_ns) AS i FROM calls" + where + ")"
	}
	return fmt.Sprintf(format+", "+format+", "+format, 50, 95, 99), from
}

// dayOfCall is the day of a call in UTC, in SQL.
func (s *Store) dayOfCall() string {
	if s.isLite() {
		return "date(at / 1000000, 'unixepoch')"
	}
	return "to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
}
