package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/yard"
)

const publicURL = "https://tools.example.com"

// whoami returns the caller's ID.
var whoami = toolyard.Define(toolyard.Spec{Name: "whoami", Description: "Returns the ID of the caller.", Effects: toolyard.ReadOnly},
	func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) { return c.Caller.ID, nil })

// issuerConfig has three gates: chat accepts tokens; dev accepts tokens and keys, and allows
// writes; internal accepts only keys.
const issuerConfig = `
url: %s
hosts: [tools.example.com]
issuers:
  corp:
    issuer: %s
    scopes: {tools.write: [write]}
    access:
      - {groups: [staff], gates: [chat]}
      - {groups: [engineering], gates: [chat, dev], write: true}
      - {groups: [platform], role: operator}
gates:
  chat: {mode: read, callers: tokens}
  dev: {mode: write, callers: authenticated}
  internal: {mode: read, callers: keys}
`

func newYardWithIssuer(t *testing.T, issuer *issuertest.Issuer) *httptest.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	text := "store: memory\n" + fmt.Sprintf(issuerConfig, publicURL, issuer.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{ConfigFile: file, Tools: []*toolyard.Tool{whoami}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-y.Ready()
	server := httptest.NewServer(y.Handler())
	t.Cleanup(server.Close)
	return server
}

// post calls whoami at a gate and returns the status, the challenge and the body.
func post(t *testing.T, server *httptest.Server, path, token string) (status int, challenge, body string) {
	t.Helper()
	return postTool(t, server, path, token, "whoami")
}

// postTool is like post, for any tool that takes no arguments.
func postTool(t *testing.T, server *httptest.Server, path, token, tool string) (status int, challenge, body string) {
	t.Helper()
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/call")
	req.Header.Set("Mcp-Name", tool)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, raw := doPatiently(t, req)
	return res.StatusCode, res.Header.Get("WWW-Authenticate"), raw
}

// doPatiently sends a request. It repeats requests that fail because keys or the store are slow to
// respond, which can happen on a busy machine.
func doPatiently(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		start := time.Now()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusServiceUnavailable || time.Since(start) < time.Second || time.Now().After(end) {
			return res, string(raw)
		}
		if req.Body, err = req.GetBody(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAccessTokenAtGates(t *testing.T) {
	issuer := issuertest.New(t)
	server := newYardWithIssuer(t, issuer)
	token := func(resource string, groups []string, scope string) string {
		return issuer.Token(publicURL+resource, map[string]any{"groups": groups, "scope": scope})
	}
	const metadata = `resource_metadata="` + publicURL + "/.well-known/oauth-protected-resource/mcp/"
	for name, test := range map[string]struct {
		path, token     string
		status          int
		challenge, body string
	}{
		"its own gate":             {"/mcp/chat", token("/mcp/chat", []string{"staff"}, ""), 200, "", "corp:ann"},
		"no token":                 {"/mcp/chat", "", 401, `Bearer realm="toolyard", ` + metadata + `chat"`, "requires an access token"},
		"no token at a write gate": {"/mcp/dev", "", 401, metadata + `dev", scope="tools.write"`, "access token or an API key"},
		"token of another gate":    {"/mcp/dev", token("/mcp/chat", []string{"engineering"}, "tools.write"), 401, `error="invalid_token"`, "not valid"},
		"no rule matches":          {"/mcp/chat", token("/mcp/chat", []string{"guests"}, ""), 403, `error="insufficient_scope"`, "does not have access"},
		"rule for another gate":    {"/mcp/dev", token("/mcp/dev", []string{"staff"}, "tools.write"), 403, `error="insufficient_scope", scope="tools.write"`, "gate:dev"},
		"scope missing":            {"/mcp/dev", token("/mcp/dev", []string{"engineering"}, ""), 403, `error="insufficient_scope", scope="tools.write"`, "write"},
		"rule and scope":           {"/mcp/dev", token("/mcp/dev", []string{"engineering"}, "tools.write"), 200, "", "corp:ann"},
		"role without a gate":      {"/mcp/chat", token("/mcp/chat", []string{"platform"}, ""), 403, "", "gate:chat"},
		"gate for keys":            {"/mcp/internal", token("/mcp/internal", []string{"staff"}, ""), 403, `error="insufficient_scope"`, "does not accept access tokens"},
		"looks like a key":         {"/mcp/chat", "ty_abcdefghij_x", 401, "", ""},
		"opaque":                   {"/mcp/chat", "opaque", 401, "", ""},
	} {
		status, challenge, body := post(t, server, test.path, test.token)
		if status != test.status || !strings.Contains(challenge, test.challenge) || !strings.Contains(body, test.body) {
			t.Errorf("%s: %d %s %s", name, status, challenge, body)
		}
	}
}

func TestAccessTokenAtHTTPAPI(t *testing.T) {
	issuer := issuertest.New(t)
	server := newYardWithIssuer(t, issuer)
	execute := func(resource, gate string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/tools/execute", strings.NewReader(`{"tool":"whoami","gate":"`+gate+`","args":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+issuer.Token(publicURL+resource, nil))
		res, raw := doPatiently(t, req)
		return res.StatusCode, raw
	}
	for name, test := range map[string]struct {
		resource, gate string
		status         int
	}{
		"a token for the API":        {"/api/v1", "chat", 200},
		"a gate that no rule grants": {"/api/v1", "dev", 403},
		"a gate for keys":            {"/api/v1", "internal", 403},
		"a token for the gate":       {"/mcp/chat", "chat", 401},
	} {
		if status, body := execute(test.resource, test.gate); status != test.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

func TestResourceMetadata(t *testing.T) {
	issuer := issuertest.New(t)
	server := newYardWithIssuer(t, issuer)
	get := func(path string) (int, map[string]any) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/.well-known/oauth-protected-resource"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example" // must not appear in the document
		req.Header.Set("X-Forwarded-Host", "evil.example")
		req.Header.Set("Origin", "https://web-client.example")
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var doc map[string]any
		_ = json.NewDecoder(res.Body).Decode(&doc)
		if res.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: other origins cannot read it", path)
		}
		return res.StatusCode, doc
	}
	document := func(path, name string, scopes ...any) map[string]any {
		doc := map[string]any{"resource": publicURL + path, "authorization_servers": []any{issuer.URL}, "bearer_methods_supported": []any{"header"}, "resource_name": name}
		if scopes != nil {
			doc["scopes_supported"] = scopes
		}
		return doc
	}
	for path, want := range map[string]map[string]any{
		"/mcp/chat":     document("/mcp/chat", "toolyard chat"),
		"/mcp/dev":      document("/mcp/dev", "toolyard dev", "tools.write"),
		"/api/v1":       document("/api/v1", "Toolyard HTTP API"),
		"/mcp/internal": nil,
		"/mcp/unknown":  nil,
		"/mcp":          nil, // there are three gates, and none is the default
		"":              nil,
	} {
		status, doc := get(path)
		if diff := cmp.Diff(want, doc); diff != "" || (status == http.StatusOK) != (want != nil) {
			t.Errorf("%s: %d %s", path, status, diff)
		}
	}
}

// CheckClaims predicts which access a token with these claims has at every gate.
func TestCheckOfClaimsPredictsAccess(t *testing.T) {
	issuer := issuertest.New(t)
	server := newYardWithIssuer(t, issuer)
	check := func(body string) (status int, answer string, targets map[string]bool) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/issuers/check", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+issuer.Token(publicURL+"/api/v1", map[string]any{"groups": []string{"platform"}}))
		res, answer := doPatiently(t, req)
		var result struct {
			Targets []struct{ Gate, Refused string }
		}
		if err := json.Unmarshal([]byte(answer), &result); err != nil {
			t.Fatal(err)
		}
		targets = map[string]bool{}
		for _, target := range result.Targets {
			targets[target.Gate] = target.Refused == ""
		}
		return res.StatusCode, answer, targets
	}
	for name, test := range map[string]struct {
		overrides map[string]any
		want      []string
	}{
		"staff":               {nil, []string{`"caller":"corp:ann"`, `"rules":[1]`, `"write":false`}},
		"engineering":         {map[string]any{"groups": []string{"engineering"}, "aud": publicURL + "/mcp/dev", "scope": "tools.write"}, []string{`"rules":[2]`, `"write":true`}},
		"without the scope":   {map[string]any{"groups": []string{"engineering"}, "aud": publicURL + "/mcp/dev"}, []string{`"rules":[2]`, `"write":false`}},
		"operator":            {map[string]any{"groups": []string{"platform"}}, []string{`"role":"operator"`}},
		"no rule":             {map[string]any{"groups": []string{"guests"}}, []string{`"refused":"RULE: `}},
		"unknown issuer":      {map[string]any{"iss": "https://other.example"}, []string{`"refused":"ISS: `}},
		"no issuer":           {map[string]any{"iss": nil}, []string{`"refused":"ISS: `}},
		"expired":             {map[string]any{"exp": 1}, []string{`"refused":"EXP: `}},
		"groups in an object": {map[string]any{"groups": map[string]any{}}, []string{`"refused":"RULE: `}},
	} {
		claims, err := json.Marshal(issuer.Claims(publicURL+"/mcp/chat", test.overrides))
		if err != nil {
			t.Fatal(err)
		}
		status, answer, targets := check(`{"claims":` + string(claims) + `}`)
		for _, want := range test.want {
			if status != http.StatusOK || !strings.Contains(answer, want) {
				t.Errorf("%s: %d %s, want %s", name, status, answer, want)
			}
		}
		token := issuer.Token(publicURL+"/mcp/chat", test.overrides)
		for _, gate := range []string{"chat", "dev"} {
			if real, _, _ := post(t, server, "/mcp/"+gate, token); (real == http.StatusOK) != targets[gate] {
				t.Errorf("%s at %s: the gate responded with %d, the check said %v", name, gate, real, targets[gate])
			}
		}
	}
	for _, body := range []string{`{"claims":"` + issuer.Token(publicURL, nil) + `"}`, `{"claims":[]}`, `{}`, `{"claims":{"iss":"a","iss":"b"}}`} {
		if status, answer, _ := check(body); status == http.StatusOK && !strings.Contains(answer, `"refused"`) || strings.Contains(answer, "eyJ") {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}
