package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/identity"
	"github.com/toolyard/toolyard/internal/store"
)

// Bounds on questions to the record.
const (
	maxQuery   = 8 << 10 // bytes of a query string
	maxValue   = 256     // bytes of a value in it
	maxQueries = 2       // that are answered at once; the store has other things to do
	queryTime  = 5 * time.Second

	defaultLimit = 100 // calls on a page

	costsSince     = 30 * 24 * time.Hour // when a question does not say since when
	latenciesSince = 24 * time.Hour
)

// maxMicros is the year 10000.
const maxMicros = 253_402_300_800_000_000

// callsPage is a page of the record, the newest call first.
type callsPage struct {
	Calls []*store.CallRow `json:"calls"`
	Next  string           `json:"next,omitempty"` // to be sent as before, to go on
}

type costsPage struct {
	Costs []store.CostRow `json:"costs"`
}

type latenciesPage struct {
	Latencies []store.LatencyRow `json:"latencies"`
}

func (a *v1) getCalls(_ http.ResponseWriter, r *http.Request, c toolyard.Caller) (*reply, error) {
	p := readParams(r.URL.RawQuery, "account", "caller", "session", "server", "tool", "gate", "code", "since", "until", "before", "limit")
	q := store.CallQuery{
		Account: p.account(c), Caller: p.values["caller"], Session: p.values["session"], Server: p.values["server"],
		Tool: p.values["tool"], Gate: p.values["gate"], Code: p.values["code"],
		Since: p.time("since", time.Time{}), Until: p.time("until", time.Time{}), Before: p.cursor("before"), Limit: p.limit(),
	}
	rows, err := ask(r.Context(), a, p, func(ctx context.Context) ([]*store.CallRow, error) { return a.Calls.Calls(ctx, q) })
	page := callsPage{Calls: rows}
	if err == nil && len(rows) == q.Limit {
		last := rows[len(rows)-1]
		page.Next = cursorText(last.At, last.ID)
	}
	return &reply{body: page}, err
}

func (a *v1) getCosts(_ http.ResponseWriter, r *http.Request, c toolyard.Caller) (*reply, error) {
	p := readParams(r.URL.RawQuery, "account", "by", "since", "until")
	q := store.CostQuery{
		Account: p.account(c), By: p.list("by", "tool", "account", "tool", "day"),
		Since: p.time("since", time.Now().Add(-costsSince)), Until: p.time("until", time.Time{}),
	}
	rows, err := ask(r.Context(), a, p, func(ctx context.Context) ([]store.CostRow, error) { return a.Calls.Costs(ctx, q) })
	return &reply{body: costsPage{rows}}, err
}

func (a *v1) getLatencies(_ http.ResponseWriter, r *http.Request, c toolyard.Caller) (*reply, error) {
	p := readParams(r.URL.RawQuery, "account", "server", "tool", "since", "until")
	q := store.LatencyQuery{
		Account: p.account(c), Server: p.values["server"], Tool: p.values["tool"],
		Since: p.time("since", time.Now().Add(-latenciesSince)), Until: p.time("until", time.Time{}),
	}
	rows, err := ask(r.Context(), a, p, func(ctx context.Context) ([]store.LatencyRow, error) { return a.Calls.Latencies(ctx, q) })
	return &reply{body: latenciesPage{rows}}, err
}

// ask asks the record, within bounds. A list without rows is an empty one.
func ask[T any](ctx context.Context, a *v1, p *params, question func(context.Context) ([]T, error)) ([]T, error) {
	switch {
	case p.err != nil:
		return nil, p.err
	case a.Calls == nil:
		return nil, notFound("There is no record of calls here.")
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	select {
	case a.queries <- struct{}{}:
		defer func() { <-a.queries }()
	case <-ctx.Done():
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many ask about the record of calls at once.", RetryAfter: time.Second}
	}
	rows, err := question(ctx)
	if rows == nil {
		rows = []T{}
	}
	return rows, err
}

// params are the parameters of a question, and the first thing that is wrong with them.
type params struct {
	values map[string]string
	err    error
}

// readParams reads a query string. Each parameter is known and stands in it once.
func readParams(query string, known ...string) *params {
	p := &params{values: make(map[string]string)}
	if len(query) > maxQuery {
		p.fail(invalid("The query string has more than %d bytes.", maxQuery))
		return p
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		p.fail(invalid("The query string cannot be read."))
	}
	for name, list := range values {
		switch {
		case !slices.Contains(known, name):
			p.fail(issue(shown(name), "is not known; there are "+strings.Join(known, ", ")))
		case len(list) > 1:
			p.fail(issue(name, "must stand there once"))
		case len(list[0]) > maxValue || !utf8.ValidString(list[0]) || strings.ContainsRune(list[0], 0):
			p.fail(issue(name, "must be a text of at most 256 bytes"))
		default:
			p.values[name] = list[0]
		}
	}
	return p
}

func (p *params) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// account is the account that the question is about: the caller's own, or for an admin the
// one that is asked for, or none for all.
func (p *params) account(c toolyard.Caller) string {
	asked := p.values["account"]
	if c.Known() && slices.Contains(c.Roles, identity.Admin) {
		return asked
	}
	own, err := accountOf(c)
	switch {
	case err != nil:
		p.err = err // before anything else that is wrong
	case asked != "" && asked != own:
		p.fail(toolyard.Errorf(toolyard.Denied, "Only who has the role admin may see other accounts."))
	}
	return own
}

func (p *params) time(name string, otherwise time.Time) time.Time {
	text := p.values[name]
	if text == "" {
		return otherwise
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.fail(issue(name, "must be a time such as 2026-11-15T10:00:00Z"))
	}
	return t
}

func (p *params) limit() int {
	text := p.values["limit"]
	if text == "" {
		return defaultLimit
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > store.MaxCalls {
		p.fail(issue("limit", "must be between 1 and "+strconv.Itoa(store.MaxCalls)))
	}
	return n
}

// list is a list of words with commas between them, each one of known.
func (p *params) list(name, otherwise string, known ...string) []string {
	text := p.values[name]
	if text == "" {
		return []string{otherwise}
	}
	words := strings.Split(text, ",")
	for i, word := range words {
		if !slices.Contains(known, word) || slices.Contains(words[:i], word) {
			p.fail(issue(name, "must be some of "+strings.Join(known, ",")))
		}
	}
	return words
}

// cursor reads what cursorText writes.
func (p *params) cursor(name string) (c store.Cursor) {
	text := p.values[name]
	if text == "" {
		return c
	}
	micros, id, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !ok || err != nil || n < 0 || n > maxMicros || id == "" {
		p.fail(issue(name, "must be what next was on another page"))
		return c
	}
	return store.Cursor{At: time.UnixMicro(n).UTC(), ID: id}
}

// cursorText is the place behind a call, as callers send it back.
func cursorText(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMicro(), 10) + "." + id
}
