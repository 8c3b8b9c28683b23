package httpapi

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// overview is what a person wants to know first.
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
	Waiting    int          `json:"waiting" doc:"Definitions that wait for approval."`
	Pending    []Waiting    `json:"pending" doc:"The first of them."`
	Today      totals       `json:"today" doc:"Since midnight, in UTC."`
	Top        []topTool    `json:"top" doc:"The tools that were called most today."`
	Silent     string       `json:"recordError,omitempty" doc:"Why nothing can be said of today."`
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
)

func (a *v1) getOverview(r *request) (*reply, error) {
	about, snapshot := a.Yard.About(), a.Yard.Snapshot()
	o := overview{
		Yard: about.Name, Version: about.Version, Replica: about.Replica, Since: about.Since, Store: storeState{about.Store, about.StoreUp},
		Generation: snapshot.Generation, Tools: len(snapshot.Tools), Gates: len(snapshot.Views), Problems: len(snapshot.Problems),
		Pending: []Waiting{}, Top: []topTool{},
	}
	for _, s := range a.Yard.Servers() {
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
			waiting := a.Yard.Waiting(s.ID)
			o.Pending = append(o.Pending, waiting[:min(len(waiting), maxPendingShown-len(o.Pending))]...)
		}
	}
	if a.Calls != nil {
		if err := a.addUp(r, &o); err != nil { // the rest is worth knowing all the same
			o.Silent = problemOf(err).Message
		}
	}
	return &reply{body: o}, nil
}

// addUp adds what the record says of today.
func (a *v1) addUp(r *request, o *overview) error {
	midnight := a.Now().UTC().Truncate(24 * time.Hour)
	rows, err := ask(r, a, func(ctx context.Context) ([]store.CostRow, error) {
		return a.Calls.Costs(ctx, store.CostQuery{Since: midnight})
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		o.Today = totals{row.Calls, row.Errors, row.USD}
	}
	rows, err = ask(r, a, func(ctx context.Context) ([]store.CostRow, error) {
		return a.Calls.Costs(ctx, store.CostQuery{Since: midnight, By: []string{"tool"}, Top: maxTop, Most: store.Called})
	})
	for _, row := range rows {
		o.Top = append(o.Top, topTool{row.Server, row.Tool, totals{row.Calls, row.Errors, row.USD}})
	}
	return err
}

type trafficPage struct {
	Minutes []store.TrafficRow `json:"minutes" doc:"The oldest first, each of them, also without calls."`
}

func (a *v1) getTraffic(r *request) (*reply, error) {
	n := r.params.number("minutes", 60, 1, 1440)
	until := a.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	since := until.Add(-time.Duration(n) * time.Minute)
	rows, err := ask(r, a, func(ctx context.Context) ([]store.TrafficRow, error) { return a.Calls.Traffic(ctx, since, until) })
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

type problemsPage struct {
	Problems []toolyard.Problem `json:"problems"`
}

func (a *v1) getProblems(*request) (*reply, error) {
	return &reply{body: problemsPage{orEmpty(a.Yard.Snapshot().Problems)}}, nil
}

type limitsPage struct {
	At     time.Time `json:"at"`
	Limits []Limit   `json:"limits"`
}

func (a *v1) getLimits(r *request) (*reply, error) {
	list, err := a.Yard.Limits(r.Context())
	return done(limitsPage{a.Now().UTC(), orEmpty(list)}, err)
}
