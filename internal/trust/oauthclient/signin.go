package oauthclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// Registration describes this client to authorization servers.
type Registration struct {
	Name     string // shown to people
	Redirect string // where people are redirected after signing in
	Document string // HTTPS URL of the client's metadata document; may be empty
	Native   bool   // runs on the person's computer
}

// ClientDocument returns the metadata document that the client publishes.
func (r *Registration) ClientDocument() []byte {
	m := r.metadata(methodNone)
	m["client_id"] = r.Document
	raw, _ := json.Marshal(m) // cannot fail
	return raw
}

func (r *Registration) metadata(method string) map[string]any {
	kind := "web"
	if r.Native {
		kind = "native"
	}
	return map[string]any{
		"client_name": r.Name, "redirect_uris": []string{r.Redirect}, "application_type": kind,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": method,
	}
}

// Identify returns credentials for a server at which the client is not registered. If the server
// supports client metadata documents, they contain the document's URL. Otherwise, the client
// registers itself.
func (c *Client) Identify(ctx context.Context, s *Server, r *Registration) (*Credentials, error) {
	switch {
	case s.ClientDocuments && r.Document != "":
		return &Credentials{ID: r.Document, Method: methodNone}, nil
	case s.RegistrationURL != "":
		return c.register(ctx, s, r)
	}
	return nil, fmt.Errorf("authorization server %s does not support dynamic client registration; register a client there and set auth.client", hostOf(s.Issuer))
}

// register registers the client (RFC 7591).
func (c *Client) register(ctx context.Context, s *Server, r *Registration) (*Credentials, error) {
	method := methodBasic
	for _, choice := range []string{methodBasic, methodPost, methodNone} {
		if slices.Contains(s.AuthMethods, choice) {
			method = choice
			break
		}
	}
	body, err := json.Marshal(r.metadata(method))
	if err != nil {
		return nil, err
	}
	res, err := c.do(ctx, http.MethodPost, s.RegistrationURL, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return nil, fmt.Errorf("client registration: %w", err)
	}
	if res.status != http.StatusCreated && res.status != http.StatusOK {
		return nil, fmt.Errorf("client registration: %w; register a client manually and set auth.client", refusal(res))
	}
	own, err := readRegistration(res.body, r.Redirect, method)
	if err != nil {
		return nil, fmt.Errorf("client registration at %s: %w", hostOf(s.RegistrationURL), err)
	}
	return own, nil
}

// readRegistration parses the response to a registration.
func readRegistration(body object, redirect, method string) (*Credentials, error) {
	if body == nil {
		return nil, errors.New("the response is not a JSON object")
	}
	own := &Credentials{}
	var err error
	if own.ID, err = body.text("client_id"); err != nil || own.ID == "" {
		return nil, errors.Join(err, errors.New("client_id is missing"))
	}
	if own.Secret, err = body.text("client_secret"); err != nil {
		return nil, err
	}
	if own.Method, err = body.text("token_endpoint_auth_method"); err != nil {
		return nil, err
	}
	if own.Method == "" {
		own.Method = method
	}
	switch {
	case own.Secret == "":
		own.Method = methodNone
	case own.Method != methodBasic && own.Method != methodPost:
		own.Method = "" // the server returned a secret that was not requested: use it in a way that the server supports
	}
	redirects, err := body.list("redirect_uris")
	if err != nil {
		return nil, err
	}
	if redirects != nil && !slices.Contains(redirects, redirect) {
		return nil, errors.New("the client was registered with different redirect_uris")
	}
	var lasts struct {
		Until float64 `json:"client_secret_expires_at"`
	}
	if json.Unmarshal(body, &lasts) == nil && lasts.Until > 0 && lasts.Until < 1<<40 {
		own.Expires = time.Unix(int64(lasts.Until), 0)
	}
	return own, nil
}

// SelectScopes returns the scopes to request: those that the service requires or, failing that,
// those that it declares, and those that were granted before. If the server has a scope for refresh
// tokens, it is included.
func SelectScopes(challenge Challenge, r *Resource, s *Server, granted []string) []string {
	scopes := slices.Clone(challenge.Scopes)
	if len(scopes) == 0 {
		scopes = slices.Clone(r.Scopes)
	}
	for _, scope := range granted {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	const offline = "offline_access"
	if slices.Contains(s.Scopes, offline) && !slices.Contains(scopes, offline) {
		scopes = append(scopes, offline)
	}
	return scopes
}

// SignIn is a person's sign-in in progress. It contains secrets.
type SignIn struct {
	Server   *Server      `json:"server"`
	Resource *Resource    `json:"resource"`
	Own      *Credentials `json:"own"`
	Redirect string       `json:"redirect"`
	Scopes   []string     `json:"scopes,omitempty"`
	State    string       `json:"state"`
	Verifier string       `json:"verifier"`
}

// NewSignIn starts a sign-in.
func NewSignIn(s *Server, r *Resource, own *Credentials, redirect string, scopes []string) (*SignIn, error) {
	switch {
	case s.AuthorizationURL == "":
		return nil, fmt.Errorf("authorization server %s has no authorization_endpoint", hostOf(s.Issuer))
	case !s.S256:
		return nil, fmt.Errorf("authorization server %s does not support PKCE with S256", hostOf(s.Issuer))
	case !outbound.IsSecureURL(redirect):
		return nil, errors.New("the redirect URI must use https; http is allowed on loopback")
	}
	return &SignIn{Server: s, Resource: r, Own: own, Redirect: redirect, Scopes: scopes, State: rand.Text(), Verifier: rand.Text() + rand.Text()}, nil
}

// URL returns the URL at which the person signs in.
func (f *SignIn) URL() (string, error) {
	u, err := url.Parse(f.Server.AuthorizationURL)
	if err != nil || !outbound.IsSecureURL(f.Server.AuthorizationURL) {
		return "", errors.New("authorization_endpoint is not an https URL")
	}
	q := u.Query()
	challenge := sha256.Sum256([]byte(f.Verifier))
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.Own.ID, "redirect_uri": f.Redirect, "state": f.State, "resource": f.Resource.ID,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256", "scope": strings.Join(f.Scopes, " "),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if slices.Contains(f.Scopes, "offline_access") {
		q.Set("prompt", "consent") // required by OpenID Connect
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// ErrForged is returned for an authorization response that does not belong to the sign-in. No part
// of it may be used or displayed.
var ErrForged = errors.New("the response does not belong to this sign-in")

// Code returns the code in an authorization response, which the person's browser delivers. Before
// it uses any other part, it verifies that the response comes from the expected server.
func (f *SignIn) Code(response url.Values) (string, error) {
	for _, name := range []string{"state", "iss", "code", "error"} {
		if len(response[name]) > 1 {
			return "", ErrForged
		}
	}
	if subtle.ConstantTimeCompare([]byte(response.Get("state")), []byte(f.State)) != 1 {
		return "", ErrForged
	}
	issuer, sent := response.Get("iss"), response.Has("iss")
	if sent && issuer != f.Server.Issuer || !sent && f.Server.SendsIssuer {
		return "", ErrForged
	}
	if code := response.Get("error"); code != "" {
		if !errorCode.MatchString(code) {
			code = "an error"
		}
		return "", &RefusedError{Status: http.StatusOK, Code: code}
	}
	code := response.Get("code")
	if code == "" || len(code) > maxText {
		return "", ErrForged
	}
	return code, nil
}

// Redeem exchanges a code for a token.
func (c *Client) Redeem(ctx context.Context, f *SignIn, code string) (*Token, error) {
	form := tokenForm("authorization_code", f.Resource, nil)
	form.Set("code", code)
	form.Set("redirect_uri", f.Redirect)
	form.Set("code_verifier", f.Verifier)
	return c.request(ctx, f.Server, f.Own, form, f.Scopes)
}
