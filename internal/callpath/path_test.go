package callpath

import (
	"context"
	"encoding/json"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
)

// documented returns the steps in a diagram "a → b → c" in a file's package comment.
func documented(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for line := range strings.Lines(f.Doc.Text()) {
		if strings.Contains(line, "→") && strings.HasPrefix(line, "\t") {
			for step := range strings.SplitSeq(line, "→") {
				if step = strings.TrimSpace(step); step != "" {
					steps = append(steps, step)
				}
			}
		}
	}
	return steps
}

func TestDocsListTheStepsOfTheCallPath(t *testing.T) {
	var want []string
	for _, s := range (&Config{}).steps() {
		want = append(want, s.name)
	}
	for _, file := range []string{"doc.go", "../../doc.go"} {
		if diff := cmp.Diff(want, documented(t, file)); diff != "" {
			t.Errorf("%s lists other steps than the call path has (-path +docs):\n%s", file, diff)
		}
	}
}

// freeOfCharge admits every call and counts them.
type freeOfCharge struct{ admitted int }

func (f *freeOfCharge) Admit(_ context.Context, r *admission.Request) (*admission.Admission, error) {
	f.admitted++
	return &admission.Admission{Request: r}, nil
}

func (f *freeOfCharge) Settle(context.Context, *admission.Admission, toolyard.Outcome) (*toolyard.Receipt, error) {
	return nil, nil
}

func TestPolicyRunsBetweenValidationAndAdmission(t *testing.T) {
	type args struct {
		N int `json:"n" minimum:"1" maximum:"9" default:"1"`
	}
	tool := toolyard.Define(toolyard.Spec{Name: "square"}, func(_ context.Context, _ *toolyard.Call, in args) (int, error) { return in.N * in.N, nil })
	var seen []string
	policy := func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			seen = append(seen, string(c.Args))
			switch c.Caller.ID {
			case "mallory":
				return nil, toolyard.Errorf(toolyard.PermissionDenied, "no")
			case "bob":
				c.Args = json.RawMessage(`{"n":3}`)
			case "eve":
				c.Args = json.RawMessage(`{"n":10}`)
			}
			return next(ctx, c)
		}
	}
	admitter := &freeOfCharge{}
	path := New(Config{
		Now: time.Now, Policies: []toolyard.Policy{policy}, Admitter: admitter,
		Providers:        func(string) toolyard.ContextProvider { return nil },
		AdmissionRequest: func(c *toolyard.Call) (*admission.Request, error) { return &admission.Request{Key: c.ID}, nil },
	})
	for _, tt := range []struct {
		caller, args string
		want         string
		code         toolyard.Code
		admitted     int
		seen         []string
	}{
		{"ann", `{}`, "1", "", 1, []string{`{"n":1}`}},                           // defaults are set
		{"ann", `{"n":0}`, "", toolyard.Invalid, 0, nil},                         // invalid arguments never reach a policy
		{"mallory", `{}`, "", toolyard.PermissionDenied, 0, []string{`{"n":1}`}}, // a refused call is not admitted
		{"bob", `{}`, "9", "", 1, []string{`{"n":1}`}},                           // a policy can replace arguments
		{"eve", `{}`, "", toolyard.Invalid, 0, []string{`{"n":1}`}},              // but only with valid ones
	} {
		seen, admitter.admitted = nil, 0
		c := &toolyard.Call{ID: "c", Tool: tool, Args: json.RawMessage(tt.args), Caller: toolyard.Caller{ID: tt.caller}}
		res, err := path(t.Context(), c)
		var got string
		var code toolyard.Code
		if err != nil {
			code = toolyard.AsError(err).Code
		} else {
			got = string(res.Content[0].(toolyard.Text))
		}
		if got != tt.want || code != tt.code || admitter.admitted != tt.admitted || !slices.Equal(seen, tt.seen) {
			t.Errorf("%s %s: %q %s, admitted %d, seen %v", tt.caller, tt.args, got, code, admitter.admitted, seen)
		}
		if c.Ran() != (tt.code == "") {
			t.Errorf("%s: ran %v", tt.caller, c.Ran())
		}
	}
}
