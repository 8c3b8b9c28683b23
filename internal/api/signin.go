package api

import (
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/identity"
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
		return toolyard.Errorf(toolyard.Denied, "This is for nobody.")
	case a == operator && !identity.Operates(c):
		return lacks(c, identity.Operator)
	case a == viewer && !identity.Views(c):
		return lacks(c, identity.Viewer)
	}
	return nil
}

func lacks(c toolyard.Caller, scope string) error {
	if !c.Known() {
		return errUnknown
	}
	return &toolyard.Error{Code: toolyard.Denied, Message: "This needs an API key with the scope " + scope + ".", Needs: []string{scope}}
}

// cookie is what a browser is known by that has signed in: it holds the API key, sealed, which is
// verified with each request, so that one that is revoked is good for nothing. Browsers send it
// to every port of a host, so it is worth nothing anywhere else, and nothing when its time is over.
const cookie = "toolyard"

// signedIn is how long a browser stays signed in.
const signedIn = 12 * time.Hour

// identify finds out who asks: by the header as everywhere, or by the cookie of a page of our
// own.
func (a *v1) identify(r *http.Request) (toolyard.Caller, error) {
	if cookies := r.CookiesNamed(cookie); len(cookies) > 0 && len(r.Header["Authorization"]) == 0 && ownPage(r) {
		key, _, ok := a.seal().Open(cookies[0].Value, nil, a.Now())
		if !ok || len(cookies) > 1 { // another program of the host may have set one too
			return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "You are not signed in any more.")
		}
		return a.holder(r, key)
	}
	c, err := a.Identify(r)
	if err != nil {
		return c, unidentified(err)
	}
	return c, nil
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

func (a *v1) signIn(r *request) (*reply, error) {
	body, err := read[signInBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	c, err := a.holder(r.Request, body.Key)
	if err != nil {
		return nil, err
	}
	if !c.Known() {
		return nil, toolyard.Errorf(toolyard.Unauthenticated, "There are no API keys here; open the address that was shown when this was started.")
	}
	a.setCookie(r, a.seal().Close(body.Key, nil, a.Now().Add(signedIn)), signedIn)
	return &reply{body: a.me(c)}, nil
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
	case !c.Known():
		m.Role = "anonymous"
	}
	if a.Yard != nil {
		about := a.Yard.About()
		m.Yard, m.Version, m.Store, m.Keys, m.Arguments = about.Name, about.Version, about.Store, about.Keys, about.Arguments
		for _, e := range a.Yard.Config().Edits {
			m.Edits = append(m.Edits, string(e))
		}
	}
	return m
}
