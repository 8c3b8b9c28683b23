package httpapi

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// access says whom a route is for.
type access int

const (
	nobody   access = iota // what is not said is for nobody
	open                   // everyone; nobody is asked who they are
	caller                 // whoever may call tools, and sees what is their own
	viewer                 // who may see what concerns others
	operator               // who may change it
)

func (a access) String() string {
	return []string{"nobody", "open", "caller", "viewer", "operator"}[a]
}

// check refuses callers whom a route is not for.
func (a access) check(c toolyard.Caller) error {
	switch {
	case a == nobody:
		return toolyard.Errorf(toolyard.PermissionDenied, "This is for nobody.")
	case a == operator && !identity.Operates(c):
		return lacks(c, identity.Operator)
	case a == viewer && !identity.Views(c):
		return lacks(c, identity.Viewer)
	}
	return nil
}

func lacks(c toolyard.Caller, scope string) error {
	if !c.Authenticated() {
		return errUnknown
	}
	return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "This needs an API key with the scope " + scope + ".", Missing: []string{scope}}
}

// A browser that has signed in sends two things: the cookie, which holds the API key, sealed, and
// the page secret, which the seal is bound to. Browsers send a cookie to every port of its host,
// so another program there can read and replay it. The page secret is kept in the storage of the
// console's origin, which includes the port, and is sent in a header. Neither is enough alone.
// The key is verified with each request, so a revoked one ends its sign-ins.
const (
	cookie     = "toolyard"
	pageHeader = "Toolyard-Page-Secret"

	maxCookies = 8 // that are tried; other programs of the host may set cookies of the same name
)

// signedIn is how long a browser stays signed in.
const signedIn = 12 * time.Hour

// identify finds out who asks: by the Authorization header, or by the sign-in of a browser.
func (a *v1) identify(r *http.Request) (toolyard.Caller, error) {
	if secret := r.Header.Get(pageHeader); secret != "" && len(r.Header["Authorization"]) == 0 {
		return a.identifyPage(r, secret)
	}
	c, err := a.Identify(r)
	if err != nil {
		return c, unidentified(err)
	}
	return c, nil
}

// identifyPage finds out who has signed in by the page that sends a request.
func (a *v1) identifyPage(r *http.Request, secret string) (toolyard.Caller, error) {
	cookies := r.CookiesNamed(cookie)
	if ownPage(r) {
		for _, c := range cookies[:min(len(cookies), maxCookies)] {
			if key, _, ok := a.seal().Open(c.Value, []byte(secret), a.Now()); ok {
				return a.holder(r, key)
			}
		}
	}
	return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "You are not signed in any more.")
}

// holder is who holds a key.
func (a *v1) holder(r *http.Request, key string) (toolyard.Caller, error) {
	asked := r.Clone(r.Context())
	asked.Header.Set("Authorization", "Bearer "+key)
	c, err := a.Identify(asked)
	if err != nil {
		return c, unidentified(err)
	}
	return c, nil
}

// ownPage reports whether a request comes from a page of this server. Ports of one host are
// one site to a browser, so SameSite alone would let in pages of other programs there. A
// browser that does not say where a request comes from says its origin when it changes
// something.
func ownPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		return origin == "http://"+r.Host || origin == "https://"+r.Host
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// signInBody is what is sent to sign in.
type signInBody struct {
	Key string `json:"key" minLength:"1" maxLength:"512" doc:"An API key."`
}

// Me is who asks, and where.
type Me struct {
	Caller    string   `json:"caller"`
	Account   string   `json:"account,omitempty"`
	Role      string   `json:"role" enum:"operator,viewer,caller,anonymous"`
	Scopes    []string `json:"scopes,omitempty"`
	Yard      string   `json:"yard"`
	Version   string   `json:"version"`
	Edits     []string `json:"edits" enum:"toolsets,gates" doc:"What may be changed through the API."`
	Store     string   `json:"store" enum:"postgres,sqlite,memory,none"`
	Keys      bool     `json:"keys" doc:"Whether there are API keys here."`
	Arguments string   `json:"arguments" enum:"off,shape,full" doc:"What is kept of arguments."`
}

// signInAnswer is the answer to a sign-in.
type signInAnswer struct {
	Me
	PageSecret string `json:"pageSecret" doc:"Send it as Toolyard-Page-Secret, together with the cookie."`
}

func (a *v1) signIn(r *request) (*reply, error) {
	body, err := read[signInBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	c, err := a.holder(r.Request, body.Key)
	if err != nil {
		return nil, err
	}
	if !c.Authenticated() {
		return nil, errNoStore
	}
	secret := rand.Text()
	a.setCookie(r, a.seal().Seal(body.Key, []byte(secret), a.Now().Add(signedIn)), signedIn)
	return &reply{body: signInAnswer{a.me(c), secret}}, nil
}

func (a *v1) signOut(r *request) (*reply, error) {
	a.setCookie(r, "", -1)
	return &reply{}, nil
}

func (a *v1) setCookie(r *request, value string, age time.Duration) {
	http.SetCookie(r.w, &http.Cookie{ //nolint:gosec // on loopback there is no TLS
		Name: cookie, Value: value, Path: prefix, MaxAge: max(-1, int(age.Seconds())), HttpOnly: true,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https", SameSite: http.SameSiteStrictMode,
	})
}

func (a *v1) getMe(r *request) (*reply, error) { return &reply{body: a.me(r.caller)}, nil }

func (a *v1) me(c toolyard.Caller) Me {
	m := Me{Caller: c.ID, Account: c.Account, Role: "caller", Scopes: slices.Clone(c.Roles), Edits: []string{}, Store: "none", Arguments: "off"}
	switch {
	case identity.Operates(c):
		m.Role = "operator"
	case identity.Views(c):
		m.Role = "viewer"
	case !c.Authenticated():
		m.Role = "anonymous"
	}
	if a.Yard != nil {
		about := a.Yard.About()
		m.Yard, m.Version, m.Store, m.Keys, m.Arguments = about.Name, about.Version, about.Store, about.Keys, about.Arguments
		for _, e := range a.Yard.Config().Editable {
			m.Edits = append(m.Edits, string(e))
		}
	}
	return m
}
