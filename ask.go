package toolyard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// The possible values of Reply.Action.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// Reply is the user's answer to a question.
type Reply[T any] struct {
	Action string // accept, decline (the user said no) or cancel (the user closed the form)
	Form   T      // the completed form; the zero value unless the action is accept
	State  []byte // the question's State, unchanged
}

// Accepted reports whether the user accepted.
func (a Reply[T]) Accepted() bool { return a.Action == actionAccept }

// maxQuestionState bounds Question.State. States are encoded twice and, together with the call's
// earlier answers, must fit in 64 KiB.
const maxQuestionState = 16 << 10

// Ask returns the user's reply to a question. If there is no answer yet, it returns an error that
// the handler must return: the client then asks the user and repeats the call with the answer, and
// the handler runs again from the start. The handler must not have any effects before its last question.
//
// T is the type of the form: a struct whose fields are strings, numbers, booleans and enums, with
// the same tags as in [Define], or struct{} for a plain confirmation. If the question has a Schema,
// it describes the form; otherwise the schema is derived from T. Declining or canceling is an
// answer, not an error.
//
// An answer is valid only for the call that asked the question (the same caller, gate, tool and
// arguments), once, within ten minutes, and only while Bind is unchanged. A handler may ask several
// questions with different keys, one after the other.
//
// If the client cannot ask its user, the error has the code [MissingCapability]. The same applies
// to calls made by another tool, which must not answer on the user's behalf.
func Ask[T any](ctx context.Context, c *Call, q Question) (Reply[T], error) {
	if err := checkAskable(c, q); err != nil {
		return Reply[T]{}, err
	}
	schema, err := formSchema[T](q)
	if err != nil {
		return Reply[T]{}, err
	}
	answered := answeredQuestions(c)
	asked, ok := answered[q.Key]
	if !ok || !bytes.Equal(asked.Bind, digestBind(q)) {
		delete(answered, q.Key)
		return Reply[T]{}, newInputRequest(q, schema, answered)
	}
	return decodeReply[T](ctx, c, q.Key, schema, asked)
}

func checkAskable(c *Call, q Question) error {
	switch {
	case q.Key == "" || q.Message == "":
		return errors.New("a question needs a key and a message")
	case len(q.State) > maxQuestionState:
		return fmt.Errorf("the question's state is %d bytes; the limit is %d", len(q.State), maxQuestionState)
	case c.Supports("elicitation"):
		return nil // the server checks the details
	}
	message := fmt.Sprintf("%s requires input from the user, but this client does not support elicitation.", c.Tool.Name)
	if c.Depth > 0 {
		message = fmt.Sprintf("%s requires input from the user, which is not available in a call from another tool. Call it directly.", c.Tool.Name)
	}
	return &Error{Code: MissingCapability, Message: message, Missing: []string{"elicitation"}}
}

// formSchema returns the schema of a question's form, or nil for a page. Clients support only these
// keywords at its root.
func formSchema[T any](q Question) (*Schema, error) {
	switch {
	case q.URL != "":
		return nil, nil
	case q.Schema != nil:
		return compileSchema(q.Schema)
	}
	derived, err := schemaOf(reflect.TypeFor[T](), false)
	if err != nil {
		return nil, err
	}
	var form struct {
		Type       json.RawMessage `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   json.RawMessage `json:"required,omitempty"`
	}
	if err := json.Unmarshal(derived.JSON(), &form); err != nil {
		return nil, err
	}
	raw, err := jsonobject.Marshal(form)
	if err != nil {
		return nil, err
	}
	return compileSchema(raw)
}

// askState is the request state of a question. The server seals it, so it is valid only for the
// call that asked the question.
type askState struct {
	Key     string                   `json:"key"` // key of the open question
	Open    askedQuestion            `json:"open"`
	Answers map[string]askedQuestion `json:"answers,omitempty"` // answers to the call's earlier questions, by key
}

// askedQuestion is a question that the client received.
type askedQuestion struct {
	Bind   []byte          `json:"bind,omitempty"` // digest of Question.Bind
	State  []byte          `json:"state,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"` // the client's answer, unchanged
}

// digestBind returns a digest of a question's Bind.
func digestBind(q Question) []byte {
	sum := sha256.Sum256([]byte(q.Bind))
	return sum[:]
}

// answeredQuestions returns the call's answered questions, by key. An answer counts only if its
// state is verified, because any client can make one up.
func answeredQuestions(c *Call) map[string]askedQuestion {
	var state askState
	if c.RequestState == "" || json.Unmarshal([]byte(c.RequestState), &state) != nil {
		return nil
	}
	given, _ := jsonobject.Map(c.InputResponses)
	answer := given[state.Key]
	if state.Key == "" || jsonobject.Kind(answer) != '{' {
		return state.Answers
	}
	if state.Answers == nil {
		state.Answers = make(map[string]askedQuestion)
	}
	state.Open.Answer = answer
	state.Answers[state.Key] = state.Open
	return state.Answers
}

// inputRequest is the error that a handler returns while it waits for an answer. [Tool.Run] turns it into an
// unfinished result.
type inputRequest struct{ result *Result }

func (*inputRequest) Error() string {
	return "the handler must return the error from toolyard.Ask so that the question reaches the user"
}

// Unfinished returns the result that makes the client ask its user.
func (r *inputRequest) Unfinished() *Result { return r.result }

func newInputRequest(q Question, form *Schema, answers map[string]askedQuestion) error {
	state, err := json.Marshal(askState{Key: q.Key, Open: askedQuestion{Bind: digestBind(q), State: q.State}, Answers: answers})
	if err != nil {
		return err
	}
	params := map[string]any{"message": q.Message}
	if form == nil {
		params["mode"], params["url"] = "url", q.URL
	} else {
		params["requestedSchema"] = form.JSON()
	}
	raw, err := jsonobject.Marshal(map[string]any{
		"resultType":    "input_required",
		"inputRequests": map[string]any{q.Key: map[string]any{"method": "elicitation/create", "params": params}},
		"requestState":  string(state),
	})
	if err != nil {
		return err
	}
	res, err := rawResult(raw)
	if err != nil {
		return err
	}
	return &inputRequest{res}
}

// decodeReply validates an answer and decodes its form.
func decodeReply[T any](ctx context.Context, c *Call, key string, form *Schema, q askedQuestion) (a Reply[T], err error) {
	var given struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(q.Answer, &given); err != nil {
		return a, invalidAnswer(c, Issue{Path: key, Message: err.Error()})
	}
	switch given.Action {
	case actionDecline, actionCancel:
		return Reply[T]{Action: given.Action, State: q.State}, nil
	case actionAccept:
	default:
		return a, invalidAnswer(c, Issue{Path: key + ".action", Message: "must be accept, decline or cancel"})
	}
	a = Reply[T]{Action: actionAccept, State: q.State}
	if form == nil {
		return a, nil
	}
	if k := jsonobject.Kind(given.Content); k == 0 || k == 'n' {
		given.Content = json.RawMessage("{}")
	}
	content, issues, err := form.Complete(ctx, given.Content)
	if err != nil {
		return Reply[T]{}, err
	}
	if len(issues) == 0 {
		if err := json.Unmarshal(content, &a.Form); err != nil {
			issues = []Issue{decodeIssue(err)}
		}
	}
	if len(issues) > 0 {
		return Reply[T]{}, invalidAnswer(c, issues...)
	}
	return a, nil
}

func invalidAnswer(c *Call, issues ...Issue) error {
	return &Error{Code: Invalid, Message: "Invalid answer to the question from " + c.Tool.Name, Issues: issues}
}
