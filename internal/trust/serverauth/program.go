package serverauth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

const (
	fetchTimeout = 30 * time.Second // time limit for discovery and a token request
	fetchPause   = 5 * time.Second  // delay after a failed request
	maxStepUps   = 2                // maximum number of requests for more scopes
)

// Program authenticates requests to a server as this program, with the client credentials grant.
// All requests share one token.
type Program struct {
	server Server
	oauth  *oauthclient.Client
	hide   func(string)
	now    func() time.Time

	mu       sync.Mutex
	token    *oauthclient.Token
	renew    time.Time // when to renew the token; zero if unknown
	fetching *fetch    // running token request; may be nil
	failed   time.Time // last failure
	failure  error
	known    discovery
	stepUps  int
}

// fetch is a running token request.
type fetch struct {
	done chan struct{}
	err  error // set before done is closed
}

// NewProgram creates an authorizer for a server. It passes tokens to hide, so that they are
// redacted.
func NewProgram(s Server, hide func(string), now func() time.Time) *Program {
	return &Program{server: s, oauth: s.oauth(now), hide: hide, now: now}
}

// Begin implements package upstream's authorizer. All callers share one connection.
func (*Program) Begin(context.Context, *toolyard.Call) (string, error) { return "", nil }

// Authorize returns the header with the token. There is no token until the server requires one.
func (p *Program) Authorize(ctx context.Context, _ *toolyard.Call) (http.Header, error) {
	p.mu.Lock()
	token := p.token
	expiring := token != nil && !p.renew.IsZero() && !p.now().Before(p.renew)
	p.mu.Unlock()
	if expiring {
		fresh, err := p.replace(ctx, token)
		if err == nil {
			return bearer(fresh.Access), nil
		}
		if !p.now().Before(token.Expires) {
			return nil, err
		}
	}
	if token == nil {
		return nil, nil
	}
	return bearer(token.Access), nil
}

// Refused obtains a token if the server requires one, or replaces the current token if the server
// refused it.
func (p *Program) Refused(ctx context.Context, _ *toolyard.Call, sent http.Header, res *http.Response) (again bool, err error) {
	challenge, ok := oauthclient.ParseChallenge(res.Header)
	p.mu.Lock()
	token := p.token
	if token != nil && sent.Get("Authorization") != "Bearer "+token.Access { // replaced in the meantime
		p.mu.Unlock()
		return true, nil
	}
	switch {
	case res.StatusCode == http.StatusForbidden && (!ok || !challenge.InsufficientScope() || p.stepUps >= maxStepUps):
		p.mu.Unlock()
		return false, nil
	case res.StatusCode == http.StatusForbidden:
		before := len(p.known.challenge.Scopes)
		challenge.Scopes = union(challenge.Scopes, p.known.challenge.Scopes)
		if len(challenge.Scopes) == before {
			p.mu.Unlock()
			return false, nil
		}
		p.stepUps++
	}
	p.known.require(challenge, &p.server)
	p.mu.Unlock()
	if _, err := p.replace(ctx, token); err != nil {
		return false, err
	}
	return true, nil
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// replace fetches a token unless old has already been replaced. Concurrent requests share one
// fetch, which continues if a request is canceled.
func (p *Program) replace(ctx context.Context, old *oauthclient.Token) (*oauthclient.Token, error) {
	p.mu.Lock()
	if p.token != old {
		defer p.mu.Unlock()
		return p.token, nil
	}
	f := p.fetching
	if f == nil {
		if p.failure != nil && p.now().Sub(p.failed) < fetchPause {
			defer p.mu.Unlock()
			return nil, p.failure
		}
		f = &fetch{done: make(chan struct{})}
		p.fetching = f
		fetching, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		go func() {
			defer cancel()
			p.run(fetching, f)
		}()
	}
	p.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token, f.err
}

// run fetches a token and stores it.
func (p *Program) run(ctx context.Context, f *fetch) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	token, err := p.fetch(ctx, &known)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(f.done)
	p.fetching, p.failure = nil, nil
	p.known.set(known)
	if err != nil {
		f.err = &toolyard.Error{
			Code: toolyard.Unavailable, Err: err, RetryAfter: fetchPause,
			Message: fmt.Sprintf("Server %s requires a token, but Toolyard could not obtain one. Operators can find the reason in the log.", p.server.ID),
		}
		p.failure, p.failed = f.err, p.now()
		return
	}
	p.hide(token.Access)
	p.token, p.renew = token, renewAt(token, p.now())
}

// fetch requests a token. If the authorization server is unknown, it discovers the server first.
func (p *Program) fetch(ctx context.Context, known *discovery) (*oauthclient.Token, error) {
	own, err := p.server.Client()
	if err != nil {
		return nil, err
	}
	if err := known.update(ctx, &p.server, p.oauth, p.now()); err != nil {
		return nil, err
	}
	token, err := p.oauth.ClientToken(ctx, known.server, known.resource, own, known.scopes(&p.server))
	if err != nil {
		known.at = time.Time{}
		return nil, err
	}
	return token, nil
}
