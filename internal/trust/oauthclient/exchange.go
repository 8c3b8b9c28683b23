package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Identifiers of RFC 8693.
const (
	grantExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // no credential
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"          //nolint:gosec // no credential
)

// Target is the service for which a token is requested.
type Target struct {
	Audience string   // the authorization server's name for the service; empty for none
	Resource string   // the service's URL; empty for none
	Scopes   []string // to request; empty for the default ones
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

// Exchange exchanges the access token of a person for a token with which this client calls another
// service on behalf of the person (RFC 8693). The person's token is sent only to its issuer.
func (c *Client) Exchange(ctx context.Context, s *Server, own *Credentials, subject string, to Target) (*Token, error) {
	form := to.form(grantExchange)
	form.Set("subject_token", subject)
	form.Set("subject_token_type", typeAccessToken)
	form.Set("requested_token_type", typeAccessToken)
	res, err := c.post(ctx, s, own, s.TokenURL, form)
	if err != nil {
		return nil, fmt.Errorf("token exchange: %w", err)
	}
	if res.status != http.StatusOK {
		return nil, refusal(res)
	}
	token, err := readToken(res.body, c.now())
	if err != nil {
		return nil, fmt.Errorf("token exchange at %s: %w", hostOf(s.TokenURL), err)
	}
	switch kind, err := res.body.text("issued_token_type"); {
	case err != nil || kind != typeAccessToken && kind != typeJWT:
		return nil, fmt.Errorf("token exchange at %s: issued_token_type is %.80q, not an access token", hostOf(s.TokenURL), kind)
	case token.Access == subject:
		return nil, errors.New("token exchange: the authorization server returned the token of the person, which must not be sent to another service")
	}
	token.Refresh = "" // the next token is exchanged again, while the person has access
	return token, nil
}

// TargetToken requests a token with which this client itself can call a service.
func (c *Client) TargetToken(ctx context.Context, s *Server, own *Credentials, to Target) (*Token, error) {
	return c.request(ctx, s, own, to.form("client_credentials"), to.Scopes)
}
