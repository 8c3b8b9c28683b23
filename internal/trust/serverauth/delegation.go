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
	exchangedTime = 5 * time.Minute // how long a token is used if its lifetime is unknown
)

// tokenKey is the context key for the access token.
type tokenKey struct{}

// WithAccessToken returns a context that contains the access token sent with a request.
func WithAccessToken(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// Subjects returns the token that identifies a call's caller to the issuer. The call is nil for the
// yard's own requests. An empty subject means that the yard acts on its own behalf.
type Subjects func(ctx context.Context, c *toolyard.Call) (oauthclient.Subject, error)

// RequestTokens returns subjects that use the access token sent with a request. The token must come
// from the named issuer. callerOf returns the ID of the caller that a valid access token
// identifies.
func RequestTokens(server, issuer string, callerOf func(ctx context.Context, token string) (string, error)) Subjects {
	return func(ctx context.Context, c *toolyard.Call) (none oauthclient.Subject, err error) {
		if c == nil {
			return none, nil
		}
		token, _ := ctx.Value(tokenKey{}).(string)
		if identity.IssuerOf(c.Caller) != issuer || token == "" {
			return none, toolyard.Errorf(toolyard.PermissionDenied, "Server %[1]s is called on behalf of signed-in users and requires an access token from %[2]s. Sign in with %[2]s; API keys are not accepted.", server, issuer)
		}
		// A request may also contain other credentials, so the token must belong to the caller.
		owner, err := callerOf(ctx, token)
		switch {
		case err != nil:
			return none, err
		case owner != c.Caller.ID:
			return none, toolyard.Errorf(toolyard.PermissionDenied, "The request's access token belongs to another caller.")
		}
		return oauthclient.AccessToken(token), nil
	}
}

// DelegationOptions configures a Delegation.
type DelegationOptions struct {
	Issuer   Issuer // issuer of the people's tokens
	Subjects Subjects
	Hide     func(string) // redacts a token from text
	Now      func() time.Time
}

// Issuer is an identity provider that issues tokens in exchange for people's tokens.
type Issuer struct {
	Name string // name in the configuration
	URL  string // issuer identifier
	// Client returns the credentials of the client that exchanges tokens.
	Client func() (*oauthclient.Credentials, error)
}

// Delegation authenticates requests to a server on behalf of the caller, with a token issued in
// exchange for the caller's token. The caller's own token is sent only to its issuer.
type Delegation struct {
	DelegationOptions
	server Server
	steps  delegatedGrant

	mu       sync.Mutex
	required bool // the yard's own requests need a token
	tokens   map[[sha256.Size]byte]*exchanged
}

// delegatedGrant obtains tokens for a server. Its methods must be safe for concurrent use.
type delegatedGrant interface {
	// token returns a token for a subject, or for the yard itself if the subject is empty. The
	// token has the given scopes in addition to the usual ones. If an authorization server refuses
	// the request, the error is a [*refusedAt].
	token(ctx context.Context, subject oauthclient.Subject, more []string) (*oauthclient.Token, error)
	// challenged is called with the challenge that the server sent when it refused a request.
	challenged(oauthclient.Challenge)
}

// refusedAt is the error for a request that an authorization server refused.
type refusedAt struct {
	place string // display name of the authorization server
	err   *oauthclient.RefusedError
	hint  string // hint for operators
}

func (e *refusedAt) Error() string {
	if e.hint == "" {
		return e.place + ": " + e.err.Error()
	}
	return e.place + ": " + e.err.Error() + "; " + e.hint
}

func (e *refusedAt) Unwrap() error { return e.err }

// refusedBy adds the place to an error if an authorization server refused the request.
func refusedBy(place, hint string, err error) error {
	if refused, ok := errors.AsType[*oauthclient.RefusedError](err); ok {
		return &refusedAt{place, refused, hint}
	}
	return err
}

// exchanged is the token for a subject. The zero hash stands for the yard itself.
type exchanged struct {
	done    chan struct{} // closed when the exchange ends
	widened bool          // additional scopes were requested because the server required them
	token   *oauthclient.Token
	err     error
	until   time.Time // when to exchange again, even after a failure
}

func newDelegation(o DelegationOptions, s Server, grant delegatedGrant) *Delegation {
	return &Delegation{DelegationOptions: o, server: s, steps: grant, tokens: make(map[[sha256.Size]byte]*exchanged)}
}

// Begin implements package upstream's authorizer.
func (d *Delegation) Begin(ctx context.Context, c *toolyard.Call) (string, error) {
	if _, err := d.tokenFor(ctx, c); err != nil {
		return "", err
	}
	return strconv.Quote(c.Caller.ID), nil
}

// Authorize implements package upstream's authorizer. The yard's own requests have no token until
// the server requires one.
func (d *Delegation) Authorize(ctx context.Context, c *toolyard.Call) (http.Header, error) {
	d.mu.Lock()
	required := d.required
	d.mu.Unlock()
	if c == nil && !required {
		return nil, nil
	}
	token, err := d.tokenFor(ctx, c)
	if err != nil {
		return nil, err
	}
	return bearer(token.Access), nil
}

// Refused implements package upstream's authorizer. If the server refuses a token, the token is
// replaced once, because it may have been revoked or may lack scopes that the server requires.
func (d *Delegation) Refused(ctx context.Context, c *toolyard.Call, sent http.Header, res *http.Response) (bool, error) {
	challenge, challenged := oauthclient.ParseChallenge(res.Header)
	forbidden := res.StatusCode == http.StatusForbidden
	if forbidden && !challenge.InsufficientScope() {
		return false, nil
	}
	if challenged && !forbidden {
		d.steps.challenged(challenge)
	}
	subject, err := d.Subjects(ctx, c)
	if err != nil {
		return false, err
	}
	hash := hashOf(subject)
	d.mu.Lock()
	d.required = d.required || c == nil
	old := d.tokens[hash]
	if old == nil || old.token == nil || sent.Get("Authorization") != "Bearer "+old.token.Access { // replaced in the meantime
		d.mu.Unlock()
		_, err = d.obtain(ctx, subject, nil)
		return err == nil, err
	}
	more := union(challenge.Scopes, old.token.Scopes)
	if forbidden && (old.widened || len(more) == len(old.token.Scopes)) {
		d.mu.Unlock()
		return false, nil
	}
	delete(d.tokens, hash)
	d.mu.Unlock()
	if !forbidden {
		more = nil
	}
	if _, err = d.obtain(ctx, subject, more); err != nil && forbidden {
		d.restore(hash, old)
	}
	return err == nil, err
}

// restore keeps using the old token after a request for more scopes was refused.
func (d *Delegation) restore(hash [sha256.Size]byte, old *exchanged) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.tokens[hash]; x == nil || x.token == nil {
		d.tokens[hash] = old
	}
}

// hashOf returns the key for a subject's token. It is zero for the yard itself.
func hashOf(subject oauthclient.Subject) (hash [sha256.Size]byte) {
	if subject.Token != "" {
		hash = sha256.Sum256([]byte(subject.Token))
	}
	return hash
}

// tokenFor returns the token for a call.
func (d *Delegation) tokenFor(ctx context.Context, c *toolyard.Call) (*oauthclient.Token, error) {
	subject, err := d.Subjects(ctx, c)
	if err != nil {
		return nil, err
	}
	return d.obtain(ctx, subject, nil)
}

// obtain returns the token for a subject. If it has to request a new token, it includes the
// additional scopes. Calls with the same subject share one exchange, which continues if one of them
// is canceled.
func (d *Delegation) obtain(ctx context.Context, subject oauthclient.Subject, more []string) (*oauthclient.Token, error) {
	hash := hashOf(subject)
	d.mu.Lock()
	x := d.tokens[hash]
	if x == nil || x.over(d.Now()) {
		x = &exchanged{done: make(chan struct{}), widened: more != nil}
		d.makeRoom()
		d.tokens[hash] = x
		running, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		go func() {
			defer cancel()
			d.run(running, x, subject, more)
		}()
	}
	d.mu.Unlock()
	select {
	case <-x.done:
		return x.token, x.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over reports whether an exchange has ended and its result may no longer be used.
func (x *exchanged) over(now time.Time) bool {
	select {
	case <-x.done:
		return !now.Before(x.until)
	default:
		return false
	}
}

// makeRoom removes results to make room for another one. It removes those that are no longer used
// first, and then arbitrary ones, which are exchanged again when they are needed.
func (d *Delegation) makeRoom() {
	if len(d.tokens) < maxExchanged {
		return
	}
	for hash, x := range d.tokens {
		if x.over(d.Now()) {
			delete(d.tokens, hash)
		}
	}
	for hash := range d.tokens {
		if len(d.tokens) < maxExchanged {
			return
		}
		delete(d.tokens, hash)
	}
}

// run exchanges a token.
func (d *Delegation) run(ctx context.Context, x *exchanged, subject oauthclient.Subject, more []string) {
	defer close(x.done)
	token, err := d.steps.token(ctx, subject, more)
	if err != nil {
		x.err, x.until = d.failure(err, subject.Token != ""), d.Now().Add(fetchPause)
		return
	}
	d.Hide(token.Access)
	if x.token, x.until = token, renewAt(token, d.Now()); x.until.IsZero() {
		x.until = d.Now().Add(exchangedTime)
	}
}

// failure returns the error for a caller, or for the yard itself.
func (d *Delegation) failure(err error, person bool) error {
	refused, ok := errors.AsType[*refusedAt](err)
	if person && ok && refused.err.Code != "invalid_client" && refused.err.Status < http.StatusInternalServerError {
		return &toolyard.Error{Code: toolyard.PermissionDenied, Err: err, Message: fmt.Sprintf("%s does not allow you to use server %s (%v).", refused.place, d.server.ID, refused.err)}
	}
	return &toolyard.Error{
		Code: toolyard.Unavailable, Err: err, RetryAfter: fetchPause,
		Message: fmt.Sprintf("Server %s requires a token, but Toolyard could not obtain one. Operators can find the reason in the log.", d.server.ID),
	}
}
