package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Bounds on the names in a call, and on how much is answered.
const (
	maxTool     = 256
	maxKey      = 255
	mostAnswers = 16
)

// callBody is the body of a request for a call.
type callBody struct {
	serve.CallRequest
	CloseSession bool                  `json:"closeSession,omitempty" doc:"Close the session after the tool has run."`
	Interactive  bool                  `json:"interactive,omitempty" doc:"Whether a user can answer questions of the tool."`
	Answers      map[string]answerBody `json:"answers,omitempty" doc:"Answers to the questions of the previous call, by key; at most 16, of at most 64 KiB in total. They require the state."`
}

// answerBody is the answer to one question.
type answerBody struct {
	Action  string          `json:"action" enum:"accept,decline,cancel" doc:"Whether the person answers, refuses, or has turned away."`
	Content json.RawMessage `json:"content,omitempty" doc:"What was filled in, an object, with the action accept."`
}

// executed is what a call came to.
type executed struct {
	Result        *toolyard.Result     `json:"result,omitempty"`
	InputRequired *serve.InputRequired `json:"inputRequired,omitempty" doc:"What the tool asks before it goes on, instead of a result. Nothing was charged, and the idempotency key is free: make the same call with the answers."`
	Receipt       *toolyard.Receipt    `json:"receipt,omitempty"`
	Session       *ledger.Balance      `json:"session,omitempty"`
	Trace         string               `json:"stackTrace,omitempty" doc:"The stack trace of a script that threw, in its author's files. Only for callers with the scope viewer or operator."`
}

// execute makes a call at a gate for execution.
func (a *v1) execute(r *request) (*reply, error) {
	body, err := read[callBody](r, a.MaxBody)
	if err != nil {
		return nil, err
	}
	gate, err := a.executing(body.Gate)
	if err != nil {
		return nil, err
	}
	body.Gate = gate.Name
	return done(a.call(r, body))
}

// makeCall makes a call at any gate.
func (a *v1) makeCall(r *request) (*reply, error) {
	body, err := read[callBody](r, a.MaxBody)
	if err != nil {
		return nil, err
	}
	return done(a.call(r, body))
}

// Bounds on calls that are made together.
const (
	maxBatch    = 64
	batchAtOnce = 8
)

// batchBody is calls to be made side by side.
type batchBody struct {
	Calls []callBody `json:"calls" minItems:"1" maxItems:"64"`
}

// batched is what calls came to, in the order of the request.
type batched struct {
	Results []outcome `json:"results"`
}

// outcome is what one of several calls came to: what a single one would be answered with, or
// the problem.
type outcome struct {
	*executed
	Problem json.RawMessage `json:"problem,omitempty"`
}

// makeCalls makes calls side by side. One that is refused does not keep the others from being
// made.
func (a *v1) makeCalls(r *request) (*reply, error) {
	body, err := read[batchBody](r, a.MaxBody)
	if err != nil {
		return nil, err
	}
	if len(body.Calls) == 0 || len(body.Calls) > maxBatch {
		return nil, issue("calls", "must be 1 to 64 calls")
	}
	if len(r.Header["Idempotency-Key"]) > 0 {
		return nil, issue("Idempotency-Key", "is for one call; give each its idempotencyKey")
	}
	results := make([]outcome, len(body.Calls))
	turns := make(chan struct{}, batchAtOnce)
	var wg sync.WaitGroup
	for i, call := range body.Calls {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			answer, err := a.call(r, call)
			if err != nil {
				e := problemOf(err)
				results[i].Problem = problemJSON(statusOf(e), e)
				return
			}
			results[i].executed = answer
		})
	}
	wg.Wait()
	return &reply{body: batched{results}}, nil
}

// call makes a call. A tool that failed is an answer; an error is a refusal by the platform.
func (a *v1) call(r *request, body callBody) (answer *executed, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.Log.ErrorContext(r.Context(), "call panicked", "panic", p, "stack", string(debug.Stack()))
			answer, err = nil, toolyard.Errorf(toolyard.Internal, "Something went wrong here.")
		}
	}()
	if a.Execute == nil {
		return nil, notFound("Nothing can be executed here.")
	}
	request, err := a.request(r, body)
	if err != nil {
		return nil, err
	}
	// A call has its own deadline, which may be later than that of the answer.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Time{})
	made, err := a.Execute(r.Context(), request)
	trace := traceOf(r.caller, err)
	if made.Result, err = resultOf(made.Result, err); err != nil {
		return nil, err
	}
	answer = &executed{Result: made.Result, InputRequired: made.InputRequired, Receipt: receiptOf(made.Call), Trace: trace}
	if request.Session != "" {
		ends := body.CloseSession && made.InputRequired == nil // one that asks is made again
		answer.Session = a.after(context.WithoutCancel(r.Context()), request.Session, ends)
	}
	return answer, nil
}

// traceOf returns where a script threw, for callers who may see the yard.
func traceOf(c toolyard.Caller, err error) string {
	var thrown interface{ Trace() string }
	if !identity.Views(c) || !errors.As(err, &thrown) {
		return ""
	}
	return thrown.Trace()
}

// receiptOf is the receipt of a call, also when nothing was taken for it.
func receiptOf(call *toolyard.Call) *toolyard.Receipt {
	switch {
	case call == nil:
		return nil
	case call.Receipt == nil:
		return &toolyard.Receipt{Call: call.ID}
	}
	return call.Receipt
}

// request checks what was sent to make a call.
func (a *v1) request(r *request, body callBody) (request *serve.CallRequest, err error) {
	switch {
	case body.Tool == "" || len(body.Tool) > maxTool:
		return request, issue("tool", "must be the name of a tool")
	case len(body.Gate) > maxTool:
		return request, issue("gate", "must be the name of a gate")
	case len(body.Args) == 0:
		body.Args = json.RawMessage("{}")
	case body.Args[0] != '{':
		return request, issue("args", "must be an object")
	}
	if body.CloseSession && body.Session == "" {
		return request, issue("closeSession", "needs a session")
	}
	key, err := idempotencyKey(r.Header["Idempotency-Key"], body.Key)
	if err != nil {
		return request, err
	}
	answers, err := body.answers()
	if err != nil {
		return request, err
	}
	if body.Session != "" && (a.Ledger == nil || !a.owners.owns(body.Session, r.caller.Account)) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		if _, err := a.session(ctx, r.caller, body.Session, false); err != nil {
			return request, err
		}
	}
	request = &body.CallRequest
	request.Caller, request.Key, request.Answers = r.caller, key, answers
	if body.Interactive || body.State != "" {
		request.Features = serve.Elicitation
	}
	return request, nil
}

// answers checks the answers that were sent, and writes them as one object.
func (b *callBody) answers() (json.RawMessage, error) {
	switch {
	case b.Answers == nil:
		return nil, nil
	case b.State == "":
		return nil, issue("answers", "need the state that came with the questions")
	case len(b.Answers) > mostAnswers:
		return nil, issue("answers", fmt.Sprintf("must be at most %d answers", mostAnswers))
	}
	for key, given := range b.Answers {
		switch {
		case given.Content == nil:
		case given.Action != "accept":
			return nil, issue("answers."+shown(key)+".content", "goes with the action accept only")
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

// idempotencyKey is the key that the header or the body holds, or both if they agree.
func idempotencyKey(headers []string, inBody string) (string, error) {
	key := inBody
	if len(headers) > 0 {
		key = headers[0]
		if len(headers) > 1 || key == "" || inBody != "" && inBody != key {
			return "", issue("idempotencyKey", "must be said once")
		}
	}
	if len(key) > maxKey || !isPlain(key) {
		return "", issue("idempotencyKey", "must be at most 255 visible characters of ASCII")
	}
	return key, nil
}

// resultOf is the result of a call, also when the tool failed. What is left as an error is
// a refusal by the platform.
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

// after is the session after a call, closed if that is wanted. The call has run: that the
// ledger does not answer now is no reason to keep its result back.
func (a *v1) after(ctx context.Context, session string, closes bool) *ledger.Balance {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	ask := a.Ledger.Balance
	if closes {
		ask = a.Ledger.CloseSession
	}
	purse, err := ask(ctx, session)
	if err != nil {
		a.Log.WarnContext(ctx, "session cannot be shown or closed after a call", "session", session, "close", closes, "error", err)
		return nil
	}
	return purse
}
