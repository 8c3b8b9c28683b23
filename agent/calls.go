package agent

import (
	"bytes"
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
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxShown bounds the text of a result that the model receives, in bytes. The beginning gets three
// quarters of it, and the end one quarter.
const maxShown = 40 << 10

// callResult is a call that the model requested, and its result.
type callResult struct {
	model.FunctionCall
	tool     Tool
	evidence string // e1, e2, …; empty if the call did not run
	id       string // of the call on the call path
	start    time.Time
	elapsed  time.Duration
	body     string          // text of the result
	value    json.RawMessage // structured content, or the text as JSON
	err      *toolyard.Error // nil if the call succeeded
}

// runCalls runs the calls of a turn and adds their answers to the conversation: exactly one for
// each, in order. Read-only calls run side by side, others one after the other in the model's order.
func (c *conversation) runCalls(ctx context.Context, calls []model.FunctionCall) ([]*callResult, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	results := make([]*callResult, len(calls))
	for i, call := range calls {
		results[i] = c.admit(call)
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
		case r.tool.IsReadOnly():
			wg.Go(func() { run(r) })
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

// admit decides whether a call runs. A call that does not gets an error.
func (c *conversation) admit(call model.FunctionCall) *callResult {
	r := &callResult{FunctionCall: call, tool: c.tools[call.Name]}
	key := callKey(&call)
	c.seen[key]++
	switch {
	case call.Invalid != "":
		r.err = toolyard.Errorf(toolyard.Invalid, "%s", call.Invalid)
	case r.tool.Tool == nil:
		r.err = c.unknown(call.Name)
	case len(c.executed()) >= c.root.opts.Limits.Calls:
		c.stop = StopCalls
		r.err = toolyard.Errorf(callLimit, "The query has made all %d calls that it may make.", c.root.opts.Limits.Calls)
	case c.failures[key] != nil:
		r.err = c.failures[key]
		if c.seen[key] >= maxRepeats {
			c.stop = StopRepeated
		}
	case c.seen[key] >= maxRepeats:
		c.stop = StopRepeated
		r.err = toolyard.Errorf(toolyard.Failed, "This call was made before, with the same arguments. Use its result.")
	default:
		r.evidence = fmt.Sprintf("e%d", len(c.executed())+1)
	}
	c.calls = append(c.calls, r)
	return r
}

// callLimit is the code of a call that a query may not make any more.
const callLimit toolyard.Code = "CALL_LIMIT"

func callKey(call *model.FunctionCall) string {
	var compact bytes.Buffer
	if json.Compact(&compact, call.Arguments) != nil {
		return call.Name
	}
	return call.Name + " " + compact.String()
}

// executed returns the calls that ran or are about to.
func (r *run) executed() (list []*callResult) {
	for _, call := range r.calls {
		if call.evidence != "" {
			list = append(list, call)
		}
	}
	return list
}

func (c *conversation) unknown(name string) *toolyard.Error {
	var names []string
	for _, f := range c.functions {
		names = append(names, f.Name)
	}
	if shown := untrusted.Prefix(name, 64); len(c.missing) < MaxCalls && !slices.Contains(c.missing, shown) {
		c.missing = append(c.missing, shown)
	}
	return toolyard.Errorf(toolyard.UnknownTool, "Unknown tool %.64q%s.", name, spelling.DidYouMean(name, names))
}

// runCall runs one call on the call path of the agent's gate.
func (c *conversation) runCall(ctx context.Context, r *callResult) {
	if ctx.Err() != nil {
		r.err = toolyard.AsError(ctx.Err())
		return
	}
	limit := c.root.opts.Limits.Calls
	c.mu.Lock()
	c.call.Progress(float64(r.number()-1), float64(limit), fmt.Sprintf("calling %s, %d of %d", r.tool.Name, r.number(), limit))
	c.mu.Unlock()
	c.report(Event{Tool: r.tool.Name, Server: r.tool.Server, Status: "calling"})
	r.start = c.root.opts.Now()
	id, res, err := c.agent.opts.Gate.Call(ctx, c.call, r.tool.Name, r.Arguments)
	r.id, r.elapsed = id, c.root.opts.Now().Sub(r.start)
	status := "done"
	switch {
	case err != nil:
		r.err = toolyard.AsError(err)
	case res.IsError:
		r.body = c.root.opts.Redact(textOf(res))
		r.err = toolyard.Errorf(toolyard.Failed, "%s", untrusted.Truncate(r.body, maxShown))
	default:
		r.body = c.root.opts.Redact(textOf(res))
		r.value = valueOf(res, r.body)
	}
	if r.err != nil {
		status = "failed"
	}
	c.report(Event{Tool: r.tool.Name, Server: r.tool.Server, Status: status})
}

func (r *callResult) number() (n int) {
	_, _ = fmt.Sscanf(r.evidence, "e%d", &n) // admit made it
	return n
}

// answerCalls adds the answers of a turn to the conversation, and notes what went wrong.
func (c *conversation) answerCalls(results []*callResult) {
	answers := make([]model.Answer, len(results))
	failed, invalid := 0, false
	for i, r := range results {
		answers[i] = model.Answer{ID: r.ID, Text: r.text(), Failed: r.err != nil}
		invalid = invalid || r.Invalid != ""
		if r.err == nil {
			continue
		}
		failed++
		if r.evidence != "" && permanent(r.err) {
			c.failures[callKey(&r.FunctionCall)] = r.err
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
	c.messages = append(c.messages, model.Message{Answers: answers})
}

// permanent reports whether a call that failed must not be made again within the query.
func permanent(err *toolyard.Error) bool {
	return slices.Contains([]toolyard.Code{toolyard.Unavailable, toolyard.Timeout, toolyard.PermissionDenied, toolyard.Unauthenticated}, err.Code)
}

// shownResult is a result as the model receives it. The text is a JSON string, so that it cannot
// pretend to be anything else.
type shownResult struct {
	Evidence  string           `json:"evidence,omitempty"`
	From      string           `json:"from,omitempty"`
	Untrusted bool             `json:"untrusted,omitempty"`
	Text      string           `json:"text,omitempty"`
	Error     toolyard.Code    `json:"error,omitempty"`
	Message   string           `json:"message,omitempty"`
	Issues    []toolyard.Issue `json:"issues,omitempty"`
	Retryable *bool            `json:"retryable,omitempty"`
}

func (r *callResult) text() string {
	shown := shownResult{Evidence: r.evidence}
	if r.tool.Tool != nil {
		shown.From, shown.Untrusted = strings.TrimPrefix(r.tool.Server+"/"+r.tool.Tool.Name, "/"), r.tool.Server != ""
	}
	if e := r.err; e != nil {
		retryable := e.Retryable() && !permanent(e)
		shown.Error, shown.Message, shown.Issues, shown.Retryable = e.Code, untrusted.Truncate(e.Message, maxShown), e.Issues, &retryable
	} else {
		shown.Text = shorten(r.body)
	}
	raw, err := jsonobject.Marshal(shown)
	if err != nil {
		return `{"error":"INTERNAL_ERROR"}`
	}
	return string(raw)
}

// shorten cuts the middle out of a long text.
func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return fmt.Sprintf("%s\n[… %d of %d bytes are left out …]\n%s", untrusted.Prefix(text, maxShown*3/4), len(text)-maxShown, len(text), untrusted.Suffix(text, maxShown/4))
}

// textOf returns a result as text: its texts, or its structured content. Other content is named.
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

// structured returns the structured content of a result, also of a raw one.
func structured(res *toolyard.Result) json.RawMessage {
	if res.Raw() == nil {
		return res.Structured
	}
	members, _ := jsonobject.Map(res.Raw())
	return members["structuredContent"]
}

// valueOf returns a result as JSON: its structured content, its text if that is JSON, or the text as
// a string.
func valueOf(res *toolyard.Result, text string) json.RawMessage {
	if s := structured(res); s != nil {
		return s
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return jsonobject.AppendString(nil, text)
}
