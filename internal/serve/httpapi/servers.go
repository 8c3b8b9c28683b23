package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// serverHandler serves MCP servers and the review of their definitions.
type serverHandler struct {
	yard    Yard
	records *recordReader // may be nil
	now     func() time.Time
}

type serversPage struct {
	Servers []ServerItem `json:"servers"`
}

type pendingPage struct {
	Pending []Pending `json:"pending"`
}

// reviewBody lists the definitions that an operator has reviewed.
type reviewBody struct {
	Tools []DefinitionRef `json:"tools" minItems:"1" maxItems:"10000"`
}

type approved struct {
	Approved int `json:"approved"`
	Waiting  int `json:"waiting"`
}

type rejected struct {
	Rejected int `json:"rejected"`
	Waiting  int `json:"waiting"`
}

func (h *serverHandler) list(*request) (*reply, error) {
	return &reply{body: serversPage{orEmpty(h.yard.Servers())}}, nil
}

// server returns the server in the path.
func (h *serverHandler) server(r *request) (ServerItem, error) {
	list, id := h.yard.Servers(), r.PathValue("id")
	if i := slices.IndexFunc(list, func(s ServerItem) bool { return s.ID == id }); i >= 0 {
		return list[i], nil
	}
	return ServerItem{}, unknownServer(id)
}

func unknownServer(id string) error { return notFound("Unknown server %q.", shown(id)) }

func (h *serverHandler) get(r *request) (*reply, error) {
	s, ok := h.yard.Server(r.PathValue("id"))
	if !ok {
		return nil, unknownServer(r.PathValue("id"))
	}
	s.Events, s.Pins = orEmpty(s.Events), orEmpty(s.Pins)
	if h.records != nil { // optional: omitted if the call record is unavailable
		s.Latency, _ = query(r, h.records, func(ctx context.Context) ([]store.LatencyRow, error) {
			return h.records.calls.Latencies(ctx, store.LatencyQuery{Server: s.ID, Since: h.now().Add(-latenciesSince)})
		})
	}
	return &reply{body: s}, nil
}

func (h *serverHandler) pending(r *request) (*reply, error) {
	s, err := h.server(r)
	if err != nil {
		return nil, err
	}
	list, err := h.yard.Pending(s.ID)
	return respond(pendingPage{orEmpty(list)}, err)
}

func (h *serverHandler) approve(r *request) (*reply, error) {
	n, waiting, err := h.judge(r, func(id string, tools []DefinitionRef) error { return h.yard.Approve(id, tools) })
	return respond(approved{n, waiting}, err)
}

func (h *serverHandler) reject(r *request) (*reply, error) {
	n, waiting, err := h.judge(r, func(id string, tools []DefinitionRef) error { return h.yard.Reject(id, tools) })
	return respond(rejected{n, waiting}, err)
}

// judge applies a decision to the definitions in the body.
func (h *serverHandler) judge(r *request, do func(server string, tools []DefinitionRef) error) (n, waiting int, err error) {
	s, err := h.server(r)
	if err != nil {
		return 0, 0, err
	}
	body, err := read[reviewBody](r, largeBody)
	if err != nil {
		return 0, 0, err
	}
	if err := do(s.ID, body.Tools); err != nil {
		return 0, 0, err
	}
	s, err = h.server(r)
	return len(body.Tools), s.Waiting, err
}

func (h *serverHandler) retry(r *request) (*reply, error) {
	s, err := h.server(r)
	if err != nil {
		return nil, err
	}
	if err := h.yard.Retry(s.ID); err != nil {
		return nil, err
	}
	return respond(h.server(r))
}

// SelectPending returns the pending definitions that refs refers to. The error is VersionConflict
// if one of them has changed since it was reviewed.
func SelectPending[T any](pending []T, ref func(T) DefinitionRef, refs []DefinitionRef) (list []T, err error) {
	byTool := make(map[string]int, len(pending))
	for i, p := range pending {
		byTool[ref(p).Tool] = i
	}
	for _, w := range refs {
		i, ok := byTool[w.Tool]
		switch {
		case !ok:
			return nil, toolyard.Errorf(toolyard.VersionConflict, "%s is no longer pending approval. Reload and try again.", shown(w.Tool))
		case ref(pending[i]).Hash != w.Hash:
			return nil, toolyard.Errorf(toolyard.VersionConflict, "%s has changed since you reviewed it. Reload and try again.", shown(w.Tool))
		}
		list = append(list, pending[i])
	}
	return list, nil
}

func (h *serverHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/servers", id: "listServers", summary: "List MCP servers.",
			access: viewer, gives: answer[serversPage]("Servers"), refusals: []int{404}, serve: h.list,
		},
		{
			method: "GET", path: "/servers/{id}", id: "getServer", summary: "Get an MCP server with its events, standard error and approved definitions.",
			access: viewer, gives: answer[ServerDetail]("Server"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "GET", path: "/servers/{id}/pending", id: "listPending", summary: "List a server's definitions that differ from the approved ones.",
			access: viewer, gives: answer[pendingPage]("Pending"), refusals: []int{404}, serve: h.pending,
		},
		{
			method: "POST", path: "/servers/{id}/approve", id: "approveDefinitions", summary: "Approve definitions as reviewed.",
			access: operator, action: "server.approve", takes: body[reviewBody]("DefinitionRefs"), gives: answer[approved]("Approved"), refusals: []int{400, 404, 409, 413}, serve: h.approve,
		},
		{
			method: "POST", path: "/servers/{id}/reject", id: "rejectDefinitions", summary: "Reject definitions as reviewed. They stay withheld.",
			access: operator, action: "server.reject", takes: body[reviewBody]("DefinitionRefs"), gives: answer[rejected]("Rejected"), refusals: []int{400, 404, 409, 413}, serve: h.reject,
		},
		{
			method: "POST", path: "/servers/{id}/retry", id: "retryServer", summary: "Reconnect to a server without waiting for the next retry, or reload the definitions of a server that is already connected.",
			access: operator, action: "server.retry", gives: answer[ServerItem]("ServerItem"), refusals: []int{404}, serve: h.retry,
		},
	}
}
