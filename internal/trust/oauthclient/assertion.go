package oauthclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Identifiers of the identity assertion authorization grant (ID-JAG).
const (
	typeAssertion    = "urn:ietf:params:oauth:token-type:id-jag"
	grantJWTBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // not a credential
	profileAssertion = "urn:ietf:params:oauth:grant-profile:id-jag"
	headerAssertion  = "oauth-id-jag+jwt" // typ header
)

// maxAssertionTime is the maximum remaining lifetime of an assertion. Assertions are used
// immediately.
const maxAssertionTime = time.Hour

// Assertion is an identity provider's statement that a person allows a client to call a service. It
// is signed for one authorization server, which accepts it only once.
type Assertion struct{ jwt string }

// Reveal returns the encoded assertion, which is a credential.
func (a Assertion) Reveal() string { return a.jwt }

// Audience describes the authorization server that an assertion is for.
type Audience struct {
	Server   *Server
	Resource *Resource
	ClientID string // ID of this client at the server
	Scopes   []string
}

// Assert exchanges a person's token at its identity provider for an assertion, which Redeem
// presents to another service's authorization server. own are the credentials at the identity
// provider.
func (c *Client) Assert(ctx context.Context, provider *Server, own *Credentials, subject Subject, to Audience) (Assertion, error) {
	if profiles := to.Server.Profiles; len(profiles) > 0 && !slices.Contains(profiles, profileAssertion) {
		return Assertion{}, fmt.Errorf("authorization server %s does not accept identity assertions: the grant profiles in its metadata (%.200q) do not include %s", hostOf(to.Server.Issuer), profiles, profileAssertion)
	}
	target := Target{Audience: to.Server.Issuer, Resource: to.Resource.ID, Scopes: to.Scopes}
	body, err := c.exchange(ctx, provider, own, subject, target, typeAssertion)
	if err != nil {
		return Assertion{}, err
	}
	kind, err := body.text("issued_token_type")
	if err != nil || kind != typeAssertion {
		return Assertion{}, fmt.Errorf("token exchange at %s: issued_token_type is %.80q, not an identity assertion; check that the identity provider supports %s", hostOf(provider.TokenURL), kind, typeAssertion)
	}
	jwt, err := readSecret(body, "access_token")
	if err != nil || jwt == "" {
		return Assertion{}, fmt.Errorf("token exchange at %s: the response contains no assertion", hostOf(provider.TokenURL))
	}
	if err := checkAssertion(jwt, provider.Issuer, to, c.now()); err != nil {
		return Assertion{}, fmt.Errorf("assertion from %s: %w", hostOf(provider.Issuer), err)
	}
	return Assertion{jwt}, nil
}

// checkAssertion refuses assertions that were issued for another purpose, before they are sent
// anywhere. It does not verify the signature; the authorization server does.
func checkAssertion(jwt, issuer string, to Audience, now time.Time) error {
	header, claims, err := decodeJWT(jwt)
	if err != nil {
		return err
	}
	for _, check := range []struct {
		in         object
		name, want string
		fix        string
	}{
		{header, "typ", headerAssertion, "check that the identity provider supports identity assertions"},
		{claims, "iss", issuer, "check auth.at"},
		{claims, "aud", to.Server.Issuer, "check auth.issuer, and the application that the identity provider has registered for this authorization server"},
		{claims, "client_id", to.ClientID, "set auth.client to the client that the identity provider has registered for this authorization server"},
		{claims, "resource", to.Resource.ID, "check which resource the identity provider has registered for the server"},
	} {
		got, err := check.in.single(check.name)
		switch {
		case err != nil:
			return err
		case got == "" && check.name == "resource": // optional
		case got != check.want:
			return fmt.Errorf("%s is %.200q, not %q; %s", check.name, got, check.want, check.fix)
		}
	}
	if subject, err := claims.text("sub"); err != nil || subject == "" {
		return errors.New("sub is missing")
	}
	var expires float64
	if json.Unmarshal(strictjson.Member(json.RawMessage(claims), "exp"), &expires) != nil {
		return errors.New("exp is missing or invalid")
	}
	switch left := expires - float64(now.Unix()); {
	case left <= 0:
		return errors.New("the assertion has expired; check that the clocks of both computers are correct")
	case left > maxAssertionTime.Seconds():
		return fmt.Errorf("the assertion's lifetime exceeds %v; shorten it at the identity provider", maxAssertionTime)
	}
	return nil
}

// single returns a string, which may also be the only element of an array.
func (o object) single(name string) (string, error) {
	if value := strings.TrimSpace(string(strictjson.Member(json.RawMessage(o), name))); !strings.HasPrefix(value, "[") {
		return o.text(name)
	}
	values, err := o.list(name)
	if err == nil && len(values) != 1 {
		err = fmt.Errorf("%s has %d values; it must have exactly one", name, len(values))
	}
	if err != nil {
		return "", err
	}
	return values[0], nil
}

// decodeJWT returns a signed token's header and claims without verifying them.
func decodeJWT(jwt string) (header, claims object, err error) {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || parts[2] == "" {
		return nil, nil, errors.New("the token is not a signed JSON Web Token")
	}
	var decoded [2]object
	for i := range decoded {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(parts[i])
		if err != nil || strings.ContainsAny(parts[i], "\r\n") || strictjson.Check(raw) != nil || !strings.HasPrefix(string(raw), "{") {
			return nil, nil, errors.New("the token is not a signed JSON Web Token")
		}
		decoded[i] = raw
	}
	return decoded[0], decoded[1], nil
}

// RedeemAssertion exchanges an assertion for a token at the authorization server that it was issued
// for (RFC 7523). The scopes are those of the assertion. Refresh tokens are not used: each new
// token needs a new assertion, so that the identity provider decides again.
func (c *Client) RedeemAssertion(ctx context.Context, own *Credentials, a Assertion, to Audience) (*Token, error) {
	form := tokenForm(grantJWTBearer, to.Resource, nil)
	form.Set("assertion", a.jwt)
	token, err := c.request(ctx, to.Server, own, form, to.Scopes)
	if err != nil {
		return nil, err
	}
	if token.Access == a.jwt {
		return nil, fmt.Errorf("the token response from %s contains the assertion instead of an access token", hostOf(to.Server.TokenURL))
	}
	token.Refresh = ""
	return token, nil
}
