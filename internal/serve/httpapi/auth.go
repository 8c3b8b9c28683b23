package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// access is the scope that a route requires.
type access int

const (
	denied   access = iota // zero value: a route that sets no access is closed
	open                   // no authentication required
	caller                 // any caller of tools; sees only its own data
	viewer                 // scope viewer or operator
	operator               // scope operator
	approver               // scope approver or operator
)

func (a access) String() string {
	return []string{"denied", "open", "caller", "viewer", "operator", "approver"}[a]
}

// check returns an error if a caller lacks the scope.
func (a access) check(c toolyard.Caller) error {
	switch {
	case a == denied:
		return toolyard.Errorf(toolyard.PermissionDenied, "This endpoint is disabled.")
	case a == operator && !identity.Operates(c):
		return missingScope(c, identity.Operator)
	case a == approver && !identity.Approves(c):
		return missingScope(c, identity.Approver)
	case a == viewer && !identity.Views(c):
		return missingScope(c, identity.Viewer)
	}
	return nil
}

func missingScope(c toolyard.Caller, scope string) error {
	if !c.Authenticated() {
		return errUnauthenticated
	}
	message := "This requires an API key with the " + scope + " scope."
	if issuer := identity.IssuerOf(c); issuer != "" {
		message = "This requires the " + scope + " permission, which no access rule for issuer " + issuer + " grants you."
	}
	return &toolyard.Error{Code: toolyard.PermissionDenied, Message: message, Missing: []string{scope}}
}

var (
	errUnauthenticated = toolyard.Errorf(toolyard.Unauthenticated, "Authentication required: send an API key.")
	errNoStore         = toolyard.Errorf(toolyard.Unauthenticated, "API keys are not available because no store is configured. Add store: sqlite:toolyard.db to the configuration, restart the yard and create a key, or open the console with the link printed at startup.")
)

// A signed-in browser sends two credentials: a cookie with the sealed API key or person, and the
// page secret, to which the seal is bound. Browsers send a cookie to every port on its host, so
// another program there could read and replay it. The page secret is in the storage of the
// console's origin, which includes the port, and is sent in a header. Neither is sufficient on its
// own. The key is verified on every request, so revoking it ends its sign-ins, as does blocking a
// person.
const (
	cookie     = "toolyard"
	pageHeader = "Toolyard-Page-Secret"

	maxCookies = 8 // number tried per request: other programs on the host may set cookies with the same name
)

// signInTime is how long a sign-in lasts.
const signInTime = 12 * time.Hour

// authenticator identifies callers by API key or browser sign-in.
type authenticator struct {
	identifyKey func(*http.Request) (toolyard.Caller, error)
	issuers     Issuers // may be nil
	seal        func() sealers
	yard        Yard
	now         func() time.Time
}

func newAuthenticator(opts Options) *authenticator {
	a := &authenticator{identifyKey: opts.Identify, issuers: opts.People.Issuers, yard: opts.Yard, now: opts.Now}
	if a.identifyKey == nil {
		a.identifyKey = func(*http.Request) (toolyard.Caller, error) { return toolyard.Caller{ID: ident.Anonymous}, nil }
	}
	newKey := opts.Seal
	if newKey == nil {
		newKey = NewSealKey
	}
	a.seal = sync.OnceValue(func() sealers { return newSealers(newKey()) })
	return a
}

// authorize identifies a request's caller and checks its scope.
func (a *authenticator) authorize(r *http.Request, required access) (toolyard.Caller, error) {
	if required == open {
		return toolyard.Caller{}, nil
	}
	caller, err := a.identify(r)
	if err == nil {
		err = required.check(caller)
	}
	if errors.Is(err, errUnauthenticated) && !a.hasKeys() {
		err = errNoStore
	}
	return caller, err
}

// hasKeys reports whether any API key can be valid.
func (a *authenticator) hasKeys() bool {
	if a.yard == nil {
		return true
	}
	about := a.yard.About()
	return about.Keys || about.Store != "none"
}

func (a *authenticator) identify(r *http.Request) (toolyard.Caller, error) {
	if secret := r.Header.Get(pageHeader); secret != "" && len(r.Header["Authorization"]) == 0 {
		return a.identifyPage(r, secret)
	}
	c, err := a.identifyKey(r)
	return c, authError(err)
}

// identifyPage identifies the caller by cookie and page secret.
func (a *authenticator) identifyPage(r *http.Request, secret string) (toolyard.Caller, error) {
	if key, _, ok := a.openCookie(r, a.seal().key, cookie, secret); ok {
		return a.owner(r, key)
	}
	if p := a.person(r); p != nil {
		return a.callerOf(r.Context(), p)
	}
	return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "Your sign-in has expired. Sign in again.")
}

// openCookie decrypts a cookie's value, which is sealed with the page secret.
func (a *authenticator) openCookie(r *http.Request, sealer seal.Sealer, name, secret string) (value string, id seal.Nonce, ok bool) {
	if secret == "" || !sameOrigin(r) {
		return "", id, false
	}
	cookies := r.CookiesNamed(name)
	for _, c := range cookies[:min(len(cookies), maxCookies)] {
		if value, id, ok = sealer.Open(c.Value, []byte(secret), a.now()); ok {
			return value, id, true
		}
	}
	return "", id, false
}

// person returns the person who is signed in to the page that sent the request, or nil.
func (a *authenticator) person(r *http.Request) *accesstoken.Person {
	if a.issuers == nil {
		return nil
	}
	value, _, ok := a.openCookie(r, a.seal().person, cookie, r.Header.Get(pageHeader))
	p := &accesstoken.Person{}
	if !ok || json.Unmarshal([]byte(value), p) != nil {
		return nil
	}
	return p
}

// callerOf returns the current caller for a signed-in person. A person who has lost access is
// signed out.
func (a *authenticator) callerOf(ctx context.Context, p *accesstoken.Person) (toolyard.Caller, error) {
	c, err := a.issuers.CallerOf(ctx, p)
	if e, ok := errors.AsType[*toolyard.Error](err); ok && e.Code == toolyard.PermissionDenied {
		return c, &toolyard.Error{Code: toolyard.Unauthenticated, Message: e.Message, Err: err}
	}
	return c, err
}

// owner identifies the caller that owns an API key.
func (a *authenticator) owner(r *http.Request, key string) (toolyard.Caller, error) {
	withKey := r.Clone(r.Context())
	withKey.Header.Set("Authorization", "Bearer "+key)
	c, err := a.identifyKey(withKey)
	return c, authError(err)
}

// authError converts an error from Options.Identify. An error that has no code means that
// authentication failed.
func authError(err error) error {
	if err == nil {
		return nil
	}
	e := toolyard.AsError(err)
	if _, ok := statuses[e.Code]; ok {
		return e
	}
	return &toolyard.Error{Code: toolyard.Unauthenticated, Message: e.Message, Err: err}
}

// sameOrigin reports whether a request comes from one of this server's pages. SameSite cookies are
// not enough: all ports of a host count as the same site, so they would admit pages from other
// programs on the host. Browsers that do not send Sec-Fetch-Site send Origin with every request
// that changes something.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return origin == "http://"+r.Host || origin == "https://"+r.Host
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// accountOf returns an authenticated caller's account.
func accountOf(c toolyard.Caller) (string, error) {
	switch {
	case !c.Authenticated():
		return "", errUnauthenticated
	case c.Account == "":
		return "", toolyard.Errorf(toolyard.PermissionDenied, "Your API key has no account.")
	}
	return c.Account, nil
}
