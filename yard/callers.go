package yard

import (
	"cmp"
	"crypto/subtle"
	"net/http"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// identify says who sends a request. Who shows no key is anonymous, which not every gate
// takes; a key that is shown must be right.
func (y *Yard) identify(r *http.Request) (toolyard.Caller, error) {
	if y.operates(r) {
		return toolyard.Caller{ID: localOperator, Account: localOperator, Roles: []string{identity.Operator, identity.Write}}, nil
	}
	if y.opts.Identify != nil {
		caller, err := y.opts.Identify(r)
		caller.Account = cmp.Or(caller.Account, caller.ID)
		return caller, err
	}
	anonymous := toolyard.Caller{ID: toolyard.Anonymous, Account: toolyard.Anonymous}
	if y.contract.verifier == nil {
		return anonymous, nil // there are no keys here
	}
	token, present, err := identity.Token(r)
	switch {
	case err != nil:
		return toolyard.Caller{}, err
	case !present:
		return anonymous, nil
	}
	return y.contract.verifier.Verify(r.Context(), token)
}

// localOperator is who operates a yard by the token that it was started with.
const localOperator = "local"

// operates reports whether a request carries the token that the yard was started with.
func (y *Yard) operates(r *http.Request) bool {
	if y.opts.Operator == "" {
		return false
	}
	token, present, err := identity.Token(r)
	return err == nil && present && subtle.ConstantTimeCompare([]byte(token), []byte(y.opts.Operator)) == 1
}

// admit says who sends a request to a gate, and refuses who may not enter.
func (y *Yard) admit(r *http.Request, g *toolyard.Gate) (toolyard.Caller, error) {
	caller, err := y.identify(r)
	if err == nil {
		err = y.mayEnter(caller, g)
	}
	return caller, err
}

// mayEnter refuses callers whom a gate does not take. A program that knows its callers
// itself decides itself.
func (y *Yard) mayEnter(c toolyard.Caller, g *toolyard.Gate) error {
	if y.opts.Identify != nil {
		return nil
	}
	if g.RequireAuth && !c.Authenticated() {
		return toolyard.Errorf(toolyard.Unauthenticated, "This gate needs an API key, sent as Authorization: Bearer ty_….")
	}
	return identity.Allows(c, g)
}

// measured lets only those see the metrics who may.
func (y *Yard) measured(metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := y.mayMeasure(r); err != nil {
			mcpserver.Refuse(w, r, err)
			return
		}
		metrics.ServeHTTP(w, r)
	})
}

// mayMeasure refuses who may not see the metrics, which tell what tools earn. Anyone may if
// anyone may enter all gates; as soon as one asks for keys, and until the end, only who may see
// what concerns others.
func (y *Yard) mayMeasure(r *http.Request) error {
	if !y.keyed.Load() {
		return nil
	}
	caller, err := y.identify(r)
	switch {
	case err != nil:
		return err
	case !caller.Authenticated():
		return toolyard.Errorf(toolyard.Unauthenticated, "Metrics need an API key with the scope viewer, sent as Authorization: Bearer ty_….")
	case !identity.Views(caller):
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "Metrics need an API key with the scope viewer.", Missing: []string{identity.Viewer}}
	}
	return nil
}
