package yard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/markets"
	"github.com/toolyard/toolyard/yard"
)

// echo returns a tool that returns its arguments.
func echo(meta string) *toolyard.Tool {
	spec := toolyard.Spec{Name: "echo", Effects: toolyard.ReadOnly, Input: json.RawMessage(`{"type":"object","properties":{
		"customer":{"type":"object","properties":{"tier":{"type":"string"}},"required":["tier"]},"q":{"type":"string"}}}`)}
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(meta), &m); err != nil {
		panic(err)
	}
	if err := spec.SetMeta(m); err != nil {
		panic(err)
	}
	tool, err := toolyard.NewTool(spec, func(_ context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		return toolyard.ResultOf(string(c.Args))
	})
	if err != nil {
		panic(err)
	}
	return tool
}

// callEcho calls the tool over MCP as the given caller, and returns the result's text.
func callEcho(t *testing.T, url, caller, args string) string {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, args)
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-Caller": caller,
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
	} {
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.IndexByte(raw, '{'); at > 0 { // a server-sent event
		raw = raw[at:]
	}
	var answer struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(raw, &answer); err != nil || len(answer.Result.Content) == 0 {
		t.Fatalf("%s: %v", raw, err)
	}
	return answer.Result.Content[0].Text
}

func identifyByHeader(r *http.Request) (toolyard.Caller, error) {
	return toolyard.Caller{ID: r.Header.Get("X-Caller"), Account: "acme"}, nil
}

func TestContextFromAnHTTPService(t *testing.T) {
	var record atomic.Value
	record.Store(`{"data":{"tier":"gold"}}`)
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" || r.URL.Path != "/customers/ann" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, record.Load().(string))
	}))
	defer crm.Close()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := func(pointer string) string {
		return fmt.Sprintf("secrets: {crm: \"env:CRM_TOKEN\"}\ncontext: {crm: {http: {url: %q, headers: {Authorization: \"Bearer ${secret:crm}\"}, pointer: %s}}}\n"+
			"terms: {echo: {contextRequirements: [{kind: crm, argument: customer}]}}\n", crm.URL+"/customers/{caller.id}", pointer)
	}
	write(config("/data"))
	y := start(t, yard.Options{
		ConfigFile: file, Identify: identifyByHeader, Tools: []*toolyard.Tool{echo(`{}`)}, // the operator declares the context
		Process: yard.Process{Getenv: func(name string) (string, bool) {
			if name == "CRM_TOKEN" {
				return "s3cret", true
			}
			return "", false
		}},
	})
	server := httptest.NewServer(y.Handler())
	defer server.Close()
	if got := callEcho(t, server.URL, "ann", `{"q":"x","customer":{"tier":"forged"}}`); got != `{"q":"x","customer":{"tier":"gold"}}` {
		t.Error(got)
	}
	if got := callEcho(t, server.URL, "bob", `{}`); !strings.Contains(got, "Context crm has no data for you") {
		t.Error(got)
	}
	record.Store(`{"data":{"tier":7}}`)
	if got := callEcho(t, server.URL, "ann", `{}`); !strings.Contains(got, "The problem is in its provider") {
		t.Error(got)
	}
	write(config("/other"))
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := callEcho(t, server.URL, "ann", `{}`); !strings.Contains(got, "its response has no /other") {
		t.Error(got)
	}
}

// A TypeScript file provides context for as long as the configuration selects it.
func TestContextFromAScript(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "toolyard.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("crm.ts", `export default async (caller) => caller.id === "ann" ? { tier: "gold" } : null;`)
	write("toolyard.yaml", "context: {crm: {script: crm.ts}}\n")
	y, err := yard.New(yard.Options{ConfigFile: file, Identify: identifyByHeader, Tools: []*toolyard.Tool{echo(`{"contextRequirements":[{"kind":"crm","argument":"customer"}]}`)}})
	if err != nil {
		t.Skip(err) // this build has no script engine
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	<-y.Ready()
	server := httptest.NewServer(y.Handler())
	defer server.Close()
	if got := callEcho(t, server.URL, "ann", `{"q":"x"}`); got != `{"q":"x","customer":{"tier":"gold"}}` {
		t.Error(got)
	}
	if got := callEcho(t, server.URL, "bob", `{}`); !strings.Contains(got, "Context crm has no data for you") {
		t.Error(got)
	}
	if problems := y.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	write("toolyard.yaml", "context: {crm: {script: other.ts}}\n")
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "the missing file is not reported", func() bool {
		problems := y.Problems()
		return len(problems) == 1 && problems[0].Subject == "context.crm" && strings.Contains(problems[0].Message, "file not found")
	})
	write("toolyard.yaml", "listen: 127.0.0.1:0\n")
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := callEcho(t, server.URL, "ann", `{}`); !strings.Contains(got, "Context crm is required by echo but is not configured.") {
		t.Error(got)
	}
}

func TestContextThatCannotBeConfigured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	for text, want := range map[string]string{
		"context: {crm: {}}":                                                       "toolyard.yaml:1:11: context.crm: set http or script; only these kinds require neither: hyperliquid, polymarket, wallet",
		"context: {walet: {}}":                                                     `did you mean "wallet"?`,
		"context: {crm: {htp: {}}}":                                                `unknown key "htp" (did you mean "http"?)`,
		"context: {wallet: {url: x}}":                                              "context.wallet.url: must match",
		"context: {wallet: {url: \"https://x.example\", chian: 1}}":                "context.wallet.chian: is unknown (did you mean \"chain\"?)",
		"context: {crm: {http: {url: \"https://x.example/{id}\"}}}":                "toolyard.yaml:1:24: context.crm.http.url: unknown placeholder {id}",
		"context: {crm: {http: {url: \"https://10.0.0.7.5/\"}}}":                   "context.crm.http.url: ",
		"context: {crm: {http: {url: \"https://x.example\", headers: {Host: y}}}}": "context.crm.http.headers.Host: cannot be set",
	} {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := yard.New(yard.Options{ConfigFile: file, ProviderKinds: markets.Kinds()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
