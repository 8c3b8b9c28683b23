// Package signin signs people in with OpenID providers, using the authorization code flow with
// PKCE. It does not store anything: the caller keeps a [Flow] until the provider responds.
package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

const (
	maxRequests    = 16 // concurrent requests to issuers
	requestTimeout = 8 * time.Second
	slotTimeout    = 2 * time.Second // how long a sign-in waits for a slot
)

// Registration is the console's registration as a client at an issuer.
type Registration struct {
	Issuer   string // name of the issuer
	ClientID string
	Secret   func() (string, error) // nil for a public client
	Scopes   []string               // requested in addition to openid, profile and email
	Redirect string                 // the redirect URI
}

// Flow is a sign-in in progress. All of it is secret, except for the address.
type Flow struct {
	Issuer   string `json:"issuer"`
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Client   string `json:"client"`
	Redirect string `json:"redirect"`
	Address  string `json:"-"` // URL at which the person signs in
}

// Response is an issuer's response as received by the browser.
type Response struct {
	Code   string
	State  string
	Issuer string // parameter iss of RFC 9207; may be empty
	Error  string
}

// SignedIn is a person who has signed in, and the tokens that identify the person to the issuer.
type SignedIn struct {
	Person       *accesstoken.Person
	IDToken      string
	RefreshToken string // may be empty
}

// Client signs people in. It is safe for concurrent use.
type Client struct {
	issuers       *accesstoken.Verifier
	registrations map[string]*Registration // by issuer
	requests      chan struct{}
	log           *slog.Logger
}

// New returns a client for the registrations. previous is the client that it replaces and may be
// nil.
func New(issuers *accesstoken.Verifier, registrations []*Registration, previous *Client, log *slog.Logger) *Client {
	c := &Client{issuers: issuers, registrations: make(map[string]*Registration), requests: make(chan struct{}, maxRequests), log: log}
	if previous != nil {
		c.requests = previous.requests
	}
	for _, r := range registrations {
		c.registrations[r.Issuer] = r
	}
	return c
}

// Issuers returns the names of the issuers with which people can sign in, sorted.
func (c *Client) Issuers() (names []string) {
	for name := range c.registrations {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Registration returns the registration at an issuer, or nil.
func (c *Client) Registration(issuer string) *Registration { return c.registrations[issuer] }

// Begin starts to sign a person in.
func (c *Client) Begin(ctx context.Context, issuer string) (*Flow, error) {
	r := c.registrations[issuer]
	if r == nil {
		return nil, toolyard.Errorf(toolyard.NotFound, "You cannot sign in with %.64q here.", issuer)
	}
	m, err := c.describe(ctx, issuer)
	if err != nil {
		return nil, err
	}
	f := &Flow{
		Issuer: issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), // at least 43 characters
		Client: r.ClientID, Redirect: r.Redirect,
	}
	challenge := sha256.Sum256([]byte(f.Verifier))
	address, err := url.Parse(m.AuthorizationURL)
	if err != nil {
		return nil, c.failed(issuer, err)
	}
	query := address.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.Client, "redirect_uri": f.Redirect, "scope": r.scope(), "state": f.State, "nonce": f.Nonce,
		"code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	address.RawQuery = query.Encode()
	f.Address = address.String()
	return f, nil
}

func (r *Registration) scope() string {
	return strings.Join(append([]string{"openid", "profile", "email"}, r.Scopes...), " ")
}

// describe returns an issuer's metadata, or an error if people cannot sign in there.
func (c *Client) describe(ctx context.Context, issuer string) (*accesstoken.Metadata, error) {
	m, err := c.issuers.Describe(ctx, issuer)
	switch {
	case err != nil:
	case !outbound.IsSecureURL(m.AuthorizationURL):
		err = fmt.Errorf("authorization_endpoint %.200q is not an https URL", m.AuthorizationURL)
	case !outbound.IsSecureURL(m.TokenURL):
		err = fmt.Errorf("token_endpoint %.200q is not an https URL", m.TokenURL)
	case len(m.ChallengeMethods) > 0 && !slices.Contains(m.ChallengeMethods, "S256"):
		err = errors.New("the issuer does not support PKCE with S256")
	default:
		return m, nil
	}
	return nil, c.failed(issuer, err)
}

// Complete completes a sign-in with the issuer's response. The error is Unauthenticated if the
// response is invalid, PermissionDenied if no rule matches the person, or Unavailable.
func (c *Client) Complete(ctx context.Context, f *Flow, response Response) (*SignedIn, error) {
	r := c.registrations[f.Issuer]
	if r == nil || r.ClientID != f.Client || r.Redirect != f.Redirect {
		return nil, toolyard.Errorf(toolyard.Unauthenticated, "The configuration has changed since you started signing in. Start again.")
	}
	m, err := c.describe(ctx, f.Issuer)
	if err != nil {
		return nil, err
	}
	if err := c.checkResponse(f, m, response); err != nil {
		return nil, err
	}
	release, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	in, err := c.redeem(ctx, f, r, m, response.Code)
	if err != nil {
		return nil, c.failed(f.Issuer, err)
	}
	if _, err := c.issuers.CallerOf(in.Person); err != nil {
		c.log.Info("sign-in refused: no access rule matches", "issuer", in.Person.Issuer, "subject", in.Person.Subject, "groups", in.Person.Groups)
		return nil, c.noRule(in.Person)
	}
	return in, nil
}

// checkResponse refuses responses that do not belong to the flow. Nothing in the response may be
// used before this check, not even its error.
func (c *Client) checkResponse(f *Flow, m *accesstoken.Metadata, response Response) error {
	switch {
	case response.State != f.State:
		return ErrStartAgain
	case response.Issuer != "" && response.Issuer != m.Issuer, response.Issuer == "" && m.SendsIssuer:
		c.log.Warn("sign-in refused: the response is not from the issuer", "issuer", f.Issuer)
		return ErrStartAgain
	case response.Error == "access_denied":
		return toolyard.Errorf(toolyard.Unauthenticated, "You canceled the sign-in, or %s denied it.", f.Issuer)
	case response.Error != "":
		c.log.Warn("issuer could not complete the sign-in", "issuer", f.Issuer, "error", fmt.Sprintf("%.100q", response.Error))
		return toolyard.Errorf(toolyard.Unauthenticated, "%s could not sign you in. Start again.", f.Issuer)
	case response.Code == "":
		return ErrStartAgain
	}
	return nil
}

// ErrStartAgain is the error for responses that do not belong to a sign-in in this browser.
var ErrStartAgain = toolyard.Errorf(toolyard.Unauthenticated, "This sign-in is no longer valid, or was not started in this browser. Start again.")

// acquire waits for a free slot.
func (c *Client) acquire(ctx context.Context) (release func(), err error) {
	timer := time.NewTimer(slotTimeout)
	defer timer.Stop()
	select {
	case c.requests <- struct{}{}:
		return func() { <-c.requests }, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many people are signing in. Try again later.", RetryAfter: slotTimeout}
}

// failed logs why a sign-in failed and returns the error for the person, who may be untrusted.
func (c *Client) failed(issuer string, err error) error {
	c.log.Warn("sign-in failed", "issuer", issuer, "error", err)
	switch {
	case accesstoken.ReasonOf(err) == accesstoken.NoRule:
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "Your account's groups could not be read. Operators can find the reason in the log.", Err: err}
	case accesstoken.ReasonOf(err) != "", errors.Is(err, errRefused):
		return &toolyard.Error{Code: toolyard.Unauthenticated, Message: issuer + " could not sign you in. Start again. Operators can find the reason in the log.", Err: err}
	}
	return &toolyard.Error{Code: toolyard.Unavailable, Message: issuer + " is not available. Try again later.", RetryAfter: requestTimeout, Err: err}
}

// noRule returns an error that lists the claims in the token and what an operator can change.
func (c *Client) noRule(p *accesstoken.Person) error {
	issuer := c.issuers.Issuer(p.Issuer)
	claim := cmp.Or(issuer.Groups, "groups")
	groups := "Claim " + claim + " lists no groups."
	if len(p.Groups) > 0 {
		groups = fmt.Sprintf("Claim %s lists %s.", claim, quoted(p.Groups))
	}
	return toolyard.Errorf(toolyard.PermissionDenied,
		"You are signed in to %s, but no access rule matches your account %s. %s Ask an operator to add one of your groups to issuers.%s.access.", p.Issuer, p.Subject, groups, p.Issuer)
}

// maxShown is the maximum number of groups in an error.
const maxShown = 20

func quoted(groups []string) string {
	more := ""
	if extra := len(groups) - maxShown; extra > 0 {
		groups, more = groups[:maxShown], fmt.Sprintf(" and %d more", extra)
	}
	return fmt.Sprintf("%q", groups) + more
}
