package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// caller is the handler of one tool.
func (v *Server) caller(name string, definition json.RawMessage, binds []headerBinding) toolyard.Handler {
	quoted := toolyard.AppendJSONString(nil, name)
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
		Modes: toolyard.ReadOnly, Timeout: v.opts.Timeout, Bounds: v.opts.Bounds,
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
	if !toolyard.MatchURI(uri, v.opts.Resources) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
	}
	return v.ask(ctx, c, request{method: "resources/read", params: toolyard.AppendJSONString([]byte(`"uri":`), uri), name: uri})
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
	if p := v.unpark(c.State); p != nil {
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
		if c.State != "" && !s.modern() { // to begin anew could do twice what was begun before
			return nil, toolyard.Errorf(toolyard.Failed, "What this call was waiting for is gone. Call again without the state.")
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

// await waits until a session is no longer the current one.
func (v *Server) await(ctx context.Context, old *session) {
	for {
		v.mu.Lock()
		st := v.state
		v.mu.Unlock()
		if st.session != old {
			return
		}
		select {
		case <-st.next:
		case <-ctx.Done():
			return
		}
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
		r.heard = func(m message) { v.overhear(s, r, m) }
		return s.request(ctx, r)
	}
	return v.converse(ctx, s, r)
}

// withAnswers adds what the caller's client answered to an unfinished result.
func withAnswers(params []byte, c *toolyard.Call) []byte {
	if len(c.Answers) > 0 {
		params = append(append(params, `,"inputResponses":`...), c.Answers...)
	}
	if c.State != "" {
		params = toolyard.AppendJSONString(append(params, `,"requestState":`...), c.State)
	}
	return params
}

// overhear takes in what a server says about a request before its answer.
func (v *Server) overhear(s *session, r request, m message) {
	c := r.call
	switch m.method {
	case "notifications/progress":
		if number(guard.Member(m.params, "progressToken")) == r.id {
			var p struct{ Progress, Total float64 }
			if json.Unmarshal(m.params, &p) == nil {
				c.Progress(p.Progress, p.Total, shorten(v.opts.Redact(shorten(text(m.params, "message"), maxKept)), maxShown))
			}
		}
	case "notifications/message":
		v.logMessage(m)
	default:
		s.heard(m)
	}
}

// result makes the outcome of a request that of a call.
func (v *Server) result(s *session, method string, raw json.RawMessage, err error) (*toolyard.Result, error) {
	if err != nil {
		return nil, v.failure(s, err)
	}
	s.served.Store(true)
	s.failed.Store(0)
	if err := checkResult(method, raw); err != nil {
		return nil, toolyard.Errorf(toolyard.BadOutput, "The server %s sent a result that is none: %s", v.opts.ID, v.words(err))
	}
	return toolyard.RawResult(v.withoutSecrets(withoutHop(raw)))
}

// checkResult refuses a result that clients could not read. What is new to us may pass, what
// is known must be what it is said to be.
func checkResult(method string, raw json.RawMessage) error {
	kind := guard.Member(raw, "resultType")
	switch {
	case kind != nil && string(kind) != `"complete"` && string(kind) != `"input_required"`:
		return fmt.Errorf("its kind, %.60s, is not known", kind)
	case string(kind) == `"input_required"`:
		for _, asked := range guard.Members(guard.Member(raw, "inputRequests")) {
			if text(asked, "method") != "elicitation/create" {
				return errors.New("it asks the client for something that is not passed on")
			}
		}
		return nil
	case method != "tools/call":
		return nil
	}
	if failed := string(guard.Member(raw, "isError")); failed != "" && failed != "true" && failed != "false" {
		return errors.New("isError is neither true nor false")
	}
	content := guard.Member(raw, "content")
	if content == nil {
		return nil
	}
	var items []json.RawMessage
	if content[0] != '[' || json.Unmarshal(content, &items) != nil {
		return errors.New("its content is no list")
	}
	for _, item := range items {
		if text(item, "type") == "" {
			return errors.New("a content has no type")
		}
	}
	return nil
}

// withoutSecrets takes secrets out of a result that is a failure. What a tool answers
// otherwise is its own affair.
func (v *Server) withoutSecrets(raw json.RawMessage) json.RawMessage {
	if string(guard.Member(raw, "isError")) != "true" {
		return raw
	}
	return redactTexts(raw, v.opts.Redact)
}

// redactTexts takes secrets out of all texts of a JSON value, however they are escaped. All
// else keeps its bytes.
func redactTexts(raw json.RawMessage, redact func(string) string) json.RawMessage {
	var out []byte
	kept := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := i + 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if s, ok := guard.String(raw[i : end+1]); ok {
			if clean := redact(s); clean != s {
				out = toolyard.AppendJSONString(append(out, raw[kept:i]...), clean)
				kept = end + 1
			}
		}
		i = end
	}
	if kept == 0 {
		return raw
	}
	return append(out, raw[kept:]...)
}

// words are what a server said, as people are shown them: without secrets, and not more
// than they can read.
func (v *Server) words(err error) string {
	return shorten(v.opts.Redact(err.Error()), maxShown)
}

// failure is what a caller is told when a request failed, and notes what that says about
// the server.
func (v *Server) failure(s *session, err error) error {
	if e, ok := errors.AsType[*rpcError](err); ok {
		s.served.Store(true)
		s.failed.Store(0)
		return v.refusal(e)
	}
	if size, ok := errors.AsType[*sizeError](err); ok {
		return toolyard.Errorf(toolyard.Oversized, "The tool has run, but the server %s: %w", v.opts.ID, size)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	_, down := errors.AsType[*unreachable](err)
	if n := s.failed.Add(1); down || n >= strikes {
		select {
		case v.suspect <- struct{}{}:
		default: // it is looked at already
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return v.refusedBy(status)
	}
	return v.unavailable(err)
}

// refusal is an error that the server answered with.
func (v *Server) refusal(e *rpcError) error {
	message := shorten(v.opts.Redact(e.Message), maxShown)
	out := &toolyard.Error{Code: toolyard.Failed, Message: message, Err: fmt.Errorf("%s (%d)", message, e.Code)}
	switch e.Code {
	case codeInvalidParams:
		out.Code = toolyard.Invalid
	case codeResourceNotFound:
		out.Code = toolyard.NotFound
	case codeMissingCapability:
		out.Code = toolyard.Missing
		for name := range guard.Members(guard.Member(e.Data, "requiredCapabilities")) {
			out.Needs = append(out.Needs, v.opts.Redact(name))
		}
	}
	return out
}

// refusedBy is a status that the server answered with instead of a message.
func (v *Server) refusedBy(e *statusError) error {
	out := &toolyard.Error{Code: toolyard.Unavailable, RetryAfter: e.retryAfter}
	switch e.status {
	case http.StatusUnauthorized:
		out.Code = toolyard.Unauthenticated
	case http.StatusForbidden:
		out.Code = toolyard.Denied
	case http.StatusTooManyRequests:
		out.Code = toolyard.Exhausted
	}
	out.Message = fmt.Sprintf("The server %s refuses: %s", v.opts.ID, v.words(e))
	return out
}

// withoutHop leaves out of a result what was meant for us: who the server is, and which
// subscription it speaks of.
func withoutHop(raw json.RawMessage) json.RawMessage {
	meta := guard.Member(raw, "_meta")
	var left []byte
	found := false
	for key, value := range guard.Members(meta) {
		if key == metaServer || key == metaSubscription || strings.HasPrefix(key, ownPrefix) {
			found = true
			continue
		}
		if len(left) > 0 {
			left = append(left, ',')
		}
		left = append(append(toolyard.AppendJSONString(left, key), ':'), value...)
	}
	if !found {
		return raw
	}
	at := cap(raw) - cap(meta) // meta is a part of raw
	out := make([]byte, 0, len(raw))
	out = append(append(append(out, raw[:at]...), '{'), left...)
	return append(append(out, '}'), raw[at+len(meta):]...)
}
