package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
)

// agentYard is a server whose agents use scripted models in one of the wire formats.
type agentYard struct {
	*process
	model *fakemodel.Server
}

// wireFormats are the models' wire formats.
var wireFormats = []string{"anthropic", "openai", "chat", "gemini"}

const agentGates = `
gates:
  research: {mode: read, surface: answer, toolset: research}
  default: {mode: read, agents: [librarian]}
`

const countScript = `import { z } from "zod";
export const description = "Returns its number.";
export const modes = ["read", "write"];
export const inputSchema = z.object({ n: z.number().int().max(1000) });
export default ({ n }) => ({ intent: n === 7 ? "query" : "count", n });
`

// scriptedModel starts a model that follows a script. If exact is true, it refuses requests that the
// script does not expect.
func scriptedModel(t *testing.T, script string, exact bool) *fakemodel.Server {
	t.Helper()
	parsed, err := fakemodel.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	model, err := fakemodel.New(fakemodel.Options{Script: parsed, Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

// serveAgents serves the agent librarian, whose model follows the script, and an agent clerk.
func serveAgents(t *testing.T, api, script, hooks string, limits string) *agentYard {
	t.Helper()
	model := scriptedModel(t, script, true)
	files := map[string]string{"tools/count.ts": countScript, "tools/other.ts": countScript, "librarian.md": "You are a librarian."}
	hooked := ""
	if hooks != "" {
		files["librarian.ts"], hooked = hooks, "hooks: librarian.ts, delegates: [clerk], "
	}
	config := fmt.Sprintf(`
scripts: {dir: tools}
servers:
  agents.expense.tools: {command: %q, effects: {"*": read}, required: true}
toolsets: {research: {tools: [count, other], servers: [agents.expense.tools]}}
models: {main: {api: %s, model: fake, url: %q, private: true, auth: {secretRef: env:MODEL_KEY}}}
agents:
  librarian: {model: main, gate: research, instructions: librarian.md, %slimits: {%s}}
  clerk: {model: main, gate: research, instructions: You are a clerk.}
`, filepath.Join(bin, "fakemcp"), api, model.BaseURL(api), hooked, limits) + agentGates
	return &agentYard{serveIn(t, folder(t, files), "toolyard", config, "MODEL_KEY="+fakemodel.Key), model}
}

// answerTo asks the agent a question over MCP and returns the structured answer.
func (y *agentYard) answerTo(t *testing.T, c client, question string) (answer struct {
	Outcome, Answer, Query string
	Evidence               []struct {
		ID, Server, Tool, Error string
		OK                      bool
	}
	Usage struct {
		Calls, Failed int
		Stop          string
	}
},
) {
	t.Helper()
	m := call(t, c, "ask_librarian", fmt.Sprintf(`{"query":%q}`, question))
	if err := json.Unmarshal(m.result(t).Structured, &answer); err != nil {
		t.Fatalf("%v: %s, model: %v", err, m.Result, y.model.Failures())
	}
	return answer
}

// inEveryFormat runs a test for each of the models' wire formats, with a client of each era.
func inEveryFormat(t *testing.T, script, hooks, limits string, test func(t *testing.T, y *agentYard, c client)) {
	t.Helper()
	for _, api := range wireFormats {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			y := serveAgents(t, api, script, hooks, limits)
			for era, c := range eras(t, y.process) {
				t.Run(era, func(t *testing.T) { test(t, y, c) })
			}
			if failures := y.model.Failures(); len(failures) > 0 {
				t.Errorf("requests that the model refused: %v", failures)
			}
		})
	}
}

// Create selects one of a server's tools, and Next receives each call with its result or error.
func TestHooksSelectToolsAndSeeCalls(t *testing.T) {
	t.Parallel()
	const script = `
conversations:
  - match: echo
    turns:
      - {expect: {tools: [mcp_agents_expense_tools__echo], absent: ['"count"', tools__ping]}, think: hm, call: [{name: mcp_agents_expense_tools__echo, arguments: {text: hi}}, {name: mcp_agents_expense_tools__echo, arguments: {text: 5}}]}
`
	const hooks = `
export function Create(ctx, messages) {
  return { messages, mcp_servers: [{ server_id: "agents.expense.tools", tools: ["echo"] }] };
}
export function Next(ctx, payload) {
  return payload.tools.length > 0 ? { data: payload.tools } : null;
}
`
	inEveryFormat(t, script, hooks, "", func(t *testing.T, y *agentYard, c client) {
		m := call(t, c, "ask_librarian", `{"query":"echo"}`)
		var got struct {
			Data []struct {
				ID        string `json:"toolcall_id"`
				Server    string
				Tool      string
				Arguments struct{ Text any }
				Result    any
				Error     string
			}
		}
		if err := json.Unmarshal(m.result(t).Structured, &got); err != nil || len(got.Data) != 2 {
			t.Fatalf("%v: %s %v", err, m.Result, y.model.Failures())
		}
		good, bad := got.Data[0], got.Data[1]
		if good.ID == "" || good.Server != "agents.expense.tools" || good.Tool != "echo" || good.Arguments.Text != "hi" || !strings.Contains(fmt.Sprint(good.Result), "hi") || good.Error != "" {
			t.Errorf("%+v", good)
		}
		if bad.ID == "" || bad.ID == good.ID || !strings.Contains(bad.Error, "VALIDATION_ERROR") {
			t.Errorf("%+v", bad)
		}
	})
}

// Next delegates a query depending on a tool's result, and otherwise continues by returning null.
func TestNextDelegatesByResult(t *testing.T) {
	t.Parallel()
	const script = `
conversations:
  - {match: "for the clerk", turns: [{expect: {text: ["You are a clerk."]}, say: "The clerk answers [e1]."}]}
  - {match: seven, turns: [{expect: {text: ["You are a librarian."]}, call: [{name: count, arguments: {n: 7}}]}]}
  - {match: eight, turns: [{call: [{name: count, arguments: {n: 8}}]}, {say: "The librarian answers [e1]."}]}
`
	const hooks = `
export function Next(ctx: unknown, payload) {
  const { tools } = payload;
  if (tools && tools.length > 0) {
    for (const tool of tools) {
      if (tool.result?.intent === "query") {
        return { delegate: { agent_id: "clerk", messages: [{ role: "user", content: "for the clerk: " + payload.messages[0].content }] } };
      }
    }
  }
  return null;
}
`
	inEveryFormat(t, script, hooks, "", func(t *testing.T, y *agentYard, c client) {
		for question, want := range map[string]string{"seven": "The clerk answers [e1].", "eight": "The librarian answers [e1]."} {
			if got := y.answerTo(t, c, question); got.Answer != want || got.Outcome != "answer" {
				t.Errorf("%s: %+v %v", question, got, y.model.Failures())
			}
		}
	})
}

// A model can correct invalid arguments. If one of two calls in a turn is invalid, the other runs
// once.
func TestAgentCorrectsItsCalls(t *testing.T) {
	t.Parallel()
	const script = `
conversations:
  - match: correct
    turns:
      - {call: [{name: count, arguments: {n: "x"}}]}
      - {expect: {answers: ["VALIDATION_ERROR"]}, call: [{name: count, arguments: {n: 3}}]}
      - {say: "It is 3 [e2]."}
  - match: batch
    turns:
      - {call: [{name: count, arguments: {n: 4}}, {name: count, arguments: {}}]}
      - {expect: {answers: ['\"n\":4', "VALIDATION_ERROR"]}, say: "It is 4 [e1]."}
`
	inEveryFormat(t, script, "", "", func(t *testing.T, y *agentYard, c client) {
		if got := y.answerTo(t, c, "correct"); got.Answer != "It is 3 [e2]." || got.Usage.Calls != 2 || got.Usage.Failed != 1 || got.Evidence[0].OK || !got.Evidence[1].OK {
			t.Errorf("%+v %v", got, y.model.Failures())
		}
		if got := y.answerTo(t, c, "batch"); got.Answer != "It is 4 [e1]." || got.Usage.Calls != 2 || got.Usage.Failed != 1 {
			t.Errorf("%+v %v", got, y.model.Failures())
		}
	})
}

// An unavailable server is called once. The error instructs the model not to repeat the call, and a
// repeated call does not run.
func TestUnavailableServerIsNotCalledAgain(t *testing.T) {
	t.Parallel()
	model := scriptedModel(t, `
conversations:
  - match: gone
    turns:
      - {call: [{name: mcp_gone__echo, arguments: {text: hi}}, {name: count, arguments: {n: 5}}]}
      - {expect: {answers: ['"error":"UNAVAILABLE"', '\"n\":5']}, call: [{name: mcp_gone__echo, arguments: {text: hi}}]}
      - {expect: {answers: ['"retryable":false']}, say: "The server is down; the count is 5 [e2]."}
`, true)
	gone := startFake(t, freeAddress(t), "modern")
	config := fmt.Sprintf(`
scripts: {dir: tools}
servers:
  gone: {url: %q, effects: {"*": read}, required: true}
toolsets: {research: {tools: [count], servers: [gone]}}
models: {main: {api: anthropic, model: fake, url: %q, private: true, auth: {secretRef: env:MODEL_KEY}}}
agents:
  librarian: {model: main, gate: research, instructions: You are a librarian.}
`, gone.url, model.BaseURL("anthropic")) + agentGates
	y := &agentYard{serveIn(t, folder(t, map[string]string{"tools/count.ts": countScript}), "toolyard", config, "MODEL_KEY="+fakemodel.Key), model}
	gone.end()
	for era, c := range eras(t, y.process) {
		got := y.answerTo(t, c, "gone")
		if got.Answer != "The server is down; the count is 5 [e2]." || got.Usage.Calls != 2 || got.Usage.Failed != 1 || got.Evidence[0].Error != "UNAVAILABLE" || !got.Evidence[1].OK {
			t.Errorf("%s: %+v %v", era, got, model.Failures())
		}
	}
}

// A client that sends a progress token is notified of each turn and each call of a query.
func TestQueryReportsProgress(t *testing.T) {
	t.Parallel()
	y := serveAgents(t, "chat", `
conversations:
  - {match: three, turns: [{call: [{name: count, arguments: {n: 3}}]}, {say: "It is three [e1]."}]}
`, "", "")
	want := []string{
		`{"progressToken":"mine","progress":1,"total":130,"message":"librarian is thinking, turn 1 of at most 30"}`,
		`{"progressToken":"mine","progress":2,"total":130,"message":"calling count, call 1 of at most 100"}`,
		`{"progressToken":"mine","progress":3,"total":130,"message":"librarian is thinking, turn 2 of at most 30"}`,
	}
	const params = `{"name":"ask_librarian","arguments":{"query":"three"}`
	for era, send := range map[string]func() (message, []message){
		"2026-07-28": func() (message, []message) {
			return modernHTTP{t: t, url: y.url, meta: `,"progressToken":"mine"`}.send("1", "tools/call", params+"}")
		},
		"2025-11-25": func() (message, []message) {
			return newLegacyHTTP(t, y.url).send("1", "tools/call", params+`,"_meta":{"progressToken":"mine"}}`)
		},
	} {
		m, before := send()
		var got []string
		for _, n := range before {
			got = append(got, string(n.Params))
		}
		if m.result(t).IsError || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %s", era, got, m.Result)
		}
	}
	if _, before := (modernHTTP{t: t, url: y.url}).send("1", "tools/call", params+"}"); len(before) != 0 {
		t.Errorf("a client without a token got %+v", before)
	}
}

// A query makes a hundred calls. The next one does not run, and the model answers with no further
// tools.
func TestQueryMakesAtMostAHundredCalls(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	script.WriteString("conversations:\n  - match: many\n    turns:\n")
	n := 0
	for range 4 {
		script.WriteString("      - {call: [")
		for i := range 30 {
			if n++; i > 0 {
				script.WriteString(", ")
			}
			fmt.Fprintf(&script, "{name: count, arguments: {n: %d}}", n)
		}
		script.WriteString("]}\n")
	}
	script.WriteString("      - {expect: {noTools: true, text: [CALL_LIMIT]}, say: \"As far as I got [e100].\"}\n")
	inEveryFormat(t, script.String(), "", "", func(t *testing.T, y *agentYard, c client) {
		got := y.answerTo(t, c, "many")
		if got.Answer != "As far as I got [e100]." || got.Usage.Calls != 100 || got.Usage.Failed != 0 || got.Usage.Stop != "calls" || len(got.Evidence) != 100 {
			t.Errorf("%+v %v", got.Usage, y.model.Failures())
		}
	})
}

// The command prints the answer, the evidence and the cost.
func TestAskPrintsAnswerEvidenceAndCost(t *testing.T) {
	t.Parallel()
	y := serveAgents(t, "chat", `
conversations:
  - {match: three, turns: [{call: [{name: count, arguments: {n: 3}}]}, {say: "It is three [e1]."}]}
  - {match: unknown, turns: [{say: "I cannot tell."}]}
`, "", "")
	base := strings.TrimSuffix(y.url, "/mcp")
	code, out, errs := runIn(t, y.dir, nil, "toolyard", "ask", "--url", base, "three?")
	for _, want := range []string{"It is three [e1].", "[e1] count:", "Cost: 0 USD. 2 turns, 1 call"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d %s %s lacks %q", code, out, errs, want)
		}
	}
	if code, out, _ = runIn(t, y.dir, nil, "toolyard", "ask", "--url", base, "unknown?"); code != 0 || !strings.Contains(out, "No answer: I cannot tell.") {
		t.Error(code, out)
	}
	code, out, _ = runIn(t, y.dir, nil, "toolyard", "ask", "--url", base, "--json", "three?")
	var response struct{ Response string }
	if err := json.Unmarshal([]byte(out), &response); err != nil || code != 0 || response.Response != "It is three [e1]." {
		t.Error(code, err, out)
	}
	if code, _, errs = runIn(t, y.dir, nil, "toolyard", "ask", "--url", base, "--agent", "nobody", "three?"); code == 0 || !strings.Contains(errs, "nobody") {
		t.Error(code, errs)
	}
}

// The commands in the section about agents in docs/AGENTS.md work in an empty folder, with a
// scripted model in place of a provider.
func TestAgentsAnswerAsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/AGENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, section, _ := strings.Cut(string(text), "\n## Agents and Query\n")
		_, rest, found := strings.Cut(section, "```"+language+"\n")
		body, _, closed := strings.Cut(rest, "```")
		if !found || !closed {
			t.Fatalf("no block of %s", language)
		}
		return body
	}
	model := scriptedModel(t, `
conversations:
  - {match: France, turns: [{expect: {tools: [vat_rate], text: ["about taxes"]}, call: [{name: vat_rate, arguments: {country: FR}}]}, {say: "The VAT rate in France is {answer:1/text} % [e1]."}]}
`, true)
	config := strings.Replace(block("yaml"), "    model: claude", fmt.Sprintf("    url: %q\n    private: true\n    model: claude", model.BaseURL("anthropic")), 1)
	p := serveIn(t, folder(t, map[string]string{"tools/vat_rate.ts": block("ts")}), "toolyard", config, "ANTHROPIC_API_KEY="+fakemodel.Key)
	question := strings.Split(block("sh"), `"`)[1]
	code, out, errs := runIn(t, p.dir, nil, "toolyard", "ask", "--url", strings.TrimSuffix(p.url, "/mcp"), question)
	for _, want := range []string{"The VAT rate in France is 20 % [e1].", "[e1] vat_rate: 20", "2 turns, 1 call"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d %s %s %v lacks %q", code, out, errs, model.Failures(), want)
		}
	}
	if got := listTools(t, modernHTTP{t: t, url: p.url}); len(got) != 1 || got[0] != "ask_librarian" {
		t.Error(got)
	}
}
