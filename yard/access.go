package yard

import (
	"cmp"
	"context"
	"crypto/subtle"
	"net/http"
	"sync/atomic"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// access authenticates callers and decides which gates they may use.
type access struct {
	program      func(*http.Request) (toolyard.Caller, error) // Options.Identify; nil if callers use API keys
	operator     string                                       // Command.OperatorToken
	verifier     *identity.Verifier                           // nil if there is no store
	tokens       atomic.Pointer[tokenAccess]                  // nil if no issuers are configured
	requiresKeys atomic.Bool                                  // a gate requires authentication, or has required it since startup
	blocked      *identity.Blocklist                          // nil if there is no store
	sightings    *sightings
	signIns      func(issuer string) *serverauth.SignIns // nil if no server needs them
}

// identify returns the caller that sent a request to the HTTP API.
func (a *access) identify(r *http.Request) (toolyard.Caller, error) { return a.identifyAt(r, nil) }

// identifyAt returns the caller that sent a request to a gate, or to the HTTP API if the gate is
// nil. A request with no credentials is anonymous; invalid credentials are an error.
func (a *access) identifyAt(r *http.Request, g *gates.Gate) (toolyard.Caller, error) {
	if a.isOperator(r) { // the user who started this process
		return toolyard.Caller{ID: identity.Local, Account: identity.Local, Roles: []string{identity.Operator, identity.Write}}, nil
	}
	if a.program != nil {
		caller, err := a.program(r)
		caller.Account = cmp.Or(caller.Account, caller.ID)
		return caller, err
	}
	anonymous := toolyard.Caller{ID: ident.Anonymous, Account: ident.Anonymous}
	tokens := a.tokens.Load()
	if a.verifier == nil && tokens == nil {
		return anonymous, nil
	}
	token, present, err := identity.Token(r)
	switch {
	case err != nil:
		return toolyard.Caller{}, err
	case !present:
		return anonymous, nil
	}
	if tokens != nil && !identity.IsKey(token) && tokens.verifier.Accepts(token) {
		return a.verifyToken(r.Context(), tokens, token, g)
	}
	if a.verifier == nil {
		return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "The credentials are not valid for this server.")
	}
	return a.verifier.Verify(r.Context(), token)
}

// verifyToken returns the caller that an access token identifies.
func (a *access) verifyToken(ctx context.Context, tokens *tokenAccess, token string, g *gates.Gate) (toolyard.Caller, error) {
	caller, err := tokens.verifier.Verify(ctx, token, tokens.resources(g))
	if err == nil {
		err = a.checkBlocked(ctx, caller)
	}
	if err != nil {
		return toolyard.Caller{}, err
	}
	return caller, nil
}

// callerOfToken returns the ID of the caller that an access token identifies, regardless of the
// token's resource.
func (a *access) callerOfToken(ctx context.Context, token string) (string, error) {
	if t := a.tokens.Load(); t != nil {
		return t.verifier.CallerOfToken(ctx, token)
	}
	return "", errNoIssuer
}

// keepToken stores a request's access token in its context for servers with auth: {type: exchange}.
// They verify that the token belongs to the caller.
func (a *access) keepToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token, present, err := identity.Token(r); a.tokens.Load() != nil && present && err == nil && !identity.IsKey(token) {
			r = r.WithContext(serverauth.WithAccessToken(r.Context(), token))
		}
		next.ServeHTTP(w, r)
	})
}

// isOperator reports whether a request carries the operator token.
func (a *access) isOperator(r *http.Request) bool {
	if a.operator == "" {
		return false
	}
	token, present, err := identity.Token(r)
	return err == nil && present && subtle.ConstantTimeCompare([]byte(token), []byte(a.operator)) == 1
}

// authorizeRequest identifies the caller of a request to a gate, and returns an error if the caller
// may not use the gate.
func (a *access) authorizeRequest(r *http.Request, g *gates.Gate) (toolyard.Caller, error) {
	caller, err := a.identifyAt(r, g)
	if err == nil {
		err = a.authorize(caller, g)
	}
	return caller, a.withScopes(err, caller, g)
}

// withScopes adds the scopes that the client should request from the issuer to an error.
func (a *access) withScopes(err error, c toolyard.Caller, g *gates.Gate) error {
	t := a.tokens.Load()
	if err == nil || t == nil || len(g.Tokens.Issuers) == 0 {
		return err
	}
	e := *toolyard.AsError(err)
	switch e.Code {
	case toolyard.Unauthenticated:
		e.Missing = t.scopes(c, g, rightsFor(g))
	case toolyard.PermissionDenied:
		if identity.IssuerOf(c) == "" {
			return err
		}
		e.Missing = t.scopes(c, g, rightsFor(g)) // everything that the gate needs, so that one more sign-in is enough
	}
	return &e
}

// metadataURL returns the URL of a gate's OAuth metadata; see [tokenAccess.metadataURL].
func (a *access) metadataURL(r *http.Request, g *gates.Gate) string {
	return a.tokens.Load().metadataURL(g, r.URL.Path)
}

// authorize returns an error if the caller may not use the gate. If Options.Identify is set, it
// accepts all callers that the program has identified.
func (a *access) authorize(c toolyard.Caller, g *gates.Gate) error {
	if a.program != nil {
		return nil
	}
	if g.RequireAuth && !c.Authenticated() {
		return toolyard.Errorf(toolyard.Unauthenticated, "%s", authenticationHint(g))
	}
	return identity.Allows(c, g)
}

// authenticationHint describes how to authenticate at a gate.
func authenticationHint(g *gates.Gate) string {
	switch {
	case g.Tokens.Only:
		return "This gate requires an access token. Sign in with your client."
	case len(g.Tokens.Issuers) > 0:
		return "This gate requires an access token or an API key. Sign in with your client, or send the key as Authorization: Bearer ty_…."
	}
	return "This gate requires an API key. Send it as Authorization: Bearer ty_…."
}

// protectMetrics serves metrics only to callers that may read them.
func (a *access) protectMetrics(metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.authorizeMetrics(r); err != nil {
			mcpserver.Refuse(w, r, err, "")
			return
		}
		metrics.ServeHTTP(w, r)
	})
}

// authorizeMetrics returns an error if the caller may not read metrics, which reveal revenue.
// Metrics are public while every gate is public. Once a gate has required keys, metrics require the
// role viewer until the process ends.
func (a *access) authorizeMetrics(r *http.Request) error {
	if !a.requiresKeys.Load() {
		return nil
	}
	caller, err := a.identify(r)
	switch {
	case err != nil:
		return err
	case !caller.Authenticated():
		return toolyard.Errorf(toolyard.Unauthenticated, "Metrics require an API key with the viewer scope. Send it as Authorization: Bearer ty_….")
	case !identity.Views(caller):
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "Metrics require an API key with the viewer scope.", Missing: []string{identity.Viewer}}
	}
	return nil
}
