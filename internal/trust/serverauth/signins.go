package serverauth

import (
	"context"
	"errors"
	"net/netip"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// SignIns stores the ID tokens of people who have signed in to the console with an issuer, one
// sealed token per person. The tokens identify them to that issuer later.
type SignIns struct {
	issuer string  // name of the issuer
	people *Person // stores and renews the tokens
}

// SignInPrefix precedes an issuer's name in the server ID of stored sign-ins.
const SignInPrefix = "issuer:"

// NewSignIns creates the store for sign-ins with an issuer. It uses the console's client.
func NewSignIns(o Options, i Issuer, private []netip.Prefix) *SignIns {
	s := Server{ID: SignInPrefix + i.Name, URL: i.URL, Issuer: i.URL, Private: private}
	people := NewPerson(o, s, "")
	people.refreshToken = func(ctx context.Context, g *grant) (*oauthclient.Token, error) {
		own, err := i.Client()
		if err != nil {
			return nil, err
		}
		server, err := people.oauth.DiscoverServer(ctx, i.URL)
		if err != nil {
			return nil, err
		}
		return people.oauth.RefreshIDToken(ctx, server, own, g.Token)
	}
	return &SignIns{i.Name, people}
}

// Keep stores the tokens of a person who has just signed in.
func (s *SignIns) Keep(ctx context.Context, caller toolyard.Caller, id, refresh string) error {
	owner, ok := OwnerOf(caller)
	if !ok || identity.IssuerOf(caller) != s.issuer {
		return errNoConnection
	}
	token, err := oauthclient.SignedIn(id, refresh)
	if err != nil {
		return err
	}
	return s.people.connect(ctx, owner, &grant{Server: &oauthclient.Server{Issuer: s.people.server.Issuer}, Token: token, Renew: renewAt(token, s.people.Now())})
}

// Delete deletes the tokens of a person who signs out.
func (s *SignIns) Delete(ctx context.Context, caller toolyard.Caller) error {
	owner, ok := OwnerOf(caller)
	if !ok {
		return nil
	}
	_, err := s.people.Store.DeleteConnection(ctx, owner, s.people.server.ID)
	s.people.forget(owner)
	return err
}

// Subject returns a caller's ID token for calls to a server; see [Subjects]. To list tools, the
// yard uses the sign-in of the person who signed in first.
func (s *SignIns) Subject(ctx context.Context, server string, c *toolyard.Call) (none oauthclient.Subject, err error) {
	if c != nil && identity.IssuerOf(c.Caller) != s.issuer {
		return none, toolyard.Errorf(toolyard.PermissionDenied, "Server %[1]s is called on behalf of people who sign in with %[2]s. Sign in with %[2]s; API keys are not accepted.", server, s.issuer)
	}
	owner, err := s.people.ownerOf(ctx, c)
	if err != nil || owner == (Owner{}) {
		return none, err
	}
	g, err := s.people.usable(ctx, owner)
	switch {
	case errors.Is(err, errNotConnected) && c == nil:
		return none, nil
	case errors.Is(err, errNotConnected):
		return none, toolyard.Errorf(SignInRequired, "Calls to server %s require the user to be signed in to the console, but the sign-in is missing or has expired. Ask the user to sign in with %s at %s/console, then repeat the call.", server, s.issuer, s.people.URL)
	case err != nil:
		return none, err
	}
	if c != nil {
		s.people.use(ctx, g)
	}
	return oauthclient.IDToken(g.Token.ID), nil
}
