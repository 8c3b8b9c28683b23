package accesstoken_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
)

// introspected returns an issuer that is asked about tokens and accepts callers in the group staff.
func introspected(i *issuertest.Issuer) accesstoken.Issuer {
	issuer := staff(i)
	issuer.Introspect = &accesstoken.Introspection{ClientID: issuertest.IntrospectClient, Secret: func() (string, error) { return issuertest.IntrospectSecret, nil }}
	return issuer
}

func TestOpaqueTokenIdentifiesItsCaller(t *testing.T) {
	for name, metadata := range map[string]map[string]any{
		"secret in the header": nil,
		"secret in the body":   {"introspection_endpoint_auth_methods_supported": []string{"client_secret_post"}},
		"no keys":              {"jwks_uri": nil},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := issuertest.New(t)
			issuer.Provider.SetMetadata(metadata)
			v := newVerifier(t, &testClock{}, introspected(issuer))
			for _, overrides := range []map[string]any{nil, {"iss": nil}, {"exp": nil}, {"token_type": nil}, {"groups": nil, "ext": map[string]any{"groups": []string{"staff"}}}} {
				caller, err := v.Verify(t.Context(), issuer.Opaque(resource, overrides), []string{resource})
				want := toolyard.Caller{ID: "corp:ann", Account: "eng", Roles: []string{"gate:", "gate:chat", "issuer:corp"}}
				if diff := cmp.Diff(want, caller); diff != "" || err != nil {
					t.Error(overrides, diff, err)
				}
			}
		})
	}
}

// A45: none of these responses lets a caller in.
func TestInvalidIntrospectionsAreRefused(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, introspected(issuer))
	now := time.Now()
	for name, overrides := range map[string]map[string]any{
		"active is a string":       {"active": "true"},
		"active is a number":       {"active": 1},
		"inactive":                 {"active": false},
		"active is missing":        {"active": nil},
		"other audience":           {"aud": "https://tools.example.com/mcp/dev"},
		"no audience":              {"aud": nil},
		"other issuer":             {"iss": "https://evil.example"},
		"issuer is not a string":   {"iss": 7},
		"expired":                  {"exp": now.Add(-2 * time.Minute).Unix()},
		"expires in 100 years":     {"exp": now.AddDate(100, 0, 0).Unix()},
		"expiry is a string":       {"exp": "soon"},
		"not valid yet":            {"nbf": now.Add(time.Hour).Unix()},
		"no subject":               {"sub": nil},
		"subject with a newline":   {"sub": "ann\nbob"},
		"refresh token (Keycloak)": {"typ": "Refresh"},
		"refresh token":            {"token_use": "refresh_token"},
		"token bound to a key":     {"token_type": "DPoP"},
		"groups are an object":     {"groups": map[string]any{"staff": true}},
		"no rule matches":          {"groups": []string{"guests"}},
		"groups beside others":     {"groups": []string{}, "ext": map[string]any{"groups": []string{"staff"}}},
		"groups in a list":         {"groups": nil, "ext": []string{"staff"}},
		"groups in a string":       {"groups": nil, "ext": "staff"},
		"nested groups":            {"groups": nil, "ext": map[string]any{"groups": map[string]any{"staff": true}}},
		"groups are not listed":    {"_claim_names": map[string]any{"groups": "src1"}},
	} {
		_, err := v.Verify(t.Context(), issuer.Opaque(resource, overrides), []string{resource})
		if c := code(err); c != toolyard.Unauthenticated && c != toolyard.PermissionDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	token := issuer.Opaque(resource, nil)
	issuer.SetIntrospection(token, json.RawMessage(`{"active":false,"active":true,"aud":"`+resource+`","sub":"ann","groups":["staff"]}`))
	if _, err := v.Verify(t.Context(), token, []string{resource}); err == nil {
		t.Error("duplicate members were accepted")
	}
}

// A45: an issuer that fails refuses everybody, and the error says that it is temporary.
func TestFailingIntrospectionRefusesEverybody(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, introspected(issuer))
	for name, serve := range map[string]http.HandlerFunc{
		"status 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"status 401": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"HTML":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"an array":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[{"active":true}]`) },
		"a huge response": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"active":true,"x":"`+strings.Repeat("x", 300<<10)+`"}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) },
	} {
		issuer.ServeIntrospection(serve)
		_, err := v.Verify(t.Context(), issuer.Opaque(resource, nil), []string{resource})
		if e := toolyard.AsError(err); e.Code != toolyard.Unavailable || e.RetryAfter <= 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A36, A45: a revoked token stops working within 30 s, and until then the issuer is not asked again.
func TestRevokedTokenStopsWorking(t *testing.T) {
	issuer, clock := issuertest.New(t), &testClock{}
	v := newVerifier(t, clock, introspected(issuer))
	token := issuer.Opaque(resource, nil)
	verify := func() toolyard.Code {
		_, err := v.Verify(t.Context(), token, []string{resource})
		return code(err)
	}
	if got := verify(); got != toolyard.OK {
		t.Fatal(got)
	}
	asked := issuer.Introspections()
	issuer.SetIntrospection(token, nil)
	clock.advance(31 * time.Second)
	if got := verify(); got != toolyard.Unauthenticated || issuer.Introspections() != asked+1 {
		t.Errorf("%s after %d requests", got, issuer.Introspections()-asked)
	}
}

// Concurrent calls with the same token cause one request.
func TestIntrospectionsAreShared(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, introspected(issuer))
	if _, err := v.Verify(t.Context(), issuer.Opaque(resource, nil), []string{resource}); err != nil {
		t.Fatal(err)
	}
	asked, token := issuer.Introspections(), issuer.Opaque(resource, nil)
	release := make(chan struct{})
	response, _ := json.Marshal(issuer.Claims(resource, map[string]any{"active": true}))
	issuer.ServeIntrospection(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = w.Write(response)
	})
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			if _, err := v.Verify(t.Context(), token, []string{resource}); err != nil {
				t.Error(err)
			}
		})
	}
	close(release) // later calls find the result in the cache
	calls.Wait()
	if n := issuer.Introspections() - asked; n > 10 { // a call may fall between the end of a request and the cache update
		t.Errorf("%d requests", n)
	}
}

// Invented tokens cannot cause a flood of requests to the issuer, because the number of concurrent
// requests is limited.
func TestIntrospectionsAreBounded(t *testing.T) {
	issuer := issuertest.New(t)
	v := newVerifier(t, &testClock{}, introspected(issuer))
	if _, err := v.Verify(t.Context(), issuer.Opaque(resource, nil), []string{resource}); err != nil {
		t.Fatal(err)
	}
	release, asked, start := make(chan struct{}), issuer.Introspections(), time.Now()
	issuer.ServeIntrospection(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		fmt.Fprint(w, `{"active":false}`)
	})
	refused := make(chan toolyard.Code, 200)
	for i := range 200 {
		go func() {
			_, err := v.Verifier.Verify(t.Context(), fmt.Sprint("made-up-", i), []string{resource})
			refused <- code(err)
		}()
	}
	counts := map[toolyard.Code]int{}
	for range 200 - 32 { // these do not wait
		counts[<-refused]++
	}
	close(release)
	for range 32 {
		counts[<-refused]++
	}
	if n := issuer.Introspections() - asked; n > 32 && time.Since(start) < 4*time.Second || counts[toolyard.Unavailable] < 200-32 || counts[toolyard.OK] > 0 {
		t.Errorf("%d requests, %v", n, counts)
	}
}

// A44: a token is checked in one way, that of its issuer, and is sent to no other issuer.
func TestTokensAreCheckedInOneWay(t *testing.T) {
	opaque, signed := issuertest.New(t), issuertest.New(t)
	corp, partner := introspected(opaque), staff(signed)
	partner.Name = "partner"
	v := newVerifier(t, &testClock{}, corp, partner)
	for name, token := range map[string]string{
		"signed by the issuer that is asked": opaque.Token(resource, nil),
		"made up":                            "made-up",
	} {
		if _, err := v.Verify(t.Context(), token, []string{resource}); code(err) != toolyard.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	asked := opaque.Introspections()
	for name, token := range map[string]string{
		"signed by the other issuer, broken": signed.Token(resource, nil) + "x",
		"of an unknown issuer":               signed.Token(resource, map[string]any{"iss": "https://evil.example"}),
	} {
		if _, err := v.Verify(t.Context(), token, []string{resource}); code(err) != toolyard.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	if caller, err := v.Verify(t.Context(), signed.Token(resource, nil), []string{resource}); err != nil || caller.ID != "partner:ann" {
		t.Error(caller, err)
	}
	if opaque.Introspections() != asked || signed.Introspections() != 0 {
		t.Error("a token was sent to another issuer")
	}
	only := newVerifier(t, &testClock{}, staff(signed))
	if only.Accepts("opaque") || !only.Accepts("a.b.c") {
		t.Error("opaque tokens need an issuer that is asked")
	}
}
