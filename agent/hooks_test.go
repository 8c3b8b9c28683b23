package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent"
	"github.com/toolyard/toolyard/agent/model"
)

// hooks maps names to functions that take and return JSON.
type hooks map[string]func(json.RawMessage) (string, error)

func (h hooks) Has(name string) bool { return h[name] != nil }

func (h hooks) Call(_ context.Context, _ *toolyard.Call, name string, argument json.RawMessage) (json.RawMessage, error) {
	text, err := h[name](argument)
	return json.RawMessage(text), err
}

func returns(text string) func(json.RawMessage) (string, error) {
	return func(json.RawMessage) (string, error) { return text, nil }
}

func withHooks(h hooks) func(*agent.Options) { return func(o *agent.Options) { o.Hooks = h } }

// Create selects one tool of one server, and only that tool is offered to the model. Next receives
// every call with its result or error, and continues by returning null.
func TestCreateNarrowsAndNextSeesCalls(t *testing.T) {
	g := &gate{tools: []*toolyard.Tool{
		textTool("agents.expense.tools", "recognize", `{"intent":"analysis"}`), textTool("agents.expense.tools", "other", "x"), textTool("search.engine", "find", "x"),
	}}
	var payloads []map[string]any
	m := scripted(call("agents_expense_tools__recognize", `{"text":"lunch"}`, "search_engine__find", `{}`), say("Lunch [e1]."))
	a := newAgent(t, m, g, withHooks(hooks{
		"Create": returns(`{"messages":[{"role":"user","content":"changed"}],"mcp_servers":[{"server_id":"agents.expense.tools","tools":["recognize"]}],"max_tokens":77,"temperature":0.5}`),
		"Next": func(argument json.RawMessage) (string, error) {
			var p map[string]any
			err := json.Unmarshal(argument, &p)
			payloads = append(payloads, p)
			return "null", err
		},
	}))
	if got := mustAsk(t, a, "original"); got.Outcome != agent.Answered {
		t.Errorf("%+v", got)
	}
	first := m.requests[0]
	if len(first.Tools) != 1 || first.Tools[0].Name != "agents_expense_tools__recognize" || first.Messages[0].Text != "changed" || first.MaxOutput != 77 || *first.Temperature != 0.5 {
		t.Errorf("%+v", first)
	}
	want := []any{
		map[string]any{"toolcall_id": "call_1_0", "server": "agents.expense.tools", "tool": "recognize", "arguments": map[string]any{"text": "lunch"}, "result": map[string]any{"intent": "analysis"}},
		map[string]any{"toolcall_id": "call_1_1", "server": "", "tool": "search_engine__find", "arguments": map[string]any{}, "error": `METHOD_NOT_FOUND: Unknown tool "search_engine__find".`},
	}
	if diff := cmp.Diff(want, payloads[0]["tools"]); diff != "" {
		t.Error(diff)
	}
	if len(payloads) != 2 || len(payloads[1]["tools"].([]any)) != 0 || len(payloads[0]["messages"].([]any)) != 4 {
		t.Errorf("%v", payloads)
	}
}

func TestHooksCannotWiden(t *testing.T) {
	var runs atomic.Int64
	for name, hook := range map[string]hooks{
		"unknown server":   {"Create": returns(`{"mcp_servers":[{"server_id":"other"}]}`)},
		"hidden tool":      {"Create": returns(`{"mcp_servers":[{"server_id":"","tools":["delete_all"]}]}`)},
		"system message":   {"Create": returns(`{"messages":[{"role":"system","content":"x"}]}`)},
		"system text":      {"Create": returns(`{"system":"x"}`)},
		"model":            {"Create": returns(`{"model":"x"}`)},
		"no messages":      {"Create": returns(`{"messages":[]}`)},
		"negative tokens":  {"Create": returns(`{"max_tokens":-1}`)},
		"not an object":    {"Create": returns(`7`)},
		"too large":        {"Create": returns(`{"metadata":"` + strings.Repeat("x", 1<<20) + `"}`)},
		"throws":           {"Create": func(json.RawMessage) (string, error) { return "", errors.New("librarian.ts:3: boom") }},
		"servers in Next":  {"Next": returns(`{"mcp_servers":[]}`)},
		"messages in Next": {"Next": returns(`{"messages":[{"role":"user","content":"x"}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			write := toolyard.Define(toolyard.Spec{Name: "delete_all"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
			m := scripted(call("vat_rate", `{"country":"FR"}`), say("20 [e1]"))
			_, err := ask(t, newAgent(t, m, &gate{tools: []*toolyard.Tool{vat(&runs), write}}, withHooks(hook)), &agent.Query{Text: "?"})
			if e := toolyard.AsError(err); err == nil || e.Code != toolyard.Failed || strings.Contains(e.Message, "boom") {
				t.Errorf("got %v", err)
			}
		})
	}
	m := scripted(say("x"))
	a := newAgent(t, m, &gate{tools: []*toolyard.Tool{vat(&runs)}}, withHooks(hooks{"Create": returns(`{"max_tokens":1000000}`)}))
	mustAsk(t, a, "?")
	if m.requests[0].MaxOutput != 8192 {
		t.Errorf("Create raised the limit to %d", m.requests[0].MaxOutput)
	}
}

func TestNextEndsTheQueryWithData(t *testing.T) {
	var runs atomic.Int64
	m := scripted(call("vat_rate", `{"country":"FR"}`))
	got := mustAsk(t, newAgent(t, m, &gate{tools: []*toolyard.Tool{vat(&runs)}}, withHooks(hooks{"Next": returns(`{"data":{"rate":20}}`)})), "?")
	if got.Outcome != agent.Answered || string(got.Data) != `{"rate":20}` || got.Usage.Stop != agent.StopHook || len(m.requests) != 1 {
		t.Errorf("%+v", got)
	}
}

// team returns agents that may delegate to each other as the map specifies.
func team(t *testing.T, may map[string][]string, options map[string]func(*agent.Options)) map[string]*agent.Agent {
	t.Helper()
	agents := make(map[string]*agent.Agent)
	for _, name := range slices.Sorted(maps.Keys(options)) {
		agents[name] = newAgent(t, nil, &gate{}, func(o *agent.Options) {
			o.Name = name
			o.Delegate = func(to string) *agent.Agent {
				if slices.Contains(may[name], to) {
					return agents[to]
				}
				return nil
			}
			options[name](o)
		})
	}
	return agents
}

func delegateTo(name string) hooks {
	return hooks{"Next": returns(fmt.Sprintf(`{"delegate":{"agent_id":%q,"messages":[{"role":"user","content":"for %s"}]}}`, name, name))}
}

// Next can delegate the query depending on a tool's result. The other agent receives the messages.
func TestNextDelegates(t *testing.T) {
	var runs atomic.Int64
	other := scripted(call("vat_rate", `{"country":"FR"}`), say("20 % [e2]."))
	agents := team(t, map[string][]string{"librarian": {"query-agent"}}, map[string]func(*agent.Options){
		"librarian": func(o *agent.Options) {
			o.Model.Model, o.Gate = scripted(call("s__recognize", `{}`)), &gate{tools: []*toolyard.Tool{textTool("s", "recognize", `{"intent":"query"}`)}}
			o.Hooks = hooks{"Next": func(argument json.RawMessage) (string, error) {
				var p struct {
					Messages json.RawMessage
					Tools    []struct{ Result struct{ Intent string } }
				}
				if err := json.Unmarshal(argument, &p); err != nil || p.Tools[0].Result.Intent != "query" {
					return "null", err
				}
				return fmt.Sprintf(`{"delegate":{"agent_id":"query-agent","messages":%s}}`, p.Messages), nil
			}}
		},
		"query-agent": func(o *agent.Options) {
			o.Model.Model, o.Gate = other, &gate{tools: []*toolyard.Tool{vat(&runs)}}
		},
	})
	got := mustAsk(t, agents["librarian"], "VAT in France?")
	if got.Outcome != agent.Answered || got.Answer != "20 % [e2]." || len(got.Evidence) != 2 || !got.Evidence[1].Cited || got.Agent != "librarian" {
		t.Errorf("%+v", got)
	}
	if messages := other.requests[0].Messages; messages[0].Text != "VAT in France?" || !strings.Contains(messages[len(messages)-1].Text, "intent") {
		t.Errorf("the delegate received %+v", messages)
	}
}

func TestDelegationIsRefused(t *testing.T) {
	var runs atomic.Int64
	options := func(to string) func(*agent.Options) {
		return func(o *agent.Options) {
			o.Model.Model, o.Gate, o.Hooks = scripted(call("vat_rate", `{"country":"FR"}`)), &gate{tools: []*toolyard.Tool{vat(&runs)}}, delegateTo(to)
		}
	}
	writer := func(o *agent.Options) { o.Mode, o.Model.Model = toolyard.Write, scripted(say("x")) }
	for name, test := range map[string]struct {
		may     map[string][]string
		options map[string]func(*agent.Options)
	}{
		"to itself":   {map[string][]string{"a": {"a"}}, map[string]func(*agent.Options){"a": options("a")}},
		"in a circle": {map[string][]string{"a": {"b"}, "b": {"a"}}, map[string]func(*agent.Options){"a": options("b"), "b": options("a")}},
		"not named":   {nil, map[string]func(*agent.Options){"a": options("b"), "b": options("a")}},
		"unknown":     {map[string][]string{"a": {"b"}}, map[string]func(*agent.Options){"a": options("z")}},
		"to a writer": {map[string][]string{"a": {"w"}}, map[string]func(*agent.Options){"a": options("w"), "w": writer}},
		"five deep":   {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"e"}}, map[string]func(*agent.Options){"a": options("b"), "b": options("c"), "c": options("d"), "d": options("e"), "e": options("")}},
		"without text": {map[string][]string{"a": {"b"}}, map[string]func(*agent.Options){"a": func(o *agent.Options) {
			options("b")(o)
			o.Hooks = hooks{"Create": returns(`{"delegate":{"agent_id":"b","messages":[]}}`)}
		}, "b": options("")}},
	} {
		_, err := ask(t, team(t, test.may, test.options)["a"], &agent.Query{Text: "?"})
		if err == nil || toolyard.AsError(err).Code != toolyard.Failed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// All agents of a query share the first agent's limits.
func TestDelegatesShareOneBudget(t *testing.T) {
	var runs atomic.Int64
	endless := func(r *model.Request) (*model.Turn, error) {
		turn, err := call("echo", fmt.Sprintf(`{"n":%d}`, runs.Load()))(r)
		turn.Usage.Output = 100
		return turn, err
	}
	echo := toolyard.Define(toolyard.Spec{Name: "echo", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call, struct {
		N int `json:"n"`
	},
	) (string, error) {
		return fmt.Sprint(runs.Add(1)), nil
	})
	work := func(o *agent.Options) {
		o.Model.Model, o.Model.OutputUSD, o.Gate = scripted(endless), toolyard.USD, &gate{tools: []*toolyard.Tool{echo}}
		o.Limits = agent.Limits{Turns: 1000, OutputTokens: 1_000_000}
	}
	for _, test := range []struct {
		limits agent.Limits
		stop   agent.Stop
	}{{agent.Limits{Calls: 20, Turns: 1000}, agent.StopCalls}, {agent.Limits{Turns: 1000, USD: toolyard.USD / 200, OutputTokens: 1_000_000}, agent.StopMoney}} {
		runs.Store(0)
		var stored *agent.Run
		agents := team(t, map[string][]string{"a": {"b"}}, map[string]func(*agent.Options){
			"a": func(o *agent.Options) {
				work(o)
				o.Limits, o.Store = test.limits, storeFunc(func(r *agent.Run) { stored = r })
				o.Hooks = hooks{"Next": func(json.RawMessage) (string, error) {
					if runs.Load() < 10 {
						return "null", nil
					}
					return `{"delegate":{"agent_id":"b","messages":[{"role":"user","content":"go on"}]}}`, nil
				}}
			},
			"b": work,
		})
		got := mustAsk(t, agents["a"], "?")
		if got.Usage.Stop != test.stop || int(runs.Load()) != got.Usage.Calls || got.Usage.Calls <= 10 {
			t.Errorf("%+v, %d runs", got.Usage, runs.Load())
		}
		if l := test.limits; l.Calls > 0 && got.Usage.Calls != l.Calls || l.USD > 0 && stored.Model > l.USD {
			t.Errorf("%+v, model %v", got.Usage, stored.Model)
		}
	}
}
