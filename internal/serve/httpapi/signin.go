package httpapi

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// signInHandler signs browsers in and out.
type signInHandler struct {
	auth *authenticator
	yard Yard // may be nil
	now  func() time.Time
}

// SignInOptions lists the ways to sign in to the console.
type SignInOptions struct {
	Issuers []string `json:"issuers" doc:"Names of the issuers that people can sign in with."`
	URL     string   `json:"url,omitempty" doc:"URL of this server, the only one at which people can sign in with an issuer."`
}

// signInBody is the body of a sign-in.
type signInBody struct {
	Key string `json:"key" minLength:"1" maxLength:"512" doc:"An API key."`
}

// Me describes the caller and the yard.
type Me struct {
	Caller    string   `json:"caller"`
	Name      string   `json:"name,omitempty" doc:"Name of a person who signed in with an issuer."`
	Account   string   `json:"account,omitempty"`
	Role      string   `json:"role" enum:"operator,viewer,caller,anonymous"`
	Scopes    []string `json:"scopes,omitempty"`
	Yard      string   `json:"yard"`
	Version   string   `json:"version"`
	Edits     []string `json:"edits" enum:"toolsets,gates,prices" doc:"Parts of the configuration that can be changed through the API."`
	Store     string   `json:"store" enum:"postgres,sqlite,memory,none"`
	Keys      bool     `json:"keys" doc:"Whether the yard has API keys."`
	Arguments string   `json:"arguments" enum:"off,shape,full" doc:"How arguments are recorded."`
}

// signInResult is the response to a sign-in.
type signInResult struct {
	Me
	PageSecret string `json:"pageSecret" doc:"Send it in the Toolyard-Page-Secret header, together with the cookie."`
}

func (h *signInHandler) signIn(r *request) (*reply, error) {
	body, err := read[signInBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	c, err := h.auth.owner(r.Request, body.Key)
	if err != nil {
		return nil, err
	}
	if !c.Authenticated() {
		return nil, errNoStore
	}
	secret := rand.Text()
	setCookie(r, cookie, h.auth.seal().key.Seal(body.Key, []byte(secret), h.now().Add(signInTime)), signInTime)
	return &reply{body: signInResult{h.me(c), secret}}, nil
}

func (h *signInHandler) signOut(r *request) (*reply, error) {
	if p := h.auth.person(r.Request); p != nil {
		c, err := h.auth.callerOf(r.Context(), p)
		if err == nil {
			err = h.auth.issuers.SignOut(r.Context(), c)
		}
		if err != nil && toolyard.AsError(err).Code != toolyard.Unauthenticated {
			return nil, err
		}
	}
	setCookie(r, cookie, "", -time.Second)
	return &reply{}, nil
}

// setCookie sets a cookie, or deletes it if the age is negative.
func setCookie(r *request, name, value string, age time.Duration) {
	http.SetCookie(r.w, &http.Cookie{ //nolint:gosec // on loopback there is no TLS
		Name: name, Value: value, Path: prefix, MaxAge: max(-1, int(age.Seconds())), HttpOnly: true,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https", SameSite: http.SameSiteStrictMode,
	})
}

func (h *signInHandler) options(*request) (*reply, error) {
	o := SignInOptions{Issuers: []string{}}
	if issuers := h.auth.issuers; issuers != nil {
		o = SignInOptions{orEmpty(issuers.SignInNames()), issuers.URL()}
	}
	return &reply{body: o}, nil
}

func (h *signInHandler) getMe(r *request) (*reply, error) {
	me := h.me(r.caller)
	if p := h.auth.person(r.Request); p != nil {
		me.Name = p.Name
	}
	return &reply{body: me}, nil
}

func (h *signInHandler) me(c toolyard.Caller) Me {
	m := Me{Caller: c.ID, Account: c.Account, Role: "caller", Scopes: slices.Clone(c.Roles), Edits: []string{}, Store: "none", Arguments: "off"}
	switch {
	case identity.Operates(c):
		m.Role = "operator"
	case identity.Views(c):
		m.Role = "viewer"
	case !c.Authenticated():
		m.Role = "anonymous"
	}
	if h.yard != nil {
		about := h.yard.About()
		m.Yard, m.Version, m.Store, m.Keys, m.Arguments = about.Name, about.Version, about.Store, about.Keys, about.Arguments
		for _, e := range h.yard.Config().Editable {
			m.Edits = append(m.Edits, string(e))
		}
	}
	return m
}

func (h *signInHandler) routes() []route {
	return []route{
		{method: "GET", path: "/signin", id: "getSignIn", summary: "Get the ways to sign in to the console.", access: open, gives: answer[SignInOptions]("SignInOptions"), serve: h.options},
		{
			method: "POST", path: "/signin", id: "signIn", summary: "Sign a browser in with an API key. Subsequent requests send the cookie and the page secret from the response.",
			access: open, takes: body[signInBody]("SignIn"), gives: answer[signInResult]("SignedIn"), refusals: []int{400, 401, 413, 503}, serve: h.signIn,
		},
		{
			method: "DELETE", path: "/signin", id: "signOut", summary: "Sign a browser out.",
			access: open, status: http.StatusNoContent, serve: h.signOut,
		},
		{method: "GET", path: "/me", id: "getMe", summary: "Get the caller and the yard.", access: caller, gives: answer[Me]("Me"), serve: h.getMe},
	}
}
