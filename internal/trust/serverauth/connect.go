package serverauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// Paths requested by people and authorization servers.
const (
	PagePath     = "/console/connections/" // followed by the server
	returnPath   = "/console/connections"
	CallbackPath = "/oauth/callback"
	DocumentPath = "/oauth/client.json"
)

const (
	maxSecret    = 8 << 10
	maxResponse  = 8 << 10 // bytes in a callback's query
	startTimeout = 30 * time.Second
)

// Connector completes people's sign-ins at authorization servers.
//
// Only the owner can make a connection: each step is a request from a signed-in console page, or
// from a client with the owner's credentials, and checks that the caller owns the link or started the
// sign-in. The authorization server redirects the browser to [Connector.ServeCallback], which only
// passes the response on to such a page.
type Connector struct {
	Options
	Person func(server string) *Person // returns nil for unknown servers
}

// ServeDocument serves this client's metadata document to authorization servers.
func (h *Connector) ServeDocument(w http.ResponseWriter, r *http.Request) {
	if h.URL == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(h.registration().ClientDocument())
}

// ServeCallback receives the redirect from an authorization server. It changes nothing: it moves
// the response to the fragment, which browsers don't send and servers don't log, and a console page
// sends it to [Connector.Complete] with the person's credentials.
func (h *Connector) ServeCallback(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet || !navigates(r):
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case len(r.URL.RawQuery) > maxResponse:
		http.Error(w, "the authorization server's response is too long", http.StatusBadRequest)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Location", returnPath+"#"+r.URL.RawQuery)
	w.WriteHeader(http.StatusSeeOther)
}

// navigates reports whether a request is a top-level navigation in a person's browser, as opposed
// to a frame, an image or a prefetch.
func navigates(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return (dest == "" || dest == "document") && r.Header.Get("Sec-Purpose") == "" && r.Header.Get("Purpose") == ""
}

// registration describes this client to authorization servers.
func (o *Options) registration() *oauthclient.Registration {
	return &oauthclient.Registration{
		Name: o.Name, Redirect: o.URL + CallbackPath, Document: o.Document,
		Native: !strings.HasPrefix(o.URL, "https://"), // http is only used on loopback
	}
}

// ErrStartAgain is returned for invalid links and responses.
var ErrStartAgain = toolyard.Errorf(toolyard.Invalid, "This link or sign-in is invalid, has expired or has already been used. Start again under Connections, or call the tool again to get a new link.")

var (
	errOtherPerson  = toolyard.Errorf(toolyard.PermissionDenied, "This link was created for another caller. Nothing was changed. If the link is yours, sign in here as the caller that your client uses, and open it again. If someone else sent it to you, close this page.")
	errNoConnection = toolyard.Errorf(toolyard.PermissionDenied, "Connections belong to a user: send an API key or an access token.")
)

// failed logs why a connection failed and returns the error for the person.
func (p *Person) failed(err error) error {
	if _, ok := errors.AsType[*toolyard.Error](err); ok {
		return err
	}
	p.Log.Warn("user could not connect to a server", "error", err)
	if refused, ok := errors.AsType[*oauthclient.RefusedError](err); ok && refused.Code == "access_denied" {
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "You canceled the sign-in, or it was denied. You are not connected to " + p.server.ID + ".", Err: err}
	}
	return &toolyard.Error{
		Code: toolyard.Unavailable, RetryAfter: time.Second, Err: err,
		Message: "The connection to " + p.server.ID + " failed. See the " + p.Name + " log for the reason. Try again later.",
	}
}

// Review describes a connection that a person is asked to agree to.
type Review struct {
	Host   string   // host at which the person signs in; empty if the person enters a key
	Scopes []string // requested scopes
	Key    bool     // the person enters a key
}

// Review returns the terms that a caller is asked to agree to. ticket is a link's ticket, or empty
// if the caller did not use a link.
func (p *Person) Review(ctx context.Context, caller toolyard.Caller, ticket string) (*Review, error) {
	l, _, err := p.authorizeLink(caller, ticket)
	switch {
	case err != nil:
		return nil, err
	case p.header != "":
		return &Review{Key: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, server, scopes, err := p.discover(ctx, l)
	if err != nil {
		return nil, p.failed(err)
	}
	return &Review{Host: hostOf(server.AuthorizationURL), Scopes: scopes}, nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// authorizeLink returns the link with which a caller connects. It refuses another person's link.
func (p *Person) authorizeLink(caller toolyard.Caller, ticket string) (l link, id string, err error) {
	owner, ok := OwnerOf(caller)
	if !ok {
		return l, "", errNoConnection
	}
	if ticket == "" {
		return link{Owner: owner}, "", nil
	}
	l, id, ok = p.openLink(ticket)
	switch {
	case !ok:
		return l, "", ErrStartAgain
	case l.Owner != owner:
		p.Log.Warn("connect link opened by a different user", "caller", owner.Caller, "for", l.Owner.Caller)
		return link{}, "", errOtherPerson
	}
	return l, id, nil
}

// openLink decrypts a link's ticket.
func (p *Person) openLink(ticket string) (l link, id string, ok bool) {
	keys, err := p.Keys()
	if err != nil {
		return l, "", false
	}
	text, nonce, ok := keys.open(sealLink, ticket, p.Now(), p.server.ID)
	if !ok || json.Unmarshal([]byte(text), &l) != nil {
		return l, "", false
	}
	return l, "connect " + hex.EncodeToString(nonce[:]), true
}

// discover finds the authorization server and the scopes to request.
func (p *Person) discover(ctx context.Context, l link) (*oauthclient.Resource, *oauthclient.Server, []string, error) {
	p.mu.Lock()
	challenge := p.server.scopesFor(p.challenge)
	p.mu.Unlock()
	if l.Scopes != nil {
		challenge.Scopes = l.Scopes
	}
	resource, server, err := p.oauth.Discover(ctx, p.server.URL, p.server.Issuer, challenge)
	if err != nil {
		return nil, nil, nil, err
	}
	return resource, server, oauthclient.SelectScopes(challenge, resource, server, nil), nil
}

// flow is a sign-in in progress. It is stored in sealed form.
type flow struct {
	Owner   Owner               `json:"owner"`
	Server  string              `json:"server"`
	Browser string              `json:"browser"` // hash of the cookie
	SignIn  *oauthclient.SignIn `json:"signIn"`
}

// BeginSignIn starts a caller's sign-in at the authorization server. It returns the URL at which
// the person signs in, and the cookie value that binds the sign-in to the browser.
func (p *Person) BeginSignIn(ctx context.Context, caller toolyard.Caller, ticket string) (address, cookie string, err error) {
	l, id, err := p.authorizeLink(caller, ticket)
	switch {
	case err != nil:
		return "", "", err
	case p.header != "":
		return "", "", toolyard.Errorf(toolyard.Invalid, "Server %s requires a key. Enter one.", p.server.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if address, cookie, err = p.begin(ctx, l); err == nil {
		err = p.consume(ctx, id)
	}
	if err != nil {
		return "", "", p.failed(err)
	}
	return address, cookie, nil
}

// consume marks a link as used. It returns an error if the link was used before.
func (p *Person) consume(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	_, first, err := p.Store.Consume(ctx, id, p.holder, p.Now().Add(linkTime))
	if err == nil && !first {
		err = ErrStartAgain
	}
	return err
}

// EnterKey stores the key that a caller has entered.
func (p *Person) EnterKey(ctx context.Context, caller toolyard.Caller, ticket, key string) error {
	l, id, err := p.authorizeLink(caller, ticket)
	if err != nil {
		return err
	}
	value := strings.TrimSpace(key)
	switch {
	case p.header == "":
		return toolyard.Errorf(toolyard.Invalid, "Server %s requires a sign-in, not a key.", p.server.ID)
	case value == "" || len(value) > maxSecret || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }):
		return toolyard.Errorf(toolyard.Invalid, "The key is empty, is too long or contains characters that cannot be sent. Enter it again.")
	}
	if err = p.consume(ctx, id); err == nil {
		err = p.connect(ctx, l.Owner, &grant{Secret: value})
	}
	if err != nil {
		return p.failed(err)
	}
	return nil
}

// begin prepares a sign-in. It returns the URL at which the person signs in, and the cookie that
// binds the sign-in to the browser.
func (p *Person) begin(ctx context.Context, l link) (address, cookie string, err error) {
	resource, server, scopes, err := p.discover(ctx, l)
	if err != nil {
		return "", "", err
	}
	registration := p.registration()
	own, err := p.identify(ctx, server, registration)
	if err != nil {
		return "", "", err
	}
	s, err := oauthclient.NewSignIn(server, resource, own, registration.Redirect, scopes)
	if err != nil {
		return "", "", err
	}
	keys, err := p.Keys()
	if err != nil {
		return "", "", err
	}
	cookie = rand.Text()
	raw, err := json.Marshal(flow{l.Owner, p.server.ID, hash(cookie), s})
	if err != nil {
		return "", "", err
	}
	now := p.Now()
	if err := p.Store.PutFlow(ctx, hash(s.State), keys.seal(sealFlow, string(raw), now.Add(linkTime), hash(s.State)), now, now.Add(linkTime)); err != nil {
		return "", "", err
	}
	address, err = s.URL()
	return address, cookie, err
}

// identify returns this client's credentials at an authorization server: those that an operator has
// configured, its metadata document, or those of its registration there.
func (p *Person) identify(ctx context.Context, server *oauthclient.Server, r *oauthclient.Registration) (*oauthclient.Credentials, error) {
	if p.server.Client != nil {
		return p.server.Client()
	}
	keys, err := p.Keys()
	if err != nil {
		return nil, err
	}
	sealed, err := p.Store.RegisteredClient(ctx, server.Issuer, r.Redirect)
	if err != nil {
		return nil, err
	}
	own := &oauthclient.Credentials{}
	text, _, ok := keys.open(sealClient, sealed, p.Now(), server.Issuer, r.Redirect)
	if ok && json.Unmarshal([]byte(text), own) == nil && (own.Expires.IsZero() || p.Now().Add(linkTime).Before(own.Expires)) {
		return own, nil
	}
	if own, err = p.oauth.Identify(ctx, server, r); err != nil || own.ID == r.Document {
		return own, err
	}
	raw, err := json.Marshal(own) //nolint:gosec // it is sealed below
	if err != nil {
		return nil, err
	}
	return own, p.Store.PutRegisteredClient(ctx, server.Issuer, r.Redirect, keys.seal(sealClient, string(raw), never, server.Issuer, r.Redirect))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Complete completes a caller's sign-in with the authorization server's response, which is the
// callback's query. cookies are from the caller's browser. It returns the server's ID.
func (h *Connector) Complete(ctx context.Context, caller toolyard.Caller, cookies []string, query string) (server string, err error) {
	response, err := url.ParseQuery(query)
	if err != nil || len(query) > maxResponse {
		return "", ErrStartAgain
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	f, err := h.takeFlow(ctx, caller, cookies, response.Get("state"))
	if err != nil {
		return "", err
	}
	p := h.Person(f.Server)
	if p == nil {
		return f.Server, toolyard.Errorf(toolyard.NotFound, "Server %s is no longer configured, so you were not connected.", f.Server)
	}
	switch err := p.finish(ctx, f, response); {
	case errors.Is(err, oauthclient.ErrForged):
		h.Log.Warn("authorization server response refused", "server", f.Server, "error", err)
		return f.Server, ErrStartAgain
	case err != nil:
		return f.Server, p.failed(err)
	}
	return f.Server, nil
}

// takeFlow returns the sign-in for a state. The same person must have started it in the same
// browser, and it can be taken only once.
func (h *Connector) takeFlow(ctx context.Context, caller toolyard.Caller, cookies []string, state string) (*flow, error) {
	owner, ok := OwnerOf(caller)
	if !ok {
		return nil, errNoConnection
	}
	if state == "" || len(cookies) == 0 {
		return nil, ErrStartAgain
	}
	keys, err := h.Keys()
	if err != nil {
		return nil, toolyard.Errorf(toolyard.Unavailable, "Connections are currently unavailable.")
	}
	sealed, err := h.Store.TakeFlow(ctx, hash(state))
	if err != nil {
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Connections are currently unavailable.", Err: err}
	}
	f := &flow{}
	text, _, ok := keys.open(sealFlow, sealed, h.Now(), hash(state))
	switch {
	case !ok || json.Unmarshal([]byte(text), f) != nil:
		return nil, ErrStartAgain
	case f.Owner != owner:
		h.Log.Warn("sign-in completed by a different user than the one who started it", "server", f.Server, "caller", owner.Caller, "for", f.Owner.Caller)
		return nil, errOtherPerson
	}
	for _, cookie := range cookies {
		if subtle.ConstantTimeCompare([]byte(hash(cookie)), []byte(f.Browser)) == 1 {
			return f, nil
		}
	}
	return nil, ErrStartAgain
}

// finish redeems the code and stores the connection.
func (p *Person) finish(ctx context.Context, f *flow, response url.Values) error {
	code, err := f.SignIn.Code(response)
	if err != nil {
		return err
	}
	token, err := p.oauth.Redeem(ctx, f.SignIn, code)
	if err != nil {
		return err
	}
	return p.connect(ctx, f.Owner, &grant{
		Server: f.SignIn.Server, Resource: f.SignIn.Resource, Own: f.SignIn.Own, Token: token, Renew: renewAt(token, p.Now()), Requested: f.SignIn.Scopes,
	})
}
