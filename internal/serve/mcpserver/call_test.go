package mcpserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// ann returns a call request from the caller ann.
func ann(tool string) *serve.CallRequest {
	return &serve.CallRequest{Gate: "default", Tool: tool, Args: json.RawMessage(`{"a":1,"b":2}`), Caller: toolyard.Caller{ID: "ann"}, Request: toolyard.Request{ClientCapabilities: serve.Elicitation}}
}

// clocked returns a server with two gates and an adjustable clock, and counts the runs of its tools.
func clocked(t *testing.T, run func(*toolyard.Call) (string, error)) (s *mcpserver.Server, clock *time.Time, ran *atomic.Int64) {
	t.Helper()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	clock, ran = &now, new(atomic.Int64)
	s = mcpserver.New(mcpserver.Options{Call: callpath.Run, Now: func() time.Time { return *clock }})
	t.Cleanup(s.Close)
	counted := func(c *toolyard.Call) (string, error) {
		ran.Add(1)
		return run(c)
	}
	s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write}, {Name: "other", Mode: toolyard.Write}}, catalog.Offer{Tools: []*toolyard.Tool{
		raw(toolyard.Spec{Name: "ask"}, counted), raw(toolyard.Spec{Name: "count"}, counted),
	}}, true)
	return s, clock, ran
}

// asked makes a call that requires input and returns the questions.
func asked(t *testing.T, s *mcpserver.Server, tool string) *serve.InputRequired {
	t.Helper()
	reply, err := s.CallInteractive(t.Context(), ann(tool))
	if err != nil || reply.InputRequired == nil || reply.Result != nil || reply.Call == nil {
		t.Fatalf("%+v %v", reply, err)
	}
	return reply.InputRequired
}

func TestInteractiveCallReturnsQuestions(t *testing.T) {
	s, _, _ := clocked(t, asker)
	asks := asked(t, s, "ask")
	want := map[string]toolyard.Question{"n": {
		Key:     "n",
		Message: "How many?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`),
	}}
	if diff := cmp.Diff(want, asks.Questions); diff != "" || asks.State == "" || strings.Contains(asks.State, "inner") {
		t.Errorf("state %q: %s", asks.State, diff)
	}
	again := ann("ask")
	again.Args = json.RawMessage(` { "b":2, "a" : 1 } `) // the same arguments
	again.RequestState, again.InputResponses = asks.State, json.RawMessage(`{"n":{"action":"accept","content":{"n":9007199254740993}}}`)
	reply, err := s.CallInteractive(t.Context(), again)
	if err != nil || reply.InputRequired != nil {
		t.Fatalf("%+v %v", reply, err)
	}
	if got := string(reply.Result.Raw()); !strings.Contains(got, `inner {\"n\":{\"action\":\"accept\",\"content\":{\"n\":9007199254740993}}}`) {
		t.Error(got)
	}
}

func TestStateIsBoundToItsCall(t *testing.T) {
	for name, change := range map[string]func(r *serve.CallRequest, clock *time.Time){
		"another caller":   func(r *serve.CallRequest, _ *time.Time) { r.Caller.ID = "bob" },
		"another tool":     func(r *serve.CallRequest, _ *time.Time) { r.Tool = "count" },
		"another gate":     func(r *serve.CallRequest, _ *time.Time) { r.Gate = "other" },
		"other arguments":  func(r *serve.CallRequest, _ *time.Time) { r.Args = json.RawMessage(`{"a":1}`) },
		"a changed state":  func(r *serve.CallRequest, _ *time.Time) { r.RequestState += "A" },
		"the tool's state": func(r *serve.CallRequest, _ *time.Time) { r.RequestState = "inner" },
		"too late":         func(_ *serve.CallRequest, clock *time.Time) { *clock = clock.Add(10*time.Minute + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s, clock, ran := clocked(t, asker)
			r := ann("ask")
			r.RequestState, r.InputResponses = asked(t, s, "ask").State, json.RawMessage(`{}`)
			change(r, clock)
			refused(t, s, r, "state")
			if ran.Load() != 1 {
				t.Errorf("the tool ran %d times", ran.Load())
			}
		})
	}
}

// refused checks that a call is rejected because of one of its members.
func refused(t *testing.T, s *mcpserver.Server, r *serve.CallRequest, member string) {
	t.Helper()
	reply, err := s.CallInteractive(t.Context(), r)
	if err == nil || reply != (serve.CallOutcome{}) {
		t.Fatalf("%+v %v", reply, err)
	}
	if e := toolyard.AsError(err); e.Code != toolyard.Invalid || len(e.Issues) != 1 || e.Issues[0].Path != member {
		t.Errorf("%+v", e)
	}
}

func TestStateIsUsedOnce(t *testing.T) {
	s, _, ran := clocked(t, asker)
	r := ann("ask")
	r.RequestState, r.InputResponses = asked(t, s, "ask").State, json.RawMessage(`{}`)
	if _, err := s.CallInteractive(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	refused(t, s, r, "state")
	if ran.Load() != 2 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

func TestInteractiveAnswersAreLimited(t *testing.T) {
	s, _, ran := clocked(t, asker)
	for _, answers := range []string{`[]`, `{"n":{"action":"accept","content":{"x":"` + strings.Repeat("x", 64<<10) + `"}}}`} {
		r := ann("ask")
		r.RequestState, r.InputResponses = "s", json.RawMessage(answers)
		refused(t, s, r, "answers")
	}
	if ran.Load() != 0 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

func TestInteractiveCallContinuesOverMCP(t *testing.T) {
	s, _, _ := clocked(t, asker)
	first := &serve.CallRequest{Gate: "default", Tool: "count", Caller: toolyard.Caller{ID: ident.Anonymous}, Request: toolyard.Request{ClientCapabilities: serve.Elicitation}}
	reply, err := s.CallInteractive(t.Context(), first)
	if err != nil || reply.InputRequired == nil {
		t.Fatalf("%+v %v", reply, err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","inputResponses":{"n":{"action":"decline"}},"requestState":"` + reply.InputRequired.State + `",` + goodMeta + `}}`
	w := post(s.Handler(func(*http.Request) string { return "default" }), []byte(body), modernHeader)
	if !strings.Contains(w.Body.String(), `inner {\"n\":{\"action\":\"decline\"}}`) {
		t.Error(w.Body)
	}
}

// Requests that only a program could answer fail with an error that names the missing capability.
func TestInteractiveCallReturnsOnlyQuestionsForUsers(t *testing.T) {
	question := func(method, params string) string {
		return `{"resultType":"input_required","inputRequests":{"k":{"method":"` + method + `","params":` + params + `}},"requestState":"inner"}`
	}
	for name, c := range map[string]struct {
		result string
		want   map[string]toolyard.Question
		code   toolyard.Code
		need   string
	}{
		"a page": {result: question("elicitation/create", `{"mode":"url","message":"Sign in","url":"https://example.com/?a=1\u0026b"}`), want: map[string]toolyard.Question{
			"k": {Key: "k", Message: "Sign in", URL: "https://example.com/?a=1&b"},
		}},
		"only a state":  {result: `{"resultType":"input_required","requestState":"inner"}`, want: map[string]toolyard.Question{}},
		"a model":       {result: question("sampling/createMessage", `{"messages":[],"maxTokens":1}`), code: toolyard.MissingCapability, need: "sampling"},
		"its tools":     {result: question("sampling/createMessage", `{"tools":[]}`), code: toolyard.MissingCapability, need: "sampling.tools"},
		"roots":         {result: question("roots/list", `{}`), code: toolyard.MissingCapability, need: "roots"},
		"a bad form":    {result: question("elicitation/create", `{"message":"?"}`), code: toolyard.Failed},
		"a bad address": {result: question("elicitation/create", `{"mode":"url","message":"?","url":"javascript:alert(1)"}`), code: toolyard.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := clocked(t, func(*toolyard.Call) (string, error) { return c.result, nil })
			reply, err := s.CallInteractive(t.Context(), ann("ask"))
			if c.code == "" {
				if err != nil || reply.InputRequired == nil || cmp.Diff(c.want, reply.InputRequired.Questions) != "" {
					t.Fatalf("%+v %v", reply.InputRequired, err)
				}
				return
			}
			if err == nil || reply.Call == nil || reply.Result != nil || reply.InputRequired != nil {
				t.Fatalf("%+v %v", reply, err)
			}
			e := toolyard.AsError(err)
			if e.Code != c.code || strings.Join(e.Missing, " ") != c.need || !strings.Contains(e.Message, c.need) || strings.Contains(e.Message, "inner") {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestNestedCallCannotRequireInput(t *testing.T) {
	s, _, _ := clocked(t, asker)
	if res, err := s.Call(t.Context(), ann("ask")); err == nil || toolyard.AsError(err).Code != toolyard.MissingCapability {
		t.Errorf("%v %v", res, err)
	}
}
