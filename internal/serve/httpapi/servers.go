package httpapi

import (
	"context"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

type serversPage struct {
	Servers []ServerItem `json:"servers"`
}

type pendingPage struct {
	Pending []Pending `json:"pending"`
}

// picksBody names definitions that somebody has looked at.
type picksBody struct {
	Tools []Pick `json:"tools" minItems:"1" maxItems:"10000"`
}

type approved struct {
	Approved int `json:"approved"`
	Waiting  int `json:"waiting"`
}

type rejected struct {
	Rejected int `json:"rejected"`
	Waiting  int `json:"waiting"`
}

func (a *v1) getServers(*request) (*reply, error) {
	return &reply{body: serversPage{orEmpty(a.Yard.Servers())}}, nil
}

// server is the server that a request names, as it stands in the list.
func (a *v1) server(r *request) (ServerItem, error) {
	list, id := a.Yard.Servers(), r.PathValue("id")
	if i := slices.IndexFunc(list, func(s ServerItem) bool { return s.ID == id }); i >= 0 {
		return list[i], nil
	}
	return ServerItem{}, noServer(id)
}

func noServer(id string) error { return notFound("There is no server %s.", shown(id)) }

func (a *v1) getServer(r *request) (*reply, error) {
	s, ok := a.Yard.Server(r.PathValue("id"))
	if !ok {
		return nil, noServer(r.PathValue("id"))
	}
	s.Events, s.Pins = orEmpty(s.Events), orEmpty(s.Pins)
	if a.Calls != nil { // a record that does not answer is left out
		s.Latency, _ = ask(r, a, func(ctx context.Context) ([]store.LatencyRow, error) {
			return a.Calls.Latencies(ctx, store.LatencyQuery{Server: s.ID, Since: a.Now().Add(-latenciesSince)})
		})
	}
	return &reply{body: s}, nil
}

func (a *v1) getPending(r *request) (*reply, error) {
	s, err := a.server(r)
	if err != nil {
		return nil, err
	}
	list, err := a.Yard.Pending(s.ID)
	return done(pendingPage{orEmpty(list)}, err)
}

func (a *v1) approve(r *request) (*reply, error) {
	n, waiting, err := a.judge(r, func(id string, tools []Pick) error { return a.Yard.Approve(id, tools) })
	return done(approved{n, waiting}, err)
}

func (a *v1) reject(r *request) (*reply, error) {
	n, waiting, err := a.judge(r, func(id string, tools []Pick) error { return a.Yard.Reject(id, tools) })
	return done(rejected{n, waiting}, err)
}

// judge does something with definitions that are as they were when somebody looked at them.
func (a *v1) judge(r *request, do func(server string, tools []Pick) error) (n, waiting int, err error) {
	s, err := a.server(r)
	if err != nil {
		return 0, 0, err
	}
	body, err := read[picksBody](r, maxPicks)
	if err != nil {
		return 0, 0, err
	}
	if err := do(s.ID, body.Tools); err != nil {
		return 0, 0, err
	}
	s, err = a.server(r)
	return len(body.Tools), s.Waiting, err
}

// maxPicks is how many bytes a body may have that names definitions.
const maxPicks = 1 << 20

func (a *v1) retry(r *request) (*reply, error) {
	s, err := a.server(r)
	if err != nil {
		return nil, err
	}
	if err := a.Yard.Retry(s.ID); err != nil {
		return nil, err
	}
	return done(a.server(r))
}

// Picked finds the pending definitions that somebody has looked at. Its error is VersionConflict
// when one is another now.
func Picked[T any](pending []T, id func(T) Pick, wanted []Pick) (list []T, err error) {
	byTool := make(map[string]int, len(pending))
	for i, p := range pending {
		byTool[id(p).Tool] = i
	}
	for _, w := range wanted {
		i, ok := byTool[w.Tool]
		switch {
		case !ok:
			return nil, toolyard.Errorf(toolyard.VersionConflict, "%s does not wait for approval any more; look again.", shown(w.Tool))
		case id(pending[i]).Hash != w.Hash:
			return nil, toolyard.Errorf(toolyard.VersionConflict, "%s has changed since you looked at it; look again.", shown(w.Tool))
		}
		list = append(list, pending[i])
	}
	return list, nil
}
