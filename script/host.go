package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// hostAPI handles a script's host requests during a call.
type hostAPI struct {
	call  *toolyard.Call
	reach *reach
	loads chan struct{} // limits concurrent reads
	acted atomic.Bool   // whether the script made a request that may have had an effect

	mu       sync.Mutex
	askError error // error for the first unanswered question
}

// maxLoads limits how many files and HTTP responses one call reads concurrently.
const maxLoads = 8

// load waits for a slot and reads.
func (o *hostAPI) load(ctx context.Context, read func() (any, error)) (any, error) {
	select {
	case o.loads <- struct{}{}:
		defer func() { <-o.loads }()
		return read()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hostRequest holds the parameters of all host requests.
type hostRequest struct {
	// For tools and resources.
	Server string
	Calls  []struct {
		Name      string
		Arguments json.RawMessage
	}
	URI string
	// For progress.
	Done, Total float64
	Message     string
	// For files and environment variables.
	Path string
	Name string
	// For fetch.
	URL, Method, Redirect string
	Headers               [][2]string
	Body                  *string
}

// answer handles one host request. Permissions are enforced here, outside the VM.
func (o *hostAPI) answer(ctx context.Context, op string, payload json.RawMessage) (any, error) {
	var q hostRequest
	if err := json.Unmarshal(payload, &q); err != nil {
		return nil, fmt.Errorf("%s: invalid request: %w", op, err)
	}
	if op == "fetch" || op == "CallToolsParallel" {
		o.acted.Store(true)
	}
	switch op {
	case "ListTools":
		return o.listTools(&q)
	case "CallToolsParallel":
		return o.callTools(ctx, &q)
	case "ListResources":
		return o.resources(ctx, &q)
	case "ReadResource":
		return o.readResource(ctx, &q)
	case "Ask":
		return o.ask(ctx, payload)
	case "fetch":
		return o.load(ctx, func() (any, error) { return o.fetch(ctx, &q) })
	case "read":
		return o.load(ctx, func() (any, error) {
			data, err := o.reach.readFile(q.Path)
			return map[string]string{"data": base64.StdEncoding.EncodeToString(data)}, err
		})
	case "stat":
		return o.reach.stat(q.Path)
	case "list":
		return o.reach.list(q.Path)
	case "cwd":
		return o.reach.workingDir(), nil
	case "env":
		if q.Name == "" {
			return o.reach.variables(), nil
		}
		return o.reach.variable(q.Name)
	}
	return nil, fmt.Errorf("unknown host request %s", op)
}

// notify handles a notification, which is always progress.
func (o *hostAPI) notify(op string, payload json.RawMessage) {
	var q hostRequest
	if op == "progress" && json.Unmarshal(payload, &q) == nil {
		o.call.Progress(q.Done, q.Total, q.Message)
	}
}

func (o *hostAPI) toolbox() (toolyard.Toolbox, error) {
	if o.call.Toolbox == nil {
		return nil, errors.New("other tools cannot be called here")
	}
	return o.call.Toolbox, nil
}

func (o *hostAPI) listTools(q *hostRequest) (any, error) {
	box, err := o.toolbox()
	if err != nil {
		return nil, err
	}
	tools, err := box.Tools(o.call, q.Server)
	if err != nil {
		return nil, err
	}
	type listed struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	list := make([]listed, 0, len(tools))
	for _, t := range tools {
		list = append(list, listed{t.Name, t.Description, t.CallerInput()})
	}
	return list, nil
}

// maxCalls limits how many tools a script calls concurrently.
const maxCalls = 64

// callTools calls tools concurrently. Results are in the order of the calls, and a failed call's
// result is an error.
func (o *hostAPI) callTools(ctx context.Context, q *hostRequest) (any, error) {
	box, err := o.toolbox()
	if err != nil {
		return nil, err
	}
	if len(q.Calls) > maxCalls {
		return nil, fmt.Errorf("a script can call at most %d tools concurrently", maxCalls)
	}
	ctx, turns := turnsOf(ctx)
	results := make([]*toolyard.Result, len(q.Calls))
	var wg sync.WaitGroup
	for i, c := range q.Calls {
		wg.Go(func() {
			res, err := turns.call(func() (*toolyard.Result, error) {
				return box.CallTool(ctx, o.call, q.Server, c.Name, c.Arguments)
			})
			if err != nil {
				res = toolyard.AsError(err).Result()
			}
			results[i] = res
		})
	}
	wg.Wait()
	return results, nil
}

// turns limits a call's concurrent nested calls, at any depth. It refuses calls instead of queueing
// them, because waiting could deadlock.
type turns chan struct{}

type turnsKey struct{}

func turnsOf(ctx context.Context) (context.Context, turns) {
	if t, ok := ctx.Value(turnsKey{}).(turns); ok {
		return ctx, t
	}
	t := make(turns, maxCalls)
	return context.WithValue(ctx, turnsKey{}, t), t
}

func (t turns) call(make func() (*toolyard.Result, error)) (*toolyard.Result, error) {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
		return make()
	default:
		return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: fmt.Sprintf("A call can run at most %d nested calls concurrently. Wait for one to finish.", maxCalls), RetryAfter: time.Second}
	}
}

func (o *hostAPI) resources(_ context.Context, q *hostRequest) (any, error) {
	box, err := o.toolbox()
	if err != nil {
		return nil, err
	}
	list, err := box.Resources(o.call, q.Server)
	definitions := make([]json.RawMessage, 0, len(list))
	for _, r := range list {
		definitions = append(definitions, r.Definition)
	}
	return definitions, err
}

func (o *hostAPI) readResource(ctx context.Context, q *hostRequest) (any, error) {
	box, err := o.toolbox()
	if err != nil {
		return nil, err
	}
	return box.ReadResource(ctx, o.call, q.Server, q.URI)
}

// ask asks the user. If there is no answer yet, the script ends, the client asks its user, and the
// call runs again from the start.
func (o *hostAPI) ask(ctx context.Context, payload json.RawMessage) (any, error) {
	var q struct {
		Key, Message, URL, Bind string
		Schema, State           json.RawMessage
	}
	if err := json.Unmarshal(payload, &q); err != nil {
		return nil, fmt.Errorf("invalid question: %w", err)
	}
	reply, err := toolyard.Ask[map[string]any](ctx, o.call, toolyard.Question{Key: q.Key, Message: q.Message, URL: q.URL, Bind: q.Bind, Schema: q.Schema, State: q.State})
	if err != nil {
		o.mu.Lock()
		o.askError = cmp.Or(o.askError, err)
		o.mu.Unlock()
		return nil, &jsvm.Refusal{Name: "Unanswered", Message: err.Error()}
	}
	state := json.RawMessage(reply.State)
	if len(state) == 0 {
		state = json.RawMessage("null")
	}
	return map[string]any{"action": reply.Action, "form": reply.Form, "state": state}, nil
}

// unanswered returns the error for an unanswered question. A script can catch the error if the
// client cannot ask, but not if the question is open.
func (o *hostAPI) unanswered(failed bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, refused := errors.AsType[*toolyard.Error](o.askError); refused && !failed {
		return nil
	}
	return o.askError
}

// httpAnswer is the part of an HTTP response that a script receives.
type httpAnswer struct {
	Status     int         `json:"status"`
	StatusText string      `json:"statusText"`
	Headers    [][2]string `json:"headers"`
	URL        string      `json:"url"`
	Redirected bool        `json:"redirected"`
	Body       string      `json:"body"`
}

// reasonOf returns the cause of a failed request, omitting its method and URL.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

func (o *hostAPI) fetch(ctx context.Context, q *hostRequest) (any, error) {
	var body []byte
	if q.Body != nil {
		var err error
		if body, err = base64.StdEncoding.DecodeString(*q.Body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(q.Method), q.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range q.Headers {
		req.Header.Add(h[0], h[1])
	}
	res, data, err := o.reach.net.Do(req, q.Redirect) //nolint:bodyclose // it is read and closed
	var unreachable *outbound.NotAllowedError
	var private *outbound.NotPublicError
	switch {
	case errors.As(err, &private):
		return nil, &jsvm.Refusal{Name: "NotCapable", Code: "EACCES", Message: private.Error()}
	case errors.As(err, &unreachable):
		return nil, o.reach.notCapable("network access to "+req.URL.Host, "net", req.URL.Hostname())
	case err != nil:
		return nil, &jsvm.Refusal{Name: "TypeError", Message: reasonOf(err)}
	}
	a := httpAnswer{
		Status: res.StatusCode, StatusText: http.StatusText(res.StatusCode), URL: res.Request.URL.String(),
		Redirected: res.Request.URL.String() != req.URL.String(), Body: base64.StdEncoding.EncodeToString(data),
	}
	for name, values := range res.Header {
		for _, v := range values {
			a.Headers = append(a.Headers, [2]string{name, v})
		}
	}
	return a, nil
}
