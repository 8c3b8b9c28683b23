// Package serverauth authenticates requests to protected MCP servers, either as this program or on
// behalf of the calling person.
package serverauth

import (
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// Server is a protected MCP server.
type Server struct {
	ID      string
	URL     string
	Issuer  string         // issuer of its tokens; empty accepts the issuer that the server declares
	Scopes  []string       // scopes to request; empty for those that the server requires
	Private []netip.Prefix // private networks that the configured hosts may be in
	// Client returns the credentials of a client that an operator has registered. It may be nil.
	Client func() (*oauthclient.Credentials, error)
}

// oauth returns a client for the server's authorization server.
func (s *Server) oauth(now func() time.Time) *oauthclient.Client {
	var named []string
	for _, address := range []string{s.URL, s.Issuer} {
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			named = append(named, u.Hostname())
		}
	}
	return oauthclient.New(named, s.Private, now)
}

// scopesFor returns the scopes to request after a challenge.
func (s *Server) scopesFor(challenge oauthclient.Challenge) oauthclient.Challenge {
	if len(s.Scopes) > 0 && !challenge.InsufficientScope() {
		challenge.Scopes = s.Scopes
	}
	return challenge
}

// bearer returns a header with a token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// maxMargin is how long before it expires a token is replaced.
const maxMargin = time.Minute

// renewAt returns when to replace a token: a minute before it expires, or after three quarters of a
// short lifetime. It returns zero if the lifetime is unknown, in which case the token is used until
// the server refuses it.
func renewAt(t *oauthclient.Token, now time.Time) time.Time {
	if t.Expires.IsZero() {
		return time.Time{}
	}
	return t.Expires.Add(-min(maxMargin, t.Expires.Sub(now)/4))
}
