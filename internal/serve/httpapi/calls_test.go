package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
)

// asking simulates a tool that first asks for a form and a page, and then returns the answers.
func asking(_ context.Context, r *serve.CallRequest) (serve.CallOutcome, error) {
	call := &toolyard.Call{ID: "c1"}
	if r.RequestState == "" {
		return serve.CallOutcome{Call: call, InputRequired: &serve.InputRequired{State: "sealed", Questions: map[string]toolyard.Question{
			"size": {Message: "How <large>?", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`)},
			"page": {Message: "Sign in", URL: "https://example.com/?a=1&b=2"},
		}}}, nil
	}
	told, err := json.Marshal(map[string]string{"state": r.RequestState, "answers": string(r.InputResponses)})
	return serve.CallOutcome{Call: call, Result: &toolyard.Result{Structured: told}}, err
}

const asked = `"inputRequired":{"questions":{"page":{"message":"Sign in","url":"https://example.com/?a=1&b=2"},` +
	`"size":{"message":"How <large>?","schema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}}},"state":"sealed"},` +
	`"receipt":{"call":"c1","priceUsd":"0"}`

func TestCallReturnsQuestions(t *testing.T) {
	o := options()
	o.Execute = asking
	h := httpapi.V1(o)
	for path, c := range map[string]struct{ body, want string }{
		"/tools/execute": {`{"tool":"ask"}`, "{" + asked + "}\n"},
		"/calls":         {`{"tool":"ask"}`, "{" + asked + "}\n"},
		"/calls/batch":   {`{"calls":[{"tool":"ask"},{"tool":""}]}`, `{"results":[{` + asked + `},{"problem":`},
	} {
		w := do(h, "alice", "POST", "/api/v1"+path, c.body)
		if got := w.Body.String(); w.Code != 200 || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %d %s", path, w.Code, gocmp.Diff(c.want, got))
		}
	}
}

// Answers are passed on byte for byte.
func TestCallContinuesWithAnswers(t *testing.T) {
	o := options()
	o.Execute = asking
	h := httpapi.V1(o)
	for sent, want := range map[string]string{
		`"answers":{"size":{"action":"accept","content":{"n":9007199254740993,"s":"<&>"}}}`: `{"size":{"action":"accept","content":{"n":9007199254740993,"s":"<&>"}}}`,
		`"answers":{"size":{"action":"decline"},"page":{"action":"cancel"}}`:                `{"page":{"action":"cancel"},"size":{"action":"decline"}}`,
		`"answers":{"page":{"action":"accept"}}`:                                            `{"page":{"action":"accept"}}`,
		`"answers":{}`:                                                                      `{}`,
		`"args":{}`:                                                                         ``,
	} {
		w := do(h, "alice", "POST", "/api/v1/calls", `{"tool":"ask","state":"sealed",`+sent+`}`)
		if w.Code != 200 || field(w, "result.structuredContent.answers") != want || field(w, "result.structuredContent.state") != "sealed" || field(w, "inputRequired") != "" {
			t.Errorf("%s: %d %s", sent, w.Code, w.Body)
		}
	}
}

func TestInvalidAnswersAreRejected(t *testing.T) {
	o := options()
	o.Execute = func(_ context.Context, r *serve.CallRequest) (serve.CallOutcome, error) {
		t.Errorf("%s runs with %s", r.Tool, r.InputResponses)
		return serve.CallOutcome{}, nil
	}
	h := httpapi.V1(o)
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`"k%d":{"action":"cancel"}`, i))
	}
	for name, c := range map[string]struct{ sent, path string }{
		"a list":                     {`"state":"s","answers":[]`, "answers"},
		"nothing":                    {`"state":"s","answers":null`, "answers"},
		"an answer that is a text":   {`"state":"s","answers":{"k":"yes"}`, "answers.k"},
		"no action":                  {`"state":"s","answers":{"k":{}}`, "answers.k.action"},
		"another action":             {`"state":"s","answers":{"k":{"action":"Accept"}}`, "answers.k.action"},
		"another member":             {`"state":"s","answers":{"k":{"action":"accept","contents":{}}}`, "answers.k.contents"},
		"content that is a list":     {`"state":"s","answers":{"k":{"action":"accept","content":[]}}`, "answers.k.content"},
		"content that is null":       {`"state":"s","answers":{"k":{"action":"accept","content":null}}`, "answers.k.content"},
		"content that is not wanted": {`"state":"s","answers":{"k":{"action":"decline","content":{}}}`, "answers.k.content"},
		"too many":                   {`"state":"s","answers":{` + strings.Join(many, ",") + `}`, "answers"},
		"no state":                   {`"answers":{"k":{"action":"accept"}}`, "answers"},
		"a state that is no text":    {`"state":{}`, "state"},
		"a state that is too long":   {`"state":"` + strings.Repeat("x", 128<<10+1) + `"`, "state"},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(h, "alice", "POST", "/api/v1/calls", `{"tool":"ask",`+c.sent+`}`)
			var p struct{ Issues []toolyard.Issue }
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 400 || len(p.Issues) != 1 || p.Issues[0].Path != c.path {
				t.Errorf("%d %s (%v)", w.Code, w.Body, err)
			}
		})
	}
}

func TestCallThatRequiresInputKeepsSessionOpen(t *testing.T) {
	o := options()
	o.Execute = asking
	h := httpapi.V1(o)
	for _, c := range []struct{ sent, status string }{{"", "open"}, {`,"state":"sealed","answers":{}`, "closed"}} {
		w := do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"ask","session":"ses_a","closeSession":true`+c.sent+`}`)
		if w.Code != 200 || field(w, "session.status") != c.status {
			t.Errorf("%d %s, want a session that is %s", w.Code, w.Body, c.status)
		}
	}
}

func TestQuestionsMatchOpenAPI(t *testing.T) {
	var doc document
	if err := json.Unmarshal(httpapi.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Execute = asking
	h := httpapi.V1(o)
	answer := `{"tool":"ask","state":"sealed","answers":{"size":{"action":"accept","content":{"n":1}},"page":{"action":"decline"}}}`
	for name, value := range map[string][]byte{
		"CallResult":      do(h, "alice", "POST", "/api/v1/calls", `{"tool":"ask"}`).Body.Bytes(),
		"CallBatchResult": do(h, "alice", "POST", "/api/v1/calls/batch", `{"calls":[{"tool":"ask"},`+answer+`]}`).Body.Bytes(),
		"CallRequest":     []byte(answer),
	} {
		var schema toolyard.Schema
		if err := json.Unmarshal(doc.Components.Schemas[name], &schema); err != nil {
			t.Fatal(err)
		}
		if issues, _ := schema.Check(t.Context(), bytes.TrimSpace(value)); len(issues) > 0 {
			t.Errorf("%s: %v: %s", name, issues, value)
		}
	}
}

// All answers are either rejected or passed on unchanged.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"k":{"action":"accept","content":{"n":1e400,"s":"<\u003c"}}}`, `{"k":{"action":"cancel"},"":{"action":"decline"}}`,
		`{"k":{"action":"accept","content":[]}}`, `{"k":null}`, `null`, `[]`, `{"k":{"action":"accept","Content":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		passed, err := httpapi.DecodeAnswers(sent)
		if err != nil {
			if e := toolyard.AsError(err); e.Code != toolyard.Invalid || !json.Valid(e.Data()) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		var before, after map[string]struct {
			Action  string
			Content map[string]json.RawMessage
		}
		if json.Unmarshal(sent, &before) != nil || json.Unmarshal(passed, &after) != nil || len(before) != len(after) {
			t.Fatalf("%q is passed on as %q", sent, passed)
		}
		for key, a := range before {
			if b, ok := after[key]; !ok || a.Action != b.Action || len(a.Content) != len(b.Content) {
				t.Fatalf("%q is passed on as %q", sent, passed)
			}
		}
	})
}

// thrown is an exception in a script.
type thrown struct{}

func (thrown) Error() string { return "boom" }
func (thrown) Trace() string { return "at run (tools/fee.ts:3:9)" }

func TestOnlyViewersSeeStackTraces(t *testing.T) {
	o := options()
	o.Execute = func(context.Context, *serve.CallRequest) (serve.CallOutcome, error) {
		return serve.CallOutcome{}, &toolyard.Error{Code: toolyard.Failed, Message: "boom", Err: thrown{}}
	}
	h := httpapi.V1(o)
	for caller, sees := range map[string]bool{"alice": false, "": false, "root": true} {
		w := do(h, caller, "POST", "/api/v1/calls", `{"tool":"fee"}`)
		if got := strings.Contains(w.Body.String(), "tools/fee.ts:3:9"); w.Code != 200 || got != sees {
			t.Errorf("%s: %d %s", caller, w.Code, w.Body)
		}
	}
}
