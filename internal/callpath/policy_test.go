package callpath_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/callpath"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type args struct {
	N int `json:"n" default:"7" maximum:"9"`
}

func tool(spec toolyard.Spec, fn func(context.Context, *toolyard.Call, args) (any, error)) *toolyard.Tool {
	spec.Name = "t"
	return toolyard.Define(spec, fn)
}

func call(t *testing.T, tool *toolyard.Tool, rawArgs string, policies ...toolyard.Policy) (*toolyard.Result, *toolyard.Error) {
	t.Helper()
	return callIn(t.Context(), tool, rawArgs, policies...)
}

func callIn(ctx context.Context, tool *toolyard.Tool, rawArgs string, policies ...toolyard.Policy) (*toolyard.Result, *toolyard.Error) {
	c := &toolyard.Call{ID: "c1", Tool: tool, Args: json.RawMessage(rawArgs), Caller: toolyard.Caller{ID: "ann"}}
	res, err := callpath.Chain(callpath.Run, policies...)(ctx, c)
	if err != nil {
		return nil, toolyard.AsError(err)
	}
	return res, nil
}

// notes is a Recorder that stores the calls it receives.
type notes struct {
	intents  int
	outcomes []toolyard.Outcome
	refuse   error
}

func (n *notes) Intent(context.Context, *toolyard.Call) error {
	n.intents++
	return n.refuse
}

func (n *notes) Outcome(_ context.Context, _ *toolyard.Call, o toolyard.Outcome) {
	n.outcomes = append(n.outcomes, o)
}

func TestRecordHearsOfEverything(t *testing.T) {
	for name, tt := range map[string]struct {
		spec    toolyard.Spec
		args    string
		refuse  error
		ran     bool
		intents int
		code    toolyard.Code
	}{
		"read":           {spec: toolyard.Spec{Effects: toolyard.ReadOnly}, ran: true, code: "OK"},
		"write":          {ran: true, intents: 1, code: "OK"},
		"refused":        {args: `{"n":10}`, code: toolyard.Invalid},
		"not recordable": {refuse: errors.New("disk full"), intents: 1, code: toolyard.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			n, ran := &notes{refuse: tt.refuse}, false
			tool := tool(tt.spec, func(context.Context, *toolyard.Call, args) (any, error) {
				ran = true
				return "x", nil
			})
			_, err := call(t, tool, tt.args, callpath.Record(time.Now, n), callpath.Validate(time.Minute), callpath.Intend(n))
			if ran != tt.ran || n.intents != tt.intents || len(n.outcomes) != 1 || n.outcomes[0].Code() != tt.code {
				t.Errorf("ran %v, %+v, %v", ran, n, err)
			}
		})
	}
}

func TestLogIsOneLineWithAllThatMatters(t *testing.T) {
	var b strings.Builder
	log := callpath.Log{Logger: slog.New(slog.NewJSONHandler(&b, nil))}
	failing := tool(toolyard.Spec{}, func(context.Context, *toolyard.Call, args) (any, error) { return nil, errors.New("boom") })
	_, _ = call(t, failing, "{}", callpath.Record(time.Now, log), callpath.Validate(time.Minute))
	var line map[string]any
	if err := json.Unmarshal([]byte(b.String()), &line); err != nil {
		t.Fatalf("not one line: %q", b.String())
	}
	for key, want := range map[string]any{"call": "c1", "tool": "t", "caller": "ann", "code": "TOOL_EXECUTION_ERROR", "error": "boom"} {
		if line[key] != want {
			t.Errorf("%s is %v in %s", key, line[key], b.String())
		}
	}
	if ms, ok := line["elapsedMs"].(float64); !ok || ms < 0 || ms > 1e5 {
		t.Errorf("elapsedMs is %v in %s", line["elapsedMs"], b.String())
	}
}

func TestRecover(t *testing.T) {
	crashing := tool(toolyard.Spec{}, func(context.Context, *toolyard.Call, args) (any, error) { panic("ouch") })
	for name, policies := range map[string][]toolyard.Policy{
		"in line":         {callpath.Recover()},
		"beside Deadline": {callpath.Recover(), callpath.Deadline(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := call(t, crashing, `{}`, policies...)
			if err.Code != toolyard.Failed || err.Message != "t crashed." || strings.Contains(err.Error(), "goroutine") {
				t.Errorf("%+v", err)
			}
			if !strings.Contains(err.Err.Error(), "policy_test.go") {
				t.Error("the cause has no position")
			}
		})
	}
}

func TestCap(t *testing.T) {
	ran := 0
	big := tool(toolyard.Spec{}, func(_ context.Context, _ *toolyard.Call, in args) (any, error) {
		ran++
		return strings.Repeat("x", in.N*1000), nil
	})
	if _, err := call(t, big, `{"n":1} `, callpath.Cap(7, 0)); err == nil || err.Code != toolyard.ArgsTooLarge || ran != 0 {
		t.Errorf("one byte too many: %v, ran %d times", err, ran)
	}
	if _, err := call(t, big, `{"n":1}`, callpath.Cap(7, 0)); err != nil || ran != 1 {
		t.Errorf("at the limit: %v", err)
	}
	if res, err := call(t, big, `{"n":9}`, callpath.Cap(0, 1000)); err != nil || res.Size() > 1000 || res.Meta["dev.toolyard/truncated"] == nil {
		t.Errorf("%v %v", res, err)
	}
	promising := tool(toolyard.Spec{Output: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *toolyard.Call, args) (any, error) {
		return map[string]string{"a": strings.Repeat("x", 2000)}, nil
	})
	if _, err := call(t, promising, `{}`, callpath.Cap(0, 1000)); err == nil || err.Code != toolyard.ResultTooLarge || err.Code.Retryable() {
		t.Errorf("structured output was cut: %v", err)
	}
}

func TestValidateFillsDefaults(t *testing.T) {
	seen := tool(toolyard.Spec{}, func(_ context.Context, _ *toolyard.Call, in args) (any, error) { return in.N, nil })
	for _, rawArgs := range []string{``, `null`, `{}`} {
		res, err := call(t, seen, rawArgs, callpath.Validate(time.Minute))
		if err != nil || res.Content[0] != toolyard.Text("7") {
			t.Errorf("%q: %v %v", rawArgs, res, err)
		}
	}
}

func TestDeadline(t *testing.T) {
	const limit = 30 * time.Second
	for name, tt := range map[string]struct {
		spec    toolyard.Spec
		stopped time.Duration
	}{
		"the platform's":       {stopped: limit},
		"the tool's shorter":   {spec: toolyard.Spec{Terms: toolyard.Terms{Timeout: time.Second}}, stopped: time.Second},
		"the platform is less": {spec: toolyard.Spec{Terms: toolyard.Terms{Timeout: time.Hour}}, stopped: limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cleaned := false
				slow := tool(tt.spec, func(ctx context.Context, _ *toolyard.Call, _ args) (any, error) {
					<-ctx.Done()
					cleaned = true
					return nil, ctx.Err()
				})
				start := time.Now()
				_, err := call(t, slow, `{}`, callpath.Deadline(limit))
				if err.Code != toolyard.Timeout || err.Code.Retryable() || time.Since(start) != tt.stopped {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				synctest.Wait()
				if !cleaned {
					t.Error("the tool's context was not canceled")
				}
			})
		})
	}
}

func TestDeadlineDoesNotWaitForADeafTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := tool(toolyard.Spec{}, func(context.Context, *toolyard.Call, args) (any, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})
		start := time.Now()
		if _, err := call(t, deaf, `{}`, callpath.Deadline(time.Second)); err.Code != toolyard.Timeout || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := callIn(ctx, deaf, `{}`, callpath.Deadline(time.Second)); err.Code != toolyard.Canceled {
			t.Errorf("a caller that left got %v", err)
		}
		time.Sleep(2 * time.Hour) // lets the tools that ignore cancellation end
	})
}

// The outcome of a write is recorded even if its caller has disconnected.
func TestTheOutcomeOutlivesTheCaller(t *testing.T) {
	var seen error
	ctx, cancel := context.WithCancel(t.Context())
	leaving := tool(toolyard.Spec{}, func(context.Context, *toolyard.Call, args) (any, error) {
		cancel()
		return "done", nil
	})
	r := recorderFunc(func(ctx context.Context) { seen = ctx.Err() })
	if _, err := callIn(ctx, leaving, `{}`, callpath.Record(time.Now, r)); err != nil || seen != nil {
		t.Error(err, seen)
	}
}

type recorderFunc func(context.Context)

func (f recorderFunc) Intent(context.Context, *toolyard.Call) error { return nil }

func (f recorderFunc) Outcome(ctx context.Context, _ *toolyard.Call, _ toolyard.Outcome) { f(ctx) }

// admits is an Admitter that admits everything.
type admits struct{ settled toolyard.Outcome }

func (*admits) Admit(_ context.Context, a *admission.Request) (*admission.Admission, error) {
	return &admission.Admission{Request: a}, nil
}

func (a *admits) Settle(_ context.Context, t *admission.Admission, o toolyard.Outcome) (*toolyard.Receipt, error) {
	a.settled = o
	return &toolyard.Receipt{Call: t.Request.CallID, Price: t.Request.Price}, nil
}

// A caller that disconnects during a paid write is still charged.
func TestLeavingDoesNotStopAPaidWrite(t *testing.T) {
	for name, tt := range map[string]struct {
		needs admission.Request
		code  toolyard.Code
	}{
		"paid write":      {admission.Request{Balance: "acme", Price: 1, Writes: true}, toolyard.OK},
		"idempotency key": {admission.Request{Key: "k"}, toolyard.OK},
		"paid read":       {admission.Request{Balance: "acme", Price: 1}, toolyard.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			leaving := tool(toolyard.Spec{}, func(ctx context.Context, _ *toolyard.Call, _ args) (any, error) {
				cancel()
				return "done", ctx.Err()
			})
			a := &admits{}
			_, _ = callIn(ctx, leaving, "{}", callpath.Admit(time.Now, a, func(*toolyard.Call) (*admission.Request, error) { return &tt.needs, nil }))
			if got := a.settled.Code(); got != tt.code {
				t.Errorf("it was settled as %s", got)
			}
		})
	}
}

// TestCanceledIntentIsACanceledCall checks the code of a write whose caller disconnects while its
// intent is pending. It must not be Unavailable.
func TestCanceledIntentIsACanceledCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write := tool(toolyard.Spec{}, func(context.Context, *toolyard.Call, args) (any, error) { return nil, nil })
	_, err := callIn(ctx, write, "{}", callpath.Intend(&notes{refuse: errors.New("no answer")}))
	if err == nil || err.Code != toolyard.Canceled {
		t.Errorf("got %v, want %s", err, toolyard.Canceled)
	}
}
