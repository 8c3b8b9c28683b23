package serverauth

import (
	"context"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// NewExchange creates an authorizer for a server that accepts tokens from the people's issuer. The
// issuer issues them in exchange for the people's tokens (RFC 8693). audience is the issuer's name
// for the server; if it is empty, the server's URL is sent as the resource.
func NewExchange(o DelegationOptions, s Server, audience string) *Delegation {
	to := oauthclient.Target{Audience: audience, Scopes: s.Scopes}
	if audience == "" {
		to.Resource = s.URL
	}
	d := newDelegation(o, s, &exchange{issuer: newIssuerClient(&o, s), to: to})
	d.required = true
	return d
}

// exchange requests tokens for a server from the issuer of people's tokens.
type exchange struct {
	issuer *issuerClient
	to     oauthclient.Target
}

// token implements [delegatedGrant]. To list tools, the yard itself uses its own client's token.
func (e *exchange) token(ctx context.Context, subject oauthclient.Subject, more []string) (token *oauthclient.Token, err error) {
	own, err := e.issuer.Client()
	if err != nil {
		return nil, err
	}
	issuer, err := e.issuer.discover(ctx)
	if err != nil {
		return nil, err
	}
	to := e.to
	to.Scopes = union(to.Scopes, more)
	if subject.Token == "" {
		token, err = e.issuer.oauth.TargetToken(ctx, issuer, own, to)
	} else {
		token, err = e.issuer.oauth.Exchange(ctx, issuer, own, subject, to)
	}
	return token, refusedBy(e.issuer.Name, "", err)
}

// challenged implements [delegatedGrant]. The issuer is configured, so a challenge has no effect.
func (*exchange) challenged(oauthclient.Challenge) {}

// issuerClient sends requests to the issuer of people's tokens.
type issuerClient struct {
	Issuer
	oauth *oauthclient.Client
	now   func() time.Time

	mu    sync.Mutex
	known *oauthclient.Server
	at    time.Time // time of the discovery
}

func newIssuerClient(o *DelegationOptions, s Server) *issuerClient {
	return &issuerClient{Issuer: o.Issuer, oauth: (&Server{URL: o.Issuer.URL, Private: s.Private}).oauth(o.Now), now: o.Now}
}

// discover returns the issuer's metadata. Concurrent requests may read it more than once.
func (i *issuerClient) discover(ctx context.Context) (*oauthclient.Server, error) {
	i.mu.Lock()
	known, at := i.known, i.at
	i.mu.Unlock()
	if known != nil && i.now().Sub(at) < discoveryTTL {
		return known, nil
	}
	found, err := i.oauth.DiscoverServer(ctx, i.URL)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known, i.at = found, i.now()
	return found, nil
}
