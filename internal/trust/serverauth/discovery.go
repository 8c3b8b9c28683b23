package serverauth

import (
	"context"
	"fmt"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

const discoveryTTL = time.Hour

// discovery is what is known about the authorization server of a server.
type discovery struct {
	resource  *oauthclient.Resource
	server    *oauthclient.Server
	at        time.Time
	issuer    string // the first one; another is refused
	challenge oauthclient.Challenge
}

// require sets the challenge with which the server has refused a request. It may name other metadata.
func (d *discovery) require(challenge oauthclient.Challenge, s *Server) {
	d.challenge, d.at = s.scopesFor(challenge), time.Time{}
}

// update reads the metadata of the authorization server, unless it is known.
func (d *discovery) update(ctx context.Context, s *Server, oauth *oauthclient.Client, now time.Time) error {
	if d.server != nil && now.Sub(d.at) < discoveryTTL {
		return nil
	}
	resource, server, err := oauth.Discover(ctx, s.URL, s.Issuer, d.challenge)
	if err != nil {
		return err
	}
	if d.issuer != "" && d.issuer != server.Issuer { // it would receive the client's secret
		return issuerChanged(d.issuer, server.Issuer)
	}
	d.resource, d.server, d.at, d.issuer = resource, server, now, server.Issuer
	return nil
}

func issuerChanged(from, to string) error {
	return fmt.Errorf("the authorization server changed from %s to %s; to accept it, set auth.issuer", from, to)
}

// set takes over what another discovery has read.
func (d *discovery) set(from discovery) {
	d.resource, d.server, d.at, d.issuer = from.resource, from.server, from.at, from.issuer
}

// scopes returns the scopes to request.
func (d *discovery) scopes(s *Server) []string {
	if len(d.challenge.Scopes) > 0 {
		return d.challenge.Scopes
	}
	return s.Scopes
}
