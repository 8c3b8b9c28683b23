package rules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath/rules"
)

func tool(t testing.TB, spec toolyard.Spec) *toolyard.Tool {
	t.Helper()
	made, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func newSet(t testing.TB, list ...rules.Rule) *rules.Set {
	t.Helper()
	for i := range list {
		list[i].Name = fmt.Sprintf("%s%d", list[i].Name, i)
	}
	set, err := rules.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestConditions(t *testing.T) {
	yes, no, cent := true, false, toolyard.USD/100
	refund := tool(t, toolyard.Spec{Name: "refund", Server: "stripe"})
	gentle := tool(t, toolyard.Spec{Name: "add_note", Server: "crm", Terms: toolyard.Terms{Labels: []string{"private"}}, Extra: map[string]json.RawMessage{"annotations": json.RawMessage(`{"destructiveHint":false}`)}})
	odd := tool(t, toolyard.Spec{Name: "odd", Server: "crm", Extra: map[string]json.RawMessage{"annotations": json.RawMessage(`[]`)}})
	read := tool(t, toolyard.Spec{Name: "report", Effects: toolyard.ReadOnly})
	large := json.RawMessage(`{"properties":{"amount":{"exclusiveMinimum":100}},"required":["amount"]}`)
	for _, tt := range []struct {
		name  string
		match rules.Match
		tool  *toolyard.Tool
		args  string
		want  bool
	}{
		{"everything", rules.Match{}, refund, `{}`, true},
		{"a tool of a server", rules.Match{Tools: []string{"stripe/refund"}}, refund, `{}`, true},
		{"a prefix", rules.Match{Tools: []string{"x", "stripe/ref*"}}, refund, `{}`, true},
		{"all tools of a server", rules.Match{Tools: []string{"stripe/*"}}, refund, `{}`, true},
		{"a local tool of the same name", rules.Match{Tools: []string{"refund"}}, refund, `{}`, false},
		{"a local tool", rules.Match{Tools: []string{"report"}}, read, `{}`, true},
		{"another server", rules.Match{Tools: []string{"strip/refund"}}, refund, `{}`, false},
		{"a server", rules.Match{Servers: []string{"crm", "stripe"}}, refund, `{}`, true},
		{"no server", rules.Match{Servers: []string{""}}, read, `{}`, false},
		{"writes", rules.Match{Effects: toolyard.Write}, refund, `{}`, true},
		{"not a write", rules.Match{Effects: toolyard.Write}, read, `{}`, false},
		{"reads", rules.Match{Effects: toolyard.Read}, read, `{}`, true},
		{"destructive unless declared", rules.Match{Destructive: &yes}, refund, `{}`, true},
		{"declared as not destructive", rules.Match{Destructive: &yes}, gentle, `{}`, false},
		{"not destructive", rules.Match{Destructive: &no}, gentle, `{}`, true},
		{"invalid annotations", rules.Match{Destructive: &yes}, odd, `{}`, true},
		{"a read is not destructive", rules.Match{Destructive: &no}, read, `{}`, true},
		{"a gate", rules.Match{Gates: []string{"chat"}}, refund, `{}`, true},
		{"another gate", rules.Match{Gates: []string{"ops"}}, refund, `{}`, false},
		{"a caller", rules.Match{Callers: []string{"al*"}}, refund, `{}`, true},
		{"another caller", rules.Match{Callers: []string{"al"}}, refund, `{}`, false},
		{"a role", rules.Match{Roles: []string{"write"}}, refund, `{}`, true},
		{"another role", rules.Match{Roles: []string{"operator"}}, refund, `{}`, false},
		{"a label", rules.Match{Labels: []string{"private", "egress"}}, gentle, `{}`, true},
		{"no label", rules.Match{Labels: []string{"private"}}, refund, `{}`, false},
		{"a price", rules.Match{PriceOver: &cent}, refund, `{}`, true},
		{"depth", rules.Match{Depth: 1}, refund, `{}`, true},
		{"too deep", rules.Match{Depth: 2}, refund, `{}`, false},
		{"arguments", rules.Match{Args: large}, refund, `{"amount":100.01}`, true},
		{"other arguments", rules.Match{Args: large}, refund, `{"amount":100}`, false},
		{"a missing argument", rules.Match{Args: large}, refund, `{}`, false},
		{"one condition of two", rules.Match{Args: large, Gates: []string{"ops"}}, refund, `{"amount":200}`, false},
		{"all conditions", rules.Match{Args: large, Gates: []string{"chat"}, Servers: []string{"stripe"}}, refund, `{"amount":200}`, true},
	} {
		call := &toolyard.Call{Tool: tt.tool, Gate: "chat", Args: json.RawMessage(tt.args), Caller: toolyard.Caller{ID: "alice", Roles: []string{"write"}}}
		call.Depth = 1
		v := newSet(t, rules.Rule{Then: rules.Deny, Match: tt.match}).Decide(t.Context(), call, 2*cent)
		if got := v.Action == rules.Deny; got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// Rules do not see injected arguments, because they are not the caller's.
func TestRulesSeeOnlyTheArgumentsOfTheCaller(t *testing.T) {
	injecting := tool(t, toolyard.Spec{
		Name: "lookup", Input: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"},"customer":{"type":"object"}}}`),
		Terms: toolyard.Terms{Contexts: []string{"crm"}, ContextArgs: map[string]string{"crm": "customer"}},
	})
	set := newSet(t, rules.Rule{Then: rules.Deny, Match: rules.Match{Args: json.RawMessage(`{"required":["customer"]}`)}})
	v := set.Decide(t.Context(), &toolyard.Call{Tool: injecting, Args: json.RawMessage(`{"q":"x","customer":{}}`)}, 0)
	if v.Action != "" {
		t.Error(v.Action)
	}
}

func TestTheStrictestActionWinsInAnyOrder(t *testing.T) {
	list := []rules.Rule{
		{Name: "deny", Then: rules.Deny, Match: rules.Match{Callers: []string{"eve"}}, Message: "no"},
		{Name: "operator", Then: rules.Ask, By: rules.Operator, Within: time.Hour, Match: rules.Match{Callers: []string{"eve", "bob"}}},
		{Name: "caller", Then: rules.Ask, By: rules.Caller, Within: time.Minute, Match: rules.Match{Callers: []string{"eve", "bob", "alice", "carol"}}},
		{Name: "allow", Then: rules.Allow, Overrides: []string{"caller"}, Match: rules.Match{Callers: []string{"eve", "bob", "carol"}}},
	}
	want := map[string]string{"eve": "deny  0s deny", "bob": "ask operator 1h0m0s operator", "alice": "ask caller 1m0s caller", "carol": "  0s ", "dan": "  0s "}
	write := tool(t, toolyard.Spec{Name: "write"})
	rapid.Check(t, func(t *rapid.T) {
		set, err := rules.New(rapid.Permutation(list).Draw(t, "rules"))
		if err != nil {
			t.Fatal(err)
		}
		for caller, want := range want {
			v := set.Decide(context.Background(), &toolyard.Call{Tool: write, Args: json.RawMessage(`{}`), Caller: toolyard.Caller{ID: caller}}, 0)
			if got := fmt.Sprintf("%s %s %v %s", v.Action, v.By, v.Within, v.Names()); got != want {
				t.Fatalf("%s: %q, want %q", caller, got, want)
			}
		}
	})
}

// Arguments that exceed the evaluation limits match rules that restrict calls, but not rules that
// allow them.
func TestArgumentsThatCannotBeEvaluatedCountAsAMatch(t *testing.T) {
	schema := json.RawMessage(`{"properties":{"list":{"uniqueItems":true,"items":{"$ref":"#/$defs/a"}}},"$defs":{"a":{"anyOf":[{"items":{"$ref":"#/$defs/a"},"minItems":9},{"items":{"$ref":"#/$defs/a"},"minItems":8},{"type":"array","items":{"$ref":"#/$defs/a"}}]}}}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as if the time limit had passed
	call := &toolyard.Call{Tool: tool(t, toolyard.Spec{Name: "write"}), Args: json.RawMessage(`{"list":[` + strings.Repeat(`[[]],`, 5000) + `1]}`)}
	for action, want := range map[rules.Action]rules.Action{rules.Deny: rules.Deny, rules.Ask: rules.Ask} {
		set := newSet(t, rules.Rule{Then: action, Match: rules.Match{Args: schema}})
		if v := set.Decide(ctx, call, 0); v.Action != want {
			t.Errorf("%s: %q", action, v.Action)
		}
	}
	set := newSet(t, rules.Rule{Name: "a", Then: rules.Ask}, rules.Rule{Then: rules.Allow, Overrides: []string{"a0"}, Match: rules.Match{Args: schema}})
	if v := set.Decide(ctx, call, 0); v.Action != rules.Ask {
		t.Errorf("allow: %q", v.Action)
	}
}

func TestInvalidSchemasAreRefused(t *testing.T) {
	for _, schema := range []string{`{"type":"objekt"}`, `{"pattern":"("}`, `{"$ref":"https://example.com/x"}`, `{"$ref":"#"}`, `{`, `{"allOf":[{"$ref":"#/allOf/0"}]}`} {
		_, err := rules.New([]rules.Rule{{Name: "r", Then: rules.Deny, Match: rules.Match{Args: json.RawMessage(schema)}}})
		if (err == nil) != (rules.CheckArgs(json.RawMessage(schema)) == nil) {
			t.Errorf("%s: %v", schema, err)
		}
		if err == nil { // a schema that only refers to itself is valid, and its evaluation is limited
			set := newSet(t, rules.Rule{Then: rules.Deny, Match: rules.Match{Args: json.RawMessage(schema)}})
			set.Decide(t.Context(), &toolyard.Call{Tool: tool(t, toolyard.Spec{Name: "w"}), Args: json.RawMessage(`{}`)}, 0)
		}
	}
}

func TestForToolListsTheRulesOfATool(t *testing.T) {
	set := newSet(t,
		rules.Rule{Name: "z", Then: rules.Ask, By: rules.Operator, Match: rules.Match{Args: json.RawMessage(`{}`)}},
		rules.Rule{Name: "y", Then: rules.Deny, Match: rules.Match{Gates: []string{"chat"}}},
		rules.Rule{Name: "x", Then: rules.Deny, Match: rules.Match{Gates: []string{"ops"}}})
	got := set.ForTool(tool(t, toolyard.Spec{Name: "w"}), "chat")
	want := []rules.ToolRule{{Name: "y1", Then: rules.Deny}, {Name: "z0", Then: rules.Ask, By: rules.Operator, Some: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPreviewHidesSecretsByNameAndByForm(t *testing.T) {
	const secret = "hunter2-hunter2"
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
	args := `{"user":"ann","password":"` + secret + `","nested":{"apiKey":"` + secret + `","n":[1,{"session_token":5}]},
		"note":"send Bearer ` + secret + ` now","url":"https://ann:` + secret + `@example.com/","jwt":"` + jwt + `",
		"blob":"Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MGFiY2RlZg==","vault":"the vaulted value","id":"123e4567-e89b-12d3-a456-426614174000","text":"a plain sentence, with 12 words"}`
	p := rules.Show(json.RawMessage(args), func(s string) string { return strings.ReplaceAll(s, "vaulted", "[secret]") })
	for _, hidden := range []string{secret, jwt, "Zm9v", "vaulted", ":5"} {
		if strings.Contains(string(p.Args), hidden) {
			t.Errorf("%s is in %s", hidden, p.Args)
		}
	}
	for _, shown := range []string{`"user":"ann"`, "a plain sentence, with 12 words", "123e4567-e89b", "(hidden, 15 characters)"} {
		if !strings.Contains(string(p.Args), shown) {
			t.Errorf("%s is not in %s", shown, p.Args)
		}
	}
	if p.Hidden != 8 || !json.Valid(p.Args) {
		t.Errorf("%d hidden: %s", p.Hidden, p.Args)
	}
}

func TestPreviewShowsHiddenCharacters(t *testing.T) {
	p := rules.Show(json.RawMessage(`{"to":"ann\u202e@example.com","a\u200bb":"x\u0007"}`), nil)
	if got, want := string(p.Args), `{"to":"ann\\u202e@example.com","a\\u200bb":"x\\a"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPreviewIsBounded(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 500) + "1" + strings.Repeat(`]}`, 500)
	long := `{"t":"` + strings.Repeat("word ", 100_000) + `"}`
	wide := `{` + strings.TrimSuffix(strings.Repeat(`"k":"some text here",`, 5000), ",") + `}`
	for _, args := range []string{deep, long, wide, `{"n":` + strings.Repeat("9", 5000) + `}`} {
		if p := rules.Show(json.RawMessage(args), nil); len(p.Args) > 70<<10 || !json.Valid(p.Args) || p.Cut == 0 {
			t.Errorf("%.40s: %d bytes, %d cut", args, len(p.Args), p.Cut)
		}
	}
}

// The preview of any arguments is valid JSON of limited size that does not contain the secret.
func FuzzPreview(f *testing.F) {
	for _, args := range []string{`{}`, `{"password":"x"}`, `{"a":[1,"b",null,{"c":true}]}`, `{"a":"\u202e"}`, `[]`, `"x"`} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, args string) {
		if !json.Valid([]byte(args)) {
			t.Skip()
		}
		p := rules.Show(json.RawMessage(args), func(s string) string { return strings.ReplaceAll(s, "swordfish", "[secret]") })
		if !json.Valid(p.Args) || len(p.Args) > 200<<10 || strings.Contains(string(p.Args), "swordfish") {
			t.Errorf("%q", p.Args)
		}
	})
}

// A hundred rules for other tools take at most 20 µs.
func BenchmarkDecide(b *testing.B) {
	var list []rules.Rule
	for i := range 100 {
		list = append(list, rules.Rule{
			Name: fmt.Sprint(i), Then: rules.Ask,
			Match: rules.Match{Tools: []string{fmt.Sprintf("server%d/tool_*", i), fmt.Sprintf("local_%d", i)}, Effects: toolyard.Write, Args: json.RawMessage(`{"required":["amount"]}`)},
		})
	}
	set, err := rules.New(list)
	if err != nil {
		b.Fatal(err)
	}
	call := &toolyard.Call{Tool: tool(b, toolyard.Spec{Name: "refund", Server: "stripe"}), Args: json.RawMessage(`{"amount":1}`), Gate: "chat"}
	for b.Loop() {
		if v := set.Decide(context.Background(), call, 0); v.Action != "" {
			b.Fatal(v)
		}
	}
	if perOp := b.Elapsed() / time.Duration(b.N); b.N > 1000 && perOp > 20*time.Microsecond {
		b.Errorf("%v for 100 rules", perOp)
	}
}
