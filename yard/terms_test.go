package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/markets"
	"github.com/toolyard/toolyard/yard"
)

// declaring returns a tool that only declares metadata.
func declaring(name, meta string) *toolyard.Tool {
	spec := toolyard.Spec{Name: name, Effects: toolyard.ReadOnly}
	var m map[string]json.RawMessage
	err := json.Unmarshal([]byte(meta), &m)
	if err == nil {
		err = spec.SetMeta(m)
	}
	if err != nil {
		panic(err)
	}
	t, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		panic(err)
	}
	return t
}

func methods() []*toolyard.Tool {
	return []*toolyard.Tool{
		declaring("explicit", `{"pricing":{"executeUsd":"0.002"}}`), declaring("gap", `{"rateLimit":{"maxRequestsPerMinute":30}}`),
		declaring("opt_out", `{"pricing":{}}`), declaring("bare", `{}`),
	}
}

// termsYard returns a yard that has the same tools locally and on a server named up, and a function
// that changes its file.
func termsYard(t *testing.T) (y *yard.Yard, reload func(local, server string)) {
	t.Helper()
	upstream := httptest.NewServer(start(t, yard.Options{Tools: methods()}).Handler())
	t.Cleanup(upstream.Close)
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	write := func(local, server string) {
		text := fmt.Sprintf("%s\nservers: {up: {url: %q, effects: {\"*\": read}, %s}}\ngates: {all: {mode: read}, answer: {mode: read, surface: answer}, sdk: {mode: read, surface: execute}}\n",
			local, upstream.URL+"/mcp", server)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("", "")
	y = start(t, yard.Options{ConfigFile: file, Tools: methods()})
	y.AwaitServers(t.Context())
	return y, func(local, server string) {
		t.Helper()
		write(local, server)
		if err := y.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// prices returns the tools' prices at the execute gate.
func prices(t *testing.T, y *yard.Yard) string {
	t.Helper()
	v, ok := y.View("sdk")
	if !ok {
		t.Fatal("no gate")
	}
	var list []string
	for _, b := range v.Tools {
		list = append(list, b.Name+"="+b.Price.USD.String())
	}
	return strings.Join(list, " ")
}

func TestTermsAreAppliedOnReload(t *testing.T) {
	y, reload := termsYard(t)
	server, all := y.Servers()["up"], names(t, y, "all")
	if got := prices(t, y); got != "explicit=0.002 mcp_up__explicit=0.002" || len(all) != 8 {
		t.Errorf("%s of %v", got, all)
	}
	pointers := func() map[string]*toolyard.Tool {
		v, _ := y.View("all")
		tools := make(map[string]*toolyard.Tool)
		for _, b := range v.Tools {
			tools[b.Name] = b.Tool
		}
		return tools
	}
	for _, step := range []struct{ local, server, want, changed string }{
		{`executeUsd: "0.001"`, ``, "bare=0.001 explicit=0.002 gap=0.001 mcp_up__explicit=0.002", "bare gap"},
		{`executeUsd: "0.001"`, `executeUsd: "0.003"`, "bare=0.001 explicit=0.002 gap=0.001 mcp_up__bare=0.003 mcp_up__explicit=0.002 mcp_up__gap=0.003", "mcp_up__bare mcp_up__gap"},
		{
			`executeUsd: "0.001"`, `executeUsd: "0.003", rate: {perMinute: 5}, terms: {opt_out: {executeUsd: "1"}, explicit: {executeUsd: none}, bare: {surface: answer}, gap: {rate: {perMinute: 40, concurrency: 2}}}`,
			"bare=0.001 explicit=0.002 gap=0.001 mcp_up__gap=0.003 mcp_up__opt_out=1", "mcp_up__bare mcp_up__explicit mcp_up__gap mcp_up__opt_out",
		},
		{``, ``, "explicit=0.002 mcp_up__explicit=0.002", "bare gap mcp_up__bare mcp_up__explicit mcp_up__gap mcp_up__opt_out"},
	} {
		before := pointers()
		reload(step.local, step.server)
		if got := prices(t, y); got != step.want {
			t.Errorf("%s %s: %s", step.local, step.server, got)
		}
		var changed []string
		for name, tool := range pointers() {
			if tool != before[name] {
				changed = append(changed, name)
			}
			if want := (toolyard.Limit{PerMinute: 30, Concurrency: 2}); strings.Contains(step.server, "rate") && name == "mcp_up__gap" && !cmp.Equal(tool.Limit, want) {
				t.Errorf("%+v", tool.Limit)
			}
		}
		if slices.Sort(changed); strings.Join(changed, " ") != step.changed {
			t.Errorf("%s %s changed %v", step.local, step.server, changed)
		}
		if y.Servers()["up"] != server {
			t.Fatalf("%s %s restarted the server", step.local, step.server)
		}
	}
}

// The catalog shows the terms in effect next to the declared ones.
func TestCatalogShowsTermsInEffect(t *testing.T) {
	y, reload := termsYard(t)
	reload(`executeUsd: "0.001"`, `terms: {gap: {surface: execute, queryEligible: false, latencyClass: fast, rate: {cooldown: 2s}}}`)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/api/tools/catalog?gate=all", nil)
	r.Host = "localhost"
	y.Handler().ServeHTTP(w, r)
	var entries []map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &entries); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, e := range entries {
		name := e["name"].(string)
		for _, key := range []string{"surface", "queryEligible", "latencyClass", "executeEligible", "executePriceUsd", "rateLimit", "_meta"} {
			text, _ := json.Marshal(e[key])
			got[name] += string(text) + " "
		}
	}
	for name, want := range map[string]string{
		"bare":        `"both" true "slow" true "0.001" null null `,
		"opt_out":     `"both" true "slow" false null null {"pricing":{"executeUsd":null}} `,
		"mcp_up__gap": `"execute" false "fast" false null {"cooldownMs":2000,"maxRequestsPerMinute":30} {"rateLimit":{"maxRequestsPerMinute":30}} `,
	} {
		if got[name] != want {
			t.Errorf("%s: %s", name, got[name])
		}
	}
}

func TestProblemsOfTerms(t *testing.T) {
	y, reload := termsYard(t)
	problems := func() (list []string) {
		for _, p := range y.Problems() {
			list = append(list, fmt.Sprintf("%s|%s|%s|%s|%s|%d", p.Source, p.Subject, p.Tool, p.Message, p.Fix, p.Line))
		}
		return list
	}
	if got := problems(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	reload(`terms: {exlicit: {surface: both}}`, `terms: {gapp: {surface: answer}, zzzzzzzz: {surface: answer}, bare: {queryEligible: false}, explicit: {surface: answer}}`)
	if diff := cmp.Diff([]string{
		"up|bare|bare|it can be used for neither answers nor execution: queryEligible is false, so it is not used for answers, and it has no price, so it cannot be used for execution|Report this to the server's author, or override the value under servers.up.terms: bare|0",
		"up|explicit|explicit|it has a price, but it is available only for answers, which are free|Report this to the server's author, or override the value under servers.up.terms: explicit|0",
		"|terms|exlicit|unknown tool \"exlicit\": no local tool has this name|Did you mean \"explicit\"?|1",
		"up|terms|gapp|unknown tool \"gapp\": the server has no tool with this name|Did you mean \"gap\"?|2",
		"up|terms|zzzzzzzz|unknown tool \"zzzzzzzz\": the server has no tool with this name||2",
	}, problems()); diff != "" {
		t.Error(diff)
	}
	steps, err := y.Why("sdk", "up/bare")
	if err != nil || !slices.ContainsFunc(steps, func(s yard.Step) bool {
		return s.Rule == "surface" && s.Stops && strings.Contains(s.Text, "it has no price, so it cannot be used for execution")
	}) {
		t.Errorf("%+v %v", steps, err)
	}
	reload("", "")
	if got := problems(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// A context that has no provider, or no argument, is a problem.
func TestMissingContextIsAProblem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte("context: {hyperliquid: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	y := start(t, yard.Options{ConfigFile: file, ProviderKinds: markets.Kinds(), Tools: []*toolyard.Tool{declaring("mine", `{"contextRequirements":["hyperliquid","stars"]}`)}})
	var got []string
	for _, p := range y.Problems() {
		got = append(got, p.Message+" "+p.Fix)
	}
	if diff := cmp.Diff([]string{
		"it requires context hyperliquid, but its input schema does not declare argument hyperliquidPortfolio Fix the tool, or override the value under terms: mine",
		"it requires context stars, but its input schema does not declare argument starsPortfolio Fix the tool, or override the value under terms: mine",
		"context stars is not configured, so calls to this tool fail Add context: {stars: {http: {url: …}}} or {script: …}; a program that embeds Toolyard can also use Options.Providers.",
	}, got); diff != "" {
		t.Error(diff)
	}
}

// A new file's toolsets are checked against the same file's terms.
func TestTermsAndToolsetsChangeTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gates: {sdk: {mode: read, surface: execute}}\n")
	y := start(t, yard.Options{ConfigFile: file, Tools: methods()})
	write("terms: {bare: {executeUsd: \"0.5\"}}\ntoolsets: {one: {tools: [bare]}}\ngates: {sdk: {mode: read, surface: execute, toolset: one}}\n")
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := prices(t, y); got != "bare=0.5" {
		t.Error(got)
	}
	write("toolsets: {one: {tools: [bare]}}\ngates: {sdk: {mode: read, surface: execute, toolset: one}}\n")
	if err := y.Reload(); err == nil || !strings.Contains(err.Error(), "it has no price") {
		t.Error(err)
	}
	if got := prices(t, y); got != "bare=0.5" {
		t.Error(got)
	}
}

// A tool with an invalid limit is withheld, not offered with no limit. Terms do not change the
// approved definition.
func TestAToolWithAnInvalidLimitIsWithheld(t *testing.T) {
	broken, err := toolyard.NewTool(toolyard.Spec{Name: "broken", Extra: map[string]json.RawMessage{"_meta": json.RawMessage(`{"rateLimit":{"maxRequestsPerMinute":"30"}}`)}},
		func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(start(t, yard.Options{Tools: []*toolyard.Tool{broken, declaring("good", `{}`)}}).Handler())
	t.Cleanup(upstream.Close) // closed after the yard that listens to it
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	write := func(terms string) {
		if err := os.WriteFile(file, fmt.Appendf(nil, "servers: {up: {url: %q%s}}\n", upstream.URL+"/mcp", terms), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	approved := func() string {
		text, err := os.ReadFile(yard.LockFile(file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write("")
	y := start(t, yard.Options{ConfigFile: file})
	y.AwaitServers(t.Context())
	if got := names(t, y, ""); !slices.Equal(got, []string{"mcp_up__good"}) {
		t.Errorf("offered: %v", got)
	}
	if !slices.ContainsFunc(y.Problems(), func(p toolyard.Problem) bool {
		return p.Tool == "broken" && strings.Contains(p.Message, "_meta.rateLimit.maxRequestsPerMinute: must be a number")
	}) {
		t.Errorf("%+v", y.Problems())
	}
	before := approved()
	write(", terms: {good: {executeUsd: \"1\", rate: {perMinute: 1}}, broken: {rate: {perMinute: 1}}}")
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	if v, _ := y.View(""); len(v.Tools) != 1 || v.Tools[0].Limit.PerMinute != 1 || approved() != before {
		t.Errorf("%+v, approved %s", v.Tools, approved())
	}
	if len(y.Problems()) != 1 {
		t.Errorf("a withheld tool counts as unknown: %+v", y.Problems())
	}
}
