package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// typedScript is a TypeScript tool with an output schema and other exports.
const typedScript = `import { z } from "zod";
export const description = "Divides, and fails for zero.";
export const modes = ["read", "write"];
export const inputSchema = z.object({ dividend: z.number(), divisor: z.number() });
export const outputSchema = z.object({ quotient: z.number() });
%s
export default async ({ dividend, divisor }: z.infer<typeof inputSchema>) => {
  if (divisor === 0) throw new Error("division by zero");
  return { quotient: dividend / divisor };
};
`

// typedTools are an MCP server's tools with output schemas.
const typedTools = `[
	{"name":"typed","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"},"fail":{"type":"boolean"}}},
	 "outputSchema":{"type":"object","properties":{"quotient":{"type":"number"}},"required":["quotient"]}},
	{"name":"rare","inputSchema":{"type":"object"},"_meta":{"rateLimit":{"cooldownMs":3600000}},
	 "outputSchema":{"type":"object","properties":{"quotient":{"type":"number"}},"required":["quotient"]}}]`

// mistake is a failing call and a word that the user must see.
type mistake struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	word      string
}

var mistakes = []mistake{
	{"divide", json.RawMessage(`{"dividend":"many","divisor":2}`), "dividend"},
	{"divide", json.RawMessage(`{"dividend":1,"divisor":0}`), "division by zero"},
	{"score", json.RawMessage(`{"score":1}`), "again"},
	{"ts_divide", json.RawMessage(`{"dividend":"many","divisor":2}`), "dividend"},
	{"ts_divide", json.RawMessage(`{"dividend":1,"divisor":0}`), "division by zero"},
	{"ts_rare", json.RawMessage(`{"dividend":1,"divisor":1}`), "again"},
	{"mcp_up__typed", json.RawMessage(`{"ms":"many"}`), "ms"},
	{"mcp_up__typed", json.RawMessage(`{"fail":true}`), "typed"}, // the text is the whole message
	{"mcp_up__rare", json.RawMessage(`{}`), "again"},
	{"no_such_tool", json.RawMessage(`{}`), "no_such_tool"},
}

// serveMistakes serves tools of all kinds that have an output schema and whose limits are
// exhausted. The limits allow one call per hour, because clients on a busy machine may take
// minutes.
func serveMistakes(t *testing.T) *process {
	t.Helper()
	dir := t.TempDir()
	save(t, filepath.Join(dir, "tools", "ts_divide.ts"), fmt.Sprintf(typedScript, ""))
	save(t, filepath.Join(dir, "tools", "ts_rare.ts"), fmt.Sprintf(typedScript, "export const _meta = { rateLimit: { cooldownMs: 3_600_000 } };"))
	entry, _ := declaring(t, "up", typedTools)
	p := serveIn(t, dir, "testyard", "scripts: {dir: tools}\nlimits: {wait: 200ms}\nterms: {score: {rate: {cooldown: 1h}}}\n"+servers(entry))
	useUp(t, p)
	return p
}

// useUp makes the only call that the limits allow.
func useUp(t *testing.T, p *process) {
	t.Helper()
	for _, m := range mistakes {
		if m.word == "again" {
			_ = call(t, modernHTTP{t: t, url: p.url}, m.Name, string(m.Arguments))
		}
	}
}

// outcome is a result as an official client shows it to its user.
type outcome struct {
	Typed, IsError bool
	Text, Thrown   string
}

// readable checks that the error is explained to the user and that the client itself reports no
// error.
func (m *mistake) readable(t *testing.T, client string, got outcome) {
	t.Helper()
	shown := got.Text
	if m.Name == "no_such_tool" {
		shown = got.Thrown
	}
	if !strings.Contains(shown, m.word) || strings.Contains(got.Thrown+got.Text, "tructured content") || m.Name != "no_such_tool" && (!got.Typed || !got.IsError) {
		t.Errorf("%s: %s %s: %+v, want %q", client, m.Name, m.Arguments, got, m.word)
	}
}

// When a tool with an output schema fails, every official client shows a readable error, even if it
// validates results.
func TestErrorsInOfficialClients(t *testing.T) {
	t.Parallel()
	p := serveMistakes(t)
	calls, err := json.Marshal(mistakes)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"errors-legacy.mjs", "errors-modern.mjs"} {
		out, err := node(t, script(t, file), p.url, string(calls))
		var got []outcome
		if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got) != len(mistakes) {
			t.Errorf("%s: %v %s", file, err, out)
			continue
		}
		for i := range mistakes {
			mistakes[i].readable(t, file, got[i])
		}
	}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		goErrors(t, p.url, version)
	}
}

// goErrors makes the mistakes with the Go SDK.
func goErrors(t *testing.T, url, version string) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	typed := make(map[string]bool)
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		typed[tool.Name] = tool.OutputSchema != nil
	}
	for _, m := range mistakes {
		got := outcome{Typed: typed[m.Name]}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: m.Name, Arguments: m.Arguments})
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
			got.Thrown = wire.Message
		} else if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		} else {
			got.IsError, got.Text = res.IsError, res.Content[0].(*mcp.TextContent).Text
		}
		m.readable(t, "go-sdk "+version, got)
	}
}

// The Inspector's command line shows why a call failed.
func TestErrorsInTheInspector(t *testing.T) {
	heavy(t)
	p := serveMistakes(t)
	for _, era := range []string{"legacy", "modern"} {
		for _, m := range mistakes {
			args := []string{
				script(t, "node_modules/.bin/mcp-inspector"), "--cli", p.url, "--transport", "http", "--protocol-era", era,
				"--format", "json", "--method", "tools/call", "--tool-name", m.Name,
			}
			var given map[string]json.RawMessage
			if err := json.Unmarshal(m.Arguments, &given); err != nil {
				t.Fatal(err)
			}
			for name, value := range given {
				args = append(args, "--tool-arg", name+"="+string(value))
			}
			out, err := node(t, args...)
			if shown := fmt.Sprint(out, err); !strings.Contains(shown, m.word) || strings.Contains(shown, "tructured content") {
				t.Errorf("%s: %s %s: %s, want %q", era, m.Name, m.Arguments, shown, m.word)
			}
		}
	}
}
