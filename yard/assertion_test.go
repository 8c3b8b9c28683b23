package yard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
	"github.com/toolyard/toolyard/yard"
)

// startTrustingServer starts another company's server, whose authorization server accepts the issuer's
// assertions for the client robot. The secrets of both clients are in the environment.
func startTrustingServer(t *testing.T, issuer *issuertest.Issuer, as *oauthtest.Server, legacy bool) (address string) {
	t.Helper()
	address = startProtectedServer(t, as, legacy)
	as.Set(func(s *oauthtest.Server) {
		s.Trusted = &oauthtest.IdentityProvider{Issuer: issuer.URL, Key: issuer.PublicKey}
	})
	issuer.AllowAssertions("robot")
	issuer.Provider.Secret = "yard-secret"
	t.Setenv("PROVIDER_SECRET", issuer.Provider.Secret)
	t.Setenv("CLIENT_SECRET", "robot-secret")
	return address
}

// newAssertingYard serves the gate chat with the tools of another company's server, whose
// authorization server accepts the issuer's assertions.
func newAssertingYard(t *testing.T, issuer *issuertest.Issuer, as *oauthtest.Server, legacy bool) (server *httptest.Server, key string) {
	t.Helper()
	address := startTrustingServer(t, issuer, as, legacy)
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
issuers: {corp: {issuer: %s, access: [{groups: [staff], gates: [chat]}]}}
servers:
  pay:
    url: %q
    auth: {type: assertion, at: corp, client: {id: robot, secretRef: env:CLIENT_SECRET}, atClient: {id: toolyard, secretRef: env:PROVIDER_SECRET}}
    effects: {"*": read}
gates: {chat: {mode: read, callers: authenticated}}
`, publicURL, issuer.URL, address), yard.Options{})
	return s.Server, s.keys["caller"]
}

// Another company's server identifies the calling person in both eras, although the person has not
// signed in there.
func TestServerWithAssertions(t *testing.T) {
	for _, legacyServer := range []bool{false, true} {
		issuer, as := issuertest.New(t), oauthtest.New(t)
		server, key := newAssertingYard(t, issuer, as, legacyServer)
		for _, person := range []string{"ann", "bob"} {
			token := issuer.Token(publicURL+"/mcp/chat", map[string]any{"sub": person})
			for _, legacyClient := range []bool{false, true, false} {
				if body := callPayroll(t, server, legacyClient, token); !strings.Contains(body, person) || strings.Contains(body, "rror") {
					t.Errorf("%s, legacy server %v, legacy client %v: %s", person, legacyServer, legacyClient, body)
				}
			}
		}
		if n := issuer.Assertions.Requests.Load(); n != 2 || as.Counts().Assertions != 2 {
			t.Errorf("%d assertions, %d redeemed, want one for each person", n, as.Counts().Assertions)
		}
		if body := callPayroll(t, server, false, key); !strings.Contains(body, "API keys are not accepted") {
			t.Error(body)
		}
		issuer.SetAssertions(issuertest.AssertionChange{Refusal: "access_denied"})
		if body := callPayroll(t, server, false, issuer.Token(publicURL+"/mcp/chat", map[string]any{"sub": "eve"})); !strings.Contains(body, "corp does not allow you to use server pay") || strings.Contains(body, "canary") {
			t.Error(body)
		}
	}
}

// A76: the authorization server and the server receive neither the person's token nor an API key.
func TestAssertionsHideTheCallersToken(t *testing.T) {
	issuer, as := issuertest.New(t), oauthtest.New(t)
	var mu sync.Mutex
	var sent []string
	as.Set(func(s *oauthtest.Server) {
		s.OnRequest = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, text)
		}
	})
	server, _ := newAssertingYard(t, issuer, as, false)
	token := issuer.Token(publicURL+"/mcp/chat", nil)
	if body := callPayroll(t, server, false, token); !strings.Contains(body, "ann") {
		t.Fatal(body)
	}
	mu.Lock()
	defer mu.Unlock()
	if text := strings.Join(sent, " "); !strings.Contains(text, "assertion=") || strings.Contains(text, token) || strings.Contains(text, strings.Split(token, ".")[2]) {
		t.Errorf("the authorization server received the token of the person, or no assertion: %s", text)
	}
}

// A person's console sign-in identifies that person to the issuer until the person signs out or is
// blocked. It is stored encrypted and is never used for another person.
func TestServerWithSignIns(t *testing.T) {
	issuer, as := issuertest.New(t), oauthtest.New(t)
	address := startTrustingServer(t, issuer, as, false)
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
issuers:
  corp: {issuer: %s, console: {client: console, secretRef: env:PROVIDER_SECRET, scopes: [offline_access]}, access: [{groups: [staff], gates: [chat]}]}
servers:
  pay: {url: %q, auth: {type: assertion, at: corp, subject: signin, client: {id: robot, secretRef: env:CLIENT_SECRET}}, effects: {"*": read}}
gates: {chat: {mode: read, callers: authenticated}}
`, publicURL, issuer.URL, address), yard.Options{})
	within(t, time.Minute, "the issuer to be known", func() bool {
		status, _ := s.do(t, "none", "POST", "/api/v1/signin/issuers/corp", "")
		return status == http.StatusOK
	})
	ann := issuer.Token(publicURL+"/mcp/chat", nil)
	if body := callPayroll(t, s.Server, false, ann); !strings.Contains(body, "Ask the user to sign in with corp at "+publicURL+"/console") {
		t.Error("before the sign-in:", body)
	}
	b := newBrowser(t, s)
	b.signIn(issuer)
	if body := callPayroll(t, s.Server, false, ann); !strings.Contains(body, `ann`) || strings.Contains(body, "rror") {
		t.Error("after the sign-in:", body)
	}
	bob := issuer.Token(publicURL+"/mcp/chat", map[string]any{"sub": "bob"})
	for token, want := range map[string]string{bob: "Ask the user to sign in", s.keys["caller"]: "API keys are not accepted"} {
		if body := callPayroll(t, s.Server, false, token); !strings.Contains(body, want) {
			t.Error("another caller:", body)
		}
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.file), "toolyard.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files { // attack A73
		if raw, err := os.ReadFile(file); err != nil || strings.Contains(string(raw), strings.Split(issuer.Provider.LastIDToken(), ".")[2]) {
			t.Errorf("%s contains the ID token, or %v", file, err)
		}
	}
	owner := serverauth.Owner{Caller: "corp:ann"}
	stored := func() bool {
		t.Helper()
		c, err := s.store.Connection(t.Context(), owner, serverauth.SignInPrefix+"corp")
		if err != nil {
			t.Fatal(err)
		}
		return c != nil
	}
	if !stored() {
		t.Error("the sign-in is not stored")
	}
	if status, answer := b.send("DELETE", "/signin", nil); status != http.StatusNoContent || stored() {
		t.Error("after the sign-out:", status, answer, stored())
	}
	if body := callPayroll(t, s.Server, false, ann); !strings.Contains(body, "Ask the user to sign in") {
		t.Error("after the sign-out:", body)
	}
	newBrowser(t, s).signIn(issuer)
	if !stored() {
		t.Error("the second sign-in is not stored")
	}
	if status, answer := s.do(t, "operator", "POST", "/api/v1/people/corp:ann/block", `{"reason":"left"}`); status != http.StatusOK || stored() {
		t.Error("after the block:", status, answer, stored())
	}
}
