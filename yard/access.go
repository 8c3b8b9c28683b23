package yard

import (
	"cmp"
	"crypto/subtle"
	"net/http"
	"sync/atomic"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// access authenticates callers and decides which gates they may use.
type access struct {
	program      func(*http.Request) (toolyard.Caller, error) // Options.Identify; nil for API keys
	operator     string                                       // Command.OperatorToken
	verifier     *identity.Verifier                           // nil without a store
	requiresKeys atomic.Bool                                  // a gate requires keys, or has done so since the start
}

// localOperator is the caller that holds the operator token.
const localOperator = "local"

// identify returns the caller that sent a request. A request without a key is anonymous; an
// invalid key is an error.
func (a *access) identify(r *http.Request) (toolyard.Caller, error) {
	if a.isOperator(r) {
		return toolyard.Caller{ID: localOperator, Account: localOperator, Roles: []string{identity.Operator, identity.Write}}, nil
	}
	if a.program != nil {
		caller, err := a.program(r)
		caller.Account = cmp.Or(caller.Account, caller.ID)
		return caller, err
	}
	anonymous := toolyard.Caller{ID: ident.Anonymous, Account: ident.Anonymous}
	if a.verifier == nil {
		return anonymous, nil
	}
	token, present, err := identity.Token(r)
	switch {
	case err != nil:
		return toolyard.Caller{}, err
	case !present:
		return anonymous, nil
	}
	return a.verifier.Verify(r.Context(), token)
}

// isOperator reports whether a request carries the operator token.
func (a *access) isOperator(r *http.Request) bool {
	if a.operator == "" {
		return false
	}
	token, present, err := identity.Token(r)
	return err == nil && present && subtle.ConstantTimeCompare([]byte(token), []byte(a.operator)) == 1
}

// authorizeRequest identifies the caller of a request to a gate, and refuses one that may not use it.
func (a *access) authorizeRequest(r *http.Request, g *gates.Gate) (toolyard.Caller, error) {
	caller, err := a.identify(r)
	if err == nil {
		err = a.authorize(caller, g)
	}
	return caller, err
}

// authorize refuses callers that may not use a gate. With Options.Identify the program decides.
func (a *access) authorize(c toolyard.Caller, g *gates.Gate) error {
	if a.program != nil {
		return nil
	}
	if g.RequireAuth && !c.Authenticated() {
		return toolyard.Errorf(toolyard.Unauthenticated, "This gate requires an API key. Send it as Authorization: Bearer ty_….")
	}
	return identity.Allows(c, g)
}

// protectMetrics serves metrics only to callers that may read them.
func (a *access) protectMetrics(metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.authorizeMetrics(r); err != nil {
			mcpserver.Refuse(w, r, err)
			return
		}
		metrics.ServeHTTP(w, r)
	})
}

// authorizeMetrics refuses callers that may not read metrics, which reveal revenue. Metrics are
// public while every gate is; once a gate has required keys they need the role viewer, until the
// process ends.
func (a *access) authorizeMetrics(r *http.Request) error {
	if !a.requiresKeys.Load() {
		return nil
	}
	caller, err := a.identify(r)
	switch {
	case err != nil:
		return err
	case !caller.Authenticated():
		return toolyard.Errorf(toolyard.Unauthenticated, "Metrics require an API key with the scope viewer. Send it as Authorization: Bearer ty_….")
	case !identity.Views(caller):
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "Metrics require an API key with the scope viewer.", Missing: []string{identity.Viewer}}
	}
	return nil
}
