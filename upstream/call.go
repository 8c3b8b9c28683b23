package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// conversations runs a server's calls, including those that are suspended while a user answers a
// question.
type conversations struct {
	*reporter
	definitions *definitions
	supervisor  *supervisor

	mu        sync.Mutex
	suspended map[string]*suspendedCall
}

func newConversations(r *reporter, d *definitions, sup *supervisor) *conversations {
	return &conversations{reporter: r, definitions: d, supervisor: sup, suspended: make(map[string]*suspendedCall)}
}

// toolHandler returns the handler for one tool.
func (conv *conversations) toolHandler(name string, definition json.RawMessage, bindings []paramheader.Binding) toolyard.Handler {
	quoted := jsonobject.AppendString(nil, name)
	current := func() bool { return conv.definitions.toolOf(definition) != nil }
	return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		params := make([]byte, 0, len(c.Args)+len(name)+32)
		params = append(append(append(params, `"name":`...), quoted...), `,"arguments":`...)
		return conv.call(ctx, c, request{
			method: "tools/call", params: append(params, c.Args...), name: name, headers: paramHeaders(bindings, c.Args), current: current,
		})
	}
}

// readResource reads a resource, if the operator allows it.
func (conv *conversations) readResource(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	uri := text(c.Args, "uri")
	if !(&toolyard.Resource{URI: uri}).MatchesAny(conv.opts.Resources) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
	}
	return conv.call(ctx, c, request{method: "resources/read", params: jsonobject.AppendString([]byte(`"uri":`), uri), name: uri})
}

func (conv *conversations) getPrompt(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	name := text(c.Args, "name")
	current := func() bool {
		return slices.ContainsFunc(conv.definitions.listPrompts(), func(p *toolyard.Prompt) bool { return p.Name == name })
	}
	return conv.call(ctx, c, request{method: "prompts/get", params: membersOf(c.Args), name: name, current: current})
}

// complete completes an argument of a prompt or a resource template.
func (conv *conversations) complete(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	return conv.call(ctx, c, request{method: "completion/complete", params: membersOf(c.Args)})
}

// membersOf returns an object's members without the enclosing braces.
func membersOf(object json.RawMessage) []byte {
	s := strings.TrimSpace(string(object))
	return []byte(s[1 : len(s)-1])
}

// call sends a call's request. If the server did not process it because it lost the session, call
// sends the request once more.
func (conv *conversations) call(ctx context.Context, c *toolyard.Call, r request) (*toolyard.Result, error) {
	if p := conv.takeSuspended(c.RequestState); p != nil {
		return conv.resume(ctx, c, p)
	}
	identity, asks, err := conv.begin(ctx, c)
	if err != nil || asks != nil {
		return asks, err
	}
	if c.OnProgress != nil {
		own := *c
		post, stop := bufferProgress(ctx, c.OnProgress)
		defer stop()
		own.OnProgress, c = post, &own
	}
	r.call = c
	for attempt := 0; ; attempt++ {
		s, err := conv.supervisor.sessionFor(ctx, identity, c)
		if err != nil {
			return nil, err
		}
		if r.current != nil && !r.current() { // a restart may have changed the definition
			return nil, toolyard.Errorf(toolyard.Unavailable, "Server %s has changed the definition of %s since it was approved. An operator must approve the new one.", conv.opts.ID, c.Tool.Name)
		}
		if c.RequestState != "" && !s.modern() { // starting over could repeat a side effect
			return nil, &toolyard.Error{
				Code: toolyard.Invalid, Message: "The question for this call has expired. Repeat the call without the state.",
				Issues: []toolyard.Issue{{Path: "state", Message: "belongs to a question that has expired: repeat the call without it"}},
			}
		}
		raw, err := conv.send(ctx, s, r)
		if err != nil && attempt == 0 && (s.isLost(err) || errors.Is(err, errNotSent)) {
			s.link.fail(errSessionLost)
			conv.supervisor.replace(ctx, s)
			continue
		}
		return conv.result(ctx, s, &r, raw, err)
	}
}

// send sends a request over one session and returns its result.
func (conv *conversations) send(ctx context.Context, s *session, r request) (json.RawMessage, error) {
	s.active.Add(1)
	defer s.active.Add(-1)
	c := r.call
	r.id = s.ids.Add(1)
	if s.modern() {
		r.params = appendAnswers(r.params, c)
		r.onMessage = func(m message) { conv.handleMessage(s, r, m) }
		return s.request(ctx, r)
	}
	if !c.Supports("elicitation") {
		r.onMessage = func(m message) {
			if m.method == "elicitation/create" && m.id != nil {
				s.reply(m.id, nil, &rpcError{Code: codeInvalidParams, Message: "the caller's client does not support elicitation"})
				return
			}
			conv.handleMessage(s, r, m)
		}
		return s.request(ctx, r)
	}
	return conv.sendSuspendable(ctx, s, r)
}

// appendAnswers adds the client's answers to an earlier result's questions.
func appendAnswers(params []byte, c *toolyard.Call) []byte {
	if len(c.InputResponses) > 0 {
		params = append(append(params, `,"inputResponses":`...), c.InputResponses...)
	}
	if c.RequestState != "" {
		params = jsonobject.AppendString(append(params, `,"requestState":`...), c.RequestState)
	}
	return params
}

// handleMessage handles a message that belongs to a request and precedes its response.
func (conv *conversations) handleMessage(s *session, r request, m message) {
	switch m.method {
	case "notifications/progress":
		if number(strictjson.Member(m.params, "progressToken")) == r.id {
			var p struct{ Progress, Total float64 }
			if json.Unmarshal(m.params, &p) == nil {
				r.call.Progress(p.Progress, p.Total, untrusted.Truncate(conv.opts.Redact(untrusted.Truncate(text(m.params, "message"), maxKept)), maxShown))
			}
		}
	case "notifications/message":
		conv.logMessage(m)
	default:
		s.handleMessage(m)
	}
}
