package jsvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// evaluator runs snippets.
const evaluator = `export default async (code) => (0, eval)(code)({});`

func runSnippet(t *testing.T, p *Pool, c *Compiler, body string, seed [32]byte) (json.RawMessage, error) {
	t.Helper()
	s, faults, err := c.Snippet(t.Context(), "code", "tools", body)
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	request, err := json.Marshal(map[string]string{"args": s.Code})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := p.Run(t.Context(), &Run{Module: NewModule("evaluator.js", evaluator, nil), Request: request, Now: time.UnixMilli(1e12), Seed: seed})
	if e, ok := errors.AsType[*Exception](err); ok {
		s.Locate(e)
	}
	return answer, err
}

func TestSnippetReportsPositionsInItsSource(t *testing.T) {
	p, c := testPool(t), NewCompiler()
	defer c.Close()
	_, err := runSnippet(t, p, c, "interface A { b: number }\nconst a: A = { b: 1 };\n\n  const f = (x: any): never => x.missing.name;\nreturn f(a) as string;", [32]byte{})
	e, ok := errors.AsType[*Exception](err)
	if !ok || e.Line != 4 || e.Column < 30 || e.Column > 50 {
		t.Fatalf("%+v", err)
	}
	if strings.Contains(e.Stack, "evaluator") || !strings.Contains(e.Stack, "code") {
		t.Errorf("stack %q", e.Stack)
	}
}

func TestSnippetFaults(t *testing.T) {
	c := NewCompiler()
	defer c.Close()
	for _, test := range []struct {
		name, body   string
		line, column int
		fix          string
	}{
		{"syntax", "const a = 1;\nconst = 2;", 2, 7, ""},
		{"import", "import fs from 'fs';", 1, 8, "cannot import"},
		{"export", "return 1;\nexport const a = 1;", 2, 1, "cannot import"},
		{"unclosed brace", "if (true) {\n  return 1;", 2, 12, ""},
		{"unclosed template", "return `abc", 1, 12, ""},
		{"nested", strings.Repeat("[", 30000), 1, 0, ""},
		{"large", strings.Repeat("x", MaxSnippet+1), 0, 0, ""},
	} {
		if raceEnabled && test.name == "nested" {
			continue // the race detector needs more memory than a compiler process may use
		}
		s, faults, err := c.Snippet(t.Context(), "code", "tools", test.body)
		if err != nil || s != nil || len(faults) == 0 {
			t.Errorf("%s: %v, %v", test.name, err, faults)
			continue
		}
		f := faults[0]
		if f.Line != test.line && test.name != "nested" || test.column > 0 && f.Column != test.column || !strings.Contains(f.Fix, test.fix) {
			t.Errorf("%s: %d:%d %s %s", test.name, f.Line, f.Column, f.Message, f.Fix)
		}
	}
}

func TestSeededRunsRepeat(t *testing.T) {
	p, c := testPool(t), NewCompiler()
	defer c.Close()
	const body = `const start = Date.now();
await new Promise((done) => setTimeout(done, 20));
return [start, Date.now(), performance.now(), Math.random(), crypto.randomUUID(), new Date().toISOString()];`
	first, err := runSnippet(t, p, c, body, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	again, err := runSnippet(t, p, c, body, [32]byte{1})
	if err != nil || string(again) != string(first) {
		t.Errorf("%s, then %s (%v)", first, again, err)
	}
	if !strings.HasPrefix(string(first), "[1000000000000,1000000000020,") {
		t.Errorf("a timer of 20 ms: %s", first)
	}
	other, err := runSnippet(t, p, c, body, [32]byte{2})
	if err != nil || string(other) == string(first) {
		t.Errorf("another seed: %s (%v)", other, err)
	}
	one, _ := runSnippet(t, p, c, "return crypto.randomUUID()", [32]byte{})
	two, _ := runSnippet(t, p, c, "return crypto.randomUUID()", [32]byte{})
	if string(one) == string(two) {
		t.Errorf("without a seed: %s twice", one)
	}
}

// All snippets share one module, so they do not evict the modules of tools.
func TestSnippetsDoNotEvictModules(t *testing.T) {
	p := testPool(t, func(o *Options) { o.Workers = 1 })
	tool := NewModule("tool.js", "let calls = 0; export default () => ++calls;", nil)
	code := NewModule("evaluator.js", evaluator, nil)
	snippets := 10_000
	if testing.Short() {
		snippets = 1000
	}
	calls := 0
	for i := range snippets {
		request := json.RawMessage(fmt.Sprintf(`{"args":"(async function () { return %d; })"}`, i))
		if answer, err := p.Run(t.Context(), &Run{Module: code, Request: request}); err != nil || string(answer) != fmt.Sprint(i) {
			t.Fatal(string(answer), err)
		}
		if i%(maxModules+10) > 0 {
			continue
		}
		calls++ // the tool keeps its state as long as its module is not evicted
		if answer, err := p.Run(t.Context(), &Run{Module: tool, Request: json.RawMessage("{}"), Shared: true}); err != nil || string(answer) != fmt.Sprint(calls) {
			t.Fatalf("after %d snippets the tool returned %s, want %d (%v)", i+1, answer, calls, err)
		}
	}
}
