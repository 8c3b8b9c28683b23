package oauthclient

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/trust/oauthtest"
)

func newClient() *Client { return New([]string{"127.0.0.1"}, nil, time.Now) }

// protected starts a service at /mcp that requires tokens from an authorization server.
func protected(t *testing.T, as *oauthtest.Server, scopes ...string) string {
	t.Helper()
	var address string
	server := httptest.NewServer(as.Protect(func() string { return address }, scopes, func(person string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, person) })
	}))
	t.Cleanup(server.Close)
	address = server.URL + "/mcp"
	return address
}

// signIn opens a sign-in's URL like a browser and returns the response.
func signIn(t *testing.T, f *SignIn) url.Values {
	t.Helper()
	address, err := f.URL()
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatalf("%v: %s", err, res.Status)
	}
	return back.Query()
}

func TestSignInRefreshAndRevoke(t *testing.T) {
	as := oauthtest.New(t)
	service := protected(t, as)
	as.Resource = service
	c, ctx := newClient(), t.Context()
	res, err := http.Get(service)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	challenge, ok := ParseChallenge(res.Header)
	if !ok || challenge.ResourceMetadata == "" {
		t.Fatal(challenge)
	}
	resource, server, err := c.Discover(ctx, service, "", challenge)
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Identify(ctx, server, &Registration{Name: "Toolyard", Redirect: "http://127.0.0.1:1/callback"})
	if err != nil {
		t.Fatal(err)
	}
	flow, err := NewSignIn(server, resource, own, "http://127.0.0.1:1/callback", SelectScopes(challenge, resource, server, nil))
	if err != nil {
		t.Fatal(err)
	}
	code, err := flow.Code(signIn(t, flow))
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Redeem(ctx, flow, code)
	if err != nil {
		t.Fatal(err)
	}
	if person, _, ok := as.Identify(token.Access, service); !ok || person != "ann" || token.Expires.Before(time.Now().Add(time.Hour-time.Minute)) {
		t.Errorf("%s %+v", person, token)
	}
	next, err := c.Refresh(ctx, server, resource, own, token)
	if err != nil || next.Refresh == token.Refresh || next.Access == token.Access {
		t.Fatal(next, err)
	}
	if err := c.Revoke(ctx, server, own, next); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Refresh(ctx, server, resource, own, next); !InvalidGrant(err) {
		t.Error(err)
	}
}

func TestClientToken(t *testing.T) {
	as := oauthtest.New(t)
	service := protected(t, as)
	as.Resource = service
	c := newClient()
	resource, server, err := c.Discover(t.Context(), service, "", Challenge{})
	if err != nil {
		t.Fatal(err)
	}
	for _, methods := range [][]string{nil, {methodBasic}, {methodPost}} {
		server.AuthMethods = methods
		token, err := c.ClientToken(t.Context(), server, resource, &Credentials{ID: "robot", Secret: "robot-secret"}, []string{"a", "b"})
		if err != nil || !slices.Equal(token.Scopes, []string{"a", "b"}) {
			t.Errorf("%v: %v", methods, err)
		}
	}
	if _, err := c.ClientToken(t.Context(), server, resource, &Credentials{ID: "robot", Secret: "wrong"}, nil); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Error(err)
	}
}

func TestParseChallenge(t *testing.T) {
	for text, want := range map[string]Challenge{
		`Bearer`:                      {},
		`Bearer realm="x"`:            {},
		`bearer scope="a b", error=x`: {Scopes: []string{"a", "b"}, Error: "x"},
		`Basic realm="Bearer scope=no", Bearer scope="a"`:                                                   {Scopes: []string{"a"}},
		`Negotiate abc==, Bearer resource_metadata="https://x/y"`:                                           {ResourceMetadata: "https://x/y"},
		`Bearer error="insufficient_scope", scope="a\"b c", resource_metadata = "https://x"`:                {Scopes: []string{"c"}, Error: "insufficient_scope", ResourceMetadata: "https://x"},
		`Bearer resource_metadata="https://x", resource_metadata="https://evil"`:                            {ResourceMetadata: "https://x"},
		`DPoP algs="ES256", Bearer error="invalid_token", error_description="no, Basic realm=1", scope="z"`: {Error: "invalid_token", Scopes: []string{"z"}},
	} {
		got, ok := ParseChallenge(http.Header{"Www-Authenticate": {text}})
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %t %s", text, ok, diff)
		}
	}
	for _, text := range []string{"", "Basic x", `"Bearer"`, strings.Repeat("Bearer ", 10_000), `Basic realm="Bearer scope=a"`} {
		if got, ok := ParseChallenge(http.Header{"Www-Authenticate": {text}}); ok {
			t.Errorf("%.40s: %+v", text, got)
		}
	}
}

// A62
func TestMetadataOfAnotherResourceIsRefused(t *testing.T) {
	var claimed string
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": claimed, "authorization_servers": []string{"https://as.example.com"}})
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	service := server.URL + "/a/mcp"
	for _, claimed = range []string{"https://other.example.com/a/mcp", server.URL, server.URL + "/a", service + "/", strings.ToUpper(service), ""} {
		if _, _, err := newClient().discoverResource(t.Context(), service, Challenge{}); err == nil {
			t.Errorf("%s is accepted", claimed)
		}
	}
	claimed = service
	if r, _, err := newClient().discoverResource(t.Context(), service, Challenge{}); err != nil || r.ID != service {
		t.Error(err)
	}
}

// A63, A64, A65
func TestUnsafeAuthorizationServersAreRefused(t *testing.T) {
	const issuer = "https://as.example.com"
	valid := map[string]any{"issuer": issuer, "authorization_endpoint": issuer + "/a", "token_endpoint": issuer + "/t", "code_challenge_methods_supported": []string{"S256"}}
	check := func(change map[string]any) error {
		m := map[string]any{}
		for _, from := range []map[string]any{valid, change} {
			maps.Copy(m, from)
		}
		raw, _ := json.Marshal(m)
		s, err := readServer(raw, issuer)
		if err == nil {
			_, err = NewSignIn(s, &Resource{ID: "https://x"}, &Credentials{ID: "x"}, "https://tools.example.com/connect/callback", nil)
		}
		return err
	}
	if err := check(nil); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]map[string]any{
		"slash":      {"issuer": issuer + "/"},
		"case":       {"issuer": "https://AS.example.com"},
		"no issuer":  {"issuer": nil},
		"no PKCE":    {"code_challenge_methods_supported": nil},
		"plain":      {"code_challenge_methods_supported": []string{"plain"}},
		"script":     {"authorization_endpoint": "javascript:alert(1)"},
		"data":       {"authorization_endpoint": "data:text/html,x"},
		"http":       {"authorization_endpoint": "http://as.example.com/a"},
		"user":       {"authorization_endpoint": "https://user@as.example.com/a"},
		"fragment":   {"token_endpoint": issuer + "/t#x"},
		"file":       {"token_endpoint": "file:///etc/passwd"},
		"gopher":     {"registration_endpoint": "gopher://as.example.com"},
		"http again": {"revocation_endpoint": "http://10.0.0.1/"},
		"number":     {"token_endpoint": 1},
		"no token":   {"token_endpoint": nil},
	} {
		if check(change) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := readServer(object(`{"Issuer":"`+issuer+`","token_endpoint":"https://x"}`), issuer); err == nil {
		t.Error("names are compared without case")
	}
}

// A61: an address that was learned from a response must not lead to private networks.
func TestLearnedAddressesAreGuarded(t *testing.T) {
	var hits atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = fmt.Fprint(w, "{}")
	}))
	defer canary.Close()
	port := canary.Listener.Addr().String()[strings.LastIndex(canary.Listener.Addr().String(), ":"):]
	c := New([]string{"mcp.example.com"}, nil, time.Now)
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "169.254.169.254", "10.0.0.1", "user@127.0.0.1"} {
		for _, scheme := range []string{"http://", "https://", "file://", "gopher://"} {
			address := scheme + host + port
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			s := &Server{Issuer: address, TokenURL: address, RegistrationURL: address, RevocationURL: address}
			_, _, err1 := c.discoverResource(ctx, "https://mcp.example.com/mcp", Challenge{ResourceMetadata: address})
			_, err2 := c.DiscoverServer(ctx, address)
			_, err3 := c.ClientToken(ctx, s, nil, &Credentials{ID: "x"}, nil)
			_, err4 := c.Identify(ctx, s, &Registration{})
			err5 := c.Revoke(ctx, s, &Credentials{ID: "x"}, &Token{Access: "x"})
			cancel()
			for i, err := range []error{err1, err2, err3, err4, err5} {
				if err == nil {
					t.Errorf("%s: request %d succeeded", address, i+1)
				}
			}
		}
	}
	if hits.Load() > 0 {
		t.Errorf("the canary was hit %d times", hits.Load())
	}
}

// A61: a redirect must not lead anywhere.
func TestRedirectsAreRefused(t *testing.T) {
	var hits atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/canary" {
			hits.Add(1)
		}
		http.Redirect(w, r, "/canary", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	if _, err := newClient().DiscoverServer(t.Context(), server.URL); err == nil || hits.Load() > 0 {
		t.Error(err, hits.Load())
	}
}

// A50, A51: the response must come from the expected server, and nothing of a forged one is used.
func TestForgedAuthorizationResponses(t *testing.T) {
	const issuer = "https://as.example.com"
	flow := func(sends bool) *SignIn {
		return &SignIn{Server: &Server{Issuer: issuer, SendsIssuer: sends}, State: "s"}
	}
	for _, test := range []struct {
		query string
		sends bool
		want  string // the code, an error code after !, or empty for a forgery
	}{
		{"state=s&code=c&iss=https://as.example.com", true, "c"},
		{"state=s&code=c&iss=https://as.example.com", false, "c"},
		{"state=s&code=c", false, "c"},
		{"state=s&code=c", true, ""},
		{"state=s&code=c&iss=", true, ""},
		{"state=s&code=c&iss=", false, ""},
		{"state=s&code=c&iss=https://as.example.com/", true, ""},
		{"state=s&code=c&iss=https://AS.example.com", false, ""},
		{"state=s&code=c&iss=https://evil.example.com", false, ""},
		{"state=t&code=c&iss=https://as.example.com", true, ""},
		{"code=c&iss=https://as.example.com", true, ""},
		{"state=s&state=t&code=c", false, ""},
		{"state=s&code=c&code=d", false, ""},
		{"state=s", false, ""},
		{"state=s&error=access_denied&error_description=<script>", false, "!access_denied"},
		{"state=s&error=<script>", false, "!an error"},
		{"state=s&error=access_denied&iss=https://evil.example.com", false, ""},
	} {
		q, err := url.ParseQuery(test.query)
		if err != nil {
			t.Fatal(err)
		}
		code, err := flow(test.sends).Code(q)
		refused, isRefusal := errors.AsType[*RefusedError](err)
		switch {
		case test.want == "":
			if !errors.Is(err, ErrForged) {
				t.Errorf("%s: %q, %v", test.query, code, err)
			}
		case test.want[0] == '!':
			if !isRefusal || refused.Code != test.want[1:] {
				t.Errorf("%s: %v", test.query, err)
			}
		case err != nil || code != test.want:
			t.Errorf("%s: %q, %v", test.query, code, err)
		}
	}
}

// A68
func TestInvalidTokenResponses(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, body := range []string{
		`{}`, `{"access_token":"x"}`, `{"access_token":"x","token_type":"mac"}`, `{"access_token":"x","token_type":"DPoP"}`, `{"token_type":"Bearer"}`,
		`{"access_token":"","token_type":"Bearer"}`, `{"access_token":"a b","token_type":"Bearer"}`, `{"access_token":"a\nb","token_type":"Bearer"}`,
		`{"access_token":1,"token_type":"Bearer"}`, `{"access_token":"x","token_type":"Bearer","expires_in":-1}`, `{"access_token":"x","token_type":"Bearer","expires_in":"3600"}`,
		`{"access_token":"x","token_type":"Bearer","expires_in":0}`, `{"access_token":"x","token_type":"Bearer","refresh_token":1}`,
		`{"access_token":"` + strings.Repeat("x", maxToken+1) + `","token_type":"Bearer"}`, `{"ACCESS_TOKEN":"x","token_type":"Bearer"}`,
	} {
		if token, err := readToken(object(body), now); err == nil {
			t.Errorf("%.80s: %+v", body, token)
		}
	}
	if _, err := readToken(nil, now); err == nil {
		t.Error("a response that is not JSON is accepted")
	}
	token, err := readToken(object(`{"access_token":"x","token_type":"bearer","expires_in":1e18,"scope":"a b"}`), now)
	if err != nil || !token.Expires.Equal(now.Add(maxLifetime)) || !slices.Equal(token.Scopes, []string{"a", "b"}) {
		t.Error(token, err)
	}
	if token, err = readToken(object(`{"access_token":"x","token_type":"Bearer"}`), now); err != nil || !token.Expires.IsZero() {
		t.Error("a missing lifetime must be unknown", token, err)
	}
}

// A68: responses are bounded.
func TestLargeResponsesAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"access_token":"x","token_type":"Bearer","pad":%q}`, strings.Repeat("x", maxDocument))
	}))
	defer server.Close()
	if _, err := newClient().ClientToken(t.Context(), &Server{TokenURL: server.URL}, nil, &Credentials{ID: "x"}, nil); err == nil {
		t.Error("a large response is accepted")
	}
}

// A67
func TestRegistrationResponses(t *testing.T) {
	const redirect = "https://tools.example.com/connect/callback"
	for _, body := range []string{`{}`, `{"client_id":1}`, `{"client_id":"x","redirect_uris":["https://evil.example.com"]}`, `{"client_id":"x","redirect_uris":"x"}`} {
		if own, err := readRegistration(object(body), redirect, methodNone); err == nil {
			t.Errorf("%s: %+v", body, own)
		}
	}
	own, err := readRegistration(object(`{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"none","client_secret_expires_at":1900000000}`), redirect, methodNone)
	if err != nil || own.Secret != "s" || own.Method != "" || own.Expires.Unix() != 1_900_000_000 {
		t.Errorf("a secret for a public client must be used: %+v %v", own, err)
	}
	for supported, want := range map[string]string{methodBasic: methodBasic, methodPost: methodPost, methodNone: methodNone} {
		if method, err := own.methodAt(&Server{AuthMethods: []string{supported}}); err != nil || method != want {
			t.Errorf("%s: %s %v", supported, method, err)
		}
	}
}

func TestClientAssertion(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	header, form := http.Header{}, url.Values{}
	c := newClient()
	if err := c.authenticate(&Server{Issuer: "https://as.example.com"}, &Credentials{ID: "robot", Key: text}, header, form); err != nil {
		t.Fatal(err)
	}
	if strings.Count(form.Get("client_assertion"), ".") != 2 || header.Get("Authorization") != "" || form.Get("client_id") != "robot" {
		t.Error(form)
	}
	for _, broken := range []string{"x", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}))} {
		if err := c.authenticate(&Server{}, &Credentials{ID: "robot", Key: broken}, header, form); err == nil {
			t.Error("an invalid key is accepted")
		}
	}
}

func TestSelectScopes(t *testing.T) {
	r, s := &Resource{Scopes: []string{"all"}}, &Server{}
	for _, test := range []struct {
		challenge, granted, server, want []string
	}{
		{nil, nil, nil, []string{"all"}},
		{[]string{"read"}, nil, nil, []string{"read"}},
		{[]string{"write"}, []string{"read", "write"}, nil, []string{"write", "read"}},
		{[]string{"read"}, nil, []string{"offline_access"}, []string{"read", "offline_access"}},
	} {
		s.Scopes = test.server
		if got := SelectScopes(Challenge{Scopes: test.challenge}, r, s, test.granted); !slices.Equal(got, test.want) {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="x", scope="a b", Basic y==`)
	f.Add(`Negotiate abc==, Bearer resource_metadata="https://x/y"`)
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := ParseChallenge(http.Header{"Www-Authenticate": {text}})
		if !ok && (c.Error != "" || c.ResourceMetadata != "" || c.Scopes != nil) || len(c.Scopes) > maxScopes {
			t.Error(c)
		}
		for _, scope := range c.Scopes {
			if strings.ContainsAny(scope, " \"\\\r\n") {
				t.Errorf("%q", scope)
			}
		}
	})
}

func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://x","token_endpoint":"https://x/t","resource":"https://x","authorization_servers":["https://x"]}`))
	f.Add([]byte(`{"access_token":"x","token_type":"Bearer","expires_in":1,"client_id":"x","redirect_uris":["https://x"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || len(data) == 0 || data[0] != '{' {
			return
		}
		if s, err := readServer(data, "https://x"); err == nil && s.Issuer != "https://x" {
			t.Error(s)
		}
		if r, issuers, err := readResource(data, []string{"https://x"}); err == nil && (r.ID != "https://x" || len(issuers) == 0) {
			t.Error(r)
		}
		if token, err := readToken(data, time.Now()); err == nil && (token.Access == "" || strings.ContainsAny(token.Access, " \r\n")) {
			t.Error(token)
		}
		if own, err := readRegistration(data, "https://x", methodNone); err == nil && own.ID == "" {
			t.Error(own)
		}
	})
}

func FuzzAssertion(f *testing.F) {
	to := Audience{Server: &Server{Issuer: "https://as.example"}, Resource: &Resource{ID: "https://crm.example"}, ClientID: "c"}
	now := time.Unix(1_800_000_000, 0)
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	good := encode(`{"typ":"oauth-id-jag+jwt"}`) + "." + encode(`{"iss":"https://idp.example","aud":["https://as.example"],"client_id":"c","sub":"ann","exp":1800000100}`) + ".c2ln"
	if err := checkAssertion(good, "https://idp.example", to, now); err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("e30.e30.c2ln")
	f.Fuzz(func(t *testing.T, jwt string) {
		if checkAssertion(jwt, "https://idp.example", to, now) != nil {
			return
		}
		if _, claims, err := decodeJWT(jwt); err != nil || !strings.Contains(string(claims), "as.example") && !strings.Contains(string(claims), `\`) {
			t.Errorf("%q", jwt)
		}
	})
}

// A server may accept a refresh token only once. The client therefore waits for a slow response,
// and distinguishes an unknown outcome from a request that the server certainly did not accept.
func TestRefreshReportsUnknownOutcomes(t *testing.T) {
	const tokens = `{"token_type":"Bearer","access_token":"a2","refresh_token":"r2"}`
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, tt := range map[string]struct {
		respond   http.HandlerFunc // nil for a server that does not exist
		ok        bool
		uncertain bool
	}{
		"slow": {respond: func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(50 * time.Millisecond)
			_, _ = fmt.Fprint(w, tokens)
		}, ok: true},
		"unreachable": {},
		"refused": {respond: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"temporarily_unavailable"}`, http.StatusServiceUnavailable)
		}},
		"aborted":         {respond: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, uncertain: true},
		"gateway timeout": {respond: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }, uncertain: true},
		"cut": {respond: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "500")
			_, _ = fmt.Fprint(w, tokens[:20])
		}, uncertain: true},
		"invalid": {respond: func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"token_type":"Bearer"}`) }, uncertain: true},
	} {
		t.Run(name, func(t *testing.T) {
			address := closed.URL
			if tt.respond != nil {
				server := httptest.NewServer(tt.respond)
				defer server.Close()
				address = server.URL
			}
			c := newClient()
			c.timeout = time.Millisecond // timeout of other requests
			token, err := c.Refresh(t.Context(), &Server{Issuer: address, TokenURL: address}, nil, &Credentials{ID: "us"}, &Token{Access: "a1", Refresh: "r1"})
			if (err == nil) != tt.ok || errors.Is(err, ErrUncertain) != tt.uncertain {
				t.Errorf("%+v %v", token, err)
			}
		})
	}
}
