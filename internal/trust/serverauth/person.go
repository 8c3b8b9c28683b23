package serverauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

const (
	grantTTL    = 5 * time.Second  // how long a grant is used before the store is read again
	leaseTime   = 30 * time.Second // lease of a replica that is renewing a token
	refreshTime = 25 * time.Second // time limit for the request that renews a token; ends before the lease
	renewTime   = 45 * time.Second // time limit for the wait for another replica
	renewPoll   = 100 * time.Millisecond
	storeRetry  = 250 * time.Millisecond
	maxCached   = 10_000         // maximum number of cached grants
	usedEvery   = 24 * time.Hour // minimum time between updates of a connection's last use
	listingHint = "; the server's tools become available once a user connects to it under Connections in the console, or with: toolyard connect "
)

// SignInRequired is the error code for a caller who has to sign in to a server.
const SignInRequired toolyard.Code = "SIGN_IN_REQUIRED" // The MCP server is called on behalf of each caller, and the caller has to sign in there. The message contains the link.

// Options configures how people connect to servers.
type Options struct {
	Store     Store
	Keys      func() (Keys, error)
	URL       string              // this program's URL, for links; may be empty
	Document  string              // HTTPS URL of this client's metadata document; may be empty
	Name      string              // this program's name, shown to people
	Hide      func(string)        // redacts a token from text
	OnConnect func(server string) // called after a person has connected; may be nil
	Now       func() time.Time
	Log       *slog.Logger
}

// Person authenticates requests to a server on behalf of the caller.
type Person struct {
	Options
	server Server
	header string // header for a person's secret; empty for OAuth
	oauth  *oauthclient.Client
	holder string // name under which this replica holds leases

	refreshToken func(ctx context.Context, g *grant) (*oauthclient.Token, error)
	lease        time.Duration
	refreshTime  time.Duration

	mu        sync.Mutex
	challenge oauthclient.Challenge // the server's last challenge
	grants    map[Owner]cachedGrant
	renewals  map[Owner]*renewal
}

type cachedGrant struct {
	*grant
	read time.Time
}

// renewal is a running renewal, shared by concurrent calls.
type renewal struct {
	done  chan struct{}
	grant *grant
	err   error
}

// NewPerson creates an authorizer for a server. People enter a secret for the header. If header is
// empty, they sign in with OAuth instead.
func NewPerson(o Options, s Server, header string) *Person {
	if o.OnConnect == nil {
		o.OnConnect = func(string) {}
	}
	if issuer, ok := strings.CutPrefix(s.ID, SignInPrefix); ok {
		o.Log = o.Log.With("issuer", issuer)
	} else {
		o.Log = o.Log.With("server", s.ID)
	}
	p := &Person{
		Options: o, server: s, header: header, oauth: s.oauth(o.Now), holder: rand.Text(), lease: leaseTime, refreshTime: refreshTime,
		grants: make(map[Owner]cachedGrant), renewals: make(map[Owner]*renewal),
	}
	p.refreshToken = func(ctx context.Context, g *grant) (*oauthclient.Token, error) {
		return p.oauth.Refresh(ctx, g.Server, g.Resource, g.Own, g.Token)
	}
	return p
}

// Begin implements package upstream's authorizer. If the person has no connection, it asks the
// person to sign in. The result identifies the connection.
func (p *Person) Begin(ctx context.Context, c *toolyard.Call) (string, error) {
	owner, ok := OwnerOf(c.Caller)
	if !ok {
		return "", toolyard.Errorf(SignInRequired, "Server %s is called on behalf of each caller, so calls require an API key or an access token.", p.server.ID)
	}
	asked, err := p.takeAnswer(c)
	if err != nil {
		return "", err
	}
	g, err := p.usable(ctx, owner)
	if errors.Is(err, errNotConnected) && asked > 0 {
		g, err = p.await(ctx, owner)
	}
	if errors.Is(err, errNotConnected) {
		return "", p.signInRequired(c, owner, nil, asked)
	}
	if err != nil {
		return "", err
	}
	p.use(ctx, g)
	return fmt.Sprintf("%q %q %d", owner.Account, owner.Caller, g.connection.Created.UnixMicro()), nil
}

// Authorize implements package upstream's authorizer. The yard's own requests use the oldest
// connection.
func (p *Person) Authorize(ctx context.Context, c *toolyard.Call) (http.Header, error) {
	owner, err := p.ownerOf(ctx, c)
	if err != nil || owner == (Owner{}) {
		return nil, err
	}
	g, err := p.usable(ctx, owner)
	switch {
	case errors.Is(err, errNotConnected) && c == nil:
		return nil, nil
	case errors.Is(err, errNotConnected):
		return nil, p.signInRequired(c, owner, nil, maxQuestions)
	case err != nil:
		return nil, err
	}
	return p.headerOf(g), nil
}

// ownerOf returns the owner of the connection that a request uses. It is empty if the yard's own
// requests have no connection.
func (p *Person) ownerOf(ctx context.Context, c *toolyard.Call) (Owner, error) {
	if c != nil {
		owner, ok := OwnerOf(c.Caller)
		if !ok {
			return Owner{}, toolyard.Errorf(SignInRequired, "Server %s requires an authenticated caller.", p.server.ID)
		}
		return owner, nil
	}
	first, err := p.Store.FirstConnection(ctx, p.server.ID)
	if err != nil || first == nil {
		return Owner{}, err
	}
	return first.Owner, nil
}

func (p *Person) headerOf(g *grant) http.Header {
	switch {
	case p.header == "":
		return bearer(g.Token.Access)
	case http.CanonicalHeaderKey(p.header) == "Authorization":
		return bearer(g.Secret)
	}
	return http.Header{http.CanonicalHeaderKey(p.header): {g.Secret}}
}

// Refused implements package upstream's authorizer.
func (p *Person) Refused(ctx context.Context, c *toolyard.Call, sent http.Header, res *http.Response) (again bool, err error) {
	challenge, challenged := oauthclient.ParseChallenge(res.Header)
	if challenged && res.StatusCode == http.StatusUnauthorized {
		p.mu.Lock()
		p.challenge = challenge
		p.mu.Unlock()
	}
	owner, err := p.ownerOf(ctx, c)
	if err != nil {
		return false, err
	}
	if owner == (Owner{}) {
		return false, errors.New("waiting for a user to sign in" + listingHint + p.server.ID)
	}
	g, err := p.usable(ctx, owner)
	switch {
	case errors.Is(err, errNotConnected) && c != nil:
		return false, p.signInRequired(c, owner, nil, maxQuestions)
	case err != nil:
		return false, err
	case !sameHeader(p.headerOf(g), sent): // renewed in the meantime
		return true, nil
	case res.StatusCode == http.StatusForbidden:
		return false, p.forbidden(c, owner, g, challenge)
	}
	if _, err = p.renew(ctx, owner, g); errors.Is(err, errNotConnected) && c != nil {
		err = p.signInRequired(c, owner, nil, maxQuestions)
	}
	return err == nil, err
}

func sameHeader(a, b http.Header) bool {
	for name := range a {
		if a.Get(name) != b.Get(name) {
			return false
		}
	}
	return true
}

// forbidden asks the person to grant scopes that a call needs, unless they were already requested.
func (p *Person) forbidden(c *toolyard.Call, owner Owner, g *grant, challenge oauthclient.Challenge) error {
	if c == nil || !challenge.InsufficientScope() || p.header != "" {
		return nil
	}
	known := slices.Concat(g.Requested, g.connection.Scopes)
	if !slices.ContainsFunc(challenge.Scopes, func(scope string) bool { return !slices.Contains(known, scope) }) {
		return nil // already requested, which did not help
	}
	return p.signInRequired(c, owner, union(challenge.Scopes, known), maxQuestions)
}

// errNotConnected means that a person has no usable connection.
var errNotConnected = errors.New("not connected")

// unavailable returns the error for a token that currently cannot be obtained.
func (p *Person) unavailable(err error) error {
	return &toolyard.Error{
		Code: toolyard.Unavailable, Message: fmt.Sprintf("The connection to server %s is currently unavailable.", p.server.ID), RetryAfter: time.Second, Err: err,
	}
}

// usable returns a grant with a valid token, renewing it if necessary.
func (p *Person) usable(ctx context.Context, owner Owner) (*grant, error) {
	p.mu.Lock()
	cached := p.grants[owner]
	p.mu.Unlock()
	now := p.Now()
	if cached.grant == nil || now.Sub(cached.read) >= grantTTL {
		g, err := p.read(ctx, owner)
		switch {
		case err == nil:
			cached.grant = g
		case errors.Is(err, errNotConnected), cached.grant == nil, errors.Is(err, errSealed):
			return nil, err
		default: // the store is unavailable: continue with the cached token
			if cached.Token != nil && !cached.Renew.IsZero() && !now.Before(cached.Renew) {
				return nil, err
			}
		}
	}
	g := cached.grant
	if g.Token == nil || g.Renew.IsZero() || now.Before(g.Renew) {
		return g, nil
	}
	return p.renew(ctx, owner, g)
}

// use records that a grant's owner has used it, because unused connections of people who have left are
// deleted. If that fails, the next use tries again.
func (p *Person) use(ctx context.Context, g *grant) {
	now := p.Now()
	if now.Sub(g.connection.Used) < usedEvery {
		return
	}
	if err := p.Store.UseConnection(ctx, g.connection, now); err != nil {
		p.Log.Warn("could not store the last use of a connection", "caller", g.connection.Caller, "error", err)
	}
}

// read reads a person's grant from the store.
func (p *Person) read(ctx context.Context, owner Owner) (*grant, error) {
	c, err := p.Store.Connection(ctx, owner, p.server.ID)
	if err != nil {
		return nil, p.unavailable(err)
	}
	if c == nil || c.State != Active {
		p.forget(owner)
		return nil, errNotConnected
	}
	keys, err := p.Keys()
	if err != nil {
		return nil, p.unavailable(err)
	}
	g, err := keys.openGrant(c, p.Now())
	if err == nil && (g.Token == nil) == (p.header == "") { // belongs to another kind of authentication
		err = errNotConnected
	}
	if err != nil {
		p.forget(owner)
		if errors.Is(err, errSealed) {
			p.Log.Warn("cannot decrypt a user's stored connection; the user must sign in again", "caller", owner.Caller)
		}
		return nil, errNotConnected
	}
	p.remember(owner, g)
	return g, nil
}

func (p *Person) remember(owner Owner, g *grant) {
	p.Hide(g.Secret)
	if g.Token != nil {
		p.Hide(g.Token.Access)
		p.Hide(g.Token.Refresh)
		p.Hide(g.Token.ID)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.grants) >= maxCached {
		clear(p.grants)
	}
	p.grants[owner] = cachedGrant{g, p.Now()}
}

func (p *Person) forget(owner Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.grants, owner)
}

// renew replaces a token that is about to expire or was refused. Concurrent calls share one
// renewal, which continues if a call is canceled.
func (p *Person) renew(ctx context.Context, owner Owner, old *grant) (*grant, error) {
	p.mu.Lock()
	r := p.renewals[owner]
	if r == nil {
		if now := p.grants[owner].grant; now != nil && now.connection.Version > old.connection.Version {
			p.mu.Unlock()
			return now, nil
		}
		r = &renewal{done: make(chan struct{})}
		p.renewals[owner] = r
		running, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewTime)
		go func() {
			defer cancel()
			r.grant, r.err = p.renewOnce(running, owner, old)
			p.mu.Lock()
			delete(p.renewals, owner)
			p.mu.Unlock()
			close(r.done)
		}()
	}
	p.mu.Unlock()
	select {
	case <-r.done:
		return r.grant, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// renewOnce renews a token exactly once across all replicas. The replica that acquires the lease on
// this version refreshes the token, and the others wait for the next version.
func (p *Person) renewOnce(ctx context.Context, owner Owner, old *grant) (*grant, error) {
	for {
		g, err := p.read(ctx, owner)
		if err != nil || g.connection.Version != old.connection.Version {
			return g, err
		}
		if g.Token == nil || g.Token.Refresh == "" {
			return nil, p.stale(ctx, owner, g)
		}
		start := time.Now()
		leased, err := p.Store.LeaseConnection(ctx, g.connection, p.holder, p.lease)
		switch {
		case err != nil:
			return nil, p.unavailable(err)
		case leased:
			return p.refresh(ctx, owner, g, start)
		}
		select {
		case <-time.After(renewPoll):
		case <-ctx.Done():
			return nil, p.unavailable(errors.New("another replica did not renew the token in time"))
		}
	}
}

// stale marks a connection as unusable.
func (p *Person) stale(ctx context.Context, owner Owner, g *grant) error {
	p.forget(owner)
	if err := p.Store.MarkStale(ctx, g.connection); err != nil {
		return p.unavailable(err)
	}
	return errNotConnected
}

// refresh uses the refresh token and stores the result. The caller has held the lease since start.
// The request ends before the lease does, so that no other replica sends the same token at the same
// time.
func (p *Person) refresh(ctx context.Context, owner Owner, g *grant, start time.Time) (*grant, error) {
	ctx = context.WithoutCancel(ctx)
	requesting, cancel := context.WithDeadline(ctx, start.Add(p.refreshTime))
	token, err := p.refreshToken(requesting, g)
	cancel()
	ctx, cancel = context.WithTimeout(ctx, p.lease)
	defer cancel()
	switch {
	case errors.Is(err, oauthclient.ErrUncertain):
		p.Log.Warn("token renewal has an unknown outcome; the user must sign in again", "caller", owner.Caller, "error", err)
		return nil, p.stale(ctx, owner, g)
	case oauthclient.InvalidGrant(err):
		if now, err := p.read(ctx, owner); err != nil || now.connection.Version != g.connection.Version {
			return now, err // the person has signed in again
		}
		p.Log.Info("connection ended; the user must sign in again", "caller", owner.Caller)
		return nil, p.stale(ctx, owner, g)
	case err != nil:
		p.Log.Warn("could not renew token", "caller", owner.Caller, "error", err)
		return nil, errors.Join(p.unavailable(err), p.Store.ReleaseConnection(ctx, g.connection, p.holder))
	}
	next := *g
	next.Token, next.Renew = token, renewAt(token, p.Now())
	return p.put(ctx, owner, &next, g.connection, p.holder)
}

// put stores a grant as the next version of a connection. It retries until ctx ends, because a
// rotated refresh token that is not stored is lost.
func (p *Person) put(ctx context.Context, owner Owner, g *grant, old *Connection, lease string) (*grant, error) {
	keys, err := p.Keys()
	if err != nil {
		return nil, p.unavailable(err)
	}
	c := *old
	c.Version, c.Changed, c.State = old.Version+1, p.Now(), Active
	if g.Token != nil {
		c.Scopes = g.Token.Scopes
	}
	if err := keys.sealGrant(&c, g); err != nil {
		return nil, err
	}
	g.connection = &c
	for {
		stored, err := p.Store.PutConnection(ctx, &c, old.Version, lease)
		switch {
		case err == nil && stored:
			p.remember(owner, g)
			return g, nil
		case err == nil: // the person has signed in again, or disconnected
			return p.read(ctx, owner)
		}
		select {
		case <-time.After(storeRetry):
		case <-ctx.Done():
			return nil, p.unavailable(err)
		}
	}
}

// connect stores the grant of a person who has just signed in or entered a secret.
func (p *Person) connect(ctx context.Context, owner Owner, g *grant) error {
	keys, err := p.Keys()
	if err != nil {
		return err
	}
	for range 10 {
		before, err := p.Store.Connection(ctx, owner, p.server.ID)
		if err != nil {
			return err
		}
		now := p.Now()
		c := &Connection{Owner: owner, Server: p.server.ID, State: Active, Version: now.UnixMicro(), Created: now, Changed: now, Used: now}
		var version int64
		if before != nil {
			version = before.Version
			c.Version = max(c.Version, version+1)
		}
		if g.Token != nil {
			c.Issuer, c.Scopes = g.Server.Issuer, g.Token.Scopes
		}
		if err := keys.sealGrant(c, g); err != nil {
			return err
		}
		stored, err := p.Store.PutConnection(ctx, c, version, "")
		if err != nil {
			return err
		}
		if stored {
			g.connection = c
			p.remember(owner, g)
			p.Log.Info("user connected", "caller", owner.Caller)
			p.OnConnect(p.server.ID)
			return nil
		}
	}
	return errors.New("the connection was changed by others several times; try again")
}

// TakesKey reports whether people enter a key for the server instead of signing in.
func (p *Person) TakesKey() bool { return p.header != "" }

// Lifetime returns when a connection's access token expires (zero if unknown) and whether it is
// renewed automatically.
func (p *Person) Lifetime(c *Connection) (expires time.Time, renewed bool) {
	keys, err := p.Keys()
	if err != nil {
		return time.Time{}, false
	}
	g, err := keys.openGrant(c, p.Now())
	if err != nil || g.Token == nil {
		return time.Time{}, false
	}
	return g.Token.Expires, g.Token.Refresh != ""
}

// Disconnect deletes a person's connection and revokes its tokens if possible.
func (p *Person) Disconnect(ctx context.Context, caller toolyard.Caller) (bool, error) {
	owner, ok := OwnerOf(caller)
	if !ok {
		return false, nil
	}
	g, readErr := p.read(ctx, owner)
	deleted, err := p.Store.DeleteConnection(ctx, owner, p.server.ID)
	p.forget(owner)
	if err != nil {
		return false, p.unavailable(err)
	}
	if readErr == nil && g.Token != nil {
		if err := p.oauth.Revoke(ctx, g.Server, g.Own, g.Token); err != nil {
			p.Log.Warn("could not revoke token", "caller", owner.Caller, "error", err)
		}
	}
	return deleted, nil
}

// round formats the number of questions so far.
func round(n int) string { return questionState + strconv.Itoa(n) }
