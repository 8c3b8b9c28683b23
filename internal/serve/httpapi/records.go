package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Limits on queries to the call record.
const (
	maxQueries = 4 // maximum number of concurrent queries, to leave capacity for calls
	queryTime  = 5 * time.Second

	defaultLimit = 100 // rows per page
	maxChildren  = 200 // number of nested calls shown with a call

	costsSince     = 30 * 24 * time.Hour // default period
	latenciesSince = 24 * time.Hour
)

// recordReader queries the call record with limited concurrency.
type recordReader struct {
	calls Calls
	slots chan struct{} // holds a token for each running query
}

// recordHandler serves the call record.
type recordHandler struct {
	records *recordReader // may be nil
	live    Live          // may be nil
	now     func() time.Time
}

// callsPage is a page of the call record, newest first.
type callsPage struct {
	Calls []*store.CallRow `json:"calls"`
	Next  string           `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

type costsPage struct {
	Costs []store.CostRow `json:"costs"`
}

type latenciesPage struct {
	Latencies []store.LatencyRow `json:"latencies"`
}

// callDetail is a call including its result and nested calls.
type callDetail struct {
	*store.CallRow
	Result   json.RawMessage  `json:"result,omitempty" doc:"The result, if it is still in memory."`
	Children []*store.CallRow `json:"children" doc:"Calls made by its tool."`
}

// callParams are the filters for calls.
var callParams = []string{"account", "caller", "session", "server", "tool", "gate", "code", "failed", "parent", "since", "until"}

func (p *params) calls(c toolyard.Caller) store.CallQuery {
	return store.CallQuery{
		Account: p.account(c), Caller: p.values["caller"], Session: p.values["session"], Server: p.values["server"],
		Tool: p.values["tool"], Gate: p.values["gate"], Code: p.values["code"], Failed: p.flag("failed"), Parent: p.values["parent"],
		Since: p.time("since", time.Time{}), Until: p.time("until", time.Time{}),
	}
}

func (h *recordHandler) list(r *request) (*reply, error) {
	p := &r.params
	q := p.calls(r.caller)
	q.Before, q.Limit = p.cursor("before"), p.number("limit", defaultLimit, 1, store.MaxCalls)
	rows, err := query(r, h.records, func(ctx context.Context) ([]*store.CallRow, error) { return h.records.calls.Calls(ctx, q) })
	next := nextPage(rows, q.Limit, func(c *store.CallRow) (time.Time, string) { return c.At, c.ID })
	return respond(callsPage{rows, next}, err)
}

// get returns a call from the call record or from this replica's memory.
func (h *recordHandler) get(r *request) (*reply, error) {
	id := r.PathValue("id")
	none := notFound("Unknown call %q, or it belongs to another account.", shown(id))
	var detail callDetail
	if h.live != nil {
		if c, ok := h.live.Find(id); ok {
			detail.CallRow, detail.Result = c.CallRow, c.Result
		}
	}
	if h.records != nil && isVisibleASCII(id) && len(id) <= maxValue {
		rows, err := query(r, h.records, func(ctx context.Context) ([]*store.CallRow, error) {
			row, err := h.records.calls.Call(ctx, id)
			return []*store.CallRow{row}, err
		})
		if err != nil && detail.CallRow == nil && problemOf(err).Code != toolyard.NotFound {
			return nil, err
		}
		if err == nil {
			detail.CallRow = rows[0]
		}
	}
	if detail.CallRow == nil || !canView(r.caller, detail.Account) {
		return nil, none
	}
	if h.records != nil { // optional: omitted if the call record is unavailable
		detail.Children, _ = query(r, h.records, func(ctx context.Context) ([]*store.CallRow, error) {
			return h.records.calls.Calls(ctx, store.CallQuery{Parent: id, Since: detail.At, Until: detail.At.Add(detail.Elapsed + time.Minute), Limit: maxChildren})
		})
	}
	detail.Children = orEmpty(detail.Children)
	return &reply{body: detail}, nil
}

// canView reports whether a caller may see an account's calls.
func canView(c toolyard.Caller, account string) bool {
	return identity.Views(c) || c.Authenticated() && c.Account != "" && c.Account == account
}

func (h *recordHandler) costs(r *request) (*reply, error) {
	p := &r.params
	q := store.CostQuery{
		Account: p.account(r.caller), By: p.list("by", "tool", "account", "tool", "day", "week", "month"),
		Since: p.time("since", h.now().Add(-costsSince)), Until: p.time("until", time.Time{}),
		Top: p.number("top", 0, 1, store.MaxGroups), Most: store.Most(p.word("rankBy", string(store.Spent), string(store.Called))),
	}
	rows, err := query(r, h.records, func(ctx context.Context) ([]store.CostRow, error) { return h.records.calls.Costs(ctx, q) })
	return respond(costsPage{rows}, err)
}

func (h *recordHandler) latencies(r *request) (*reply, error) {
	p := &r.params
	q := store.LatencyQuery{
		Account: p.account(r.caller), Server: p.values["server"], Tool: p.values["tool"],
		Since: p.time("since", h.now().Add(-latenciesSince)), Until: p.time("until", time.Time{}),
	}
	rows, err := query(r, h.records, func(ctx context.Context) ([]store.LatencyRow, error) { return h.records.calls.Latencies(ctx, q) })
	return respond(latenciesPage{rows}, err)
}

type trafficPage struct {
	Minutes []store.TrafficRow `json:"minutes" doc:"All minutes, oldest first, including those in which there were no calls."`
}

func (h *recordHandler) traffic(r *request) (*reply, error) {
	n := r.params.number("minutes", 60, 1, 1440)
	until := h.now().UTC().Truncate(time.Minute).Add(time.Minute)
	since := until.Add(-time.Duration(n) * time.Minute)
	rows, err := query(r, h.records, func(ctx context.Context) ([]store.TrafficRow, error) {
		return h.records.calls.Traffic(ctx, since, until)
	})
	if err != nil {
		return nil, err
	}
	page := trafficPage{make([]store.TrafficRow, n)}
	for i := range page.Minutes {
		page.Minutes[i].At = since.Add(time.Duration(i) * time.Minute)
	}
	for _, row := range rows {
		if i := int(row.At.Sub(since) / time.Minute); i >= 0 && i < n {
			page.Minutes[i] = row
		}
	}
	return &reply{body: page}, nil
}

// query runs a query within the limits. It returns an empty list instead of nil.
func query[T any](r *request, records *recordReader, run func(context.Context) ([]T, error)) ([]T, error) {
	switch {
	case r.params.err != nil:
		return nil, r.params.err
	case records == nil:
		return nil, notFound("Call recording is not configured.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTime)
	defer cancel()
	select {
	case records.slots <- struct{}{}:
		defer func() { <-records.slots }()
	case <-ctx.Done():
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many concurrent queries. Try again.", RetryAfter: time.Second}
	}
	rows, err := run(ctx)
	if rows == nil {
		rows = []T{}
	}
	return rows, err
}

func (h *recordHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/traffic", id: "getTraffic", summary: "Get the number of calls in each of the last minutes.",
			access: viewer, query: []string{"minutes"}, gives: answer[trafficPage]("Traffic"), refusals: []int{400, 404}, serve: h.traffic,
		},
		{
			method: "GET", path: "/calls", id: "listCalls", summary: "List recorded calls, newest first. Calls from other accounts require the viewer scope.",
			access: caller, query: slices.Concat(callParams, pages), gives: answer[callsPage]("Calls"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "GET", path: "/calls/{id}", id: "getCall", summary: "Get a call with its call path steps and its nested calls.",
			access: caller, gives: answer[callDetail]("Call"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "GET", path: "/latencies", id: "listLatencies", summary: "Get latencies for the last 20,000 calls. Default period: the last day.",
			access: caller, query: []string{"account", "server", "tool", "since", "until"}, gives: answer[latenciesPage]("Latencies"), refusals: []int{400, 404}, serve: h.latencies,
		},
		{
			method: "GET", path: "/costs", id: "listCosts", summary: "Get call costs. Default period: the last 30 days.",
			access: caller, query: []string{"account", "by", "since", "until", "top", "rankBy"}, gives: answer[costsPage]("Costs"), refusals: []int{400, 404}, serve: h.costs,
		},
	}
}
