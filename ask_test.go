package toolyard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
)

var canAsk = json.RawMessage(`{"elicitation":{}}`)

// unfinished decodes an unfinished result.
func unfinished(t testing.TB, res *toolyard.Result) (requests json.RawMessage, state string) {
	t.Helper()
	var in struct {
		InputRequests json.RawMessage
		RequestState  string
	}
	if res == nil || !res.InputRequired() {
		t.Fatalf("%+v is not unfinished", res)
	}
	if err := json.Unmarshal(res.Raw(), &in); err != nil {
		t.Fatal(err)
	}
	return in.InputRequests, in.RequestState
}

func ExampleAsk() {
	type confirmation struct {
		PIN string `json:"pin" doc:"PIN of the lock" pattern:"^[0-9]{4}$"`
	}
	type args struct {
		Lock string `json:"lock"`
	}
	state := "locked" // state of the front door
	unlock := toolyard.Define(
		toolyard.Spec{Name: "unlock", Description: "Unlocks a door after the user has confirmed it."},
		func(ctx context.Context, call *toolyard.Call, in args) (string, error) {
			reply, err := toolyard.Ask[confirmation](ctx, call, toolyard.Question{
				Key: "confirm", Message: fmt.Sprintf("Unlock the %s, which is %s?", in.Lock, state), Bind: state,
			})
			if err != nil {
				return "", err // either there is no answer yet, or the client cannot ask
			}
			if !reply.Accepted() {
				return "The user did not confirm it.", nil
			}
			return "Unlocked with " + reply.Form.PIN + ".", nil
		})

	call := &toolyard.Call{Tool: unlock, Args: json.RawMessage(`{"lock":"front door"}`), Request: toolyard.Request{ClientCapabilities: json.RawMessage(`{"elicitation":{}}`)}}
	result, _ := unlock.Run(context.Background(), call)
	fmt.Println(result.InputRequired())

	// The client asks the user and repeats the call with the answer. The server verifies the state.
	var request struct{ RequestState string }
	_ = json.Unmarshal(result.Raw(), &request)
	call.RequestState, call.InputResponses = request.RequestState, json.RawMessage(`{"confirm":{"action":"accept","content":{"pin":"1234"}}}`)
	result, _ = unlock.Run(context.Background(), call)
	fmt.Println(result.Content[0])
	// Output:
	// true
	// Unlocked with 1234.
}

// order is a form with a field of each type.
type order struct {
	Side  string  `json:"side" enum:"buy,sell" default:"buy"`
	Size  float64 `json:"size" minimum:"0"`
	Stop  bool    `json:"stop,omitempty"`
	Count int     `json:"count,omitempty"`
}

// asking returns a tool that asks a question and returns the reply.
func asking[T any](q toolyard.Question) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "order"}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (any, error) {
		return toolyard.Ask[T](ctx, c, q)
	})
}

func TestAskSendsTheForm(t *testing.T) {
	for name, tt := range map[string]struct {
		tool *toolyard.Tool
		want string
	}{
		"a form of a type": {
			asking[order](toolyard.Question{Key: "k", Message: "<OK>?"}),
			`{"k":{"method":"elicitation/create","params":{"message":"<OK>?","requestedSchema":{"type":"object","properties":{` +
				`"side":{"type":"string","enum":["buy","sell"],"default":"buy"},"size":{"type":"number","minimum":0},"stop":{"type":"boolean"},"count":{"type":"integer"}},"required":["size"]}}}}`,
		},
		"a confirmation": {
			asking[struct{}](toolyard.Question{Key: "k", Message: "?"}),
			`{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}`,
		},
		"a schema": {
			asking[map[string]any](toolyard.Question{Key: "k", Message: "?", Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)}),
			`{"k":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}}`,
		},
		"a page": {
			asking[struct{}](toolyard.Question{Key: "k", Message: "?", URL: "https://example.com/pay?a=1&b=2"}),
			`{"k":{"method":"elicitation/create","params":{"message":"?","mode":"url","url":"https://example.com/pay?a=1&b=2"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := tt.tool.Run(t.Context(), &toolyard.Call{Tool: tt.tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk}})
			if err != nil {
				t.Fatal(err)
			}
			requests, _ := unfinished(t, res)
			if diff := cmp.Diff(tt.want, string(requests)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAskDecodesTheAnswer(t *testing.T) {
	tool := asking[order](toolyard.Question{Key: "k", Message: "?", State: []byte("seen")})
	first, err := tool.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk}})
	if err != nil {
		t.Fatal(err)
	}
	_, state := unfinished(t, first)
	for answer, want := range map[string]string{
		`{"action":"accept","content":{"size":2.5,"count":3}}`:  `{"Action":"accept","Form":{"side":"buy","size":2.5,"count":3},"State":"c2Vlbg=="}`,
		`{"action":"decline"}`:                                  `{"Action":"decline","Form":{"side":"","size":0},"State":"c2Vlbg=="}`,
		`{"action":"cancel","content":{"size":1}}`:              `{"Action":"cancel","Form":{"side":"","size":0},"State":"c2Vlbg=="}`,
		`{"action":"accept"}`:                                   "VALIDATION_ERROR size",
		`{"action":"accept","content":{"size":-1}}`:             "VALIDATION_ERROR size",
		`{"action":"accept","content":{"size":1,"count":1e30}}`: "VALIDATION_ERROR count",
		`{"action":"accept","content":[]}`:                      "VALIDATION_ERROR ",
		`{"action":"yes","content":{"size":1}}`:                 "VALIDATION_ERROR k.action",
		`{}`:                                                    "VALIDATION_ERROR k.action",
		`{"action":7}`:                                          "VALIDATION_ERROR k",
	} {
		res, err := tool.Run(t.Context(), &toolyard.Call{
			Tool: tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk, RequestState: state, InputResponses: json.RawMessage(`{"k":` + answer + `}`)},
		})
		var got string
		if err != nil {
			e := toolyard.AsError(err)
			got = string(e.Code) + " " + e.Issues[0].Path
		} else {
			got = string(res.Structured)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}

// An answer counts only with its question's state and the same binding.
func TestAskIgnoresForeignAnswers(t *testing.T) {
	q := toolyard.Question{Key: "k", Message: "?", Bind: "locked"}
	tool := asking[struct{}](q)
	q.Bind = "unlocked"
	changed := asking[struct{}](q)
	q.Bind = ""
	unbound := asking[struct{}](q)
	first, err := tool.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk}})
	if err != nil {
		t.Fatal(err)
	}
	_, state := unfinished(t, first)
	yes := `{"k":{"action":"accept"}}`
	for name, tt := range map[string]struct {
		tool           *toolyard.Tool
		state, answers string
		counts         bool
	}{
		"the answer":        {tool, state, yes, true},
		"no state":          {tool, "", yes, false},
		"no JSON":           {tool, "k", yes, false},
		"an empty state":    {tool, "{}", yes, false},
		"no answer":         {tool, state, "", false},
		"another key":       {tool, state, `{"j":{"action":"accept"}}`, false},
		"null":              {tool, state, `{"k":null}`, false},
		"a text":            {tool, state, `{"k":"accept"}`, false},
		"another binding":   {changed, state, yes, false},
		"without a binding": {unbound, state, yes, false},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := tt.tool.Run(t.Context(), &toolyard.Call{
				Tool: tt.tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk, RequestState: tt.state, InputResponses: json.RawMessage(tt.answers)},
			})
			if err != nil || res.InputRequired() == tt.counts {
				t.Errorf("%+v %v", res, err)
			}
		})
	}
}

// A handler may ask several questions; the state carries earlier answers.
func TestAskInSequence(t *testing.T) {
	type text struct {
		Text string `json:"text"`
	}
	tool := toolyard.Define(toolyard.Spec{Name: "ask"}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (string, error) {
		var texts []string
		for i := range 4 {
			reply, err := toolyard.Ask[text](ctx, c, toolyard.Question{Key: fmt.Sprint("k", i), Message: fmt.Sprint("Text ", i, "?")})
			if err != nil {
				return "", fmt.Errorf("wrapped: %w", err)
			}
			texts = append(texts, reply.Form.Text)
		}
		return strings.Join(texts, " "), nil
	})
	c := &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk}}
	for i := range 4 {
		res, err := tool.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		requests, state := unfinished(t, res)
		if !strings.Contains(string(requests), fmt.Sprintf(`{"k%d":`, i)) {
			t.Fatalf("round %d: %s", i, requests)
		}
		// An answer to an earlier question is ignored.
		c.RequestState, c.InputResponses = state, json.RawMessage(fmt.Sprintf(`{"k0":{"action":"accept","content":{"text":"t%d"}},"k%d":{"action":"accept","content":{"text":"t%d"}}}`, i, i, i))
		if i == 0 {
			c.InputResponses = json.RawMessage(`{"k0":{"action":"accept","content":{"text":"t0"}}}`)
		}
	}
	res, err := tool.Run(t.Context(), c)
	if err != nil || res.InputRequired() || fmt.Sprint(res.Content[0]) != "t0 t1 t2 t3" {
		t.Errorf("%+v %v", res, err)
	}
}

func TestAskNeedsAClientThatCanAsk(t *testing.T) {
	tool := asking[struct{}](toolyard.Question{Key: "k", Message: "?"})
	for depth, want := range []string{"this client does not support elicitation", "Call it directly"} {
		_, err := tool.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`), Environment: toolyard.Environment{Depth: depth}, Request: toolyard.Request{ClientCapabilities: json.RawMessage(`{"sampling":{}}`)}})
		if e := toolyard.AsError(err); e.Code != toolyard.MissingCapability || !cmp.Equal(e.Missing, []string{"elicitation"}) || !strings.Contains(e.Message, want) {
			t.Errorf("%+v", e)
		}
	}
}

func TestAskRefusesInvalidQuestions(t *testing.T) {
	for name, tool := range map[string]*toolyard.Tool{
		"no key":         asking[struct{}](toolyard.Question{Message: "?"}),
		"no message":     asking[struct{}](toolyard.Question{Key: "k"}),
		"a large state":  asking[struct{}](toolyard.Question{Key: "k", Message: "?", State: make([]byte, 16<<10+1)}),
		"a wrong schema": asking[map[string]any](toolyard.Question{Key: "k", Message: "?", Schema: json.RawMessage(`{"type":"thing"}`)}),
	} {
		if _, err := tool.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`), Request: toolyard.Request{ClientCapabilities: canAsk}}); err == nil || toolyard.AsError(err).Code != toolyard.Failed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
