package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// document returns the path of the document that describes the HTTP API.
func document(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The HTTP API's OpenAPI document is valid.
func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	out, err := node(t, script(t, "api-document.mjs"), document(t))
	var got struct {
		Valid   bool
		Version string
		Errors  json.RawMessage
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%v %s", err, out)
	}
	if !got.Valid || got.Version != "3.1" {
		t.Errorf("version %s: %s", got.Version, got.Errors)
	}
}

// operated is a configuration with every kind of resource that the API serves.
const operated = `
store: %q
scripts: {dir: tools}
editable: [toolsets, gates, prices]
record: {arguments: full}
limits: {wait: 1s}
log: {level: warn}
terms:
  hello: {executeUsd: "0.001"}
  random: {rate: {perMinute: 1}}
approvals: {hold: 0s}
rules: [{name: guard, tools: [guarded], then: ask, by: operator}]
packs: {trading: {accounts: {lab: {broker: paper}}}}
toolsets: {some: {tools: [hello, calculator]}}
gates:
  all: {mode: write, callers: keys}
  chat: {mode: read, toolset: some}
  sdk: {mode: write, surface: execute, callers: keys}
`

// A client generated from the document calls every operation and gets the documented responses and
// errors.
func TestGeneratedClient(t *testing.T) {
	heavy(t)
	config := fmt.Sprintf(operated, pgtest.ForTest(t).Database(t)) +
		servers(onStdio("up", "both"), onHTTP("gone", "http://"+freeAddress(t)+"/mcp", "required: false"))
	dir := folder(t, map[string]string{
		"tools/hello.ts": helloScript, "tools/calculator.ts": tool("1 + 1"), "tools/random.ts": tool("Math.random()"), "tools/timestamp.ts": tool("Date.now()"),
		"tools/guarded.ts": strings.Replace(helloScript, "Says hello to", "Welcomes", 1),
		"tools/nested.ts":  tool(`await ctx.mcp.callTool("", "hello", { name: "Zoe" })`),
	})
	model := scriptedModel(t, `
conversations:
  - match: Greet Ann
    turns:
      - call: [{name: hello, arguments: {name: Ann}}]
      - say: Hello, Ann!
`, false)
	config = strings.Replace(config, "  chat: {", "  ask: {mode: read, callers: keys, agents: [guide]}\n  chat: {", 1) + fmt.Sprintf(`
models: {main: {api: chat, model: fake, url: %q, private: true, auth: {secretRef: env:MODEL_KEY}}}
agents: {guide: {model: main, gate: chat, instructions: You greet people.}}
`, model.BaseURL("chat"))
	p := serveIn(t, dir, "toolyard", config, "MODEL_KEY="+fakemodel.Key)
	settings, err := json.Marshal(map[string]string{
		"document": document(t), "url": "http://" + p.address(),
		"operator": keyOf(t, p, "olivia", "operator", "write"), "viewer": keyOf(t, p, "victor", "viewer"),
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := node(t, script(t, "api-client.mjs"), string(settings))
	var got struct {
		Called  []string
		Refused []int
		Faults  []string
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, fault := range got.Faults {
		t.Error(fault)
	}
	if diff := cmp.Diff(documented(t), got.Called); diff != "" {
		t.Errorf("documented and called operations differ: %s", diff)
	}
	if diff := cmp.Diff([]int{400, 401, 402, 403, 404, 409, 413, 429, 503}, got.Refused); diff != "" {
		t.Errorf("errors: %s", diff)
	}
}

// keyOf creates a key with the given scopes in a server's store.
func keyOf(t *testing.T, p *process, caller string, scopes ...string) string {
	t.Helper()
	args := []string{"keys", "create", "--name", "test", "--caller", caller, "--account", "acme"}
	for _, scope := range scopes {
		args = append(args, "--scope", scope)
	}
	code, out, errs := runIn(t, p.dir, nil, "toolyard", args...)
	token := tokenShape.FindString(out + errs)
	if code != 0 || token == "" {
		t.Fatalf("keys create: exit %d: %s%s", code, out, errs)
	}
	return token
}

// documented returns the operations in the document, sorted.
func documented(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(document(t))
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err != nil || json.Unmarshal(data, &doc) != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, item := range doc.Paths {
		for _, operation := range item {
			ids[operation.OperationID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}
