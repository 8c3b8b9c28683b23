package issuertest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	exchangeGrant  = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessTokens   = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // not a credential
	idTokens       = "urn:ietf:params:oauth:token-type:id_token"     //nolint:gosec // not a credential
	assertionType  = "urn:ietf:params:oauth:token-type:id-jag"
	assertionValid = 5 * time.Minute
)

// Assertions is the part of an issuer that issues identity assertions (ID-JAG).
type Assertions struct {
	Requests atomic.Int64

	mu       sync.Mutex
	client   string
	claims   map[string]any
	header   map[string]any
	response map[string]any
	refusal  string
}

// AssertionChange replaces parts of the next assertions. A nil value removes a claim or member.
type AssertionChange struct {
	Claims   map[string]any
	Header   map[string]any
	Response map[string]any // members of the response to replace
	Refusal  string         // error code with which requests are refused
}

// AllowAssertions lets the issuer's clients obtain assertions. client is the client's ID at the
// other authorization server.
func (i *Issuer) AllowAssertions(client string) {
	i.Assertions.mu.Lock()
	defer i.Assertions.mu.Unlock()
	i.Assertions.client = client
}

// SetAssertions changes the next assertions.
func (i *Issuer) SetAssertions(change AssertionChange) {
	a := &i.Assertions
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims, a.header, a.response, a.refusal = change.Claims, change.Header, change.Response, change.Refusal
}

// serveAssertion exchanges a person's access token or ID token for an assertion.
func (i *Issuer) serveAssertion(w http.ResponseWriter, r *http.Request) {
	a := &i.Assertions
	a.Requests.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "canary"})
	}
	id, secret, _ := r.BasicAuth()
	subject, ok := i.verifySubject(r.PostFormValue("subject_token"), r.PostFormValue("subject_token_type"), id)
	audience, resource := r.PostFormValue("audience"), r.PostFormValue("resource")
	switch {
	case secret != i.Provider.Secret:
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	case audience == "" || resource == "":
		refuse(http.StatusBadRequest, "invalid_request")
		return
	case !ok:
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	case a.client == "" || a.refusal != "":
		refuse(http.StatusBadRequest, a.refusal)
		return
	}
	now := time.Now()
	payload, err := json.Marshal(override(map[string]any{
		"iss": i.URL, "sub": subject, "aud": audience, "resource": resource, "client_id": a.client, "jti": rand.Text(), "iat": now.Unix(),
		"exp": now.Add(assertionValid).Unix(), "scope": r.PostFormValue("scope"),
	}, a.claims))
	if err != nil {
		i.t.Error(err)
	}
	_ = json.NewEncoder(w).Encode(override(map[string]any{
		"access_token": i.Sign(payload, override(map[string]any{"typ": "oauth-id-jag+jwt"}, a.header)), "issued_token_type": assertionType, "token_type": "N_A", "expires_in": int(assertionValid.Seconds()),
	}, a.response))
}

// verifySubject returns the person identified by a token from this issuer. An ID token must have
// been issued to the client.
func (i *Issuer) verifySubject(token, kind, client string) (string, bool) {
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return "", false
	}
	key, _ := i.PublicKey()
	payload, err := signed.Verify(key)
	if err != nil {
		return "", false
	}
	var claims struct {
		Sub string
		Aud any
		Exp int64
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Exp <= time.Now().Unix() {
		return "", false
	}
	typ, _ := signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType].(string)
	return claims.Sub, kind == accessTokens && typ == "at+jwt" || kind == idTokens && typ == "JWT" && claims.Aud == client
}
