package serverauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

const (
	maxExchanged  = 10_000          // tokens in memory
	exchangedTime = 5 * time.Minute // for which a token without a declared lifetime is used
)

// tokenKey is the key of the access token in a context.
type tokenKey struct{}

// WithAccessToken returns a context with the access token that a request was sent with.
func WithAccessToken(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// ExchangeOptions configure an Exchange.
type ExchangeOptions struct {
	Issuer   string // the name of the issuer of the callers' tokens, whose URL is Server.Issuer
	Audience string // the issuer's name for the server; empty to send its URL as the resource
	// CallerOf returns the ID of the caller that a valid access token identifies.
	CallerOf func(ctx context.Context, token string) (string, error)
	Hide     func(string) // redacts a token from texts
	Now      func() time.Time
}

// Exchange authenticates requests to a server on behalf of the caller, with a token that the issuer
// of the caller's access token issues in exchange for it (RFC 8693). The caller's own token is sent
// only to its issuer.
type Exchange struct {
	ExchangeOptions
	server Server
	oauth  *oauthclient.Client

	mu     sync.Mutex
	known  *oauthclient.Server // the issuer
	at     time.Time           // when it was discovered
	tokens map[[sha256.Size]byte]*exchanged
}

// exchanged is the token for the holder of an access token. The zero hash is the yard itself.
type exchanged struct {
	done  chan struct{} // closed when the exchange has ended
	token *oauthclient.Token
	err   error
	until time.Time // when to exchange again, also after a failure
}

// NewExchange creates an authorizer for a server.
func NewExchange(o ExchangeOptions, s Server) *Exchange {
	return &Exchange{ExchangeOptions: o, server: s, oauth: s.oauth(o.Now), tokens: make(map[[sha256.Size]byte]*exchanged)}
}

// Begin implements the authorizer of package upstream.
func (e *Exchange) Begin(ctx context.Context, c *toolyard.Call) (string, error) {
	if _, err := e.obtain(ctx, c); err != nil {
		return "", err
	}
	return strconv.Quote(c.Caller.ID), nil
}

// Authorize implements the authorizer of package upstream. To list tools, the yard itself uses its
// own client's token.
func (e *Exchange) Authorize(ctx context.Context, c *toolyard.Call) (http.Header, error) {
	token, err := e.obtain(ctx, c)
	if err != nil {
		return nil, err
	}
	return bearer(token.Access), nil
}

// Refused implements the authorizer of package upstream. A token that the server refuses is exchanged
// once more, because it may have been revoked.
func (e *Exchange) Refused(ctx context.Context, c *toolyard.Call, sent http.Header, res *http.Response) (bool, error) {
	if res.StatusCode != http.StatusUnauthorized {
		return false, nil
	}
	subject, err := e.subjectOf(ctx, c)
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	if x := e.tokens[hashOf(subject)]; x != nil && x.token != nil && sent.Get("Authorization") == "Bearer "+x.token.Access {
		delete(e.tokens, hashOf(subject))
	}
	e.mu.Unlock()
	_, err = e.obtain(ctx, c)
	return err == nil, err
}

// subjectOf returns the access token of a caller. It is empty for the yard itself.
func (e *Exchange) subjectOf(ctx context.Context, c *toolyard.Call) (string, error) {
	if c == nil {
		return "", nil
	}
	token, _ := ctx.Value(tokenKey{}).(string)
	if identity.IssuerOf(c.Caller) != e.Issuer || token == "" {
		return "", toolyard.Errorf(toolyard.PermissionDenied, "The server %s is called on behalf of people with an access token of %s. Sign in with it; API keys cannot be used.", e.server.ID, e.Issuer)
	}
	// A request may also carry other credentials, so the token must belong to the caller.
	owner, err := e.CallerOf(ctx, token)
	switch {
	case err != nil:
		return "", err
	case owner != c.Caller.ID:
		return "", toolyard.Errorf(toolyard.PermissionDenied, "The access token of the request belongs to another caller.")
	}
	return token, nil
}

// hashOf returns the key of an access token. That of the yard itself is zero.
func hashOf(subject string) (hash [sha256.Size]byte) {
	if subject != "" {
		hash = sha256.Sum256([]byte(subject))
	}
	return hash
}

// obtain returns the token for a call. Calls with the same access token share an exchange, which does
// not end when one of them is canceled.
func (e *Exchange) obtain(ctx context.Context, c *toolyard.Call) (*oauthclient.Token, error) {
	subject, err := e.subjectOf(ctx, c)
	if err != nil {
		return nil, err
	}
	hash := hashOf(subject)
	e.mu.Lock()
	x := e.tokens[hash]
	if x == nil || x.over(e.Now()) {
		x = &exchanged{done: make(chan struct{})}
		e.makeRoom()
		e.tokens[hash] = x
		running, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		go func() {
			defer cancel()
			e.run(running, x, subject)
		}()
	}
	e.mu.Unlock()
	select {
	case <-x.done:
		return x.token, x.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over reports whether an exchange has ended and its result is no longer used.
func (x *exchanged) over(now time.Time) bool {
	select {
	case <-x.done:
		return !now.Before(x.until)
	default:
		return false
	}
}

// makeRoom removes results until another one fits: those that are no longer used, or else arbitrary
// ones, which are exchanged again when they are needed.
func (e *Exchange) makeRoom() {
	if len(e.tokens) < maxExchanged {
		return
	}
	for hash, x := range e.tokens {
		if x.over(e.Now()) {
			delete(e.tokens, hash)
		}
	}
	for hash := range e.tokens {
		if len(e.tokens) < maxExchanged {
			return
		}
		delete(e.tokens, hash)
	}
}

// run exchanges a token.
func (e *Exchange) run(ctx context.Context, x *exchanged, subject string) {
	defer close(x.done)
	token, err := e.request(ctx, subject)
	if err != nil {
		x.err, x.until = e.failure(err, subject != ""), e.Now().Add(fetchPause)
		return
	}
	e.Hide(token.Access)
	if x.token, x.until = token, renewAt(token, e.Now()); x.until.IsZero() {
		x.until = e.Now().Add(exchangedTime)
	}
}

func (e *Exchange) request(ctx context.Context, subject string) (*oauthclient.Token, error) {
	own, err := e.server.Client()
	if err != nil {
		return nil, err
	}
	issuer, err := e.discover(ctx)
	if err != nil {
		return nil, err
	}
	to := oauthclient.Target{Audience: e.Audience, Scopes: e.server.Scopes}
	if e.Audience == "" {
		to.Resource = e.server.URL
	}
	if subject == "" {
		return e.oauth.TargetToken(ctx, issuer, own, to)
	}
	return e.oauth.Exchange(ctx, issuer, own, subject, to)
}

// discover returns the issuer. Concurrent exchanges may discover it more than once.
func (e *Exchange) discover(ctx context.Context) (*oauthclient.Server, error) {
	e.mu.Lock()
	known, at := e.known, e.at
	e.mu.Unlock()
	if known != nil && e.Now().Sub(at) < discoveryTTL {
		return known, nil
	}
	found, err := e.oauth.DiscoverServer(ctx, e.server.Issuer)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known, e.at = found, e.Now()
	return found, nil
}

// failure returns the error for a caller, or for the yard itself.
func (e *Exchange) failure(err error, person bool) error {
	refused, ok := errors.AsType[*oauthclient.RefusedError](err)
	if person && ok && refused.Code != "invalid_client" && refused.Status < http.StatusInternalServerError {
		return &toolyard.Error{Code: toolyard.PermissionDenied, Err: err, Message: fmt.Sprintf("%s does not allow you to use the server %s (%v).", e.Issuer, e.server.ID, refused)}
	}
	return &toolyard.Error{
		Code: toolyard.Unavailable, Err: err, RetryAfter: fetchPause,
		Message: fmt.Sprintf("The server %s requires a token, which could not be obtained. An operator can find the reason in the log.", e.server.ID),
	}
}
