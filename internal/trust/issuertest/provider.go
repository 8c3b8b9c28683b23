package issuertest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Provider is the part of an issuer that signs people in.
type Provider struct {
	TokenRequests atomic.Int64 // number of requests to the token endpoint
	Secret        string       // secret of every client

	mu       sync.Mutex
	codes    map[string]url.Values // authorization requests by code
	metadata map[string]any        // replaces members of the metadata
	claims   map[string]any        // replaces claims of ID tokens
	userInfo map[string]any        // response of the UserInfo endpoint
	refresh  map[string]url.Values // authorization requests by refresh token
	last     string                // last ID token
}

// SetMetadata replaces members of the metadata; nil removes a member.
func (p *Provider) SetMetadata(members map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.metadata = members
}

// SetClaims replaces claims in the next ID tokens; nil removes a claim.
func (p *Provider) SetClaims(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// SetUserInfo sets the UserInfo endpoint's response.
func (p *Provider) SetUserInfo(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.userInfo = claims
}

// LastIDToken returns the last ID token that was issued.
func (p *Provider) LastIDToken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Authorize signs a person in without showing a page, and returns the parameters of the redirect
// back to the client.
func (i *Issuer) Authorize(address string) url.Values {
	i.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		i.t.Fatal(err)
	}
	code := rand.Text()
	i.Provider.mu.Lock()
	defer i.Provider.mu.Unlock()
	i.Provider.codes[code] = u.Query()
	return url.Values{"code": {code}, "state": {u.Query().Get("state")}, "iss": {i.URL}}
}

// describe returns the issuer's metadata.
func (i *Issuer) describe() map[string]any {
	m := map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"userinfo_endpoint": i.URL + "/userinfo", "introspection_endpoint": i.URL + "/introspect", "code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
	}
	i.Provider.mu.Lock()
	defer i.Provider.mu.Unlock()
	return override(m, i.Provider.metadata)
}

func override(m, by map[string]any) map[string]any {
	maps.Copy(m, by)
	maps.DeleteFunc(m, func(_ string, value any) bool { return value == nil })
	return m
}

// serveToken exchanges a code for tokens. Each code can be used once.
func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	i.Provider.TokenRequests.Add(1)
	grant := r.PostFormValue("grant_type")
	if grant != "authorization_code" && grant != "refresh_token" {
		i.serveExchange(w, r, grant)
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	i.Provider.mu.Lock()
	request, ok := i.Provider.codes[r.PostFormValue("code")]
	delete(i.Provider.codes, r.PostFormValue("code"))
	if grant == "refresh_token" { // each refresh token can be used once
		request, ok = i.Provider.refresh[r.PostFormValue("refresh_token")]
		delete(i.Provider.refresh, r.PostFormValue("refresh_token"))
	}
	claims := i.Provider.claims
	i.Provider.mu.Unlock()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || secret != i.Provider.Secret || id != request.Get("client_id") || grant == "authorization_code" && (r.PostFormValue("redirect_uri") != request.Get("redirect_uri") ||
		request.Get("code_challenge_method") != "S256" || request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:])) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant"})
		return
	}
	const access = "access-token-of-the-test"
	hash := sha256.Sum256([]byte(access))
	now := time.Now()
	payload, err := json.Marshal(override(map[string]any{
		"iss": i.URL, "sub": "ann", "aud": id, "nonce": request.Get("nonce"), "name": "Ann Example", "email": "ann@example.com", "groups": []string{"staff"},
		"at_hash": base64.RawURLEncoding.EncodeToString(hash[:len(hash)/2]), "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}, claims))
	if err != nil {
		i.t.Error(err)
	}
	signed := i.Sign(payload, map[string]any{"typ": "JWT"})
	body := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300, "scope": request.Get("scope"), "id_token": signed}
	i.Provider.mu.Lock()
	defer i.Provider.mu.Unlock()
	i.Provider.last = signed
	if strings.Contains(request.Get("scope"), "offline_access") {
		token := rand.Text()
		i.Provider.refresh[token] = request
		body["refresh_token"] = token
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (i *Issuer) serveUserInfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer access-token-of-the-test" {
		w.WriteHeader(http.StatusUnauthorized)
	}
	i.Provider.mu.Lock()
	defer i.Provider.mu.Unlock()
	_ = json.NewEncoder(w).Encode(i.Provider.userInfo)
}
