package httpapi

import (
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// QueryRecord holds the data stored for a query in addition to its columns.
type QueryRecord struct {
	Answer     *agent.Answer `json:"answer"`
	Gate       string        `json:"gate"`
	Text       string        `json:"text" doc:"The question."`
	Shape      agent.Shape   `json:"shape"`
	Error      toolyard.Code `json:"error,omitempty"`
	DurationMS int64         `json:"durationMs"`
	Until      time.Time     `json:"until" doc:"The deadline of the query."`
	Turns      []agent.Turn  `json:"turns"`
	Spans      []agent.Span  `json:"spans" doc:"When the calls ran."`
}

// queryItem is a query in a list.
type queryItem struct {
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	Agent      string          `json:"agent"`
	Account    string          `json:"account"`
	Caller     string          `json:"caller"`
	Outcome    string          `json:"outcome" enum:"answer,capability_miss,failed,running,lost" doc:"lost: its replica stopped before the query ended."`
	Text       string          `json:"text"`
	Error      toolyard.Code   `json:"error,omitempty"`
	DurationMS int64           `json:"durationMs"`
	Usage      agent.Usage     `json:"usage"`
	Price      toolyard.Money  `json:"priceUsd"`
	ModelCost  *toolyard.Money `json:"modelCostUsd,omitempty" doc:"Cost of the model. Only for callers with the viewer scope."`
	ToolCost   *toolyard.Money `json:"toolCostUsd,omitempty" doc:"Price of its calls at an execute gate. Only for callers with the viewer scope."`
}

type queriesPage struct {
	Queries []queryItem `json:"queries"`
	Next    string      `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

type queryDetail struct {
	queryItem
	Answer *agent.Answer `json:"answer"`
	Gate   string        `json:"gate"`
	Shape  agent.Shape   `json:"shape"`
	Turns  []agent.Turn  `json:"turns"`
	Spans  []agent.Span  `json:"spans" doc:"When the calls ran."`
}

// queryLost is the outcome of a query that did not finish by its deadline because its replica was
// killed.
const queryLost = "lost"

func (h *queryHandler) list(r *request) (*reply, error) {
	if h.opts.Store == nil {
		return nil, errNoJobs
	}
	p := &r.params
	q := store.QueryFilter{
		Account: p.account(r.caller), Agent: p.values["agent"], Caller: p.values["caller"], Outcome: p.word("outcome", "", "answer", "capability_miss", "failed", store.QueryRunning),
		Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	if p.err != nil {
		return nil, p.err
	}
	rows, err := h.opts.Store.Queries(r.Context(), q)
	if err != nil {
		return nil, err
	}
	page := queriesPage{Queries: []queryItem{}, Next: nextPage(rows, q.Limit, func(q *store.QueryRow) (time.Time, string) { return q.At, q.ID })}
	for _, row := range rows {
		item, _, err := h.newItem(row, r.caller)
		if err != nil {
			return nil, err
		}
		page.Queries = append(page.Queries, item)
	}
	return &reply{body: page}, nil
}

func (h *queryHandler) get(r *request) (*reply, error) {
	if h.opts.Store == nil {
		return nil, errNoJobs
	}
	account := r.params.account(r.caller)
	if r.params.err != nil {
		return nil, r.params.err
	}
	row, err := h.opts.Store.Query(r.Context(), account, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	item, record, err := h.newItem(row, r.caller)
	if err != nil {
		return nil, err
	}
	if item.ModelCost == nil {
		for i := range record.Turns {
			record.Turns[i].Cost = 0
		}
	}
	return &reply{body: queryDetail{item, record.Answer, record.Gate, record.Shape, orEmpty(record.Turns), orEmpty(record.Spans)}}, nil
}

func (h *queryHandler) newItem(row *store.QueryRow, c toolyard.Caller) (queryItem, *QueryRecord, error) {
	record := &QueryRecord{Answer: &agent.Answer{}}
	if err := json.Unmarshal(row.Body, record); err != nil {
		return queryItem{}, nil, err
	}
	item := queryItem{
		ID: row.ID, At: row.At, Agent: row.Agent, Account: row.Account, Caller: row.Caller, Outcome: row.Outcome, Text: record.Text, Error: record.Error,
		DurationMS: record.DurationMS, Usage: record.Answer.Usage, Price: record.Answer.Cost.Price,
	}
	if now := h.now(); row.Outcome == store.QueryRunning {
		item.DurationMS = max(0, now.Sub(row.At).Milliseconds()) // the replicas' clocks may differ
		if now.After(record.Until.Add(jobGrace)) {
			item.Outcome, item.DurationMS = queryLost, record.DurationMS
		}
	}
	if identity.Views(c) {
		item.ModelCost, item.ToolCost = &row.Model, &row.Tools
	}
	return item, record, nil
}
