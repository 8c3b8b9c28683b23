package httpapi

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
)

// overviewHandler serves the yard's state.
type overviewHandler struct {
	yard    Yard
	records *recordReader // may be nil
	now     func() time.Time
}

// overview summarizes the state of the yard.
type overview struct {
	Yard       string       `json:"yard"`
	Version    string       `json:"version"`
	Replica    string       `json:"replica"`
	Since      time.Time    `json:"since"`
	Generation uint64       `json:"generation"`
	Store      storeState   `json:"store"`
	Tools      int          `json:"tools"`
	Gates      int          `json:"gates"`
	Servers    serverStates `json:"servers"`
	Problems   int          `json:"problems"`
	Approvals  int          `json:"approvals" doc:"Number of calls waiting for approval, at most 100."`
	Waiting    int          `json:"waiting" doc:"Number of definitions waiting for approval."`
	Pending    []Waiting    `json:"pending" doc:"The first of these definitions."`
	Today      totals       `json:"today" doc:"Since midnight UTC."`
	Top        []topTool    `json:"top" doc:"The most called tools today."`
	RecordErr  string       `json:"recordError,omitempty" doc:"Why today is not available."`
}

type storeState struct {
	Kind string `json:"kind"`
	Up   bool   `json:"up"`
}

type serverStates struct {
	Up       int `json:"up"`
	Down     int `json:"down"`
	Starting int `json:"starting"`
}

type totals struct {
	Calls  int64          `json:"calls"`
	Errors int64          `json:"errors"`
	USD    toolyard.Money `json:"usd"`
}

type topTool struct {
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool"`
	totals
}

const (
	maxPendingShown = 20
	maxTop          = 10

	maxApprovalsShown = 100
)

func (h *overviewHandler) get(r *request) (*reply, error) {
	about, snapshot := h.yard.About(), h.yard.Snapshot()
	o := overview{
		Yard: about.Name, Version: about.Version, Replica: about.Replica, Since: about.Since, Store: storeState{about.Store, about.StoreUp},
		Generation: snapshot.Generation, Tools: len(snapshot.Tools), Gates: len(snapshot.Views), Problems: len(snapshot.Problems),
		Pending: []Waiting{}, Top: []topTool{},
	}
	for _, s := range h.yard.Servers() {
		switch s.State {
		case "up":
			o.Servers.Up++
		case "starting":
			o.Servers.Starting++
		default:
			o.Servers.Down++
		}
		o.Waiting += s.Waiting
		if s.Waiting > 0 && len(o.Pending) < maxPendingShown {
			waiting := h.yard.Waiting(s.ID)
			o.Pending = append(o.Pending, waiting[:min(len(waiting), maxPendingShown-len(o.Pending))]...)
		}
	}
	if approvals := h.yard.Approvals(); approvals != nil {
		pending, err := approvals.Approvals(r.Context(), store.ApprovalQuery{State: ledger.ApprovalPending, Limit: maxApprovalsShown})
		if err == nil { // the rest is still useful
			o.Approvals = len(pending)
		}
	}
	if h.records != nil {
		if err := h.addToday(r, &o); err != nil { // the rest is still useful
			o.RecordErr = problemOf(err).Message
		}
	}
	return &reply{body: o}, nil
}

// addToday adds today's totals from the call record.
func (h *overviewHandler) addToday(r *request, o *overview) error {
	midnight := h.now().UTC().Truncate(24 * time.Hour)
	rows, err := query(r, h.records, func(ctx context.Context) ([]store.CostRow, error) {
		return h.records.calls.Costs(ctx, store.CostQuery{Since: midnight})
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		o.Today = totals{row.Calls, row.Errors, row.USD}
	}
	rows, err = query(r, h.records, func(ctx context.Context) ([]store.CostRow, error) {
		return h.records.calls.Costs(ctx, store.CostQuery{Since: midnight, By: []string{"tool"}, Top: maxTop, Most: store.Called})
	})
	for _, row := range rows {
		o.Top = append(o.Top, topTool{row.Server, row.Tool, totals{row.Calls, row.Errors, row.USD}})
	}
	return err
}

type problemsPage struct {
	Problems []toolyard.Problem `json:"problems"`
}

func (h *overviewHandler) problems(*request) (*reply, error) {
	return &reply{body: problemsPage{orEmpty(h.yard.Snapshot().Problems)}}, nil
}

type limitsPage struct {
	At     time.Time `json:"at"`
	Limits []Limit   `json:"limits"`
}

func (h *overviewHandler) limits(r *request) (*reply, error) {
	list, err := h.yard.Limits(r.Context())
	return respond(limitsPage{h.now().UTC(), orEmpty(list)}, err)
}

func (h *overviewHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/overview", id: "getOverview", summary: "Get the state of the yard.",
			access: viewer, gives: answer[overview]("Overview"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "GET", path: "/problems", id: "listProblems", summary: "List problems that need attention.",
			access: viewer, gives: answer[problemsPage]("Problems"), refusals: []int{404}, serve: h.problems,
		},
		{
			method: "GET", path: "/limits", id: "listLimits", summary: "List enforced limits with their current usage.",
			access: viewer, gives: answer[limitsPage]("Limits"), refusals: []int{404}, serve: h.limits,
		},
	}
}
