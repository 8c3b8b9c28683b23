package mcpserver

import (
	"context"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Call calls a tool for a caller that cannot answer questions.
func (s *Server) Call(ctx context.Context, r *serve.CallRequest) (*toolyard.Result, error) {
	return s.call(ctx, "tools/call", r.Tool, r)
}

// ReadResource reads a resource for a caller that cannot answer questions. It ignores the request's
// Tool and Args.
func (s *Server) ReadResource(ctx context.Context, uri string, r *serve.CallRequest) (*toolyard.Result, error) {
	return s.call(ctx, "resources/read", uri, r)
}

func (s *Server) call(ctx context.Context, method, name string, r *serve.CallRequest) (*toolyard.Result, error) {
	req, err := s.request(method, name, r)
	if err != nil {
		return nil, err
	}
	_, res, err := req.callWithoutInput(ctx)
	return res, err
}

// CallFromCode calls a tool on behalf of code that runs at the gate, and also returns the call, or
// nil if there was none. If the tool is not read-only, the call gets the request's idempotency key.
func (s *Server) CallFromCode(ctx context.Context, r *serve.CallRequest) (*toolyard.Call, *toolyard.Result, error) {
	req, err := s.request("tools/call", r.Tool, r)
	if err != nil {
		return nil, nil, err
	}
	if req.tool != nil && req.tool.IsReadOnly() {
		req.IdempotencyKey = ""
	}
	return req.callWithoutInput(ctx)
}

// callWithoutInput makes the call for a caller that cannot answer questions.
func (r *request) callWithoutInput(ctx context.Context) (*toolyard.Call, *toolyard.Result, error) {
	if r.answer != nil {
		res, err := r.answer(ctx)
		return nil, res, err
	}
	c, res, err := r.call(ctx)
	if err == nil && res.InputRequired() {
		return c, nil, &toolyard.Error{Code: toolyard.MissingCapability, Message: "The tool requires user input, but this client cannot answer questions.", Missing: []string{"elicitation"}}
	}
	return c, res, err
}

// CallInteractive calls a tool for a caller that can answer questions, or continues a call that
// required input.
func (s *Server) CallInteractive(ctx context.Context, r *serve.CallRequest) (outcome serve.CallOutcome, err error) {
	req, err := s.request("tools/call", r.Tool, r)
	if err != nil {
		return outcome, err
	}
	if req.answer != nil {
		outcome.Result, err = req.answer(ctx)
		return outcome, err
	}
	fault, err := req.resume(ctx)
	if err != nil {
		return outcome, err
	}
	if fault != nil {
		return outcome, &toolyard.Error{
			Code: toolyard.Invalid, Message: "The call cannot continue: " + fault.Path + " " + fault.Message + ".", Issues: []toolyard.Issue{*fault},
		}
	}
	round, err := req.runRound(ctx)
	if err != nil || round.input == nil {
		return serve.CallOutcome{Call: round.call, Result: round.result}, err
	}
	required := &serve.InputRequired{Questions: round.input.promptsForUser(), State: req.sealState(round.input)}
	return serve.CallOutcome{Call: round.call, InputRequired: required}, nil
}

// request resolves a request that comes from a front end other than MCP.
func (s *Server) request(method, name string, r *serve.CallRequest) (*request, error) {
	g, err := s.gate(r.Gate)
	if err != nil {
		return nil, err
	}
	req := &request{CallRequest: *r, gate: g, view: g.view.Load(), era: modernEra, method: method, name: name}
	if err := req.resolve(); err != nil {
		return nil, err
	}
	return req, nil
}

// promptsForUser converts elicitation requests to questions. There are no other requests, because
// the caller declares no other capability.
func (in *inputRequired) promptsForUser() map[string]toolyard.Question {
	questions := make(map[string]toolyard.Question, len(in.requests))
	for _, r := range in.requests {
		q := toolyard.Question{Key: r.key}
		q.Message, _ = strictjson.String(strictjson.Member(r.params, "message"))
		if string(strictjson.Member(r.params, "mode")) == `"url"` {
			q.URL, _ = strictjson.String(strictjson.Member(r.params, "url"))
		} else {
			q.Schema = strictjson.Member(r.params, "requestedSchema")
		}
		questions[r.key] = q
	}
	return questions
}
