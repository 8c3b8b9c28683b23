package yard_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/yard"
)

// secretServer acts as a Vault server with one secret.
type secretServer struct {
	*httptest.Server
	mu    sync.Mutex
	value string // empty if the server is sealed
}

func newSecretServer(t *testing.T) *secretServer {
	s := &secretServer{value: "first-canary"}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.value == "" {
			http.Error(w, `{"errors":["Vault is sealed"]}`, http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"data": map[string]string{"token": s.value}, "metadata": map[string]any{}}})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *secretServer) set(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value = value
}

// openWith opens a yard with a configuration but does not run it.
func openWith(t *testing.T, config string, change func(*yard.Options)) (*yard.Yard, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	o := yard.Options{ConfigFile: file, Process: yard.Process{Getenv: func(name string) (string, bool) {
		v, ok := map[string]string{"VAULT_TOKEN": "token-canary", "SHORT": "canary", "SEAL": strings.Repeat("canary", 6)}[name]
		return v, ok
	}}}
	if change != nil {
		change(&o)
	}
	y, err := yard.New(o)
	if err == nil {
		t.Cleanup(func() { _ = y.Close() })
	}
	return y, err
}

func TestCheckReadsAllSecrets(t *testing.T) {
	s := newSecretServer(t)
	config := "secretStores:\n  vault: {url: " + s.URL + ", auth: {secretRef: env:VAULT_TOKEN}}\n" +
		"secrets:\n  good: vault:app#token\n  bad: vault:app#other\n  none: env:NONE\n"
	y, err := openWith(t, config, func(o *yard.Options) { o.Command.CheckSecrets = true })
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, p := range y.Problems() {
		p.File = filepath.Base(p.File)
		got.WriteString(p.String() + "\n")
	}
	want := "toolyard.yaml:5:3: secrets.bad: vault:app#other: the secret does not contain this field\n" +
		"toolyard.yaml:6:3: secrets.none: env:NONE: the environment variable is not set\n" +
		"toolyard.yaml:2:3: secretStores.vault: cannot read vault:app#other: the secret does not contain this field\n"
	if got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
	s.set("")
	y, err = openWith(t, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if problems := y.Problems(); len(problems) > 0 { // unused secrets are not read
		t.Errorf("%v", problems)
	}
}

func TestSealKeysOfTheConfiguration(t *testing.T) {
	for config, want := range map[string]string{
		"sealKeys: [env:SEAL]":                       "",
		"sealKeys: [env:SEAL, env:SEAL]":             "",
		"sealKeys: [env:NONE]":                       "sealKeys.0: env:NONE: the environment variable is not set",
		"sealKeys: [env:SEAL, env:SHORT]":            "sealKeys.1: the key is shorter than 32 characters",
		"sealKeys: [nme]\nsecrets: {name: env:SEAL}": `secret "nme" is not defined (did you mean "name"?)`,
		"sealKeys: [vaul:a#b]":                       "unknown secret store",
	} {
		_, err := openWith(t, config, nil)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

// A sign-in stays valid when the seal key is replaced.
func TestASealKeyIsReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "toolyard.yaml")
	write := func(config string) {
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"OLD": strings.Repeat("o", 40), "NEW": strings.Repeat("n", 40)}
	write("sealKeys: [env:OLD]")
	y, err := yard.New(yard.Options{ConfigFile: file, Command: yard.Command{OperatorToken: "ty_operator"}, Process: yard.Process{
		Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	defer func() { stop(); <-ended }()
	server := httptest.NewServer(y.Handler())
	defer server.Close()
	session := openMCPSession(t, server.URL)
	for _, step := range []struct {
		config string
		valid  bool
	}{{"sealKeys: [env:NEW, env:OLD]", true}, {"sealKeys: [env:NEW]", false}} {
		write(step.config)
		if err := y.Reload(); err != nil {
			t.Fatal(err)
		}
		if status := pingMCPSession(t, server.URL, session); (status == http.StatusOK) != step.valid {
			t.Errorf("%s: status %d", step.config, status)
		}
	}
}

const mcpVersion = "2025-06-18"

func postMCP(t *testing.T, url, session, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", mcpVersion)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func openMCPSession(t *testing.T, url string) string {
	t.Helper()
	res := postMCP(t, url, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+mcpVersion+`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("no MCP session: status %d", res.StatusCode)
	}
	return session
}

func pingMCPSession(t *testing.T, url, session string) int {
	t.Helper()
	return postMCP(t, url, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`).StatusCode
}
