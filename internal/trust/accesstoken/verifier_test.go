package accesstoken_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
)

const resource = "https://tools.example.com/mcp/chat"

// testClock is a clock that tests can advance.
type testClock struct{ offset atomic.Int64 }

func (c *testClock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// patientVerifier repeats a verification that failed because fetching the keys took several
// seconds, which happens on a busy machine.
type patientVerifier struct{ *accesstoken.Verifier }

func (v patientVerifier) Verify(ctx context.Context, token string, resources []string) (toolyard.Caller, error) {
	for end := time.Now().Add(time.Minute); ; {
		start := time.Now()
		caller, err := v.Verifier.Verify(ctx, token, resources)
		if code(err) != toolyard.Unavailable || time.Since(start) < time.Second || time.Now().After(end) {
			return caller, err
		}
	}
}

func newVerifier(t *testing.T, clock *testClock, issuers ...accesstoken.Issuer) patientVerifier {
	t.Helper()
	return patientVerifier{accesstoken.New(accesstoken.Options{Issuers: issuers, Now: clock.now, Log: slog.New(slog.DiscardHandler)})}
}

func staff(i *issuertest.Issuer) accesstoken.Issuer {
	return accesstoken.Issuer{Name: "corp", URL: i.URL, Rules: []accesstoken.Rule{{Groups: []string{"staff"}, Gates: []string{"chat"}, Account: "eng"}}}
}

func code(err error) toolyard.Code {
	if err == nil {
		return "OK"
	}
	return toolyard.AsError(err).Code
}

func TestValidTokenIdentifiesItsCaller(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, staff(issuer))
	caller, err := v.Verify(t.Context(), issuer.Token(resource, nil), []string{resource})
	if err != nil {
		t.Fatal(err)
	}
	want := toolyard.Caller{ID: "corp:ann", Account: "eng", Roles: []string{"gate:", "gate:chat", "issuer:corp"}}
	if diff := cmp.Diff(want, caller); diff != "" {
		t.Error(diff)
	}
}

// Each of these tokens is forged, malformed or meant for another purpose. All are refused, and the
// error reveals no details to the caller.
func TestInvalidTokensAreRefused(t *testing.T) {
	issuer, other := issuertest.New(t), issuertest.New(t)
	v := newVerifier(t, &testClock{}, staff(issuer))
	good := issuer.Token(resource, nil)
	parts := strings.Split(good, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	payload := func(overrides map[string]any) []byte {
		raw, _ := json.Marshal(issuer.Claims(resource, overrides))
		return raw
	}
	with := func(overrides map[string]any) string { return issuer.Token(resource, overrides) }
	header := func(h map[string]any) string { return issuer.Sign(payload(nil), h) }
	public, kid := issuer.PublicKey()
	der, _ := x509.MarshalPKIXPublicKey(public)
	hs256 := func(secret []byte) string {
		text := encode(`{"alg":"HS256","typ":"at+jwt","kid":"`+kid+`"}`) + "." + parts[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	now := time.Now()
	unsigned := func(alg string) string {
		return encode(`{"alg":"`+alg+`","typ":"at+jwt","kid":"`+kid+`"}`) + "." + parts[1] + "."
	}
	otherLetter := func(text string) string { // changes a character that encodes six bits
		if text[3] == 'A' {
			return text[:3] + "B" + text[4:]
		}
		return text[:3] + "A" + text[4:]
	}
	for name, token := range map[string]string{
		"A01 algorithm none":             unsigned("none") + "AA",
		"A02 algorithm None":             unsigned("None") + "AA",
		"A03 no algorithm":               encode(`{"typ":"at+jwt","kid":"`+kid+`"}`) + "." + parts[1] + "." + parts[2],
		"A01 no signature":               unsigned("none"),
		"A04 HMAC with the PEM key":      hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"A04 HMAC with the DER key":      hs256(der),
		"A05 PS256 with a key for RS256": header(map[string]any{"alg": "PS256"}),
		"A05 RS384 with a key for RS256": header(map[string]any{"alg": "RS384"}),
		"A06 embedded key":               header(map[string]any{"jwk": map[string]string{"kty": "RSA"}}),
		"A07 key URL":                    header(map[string]any{"jku": other.URL + "/keys"}),
		"A07 certificate URL":            header(map[string]any{"x5u": other.URL + "/keys"}),
		"A08 key ID is a path":           header(map[string]any{"kid": "../../etc/passwd"}),
		"A08 long key ID":                header(map[string]any{"kid": strings.Repeat("k", 2000)}),
		"A09 other key, same ID":         other.Sign(payload(nil), nil),
		"A10 signature cut":              good[:len(good)-4],
		"A10 signature changed":          parts[0] + "." + parts[1] + "." + otherLetter(parts[2]),
		"A11 payload changed":            parts[0] + "." + encode(string(payload(map[string]any{"sub": "bob"}))) + "." + parts[2],
		"A12 four parts":                 good + ".x",
		"A12 five parts":                 good + ".x.x",
		"A12 JSON serialization":         `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}..`,
		"A12 nested token":               issuer.Sign([]byte(`"`+good+`"`), nil),
		"A13 line break":                 parts[0] + "\n." + parts[1] + "." + parts[2],
		"A13 padding":                    parts[0] + "=." + parts[1] + "." + parts[2],
		"A14 duplicate claim":            issuer.Sign([]byte(strings.Replace(string(payload(nil)), "{", `{"aud":"x",`, 1)), nil),
		"A14 duplicate header":           encode(`{"alg":"RS256","alg":"RS256","typ":"at+jwt","kid":"`+kid+`"}`) + "." + parts[1] + "." + parts[2],
		"A15 critical header":            header(map[string]any{"crit": []string{"x"}, "x": 1}),
		"A15 unencoded payload":          header(map[string]any{"b64": false}),
		"A16 issuer with a slash":        with(map[string]any{"iss": issuer.URL + "/"}),
		"A16 issuer in capitals":         with(map[string]any{"iss": strings.ToUpper(issuer.URL)}),
		"A16 no issuer":                  with(map[string]any{"iss": nil}),
		"A17 other issuer":               other.Token(resource, nil),
		"A17 signed by the other issuer": other.Token(resource, map[string]any{"iss": issuer.URL}),
		"A18 other gate":                 with(map[string]any{"aud": resource + "2"}),
		"A19 other product":              with(map[string]any{"aud": "https://other.example.com"}),
		"A20 no audience":                with(map[string]any{"aud": nil}),
		"A20 empty audience":             with(map[string]any{"aud": []string{}}),
		"A20 audience is a number":       with(map[string]any{"aud": 1}),
		"A22 origin":                     with(map[string]any{"aud": "https://tools.example.com"}),
		"A22 trailing slash":             with(map[string]any{"aud": resource + "/"}),
		"A23 ID token":                   issuer.Sign(payload(map[string]any{"nonce": "n"}), map[string]any{"typ": "JWT"}),
		"A24 logout token":               issuer.Sign(payload(nil), map[string]any{"typ": "logout+jwt"}),
		"A24 ID-JAG":                     issuer.Sign(payload(nil), map[string]any{"typ": "oauth-id-jag+jwt"}),
		"A24 DPoP proof":                 issuer.Sign(payload(nil), map[string]any{"typ": "dpop+jwt"}),
		"A25 expired":                    with(map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}),
		"A25 expires in a hundred years": with(map[string]any{"exp": now.Add(100 * 365 * 24 * time.Hour).Unix()}),
		"A25 expiry is a string":         with(map[string]any{"exp": fmt.Sprint(now.Add(time.Minute).Unix())}),
		"A25 no expiry":                  with(map[string]any{"exp": nil}),
		"A26 not valid yet":              with(map[string]any{"nbf": now.Add(5 * time.Minute).Unix()}),
		"A27 issued in the future":       with(map[string]any{"iat": now.Add(5 * time.Minute).Unix()}),
		"A28 no subject":                 with(map[string]any{"sub": nil}),
		"A28 empty subject":              with(map[string]any{"sub": ""}),
		"A28 subject with a line break":  with(map[string]any{"sub": "ann\nbob"}),
		"A28 long subject":               with(map[string]any{"sub": strings.Repeat("s", 2000)}),
		"A33 scopes are a number":        with(map[string]any{"scope": 7}),
		"A33 ten thousand scopes":        with(map[string]any{"scope": nil, "scp": slices.Repeat([]string{"a"}, 10_000)}),
		"A34 nine KiB":                   good + strings.Repeat("A", 9<<10),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := v.Verify(t.Context(), token, []string{resource})
			if code(err) != toolyard.Unauthenticated {
				t.Fatalf("%s: %v", code(err), err)
			}
			if got := toolyard.AsError(err).Message; got != "The access token is not valid for this server." {
				t.Errorf("the caller learns %q", got)
			}
		})
	}
	if n := other.Fetches.Load(); n != 0 {
		t.Errorf("an address in a token was fetched %d times", n)
	}
	if n := issuer.Fetches.Load(); n > 2 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestAudienceMayBeOneOfSeveral(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, staff(issuer))
	if _, err := v.Verify(t.Context(), issuer.Token(resource, map[string]any{"aud": []string{"x", resource}}), []string{resource}); err != nil {
		t.Error(err)
	}
}

func TestConfiguredAudiencesReplaceTheResource(t *testing.T) {
	issuer := issuertest.New(t)
	entra := staff(issuer)
	entra.Audiences = []string{"2f1c"}
	v := newVerifier(t, &testClock{}, entra)
	for aud, want := range map[string]toolyard.Code{"2f1c": "OK", resource: toolyard.Unauthenticated} {
		if _, err := v.Verify(t.Context(), issuer.Token(aud, nil), []string{resource}); code(err) != want {
			t.Errorf("%s: %v", aud, err)
		}
	}
}

func TestIssuersThatDoNotMarkAccessTokens(t *testing.T) {
	issuer := issuertest.New(t)
	entra := staff(issuer)
	entra.AnyType = true
	v := newVerifier(t, &testClock{}, entra)
	sign := func(typ string, overrides map[string]any) string {
		raw, _ := json.Marshal(issuer.Claims(resource, overrides))
		return issuer.Sign(raw, map[string]any{"typ": typ})
	}
	for name, test := range map[string]struct {
		token string
		want  toolyard.Code
	}{
		"access token without a mark": {sign("JWT", nil), "OK"},
		"access token":                {sign("at+jwt", nil), "OK"},
		"ID token by nonce":           {sign("JWT", map[string]any{"nonce": "n"}), toolyard.Unauthenticated},
		"ID token by at_hash":         {sign("JWT", map[string]any{"at_hash": "n"}), toolyard.Unauthenticated},
		"ID token by token_use":       {sign("JWT", map[string]any{"token_use": "id"}), toolyard.Unauthenticated},
		"logout token by events":      {sign("JWT", map[string]any{"events": map[string]any{}}), toolyard.Unauthenticated},
		"logout token by type":        {sign("logout+jwt", nil), toolyard.Unauthenticated},
		"assertion":                   {sign("JWT", map[string]any{"scope": nil, "client_id": nil}), toolyard.Unauthenticated},
	} {
		if _, err := v.Verify(t.Context(), test.token, []string{resource}); code(err) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRulesDecideAboutRights(t *testing.T) {
	issuer := issuertest.New(t)
	corp := accesstoken.Issuer{
		Name: "corp", URL: issuer.URL, Groups: "realm.roles", Scopes: map[string][]string{"tools.write": {"write"}, "admin": {"operator", "write"}},
		Rules: []accesstoken.Rule{
			{Groups: []string{"engineering"}, Gates: []string{"chat", "dev"}, Write: true, Account: "eng"},
			{Groups: []string{"platform"}, Role: "operator", Account: "platform"},
		},
	}
	v := newVerifier(t, &testClock{}, corp)
	roles := func(groups any, scope string) any {
		c, err := v.Verify(t.Context(), issuer.Token(resource, map[string]any{"realm": map[string]any{"roles": groups}, "scope": scope}), []string{resource})
		if err != nil {
			return code(err)
		}
		return strings.Join(c.Roles, " ") + " " + c.Account
	}
	for name, test := range map[string]struct {
		groups any
		scope  string
		want   any
	}{
		"A31 scope without a group":      {[]string{}, "tools.write admin", toolyard.PermissionDenied},
		"A32 group without the scope":    {[]string{"engineering"}, "", "gate: gate:chat gate:dev issuer:corp eng"},
		"group and scope":                {[]string{"engineering"}, "tools.write", "gate: gate:chat gate:dev issuer:corp write eng"},
		"either of two scopes":           {[]string{"engineering"}, "admin", "gate: gate:chat gate:dev issuer:corp write eng"},
		"role without gates":             {[]string{"platform"}, "admin", "gate: issuer:corp operator platform"},
		"two rules":                      {[]string{"platform", "engineering"}, "admin", "gate: gate:chat gate:dev issuer:corp operator write eng"},
		"A29 no groups":                  {nil, "admin", toolyard.PermissionDenied},
		"A29 group is a string":          {"engineering", "", "gate: gate:chat gate:dev issuer:corp eng"},
		"A29 groups are an object":       {map[string]any{"engineering": true}, "", toolyard.PermissionDenied},
		"A30 capitals":                   {[]string{"Engineering"}, "", toolyard.PermissionDenied},
		"A30 trailing space":             {[]string{"engineering "}, "", toolyard.PermissionDenied},
		"A30 compatibility character":    {[]string{"ｅngineering"}, "", toolyard.PermissionDenied},
		"A33 scopes separated by commas": {[]string{"engineering"}, "tools.write,admin", "gate: gate:chat gate:dev issuer:corp eng"},
	} {
		if diff := cmp.Diff(test.want, roles(test.groups, test.scope)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	_, err := v.Verify(t.Context(), issuer.Token(resource, map[string]any{"_claim_names": map[string]any{"groups": "src1"}}), []string{resource})
	if code(err) != toolyard.PermissionDenied || !strings.Contains(fmt.Sprint(toolyard.AsError(err).Err), "app roles") {
		t.Errorf("A29 overage: %v", err)
	}
}

// A caller's rights never exceed those granted by the rules, and never grow when scopes are
// removed.
func TestRightsOnlyShrink(t *testing.T) {
	issuer := issuertest.New(t)
	rules := []accesstoken.Rule{{Groups: []string{"a"}, Gates: []string{"x"}, Write: true}, {Groups: []string{"b"}, Gates: []string{"y"}, Role: "viewer"}}
	all := []string{"gate:", "gate:x", "gate:y", "write", "viewer", "issuer:corp"}
	v := newVerifier(t, &testClock{}, accesstoken.Issuer{Name: "corp", URL: issuer.URL, Rules: rules, Scopes: map[string][]string{"s1": {"write"}, "s2": {"viewer", "gate:x"}}})
	get := func(groups []string, scopes string) []string {
		c, err := v.Verify(t.Context(), issuer.Token(resource, map[string]any{"groups": groups, "scope": scopes}), []string{resource})
		if err != nil {
			t.Fatal(err)
		}
		return c.Roles
	}
	subset := func(a, b []string) bool {
		return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
	}
	for _, groups := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
		full := get(groups, "s1 s2")
		for _, scopes := range []string{"", "s1", "s2"} {
			if fewer := get(groups, scopes); !subset(fewer, full) || !subset(full, all) {
				t.Errorf("%v with %q has %v, with all scopes %v", groups, scopes, fewer, full)
			}
		}
	}
}

func TestSubjectsThatAreNotValidIDsAreHashed(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, staff(issuer))
	ids := make(map[string]bool)
	for _, subject := range []string{"Ann Lee", "änn", "auth0|123", strings.Repeat("s", 200)} {
		c, err := v.Verify(t.Context(), issuer.Token(resource, map[string]any{"sub": subject}), []string{resource})
		if err != nil || !strings.HasPrefix(c.ID, "corp:") || len(c.ID) != len("corp:")+26 || ids[c.ID] {
			t.Errorf("%s: %q, %v", subject, c.ID, err)
		}
		ids[c.ID] = true
	}
}

func TestCachedTokenIsCheckedForEachResource(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, staff(issuer))
	token := issuer.Token(resource, nil)
	var group sync.WaitGroup
	for n := range 64 {
		group.Go(func() {
			for range 100 {
				at, want := resource, toolyard.Code("OK")
				if n%2 == 0 {
					at, want = resource+"2", toolyard.Unauthenticated
				}
				if _, err := v.Verify(t.Context(), token, []string{at}); code(err) != want {
					t.Errorf("%s: %v", at, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestCachedTokenExpires(t *testing.T) {
	issuer, clock := issuertest.New(t), &testClock{}
	v := newVerifier(t, clock, staff(issuer))
	token := issuer.Token(resource, map[string]any{"exp": time.Now().Add(10 * time.Second).Unix()})
	for _, test := range []struct {
		advance time.Duration
		want    toolyard.Code
	}{{0, "OK"}, {5 * time.Second, "OK"}, {70 * time.Second, toolyard.Unauthenticated}} {
		clock.advance(test.advance)
		if _, err := v.Verify(t.Context(), token, []string{resource}); code(err) != test.want {
			t.Errorf("after %v: %v", test.advance, err)
		}
	}
}

func TestUnknownKeyIDsCauseFewFetches(t *testing.T) {
	issuer := issuertest.New(t)
	good := issuer.Token(resource, nil)
	now := time.Now() // stands still, because keys may be fetched again after a while
	v := patientVerifier{accesstoken.New(accesstoken.Options{Issuers: []accesstoken.Issuer{staff(issuer)}, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})}
	if _, err := v.Verify(t.Context(), good, []string{resource}); err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	attempts := 100_000
	if testing.Short() {
		attempts = 10_000
	}
	for n := range attempts {
		header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"RS256","typ":"at+jwt","kid":"made-up-%d"}`, n))
		if _, err := v.Verify(t.Context(), header+"."+parts[1]+"."+parts[2], []string{resource}); code(err) != toolyard.Unauthenticated {
			t.Fatal(err)
		}
	}
	if n := issuer.Fetches.Load(); n > 2 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

func TestRotatedKeys(t *testing.T) {
	issuer, clock := issuertest.New(t), &testClock{}
	v := newVerifier(t, clock, staff(issuer))
	verify := func(token string) toolyard.Code {
		_, err := v.Verify(t.Context(), token, []string{resource})
		return code(err)
	}
	old := issuer.Token(resource, map[string]any{"exp": time.Now().Add(2 * time.Hour).Unix()})
	if got := verify(old); got != "OK" {
		t.Fatal(got)
	}
	issuer.Rotate()
	clock.advance(31 * time.Second) // makes sure that the last fetch is not too recent
	if got := verify(issuer.Token(resource, nil)); got != "OK" {
		t.Errorf("new key: %s", got)
	}
	clock.advance(2 * time.Minute)
	if got := verify(old); got != toolyard.Unauthenticated {
		t.Errorf("old key: %s", got)
	}
}

// While the issuer is failing, known keys stay in use for a day. Tokens with other keys are
// refused.
func TestUnavailableIssuer(t *testing.T) {
	for name, serve := range map[string]func(http.ResponseWriter){
		"error":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"empty":     func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"HTML":      func(w http.ResponseWriter) { _, _ = w.Write([]byte(`<html>`)) },
		"too large": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(" ", 1<<20) + `]}`)) },
		"many keys": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[{}` + strings.Repeat(",{}", 100) + `]}`)) },
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(http.StatusFound)
		},
		"symmetric": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"key-1"}]}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			issuer, clock := issuertest.New(t), &testClock{}
			v := newVerifier(t, clock, staff(issuer))
			token := issuer.Token(resource, map[string]any{"exp": time.Now().Add(23 * time.Hour).Unix()})
			verify := func() toolyard.Code {
				_, err := v.Verify(t.Context(), token, []string{resource})
				return code(err)
			}
			issuer.ServeKeys(serve)
			if got := verify(); got != toolyard.Unavailable {
				t.Errorf("without keys: %s", got)
			}
			issuer.ServeKeys(nil)
			clock.advance(31 * time.Second)
			if got := verify(); got != "OK" {
				t.Fatalf("with keys: %s", got)
			}
			issuer.ServeKeys(serve)
			clock.advance(time.Hour)
			if got := verify(); got != "OK" {
				t.Errorf("an hour later: %s", got)
			}
		})
	}
}

func TestMetadataMustNameTheIssuer(t *testing.T) {
	issuer := issuertest.New(t)
	corp := staff(issuer)
	corp.URL = strings.Replace(issuer.URL, "127.0.0.1", "localhost", 1)
	v := newVerifier(t, &testClock{}, corp)
	_, err := v.Explain(t.Context(), issuer.Token(resource, map[string]any{"iss": corp.URL}), []string{resource})
	if err == nil || !strings.Contains(err.Error(), "declares issuer") {
		t.Errorf("accepted, or not explained: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	issuer := issuertest.New(f)
	v := accesstoken.New(accesstoken.Options{Issuers: []accesstoken.Issuer{staff(issuer)}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	good := issuer.Token(resource, map[string]any{"aud": "another"})
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(t.Context(), token, []string{resource}); err == nil {
			t.Error("accepted")
		}
	})
}

// BenchmarkVerify verifies a token that is in the cache and one that is not. It measures CPU time,
// which other processes affect less than the elapsed time.
func BenchmarkVerify(b *testing.B) {
	issuer := issuertest.New(b)
	v := accesstoken.New(accesstoken.Options{Issuers: []accesstoken.Issuer{staff(issuer)}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	token := issuer.Token(resource, nil)
	for _, test := range []struct {
		name   string
		verify func(context.Context, string, []string) (toolyard.Caller, error)
	}{
		{"cached", v.Verify},
		{"fresh", func(ctx context.Context, token string, resources []string) (toolyard.Caller, error) {
			_, err := v.Explain(ctx, token, resources)
			return toolyard.Caller{}, err
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			start := cpuTime()
			for b.Loop() {
				if _, err := test.verify(b.Context(), token, []string{resource}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}
