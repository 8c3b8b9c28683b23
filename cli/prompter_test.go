package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

const bookingForm = `{"type":"object","required":["name","seats","class"],"properties":{
	"name":{"type":"string","title":"Your name","minLength":2},
	"seats":{"type":"integer","minimum":1,"maximum":9},
	"class":{"type":"string","oneOf":[{"const":"e","title":"Economy"},{"const":"b","title":"Business"}]},
	"window":{"type":"boolean","default":true},
	"meals":{"type":"array","items":{"type":"string","enum":["fish","vegan"]}},
	"price":{"type":"number"},
	"note":{"type":"string"}}}`

func TestFormsArePromptedFieldByField(t *testing.T) {
	for name, tc := range map[string]struct {
		question toolyard.Question
		types    string
		want     string
		shows    []string
	}{
		"a form": {
			toolyard.Question{Key: "q", Message: "Book?", Schema: json.RawMessage(bookingForm)},
			"A\nAnn\nmany\n10\n2\nbusiness\n\nfish, VEGAN\n1.5\n\ny\n",
			`{"q":{"action":"accept","content":{"class":"b","meals":["fish","vegan"],"name":"Ann","price":1.5,"seats":2,"window":true}}}`,
			[]string{"book requires your input:\n  Book?\n", "Your name: ", "enter a number", "one of e = Economy, b = Business", "(yes or no; optional) [true]", "any of fish, vegan"},
		},
		"declined":       {toolyard.Question{Key: "q", Schema: json.RawMessage(`{"type":"object","properties":{}}`)}, "n\n", `{"q":{"action":"decline"}}`, nil},
		"the input ends": {toolyard.Question{Key: "q", Schema: json.RawMessage(bookingForm)}, "Ann\n", `{"q":{"action":"cancel"}}`, []string{"canceled"}},
		"never right":    {toolyard.Question{Key: "q", Schema: json.RawMessage(bookingForm)}, strings.Repeat("\n", 100), `{"q":{"action":"cancel"}}`, nil},
		"a page":         {toolyard.Question{Key: "q", Message: "Sign in\x1b[31m", URL: "https://example.com/x"}, "\n", `{"q":{"action":"accept"}}`, []string{"Open https://example.com/x"}},
	} {
		var out bytes.Buffer
		got, err := newPrompter("book", strings.NewReader(tc.types), &out).answer(t.Context(), []toolyard.Question{tc.question})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s: %s\n%s", name, diff, out.String())
		}
		for _, part := range tc.shows {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q is missing:\n%s", name, part, out.String())
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}

// confirming returns a tool that requires confirmation.
func confirming() *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "confirm"}, func(_ context.Context, c *toolyard.Call, _ struct{}) (*toolyard.Result, error) {
		if c.RequestState == "" {
			res := &toolyard.Result{}
			return res, json.Unmarshal([]byte(`{"resultType":"input_required","requestState":"s","inputRequests":{"sure":{"method":"elicitation/create",`+
				`"params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}},"required":["yes"]}}}}}`), res)
		}
		return &toolyard.Result{Content: []toolyard.Content{toolyard.Text("answered " + string(c.InputResponses))}}, nil
	})
}

func TestCallWithoutATerminalExplainsThatOneIsNeeded(t *testing.T) {
	t.Chdir(t.TempDir())
	opts := yard.Options{Tools: []*toolyard.Tool{confirming()}, Process: yard.Process{Getenv: func(string) (string, bool) { return "", false }}}
	opts.Scripts.Cache = t.TempDir()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), opts, []string{"call", "confirm"}, strings.NewReader(""), &out, &errs); code != exitTool || !strings.Contains(errs.String(), "in a terminal") {
		t.Errorf("%d %s%s", code, out.String(), errs.String())
	}
}
