package serverauth

import (
	"context"
	"fmt"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

const discoveryTTL = time.Hour

// discovery holds the known information about a server's authorization server.
type discovery struct {
	resource  *oauthclient.Resource
	server    *oauthclient.Server
	at        time.Time
	issuer    string // the first issuer found; others are refused
	challenge oauthclient.Challenge
}

// require sets the challenge that the server sent when it refused a request. The challenge may
// refer to other metadata.
func (d *discovery) require(challenge oauthclient.Challenge, s *Server) {
	d.challenge, d.at = s.scopesFor(challenge), time.Time{}
}

// update reads the authorization server's metadata unless it is already known.
func (d *discovery) update(ctx context.Context, s *Server, oauth *oauthclient.Client, now time.Time) error {
	if d.server != nil && now.Sub(d.at) < discoveryTTL {
		return nil
	}
	resource, server, err := oauth.Discover(ctx, s.URL, s.Issuer, d.challenge)
	if err != nil {
		return err
	}
	if d.issuer != "" && d.issuer != server.Issuer { // a different issuer would receive the client's secret
		return issuerChanged(d.issuer, server.Issuer)
	}
	d.resource, d.server, d.at, d.issuer = resource, server, now, server.Issuer
	return nil
}

func issuerChanged(from, to string) error {
	return fmt.Errorf("the authorization server changed from %s to %s; to accept it, set auth.issuer", from, to)
}

// set copies the information read by another discovery.
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
