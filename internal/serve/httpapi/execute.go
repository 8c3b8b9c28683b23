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
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// ExecuteRequest is a call that somebody wants to make. Whether the caller may enter the gate
// and has the tool there is for whoever makes it to find out.
type ExecuteRequest struct {
	Caller  toolyard.Caller
	Gate    string
	Tool    string          // a name that the gate knows
	Args    json.RawMessage // one JSON object
	Session string          // the caller's own, empty for none
	Key     string          // idempotency key, empty for none
	Answers json.RawMessage // to what the tool asked before, one JSON object by key; nil for none
	State   string          // that came with the questions, empty for none

	Interactive bool // the tool may ask something
}

// Execution is what became of a call: its result, or what the tool asks before it goes on.
type Execution struct {
	Call   *toolyard.Call   // nil when nothing ran
	Result *toolyard.Result // nil for a call that failed, and for one that asks
	Asks   *Asks            // nil for a call that has ended
}

// Asks is what a tool wants to know before it goes on.
type Asks struct {
	Questions map[string]Question `json:"questions" doc:"By the keys that their answers are sent under. There may be none: then the state alone is wanted back."`
	State     string              `json:"state" doc:"Is to be sent back with the answers, by the same caller and with the same tool, gate and args, within ten minutes. Each replica takes it once, or again with the same idempotency key. What it holds is sealed."`
}

// Question is a question to the person who calls: a form, or a page.
type Question struct {
	Message string          `json:"message" doc:"What is asked, in the words of the tool. Show it as text."`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"The JSON Schema of the form to be filled in: an object of texts, numbers, truth values and choices."`
	URL     string          `json:"url,omitempty" doc:"The page to be opened, instead of a form. Its address is the tool's: ask before opening it."`
}

// Bounds on the names in a call, and on how much is answered.
const (
	maxTool     = 256
	maxKey      = 255
	mostAnswers = 16
)

// executeBody is what is sent to make a call.
type executeBody struct {
	Tool  string          `json:"tool" doc:"The name of the tool, as the catalog of the gate has it."`
	Args  json.RawMessage `json:"args,omitempty" doc:"Its arguments, an object."`
	Gate  string          `json:"gate,omitempty" doc:"The gate to go through; when it is not said the first one for execution, or the one at /mcp for a call that is no execution."`
	Key   string          `json:"idempotencyKey,omitempty" doc:"A call with the same key runs once. It may come as the header Idempotency-Key instead."`
	Purse string          `json:"session,omitempty" doc:"The session that pays; the caller's account when it is not said."`
	Close bool            `json:"closeSession,omitempty" doc:"Close the session once the tool has run."`

	Interactive bool `json:"interactive,omitempty" doc:"Somebody can answer questions of the tool. Otherwise it is told that nobody can."`

	Answers map[string]answerBody `json:"answers,omitempty" doc:"Answers to what the tool asked when the call was made before, by the keys of the questions; at most 16, of at most 64 KiB. They need the state."`
	State   string                `json:"state,omitempty" maxLength:"131072" doc:"The state that came with the questions."`
}

// answerBody is the answer to one question.
type answerBody struct {
	Action  string          `json:"action" enum:"accept,decline,cancel" doc:"Whether the person answers, refuses, or has turned away."`
	Content json.RawMessage `json:"content,omitempty" doc:"What was filled in, an object, with the action accept."`
}

// executed is what a call came to.
type executed struct {
	Result  *toolyard.Result  `json:"result,omitempty"`
	Asks    *Asks             `json:"inputRequired,omitempty" doc:"What the tool asks before it goes on, instead of a result. Nothing was charged, and the idempotency key is free: make the same call with the answers."`
	Receipt *toolyard.Receipt `json:"receipt,omitempty"`
	Session *ledger.Balance   `json:"session,omitempty"`
	Trace   string            `json:"stackTrace,omitempty" doc:"The stack trace of a script that threw, in its author's files. Only for callers with the scope viewer or operator."`
}

// execute makes a call at a gate for execution.
func (a *v1) execute(r *request) (*reply, error) {
	body, err := read[executeBody](r, a.MaxBody)
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
	body, err := read[executeBody](r, a.MaxBody)
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
	Calls []executeBody `json:"calls" minItems:"1" maxItems:"64"`
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
func (a *v1) call(r *request, body executeBody) (answer *executed, err error) {
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
	answer = &executed{Result: made.Result, Asks: made.Asks, Receipt: receiptOf(made.Call), Trace: trace}
	if request.Session != "" {
		ends := body.Close && made.Asks == nil // one that asks is made again
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
func (a *v1) request(r *request, body executeBody) (request ExecuteRequest, err error) {
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
	if body.Close && body.Purse == "" {
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
	if body.Purse != "" && (a.Ledger == nil || !a.owners.owns(body.Purse, r.caller.Account)) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		if _, err := a.session(ctx, r.caller, body.Purse, false); err != nil {
			return request, err
		}
	}
	return ExecuteRequest{
		Caller: r.caller, Gate: body.Gate, Tool: body.Tool, Args: body.Args, Session: body.Purse, Key: key, Answers: answers, State: body.State,
		Interactive: body.Interactive || body.State != "",
	}, nil
}

// answers checks the answers that were sent, and writes them as one object.
func (b *executeBody) answers() (json.RawMessage, error) {
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
