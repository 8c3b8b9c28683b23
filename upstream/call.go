package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// caller is the handler of one tool.
func (v *Server) caller(name string, definition json.RawMessage, binds []paramheader.Binding) toolyard.Handler {
	quoted := jsonobject.AppendString(nil, name)
	current := func() bool { return v.madeOf(definition) != nil }
	return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		params := make([]byte, 0, len(c.Args)+len(name)+32)
		params = append(append(append(params, `"name":`...), quoted...), `,"arguments":`...)
		return v.ask(ctx, c, request{
			method: "tools/call", params: append(params, c.Args...), name: name, headers: paramHeaders(binds, c.Args), current: current,
		})
	}
}

// action makes the tool that reads resources, gets prompts or completes.
func (v *Server) action(name string, h toolyard.Handler) *toolyard.Tool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.actions[name]; t != nil {
		return t
	}
	t, err := toolyard.NewTool(toolyard.Spec{
		Name: name, Server: v.opts.ID, Origin: "server " + v.opts.ID, Category: "external",
		Effects: toolyard.ReadOnly, Timeout: v.opts.Timeout, Bounds: v.opts.Bounds,
	}, h)
	if err != nil {
		panic(err) // all of it is ours
	}
	v.actions[name] = t
	return t
}

// read reads a resource, if the operator lets callers read it.
func (v *Server) read(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	uri := text(c.Args, "uri")
	if !(&toolyard.Resource{URI: uri}).MatchesAny(v.opts.Resources) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
	}
	return v.ask(ctx, c, request{method: "resources/read", params: jsonobject.AppendString([]byte(`"uri":`), uri), name: uri})
}

// getPrompt gets a prompt.
func (v *Server) getPrompt(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	name := text(c.Args, "name")
	current := func() bool {
		return slices.ContainsFunc(v.Prompts(), func(p *toolyard.Prompt) bool { return p.Name == name })
	}
	return v.ask(ctx, c, request{method: "prompts/get", params: inner(c.Args), name: name, current: current})
}

// complete completes an argument of a prompt or a template.
func (v *Server) complete(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	return v.ask(ctx, c, request{method: "completion/complete", params: inner(c.Args)})
}

// inner are the members of an object without its braces.
func inner(object json.RawMessage) []byte {
	s := strings.TrimSpace(string(object))
	return []byte(s[1 : len(s)-1])
}

// ask sends the request of a call to the server. One that the server did not look at,
// because it had forgotten the session, is sent once more.
func (v *Server) ask(ctx context.Context, c *toolyard.Call, r request) (*toolyard.Result, error) {
	if p := v.unpark(c.RequestState); p != nil {
		return v.resume(ctx, c, p)
	}
	if c.OnProgress != nil {
		own := *c
		post, stop := relayed(ctx, c.OnProgress)
		defer stop()
		own.OnProgress, c = post, &own
	}
	r.call = c
	for attempt := 0; ; attempt++ {
		s, err := v.session(ctx)
		if err != nil {
			return nil, err
		}
		if r.current != nil && !r.current() { // a server that came back may have become another
			return nil, toolyard.Errorf(toolyard.Unavailable, "The server %s does not offer %s any more as it was approved.", v.opts.ID, c.Tool.Name)
		}
		if c.RequestState != "" && !s.modern() { // to begin anew could do twice what was begun before
			return nil, &toolyard.Error{
				Code: toolyard.Invalid, Message: "What this call was waiting for is gone. Call again without the state.",
				Issues: []toolyard.Issue{{Path: "state", Message: "is of a question that is gone: call again without it"}},
			}
		}
		raw, err := v.attempt(ctx, s, r)
		if err != nil && attempt == 0 && (s.lost(err) || errors.Is(err, errUnsent)) {
			s.link.end(errLost)
			v.await(ctx, s)
			continue
		}
		return v.result(s, r.method, raw, err)
	}
}

// attempt sends a request in one session.
func (v *Server) attempt(ctx context.Context, s *session, r request) (json.RawMessage, error) {
	s.active.Add(1)
	defer s.active.Add(-1)
	c := r.call
	r.id = s.ids.Add(1)
	if s.modern() {
		r.params = withAnswers(r.params, c)
		r.heard = func(m message) { v.overhear(s, r, m) }
		return s.request(ctx, r)
	}
	if !c.Supports("elicitation") {
		r.heard = func(m message) {
			if m.method == "elicitation/create" && m.id != nil {
				s.answer(m.id, nil, &rpcError{Code: codeInvalidParams, Message: "the caller cannot be asked: its client does not support elicitation"})
				return
			}
			v.overhear(s, r, m)
		}
		return s.request(ctx, r)
	}
	return v.converse(ctx, s, r)
}

// withAnswers adds what the caller's client answered to an unfinished result.
func withAnswers(params []byte, c *toolyard.Call) []byte {
	if len(c.InputResponses) > 0 {
		params = append(append(params, `,"inputResponses":`...), c.InputResponses...)
	}
	if c.RequestState != "" {
		params = jsonobject.AppendString(append(params, `,"requestState":`...), c.RequestState)
	}
	return params
}

// overhear takes in what a server says about a request before its answer.
func (v *Server) overhear(s *session, r request, m message) {
	c := r.call
	switch m.method {
	case "notifications/progress":
		if number(strictjson.Member(m.params, "progressToken")) == r.id {
			var p struct{ Progress, Total float64 }
			if json.Unmarshal(m.params, &p) == nil {
				c.Progress(p.Progress, p.Total, untrusted.Truncate(v.opts.Redact(untrusted.Truncate(text(m.params, "message"), maxKept)), maxShown))
			}
		}
	case "notifications/message":
		v.logMessage(m)
	default:
		s.heard(m)
	}
}
