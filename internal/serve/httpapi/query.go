package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// QueryOptions configures queries.
type QueryOptions struct {
	Store Queries                          // nil disables jobs and the list
	Time  func(agent string) time.Duration // maximum duration of a query
}

// Queries stores queries and jobs.
type Queries interface {
	Query(ctx context.Context, account, id string) (*store.QueryRow, error)
	Queries(context.Context, store.QueryFilter) ([]*store.QueryRow, error)
	BeginJob(context.Context, *store.QueryJob) (existing *store.QueryJob, err error)
	EndJob(ctx context.Context, id string, state store.JobState, body json.RawMessage, at time.Time) error
	Job(ctx context.Context, account, caller, id string) (*store.QueryJob, error)
}

// queryHandler serves queries, which agents answer.
type queryHandler struct {
	calls *callHandler
	opts  QueryOptions
	now   func() time.Time

	mu   sync.Mutex
	jobs map[string]int // number of jobs running on this replica, by account and caller
}

func newQueryHandler(calls *callHandler, opts Options) *queryHandler {
	return &queryHandler{calls: calls, opts: opts.Queries, now: opts.Now, jobs: make(map[string]int)}
}

// Limits on queries.
const (
	maxJobs       = 200         // jobs running on a replica
	maxCallerJobs = 20          // running jobs per caller
	jobGrace      = time.Minute // time after a query's time limit before its job counts as lost
	maxEvents     = 256         // number of events buffered for a slow client
)

// queryBody is the body of a query.
type queryBody struct {
	Query          string      `json:"query" minLength:"1" maxLength:"32768" doc:"The question."`
	Agent          string      `json:"agent,omitempty" maxLength:"64" doc:"Agent to ask. Default: the gate's first agent."`
	Gate           string      `json:"gate,omitempty" maxLength:"64" doc:"Gate that offers the agent. Default: the first one that does."`
	ResponseShape  agent.Shape `json:"responseShape,omitempty" enum:"answer,answer_with_evidence,evidence_only" doc:"What the response contains. Default: answer_with_evidence."`
	Tools          []string    `json:"tools,omitempty" maxItems:"100" doc:"Let the agent use only these tools."`
	Session        string      `json:"session,omitempty" doc:"Session to charge. Default: the caller's account."`
	AsOf           string      `json:"asOf,omitempty" format:"date-time" doc:"Answer as of this time. Only for agents whose gate has clock: caller."`
	IdempotencyKey string      `json:"idempotencyKey,omitempty" doc:"Queries with the same key run once. Alternatively, send the Idempotency-Key header."`
	Stream         bool        `json:"stream,omitempty" doc:"Stream events, as with Accept: text/event-stream."`
}

// queryResult is the response to a query.
type queryResult struct {
	Response       string            `json:"response" doc:"The answer. Marks such as [e1] cite evidence."`
	OutcomeType    agent.Outcome     `json:"outcomeType" enum:"answer,capability_miss"`
	CapabilityMiss *capabilityMiss   `json:"capabilityMiss,omitempty" doc:"Why there is no answer. Nothing was charged."`
	ToolsUsed      []toolUsed        `json:"toolsUsed"`
	Cost           queryCost         `json:"cost"`
	DurationMS     int64             `json:"durationMs"`
	Grounding      grounding         `json:"grounding"`
	Query          string            `json:"query" doc:"ID of the query."`
	Agent          string            `json:"agent"`
	AsOf           time.Time         `json:"asOf"`
	Data           json.RawMessage   `json:"data,omitempty" doc:"The answer from a hook."`
	Evidence       []agent.Evidence  `json:"evidence,omitempty" doc:"The calls that the answer is based on."`
	Unsupported    []string          `json:"unsupported" doc:"Citations in the answer that refer to evidence that does not exist."`
	Usage          agent.Usage       `json:"usage"`
	Receipt        *toolyard.Receipt `json:"receipt,omitempty"`
}

type capabilityMiss struct {
	Message             string   `json:"message"`
	MissingCapabilities []string `json:"missingCapabilities"`
	SuggestedRewrites   []string `json:"suggestedRewrites"`
	OriginalQuery       string   `json:"originalQuery"`
}

type toolUsed struct {
	ID         string `json:"id" doc:"Server and name of the tool."`
	Name       string `json:"name"`
	SkillCalls int    `json:"skillCalls"`
}

// queryCost is the price charged to the caller. The operator pays for the model.
type queryCost struct {
	Model toolyard.Money `json:"modelCostUsd"`
	Tools toolyard.Money `json:"toolCostUsd"`
	Total toolyard.Money `json:"totalCostUsd"`
}

type grounding struct {
	Available int             `json:"availableToolCount"`
	Calls     int             `json:"toolCallCount"`
	Attempts  int             `json:"toolCallAttemptCount"`
	Successes int             `json:"toolCallSuccessCount"`
	Failures  int             `json:"toolCallFailureCount"`
	Samples   []failureSample `json:"toolCallFailureSamples"`
	Grounded  bool            `json:"grounded"`
}

type failureSample struct {
	Tool   string        `json:"toolName"`
	Method string        `json:"methodName"`
	Code   toolyard.Code `json:"code"`
	Reason string        `json:"reason"`
}

// maxSamples is the maximum number of failed calls in a summary.
const maxSamples = 5

// ask answers a query with a single response or a stream of events.
func (h *queryHandler) ask(r *request) (*reply, error) {
	body, call, err := h.prepare(r)
	if err != nil {
		return nil, err
	}
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Time{}) // a query has its own deadline
	if body.Stream || strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		h.stream(r, body, call)
		return nil, nil
	}
	return respond(h.run(r.Context(), body, call))
}

// prepare reads the body of a query and returns the call to the agent's tool.
func (h *queryHandler) prepare(r *request) (*queryBody, *serve.CallRequest, error) {
	body, err := read[queryBody](r, smallBody)
	if err != nil {
		return nil, nil, err
	}
	if h.calls.makeCall == nil {
		return nil, nil, notFound("Calls over the API are disabled.")
	}
	gate, err := h.gate(&body)
	if err != nil {
		return nil, nil, err
	}
	body.ResponseShape = cmp.Or(body.ResponseShape, agent.AnswerWithEvidence)
	args, err := jsonobject.Marshal(agent.Query{Text: body.Query, Shape: body.ResponseShape, Tools: body.Tools, AsOf: body.AsOf})
	if err != nil {
		return nil, nil, err
	}
	call, err := h.calls.check(r, callBody{CallRequest: serve.CallRequest{
		Tool: agent.ToolName(body.Agent), Args: args, Gate: gate.Name, IdempotencyKey: body.IdempotencyKey, Session: body.Session,
	}})
	return &body, call, err
}

// gate returns a query's gate and sets its agent.
func (h *queryHandler) gate(body *queryBody) (*gates.Gate, error) {
	var all []*gates.Gate
	if h.calls.gates != nil {
		all = h.calls.gates()
	}
	i := slices.IndexFunc(all, func(g *gates.Gate) bool {
		return (body.Gate == "" || body.Gate == g.Name) && len(g.Agents) > 0 && (body.Agent == "" || slices.Contains(g.Agents, body.Agent))
	})
	switch {
	case i < 0 && body.Agent != "":
		return nil, notFound("No gate offers agent %q.", shown(body.Agent))
	case i < 0 && body.Gate != "":
		return nil, notFound("Gate %q does not offer an agent.", shown(body.Gate))
	case i < 0:
		return nil, notFound("No gate offers an agent.")
	}
	body.Agent = cmp.Or(body.Agent, all[i].Agents[0])
	return all[i], nil
}

// run answers a query.
func (h *queryHandler) run(ctx context.Context, body *queryBody, call *serve.CallRequest) (res *queryResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.calls.log.ErrorContext(ctx, "query panicked", "panic", p, "stack", string(debug.Stack()))
			res, err = nil, errInternal
		}
	}()
	made, err := h.calls.makeCall(ctx, call)
	if err != nil {
		return nil, err
	}
	if made.Result == nil {
		return nil, toolyard.Errorf(toolyard.MissingCapability, "The agent requires user input, which is not available in queries.")
	}
	a, err := answerOf(made.Result)
	if err != nil {
		return nil, err
	}
	return newQueryResult(a, body.Query, receiptOf(made.Call)), nil
}

// answerOf returns the answer from the result of an agent's tool.
func answerOf(res *toolyard.Result) (*agent.Answer, error) {
	raw, err := res.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var result struct{ StructuredContent *agent.Answer }
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, err
	}
	if result.StructuredContent == nil || result.StructuredContent.Query == "" {
		return nil, toolyard.Errorf(toolyard.Failed, "The agent's result does not contain an answer. It may have been truncated; try raising limits.result.")
	}
	return result.StructuredContent, nil
}

func newQueryResult(a *agent.Answer, text string, receipt *toolyard.Receipt) *queryResult {
	u := &a.Usage
	res := &queryResult{
		Response: a.Answer, OutcomeType: a.Outcome, ToolsUsed: []toolUsed{}, Cost: queryCost{Tools: a.Cost.Price, Total: a.Cost.Price}, DurationMS: u.DurationMS,
		Grounding: grounding{Available: u.Tools, Calls: u.Calls - u.Failed, Attempts: u.Calls, Successes: u.Calls - u.Failed, Failures: u.Failed, Samples: []failureSample{}, Grounded: u.Calls > u.Failed},
		Query:     a.Query, Agent: a.Agent, AsOf: a.AsOf, Data: a.Data, Evidence: a.Evidence, Unsupported: orEmpty(a.Unsupported), Usage: a.Usage, Receipt: receipt,
	}
	for _, t := range a.Tools {
		res.ToolsUsed = append(res.ToolsUsed, toolUsed{strings.TrimPrefix(t.Server+"/"+t.Tool, "/"), t.Tool, t.Calls})
	}
	for _, e := range a.Evidence {
		if !e.OK && len(res.Grounding.Samples) < maxSamples {
			res.Grounding.Samples = append(res.Grounding.Samples, failureSample{e.Server, e.Tool, e.Error, e.Excerpt})
		}
	}
	if a.Outcome != agent.Answered {
		res.CapabilityMiss = &capabilityMiss{
			Message:             cmp.Or(a.Answer, "The question cannot be answered with this agent's tools."),
			MissingCapabilities: orEmpty(a.Missing), SuggestedRewrites: []string{}, OriginalQuery: text,
		}
	}
	return res
}

// Events of a stream.
type (
	toolStatusEvent struct {
		Type   string   `json:"type"`
		Tool   eventRef `json:"tool"`
		Status string   `json:"status"`
	}
	eventRef struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	textDeltaEvent struct {
		Type  string `json:"type"`
		Delta string `json:"delta"`
	}
	doneEvent struct {
		Type   string       `json:"type"`
		Result *queryResult `json:"result"`
	}
	errorEvent struct {
		Type  string        `json:"type"`
		Error string        `json:"error"`
		Code  toolyard.Code `json:"code"`
	}
)

func streamEvent(e agent.Event) any {
	if e.Text != "" {
		return textDeltaEvent{"text-delta", e.Text}
	}
	return toolStatusEvent{"tool-status", eventRef{e.Tool, e.Tool}, map[string]string{"calling": "tool-start", "done": "tool-complete", "failed": "tool-failed"}[e.Status]}
}

// stream answers a query with server-sent events. If the client disconnects, the query is canceled
// unless it has an idempotency key.
func (h *queryHandler) stream(r *request, body *queryBody, call *serve.CallRequest) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events := make(chan any, maxEvents)
	send := func(e any) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	go func() {
		defer close(events)
		res, err := h.run(agent.Observe(ctx, func(e agent.Event) { send(streamEvent(e)) }), body, call)
		if err != nil {
			e := problemOf(err)
			send(errorEvent{"error", e.Message, e.Code})
			return
		}
		send(doneEvent{"done", res})
	}()
	s := newStream(r.w)
	s.flush()
	beat := time.NewTicker(keepalive)
	defer beat.Stop()
	for s.err == nil {
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			s.data(e)
			s.flush()
		case <-beat.C:
			s.comment()
			s.flush()
		case <-ctx.Done():
			return
		}
	}
}

// data writes an event that has no name.
func (s *stream) data(event any) {
	raw, err := jsonobject.Marshal(event)
	if err == nil {
		s.writeText("data: " + string(raw) + "\n\n")
	}
}

func (h *queryHandler) routes() []route {
	outcome := map[string]object{"outcome": {"type": "string", "enum": []string{"answer", "capability_miss", "failed", store.QueryRunning}, "description": "Outcome of the query."}, "agent": text("Agent.")}
	return []route{
		{
			method: "POST", path: "/query", id: "runQuery", summary: "Ask an agent. Only answers are charged. With stream, or Accept: text/event-stream, the response is a stream of events: tool-status, text-delta and finally done or error.",
			access: caller, takes: body[queryBody]("QueryRequest"), gives: answer[queryResult]("QueryResult"), keyed: true, refusals: []int{400, 402, 404, 409, 413, 429}, long: true, serve: h.ask,
		},
		{
			method: "POST", path: "/query/jobs", id: "startQuery", summary: "Ask an agent in the background. The same idempotency key returns the same job.",
			access: caller, takes: body[queryBody]("QueryRequest"), gives: answer[jobResult]("QueryJob"), keyed: true, status: http.StatusAccepted, refusals: []int{400, 402, 404, 409, 413, 429}, serve: h.start,
		},
		{
			method: "GET", path: "/query/jobs/{id}", id: "getQueryJob", summary: "Get the state of a background query. Only the caller that started it can do this.",
			access: caller, gives: answer[jobResult]("QueryJob"), refusals: []int{404}, serve: h.job,
		},
		{
			method: "GET", path: "/queries", id: "listQueries", summary: "List queries, newest first. Queries from other accounts require the viewer scope.",
			access: caller, query: slices.Concat([]string{"account", "caller", "agent", "outcome"}, pages), params: outcome, gives: answer[queriesPage]("Queries"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "GET", path: "/queries/{id}", id: "getQuery", summary: "Get a query with its turns, calls and evidence.",
			access: caller, query: []string{"account"}, gives: answer[queryDetail]("Query"), refusals: []int{400, 404}, serve: h.get,
		},
	}
}
