package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/trust/taint"
	"github.com/toolyard/toolyard/yard"
)

// request is a call that the test model requests.
type request struct{ name, args string }

// planned is a model that requests the planned calls, one turn at a time, and then answers.
type planned struct {
	plan   [][]request
	answer string

	mu       sync.Mutex
	requests []*model.Request
}

func (m *planned) Turn(_ context.Context, r *model.Request, _ func(model.Event)) (*model.Turn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	copied := *r
	copied.Messages = slices.Clone(r.Messages)
	m.requests = append(m.requests, &copied)
	n := len(m.requests) - 1
	if n >= len(m.plan) || r.NoTools {
		return &model.Turn{Text: m.answer, Stop: model.StopEnd}, nil
	}
	turn := &model.Turn{Stop: model.StopCalls}
	for i, call := range m.plan[n] {
		turn.Calls = append(turn.Calls, model.FunctionCall{ID: fmt.Sprint(n, "-", i), Name: call.name, Arguments: json.RawMessage(call.args)})
	}
	return turn, nil
}

// received returns the results that the model received, as text.
func (m *planned) received() (texts []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.requests[len(m.requests)-1].Messages {
		for _, a := range message.Answers {
			texts = append(texts, a.Text)
		}
	}
	return texts
}

func (m *planned) functions() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.requests[0].Tools {
		names = append(names, f.Name)
	}
	return names
}

// response is the part of an agent's response that tests compare.
type response struct {
	Outcome  string `json:"outcome"`
	Evidence []struct {
		ID, Tool, Excerpt string
		Arguments         json.RawMessage
		Error             toolyard.Code
		OK, Cited         bool
	}
	Missing []string
	Usage   struct {
		Calls, Tools int
		Stop         string
	}
}

const offerConfig = `
approvals: {hold: 0s}
agents:
  clerk: {model: own, gate: work, instructions: You work.}
gates:
  work: {mode: %s, surface: answer, naming: plain, offer: %s}
  ask: {mode: write, agents: [clerk]}
`

// agentAt is an agent that uses a gate with a given offer.
type agentAt struct {
	yard *yard.Yard
	planned
}

func newAgentAt(t *testing.T, mode, offer string, tools ...*toolyard.Tool) *agentAt {
	t.Helper()
	a := &agentAt{}
	a.yard = start(t, yard.Options{ConfigFile: writeConfig(t, fmt.Sprintf(offerConfig, mode, offer)), Tools: tools, Models: map[string]model.Model{"own": &a.planned}})
	return a
}

// ask sends a query to the agent, whose model follows the plan.
func (a *agentAt) ask(t *testing.T, query, answer string, plan ...[]request) (got response) {
	t.Helper()
	a.mu.Lock()
	a.plan, a.answer, a.requests = plan, answer, nil
	a.mu.Unlock()
	res, err := a.yard.Call(t.Context(), "ask", ann, "ask_clerk", json.RawMessage(query))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(res.Structured, &got); err != nil {
		t.Fatal(err, string(res.Structured))
	}
	return got
}

func (a response) tools() (list []string) {
	for _, e := range a.Evidence {
		list = append(list, e.ID+" "+e.Tool+" "+string(e.Arguments))
	}
	return list
}

type country struct {
	Country string `json:"country" description:"ISO code of the country."`
}

func rateTool() *toolyard.Tool {
	rates := map[string]string{"FR": "20", "DE": "19", "IT": "22"}
	return toolyard.Define(toolyard.Spec{Name: "vat_rate", Description: "Returns the standard VAT rate of a country.", Effects: toolyard.ReadOnly},
		func(_ context.Context, _ *toolyard.Call, in country) (string, error) {
			if rates[in.Country] == "" {
				return "", toolyard.Errorf(toolyard.NoData, "No rate.")
			}
			return rates[in.Country], nil
		})
}

func labelledTool(name string, effects toolyard.Effects, labels ...string) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: name, Description: "Returns the " + name + " of the VAT office.", Effects: effects, Terms: toolyard.Terms{Labels: labels}},
		func(context.Context, *toolyard.Call, struct{}) (string, error) { return "done", nil })
}

// At a gate with thousands of tools, an agent searches for tools: its model reads only a few
// definitions, and the evidence names the tool that call_tool called.
func TestAgentSearchesThousandsOfTools(t *testing.T) {
	const others = 2000
	tools := []*toolyard.Tool{rateTool()}
	for i := range others {
		tools = append(tools, toolyard.Define(toolyard.Spec{Name: fmt.Sprintf("report_%05d", i), Description: "Returns a report of machine room temperatures.", Effects: toolyard.ReadOnly},
			func(context.Context, *toolyard.Call, struct{}) (string, error) { return "cold", nil }))
	}
	a := newAgentAt(t, "read", "search", tools...)
	got := a.ask(t, `{"query":"VAT in France?"}`, "20 % [e2].",
		[]request{{"search_tools", `{"query":"VAT rate of a country","limit":2}`}},
		[]request{{"call_tool", `{"name":"vat_rate","arguments":{"land":"FR"}}`}, {"describe_tools", `{"names":["vat_rate"]}`}},
		[]request{{"call_tool", `{"name":"vat_rate","arguments":{"country":"FR"}}`}})
	if diff := cmp.Diff([]string{"search_tools", "describe_tools", "call_tool", "read_result"}, a.functions()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`e1 vat_rate {"land":"FR"}`, `e2 vat_rate {"country":"FR"}`}, got.tools()); diff != "" || got.Outcome != "answer" || got.Usage.Calls != 2 || got.Usage.Tools != others+1 || !got.Evidence[1].Cited {
		t.Error(diff, got)
	}
	texts := a.received()
	for i, want := range []string{`vat_rate(country: string) // Returns the standard VAT rate`, `"signature":"vat_rate(country: string)"`, "Returns the standard VAT rate", `"evidence":"e2"`} {
		if !strings.Contains(texts[i], want) {
			t.Errorf("answer %d: %s, want %q", i, texts[i], want)
		}
	}
	size := 0
	for _, f := range a.requests[0].Tools {
		size += len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	if size > 1500 {
		t.Errorf("the functions have %d bytes", size)
	}
}

// Calls made by code count as the query's own calls for evidence, limits, selection and taint. The
// code's return value is not evidence, because the model can invent it.
func TestAgentWritesCode(t *testing.T) {
	a := newAgentAt(t, "write", "code", rateTool(), labelledTool("inbox", toolyard.ReadOnly, taint.Private), labelledTool("web", toolyard.ReadOnly, taint.Untrusted), labelledTool("send", "", taint.Egress))
	t.Run("evidence", func(t *testing.T) {
		got := a.ask(t, `{"query":"?"}`, "20 and 19 [e1, e2].",
			[]request{{"run_code", `{"code":"return Promise.all(['FR','DE'].map((country) => tools.vat_rate({country})))"}`}})
		if len(got.Evidence) != 2 || !got.Evidence[0].Cited || !got.Evidence[1].Cited || got.Outcome != "answer" {
			t.Error(got)
		}
		if text := a.received()[0]; !strings.Contains(text, `"evidence":"e1 vat_rate, e2 vat_rate"`) || !strings.Contains(text, `[20,19]`) {
			t.Error(text)
		}
	})
	t.Run("invented value", func(t *testing.T) {
		if got := a.ask(t, `{"query":"?"}`, "42 [e1].", []request{{"run_code", `{"code":"return 42"}`}}); got.Outcome != "capability_miss" || len(got.Evidence) != 0 {
			t.Error(got)
		}
	})
	t.Run("limit", func(t *testing.T) {
		const code = `{"code":"let made = 0; try { for (;;) { await tools.vat_rate({country: 'FR'}); made++; } } catch (e) { return made + ' ' + e.code; }"}`
		got := a.ask(t, `{"query":"?"}`, "20 [e1].", []request{{"vat_rate", `{"country":"DE"}`}, {"run_code", code}}, []request{{"vat_rate", `{"country":"IT"}`}})
		if len(got.Evidence) != 100 || got.Usage.Stop != "calls" || !strings.Contains(a.received()[1], "CALL_LIMIT") {
			t.Error(len(got.Evidence), got.Usage, a.received()[1])
		}
	})
	t.Run("selected tools", func(t *testing.T) {
		const code = `{"code":"const found = await tools.search('VAT'); try { return await tools.web(); } catch (e) { return e.code + ' ' + found.includes('web'); }"}`
		got := a.ask(t, `{"query":"?","tools":["vat_rate"]}`, "no",
			[]request{{"search_tools", `{"query":"VAT"}`}, {"describe_tools", `{"names":["web"]}`}, {"call_tool", `{"name":"web"}`}, {"web", `{}`}},
			[]request{{"run_code", code}})
		if len(got.Evidence) != 0 || got.Outcome != "capability_miss" || !slices.Contains(got.Missing, "web") {
			t.Error(got)
		}
		texts := a.received()
		for i, want := range []string{"vat_rate", "Unknown tool", "METHOD_NOT_FOUND", "METHOD_NOT_FOUND", "METHOD_NOT_FOUND false"} {
			if !strings.Contains(texts[i], want) || strings.Contains(texts[0], "web") {
				t.Errorf("answer %d: %s, want %q", i, texts[i], want)
			}
		}
	})
	t.Run("taint", func(t *testing.T) {
		got := a.ask(t, `{"query":"?"}`, "done",
			[]request{{"run_code", `{"code":"return await tools.inbox()"}`}}, []request{{"call_tool", `{"name":"web"}`}},
			[]request{{"run_code", `{"code":"return await tools.send()"}`}, {"call_write_tool", `{"name":"send"}`}})
		for _, e := range got.Evidence {
			if e.OK != (e.Tool != "send") || e.Tool == "send" && e.Error != toolyard.ApprovalRequired {
				t.Error(e)
			}
		}
		if len(got.Evidence) != 4 {
			t.Error(got.Evidence)
		}
	})
}

// The model can read the rest of a long result by its evidence number, but only in the same query.
func TestAgentReadsLongResults(t *testing.T) {
	text := strings.Repeat("é", 50<<10) + "the end"
	long := toolyard.Define(toolyard.Spec{Name: "long", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return text, nil })
	a := newAgentAt(t, "read", "search", long)
	got := a.ask(t, `{"query":"?"}`, "[e1]",
		[]request{{"call_tool", `{"name":"long"}`}},
		[]request{{"read_result", `{"id":"e1","offset":30720}`}, {"read_result", `{"id":"e2"}`}, {"read_result", `{"id":"e1","offset":-1}`}, {"read_result", `{"id":"e1","offset":999999999}`}})
	if got.Usage.Calls != 1 || len(got.Evidence) != 1 {
		t.Error(got)
	}
	texts := a.received()
	if !strings.Contains(texts[0], `read_result {\"id\":\"e1\",\"offset\":30720}`) || !strings.Contains(texts[0], "the end") || len(texts[0]) > 42<<10 {
		t.Error(len(texts[0]), texts[0][30<<10:31<<10])
	}
	if !strings.Contains(texts[1], "éé") || !strings.Contains(texts[1], "[bytes 30720 to 71680 of 102407. Continue at offset 71680]") {
		t.Error(texts[1][len(texts[1])-200:])
	}
	for i, code := range []string{"NOT_FOUND", "VALIDATION_ERROR", "VALIDATION_ERROR"} {
		if !strings.Contains(texts[2+i], code) {
			t.Error(texts[2+i])
		}
	}
}

// Requests that call no tool, such as searches, have their own limit.
func TestSearchesOfAQueryAreBounded(t *testing.T) {
	a := newAgentAt(t, "read", "search", rateTool())
	var searches []request
	for i := range 101 {
		searches = append(searches, request{"search_tools", fmt.Sprintf(`{"query":"rate %d"}`, i)})
	}
	got := a.ask(t, `{"query":"?"}`, "20 [e1]", []request{{"call_tool", `{"name":"vat_rate","arguments":{"country":"FR"}}`}}, searches)
	texts := a.received()
	if got.Usage.Stop != "calls" || got.Usage.Calls != 1 || got.Outcome != "answer" || strings.Contains(texts[100], "CALL_LIMIT") || !strings.Contains(texts[101], "CALL_LIMIT") {
		t.Error(got.Usage, got.Outcome, texts[100:])
	}
}
