package yard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/yard"
)

// payroll is an MCP server that accepts only exchanged tokens.
type payroll struct {
	address string
	mu      sync.Mutex
	sent    []string // Authorization headers received
	refuse  bool     // whether to refuse the next token that has a subject
}

// startPayroll starts a server with the tool whoami, which returns the token's subject.
func startPayroll(t *testing.T, legacy bool) *payroll {
	t.Helper()
	inner, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}, Identify: func(r *http.Request) (toolyard.Caller, error) {
		return toolyard.Caller{ID: r.Header.Get("Test-Person")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	runYard(t, inner)
	p := &payroll{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		token, _ := strings.CutPrefix(header, "Bearer exchanged/")
		person, ok := strings.CutSuffix(token, "/payroll")
		p.mu.Lock()
		p.sent = append(p.sent, header)
		refused := p.refuse && person != ""
		p.refuse = p.refuse && !refused
		p.mu.Unlock()
		switch {
		case !ok || refused:
			w.WriteHeader(http.StatusUnauthorized)
		case legacy && r.Header.Get("Mcp-Protocol-Version") == "2026-07-28":
			http.Error(w, "unsupported version", http.StatusBadRequest)
		default:
			r.Header.Set("Test-Person", "payroll:"+person)
			inner.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	p.address = server.URL + "/mcp"
	return p
}

// newExchangingYard serves the gate chat with the tools of a server that receives exchanged tokens.
func newExchangingYard(t *testing.T, issuer *issuertest.Issuer, p *payroll) (server *httptest.Server, key string) {
	t.Helper()
	issuer.Provider.Secret = "yard-secret"
	t.Setenv("EXCHANGE_SECRET", issuer.Provider.Secret)
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
issuers: {corp: {issuer: %s, access: [{groups: [staff], gates: [chat]}]}}
servers: {pay: {url: %q, auth: {type: exchange, at: corp, audience: payroll, client: {id: yard, secretRef: env:EXCHANGE_SECRET}}, effects: {"*": read}}}
gates: {chat: {mode: read, callers: authenticated}}
`, publicURL, issuer.URL, p.address), yard.Options{})
	return s.Server, s.keys["caller"]
}

// callPayroll calls the tool over MCP, in the modern or the legacy era.
func callPayroll(t *testing.T, server *httptest.Server, legacy bool, token string) string {
	t.Helper()
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay__whoami","arguments":{}` + meta + `}}`
	header := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"pay__whoami"}}
	send := func(message string, header http.Header) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/mcp/chat", strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header.Clone()
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+token)
		return doPatiently(t, req)
	}
	if legacy {
		res, _ := send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, http.Header{})
		header = http.Header{"Mcp-Session-Id": {res.Header.Get("Mcp-Session-Id")}, "Mcp-Protocol-Version": {"2025-11-25"}}
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, header)
		message = strings.Replace(message, meta, "", 1)
	}
	_, body := send(message, header)
	return body
}

// A server receives a token for the calling person, in both eras, and never the person's own token.
func TestServerWithExchangedTokens(t *testing.T) {
	for _, legacyServer := range []bool{false, true} {
		issuer, p := issuertest.New(t), startPayroll(t, legacyServer)
		server, key := newExchangingYard(t, issuer, p)
		var tokens []string
		for _, person := range []string{"ann", "bob"} {
			token := issuer.Token(publicURL+"/mcp/chat", map[string]any{"sub": person})
			tokens = append(tokens, token)
			for _, legacyClient := range []bool{false, true, false} {
				if body := callPayroll(t, server, legacyClient, token); !strings.Contains(body, "payroll:"+person) {
					t.Errorf("%s, legacy server %v, legacy client %v: %s", person, legacyServer, legacyClient, body)
				}
			}
		}
		if n := issuer.Exchange.Requests.Load(); n != 2 {
			t.Errorf("%d exchanges, want one for each person", n)
		}
		if body := callPayroll(t, server, false, key); !strings.Contains(body, "API keys are not accepted") {
			t.Error(body)
		}
		p.mu.Lock()
		for _, header := range p.sent { // attack A76
			if strings.Contains(header, tokens[0]) || strings.Contains(header, tokens[1]) || strings.Contains(header, "ty_") {
				t.Error("the server received the credentials of a caller")
			}
		}
		p.refuse = true
		p.mu.Unlock()
		if body := callPayroll(t, server, false, tokens[0]); !strings.Contains(body, "payroll:ann") || issuer.Exchange.Requests.Load() != 3 {
			t.Errorf("after a refusal: %s, %d exchanges", body, issuer.Exchange.Requests.Load())
		}
	}
}

// A78: responses that are not a token for the server are refused, and the caller sees no details.
func TestInvalidExchangesAreRefused(t *testing.T) {
	issuer, p := issuertest.New(t), startPayroll(t, false)
	server, _ := newExchangingYard(t, issuer, p)
	good := func(changes map[string]any) map[string]any {
		body := map[string]any{"access_token": issuertest.Exchanged("mallory", "payroll"), "token_type": "Bearer", "expires_in": 300, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
		for name, value := range changes {
			if body[name] = value; value == nil {
				delete(body, name)
			}
		}
		return body
	}
	n := 0
	for name, test := range map[string]struct {
		status int
		body   map[string]any
		want   string
	}{
		"no issued_token_type": {200, good(map[string]any{"issued_token_type": nil}), "could not obtain one"},
		"a refresh token":      {200, good(map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:refresh_token"}), "could not obtain one"},
		"an ID token":          {200, good(map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:id_token"}), "could not obtain one"},
		"token_type N_A":       {200, good(map[string]any{"token_type": "N_A"}), "could not obtain one"},
		"no token":             {200, good(map[string]any{"access_token": nil}), "could not obtain one"},
		"expired":              {200, good(map[string]any{"expires_in": -1}), "could not obtain one"},
		"refused":              {400, map[string]any{"error": "invalid_target", "error_description": "canary"}, "does not allow you"},
		"server error":         {500, map[string]any{}, "could not obtain one"},
	} {
		issuer.SetExchange(func(string, string) (int, map[string]any) { return test.status, test.body })
		n++
		body := callPayroll(t, server, false, issuer.Token(publicURL+"/mcp/chat", map[string]any{"sub": fmt.Sprint("person", n)}))
		if !strings.Contains(body, test.want) || strings.Contains(body, "payroll:") || strings.Contains(body, "canary") {
			t.Errorf("%s: %s", name, body)
		}
	}
	token := issuer.Token(publicURL+"/mcp/chat", nil)
	issuer.SetExchange(func(string, string) (int, map[string]any) { return 200, good(map[string]any{"access_token": token}) })
	if body := callPayroll(t, server, false, token); !strings.Contains(body, "could not obtain one") {
		t.Error(body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, header := range p.sent {
		if strings.Contains(header, token) {
			t.Error("the token of the person was sent to the server")
		}
	}
}

// Concurrent calls by one person cause a single exchange.
func TestExchangesAreShared(t *testing.T) {
	issuer, p := issuertest.New(t), startPayroll(t, false)
	server, _ := newExchangingYard(t, issuer, p)
	token := issuer.Token(publicURL+"/mcp/chat", nil)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if body := callPayroll(t, server, false, token); !strings.Contains(body, "payroll:ann") {
				t.Error(body)
			}
		})
	}
	calls.Wait()
	if n := issuer.Exchange.Requests.Load(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
}
