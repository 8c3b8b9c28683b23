package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
)

// Maximum number of rows in a result.
const (
	MaxCalls  = 1_000  // for Calls, Sessions and Changes
	MaxGroups = 10_000 // for Costs and Latencies
	// MaxTimed is the maximum number of calls that Latencies evaluates.
	MaxTimed = 20_000
)

// Cursor is a position in a list of calls, just after the call with this time and ID.
type Cursor struct {
	At time.Time
	ID string
}

// CallQuery selects calls. Empty fields don't restrict the selection.
type CallQuery struct {
	ID, Parent, Account, Caller, Session, Server, Tool, Gate, Code string

	Failed       bool      // selects only calls whose code is not OK
	Since, Until time.Time // Until is exclusive
	Ended        time.Time // selects only calls that ended after this time and started at most a minute before it
	Before       Cursor    // only calls after this position; zero for the first page
	Limit        int       // MaxCalls if zero or greater
}

// Local selects calls to tools that do not belong to a server, if it is used as the server.
const Local = "-"

// from selects a server's tools, or the local ones.
func (f *filter) from(server string) {
	if server == Local {
		f.where = append(f.where, "server = ''")
		return
	}
	f.equal("server", server)
}

// LatencyQuery selects calls for Latencies. Empty fields don't restrict the selection.
type LatencyQuery struct {
	Account, Server, Tool string
	Since, Until          time.Time
}

// LatencyRow is the latency of a tool's calls, regardless of their outcome. A percentile is the
// latency of an actual call: the lowest value that this share of the calls did not exceed.
type LatencyRow struct {
	Server string        `json:"server,omitempty"`
	Tool   string        `json:"tool"`
	Calls  int64         `json:"calls"`
	Errors int64         `json:"errors"` // number of calls that failed
	P50    time.Duration `json:"p50Ns"`
	P95    time.Duration `json:"p95Ns"`
	P99    time.Duration `json:"p99Ns"`
}

// filter collects conditions and their arguments. Arguments are numbered in order because SQLite
// requires it.
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

// between adds the condition that a time is in a half-open interval. Stored times are in whole
// microseconds, so bounds are rounded up.
func (f *filter) between(column string, since, until time.Time) {
	if !since.IsZero() {
		f.where = append(f.where, column+" >= "+f.arg(roundUp(since, time.Microsecond)))
	}
	if !until.IsZero() {
		f.where = append(f.where, column+" < "+f.arg(roundUp(until, time.Microsecond)))
	}
}

// behind adds the condition that a row comes after a position in a list that starts with the
// newest.
func (f *filter) behind(column string, at time.Time, id string) {
	if !at.IsZero() {
		f.where = append(f.where, fmt.Sprintf("(%s, id) < (%s, %s)", column, f.arg(at.UTC()), f.arg(id)))
	}
}

// roundUp returns the first whole unit that is not before t.
func roundUp(t time.Time, unit time.Duration) time.Time {
	down := t.UTC().Truncate(unit)
	if down.Before(t) {
		return down.Add(unit)
	}
	return down
}

func (f *filter) String() string {
	if len(f.where) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.where, " AND ")
}

// Calls returns recorded calls, newest first.
func (s *callStore) Calls(ctx context.Context, q CallQuery) ([]*CallRow, error) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("id", q.ID)
	f.equal("parent", q.Parent)
	f.equal("account", q.Account)
	f.equal("caller", q.Caller)
	if f.equal("session", q.Session); q.Session != "" {
		f.where = append(f.where, "session <> ''") // matches the condition of the index
	}
	f.from(q.Server)
	f.equal("tool", q.Tool)
	f.equal("gate", q.Gate)
	if f.equal("code", q.Code); q.Failed || q.Code != "" && q.Code != string(toolyard.OK) {
		f.where = append(f.where, "code <> 'OK'") // matches the condition of the index
	}
	f.between("at", q.Since, q.Until)
	if !q.Ended.IsZero() {
		f.between("at", q.Ended.Add(-time.Minute), time.Time{})
		f.between(s.endOfCall(), q.Ended, time.Time{})
	}
	f.behind("at", q.Before.At, q.Before.ID)
	text := "SELECT " + callTable.list() + " FROM calls" + f.String() + " ORDER BY at DESC, id DESC LIMIT " + f.arg(q.Limit)
	return collect(ctx, s.database, q.Limit, scanCall, text, f.args)
}

// Call returns a recorded call. The error is NotFound if it does not exist.
func (s *callStore) Call(ctx context.Context, id string) (*CallRow, error) {
	if id != "" {
		q := CallQuery{ID: id, Limit: 1}
		within := q
		if at, ok := ident.CallTime(id); ok { // usually restricts the search to one partition
			within.Since, within.Until = at, at.Add(time.Millisecond)
		}
		list, err := s.Calls(ctx, within)
		if err == nil && len(list) == 0 && within != q {
			list, err = s.Calls(ctx, q)
		}
		if err != nil {
			return nil, err
		}
		if len(list) == 1 {
			return list[0], nil
		}
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Recorded call %s not found.", id)
}

// endOfCall returns the SQL expression for the end of a call.
func (s *callStore) endOfCall() string {
	if s.isLite() {
		return "at + elapsed_ns / 1000"
	}
	return "at + elapsed_ns / 1000 * interval '1 microsecond'"
}

func scanCall(s scanner) (*CallRow, error) {
	var r CallRow
	var generation int64
	var args, parent, message, marks sql.NullString
	var asOf *time.Time
	err := s.Scan(&r.ID, &r.At, &r.Elapsed, &r.Gate, &r.Mode, &r.Caller, &r.Account, &r.Session, &r.Server, &r.Tool, &generation,
		&r.Code, &r.Price, &r.ArgsSize, &r.ResultSize, &args, &parent, &message, &marks, &asOf)
	r.At, r.Generation = r.At.UTC(), uint64(generation) //nolint:gosec // was stored as int64
	r.Parent, r.Message, r.Marks = parent.String, message.String, parseMarks(marks.String)
	if asOf != nil {
		r.AsOf = asOf.UTC()
	}
	if args.String != "" {
		r.Args = json.RawMessage(args.String)
	}
	return &r, err
}

// Latencies returns each tool's latency over the latest MaxTimed matching calls. Of n calls sorted
// by latency, percentile p is call number p*n/100, rounded up.
func (s *callStore) Latencies(ctx context.Context, q LatencyQuery) ([]LatencyRow, error) {
	f := &filter{}
	f.equal("account", q.Account)
	f.from(q.Server)
	f.equal("tool", q.Tool)
	f.between("at", q.Since, q.Until)
	percentiles, from := s.percentiles("(SELECT server, tool, code, elapsed_ns FROM calls" + f.String() +
		" ORDER BY at DESC, id DESC LIMIT " + f.arg(MaxTimed) + ") AS newest")
	text := "SELECT server, tool, count(*), count(*) FILTER (WHERE code <> 'OK'), " + percentiles + " FROM " + from +
		" GROUP BY server, tool ORDER BY server, tool LIMIT " + f.arg(MaxGroups+1)
	return collect(ctx, s.database, MaxGroups, func(s scanner) (r LatencyRow, err error) {
		err = s.Scan(&r.Server, &r.Tool, &r.Calls, &r.Errors, &r.P50, &r.P95, &r.P99)
		return r, err
	}, text, f.args)
}

// collect reads a query's rows. It returns an error if there are more than most rows, because a
// truncated result could be mistaken for a complete one.
func collect[T any](ctx context.Context, d *database, most int, scan func(scanner) (T, error), text string, args []any) (list []T, err error) {
	if !d.isLite() {
		args = append([]any{pgx.QueryExecModeCacheDescribe}, args...) // plans each query for its arguments
	}
	err = query(ctx, d.reports, func(row scanner) error {
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
		return nil, toolyard.Errorf(toolyard.Invalid, "The result has more than %d rows. Choose a shorter period.", most)
	case ctx.Err() != nil: // the query took too long
		return nil, fmt.Errorf("store: recorded calls: %w", ctx.Err())
	}
	return nil, d.engine.explain(err)
}

var errTooManyRows = errors.New("too many rows")

// isLite reports whether the database is SQLite.
func (s *database) isLite() bool {
	_, is := s.engine.(*lite)
	return is
}

// percentiles returns the SQL columns for the percentiles and the source to select them from.
// PostgreSQL has a function for percentiles; in SQLite, each tool's calls have to be numbered.
func (s *callStore) percentiles(calls string) (columns, from string) {
	format := "percentile_disc(0.%d) WITHIN GROUP (ORDER BY elapsed_ns)"
	from = calls
	if s.isLite() {
		format = "max(elapsed_ns) FILTER (WHERE i = (n * %d + 99) / 100)"
		from = "(SELECT server, tool, code, elapsed_ns, count(*) OVER (PARTITION BY server, tool) AS n," +
			" row_number() OVER (PARTITION BY server, tool ORDER BY elapsed_ns) AS i FROM " + calls + ")"
	}
	return fmt.Sprintf(format+", "+format+", "+format, 50, 95, 99), from
}
