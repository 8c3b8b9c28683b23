package serverauth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// signInAt signs ann in at an issuer and returns the tokens.
func signInAt(t *testing.T, issuer *issuertest.Issuer) (id, refresh string) {
	t.Helper()
	const verifier = "verifier-of-the-test"
	challenge := sha256.Sum256([]byte(verifier))
	back := issuer.Authorize(issuer.URL + "/authorize?" + url.Values{
		"client_id": {"console"}, "redirect_uri": {"https://tools.example.com/"}, "scope": {"openid offline_access"}, "nonce": {"n"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode())
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Get("code")}, "redirect_uri": {"https://tools.example.com/"}, "code_verifier": {verifier}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, issuer.URL+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("console", "s3cret")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body struct {
		ID      string `json:"id_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil || body.Refresh == "" {
		t.Fatal(err, body)
	}
	return body.ID, body.Refresh
}

// Stored sign-ins are renewed, and end when the issuer ends them or identifies another person.
func TestSignInsAreRenewed(t *testing.T) {
	issuer := issuertest.New(t)
	issuer.Provider.Secret = "s3cret"
	s, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	name := fmt.Sprint("corp-", servers.Add(1))
	signIns := serverauth.NewSignIns(serverauth.Options{
		Store: s, Keys: func() (serverauth.Keys, error) { return serverauth.Keys{[]byte(strings.Repeat("k", 32))}, nil },
		URL: "https://tools.example.com", Name: "test", Hide: func(string) {}, Now: now, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}, serverauth.Issuer{Name: name, URL: issuer.URL, Client: func() (*oauthclient.Credentials, error) {
		return &oauthclient.Credentials{ID: "console", Secret: "s3cret"}, nil
	}}, nil)
	person := func(subject string) toolyard.Caller {
		return toolyard.Caller{ID: name + ":" + subject, Roles: []string{identity.IssuerRole(name)}}
	}
	subject := func(c toolyard.Caller) (string, toolyard.Code) {
		got, err := signIns.Subject(t.Context(), "crm", &toolyard.Call{Caller: c})
		if err != nil {
			return "", toolyard.AsError(err).Code
		}
		return got.Token, ""
	}
	expire := func(in time.Duration) int64 { return now().Add(in).Unix() }

	issuer.Provider.SetClaims(map[string]any{"exp": expire(10 * time.Minute)})
	id, refresh := signInAt(t, issuer)
	if err := signIns.Keep(t.Context(), person("ann"), id, refresh); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), `msg="user connected" issuer=`+name+" caller="+name+":ann\n") {
		t.Error("the sign-in is logged as ", log.String())
	}
	if got, code := subject(person("ann")); got != id {
		t.Error("the ID token of the sign-in is not used", code)
	}
	for c, want := range map[string]toolyard.Code{"bob": serverauth.SignInRequired, "": toolyard.PermissionDenied} {
		caller := person(c)
		if c == "" { // uses an API key
			caller = toolyard.Caller{ID: name + ":ann", Account: "acme"}
		}
		if _, code := subject(caller); code != want {
			t.Errorf("%q: %s", c, code)
		}
	}
	offset.Store(int64(10 * time.Minute))
	issuer.Provider.SetClaims(map[string]any{"exp": expire(10 * time.Minute), "name": "renewed"})
	renewed, code := subject(person("ann"))
	if renewed == "" || renewed == id {
		t.Fatal("the ID token was not renewed", code)
	}
	if got, _ := subject(person("ann")); got != renewed {
		t.Error("the ID token was renewed again")
	}
	if yard, err := signIns.Subject(t.Context(), "crm", nil); err != nil || yard.Token != renewed {
		t.Error("the yard does not list tools with the first sign-in", err)
	}
	offset.Store(int64(20 * time.Minute))
	issuer.Provider.SetClaims(map[string]any{"exp": expire(10 * time.Minute), "sub": "mallory"})
	// The issuer has rotated the refresh token, so the sign-in has ended.
	if _, code := subject(person("ann")); code != serverauth.SignInRequired {
		t.Error("the ID token of another person is used", code)
	}
	if yard, err := signIns.Subject(t.Context(), "crm", nil); err != nil || yard.Token != "" {
		t.Error("the yard uses a sign-in that has ended", err)
	}
}
