package yard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/yard"
)

// Gates and the HTTP API accept opaque tokens, and API keys are never sent to the issuer.
func TestOpaqueTokenAtGates(t *testing.T) {
	t.Setenv("INTROSPECT_SECRET", issuertest.IntrospectSecret)
	issuer := issuertest.New(t)
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
issuers:
  corp:
    issuer: %s
    introspect: {client: %s, secretRef: env:INTROSPECT_SECRET}
    access: [{groups: [staff], gates: [chat], role: viewer}]
gates: {chat: {mode: read, callers: authenticated}, dev: {mode: write, callers: authenticated}}
`, publicURL, issuer.URL, issuertest.IntrospectClient), yard.Options{})
	for name, test := range map[string]struct {
		path, token string
		status      int
	}{
		"its own gate":     {"/mcp/chat", issuer.Opaque(publicURL+"/mcp/chat", nil), 200},
		"another gate":     {"/mcp/dev", issuer.Opaque(publicURL+"/mcp/chat", nil), 401},
		"no rule for it":   {"/mcp/dev", issuer.Opaque(publicURL+"/mcp/dev", nil), 403},
		"unknown":          {"/mcp/chat", "unknown", 401},
		"known to nobody":  {"/mcp/chat", "tyx_unknown", 401},
		"no rule for them": {"/mcp/chat", issuer.Opaque(publicURL+"/mcp/chat", map[string]any{"groups": []string{"guests"}}), 403},
	} {
		if status, _, body := post(t, s.Server, test.path, test.token); status != test.status || strings.Contains(body, issuer.URL) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	s.keys["ann"] = issuer.Opaque(publicURL+"/api/v1", nil)
	if status, body := s.do(t, "ann", "GET", "/api/v1/me", ""); status != http.StatusOK || !strings.Contains(fmt.Sprint(body), "corp:ann") {
		t.Errorf("%d %v", status, body)
	}
	asked := issuer.Introspections()
	for _, role := range []string{"caller", "wrong", "local"} {
		s.do(t, role, "GET", "/api/v1/me", "")
	}
	if issuer.Introspections() != asked {
		t.Error("an API key was sent to the issuer")
	}
}
