package yard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/yard"
)

const agentConfig = `
models:
  main: {api: chat, model: fake, url: "MODEL", private: true, auth: {secretRef: env:MODEL_KEY}, usdPerMillion: {input: "3", output: "15"}}
agents:
  librarian:
    model: main
    gate: research
    instructions: You answer questions about people.
    queryUsd: "0.10"
    limits: {usd: "0.50", time: 2m}
toolsets: {people: {tools: [greet]}}
gates:
  research: {mode: read, surface: answer, toolset: people, callers: keys}
  ask: {mode: read, surface: execute, callers: keys, agents: [librarian]}
`

const modelScript = `
conversations:
  - match: greet
    turns:
      - {expect: {tools: [greet], text: ["about people"]}, think: "hm", call: [{name: greet, arguments: {name: Ann}}]}
      - {say: "The greeting is Hello, Ann! [e1]"}
  - match: nothing
    turns: [{say: "I cannot know that."}]
  - match: slow
    turns: [{say: "never", fault: {hang: true}}]
  - match: down
    turns: [{say: "x", fault: {status: 401, code: bad, message: "no credit in org 4711"}}]
`

func modelKey(name string) (string, bool) {
	if name == "MODEL_KEY" {
		return fakemodel.Key, true
	}
	return "", false
}

// newAgentAPI starts a yard with an agent and a scripted model.
func newAgentAPI(t *testing.T, config, api string) (*testAPI, *fakemodel.Server) {
	t.Helper()
	script, err := fakemodel.Parse([]byte(modelScript))
	if err != nil {
		t.Fatal(err)
	}
	server, err := fakemodel.New(fakemodel.Options{Script: script, Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	config = strings.NewReplacer("MODEL\"", server.BaseURL(api)+"\"", "api: chat", "api: "+api).Replace(config)
	return newTestAPI(t, config, yard.Options{Process: yard.Process{Getenv: modelKey}}), server
}

// spent returns how much the account has paid.
func (s *testAPI) spent(t *testing.T) toolyard.Money {
	t.Helper()
	b, err := s.store.Balance(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	return b.Spent
}

func TestQueryIsAnsweredAndPaidOnce(t *testing.T) {
	for _, api := range []string{"anthropic", "openai", "chat", "gemini"} {
		t.Run(api, func(t *testing.T) {
			s, server := newAgentAPI(t, agentConfig, api)
			status, got := s.do(t, "caller", "POST", "/api/v1/query", `{"query":"How do you greet Ann?"}`)
			if status != http.StatusOK || got["response"] != "The greeting is Hello, Ann! [e1]" || got["outcomeType"] != "answer" {
				t.Fatal(status, got, server.Failures())
			}
			if cost := got["cost"].(map[string]any); cost["totalCostUsd"] != "0.1" {
				t.Error(cost)
			}
			if s.spent(t) != toolyard.USD/10 {
				t.Errorf("charged %v", s.spent(t))
			}
			evidence := got["evidence"].([]any)[0].(map[string]any)
			if evidence["excerpt"] != "Hello, Ann!" || evidence["cited"] != true {
				t.Error(evidence)
			}
			id := got["query"].(string)
			status, row := s.do(t, "caller", "GET", "/api/v1/queries/"+id, "")
			if status != http.StatusOK || len(row["turns"].([]any)) != 2 || row["modelCostUsd"] != nil {
				t.Error(status, row)
			}
			if _, row = s.do(t, "viewer", "GET", "/api/v1/queries/"+id, ""); row["modelCostUsd"] == "0" || row["modelCostUsd"] == nil {
				t.Error(row)
			}
			// The agent's call is recorded under the query, at the agent's gate, and is free.
			var call map[string]any
			eventually(t, "the call is recorded", func() bool {
				_, call = s.do(t, "viewer", "GET", "/api/v1/calls/"+id, "")
				children, _ := call["children"].([]any)
				return len(children) == 1
			})
			child := call["children"].([]any)[0].(map[string]any)
			if child["gate"] != "research" || child["tool"] != "greet" || child["id"] != evidence["call"] {
				t.Error(child)
			}
		})
	}
}

func TestMissAndFailureCostNothing(t *testing.T) {
	s, _ := newAgentAPI(t, agentConfig, "chat")
	status, got := s.do(t, "caller", "POST", "/api/v1/query", `{"query":"nothing"}`)
	if miss, _ := got["capabilityMiss"].(map[string]any); status != http.StatusOK || got["outcomeType"] != "capability_miss" || miss["message"] != "I cannot know that." {
		t.Error(status, got)
	}
	if status, got = s.do(t, "caller", "POST", "/api/v1/query", `{"query":"down"}`); status != http.StatusServiceUnavailable || strings.Contains(fmt.Sprint(got), "4711") {
		t.Error(status, got)
	}
	if s.spent(t) != 0 {
		t.Errorf("charged %v", s.spent(t))
	}
	for body, want := range map[string]int{
		`{"query":"greet","agent":"x"}`: 404, `{"query":""}`: 400, `{"query":"greet","gate":"research"}`: 404, `{"query":"greet","tools":["note"]}`: 400, `{"query":"greet","other":1}`: 400,
	} {
		if status, got := s.do(t, "caller", "POST", "/api/v1/query", body); status != want {
			t.Error(body, status, got)
		}
	}
	if status, _ := s.do(t, "none", "POST", "/api/v1/query", `{"query":"greet"}`); status != http.StatusUnauthorized {
		t.Error(status)
	}
}

func TestQueryWithAKeyRunsOnce(t *testing.T) {
	s, server := newAgentAPI(t, agentConfig, "chat")
	for range 3 {
		status, got := s.do(t, "caller", "POST", "/api/v1/query", `{"query":"greet"}`, "Idempotency-Key", "k1")
		if status != http.StatusOK || got["response"] != "The greeting is Hello, Ann! [e1]" {
			t.Fatal(status, got)
		}
	}
	if n := len(server.Requests()); n != 2 || s.spent(t) != toolyard.USD/10 {
		t.Errorf("%d turns, charged %v", n, s.spent(t))
	}
	if status, _ := s.do(t, "caller", "POST", "/api/v1/query", `{"query":"other greet"}`, "Idempotency-Key", "k1"); status != http.StatusConflict {
		t.Error(status)
	}
}

func TestQueryJob(t *testing.T) {
	s, server := newAgentAPI(t, agentConfig, "chat")
	var id string
	for range 2 { // the same key returns the same job
		status, got := s.do(t, "caller", "POST", "/api/v1/query/jobs", `{"query":"greet"}`, "Idempotency-Key", "k2")
		if status != http.StatusAccepted || id != "" && got["jobId"] != id {
			t.Fatal(status, got)
		}
		id = got["jobId"].(string)
	}
	var got map[string]any
	eventually(t, "the job ends", func() bool {
		_, got = s.do(t, "caller", "GET", "/api/v1/query/jobs/"+id, "")
		return got["status"] != "running"
	})
	if res, _ := got["result"].(map[string]any); got["status"] != "completed" || res["response"] != "The greeting is Hello, Ann! [e1]" || got["error"] != nil {
		t.Error(got)
	}
	if len(server.Requests()) != 2 || s.spent(t) != toolyard.USD/10 {
		t.Errorf("%d turns, charged %v", len(server.Requests()), s.spent(t))
	}
	if status, _ := s.do(t, "viewer", "GET", "/api/v1/query/jobs/"+id, ""); status != http.StatusNotFound {
		t.Error("another caller can read the job:", status)
	}
	if status, _ := s.do(t, "caller", "POST", "/api/v1/query/jobs", `{"query":"other"}`, "Idempotency-Key", "k2"); status != http.StatusConflict {
		t.Error(status)
	}
	// A job whose replica died ends with an unknown outcome.
	lost := &store.QueryJob{ID: "lost", Account: "acme", Caller: "caller-1", Key: "k3", At: time.Now().Add(-time.Hour), Until: time.Now().Add(-time.Minute)}
	if _, err := s.store.BeginJob(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	if _, got := s.do(t, "caller", "GET", "/api/v1/query/jobs/lost", ""); got["status"] != "failed" || got["code"] != "OUTCOME_UNKNOWN" {
		t.Error(got)
	}
}

// stream opens a query's event stream.
func (s *testAPI) stream(ctx context.Context, t *testing.T, query string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/api/v1/query", strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.keys["caller"])
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestQueryStream(t *testing.T) {
	s, _ := newAgentAPI(t, agentConfig, "anthropic")
	for query, want := range map[string][]string{"greet": {"tool-status", "text-delta", "done"}, "down": {"error"}} {
		res := s.stream(t.Context(), t, fmt.Sprintf(`{"query":%q}`, query))
		var kinds []string
		text, lines := "", bufio.NewScanner(res.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var event struct {
				Type, Delta string
				Result      struct{ Response string }
			}
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatal(err)
			}
			if len(kinds) == 0 || kinds[len(kinds)-1] != event.Type {
				kinds = append(kinds, event.Type)
			}
			if text += event.Delta; event.Type == "done" && event.Result.Response != text {
				t.Errorf("%q is not %q", text, event.Result.Response)
			}
		}
		_ = res.Body.Close()
		if strings.Join(kinds, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v", query, kinds)
		}
	}
}

// blocking is a model whose turn lasts until its context is canceled.
type blocking struct{ started, ended chan struct{} }

func (b *blocking) Turn(ctx context.Context, _ *model.Request, _ func(model.Event)) (*model.Turn, error) {
	b.started <- struct{}{}
	<-ctx.Done()
	b.ended <- struct{}{}
	return nil, context.Cause(ctx)
}

// When the caller disconnects, the model's turn ends at once.
func TestCallerWhoLeavesEndsTheTurn(t *testing.T) {
	m := &blocking{make(chan struct{}), make(chan struct{})}
	config := strings.NewReplacer("model: main", "model: own", "MODEL\"", "http://127.0.0.1:1\"", "time: 2m", "time: 10m").Replace(agentConfig)
	s := newTestAPI(t, config, yard.Options{Models: map[string]model.Model{"own": m}})
	ctx, cancel := context.WithCancel(t.Context())
	res := s.stream(ctx, t, `{"query":"greet"}`)
	<-m.started
	cancel()
	select {
	case <-m.ended:
	case <-time.After(time.Minute):
		t.Error("the turn did not end after the caller left")
		<-m.ended
	}
	_ = res.Body.Close()
}

// gated is a model whose only turn waits until it is released.
type gated struct{ started, release chan struct{} }

func (m *gated) Turn(ctx context.Context, r *model.Request, _ func(model.Event)) (*model.Turn, error) {
	if len(r.Messages) == 1 {
		return &model.Turn{Calls: []model.FunctionCall{{ID: "1", Name: "greet", Arguments: json.RawMessage(`{"name":"Ann"}`)}}, Stop: model.StopCalls}, nil
	}
	m.started <- struct{}{}
	select {
	case <-m.release:
		return &model.Turn{Text: "Hello [e1]", Stop: model.StopEnd}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// newGatedAPI starts a yard with an agent whose model waits before it answers.
func newGatedAPI(t *testing.T) (*testAPI, *gated) {
	t.Helper()
	m := &gated{make(chan struct{}, 8), make(chan struct{})}
	config := strings.NewReplacer("model: main", "model: own", "MODEL\"", "http://127.0.0.1:1\"", "time: 2m", "time: 10m").Replace(agentConfig)
	return newTestAPI(t, config, yard.Options{Models: map[string]model.Model{"own": m}}), m
}

// A query with an idempotency key continues after its caller disconnects. It is charged, and its
// result is stored for the next request.
func TestQueryWithAKeyOutlivesItsCaller(t *testing.T) {
	s, m := newGatedAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	res := s.stream(ctx, t, `{"query":"greet","idempotencyKey":"k1"}`)
	<-m.started
	cancel()
	_ = res.Body.Close()
	close(m.release)
	eventually(t, "the query ends and is charged", func() bool { return s.spent(t) == toolyard.USD/10 })
	var got map[string]any
	eventually(t, "the response is kept", func() bool {
		status := 0
		status, got = s.do(t, "caller", "POST", "/api/v1/query", `{"query":"greet","idempotencyKey":"k1"}`)
		return status == http.StatusOK
	})
	if got["response"] != "Hello [e1]" || len(m.started) != 0 || s.spent(t) != toolyard.USD/10 {
		t.Errorf("%v, %d more turns, charged %v", got, len(m.started), s.spent(t))
	}
}

// A running query is listed with its progress. If its replica dies, it counts as lost after
// the deadline.
func TestRunningQueriesAreListed(t *testing.T) {
	s, m := newGatedAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res := s.stream(ctx, t, `{"query":"greet"}`)
	defer res.Body.Close() //nolint:errcheck // nothing is written
	<-m.started
	_, got := s.do(t, "viewer", "GET", "/api/v1/queries?outcome=running", "")
	list, _ := got["queries"].([]any)
	if len(list) != 1 {
		t.Fatal(got)
	}
	one := list[0].(map[string]any)
	if one["outcome"] != "running" || one["text"] != "greet" || one["priceUsd"] != "0" {
		t.Error(one)
	}
	close(m.release)
	eventually(t, "the query ends", func() bool {
		_, got = s.do(t, "viewer", "GET", "/api/v1/queries/"+one["id"].(string), "")
		return got["outcome"] == "answer"
	})
	body := fmt.Sprintf(`{"answer":{},"text":"?","durationMs":7,"until":%q}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	row := &store.QueryRow{ID: "old", Agent: "librarian", Account: "acme", Caller: "caller-1", At: time.Now().Add(-2 * time.Hour), Outcome: store.QueryRunning, Body: json.RawMessage(body)}
	if err := s.store.SaveQuery(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, got = s.do(t, "viewer", "GET", "/api/v1/queries/old", ""); got["outcome"] != "lost" || got["durationMs"] != 7.0 {
		t.Error(got)
	}
}

// Only the account that made a query can read its evidence.
func TestEvidenceIsPrivateToItsAccount(t *testing.T) {
	s, _ := newAgentAPI(t, agentConfig, "chat")
	key, token, err := identity.New("other", "other-1", "umbrella", nil, 0, time.Now())
	if err == nil {
		err = s.store.PutKey(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.keys["other"] = token
	_, got := s.do(t, "caller", "POST", "/api/v1/query", `{"query":"greet"}`)
	uri := got["evidence"].([]any)[0].(map[string]any)["uri"].(string)
	read := func(role, uri string) string {
		_, got := s.do(t, role, "POST", "/mcp/ask", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":%q,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, uri),
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "resources/read", "Mcp-Name", uri, "Accept", "application/json, text/event-stream")
		raw, _ := json.Marshal(got)
		return string(raw)
	}
	if text := read("caller", uri); !strings.Contains(text, "Hello, Ann!") {
		t.Error(text)
	}
	for _, one := range []string{read("other", uri), read("caller", uri+"9"), read("caller", "toolyard://evidence/x")} {
		if strings.Contains(one, "Hello, Ann!") || !strings.Contains(one, "error") {
			t.Error(one)
		}
	}
	if status, _ := s.do(t, "other", "GET", "/api/v1/queries/"+got["query"].(string), ""); status != http.StatusNotFound {
		t.Error("another account can read the query:", status)
	}
}

func TestAgentConfigurationIsChecked(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown model":       {"model: main", "model: mian", `agents.librarian.model: unknown model "mian" (did you mean "main"?)`},
		"unknown gate":        {"gate: research", "gate: reserch", `agents.librarian.gate: unknown gate "reserch"`},
		"unknown agent":       {"agents: [librarian]", "agents: [libarian]", "gates.ask.agents"},
		"unknown delegate":    {"queryUsd", "delegates: [nobody]\n    queryUsd", "agents.librarian.delegates"},
		"delegates to itself": {"queryUsd", "delegates: [librarian]\n    queryUsd", "refers to the agent itself"},
		"circular delegates":  {"toolsets:", "  first: {model: main, gate: research, instructions: x, delegates: [second]}\n  second: {model: main, gate: research, instructions: x, delegates: [first]}\ntoolsets:", "first → second → first"},
		"missing hooks":       {"queryUsd", "hooks: none.ts\n    queryUsd", "agents.librarian.hooks: file not found"},
		"missing file":        {"You answer questions about people.", "none.md", "agents.librarian.instructions"},
		"own gate":            {"toolset: people", "agents: [librarian]", "librarian → librarian"},
		"paid gate":           {"surface: answer", "surface: execute", "pay for every call"},
		"secret":              {"env:MODEL_KEY", "nokey", "models.main.auth.secretRef"},
		"prices":              {`, usdPerMillion: {input: "3", output: "15"}`, "", "usdPerMillion"},
		"ring":                {"toolsets:", "  other: {model: main, gate: second, instructions: x}\ntoolsets:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(agentConfig, test.old, test.new, 1)
			if name == "ring" {
				text = strings.NewReplacer("toolset: people", "agents: [other]").Replace(text) + "  second: {mode: read, agents: [librarian]}\n"
				test.want = "librarian → other → librarian"
			}
			err := yard.CheckConfig(yard.Options{ConfigFile: filepath.Join(dir, "toolyard.yaml")}, []byte(text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := yard.CheckConfig(yard.Options{ConfigFile: filepath.Join(dir, "toolyard.yaml")}, []byte(agentConfig)); err != nil {
		t.Error(err)
	}
}

const hookedConfig = `
models: {main: {api: chat, model: fake, url: "MODEL", private: true, auth: {secretRef: env:MODEL_KEY}}}
agents:
  router: {model: main, gate: research, instructions: Route., hooks: router.ts, delegates: [clerk]}
  clerk: {model: main, gate: research, instructions: Clerk.}
gates:
  research: {mode: read, surface: answer}
  ask: {mode: read, agents: [router], callers: keys}
`

const hooks = `
export function Create(ctx, messages) {
  if (messages[0].content.includes("loop")) for (;;) {}
  if (messages[0].content.includes("throw")) throw new Error("boom");
  return { messages, mcp_servers: [{ server_id: "", tools: ["greet"] }], metadata: { user: ctx.authorized.user_id } };
}
export async function Next(ctx, payload) {
  const { tools } = payload;
  if (tools && tools.length > 0 && tools[0].result === "Hello, Ann!") {
    return { delegate: { agent_id: "clerk", messages: [{ role: "user", content: "clerk: " + tools[0].result }] } };
  }
  return null;
}
`

// TypeScript hooks can narrow the tools, and delegate depending on a tool's result.
func TestHooksInTypeScript(t *testing.T) {
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	script, err := fakemodel.Parse([]byte(`
conversations:
  - {match: "clerk: Hello, Ann!", turns: [{expect: {text: ["Clerk."]}, say: "Delegated [e1]."}]}
  - {match: greet, turns: [{expect: {tools: [greet], absent: ['"note"']}, call: [{name: greet, arguments: {name: Ann}}]}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	server, err := fakemodel.New(fakemodel.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	hookFile := filepath.Join(t.TempDir(), "router.ts")
	if err := os.WriteFile(hookFile, []byte(hooks), 0o600); err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("MODEL\"", server.BaseURL("chat")+"\"", "router.ts", hookFile).Replace(hookedConfig)
	s := newTestAPI(t, config, yard.Options{Process: yard.Process{Getenv: modelKey}})
	status, got := s.do(t, "caller", "POST", "/api/v1/query", `{"query":"greet"}`)
	if status != http.StatusOK || got["response"] != "Delegated [e1]." {
		t.Error(status, got, server.Failures())
	}
	for _, query := range []string{"loop", "throw"} {
		status, got := s.do(t, "caller", "POST", "/api/v1/query", fmt.Sprintf(`{"query":%q}`, query))
		if status != http.StatusInternalServerError || strings.Contains(fmt.Sprint(got), "boom") {
			t.Error(query, status, got)
		}
	}
}

// A reload replaces only agents whose configuration changed, and a running query keeps the agent
// that it started with.
func TestReloadOfAgents(t *testing.T) {
	s, _ := newAgentAPI(t, agentConfig, "chat")
	tool := func() *toolyard.Tool {
		v, ok := s.yard.View("ask")
		if !ok || len(v.Tools) != 1 {
			t.Fatal(v)
		}
		return v.Tools[0].Tool
	}
	before := tool()
	if err := s.yard.Reload(); err != nil || tool() != before {
		t.Error("the agent was replaced without a change:", err)
	}
	if before.Price.USD != toolyard.USD/10 || !before.IsReadOnly() {
		t.Errorf("%+v", before.Spec)
	}
	var n atomic.Int64
	for _, gate := range []string{"research", "ask"} {
		v, _ := s.yard.View(gate)
		n.Add(int64(len(v.Tools)))
	}
	if n.Load() != 2 { // greet and ask_librarian
		t.Errorf("%d tools", n.Load())
	}
}
