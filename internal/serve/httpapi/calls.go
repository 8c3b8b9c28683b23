package httpapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Bounds on questions to the record.
const (
	maxQueries = 4 // that are answered at once; the store has other things to do
	queryTime  = 5 * time.Second

	defaultLimit = 100 // rows on a page
	maxChildren  = 200 // calls inside of a call that are shown with it

	costsSince     = 30 * 24 * time.Hour // when a question does not say since when
	latenciesSince = 24 * time.Hour
)

// callsPage is a page of the record, the newest call first.
type callsPage struct {
	Calls []*store.CallRow `json:"calls"`
	Next  string           `json:"next,omitempty" doc:"To be sent as before, to go on."`
}

type costsPage struct {
	Costs []store.CostRow `json:"costs"`
}

type latenciesPage struct {
	Latencies []store.LatencyRow `json:"latencies"`
}

// callDetail is a call with all that is known of it.
type callDetail struct {
	*store.CallRow
	Result   json.RawMessage  `json:"result,omitempty" doc:"As far as results are kept, which is in memory and not for long."`
	Children []*store.CallRow `json:"children" doc:"The calls that its tool made."`
}

// callParams select calls.
var callParams = []string{"account", "caller", "session", "server", "tool", "gate", "code", "failed", "parent", "since", "until"}

func (p *params) calls(c toolyard.Caller) store.CallQuery {
	return store.CallQuery{
		Account: p.account(c), Caller: p.values["caller"], Session: p.values["session"], Server: p.values["server"],
		Tool: p.values["tool"], Gate: p.values["gate"], Code: p.values["code"], Failed: p.flag("failed"), Parent: p.values["parent"],
		Since: p.time("since", time.Time{}), Until: p.time("until", time.Time{}),
	}
}

func (a *v1) getCalls(r *request) (*reply, error) {
	p := &r.params
	q := p.calls(r.caller)
	q.Before, q.Limit = p.cursor("before"), p.number("limit", defaultLimit, 1, store.MaxCalls)
	rows, err := ask(r, a, func(ctx context.Context) ([]*store.CallRow, error) { return a.Calls.Calls(ctx, q) })
	next := nextPage(rows, q.Limit, func(c *store.CallRow) (time.Time, string) { return c.At, c.ID })
	return done(callsPage{rows, next}, err)
}

// getCall shows a call that is on the record, or of which this replica still knows.
func (a *v1) getCall(r *request) (*reply, error) {
	id := r.PathValue("id")
	none := notFound("There is no call %s, or it is not yours.", shown(id))
	var detail callDetail
	if a.Live != nil {
		if c, ok := a.Live.Find(id); ok {
			detail.CallRow, detail.Result = c.CallRow, c.Result
		}
	}
	if a.Calls != nil && isPlain(id) && len(id) <= maxValue {
		rows, err := ask(r, a, func(ctx context.Context) ([]*store.CallRow, error) {
			row, err := a.Calls.Call(ctx, id)
			return []*store.CallRow{row}, err
		})
		if err != nil && detail.CallRow == nil && problemOf(err).Code != toolyard.NotFound {
			return nil, err
		}
		if err == nil {
			detail.CallRow = rows[0]
		}
	}
	if detail.CallRow == nil || !mayHear(r.caller, detail.Account) {
		return nil, none
	}
	if a.Calls != nil { // a record that does not answer is left out
		detail.Children, _ = ask(r, a, func(ctx context.Context) ([]*store.CallRow, error) {
			return a.Calls.Calls(ctx, store.CallQuery{Parent: id, Since: detail.At, Until: detail.At.Add(detail.Elapsed + time.Minute), Limit: maxChildren})
		})
	}
	detail.Children = orEmpty(detail.Children)
	return &reply{body: detail}, nil
}

// mayHear reports whether a caller may be told of the calls of an account.
func mayHear(c toolyard.Caller, account string) bool {
	return identity.Views(c) || c.Authenticated() && c.Account != "" && c.Account == account
}

func (a *v1) getCosts(r *request) (*reply, error) {
	p := &r.params
	q := store.CostQuery{
		Account: p.account(r.caller), By: p.list("by", "tool", "account", "tool", "day", "week", "month"),
		Since: p.time("since", a.Now().Add(-costsSince)), Until: p.time("until", time.Time{}),
		Top: p.number("top", 0, 1, store.MaxGroups), Most: store.Most(p.word("rankBy", string(store.Spent), string(store.Called))),
	}
	rows, err := ask(r, a, func(ctx context.Context) ([]store.CostRow, error) { return a.Calls.Costs(ctx, q) })
	return done(costsPage{rows}, err)
}

func (a *v1) getLatencies(r *request) (*reply, error) {
	p := &r.params
	q := store.LatencyQuery{
		Account: p.account(r.caller), Server: p.values["server"], Tool: p.values["tool"],
		Since: p.time("since", a.Now().Add(-latenciesSince)), Until: p.time("until", time.Time{}),
	}
	rows, err := ask(r, a, func(ctx context.Context) ([]store.LatencyRow, error) { return a.Calls.Latencies(ctx, q) })
	return done(latenciesPage{rows}, err)
}

// ask asks the record, within bounds. A list without rows is an empty one.
func ask[T any](r *request, a *v1, question func(context.Context) ([]T, error)) ([]T, error) {
	switch {
	case r.params.err != nil:
		return nil, r.params.err
	case a.Calls == nil:
		return nil, notFound("There is no record of calls here.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTime)
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
