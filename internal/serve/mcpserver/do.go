package mcpserver

import (
	"context"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// CallInteractive calls a tool for a caller that may be asked questions, or continues a call
// that required input.
func (s *Server) CallInteractive(ctx context.Context, r *serve.CallRequest) (serve.CallOutcome, error) {
	g, ok := (*s.gates.Load())[r.Gate]
	if !ok {
		return serve.CallOutcome{}, unknownGate(r.Gate)
	}
	j := &job{CallRequest: *r, gate: g, view: g.view.Load(), era: modernEra, method: "tools/call", name: r.Tool}
	if err := j.resolve(); err != nil {
		return serve.CallOutcome{}, err
	}
	fault, err := j.resume(ctx)
	if err != nil {
		return serve.CallOutcome{}, err
	}
	if fault != nil {
		return serve.CallOutcome{}, &toolyard.Error{
			Code: toolyard.Invalid, Message: "The call cannot go on: " + fault.Path + " " + fault.Message + ".", Issues: []toolyard.Issue{*fault},
		}
	}
	at, err := j.step(ctx)
	if err != nil || at.asked == nil {
		return serve.CallOutcome{Call: at.call, Result: at.res}, err
	}
	return serve.CallOutcome{Call: at.call, InputRequired: &serve.InputRequired{Questions: at.asked.promptsForUser(), State: j.seal(at.asked)}}, nil
}

// promptsForUser converts elicitation requests to questions. The caller declared no other
// capability, so there are no other requests.
func (q *inquiry) promptsForUser() map[string]toolyard.Question {
	questions := make(map[string]toolyard.Question, len(q.questions))
	for _, asked := range q.questions {
		message, _ := strictjson.String(strictjson.Member(asked.params, "message"))
		shown := toolyard.Question{Key: asked.key, Message: message}
		if string(strictjson.Member(asked.params, "mode")) == `"url"` {
			shown.URL, _ = strictjson.String(strictjson.Member(asked.params, "url"))
		} else {
			shown.Schema = strictjson.Member(asked.params, "requestedSchema")
		}
		questions[asked.key] = shown
	}
	return questions
}
