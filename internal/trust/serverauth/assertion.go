package serverauth

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// NewAssertion creates an authorizer for a server whose authorization server accepts identity
// assertions (ID-JAG) from the people's issuer. The issuer decides whether a person may use the
// server, so people don't have to sign in there.
func NewAssertion(o DelegationOptions, s Server) *Delegation {
	return newDelegation(o, s, &assertion{issuer: newIssuerClient(&o, s), server: s, oauth: s.oauth(o.Now), hide: o.Hide, now: o.Now})
}

// assertion obtains an assertion from the issuer of people's tokens and redeems it at the server's
// authorization server. Each assertion is used only once.
type assertion struct {
	issuer *issuerClient
	server Server
	oauth  *oauthclient.Client
	hide   func(string)
	now    func() time.Time

	mu    sync.Mutex
	known discovery
}

// challenged implements [delegatedGrant].
func (a *assertion) challenged(challenge oauthclient.Challenge) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.require(challenge, &a.server)
}

// token implements [delegatedGrant]. To list tools, the yard uses its own client's token from the
// authorization server.
func (a *assertion) token(ctx context.Context, subject oauthclient.Subject, more []string) (*oauthclient.Token, error) {
	own, err := a.server.Client()
	if err != nil {
		return nil, err
	}
	known, err := a.discover(ctx)
	if err != nil {
		return nil, err
	}
	scopes := union(known.scopes(&a.server), more)
	place := "the authorization server " + known.server.Issuer
	if subject.Token == "" {
		token, err := a.oauth.ClientToken(ctx, known.server, known.resource, own, scopes)
		return token, refusedBy(place, "listing the tools requires the client credentials grant, so allow this grant for the client in auth.client", err)
	}
	to := oauthclient.Audience{Server: known.server, Resource: known.resource, ClientID: own.ID, Scopes: scopes}
	signed, err := a.assert(ctx, subject, to)
	if err != nil {
		return nil, err
	}
	token, err := a.oauth.RedeemAssertion(ctx, own, signed, to)
	if err != nil {
		a.rediscover()
	}
	return token, refusedBy(place, "check that it trusts assertions from "+a.issuer.URL+" for the client in auth.client", err)
}

// assert requests an assertion from the issuer.
func (a *assertion) assert(ctx context.Context, subject oauthclient.Subject, to oauthclient.Audience) (none oauthclient.Assertion, err error) {
	own, err := a.issuer.Client()
	if err != nil {
		return none, err
	}
	provider, err := a.issuer.discover(ctx)
	if err != nil {
		return none, err
	}
	signed, err := a.issuer.oauth.Assert(ctx, provider, own, subject, to)
	if err != nil {
		return none, refusedBy(a.issuer.Name, "check that its policy allows the client in auth.atClient to obtain assertions for "+to.Server.Issuer, err)
	}
	a.hide(signed.Reveal())
	return signed, nil
}

// discover returns the server's authorization server. Concurrent requests may read its metadata
// more than once.
func (a *assertion) discover(ctx context.Context) (discovery, error) {
	a.mu.Lock()
	known := a.known
	a.mu.Unlock()
	if err := known.update(ctx, &a.server, a.oauth, a.now()); err != nil {
		return discovery{}, err
	}
	if known.server.Issuer == a.issuer.URL {
		return discovery{}, errors.New("the server already accepts tokens from " + a.issuer.URL + ": set auth.type to exchange")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known.issuer != "" && a.known.issuer != known.issuer { // another request was faster
		return discovery{}, issuerChanged(a.known.issuer, known.issuer)
	}
	a.known.set(known)
	return known, nil
}

// rediscover makes the next request read the authorization server's metadata again.
func (a *assertion) rediscover() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.at = time.Time{}
}
