package yard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/yard"
)

// startProtectedServer starts an MCP server that requires an authorization server's tokens and has
// the tool whoami. It returns the server's URL.
func startProtectedServer(t *testing.T, as *oauthtest.Server, legacy bool, scopes ...string) string {
	t.Helper()
	y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}, Identify: func(r *http.Request) (toolyard.Caller, error) {
		return toolyard.Caller{ID: r.Header.Get("Test-Person")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	runYard(t, y)
	var address string
	server := httptest.NewServer(as.Protect(func() string { return address }, scopes, func(person string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if legacy && r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
				http.Error(w, "unsupported version", http.StatusBadRequest)
				return
			}
			r.Header.Set("Test-Person", person)
			y.Handler().ServeHTTP(w, r)
		})
	}))
	t.Cleanup(server.Close)
	address = server.URL + "/mcp"
	as.Set(func(s *oauthtest.Server) { s.Resource = address })
	return address
}

// runYard runs a yard until the test ends.
func runYard(t *testing.T, y *yard.Yard) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-y.Ready()
}

// newConfiguredYard runs a yard with the given configuration.
func newConfiguredYard(t *testing.T, text string, env map[string]string) *yard.Yard {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{ConfigFile: file, Process: yard.Process{Getenv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}}})
	if err != nil {
		t.Fatal(err)
	}
	runYard(t, y)
	return y
}

// callWhoami calls the upstream server's tool.
func callWhoami(t *testing.T, y *yard.Yard, caller string) (string, error) {
	t.Helper()
	res, err := y.Call(t.Context(), "", toolyard.Caller{ID: caller, Account: caller}, "crm__whoami", nil)
	if err != nil {
		return "", err
	}
	raw, err := res.MarshalJSON()
	return string(raw), err
}

func TestServerWithClientCredentials(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%t", legacy), func(t *testing.T) {
			as := oauthtest.New(t)
			address := startProtectedServer(t, as, legacy)
			y := newConfiguredYard(t, fmt.Sprintf(`
servers:
  crm:
    url: %s
    auth: {type: client, client: {id: robot, secretRef: env:ROBOT}}
    effects: {"*": read}
`, address), map[string]string{"ROBOT": "robot-secret"})
			y.AwaitServers(t.Context())
			if text, err := callWhoami(t, y, "ann"); err != nil || !strings.Contains(text, `"robot"`) {
				t.Fatal(text, err, y.Problems())
			}
			before := as.Counts().ClientTokens
			as.Expire()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if text, err := callWhoami(t, y, "ann"); err != nil || !strings.Contains(text, `"robot"`) {
						t.Error(text, err)
					}
				})
			}
			wg.Wait()
			if n := as.Counts().ClientTokens - before; n != 1 {
				t.Errorf("%d tokens were requested", n)
			}
		})
	}
}

func TestServerWithWrongClientSecretIsDown(t *testing.T) {
	as := oauthtest.New(t)
	address := startProtectedServer(t, as, false)
	y := newConfiguredYard(t, fmt.Sprintf(`
servers:
  crm: {url: %q, auth: {type: client, client: {id: robot, secretRef: env:ROBOT}}}
`, address), map[string]string{"ROBOT": "not-the-secret"})
	y.AwaitServers(t.Context())
	problems := fmt.Sprint(y.Problems())
	if !strings.Contains(problems, "invalid_client") || strings.Contains(problems, "not-the-secret") {
		t.Error(problems)
	}
}
