package oauthclient

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Client authentication methods.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
)

// Credentials identify this client at one authorization server.
type Credentials struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret,omitempty"`
	Key     string    `json:"key,omitempty"`    // private key in PEM format, instead of a secret
	Method  string    `json:"method,omitempty"` // authentication method; if empty, one that the server supports
	Expires time.Time `json:"expires,omitzero"` // zero if they do not expire
}

// Token is a token from an authorization server.
type Token struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"`
	ID      string    `json:"id,omitempty"`     // ID token, instead of an access token; see [SignedIn]
	Expires time.Time `json:"expires,omitzero"` // expiry of the access or ID token; zero if unknown
	Scopes  []string  `json:"scopes,omitempty"` // granted scopes
}

// RefusedError is returned when an authorization server refuses a request.
type RefusedError struct {
	Status int
	Code   string // error code from RFC 6749, such as invalid_grant; may be empty
}

func (e *RefusedError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("the authorization server responded with status %d", e.Status)
	}
	return "the authorization server responded with " + e.Code
}

// InvalidGrant reports whether an error means that a refresh token, a code or an assertion is no
// longer valid.
func InvalidGrant(err error) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && refused.Code == "invalid_grant"
}

// ClientToken requests a token for this client itself.
func (c *Client) ClientToken(ctx context.Context, s *Server, r *Resource, own *Credentials, scopes []string) (*Token, error) {
	return c.request(ctx, s, own, tokenForm("client_credentials", r, scopes), scopes)
}

// Refresh replaces a token. The new token keeps the refresh token and the scopes unless the server
// sends new ones. It waits for the response until ctx ends, because the server may accept a refresh
// token only once. If the outcome is unknown, the error is [ErrUncertain].
func (c *Client) Refresh(ctx context.Context, s *Server, r *Resource, own *Credentials, old *Token) (*Token, error) {
	body, err := c.refresh(ctx, s, own, r, old)
	if err != nil {
		return nil, err
	}
	token, err := readToken(body, c.now())
	if err != nil {
		return nil, uncertain(fmt.Errorf("token response from %s: %w", hostOf(s.TokenURL), err))
	}
	if token.Refresh == "" {
		token.Refresh = old.Refresh
	}
	if token.Scopes == nil {
		token.Scopes = old.Scopes
	}
	return token, nil
}

// ErrUncertain is returned if the authorization server may have accepted a refresh token but its
// successor was not received. The token must not be sent again, because servers that rotate refresh
// tokens treat a second use as theft.
var ErrUncertain = errors.New("the refresh token may have been used")

func uncertain(err error) error { return fmt.Errorf("%w: %w", ErrUncertain, err) }

// refresh sends a refresh token over a new connection, and returns the body of a successful response.
func (c *Client) refresh(ctx context.Context, s *Server, own *Credentials, r *Resource, old *Token) (object, error) {
	form := tokenForm("refresh_token", r, nil)
	form.Set("refresh_token", old.Refresh)
	header, err := c.formHeader(s, own, form)
	if err != nil {
		return nil, err
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	res, err := send(traced, c.single, http.MethodPost, s.TokenURL, header, []byte(form.Encode()))
	switch {
	case err != nil && sent.Load():
		return nil, uncertain(fmt.Errorf("token request: %w", err))
	case err != nil:
		return nil, fmt.Errorf("token request: %w", err)
	case res.status == http.StatusGatewayTimeout: // from a proxy, which does not have the outcome either
		return nil, uncertain(refusal(res))
	case res.status != http.StatusOK:
		return nil, refusal(res)
	}
	return res.body, nil
}

// Revoke revokes a token if the server supports it.
func (c *Client) Revoke(ctx context.Context, s *Server, own *Credentials, token *Token) error {
	if s.RevocationURL == "" {
		return nil
	}
	form := url.Values{"token": {token.Access}, "token_type_hint": {"access_token"}}
	if token.Refresh != "" { // also revokes the access tokens
		form = url.Values{"token": {token.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	res, err := c.post(ctx, s, own, s.RevocationURL, form)
	if err == nil && res.status != http.StatusOK {
		err = refusal(res)
	}
	return err
}

// tokenForm returns the parameters common to all token requests.
func tokenForm(grant string, r *Resource, scopes []string) url.Values {
	form := url.Values{"grant_type": {grant}}
	if r != nil {
		form.Set("resource", r.ID)
	}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	return form
}

// request sends a token request. If the response contains no scopes, the requested scopes were
// granted.
func (c *Client) request(ctx context.Context, s *Server, own *Credentials, form url.Values, scopes []string) (*Token, error) {
	res, err := c.post(ctx, s, own, s.TokenURL, form)
	if err != nil {
		return nil, fmt.Errorf("token request: %w", err)
	}
	if res.status != http.StatusOK {
		return nil, refusal(res)
	}
	token, err := readToken(res.body, c.now())
	if err != nil {
		return nil, fmt.Errorf("token response from %s: %w", hostOf(s.TokenURL), err)
	}
	if token.Scopes == nil {
		token.Scopes = scopes
	}
	return token, nil
}

func (c *Client) post(ctx context.Context, s *Server, own *Credentials, address string, form url.Values) (*response, error) {
	header, err := c.formHeader(s, own, form)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, http.MethodPost, address, header, []byte(form.Encode()))
}

// formHeader returns the header for a form request. It adds this client's credentials.
func (c *Client) formHeader(s *Server, own *Credentials, form url.Values) (http.Header, error) {
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	return header, c.authenticate(s, own, header, form)
}

var errorCode = regexp.MustCompile(`^[a-z_]{1,64}$`)

// refusal returns the error for a response. It ignores descriptions, because they are untrusted
// text.
func refusal(res *response) error {
	e := &RefusedError{Status: res.status}
	if code, err := res.body.text("error"); err == nil && errorCode.MatchString(code) {
		e.Code = code
	}
	return e
}

// maxLifetime is the maximum lifetime that a token response may declare.
const maxLifetime = 30 * 24 * time.Hour

// readToken parses a token response.
func readToken(body object, now time.Time) (*Token, error) {
	if body == nil {
		return nil, errors.New("the response is not a JSON object")
	}
	kind, err := body.text("token_type")
	if err != nil || !strings.EqualFold(kind, "Bearer") {
		return nil, fmt.Errorf("unsupported token_type %.40q (expected Bearer)", kind)
	}
	t := &Token{}
	if t.Access, err = readSecret(body, "access_token"); err != nil || t.Access == "" {
		return nil, errors.Join(err, errors.New("access_token is missing or invalid"))
	}
	if t.Refresh, err = readSecret(body, "refresh_token"); err != nil {
		return nil, err
	}
	scope, err := body.text("scope")
	if err != nil {
		return nil, err
	}
	t.Scopes = SplitScopes(scope)
	if raw := strictjson.Member(json.RawMessage(body), "expires_in"); raw != nil && string(raw) != "null" {
		var seconds float64
		if json.Unmarshal(raw, &seconds) != nil || seconds <= 0 {
			return nil, errors.New("expires_in is not a positive number")
		}
		t.Expires = now.Add(time.Duration(min(seconds, maxLifetime.Seconds())) * time.Second)
	}
	return t, nil
}

// readSecret returns a token. It must be valid in a header.
func readSecret(body object, name string) (string, error) {
	raw := strictjson.Member(json.RawMessage(body), name)
	if raw == nil || string(raw) == "null" {
		return "", nil
	}
	value, ok := strictjson.String(raw)
	if !ok || value == "" || len(value) > maxToken || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s is not a string of at most %d visible characters", name, maxToken)
	}
	return value, nil
}

// authenticate adds this client's credentials to a request.
func (c *Client) authenticate(s *Server, own *Credentials, header http.Header, form url.Values) error {
	method, err := own.methodAt(s)
	if err != nil {
		return err
	}
	switch method {
	case methodBasic: // RFC 6749 requires both parts to be encoded
		pair := url.QueryEscape(own.ID) + ":" + url.QueryEscape(own.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case methodPost:
		form.Set("client_id", own.ID)
		form.Set("client_secret", own.Secret)
	case methodKey:
		assertion, err := own.assertion(s.Issuer, c.now())
		if err != nil {
			return err
		}
		form.Set("client_id", own.ID)
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	default:
		form.Set("client_id", own.ID)
	}
	return nil
}

// methodAt returns the method by which the client authenticates to a server.
func (own *Credentials) methodAt(s *Server) (string, error) {
	switch supported := s.AuthMethods; {
	case own.Method != "":
		return own.Method, nil
	case own.Key != "":
		return methodKey, nil
	case own.Secret == "":
		return methodNone, nil
	case len(supported) == 0, slices.Contains(supported, methodBasic):
		return methodBasic, nil
	case slices.Contains(supported, methodPost):
		return methodPost, nil
	case slices.Contains(supported, methodNone): // the registration returned a secret that is not needed
		return methodNone, nil
	}
	return "", fmt.Errorf("authorization server %s does not accept a client secret", hostOf(s.Issuer))
}

// assertionTime is the lifetime of a client assertion.
const assertionTime = time.Minute

// assertion returns a signed statement that identifies this client (RFC 7523).
func (own *Credentials) assertion(audience string, now time.Time) (string, error) {
	key, algorithm, err := parseKey(own.Key)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", errors.New("the client key cannot be used for signing")
	}
	claims, err := json.Marshal(map[string]any{
		"iss": own.ID, "sub": own.ID, "aud": audience, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	})
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", errors.New("the client key cannot be used for signing")
	}
	return signed.CompactSerialize()
}

// parseKey parses a private key in PEM format. Errors contain no part of the key.
func parseKey(text string) (crypto.Signer, jose.SignatureAlgorithm, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", errors.New("the client key is not in PEM format")
	}
	var key any
	var err error
	switch block.Type {
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, "", errors.New("the client key is not a private key")
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, jose.RS256, nil
	case *ecdsa.PrivateKey:
		switch key.Curve.Params().BitSize {
		case 256:
			return key, jose.ES256, nil
		case 384:
			return key, jose.ES384, nil
		}
	case ed25519.PrivateKey:
		return key, jose.EdDSA, nil
	}
	return nil, "", errors.New("the client key must be RSA, P-256, P-384 or Ed25519")
}
