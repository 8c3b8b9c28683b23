package serverauth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// enterprise is a company with an identity provider, and the server crm at another company, whose
// authorization server accepts the provider's assertions.
type enterprise struct {
	t          *testing.T
	provider   *issuertest.Issuer
	as         *oauthtest.Server
	current    atomic.Pointer[oauthtest.Server] // the authorization server that the server declares
	service    string
	authorizer *serverauth.Delegation
	offset     atomic.Int64 // offset of the clock

	mu     sync.Mutex
	hidden []string
}

func newEnterprise(t *testing.T, scopes ...string) *enterprise {
	t.Helper()
	e := &enterprise{t: t, provider: issuertest.New(t), as: oauthtest.New(t)}
	e.current.Store(e.as)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.current.Load().Protect(func() string { return e.service }, scopes, func(person string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, person) })
		}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	e.service = server.URL + "/mcp"
	e.provider.Provider.Secret = "provider-secret"
	e.provider.AllowAssertions("robot")
	e.as.Set(func(s *oauthtest.Server) {
		s.Resource, s.Trusted = e.service, &oauthtest.IdentityProvider{Issuer: e.provider.URL, Key: e.provider.PublicKey}
	})
	e.authorizer = serverauth.NewAssertion(serverauth.DelegationOptions{
		Issuer: serverauth.Issuer{Name: "corp", URL: e.provider.URL, Client: func() (*oauthclient.Credentials, error) {
			return &oauthclient.Credentials{ID: "toolyard", Secret: "provider-secret"}, nil
		}},
		Subjects: serverauth.RequestTokens("crm", "corp", callerOf),
		Hide: func(text string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.hidden = append(e.hidden, text)
		},
		Now: func() time.Time { return time.Now().Add(time.Duration(e.offset.Load())) },
	}, serverauth.Server{ID: "crm", URL: e.service, Client: func() (*oauthclient.Credentials, error) {
		return &oauthclient.Credentials{ID: "robot", Secret: "robot-secret"}, nil
	}})
	return e
}

// callerOf returns the caller identified by the provider's access token.
func callerOf(_ context.Context, token string) (string, error) {
	var claims struct{ Sub string }
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(raw, &claims)
	}
	return "corp:" + claims.Sub, err
}

// token returns a person's access token for this yard.
func (e *enterprise) token(person string) string {
	return e.provider.Token("https://tools.example.com/mcp", map[string]any{"sub": person})
}

// call sends a request on behalf of a person, like package upstream does, and returns the person
// that the server sees.
func (e *enterprise) call(person, token string) (string, error) {
	c := &toolyard.Call{Caller: toolyard.Caller{ID: "corp:" + person, Roles: []string{identity.IssuerRole("corp")}}}
	ctx := serverauth.WithAccessToken(e.t.Context(), token)
	if _, err := e.authorizer.Begin(ctx, c); err != nil {
		return "", err
	}
	return e.send(ctx, c)
}

// send sends a request. c is nil for the yard itself.
func (e *enterprise) send(ctx context.Context, c *toolyard.Call) (string, error) {
	for attempt := 0; ; attempt++ {
		header, err := e.authorizer.Authorize(ctx, c)
		if err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.service, http.NoBody)
		if err != nil {
			return "", err
		}
		for name := range header {
			req.Header.Set(name, header.Get(name))
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode == http.StatusOK {
			return string(body), err
		}
		if again, err := e.authorizer.Refused(ctx, c, header, res); attempt > 0 || err != nil || !again {
			return "", fmt.Errorf("status %d: %w", res.StatusCode, err)
		}
	}
}

func TestAssertionsIdentifyPeople(t *testing.T) {
	e := newEnterprise(t, "crm.read")
	ann, bob := e.token("ann"), e.token("bob")
	for range 3 {
		for person, token := range map[string]string{"ann": ann, "bob": bob} {
			if got, err := e.call(person, token); got != person || err != nil {
				t.Fatalf("%s: %q, %v", person, got, err)
			}
		}
	}
	// The first calls were made before a challenge, so they lacked the scope that the server
	// requires.
	if n := e.provider.Assertions.Requests.Load(); n > 4 || int(n) != e.as.Counts().Assertions {
		t.Errorf("%d assertions, %d redeemed", n, e.as.Counts().Assertions)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.ContainsFunc(e.hidden, func(text string) bool { return strings.Count(text, ".") == 2 }) || !slices.ContainsFunc(e.hidden, func(text string) bool { return strings.HasPrefix(text, "at-") }) {
		t.Error("assertions and tokens are not redacted")
	}
}

// Concurrent calls share one assertion, and the token is used until shortly before it expires.
func TestAssertionsAreShared(t *testing.T) {
	e := newEnterprise(t)
	token := e.token("ann")
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if got, err := e.call("ann", token); got != "ann" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	calls.Wait()
	if n := e.provider.Assertions.Requests.Load(); n != 1 || e.as.Counts().Assertions != 1 {
		t.Errorf("%d assertions, %d redeemed", n, e.as.Counts().Assertions)
	}
	e.offset.Store(int64(59*time.Minute + time.Second)) // the token is valid for an hour
	if _, err := e.call("ann", token); err == nil {
		t.Error("the assertion is expired by this clock")
	}
	if n := e.provider.Assertions.Requests.Load(); n != 2 {
		t.Errorf("%d assertions", n)
	}
}

// A refused token is replaced once.
func TestRefusedTokenNeedsAnotherAssertion(t *testing.T) {
	e := newEnterprise(t)
	token := e.token("ann")
	for range 2 {
		if got, err := e.call("ann", token); got != "ann" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		e.as.Expire()
	}
	if n := e.as.Counts(); n.Assertions != 2 || n.Refreshes != 0 {
		t.Errorf("%+v", n)
	}
}

// A79: an assertion that was issued for another purpose is not sent anywhere. The error for operators
// names the claim and what to change; the caller learns no details.
func TestAssertionsForAnotherPurposeAreNotRedeemed(t *testing.T) {
	e := newEnterprise(t)
	n := 0
	for name, test := range map[string]struct {
		change issuertest.AssertionChange
		want   string
	}{
		"wrong type":            {issuertest.AssertionChange{Header: map[string]any{"typ": "at+jwt"}}, `typ is "at+jwt"`},
		"no type":               {issuertest.AssertionChange{Header: map[string]any{"typ": ""}}, `typ is ""`},
		"wrong audience":        {issuertest.AssertionChange{Claims: map[string]any{"aud": "https://other.example"}}, `aud is "https://other.example"`},
		"audience with a slash": {issuertest.AssertionChange{Claims: map[string]any{"aud": e.as.URL + "/"}}, "auth.issuer"},
		"two audiences":         {issuertest.AssertionChange{Claims: map[string]any{"aud": []string{e.as.URL, "https://other.example"}}}, "aud has 2 values"},
		"no audience":           {issuertest.AssertionChange{Claims: map[string]any{"aud": nil}}, `aud is ""`},
		"wrong resource":        {issuertest.AssertionChange{Claims: map[string]any{"resource": "https://other.example/mcp"}}, `resource is "https://other.example/mcp"`},
		"another client":        {issuertest.AssertionChange{Claims: map[string]any{"client_id": "other"}}, "set auth.client"},
		"another issuer":        {issuertest.AssertionChange{Claims: map[string]any{"iss": "https://evil.example"}}, "check auth.at"},
		"no subject":            {issuertest.AssertionChange{Claims: map[string]any{"sub": nil}}, "sub is missing"},
		"expired":               {issuertest.AssertionChange{Claims: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}}, "check that the clocks"},
		"no expiry":             {issuertest.AssertionChange{Claims: map[string]any{"exp": nil}}, "exp is missing"},
		"long lifetime":         {issuertest.AssertionChange{Claims: map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()}}, "shorten it at the identity provider"},
		"no JWT":                {issuertest.AssertionChange{Response: map[string]any{"access_token": "opaque"}}, "not a signed JSON Web Token"},
		"unsigned":              {issuertest.AssertionChange{Response: map[string]any{"access_token": "e30.e30."}}, "not a signed JSON Web Token"},
		"no assertion":          {issuertest.AssertionChange{Response: map[string]any{"access_token": nil}}, "contains no assertion"},
		"an access token":       {issuertest.AssertionChange{Response: map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}}, "not an identity assertion"},
	} {
		n++
		e.provider.SetAssertions(test.change)
		person := fmt.Sprint("person", n)
		_, err := e.call(person, e.token(person))
		failure := toolyard.AsError(err)
		if failure.Code != toolyard.Unavailable || !strings.Contains(failure.Message, "Server crm") || strings.Contains(failure.Message, "example") {
			t.Errorf("%s: %v", name, err)
		}
		if failure.Err == nil || !strings.Contains(failure.Err.Error(), test.want) || !strings.Contains(failure.Err.Error(), strings.TrimPrefix(e.provider.URL, "http://")) {
			t.Errorf("%s: %v", name, failure.Err)
		}
	}
	if n := e.as.Counts().Assertions; n != 0 {
		t.Errorf("%d assertions were redeemed", n)
	}
}

// The identity provider and the authorization server both decide. Refusals contain the place and
// the code but never a description, and are not repeated.
func TestRefusedAssertions(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*enterprise)
		code    toolyard.Code
		message string
		err     string
		sent    int // assertions sent to the authorization server
	}{
		"by policy": {
			func(e *enterprise) { e.provider.SetAssertions(issuertest.AssertionChange{Refusal: "access_denied"}) },
			toolyard.PermissionDenied, "corp does not allow you to use server crm (the authorization server responded with access_denied)", "auth.atClient", 0,
		},
		"wrong client at the provider": {
			func(e *enterprise) { e.provider.Provider.Secret = "other" },
			toolyard.Unavailable, "could not obtain one", "corp: the authorization server responded with invalid_client", 0,
		},
		"by an authorization server that does not trust the provider": {
			func(e *enterprise) { e.as.Set(func(s *oauthtest.Server) { s.Trusted = nil }) },
			toolyard.PermissionDenied, "does not allow you to use server crm (the authorization server responded with invalid_grant)", "check that it trusts assertions from ", 1,
		},
		"a replayed assertion": { // A79
			func(e *enterprise) {
				e.provider.SetAssertions(issuertest.AssertionChange{Claims: map[string]any{"jti": "1"}})
				if _, err := e.call("bob", e.token("bob")); err != nil {
					e.t.Error(err)
				}
			},
			toolyard.PermissionDenied, "invalid_grant", "the authorization server http://", 2,
		},
		"wrong client at the authorization server": {
			func(e *enterprise) { e.as.Set(func(s *oauthtest.Server) { s.Clients["robot"] = "other" }) },
			toolyard.Unavailable, "could not obtain one", "invalid_client; check that it trusts", 0,
		},
		"a token of another type": {
			func(e *enterprise) {
				e.as.Set(func(s *oauthtest.Server) { s.Token = map[string]any{"token_type": "N_A"} })
			},
			toolyard.Unavailable, "could not obtain one", "unsupported token_type", 1,
		},
		"other grant profiles": {
			func(e *enterprise) {
				e.as.Set(func(s *oauthtest.Server) {
					s.Metadata = map[string]any{"authorization_grant_profiles_supported": []string{"urn:example:other"}}
				})
			},
			toolyard.Unavailable, "could not obtain one", "does not accept identity assertions", 0,
		},
		"metadata of another issuer": { // A63
			func(e *enterprise) {
				e.as.Set(func(s *oauthtest.Server) { s.Metadata = map[string]any{"issuer": "https://evil.example"} })
			},
			toolyard.Unavailable, "could not obtain one", "issuer is", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnterprise(t)
			test.change(e)
			token := e.token("ann")
			for range 2 { // the second response comes from the cache
				_, err := e.call("ann", token)
				failure := toolyard.AsError(err)
				if failure.Code != test.code || !strings.Contains(failure.Message, test.message) || strings.Contains(failure.Message, "canary") {
					t.Errorf("%v", err)
				}
				if failure.Err == nil || !strings.Contains(failure.Err.Error(), test.err) || strings.Contains(failure.Err.Error(), "canary") {
					t.Errorf("for operators: %v", failure.Err)
				}
			}
			if n := e.as.Counts().Assertions; n != test.sent {
				t.Errorf("%d assertions were sent", n)
			}
		})
	}
}

// Another person's token and API keys are not exchanged.
func TestOnlyTheCallersTokenIsExchanged(t *testing.T) {
	e := newEnterprise(t)
	if _, err := e.call("ann", e.token("bob")); toolyard.AsError(err).Code != toolyard.PermissionDenied {
		t.Error(err)
	}
	c := &toolyard.Call{Caller: toolyard.Caller{ID: "ann", Account: "acme"}}
	if _, err := e.authorizer.Begin(serverauth.WithAccessToken(t.Context(), e.token("ann")), c); !strings.Contains(fmt.Sprint(err), "API keys are not accepted") {
		t.Error(err)
	}
	if n := e.provider.Assertions.Requests.Load(); n != 0 {
		t.Errorf("%d assertions", n)
	}
}

// A66, A77: assertions and the client's secret are never sent to another authorization server.
func TestAssertionsStayWithTheAuthorizationServer(t *testing.T) {
	e, evil := newEnterprise(t), oauthtest.New(t)
	if got, err := e.call("ann", e.token("ann")); got != "ann" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	e.current.Store(evil)
	before := e.provider.Assertions.Requests.Load()
	_, err := e.call("ann", e.token("ann"))
	if failure := toolyard.AsError(err); failure.Err == nil || !strings.Contains(failure.Err.Error(), "set auth.issuer") {
		t.Error(err, errors.Unwrap(err))
	}
	if n := evil.Counts(); n.Assertions != 0 || n.ClientTokens != 0 || e.provider.Assertions.Requests.Load() != before {
		t.Errorf("%+v, %d more assertions", n, e.provider.Assertions.Requests.Load()-before)
	}
}

// To list tools, the yard uses its own client's token once the server requires one.
func TestYardListsToolsWithItsOwnToken(t *testing.T) {
	e := newEnterprise(t, "crm.read")
	if got, err := e.send(t.Context(), nil); got != "robot" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if got, err := e.call("ann", e.token("ann")); got != "ann" || err != nil || e.as.Counts().Assertions != 1 {
		t.Errorf("the scope of the challenge is not requested at once: %q, %v", got, err)
	}
}

// Additional scopes are requested once. If the provider refuses them, the old token stays in use.
func TestServerRequiresMoreScopes(t *testing.T) {
	e := newEnterprise(t, "crm.write")
	token := e.token("ann")
	if got, err := e.call("ann", token); got != "ann" || err != nil || e.as.Counts().Assertions != 2 {
		t.Fatalf("%q, %v, %+v", got, err, e.as.Counts())
	}
	e.provider.SetAssertions(issuertest.AssertionChange{Claims: map[string]any{"scope": ""}}) // the provider does not grant it
	token = e.token("bob")
	for range 3 {
		if _, err := e.call("bob", token); err == nil {
			t.Error("a call without the scope succeeded")
		}
	}
	if n := e.as.Counts().Assertions; n != 4 {
		t.Errorf("%d assertions", n)
	}
}
