package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/stack"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxShown limits how much of a result's text the model receives, in bytes, unless the gate sets a
// limit. Three quarters come from the beginning and one quarter from the end.
const maxShown = 40 << 10

// callResult is a call that the model or its code requested, and its result.
type callResult struct {
	model.FunctionCall
	target  Target
	n       int           // number of the call within the query, starting at 1; 0 if it is not a tool call or did not run
	made    []*callResult // calls made by code
	id      string        // ID of the call on the call path
	start   time.Time
	elapsed time.Duration
	body    string          // text of the result
	value   json.RawMessage // structured content, or the text as JSON
	err     *toolyard.Error // nil if the call succeeded
	done    bool
}

// evidence returns the call's evidence ID (e1, e2, …), or "" if it has none.
func (r *callResult) evidence() string {
	if r.n == 0 {
		return ""
	}
	return fmt.Sprintf("e%d", r.n)
}

// key identifies the call's tool and arguments.
func (r *callResult) key() string {
	name, args := cmp.Or(r.target.Tool.Name, r.Name), r.Arguments
	if r.target.Tool.Tool != nil {
		args = r.target.Args
	}
	var compact bytes.Buffer
	if json.Compact(&compact, args) != nil {
		return name
	}
	return name + " " + compact.String()
}

// runCalls runs a turn's calls and adds their answers to the conversation, exactly one per call, in
// order. Read-only calls run concurrently; other calls run one at a time, in the model's order.
func (c *conversation) runCalls(ctx context.Context, calls []model.FunctionCall) ([]*callResult, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	results := make([]*callResult, len(calls))
	for i, call := range calls {
		results[i] = &callResult{FunctionCall: call}
		results[i].err = c.admit(results[i])
	}
	slots := make(chan struct{}, c.root.opts.Limits.Parallel)
	var wg sync.WaitGroup
	var writes []*callResult
	run := func(r *callResult) {
		slots <- struct{}{}
		defer func() { <-slots }()
		c.runCall(ctx, r)
	}
	for _, r := range results {
		switch {
		case r.err != nil:
		case r.target.Answer != nil || r.target.Tool.IsReadOnly():
			wg.Go(func() {
				stack.Reserve()
				run(r)
			})
		default:
			writes = append(writes, r)
		}
	}
	wg.Go(func() {
		for _, r := range writes {
			run(r)
		}
	})
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.answerCalls(results)
	return results, nil
}

// admit decides whether the model's call runs.
func (c *conversation) admit(r *callResult) (refused *toolyard.Error) {
	if r.Invalid != "" {
		return toolyard.Errorf(toolyard.Invalid, "%s", r.Invalid)
	}
	if r.target, refused = c.resolve(r.Name, r.Arguments); refused != nil {
		return refused
	}
	key := r.key()
	c.seen[key]++
	failed, repeated := c.failures[key], c.seen[key] >= maxRepeats
	switch {
	case len(c.calls) >= c.root.opts.Limits.Calls: // the limit takes precedence
	case failed == nil && !repeated:
	case repeated:
		c.stop = StopRepeated
		fallthrough
	default:
		return cmp.Or(failed, toolyard.Errorf(toolyard.Failed, "This call was already made with the same arguments. Use its result."))
	}
	return c.number(r)
}

// callLimit is the error code for calls beyond a query's limit.
const callLimit toolyard.Code = "CALL_LIMIT"

// number assigns a number to a call, unless the query has used up its calls. Code runs and requests
// that need no call have a separate limit.
func (r *run) number(call *callResult) *toolyard.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.root.opts.Limits.Calls
	if call.target.Answer != nil || call.target.Code {
		if r.others++; r.others <= MaxCalls {
			return nil
		}
		limit = MaxCalls
	} else if len(r.calls) < limit {
		r.calls = append(r.calls, call)
		call.n = len(r.calls)
		return nil
	}
	r.stop = StopCalls
	return toolyard.Errorf(callLimit, "The query has already made the maximum of %d calls.", limit)
}

// runCall handles a request from the model.
func (c *conversation) runCall(ctx context.Context, r *callResult) {
	switch {
	case ctx.Err() != nil:
		r.err = toolyard.AsError(ctx.Err())
	case r.target.Answer != nil:
		res, err := r.target.Answer(ctx)
		c.receive(r, res, err)
	case r.target.Code:
		c.runCode(ctx, r)
	default:
		c.runTool(ctx, r, func() (string, *toolyard.Result, error) {
			return c.agent.opts.Gate.Call(ctx, c.call, r.target.Tool.Name, r.target.Args)
		})
	}
}

// runTool calls a tool and reports the call.
func (c *conversation) runTool(ctx context.Context, r *callResult, call func() (id string, res *toolyard.Result, err error)) {
	tool := r.target.Tool
	c.progress(fmt.Sprintf("calling %s, call %d of at most %d", tool.Name, r.n, c.root.opts.Limits.Calls))
	c.report(Event{Tool: tool.Name, Server: tool.Server, Status: "calling"})
	r.start = c.root.opts.Now()
	id, res, err := call()
	r.id = id
	c.receive(r, res, err)
	status := "done"
	if r.err != nil {
		status = "failed"
	}
	c.report(Event{Tool: tool.Name, Server: tool.Server, Status: status})
}

// receive stores a call's result.
func (c *conversation) receive(r *callResult, res *toolyard.Result, err error) {
	body, value, failed := "", json.RawMessage(nil), (*toolyard.Error)(nil)
	switch {
	case err != nil:
		failed = toolyard.AsError(err)
	case res.IsError:
		body = c.root.opts.Redact(textOf(res))
		failed = toolyard.Errorf(toolyard.Failed, "%s", untrusted.Truncate(body, maxShown))
	default:
		body = c.root.opts.Redact(textOf(res))
		value = valueOf(res, body)
	}
	now := c.root.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	r.body, r.value, r.err, r.elapsed, r.done = body, value, failed, now.Sub(r.start), true
}

// answerCalls adds the answers to a turn's calls to the conversation, and records failures.
func (c *conversation) answerCalls(results []*callResult) {
	answers, removed := make([]model.Answer, len(results)), make([]string, len(results))
	failed, invalid := 0, false
	for i, r := range results {
		answers[i] = model.Answer{ID: r.ID, Text: c.shown(r), Failed: r.err != nil}
		removed[i] = c.removed(r)
		invalid = invalid || r.Invalid != ""
		if r.err != nil {
			failed++
		}
		for _, call := range append(r.made, r) {
			if call.n > 0 && call.err != nil && permanent(call.err) {
				c.failures[call.key()] = call.err
			}
		}
	}
	if invalid {
		c.noteMalformed()
	}
	if c.failing++; failed < len(results) {
		c.failing = 0
	}
	if c.failing >= maxFailing && c.stop == "" {
		c.stop = StopFailing
	}
	c.shortened[len(c.messages)] = removed
	c.messages = append(c.messages, model.Message{Answers: answers})
}

// permanent reports whether a failed call must not be repeated within the query.
func permanent(err *toolyard.Error) bool {
	return slices.Contains([]toolyard.Code{toolyard.Unavailable, toolyard.Timeout, toolyard.PermissionDenied, toolyard.Unauthenticated}, err.Code)
}

// shownResult is a result in the form that the model receives. The text is a JSON string, so that
// it cannot be mistaken for anything else.
type shownResult struct {
	Evidence  string           `json:"evidence,omitempty"`
	From      string           `json:"from,omitempty"`
	Untrusted bool             `json:"untrusted,omitempty"`
	Text      string           `json:"text,omitempty"`
	Error     toolyard.Code    `json:"error,omitempty"`
	Message   string           `json:"message,omitempty"`
	Issues    []toolyard.Issue `json:"issues,omitempty"`
	Hint      string           `json:"signature,omitempty"`
	Retryable *bool            `json:"retryable,omitempty"`
	Removed   string           `json:"removed,omitempty"`
}

// origin returns the members that state where a result comes from.
func (r *callResult) origin() shownResult {
	shown := shownResult{Evidence: cmp.Or(r.evidence(), sources(r.made)), From: r.Name, Untrusted: true}
	if tool := r.target.Tool.Tool; tool != nil && !r.target.Code {
		shown.From, shown.Untrusted = strings.TrimPrefix(tool.Server+"/"+tool.Name, "/"), tool.Server != ""
	}
	if r.err != nil && r.n == 0 && len(r.made) == 0 { // nothing ran
		shown.Untrusted = false
	}
	return shown
}

// shown returns a result in the form that the model receives.
func (c *conversation) shown(r *callResult) string {
	shown := r.origin()
	if e := r.err; e != nil {
		retryable := e.Retryable() && !permanent(e)
		shown.Error, shown.Message, shown.Issues, shown.Retryable = e.Code, untrusted.Truncate(e.Message, maxShown), e.Issues, &retryable
		if e.Code == toolyard.Invalid && r.target.Hint != nil {
			shown.Hint = r.target.Hint()
		}
	} else {
		shown.Text = c.shorten(r)
	}
	return marshal(shown)
}

// removed returns the placeholder for a result that was removed to save space.
func (c *conversation) removed(r *callResult) string {
	shown := r.origin()
	shown.Removed = "to save space"
	if r.n > 0 && r.err == nil && c.offer.canReadResults() {
		shown.Removed = fmt.Sprintf("to save space. Read it again: %s {\"id\":%q}", readResult, r.evidence())
	}
	return marshal(shown)
}

func marshal(shown shownResult) string {
	raw, err := jsonobject.Marshal(shown)
	if err != nil {
		return `{"error":"INTERNAL_ERROR"}`
	}
	return string(raw)
}

// shorten removes the middle of a long text. The model can read the rest if the gate offers read_result.
func (c *conversation) shorten(r *callResult) string {
	show := cmp.Or(c.offer.Show, maxShown)
	if len(r.body) <= show {
		return r.body
	}
	head, tail, more := untrusted.Prefix(r.body, show-show/4), untrusted.Suffix(r.body, show/4), ""
	if r.n > 0 && c.offer.canReadResults() {
		more = fmt.Sprintf(" Continue with: %s {\"id\":%q,\"offset\":%d}", readResult, r.evidence(), len(head))
	}
	return fmt.Sprintf("%s\n[%d of %d bytes omitted.%s]\n%s", head, len(r.body)-len(head)-len(tail), len(r.body), more, tail)
}

// textOf returns a result's text items or, if there are none, its structured content. Other content
// is only mentioned.
func textOf(res *toolyard.Result) string {
	var parts []string
	for _, item := range res.Items() {
		var content struct {
			Type, Text, MIMEType, URI, Data string
			Resource                        struct{ URI, Text string }
		}
		if json.Unmarshal(item.AppendJSON(nil), &content) != nil {
			continue
		}
		switch content.Type {
		case "text":
			parts = append(parts, content.Text)
		case "resource":
			parts = append(parts, content.Resource.Text)
		case "resource_link":
			parts = append(parts, "["+content.URI+"]")
		default:
			parts = append(parts, fmt.Sprintf("[%s %s, about %d bytes]", content.Type, content.MIMEType, len(content.Data)*3/4))
		}
	}
	if len(parts) == 0 && structured(res) != nil {
		return string(structured(res))
	}
	return strings.Join(parts, "\n")
}

// structured returns a result's structured content, even if the result is raw.
func structured(res *toolyard.Result) json.RawMessage {
	if res.Raw() == nil {
		return res.Structured
	}
	members, _ := jsonobject.Map(res.Raw())
	return members["structuredContent"]
}

// valueOf returns a result as JSON: its structured content, its text if that is JSON, or else the
// text as a string.
func valueOf(res *toolyard.Result, text string) json.RawMessage {
	if s := structured(res); s != nil {
		return s
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return jsonobject.AppendString(nil, text)
}
