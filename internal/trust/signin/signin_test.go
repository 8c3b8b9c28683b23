package signin_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/internal/trust/signin"
)

const redirect = "https://tools.example.com/console/signin/corp"

func newClient(issuer *issuertest.Issuer, o accesstoken.Issuer) *signin.Client {
	o.Name, o.URL = "corp", issuer.URL
	o.Rules = append(o.Rules, accesstoken.Rule{Groups: []string{"staff"}, Gates: []string{"chat"}, Write: true, Role: "viewer"})
	verifier := accesstoken.New(accesstoken.Options{
		Issuers: []accesstoken.Issuer{o}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	r := &signin.Registration{Issuer: "corp", ClientID: "console", Secret: func() (string, error) { return "s3cret", nil }, Scopes: []string{"groups"}, Redirect: redirect}
	return signin.New(verifier, []*signin.Registration{r}, nil, slog.New(slog.DiscardHandler))
}

func newIssuer(t *testing.T) *issuertest.Issuer {
	t.Helper()
	issuer := issuertest.New(t)
	issuer.Provider.Secret = "s3cret"
	return issuer
}

// begin starts a sign-in. On a busy machine, the first attempt may be too early.
func begin(t *testing.T, c *signin.Client) (flow *signin.Flow, err error) {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if flow, err = c.Begin(t.Context(), "corp"); err == nil || toolyard.AsError(err).Code != toolyard.Unavailable {
			break
		}
	}
	return flow, err
}

// signIn starts a sign-in and completes it with the issuer's response, which change may modify.
func signIn(t *testing.T, c *signin.Client, issuer *issuertest.Issuer, change func(*signin.Flow, url.Values)) (*accesstoken.Person, error) {
	t.Helper()
	flow, err := begin(t, c)
	if err != nil {
		return nil, err
	}
	query := issuer.Authorize(flow.Address)
	if change != nil {
		change(flow, query)
	}
	in, err := c.Complete(t.Context(), flow, signin.Response{Code: query.Get("code"), State: query.Get("state"), Issuer: query.Get("iss"), Error: query.Get("error")})
	if err != nil {
		return nil, err
	}
	return in.Person, nil
}

func TestSignIn(t *testing.T) {
	issuer := newIssuer(t)
	c := newClient(issuer, accesstoken.Issuer{})
	p, err := signIn(t, c, issuer, func(f *signin.Flow, _ url.Values) {
		u, err := url.Parse(f.Address)
		if err != nil {
			t.Fatal(err)
		}
		query := u.Query()
		if query.Get("redirect_uri") != redirect || query.Get("scope") != "openid profile email groups" || query.Get("code_challenge_method") != "S256" || query.Get("code_challenge") == f.Verifier {
			t.Error(f.Address)
		}
		if strings.Contains(f.Address, f.Verifier) || len(f.Verifier) < 43 {
			t.Error("the verifier is sent to the browser, or is short")
		}
	})
	want := &accesstoken.Person{Issuer: "corp", Subject: "ann", Name: "Ann Example", Email: "ann@example.com", Groups: []string{"staff"}, Scopes: []string{"openid", "profile", "email", "groups"}}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
}

// A response that does not belong to the sign-in causes no request to the issuer.
func TestRefusesForeignResponses(t *testing.T) {
	for name, change := range map[string]func(*signin.Flow, url.Values){
		"state of another sign-in": func(_ *signin.Flow, q url.Values) { q.Set("state", "other") },
		"no state":                 func(_ *signin.Flow, q url.Values) { q.Del("state") },
		"iss of another issuer":    func(_ *signin.Flow, q url.Values) { q.Set("iss", "https://evil.example") },
		"iss with a slash":         func(_ *signin.Flow, q url.Values) { q.Set("iss", q.Get("iss")+"/") },
		"no iss":                   func(_ *signin.Flow, q url.Values) { q.Del("iss") },
		"no code":                  func(_ *signin.Flow, q url.Values) { q.Del("code") },
		"error":                    func(_ *signin.Flow, q url.Values) { q.Set("error", "<script>alert(1)</script>") },
		"error with another iss": func(_ *signin.Flow, q url.Values) {
			q.Set("error", "access_denied")
			q.Set("iss", "https://evil.example")
		},
		"flow of another client":    func(f *signin.Flow, _ url.Values) { f.Client = "other" },
		"flow of another redirect":  func(f *signin.Flow, _ url.Values) { f.Redirect = "https://evil.example/" },
		"flow of a removed issuer":  func(f *signin.Flow, _ url.Values) { f.Issuer = "gone" },
		"canceled by the person":    func(_ *signin.Flow, q url.Values) { q.Set("error", "access_denied") },
		"response without anything": func(_ *signin.Flow, q url.Values) { clear(q) },
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t)
			_, err := signIn(t, newClient(issuer, accesstoken.Issuer{}), issuer, change)
			e := toolyard.AsError(err)
			if e.Code != toolyard.Unauthenticated || strings.Contains(e.Message, "<") || strings.Contains(e.Message, "evil") {
				t.Errorf("%v", err)
			}
			if canceled := strings.Contains(e.Message, "canceled"); canceled != (name == "canceled by the person") {
				t.Errorf("the error of the response is shown: %v", err)
			}
			if n := issuer.Provider.TokenRequests.Load(); n != 0 {
				t.Errorf("%d token requests", n)
			}
		})
	}
}

// Codes from another sign-in or issuer, and codes that were already used, are refused.
func TestRefusesForeignCodes(t *testing.T) {
	issuer, other := newIssuer(t), newIssuer(t)
	c := newClient(issuer, accesstoken.Issuer{})
	first, err := begin(t, c)
	if err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]string{
		"another sign-in":     issuer.Authorize(first.Address).Get("code"), // its challenge does not match the verifier
		"another issuer":      other.Authorize(first.Address).Get("code"),
		"one that is made up": "code",
	} {
		if _, err := signIn(t, c, issuer, func(_ *signin.Flow, q url.Values) { q.Set("code", code) }); toolyard.AsError(err).Code != toolyard.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	var used signin.Response
	var flow signin.Flow
	if _, err := signIn(t, c, issuer, func(f *signin.Flow, q url.Values) {
		flow, used = *f, signin.Response{Code: q.Get("code"), State: q.Get("state"), Issuer: q.Get("iss")}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Complete(t.Context(), &flow, used); toolyard.AsError(err).Code != toolyard.Unauthenticated {
		t.Errorf("a used code: %v", err)
	}
	if n := other.Provider.TokenRequests.Load(); n != 0 {
		t.Errorf("%d token requests to the other issuer", n)
	}
}

func TestRefusesInvalidIDTokens(t *testing.T) {
	now := time.Now()
	for name, claims := range map[string]map[string]any{
		"nonce of another sign-in":        {"nonce": "other"},
		"no nonce":                        {"nonce": nil},
		"audience of another client":      {"aud": "other"},
		"no audience":                     {"aud": nil},
		"several audiences without azp":   {"aud": []string{"console", "other"}},
		"azp of another client":           {"azp": "other"},
		"azp that is no string":           {"azp": 1},
		"hash of another access token":    {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
		"expired":                         {"exp": now.Add(-time.Hour).Unix()},
		"no exp":                          {"exp": nil},
		"issued in the future":            {"iat": now.Add(time.Hour).Unix()},
		"no iat":                          {"iat": nil},
		"no subject":                      {"sub": nil},
		"subject with control characters": {"sub": "ann\n"},
		"another issuer":                  {"iss": "https://evil.example"},
		"issuer with a slash":             {"iss": "SLASH"},
		"logout token":                    {"events": map[string]any{}},
		"access token":                    {"token_use": "access"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t)
			if claims["iss"] == "SLASH" {
				claims["iss"] = issuer.URL + "/"
			}
			issuer.Provider.SetClaims(claims)
			_, err := signIn(t, newClient(issuer, accesstoken.Issuer{}), issuer, nil)
			if e := toolyard.AsError(err); e.Code != toolyard.Unauthenticated || accesstoken.ReasonOf(errors.Unwrap(err)) == "" {
				t.Error(err)
			}
		})
	}
}

func TestAcceptsAuthorizedParty(t *testing.T) {
	issuer := newIssuer(t)
	issuer.Provider.SetClaims(map[string]any{"aud": []string{"console", "other"}, "azp": "console", "at_hash": nil})
	if _, err := signIn(t, newClient(issuer, accesstoken.Issuer{}), issuer, nil); err != nil {
		t.Error(err)
	}
}

// A person who matches no rule sees the claims in the token.
func TestRefusesPeopleWithoutARule(t *testing.T) {
	for name, test := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"other groups":     {map[string]any{"groups": []string{"guests", "sales"}}, `Claim groups lists ["guests" "sales"].`},
		"no groups":        {map[string]any{"groups": []string{}}, "Claim groups lists no groups."},
		"similar group":    {map[string]any{"groups": []string{"Staff", "staff "}}, "no access rule matches your account ann"},
		"groups as text":   {map[string]any{"groups": "staff2"}, "issuers.corp.access"},
		"groups overage":   {map[string]any{"groups": nil, "_claim_names": map[string]string{"groups": "src1"}}, "could not be read"},
		"groups as object": {map[string]any{"groups": map[string]any{"staff": true}}, "could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t)
			issuer.Provider.SetClaims(test.claims)
			_, err := signIn(t, newClient(issuer, accesstoken.Issuer{}), issuer, nil)
			if e := toolyard.AsError(err); e.Code != toolyard.PermissionDenied || !strings.Contains(e.Message, test.want) {
				t.Error(err)
			}
		})
	}
}

// Groups that are missing from the ID token are read from the UserInfo endpoint if it describes the
// same person.
func TestUserInfo(t *testing.T) {
	for name, test := range map[string]struct {
		info map[string]any
		code toolyard.Code // empty if accepted
	}{
		"same person":    {map[string]any{"sub": "ann", "groups": []string{"staff"}, "name": "Ann"}, ""},
		"another person": {map[string]any{"sub": "bob", "groups": []string{"staff"}}, toolyard.Unauthenticated},
		"no person":      {map[string]any{"groups": []string{"staff"}}, toolyard.Unauthenticated},
		"no groups":      {map[string]any{"sub": "ann"}, toolyard.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t)
			issuer.Provider.SetClaims(map[string]any{"groups": nil, "name": nil})
			issuer.Provider.SetUserInfo(test.info)
			p, err := signIn(t, newClient(issuer, accesstoken.Issuer{}), issuer, nil)
			switch {
			case test.code != "":
				if toolyard.AsError(err).Code != test.code {
					t.Error(err)
				}
			case err != nil || p.Name != "Ann" || !cmp.Equal(p.Groups, []string{"staff"}):
				t.Error(p, err)
			}
		})
	}
}

// Browsers are sent only to https addresses, and people sign in only with PKCE.
func TestRefusesInsecureIssuers(t *testing.T) {
	for name, metadata := range map[string]map[string]any{
		"script address":      {"authorization_endpoint": "javascript:alert(1)"},
		"data address":        {"authorization_endpoint": "data:text/html,x"},
		"http address":        {"authorization_endpoint": "http://login.example.com/authorize"},
		"no address":          {"authorization_endpoint": nil},
		"http token endpoint": {"token_endpoint": "http://login.example.com/token"},
		"PKCE without S256":   {"code_challenge_methods_supported": []string{"plain"}},
		"another issuer":      {"issuer": "https://evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t)
			issuer.Provider.SetMetadata(metadata)
			f, err := newClient(issuer, accesstoken.Issuer{}).Begin(t.Context(), "corp")
			if toolyard.AsError(err).Code != toolyard.Unavailable {
				t.Error(f, err)
			}
		})
	}
}

// A right that requires a scope is granted only if the console requests the scope and gets it.
func TestScopesReduceRights(t *testing.T) {
	issuer := newIssuer(t)
	verify := func(scopes map[string][]string) []string {
		o := accesstoken.Issuer{Scopes: scopes}
		p, err := signIn(t, newClient(issuer, o), issuer, nil)
		if err != nil {
			t.Fatal(err)
		}
		o.Name, o.URL, o.Rules = "corp", issuer.URL, []accesstoken.Rule{{Groups: []string{"staff"}, Gates: []string{"chat"}, Write: true}}
		v := accesstoken.New(accesstoken.Options{Issuers: []accesstoken.Issuer{o}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		caller, err := v.CallerOf(p)
		if err != nil {
			t.Fatal(err)
		}
		return caller.Roles
	}
	if got := strings.Join(verify(map[string][]string{"tools.write": {"write"}}), " "); strings.Contains(got, "write") {
		t.Error("write without its scope: ", got)
	}
	if got := strings.Join(verify(map[string][]string{"groups": {"write"}}), " "); !strings.Contains(got, "write") {
		t.Error("no write with its scope: ", got)
	}
}

// Unavailable keys and a failing token endpoint are temporary errors.
func TestUnavailableIssuer(t *testing.T) {
	issuer := newIssuer(t)
	issuer.ServeKeys(func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
	if _, err := newClient(issuer, accesstoken.Issuer{}).Begin(t.Context(), "corp"); toolyard.AsError(err).Code != toolyard.Unavailable {
		t.Error(err)
	}
	if _, err := newClient(issuer, accesstoken.Issuer{}).Begin(t.Context(), "other"); toolyard.AsError(err).Code != toolyard.NotFound {
		t.Error(err)
	}
}
