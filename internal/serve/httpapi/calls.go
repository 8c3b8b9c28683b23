package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// callHandler serves requests for calls.
type callHandler struct {
	makeCall func(context.Context, *serve.CallRequest) (serve.CallOutcome, error) // may be nil
	gates    func() []*gates.Gate
	sessions *sessionHandler
	maxBody  int64
	log      *slog.Logger
}

// Limits on a call request.
const (
	maxTool    = 256 // bytes
	maxKey     = 255 // bytes
	maxAnswers = 16
)

// callBody is the body of a request for a call.
type callBody struct {
	serve.CallRequest
	State        string                `json:"state,omitempty" maxLength:"131072" doc:"State that was returned with the questions."`
	CloseSession bool                  `json:"closeSession,omitempty" doc:"Close the session after the tool has run."`
	Interactive  bool                  `json:"interactive,omitempty" doc:"Whether a user can answer questions from the tool."`
	Answers      map[string]answerBody `json:"answers,omitempty" doc:"Answers to the questions from the previous call, by key: at most 16 answers, and at most 64 KiB in total. Also send the state."`
}

// answerBody is the answer to one question.
type answerBody struct {
	Action  string          `json:"action" enum:"accept,decline,cancel" doc:"Whether the user answers, declines to answer, or cancels."`
	Content json.RawMessage `json:"content,omitempty" doc:"Object with the filled-in form; only with the action accept."`
}

// callResult is the response to a call.
type callResult struct {
	Result        *toolyard.Result     `json:"result,omitempty"`
	InputRequired *serve.InputRequired `json:"inputRequired,omitempty" doc:"Questions from the tool, instead of a result. Nothing was charged, and the idempotency key is still unused: repeat the call with the answers."`
	Receipt       *toolyard.Receipt    `json:"receipt,omitempty"`
	Session       *ledger.Balance      `json:"session,omitempty"`
	StackTrace    string               `json:"stackTrace,omitempty" doc:"Stack trace of a script that threw an exception. Only for callers with the viewer or operator scope."`
}

// execute makes a call at an execute gate.
func (h *callHandler) execute(r *request) (*reply, error) {
	body, err := read[callBody](r, h.maxBody)
	if err != nil {
		return nil, err
	}
	gate, err := h.executeGate(body.Gate)
	if err != nil {
		return nil, err
	}
	body.Gate = gate.Name
	return respond(h.run(r, body))
}

// call makes a call at any gate.
func (h *callHandler) call(r *request) (*reply, error) {
	body, err := read[callBody](r, h.maxBody)
	if err != nil {
		return nil, err
	}
	return respond(h.run(r, body))
}

// Limits on a batch.
const (
	maxBatch         = 64
	batchConcurrency = 8
)

// batchBody is the body of a batch of calls.
type batchBody struct {
	Calls []callBody `json:"calls" minItems:"1" maxItems:"64"`
}

// batchResult holds a batch's results in the order of the requests.
type batchResult struct {
	Results []batchItem `json:"results"`
}

// batchItem is the result of one call in a batch: the same response as for a single call, or a
// problem.
type batchItem struct {
	*callResult
	Problem json.RawMessage `json:"problem,omitempty"`
}

// callBatch makes calls concurrently. A refused call does not affect the others.
func (h *callHandler) callBatch(r *request) (*reply, error) {
	body, err := read[batchBody](r, h.maxBody)
	if err != nil {
		return nil, err
	}
	if len(body.Calls) == 0 || len(body.Calls) > maxBatch {
		return nil, issue("calls", "must contain 1 to 64 items")
	}
	if len(r.Header["Idempotency-Key"]) > 0 {
		return nil, issue("Idempotency-Key", "applies to a single call; set idempotencyKey in each call instead")
	}
	results := make([]batchItem, len(body.Calls))
	slots := make(chan struct{}, batchConcurrency)
	var wg sync.WaitGroup
	for i, call := range body.Calls {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answer, err := h.run(r, call)
			if err != nil {
				e := problemOf(err)
				results[i].Problem = problemJSON(statusOf(e), e)
				return
			}
			results[i].callResult = answer
		})
	}
	wg.Wait()
	return &reply{body: batchResult{results}}, nil
}

// run makes a call. If the tool fails, that is a result; an error means that Toolyard refused the
// call.
func (h *callHandler) run(r *request, body callBody) (answer *callResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(r.Context(), "call panicked", "panic", p, "stack", string(debug.Stack()))
			answer, err = nil, errInternal
		}
	}()
	if h.makeCall == nil {
		return nil, notFound("Calls over the API are disabled.")
	}
	request, err := h.check(r, body)
	if err != nil {
		return nil, err
	}
	// A call has its own deadline, which may be later than the response's.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Time{})
	made, err := h.makeCall(r.Context(), request)
	trace := traceOf(r.caller, err)
	if made.Result, err = resultOf(made.Result, err); err != nil {
		return nil, err
	}
	answer = &callResult{Result: made.Result, InputRequired: made.InputRequired, Receipt: receiptOf(made.Call), StackTrace: trace}
	if request.Session != "" {
		ended := made.InputRequired == nil // otherwise the caller repeats the call
		answer.Session = h.sessionAfter(context.WithoutCancel(r.Context()), request.Session, body.CloseSession && ended)
	}
	return answer, nil
}

// traceOf returns a script's stack trace if the caller has the scope viewer.
func traceOf(c toolyard.Caller, err error) string {
	var thrown interface{ Trace() string }
	if !identity.Views(c) || !errors.As(err, &thrown) {
		return ""
	}
	return thrown.Trace()
}

// receiptOf returns a call's receipt, even if nothing was charged.
func receiptOf(call *toolyard.Call) *toolyard.Receipt {
	switch {
	case call == nil:
		return nil
	case call.Receipt == nil:
		return &toolyard.Receipt{Call: call.ID}
	}
	return call.Receipt
}

// check validates a call's body.
func (h *callHandler) check(r *request, body callBody) (request *serve.CallRequest, err error) {
	switch {
	case body.Tool == "" || len(body.Tool) > maxTool:
		return request, issue("tool", "must be a tool name")
	case len(body.Gate) > maxTool:
		return request, issue("gate", "must be a gate name")
	case len(body.Args) == 0:
		body.Args = json.RawMessage("{}")
	case body.Args[0] != '{':
		return request, issue("args", "must be an object")
	}
	if body.CloseSession && body.Session == "" {
		return request, issue("closeSession", "requires a session")
	}
	key, err := idempotencyKey(r.Header["Idempotency-Key"], body.IdempotencyKey)
	if err != nil {
		return request, err
	}
	answers, err := body.answers()
	if err != nil {
		return request, err
	}
	if body.Session != "" && (h.sessions.ledger == nil || !h.sessions.owners.owns(body.Session, r.caller.Account)) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		if _, err := h.sessions.session(ctx, r.caller, body.Session, false); err != nil {
			return request, err
		}
	}
	request = &body.CallRequest
	request.Caller, request.IdempotencyKey, request.InputResponses, request.RequestState = r.caller, key, answers, body.State
	if body.Interactive || body.State != "" {
		request.ClientCapabilities = serve.Elicitation
	}
	return request, nil
}

// answers validates the answers and encodes them as one object.
func (b *callBody) answers() (json.RawMessage, error) {
	switch {
	case b.Answers == nil:
		return nil, nil
	case b.State == "":
		return nil, issue("answers", "require the state that was returned with the questions")
	case len(b.Answers) > maxAnswers:
		return nil, issue("answers", fmt.Sprintf("must contain at most %d items", maxAnswers))
	}
	for key, given := range b.Answers {
		switch {
		case given.Content == nil:
		case given.Action != "accept":
			return nil, issue("answers."+shown(key)+".content", "is only allowed with the action accept")
		case given.Content[0] != '{':
			return nil, issue("answers."+shown(key)+".content", "must be an object")
		}
	}
	var object bytes.Buffer
	enc := json.NewEncoder(&object)
	enc.SetEscapeHTML(false)
	err := enc.Encode(b.Answers)
	return bytes.TrimSpace(object.Bytes()), err
}

// idempotencyKey returns the key from the header or the body. If both contain one, they must be
// equal.
func idempotencyKey(headers []string, inBody string) (string, error) {
	key := inBody
	if len(headers) > 0 {
		key = headers[0]
		if len(headers) > 1 || key == "" || inBody != "" && inBody != key {
			return "", issue("idempotencyKey", "must be set only once")
		}
	}
	if len(key) > maxKey || !isVisibleASCII(key) {
		return "", issue("idempotencyKey", "must be at most 255 visible ASCII characters")
	}
	return key, nil
}

// resultOf converts a tool's failure to a result. If Toolyard refused the call, it returns the
// error.
func resultOf(result *toolyard.Result, err error) (*toolyard.Result, error) {
	if err == nil {
		return result, nil
	}
	e := toolyard.AsError(err)
	if _, refused := statuses[e.Code]; refused {
		return nil, e
	}
	return e.Result(), nil
}

// sessionAfter returns the session after a call, and closes it if requested. The call has already
// run, so a ledger failure must not withhold the result.
func (h *callHandler) sessionAfter(ctx context.Context, session string, closes bool) *ledger.Balance {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	get := h.sessions.ledger.Balance
	if closes {
		get = h.sessions.ledger.CloseSession
	}
	balance, err := get(ctx, session)
	if err != nil {
		h.log.WarnContext(ctx, "could not read or close the session after a call", "session", session, "close", closes, "error", err)
		return nil
	}
	return balance
}

// executeGate returns the execute gate with the given name, or the first one if the name is empty.
func (h *callHandler) executeGate(name string) (*gates.Gate, error) {
	var all []*gates.Gate
	if h.gates != nil {
		all = h.gates()
	}
	i := slices.IndexFunc(all, func(g *gates.Gate) bool {
		if name == "" {
			return g.Surface == toolyard.Execute
		}
		return g.Name == name && g.Surface != toolyard.Answer
	})
	switch {
	case i >= 0:
		return all[i], nil
	case name == "":
		return nil, notFound("No execute gate is configured.")
	}
	return nil, notFound("Unknown execute gate %q.", shown(name))
}

func (h *callHandler) routes() []route {
	return []route{
		{
			method: "POST", path: "/tools/execute", id: "executeTool", summary: "Call a tool at an execute gate. If the tool fails, the result has isError and the call is not charged. If the tool requires input, the response contains inputRequired instead of a result.",
			access: caller, takes: body[callBody]("CallRequest"), gives: callResultShape, keyed: true, refusals: []int{400, 402, 404, 409, 413, 429}, long: true, serve: h.execute,
		},
		{
			method: "POST", path: "/calls", id: "callTool", summary: "Call a tool at any gate. If the tool fails, the result has isError. If the tool requires input, the response contains inputRequired instead of a result.",
			access: caller, takes: body[callBody]("CallRequest"), gives: callResultShape, keyed: true, refusals: []int{400, 402, 404, 409, 413, 429}, long: true, serve: h.call,
		},
		{
			method: "POST", path: "/calls/batch", id: "callTools", summary: "Call several tools concurrently. Results are returned in the order of the calls.",
			access: caller, takes: body[batchBody]("CallBatch"), gives: batchResultShape, refusals: []int{400, 413}, long: true, serve: h.callBatch,
		},
	}
}
