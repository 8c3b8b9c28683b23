package serverauth

import (
	"context"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// SetLease changes how long a replica may take to renew a token.
func (p *Person) SetLease(d time.Duration) { p.lease = d }

// SetRefreshTime changes how long the request that renews a token may take.
func (p *Person) SetRefreshTime(d time.Duration) { p.refreshTime = d }

// Connect connects a person with a token from a sign-in.
func (p *Person) Connect(ctx context.Context, o Owner, s *oauthclient.SignIn, t *oauthclient.Token) error {
	return p.connect(ctx, o, &grant{Server: s.Server, Resource: s.Resource, Own: s.Own, Token: t, Renew: renewAt(t, p.Now())})
}

// Opens reports whether a connection's secret part can be opened.
func (k Keys) Opens(c *Connection) bool {
	_, err := k.openGrant(c, time.Now())
	return err == nil
}
