package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Identifiers from RFC 8693.
const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // not a credential
	typeIDToken     = "urn:ietf:params:oauth:token-type:id_token"     //nolint:gosec // not a credential
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"          //nolint:gosec // not a credential
)

// Subject is a token that identifies a person to its issuer.
type Subject struct {
	Token string
	kind  string // identifier of the token's type
}

// AccessToken returns the subject that an access token identifies.
func AccessToken(token string) Subject { return Subject{token, typeAccessToken} }

// IDToken returns the subject that an ID token identifies.
func IDToken(token string) Subject { return Subject{token, typeIDToken} }

// Target is the service that a token is for.
type Target struct {
	Audience string   // the authorization server's name for the service; may be empty
	Resource string   // the service's URL; may be empty
	Scopes   []string // scopes to request; empty for the default scopes
}

func (t *Target) form(grant string) url.Values {
	form := url.Values{"grant_type": {grant}}
	for name, value := range map[string]string{"audience": t.Audience, "resource": t.Resource, "scope": strings.Join(t.Scopes, " ")} {
		if value != "" {
			form.Set(name, value)
		}
	}
	return form
}

// Exchange exchanges a person's token for a token that lets this client call another service on
// behalf of the person (RFC 8693). The person's token is sent only to its issuer.
func (c *Client) Exchange(ctx context.Context, s *Server, own *Credentials, subject Subject, to Target) (*Token, error) {
	body, err := c.exchange(ctx, s, own, subject, to, typeAccessToken)
	if err != nil {
		return nil, err
	}
	token, err := readToken(body, c.now())
	if err != nil {
		return nil, fmt.Errorf("token exchange at %s: %w", hostOf(s.TokenURL), err)
	}
	switch kind, err := body.text("issued_token_type"); {
	case err != nil || kind != typeAccessToken && kind != typeJWT:
		return nil, fmt.Errorf("token exchange at %s: issued_token_type is %.80q, not an access token", hostOf(s.TokenURL), kind)
	case token.Access == subject.Token:
		return nil, errors.New("token exchange: the authorization server returned the user's own token, which must not be sent to another service")
	}
	if token.Scopes == nil {
		token.Scopes = to.Scopes
	}
	token.Refresh = "" // each new token requires another exchange, so that it ends with the person's access
	return token, nil
}

// exchange requests a token of the given type in exchange for a person's token and returns the
// response.
func (c *Client) exchange(ctx context.Context, s *Server, own *Credentials, subject Subject, to Target, requested string) (object, error) {
	form := to.form(grantExchange)
	form.Set("subject_token", subject.Token)
	form.Set("subject_token_type", subject.kind)
	form.Set("requested_token_type", requested)
	res, err := c.post(ctx, s, own, s.TokenURL, form)
	switch {
	case err != nil:
		return nil, fmt.Errorf("token exchange: %w", err)
	case res.status != http.StatusOK:
		return nil, refusal(res)
	case res.body == nil:
		return nil, fmt.Errorf("token exchange at %s: the response is not a JSON object", hostOf(s.TokenURL))
	}
	return res.body, nil
}

// TargetToken requests a token that lets this client call a service as itself.
func (c *Client) TargetToken(ctx context.Context, s *Server, own *Credentials, to Target) (*Token, error) {
	return c.request(ctx, s, own, to.form("client_credentials"), to.Scopes)
}
