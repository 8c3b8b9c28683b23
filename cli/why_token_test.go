package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/yard"
)

// For an opaque token, "toolyard why --token" queries the issuer, using the configured secret.
func TestWhyExplainsOpaqueTokens(t *testing.T) {
	issuer := issuertest.New(t)
	dir := t.TempDir()
	config := fmt.Sprintf(`
url: https://tools.example.com
issuers:
  corp:
    issuer: %s
    introspect: {client: %s, secretRef: introspect}
    access: [{groups: [staff], gates: [chat]}]
secrets: {introspect: file:secret.txt}
gates: {chat: {mode: read, callers: tokens}}
`, issuer.URL, issuertest.IntrospectClient)
	for name, text := range map[string]string{"my.yaml": config, "secret.txt": issuertest.IntrospectSecret} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	explain := func(token string) string {
		var out, errs bytes.Buffer
		noEnv := func(string) (string, bool) { return "", false }
		a := &app{opts: yard.Options{Process: yard.Process{Getenv: noEnv, Now: time.Now}}, in: strings.NewReader(token), out: &out, err: &errs}
		root := a.rootCommand()
		root.SetIn(strings.NewReader(token))
		root.SetArgs([]string{"--config", filepath.Join(dir, "my.yaml"), "why", "--token", "--gate", "chat"})
		_ = root.ExecuteContext(t.Context())
		return out.String() + errs.String()
	}
	const resource = "https://tools.example.com/mcp/chat"
	for token, want := range map[string]string{
		issuer.Opaque(resource, nil):                                          "caller   corp:ann",
		issuer.Opaque(resource, map[string]any{"groups": []string{"guests"}}): `RULE: no access rule matches groups ["guests"]`,
		issuer.Opaque("https://other.example", nil):                           `AUD: the token's audience is ["https://other.example"]`,
		"made-up": "INACTIVE: the issuer does not recognize the token",
	} {
		if got := explain(token); !strings.Contains(got, want) || strings.Contains(got, token) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
