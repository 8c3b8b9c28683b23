package serverauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
)

// Paths of the pages.
const (
	ConnectPath  = "/connect"
	CallbackPath = "/oauth/callback"
	DocumentPath = "/oauth/client.json"
)

const (
	maxForm      = 64 << 10
	maxSecret    = 8 << 10
	startTimeout = 30 * time.Second
)

// Pages serves the pages on which people connect to servers.
type Pages struct {
	Options
	Person func(server string) *Person // nil for unknown servers
}

// Register adds the pages to a server.
func (h *Pages) Register(mux *http.ServeMux) {
	mux.HandleFunc(ConnectPath+"/{server}", h.connect)
	mux.HandleFunc(CallbackPath, h.callback)
}

// ServeDocument serves the metadata document of this client to authorization servers.
func (h *Pages) ServeDocument(w http.ResponseWriter, r *http.Request) {
	if h.URL == "" || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(h.registration().ClientDocument())
}

// registration describes this client to authorization servers.
func (o *Options) registration() *oauthclient.Registration {
	r := &oauthclient.Registration{Name: o.Name, Redirect: o.URL + CallbackPath}
	if strings.HasPrefix(o.URL, "https://") {
		r.Document = o.URL + DocumentPath
	}
	return r
}

// page is the content of a page.
type page struct {
	Title, Text string
	Status      int
	// For the page that asks:
	Server, Host, Caller, Ticket string
	Scopes                       []string
	Secret                       bool // the person enters a secret
}

var layout = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:10vh auto;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}dt{color:#555}dd{margin:0 0 .6rem;overflow-wrap:anywhere}button{font:inherit;padding:.5rem 1.2rem;border:0;border-radius:.4rem;background:#1f5fbf;color:#fff}
input{font:inherit;width:100%;padding:.4rem;margin:.3rem 0 1rem;box-sizing:border-box}
@media (prefers-color-scheme:dark){body{color:#eee;background:#161616}dt{color:#aaa}}</style></head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p>
{{if .Ticket}}<dl><dt>Server</dt><dd>{{.Server}}</dd>{{if .Host}}<dt>You sign in at</dt><dd>{{.Host}}</dd>{{end}}<dt>For calls of</dt><dd>{{.Caller}}</dd>
{{if .Scopes}}<dt>Requested rights</dt><dd>{{range .Scopes}}{{.}} {{end}}</dd>{{end}}</dl>
<p>Continue only if you are {{.Caller}} and have just been asked to do this. Calls of {{.Caller}} will use your account at this server.</p>
<form method="post" action="{{.Server}}"><input type="hidden" name="ticket" value="{{.Ticket}}">
{{if .Secret}}<label>Key or token <input type="password" name="secret" required autocomplete="off" maxlength="8192"></label>{{end}}
<button>{{if .Secret}}Save{{else}}Continue{{end}}</button></form>{{end}}
</main></body></html>
`))

func (h *Pages) show(w http.ResponseWriter, p page) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "same-origin") // no-referrer would remove the origin from the form's request
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(max(p.Status, http.StatusOK))
	if err := layout.Execute(w, p); err != nil {
		h.Log.Debug("a page could not be sent", "error", err)
	}
}

// startAgain is shown for everything that does not belong to a sign-in of this browser.
var startAgain = page{
	Title: "Start again", Text: "This link is not valid, has expired or was used before. Call the tool again to get a new link.", Status: http.StatusBadRequest,
}

// navigates reports whether a request is the navigation of a person's browser window: not a frame, an
// image or a prefetch.
func navigates(r *http.Request) bool {
	dest := r.Header.Get("Sec-Fetch-Dest")
	return (dest == "" || dest == "document") && r.Header.Get("Sec-Purpose") == "" && r.Header.Get("Purpose") == ""
}

// connect shows what the person is asked for, and begins the sign-in when they agree.
func (h *Pages) connect(w http.ResponseWriter, r *http.Request) {
	p := h.Person(r.PathValue("server"))
	if p == nil || !navigates(r) {
		h.show(w, startAgain)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), startTimeout)
	defer cancel()
	switch r.Method {
	case http.MethodGet:
		h.ask(ctx, w, p, r.URL.Query().Get("ticket"))
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		h.agree(ctx, w, r, p)
	default:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// ask shows what the person is asked for. It changes nothing.
func (h *Pages) ask(ctx context.Context, w http.ResponseWriter, p *Person, ticket string) {
	l, _, ok := p.openLink(ticket)
	if !ok {
		h.show(w, startAgain)
		return
	}
	shown := page{
		Title: "Connect " + p.server.ID, Server: p.server.ID, Caller: l.Owner.Caller, Ticket: ticket, Secret: p.header != "",
		Text: p.Name + " asks for access to a server in your name.",
	}
	if p.header == "" {
		_, server, scopes, err := p.discover(ctx, l)
		if err != nil {
			h.fail(w, p, err)
			return
		}
		shown.Host, shown.Scopes = hostOf(server.AuthorizationURL), scopes
	}
	h.show(w, shown)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func (h *Pages) fail(w http.ResponseWriter, p *Person, err error) {
	h.Log.Warn("a person cannot connect to a server", "server", p.server.ID, "error", err)
	h.show(w, page{
		Title: "Not connected", Status: http.StatusBadGateway,
		Text: "The connection to " + p.server.ID + " failed. The log of " + h.Name + " contains the reason. Try again later.",
	})
}

// openLink opens the ticket of a link.
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

// flow is a sign-in in progress, sealed in the store.
type flow struct {
	Owner   Owner               `json:"owner"`
	Server  string              `json:"server"`
	Browser string              `json:"browser"` // hash of the cookie
	SignIn  *oauthclient.SignIn `json:"signIn"`
}

// agree begins the sign-in of a person who agreed, or stores the secret that the person has entered.
func (h *Pages) agree(ctx context.Context, w http.ResponseWriter, r *http.Request, p *Person) {
	l, id, ok := p.openLink(r.PostFormValue("ticket"))
	if !ok {
		h.show(w, startAgain)
		return
	}
	if p.header != "" {
		h.enter(ctx, w, r, p, l, id)
		return
	}
	address, cookie, err := p.begin(ctx, l)
	if err != nil {
		h.fail(w, p, err)
		return
	}
	if !h.consume(ctx, w, p, id) {
		return
	}
	h.setCookie(w, cookie, linkTime)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, address, http.StatusSeeOther) //nolint:gosec // to the authorization server, whose address was checked
}

// consume marks a link as used. It shows a page if it was used before.
func (h *Pages) consume(ctx context.Context, w http.ResponseWriter, p *Person, id string) bool {
	_, first, err := p.Store.Consume(ctx, id, p.holder, p.Now().Add(linkTime))
	switch {
	case err != nil:
		h.fail(w, p, err)
	case !first:
		h.show(w, startAgain)
	}
	return err == nil && first
}

// enter stores the secret of a person.
func (h *Pages) enter(ctx context.Context, w http.ResponseWriter, r *http.Request, p *Person, l link, id string) {
	value := strings.TrimSpace(r.PostFormValue("secret"))
	if value == "" || len(value) > maxSecret || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		h.show(w, page{Title: "Not saved", Text: "The key contains characters that cannot be sent. Go back and enter it again.", Status: http.StatusBadRequest})
		return
	}
	if !h.consume(ctx, w, p, id) {
		return
	}
	if err := p.connect(ctx, l.Owner, &grant{Secret: value}); err != nil {
		h.fail(w, p, err)
		return
	}
	h.show(w, connected(p))
}

func connected(p *Person) page {
	return page{Title: "Connected", Text: "You are connected to " + p.server.ID + ". Close this page and return to your client."}
}

// begin prepares a sign-in, and returns the address at which the person signs in and the cookie that
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

// identify returns the credentials of this client at an authorization server: those that an operator
// has configured, its document, or those of its only registration there.
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
	raw, err := json.Marshal(own) //nolint:gosec // it is sealed
	if err != nil {
		return nil, err
	}
	return own, p.Store.PutRegisteredClient(ctx, server.Issuer, r.Redirect, keys.seal(sealClient, string(raw), never, server.Issuer, r.Redirect))
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// cookieName returns the name of the cookie that binds a sign-in to a browser.
func (h *Pages) cookieName() string {
	if strings.HasPrefix(h.URL, "https://") {
		return "__Host-toolyard-connect"
	}
	return "toolyard-connect"
}

func (h *Pages) setCookie(w http.ResponseWriter, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // on loopback there is no TLS
		Name: h.cookieName(), Value: value, Path: "/", MaxAge: max(-1, int(age.Seconds())), HttpOnly: true,
		Secure: strings.HasPrefix(h.URL, "https://"), SameSite: http.SameSiteLaxMode,
	})
}

// callback receives the person who returns from the authorization server.
func (h *Pages) callback(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !navigates(r) {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), startTimeout)
	defer cancel()
	response, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		h.show(w, startAgain)
		return
	}
	f, p := h.takeFlow(ctx, r, response.Get("state"))
	if p == nil {
		h.show(w, startAgain)
		return
	}
	h.setCookie(w, "", -1)
	switch err := p.finish(ctx, f, response); {
	case errors.Is(err, oauthclient.ErrForged):
		h.Log.Warn("a response of an authorization server was refused", "server", p.server.ID, "error", err)
		h.show(w, startAgain)
	case err != nil:
		h.fail(w, p, err)
	default:
		h.show(w, connected(p))
	}
}

// takeFlow returns the sign-in of a state, which was begun by the same browser. It can be taken once.
func (h *Pages) takeFlow(ctx context.Context, r *http.Request, state string) (*flow, *Person) {
	cookies := slices.DeleteFunc(r.Cookies(), func(c *http.Cookie) bool { return c.Name != h.cookieName() })
	if state == "" || len(cookies) != 1 {
		return nil, nil
	}
	sealed, err := h.Store.TakeFlow(ctx, hash(state))
	if err != nil || sealed == "" {
		return nil, nil
	}
	keys, err := h.Keys()
	if err != nil {
		return nil, nil
	}
	f := &flow{}
	text, _, ok := keys.open(sealFlow, sealed, h.Now(), hash(state))
	if !ok || json.Unmarshal([]byte(text), f) != nil || subtle.ConstantTimeCompare([]byte(hash(cookies[0].Value)), []byte(f.Browser)) != 1 {
		return nil, nil
	}
	return f, h.Person(f.Server)
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
