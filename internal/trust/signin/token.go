package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// errRefused is returned if the issuer does not accept a code.
var errRefused = errors.New("the issuer refused the code")

// maxAccessToken is the maximum length of the access token for the UserInfo endpoint, in bytes.
const maxAccessToken = 16 << 10

// redeem exchanges a code for tokens and returns the person they identify.
func (c *Client) redeem(ctx context.Context, f *Flow, r *Registration, m *accesstoken.Metadata, code string) (*SignedIn, error) {
	tokens, err := c.requestTokens(ctx, f, r, m, code)
	if err != nil {
		return nil, err
	}
	p, hasGroups, err := c.issuers.VerifyIDToken(ctx, &accesstoken.IDToken{
		Issuer: f.Issuer, Token: tokens.ID, AccessToken: tokens.Access, ClientID: f.Client, Nonce: f.Nonce,
	})
	if err != nil {
		return nil, err
	}
	p.Scopes = strings.Fields(tokens.Scope)
	if tokens.Scope == "" { // RFC 6749: all requested scopes were granted
		p.Scopes = strings.Fields(r.scope())
	}
	if !hasGroups && m.UserInfoURL != "" && tokens.Access != "" {
		if err := c.addUserInfo(ctx, p, m, tokens); err != nil {
			return nil, err
		}
	}
	return &SignedIn{p, tokens.ID, tokens.Refresh}, nil
}

// tokenResponse is a token endpoint's response.
type tokenResponse struct {
	ID      string `json:"id_token"`
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Type    string `json:"token_type"`
	Scope   string `json:"scope"`
	Error   string `json:"error"`
}

func (c *Client) requestTokens(ctx context.Context, f *Flow, r *Registration, m *accesstoken.Metadata, code string) (*tokenResponse, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.Redirect}, "code_verifier": {f.Verifier}}
	secret := ""
	if r.Secret != nil {
		var err error
		if secret, err = r.Secret(); err != nil {
			return nil, fmt.Errorf("client secret: %w", err)
		}
	}
	basic := secret != "" && (len(m.ClientAuth) == 0 || slices.Contains(m.ClientAuth, "client_secret_basic"))
	if !basic {
		form.Set("client_id", f.Client)
		if secret != "" {
			form.Set("client_secret", secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		req.SetBasicAuth(url.QueryEscape(f.Client), url.QueryEscape(secret))
	}
	status, raw, err := c.send(f.Issuer, req)
	if err != nil {
		return nil, fmt.Errorf("token endpoint: %w", err)
	}
	var t tokenResponse
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, fmt.Errorf("token endpoint: %w", err)
	}
	switch {
	case status != http.StatusOK:
		return nil, fmt.Errorf("%w: status %d, error %.100q", errRefused, status, t.Error)
	case t.ID == "":
		return nil, fmt.Errorf("%w: the response contains no ID token", errRefused)
	case t.Access != "" && !strings.EqualFold(t.Type, "Bearer"):
		return nil, fmt.Errorf("%w: unsupported access token type %.40q (expected Bearer)", errRefused, t.Type)
	}
	return &t, nil
}

func (c *Client) addUserInfo(ctx context.Context, p *accesstoken.Person, m *accesstoken.Metadata, tokens *tokenResponse) error {
	if !outbound.IsSecureURL(m.UserInfoURL) || len(tokens.Access) > maxAccessToken {
		return fmt.Errorf("userinfo_endpoint %.200q is not an https URL, or the access token is too long", m.UserInfoURL)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.UserInfoURL, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+tokens.Access)
	status, raw, err := c.send(p.Issuer, req)
	switch {
	case err != nil:
		return fmt.Errorf("userinfo endpoint: %w", err)
	case status != http.StatusOK:
		return fmt.Errorf("userinfo endpoint: status %d", status)
	}
	return c.issuers.AddUserInfo(p, tokens.ID, raw)
}

// send sends a request to an issuer and returns the response, which must be JSON.
func (c *Client) send(issuer string, req *http.Request) (status int, body json.RawMessage, err error) {
	req.Header.Set("Accept", "application/json")
	client := c.issuers.Client(issuer)
	if client == nil {
		return 0, nil, errRefused
	}
	res, raw, err := client.Do(req, "error") //nolint:bodyclose // Do has already read and closed it
	if err != nil {
		return 0, nil, err
	}
	if err := strictjson.Check(raw); err != nil {
		return 0, nil, fmt.Errorf("status %d, and the body is not JSON: %w", res.StatusCode, err)
	}
	return res.StatusCode, raw, nil
}
