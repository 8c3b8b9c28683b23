package script

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// runID identifies a run and its continuations by the ID of the first call and part of the code's
// hash. Idempotency keys, time and random numbers are derived from it.
type runID struct {
	text    string
	started time.Time
	keyed   bool // whether writes have idempotency keys, so that the run can be continued
}

// codeLifetime is how long a run can be continued. Results are stored for a day after the call.
const codeLifetime = 23 * time.Hour

// identify returns the ID of a new or continued run.
func (c *Code) identify(call *toolyard.Call, args *codeArgs) (runID, error) {
	sum := sha256.Sum256([]byte(args.Code))
	digest := hex.EncodeToString(sum[:8])
	id := runID{text: call.ID + "-" + digest, started: call.Start, keyed: c.opts.Durable && call.Caller.Authenticated() && !call.Tool.IsReadOnly()}
	if args.Run == "" {
		return id, nil
	}
	first, of, _ := strings.Cut(args.Run, "-")
	started, ok := ident.CallTime(first)
	age := call.Start.Sub(started)
	switch {
	case !ok || age < -time.Minute:
		return id, toolyard.Errorf(toolyard.NotFound, "Unknown run %.100q. Omit run to start again.", args.Run)
	case of != digest:
		return id, toolyard.Errorf(toolyard.Invalid, "This is not the code that started the run. Send the original code, or omit run to start again.")
	case age > codeLifetime:
		return id, toolyard.Errorf(toolyard.NotFound, "The run is older than %v, so its calls are no longer stored. Check what it did, then omit run to start again.", codeLifetime)
	case call.Tool.IsReadOnly():
		return id, nil // no writes to repeat
	case !id.keyed:
		return id, toolyard.Errorf(toolyard.Invalid, "The run cannot be resumed because its call results were not stored: storing them requires a store and an authenticated caller. Omit run to start again; calls that already ran will be repeated.")
	}
	id.text, id.started = args.Run, started
	return id, nil
}

// seed returns the seed for the run's random numbers.
func (id runID) seed() [32]byte { return sha256.Sum256([]byte(id.text)) }

// now returns the start time that the code sees: the call's as-of time, or the time of the first
// run.
func (id runID) now(call *toolyard.Call) time.Time {
	if call.AsOfSet {
		return call.AsOf
	}
	return id.started.Truncate(time.Millisecond)
}

// key returns the idempotency key for a call.
func (id runID) key(n int) string {
	if !id.keyed {
		return ""
	}
	return fmt.Sprintf("%s/%d", id.text, n)
}

// codeRun handles one run's requests.
type codeRun struct {
	call   func(ctx context.Context, run *toolyard.Call, name string, args json.RawMessage, key string) (*toolyard.Call, *toolyard.Result, error)
	parent *toolyard.Call
	id     runID
	slots  chan struct{} // limits concurrent calls

	open sync.WaitGroup // counts requests in progress

	mu         sync.Mutex
	ended      bool // whether further requests are refused
	unfinished int  // calls in progress when the code returned
	calls      []codeCall
	charged    toolyard.Money  // sum over all calls
	lines      strings.Builder // console output
	dropped    int             // number of dropped lines
}

// codeCall is a call that the code made.
type codeCall struct {
	n        int
	name     string
	code     toolyard.Code // empty while the call runs
	approval string        // ID of the approval that the call is waiting for, if any
}

func newCodeRun(call func(context.Context, *toolyard.Call, string, json.RawMessage, string) (*toolyard.Call, *toolyard.Result, error), parent *toolyard.Call, id runID) *codeRun {
	return &codeRun{call: call, parent: parent, id: id, slots: make(chan struct{}, maxCodeAtOnce)}
}

// codeAnswer is the answer to a request from the code: a value, or an error to throw.
type codeAnswer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *codeError      `json:"error,omitempty"`
}

// codeError is the data for a ToolError in the code.
type codeError struct {
	Code         toolyard.Code    `json:"code"`
	Message      string           `json:"message"`
	Retryable    bool             `json:"retryable"`
	RetryAfterMS int64            `json:"retryAfterMs,omitempty"`
	Issues       []toolyard.Issue `json:"issues,omitempty"`
	Approval     string           `json:"approval,omitempty"`
}

// answer handles a host request from the code.
func (r *codeRun) answer(ctx context.Context, op string, payload json.RawMessage) (any, error) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return nil, context.Canceled
	}
	r.open.Add(1)
	r.mu.Unlock()
	defer r.open.Done()
	switch op {
	case "call":
		return r.callTool(ctx, payload)
	case "search":
		return r.lookUp(ctx, "search_tools", payload)
	case "describe":
		return r.lookUp(ctx, "describe_tools", payload)
	}
	return nil, &jsvm.Refusal{Name: "NotCapable", Message: fmt.Sprintf("%.40s is not available here: call a tool instead", op)}
}

// lookUp handles searches and descriptions, which do not count as calls.
func (r *codeRun) lookUp(ctx context.Context, name string, args json.RawMessage) (any, error) {
	_, res, err := r.call(ctx, r.parent, name, args, "")
	return answerOf(res, err), nil
}

// callTool makes a call. The limits are enforced here, outside the VM.
func (r *codeRun) callTool(ctx context.Context, payload json.RawMessage) (any, error) {
	var q struct {
		N    int
		Name string
		Args json.RawMessage
	}
	if err := json.Unmarshal(payload, &q); err != nil {
		return nil, fmt.Errorf("invalid call: %w", err)
	}
	if !r.begin(q.N, q.Name) {
		return answerOf(nil, toolyard.Errorf("CALL_LIMIT", "Code can make at most %d calls.", maxCodeCalls)), nil
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	inner, res, err := r.call(ctx, r.parent, q.Name, q.Args, r.id.key(q.N))
	answer := answerOf(res, err)
	canceled := answer.Error != nil && ctx.Err() != nil // the code ended before the call
	r.finish(q.N, inner, answer, canceled)
	return answer, nil
}

// begin registers a call. It returns false if the number is out of range or in use.
func (r *codeRun) begin(n int, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n < 1 || n > maxCodeCalls || slices.ContainsFunc(r.calls, func(c codeCall) bool { return c.n == n }) {
		return false
	}
	r.calls = append(r.calls, codeCall{n: n, name: untrusted.Prefix(name, 128)})
	return true
}

// finish records a call's outcome. A canceled call stays unfinished.
func (r *codeRun) finish(n int, inner *toolyard.Call, answer *codeAnswer, canceled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if inner != nil && inner.Receipt != nil && !inner.Receipt.Replayed {
		r.charged += inner.Receipt.Price
	}
	if canceled {
		return
	}
	c := &r.calls[slices.IndexFunc(r.calls, func(c codeCall) bool { return c.n == n })]
	c.code = toolyard.OK
	if e := answer.Error; e != nil {
		c.code, c.approval = e.Code, e.Approval
	}
}

// answerOf converts a call's outcome for the code. It prefers structured content, then text that is
// JSON, then other text, then the content.
func answerOf(res *toolyard.Result, err error) *codeAnswer {
	if err != nil {
		return &codeAnswer{Error: errorFor(toolyard.AsError(err))}
	}
	if res.IsError {
		return &codeAnswer{Error: &codeError{Code: toolyard.Failed, Message: untrusted.Truncate(cmp.Or(textOf(res), "The tool failed."), maxThrown)}}
	}
	if len(res.Structured) > 0 {
		return &codeAnswer{Value: res.Structured}
	}
	items := res.Items()
	if len(items) == 0 {
		return &codeAnswer{Value: json.RawMessage("null")}
	}
	for _, item := range items {
		if _, ok := item.(toolyard.Text); !ok {
			return &codeAnswer{Value: contentValue(items)}
		}
	}
	text := textOf(res)
	if raw := json.RawMessage(strings.TrimSpace(text)); parsable(raw) {
		return &codeAnswer{Value: raw}
	}
	return &codeAnswer{Value: jsonobject.AppendString(nil, text)}
}

// maxExactNumber is the number of digits that JavaScript numbers represent exactly.
const maxExactNumber = 15

// parsable reports whether a text is JSON that JavaScript can parse with no loss.
func parsable(raw json.RawMessage) bool {
	if len(raw) == 0 || !json.Valid(raw) {
		return false
	}
	isNumber := raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
	return !isNumber || len(raw) <= maxExactNumber
}

func contentValue(items []toolyard.Content) json.RawMessage {
	b := []byte(`{"content":[`)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item.AppendJSON(b)
	}
	return append(b, "]}"...)
}

// textOf returns a result's text items.
func textOf(res *toolyard.Result) string {
	var texts []string
	for _, item := range res.Items() {
		if text, ok := item.(toolyard.Text); ok {
			texts = append(texts, string(text))
		}
	}
	return strings.Join(texts, "\n")
}

func errorFor(e *toolyard.Error) *codeError {
	return &codeError{
		Code: e.Code, Message: untrusted.Truncate(e.Message, maxThrown), Retryable: e.Retryable(), Issues: e.Issues,
		RetryAfterMS: e.RetryAfter.Milliseconds(), Approval: e.Approval,
	}
}

// log collects the code's console output.
func (r *codeRun) log(level slog.Level, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if level >= slog.LevelWarn {
		text = strings.ToLower(level.String()) + ": " + text
	}
	if r.ended || r.dropped > 0 || r.lines.Len()+len(text) >= maxCodeLogs {
		r.dropped++
		return
	}
	r.lines.WriteString(text + "\n")
}

// end refuses further requests and waits for those in progress. Their context is canceled, so only
// calls that must not be interrupted take time.
func (r *codeRun) end(ctx context.Context) {
	r.mu.Lock()
	r.ended = true
	for _, c := range r.calls {
		if c.code == "" {
			r.unfinished++
		}
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.open.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (r *codeRun) made() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// result converts the value that the code returned.
func (r *codeRun) result(value json.RawMessage) *toolyard.Result {
	text := string(value)
	if s, ok := jsonobject.String(value); ok {
		text = s
	}
	return r.report(shorten(cmp.Or(text, "The code returned no value.")), false)
}

// shorten removes the middle of a value that is too large for a model.
func shorten(text string) string {
	if len(text) <= maxCodeValue {
		return text
	}
	head, tail := text[:maxCodeValue*3/4], text[len(text)-maxCodeValue/4:]
	for len(head) > 0 && !utf8.ValidString(head[max(0, len(head)-utf8.UTFMax):]) && !utf8.RuneStart(head[len(head)-1]) {
		head = head[:len(head)-1]
	}
	head, tail = strings.ToValidUTF8(head, ""), strings.ToValidUTF8(tail, "")
	return fmt.Sprintf("%s\n[... %d of %d bytes omitted: return less, such as a count, a filtered list or single fields ...]\n%s",
		head, len(text)-len(head)-len(tail), len(text), tail)
}

// runMeta is the key for codeMeta in a result's metadata.
const runMeta = "dev.toolyard/run"

// codeMeta describes a run.
type codeMeta struct {
	ID      string         `json:"id"`
	Calls   int            `json:"calls"`
	Charged toolyard.Money `json:"chargedUsd"` // total for all calls; each call has its own receipt
}

// report returns the run's result: a text, followed by notes that help the model to continue.
func (r *codeRun) report(text string, failed bool) *toolyard.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	meta, _ := json.Marshal(codeMeta{r.id.text, len(r.calls), r.charged}) // cannot fail
	res := &toolyard.Result{IsError: failed, Meta: map[string]json.RawMessage{runMeta: meta}}
	add := func(text string) { res.Content = append(res.Content, toolyard.Text(text)) }
	add(text)
	if failed && len(r.calls) > 0 {
		add("Calls made: " + r.summary())
	}
	if waiting := r.waiting(); waiting != "" {
		add(waiting)
	}
	if r.unfinished > 0 {
		add(spelling.Count(r.unfinished, "call") +
			" had not finished when the code ended and may have been canceled: use await.")
	}
	if r.dropped > 0 {
		fmt.Fprintf(&r.lines, "[%s omitted]\n", spelling.Count(r.dropped, "more line"))
	}
	if logs := strings.TrimRight(r.lines.String(), "\n"); logs != "" {
		add("Console output:\n" + logs)
	}
	return res
}

// summary lists the calls in the order in which the code made them. Consecutive identical calls are counted.
func (r *codeRun) summary() string {
	slices.SortFunc(r.calls, func(a, b codeCall) int { return a.n - b.n })
	var parts []string
	for i := 0; i < len(r.calls); {
		c, count := r.calls[i], 0
		for ; i < len(r.calls) && r.calls[i].name == c.name && r.calls[i].code == c.code; i++ {
			count++
		}
		part := c.name + ": " + string(cmp.Or(c.code, "unfinished"))
		if count > 1 {
			part += fmt.Sprintf(" (%d times)", count)
		}
		parts = append(parts, part)
	}
	return untrusted.Truncate(strings.Join(parts, ", "), maxCodeError)
}

// waiting describes the calls that are waiting for approval, and how to continue the run after
// that.
func (r *codeRun) waiting() string {
	var names []string
	for _, c := range r.calls {
		if c.code == toolyard.ApprovalRequired {
			name := c.name
			if c.approval != "" {
				name += " (approval " + c.approval + ")"
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	text := "Waiting for approval: " + strings.Join(names, ", ") + ". "
	if !r.id.keyed {
		return text + "The run cannot be resumed because its call results are not stored. Once approved, run the code again without the calls that already ran."
	}
	return text + "Once approved, call " + CodeTool + " again with the same code and run: \"" + r.id.text + "\". Calls that have already run are not repeated."
}

// textLine returns a line of a text. The first line is 1.
func textLine(text string, line int) string {
	for l := range strings.Lines(text) {
		if line--; line == 0 {
			return strings.TrimRight(l, "\r\n")
		}
	}
	return ""
}
