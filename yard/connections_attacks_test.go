package yard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/yard"
)

// started begins a caller's sign-in in a new browser. It returns the browser and the callback URL.
func (c *connectable) started(caller string) (b *browser, callback string) {
	c.t.Helper()
	b = c.page(caller)
	status, answer := b.beginConnection(c.linkFor(caller))
	if status != http.StatusOK {
		c.t.Fatal(status, answer)
	}
	return b, b.leave(answer["address"].(string))
}

func with(address, name, value string) string {
	u, _ := url.Parse(address)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// A48, A49, A50: an authorization server's response counts only for the person who began the
// sign-in, in the same browser, once, and from the expected server.
func TestForgedCallbacksConnectNobody(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	before := c.as.Counts()
	for name, attack := range map[string]func(b *browser, callback string) (int, map[string]any){
		"another person": func(b *browser, callback string) (int, map[string]any) {
			return c.page("bob").finishConnection(b.back(callback))
		},
		"another person in the same browser": func(b *browser, callback string) (int, map[string]any) {
			other := c.page("bob")
			other.cookie["toolyard-connect"] = b.cookie["toolyard-connect"]
			return other.finishConnection(b.back(callback))
		},
		"no session": func(b *browser, callback string) (int, map[string]any) {
			response := b.back(callback)
			b.page = ""
			return b.finishConnection(response)
		},
		"another browser of the person": func(b *browser, callback string) (int, map[string]any) {
			return c.page("ann").finishConnection(b.back(callback))
		},
		"the cookie of another sign-in": func(b *browser, callback string) (int, map[string]any) {
			other, _ := c.started("ann")
			return other.finishConnection(b.back(callback))
		},
		"a page of another site": func(b *browser, callback string) (int, map[string]any) {
			response := b.back(callback)
			b.site = "cross-site"
			return b.finishConnection(response)
		},
		"a page of another port": func(b *browser, callback string) (int, map[string]any) {
			response := b.back(callback)
			b.site = "same-site"
			return b.finishConnection(response)
		},
		"another state": func(b *browser, callback string) (int, map[string]any) {
			return b.finishConnection(b.back(with(callback, "state", "x")))
		},
		"another issuer": func(b *browser, callback string) (int, map[string]any) {
			return b.finishConnection(b.back(with(callback, "iss", "https://evil.example")))
		},
		"an issuer with a slash": func(b *browser, callback string) (int, map[string]any) {
			return b.finishConnection(b.back(with(callback, "iss", c.as.URL+"/")))
		},
		"two states": func(b *browser, callback string) (int, map[string]any) {
			return b.finishConnection(b.back(callback + "&state=x"))
		},
		"an error with a script": func(b *browser, callback string) (int, map[string]any) {
			return b.finishConnection(b.back(with(with(callback, "error", "access_denied"), "error_description", "<script>alert(1)</script>")))
		},
		"no query": func(b *browser, _ string) (int, map[string]any) { return b.finishConnection("%zz") },
	} {
		b, callback := c.started("ann")
		if status, answer := attack(b, callback); status < 400 || status >= 500 || strings.Contains(fmt.Sprint(answer), "script") {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	c.linkFor("ann") // ann is still not connected
	if after := c.as.Counts(); after.Redeemed != before.Redeemed {
		t.Errorf("a code was redeemed: %+v", after)
	}
	b, callback := c.started("ann")
	cookie, response := b.cookie["toolyard-connect"], b.back(callback)
	if status, answer := b.finishConnection(response); status != http.StatusOK {
		t.Error(status, answer)
	}
	b.cookie["toolyard-connect"] = cookie
	if status, answer := b.finishConnection(response); status != http.StatusBadRequest {
		t.Error("a callback counts twice:", status, answer)
	}
}

// A57: the callback accepts only navigation by a browser window, and changes nothing itself.
func TestCallbackIsOnlyANavigation(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	for name, request := range map[string]struct{ method, header, value, query string }{
		"too long":   {method: http.MethodGet, query: strings.Repeat("x", 9<<10)},
		"a form":     {method: http.MethodPost},
		"HEAD":       {method: http.MethodHead},
		"an image":   {method: http.MethodGet, header: "Sec-Fetch-Dest", value: "image"},
		"a frame":    {method: http.MethodGet, header: "Sec-Fetch-Dest", value: "iframe"},
		"a prefetch": {method: http.MethodGet, header: "Sec-Purpose", value: "prefetch"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), request.method, c.url+"/oauth/callback?code=c&state=s"+request.query, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if request.header != "" {
			req.Header.Set(request.header, request.value)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode < 400 || res.Header.Get("Location") != "" {
			t.Errorf("%s: %s", name, res.Status)
		}
	}
}

// A55: only the person that a link was made for can use it. Attempts by others, even operators,
// change nothing and are recorded.
func TestLinksWorkOnlyForTheirPerson(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	link := c.linkFor("ann")
	server, ticket := ticketOf(link)
	codes := c.as.Counts().Codes
	nobody := newBrowser(t, &testAPI{Server: c.server})
	for name, want := range map[string]struct {
		b      *browser
		status int
	}{
		"another person": {c.page("bob"), http.StatusForbidden}, "an operator": {c.page("local"), http.StatusForbidden}, "nobody": {nobody, http.StatusUnauthorized},
	} {
		for _, step := range []string{"review", "signin"} {
			status, answer := want.b.send("POST", "/connections/"+server+"/"+step, map[string]string{"ticket": ticket})
			if status != want.status || strings.Contains(fmt.Sprint(answer), "ann") || want.b.cookie["toolyard-connect"] != "" {
				t.Errorf("%s, %s: %d %v", name, step, status, answer)
			}
		}
	}
	if n := c.as.Counts().Codes; n != codes {
		t.Errorf("%d sign-ins were begun", n-codes)
	}
	if _, body := c.api("GET", "/changes?action=connection.signin&caller=bob", ""); !strings.Contains(body, `"status":403`) {
		t.Error("the attempt is not recorded:", body)
	}
	c.signIn(link, "ann", "ann.smith") // the attempts did not use up the link
	c.expect("ann", "ann.smith")
	c.linkFor("bob")
}

// newPeopleYard serves the server crm to people of an issuer, who connect to it in the console.
func newPeopleYard(t *testing.T, as *oauthtest.Server, o yard.Options) (*testAPI, *issuertest.Issuer) {
	t.Helper()
	corp := issuertest.New(t)
	corp.Provider.Secret = "secret-of-the-console"
	t.Setenv("CONSOLE_SECRET", corp.Provider.Secret)
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
issuers:
  corp:
    issuer: %s
    console: {client: console, secretRef: env:CONSOLE_SECRET}
    access: [{anyone: true, gates: [chat]}]
servers:
  crm: {url: %q, auth: {type: person}, effects: {"*": read}}
gates:
  chat: {mode: read, callers: tokens}
`, publicURL, corp.URL, startProtectedServer(t, as, false)), o)
	within(t, time.Minute, "the issuer to be known", func() bool {
		status, _ := s.do(t, "none", "POST", "/api/v1/signin/issuers/corp", "")
		return status == http.StatusOK
	})
	return s, corp
}

// A55 for an issuer's person: neither another person's session nor an API key with the same caller
// ID owns the link.
func TestLinksOfPeopleWorkOnlyInTheirSession(t *testing.T) {
	as := oauthtest.New(t)
	s, corp := newPeopleYard(t, as, yard.Options{Tools: []*toolyard.Tool{whoami}})
	people := make(map[string]*browser)
	for _, name := range []string{"ann", "bob"} {
		corp.Provider.SetClaims(map[string]any{"sub": name, "groups": []string{"staff"}})
		people[name] = newBrowser(t, s)
		people[name].signIn(corp)
	}
	key, token, err := identity.New("twin", "corp:ann", "corp:ann", nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.PutKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	people["twin"] = newBrowser(t, s)
	people["twin"].enterConsole(token)
	status, answer := people["ann"].send("POST", "/connections/crm", nil)
	link, _ := answer["url"].(string)
	if status != http.StatusOK || !strings.HasPrefix(link, publicURL+"/console/connections/crm#ticket=") {
		t.Fatal(status, answer)
	}
	for _, name := range []string{"bob", "twin"} {
		if status, answer := people[name].beginConnection(link); status != http.StatusForbidden {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if status, answer := people["ann"].beginConnection(link); status != http.StatusOK {
		t.Error(status, answer)
	}
}

// A56: a link is valid for one sign-in to one server.
func TestForgedLinksBeginNoSignIn(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	link := c.linkFor("ann")
	address, ticket, _ := strings.Cut(link, "#ticket=")
	codes := c.as.Counts().Codes
	ann := c.page("ann")
	for name, forged := range map[string]string{
		"changed": address + "#ticket=" + ticket[:20] + "A" + ticket[21:] + "x", "cut": link[:len(link)-4],
		"another server": strings.Replace(link, "/crm", "/other", 1),
	} {
		if status, answer := ann.beginConnection(forged); status != http.StatusBadRequest && status != http.StatusNotFound {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	if n := c.as.Counts().Codes; n != codes {
		t.Errorf("%d sign-ins were begun", n-codes)
	}
	c.signIn(link, "ann", "ann.smith")
	if status, answer := ann.beginConnection(link); status != http.StatusBadRequest {
		t.Error("a link counts twice:", status, answer)
	}
	c.expect("ann", "ann.smith")
}

// A58: a page on another site or another port cannot begin a sign-in.
func TestOtherSitesBeginNoSignIn(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	b := c.page("local")
	for _, site := range []string{"cross-site", "same-site", "none"} {
		b.site = site
		if status, answer := b.send("POST", "/connections/crm/signin", map[string]string{}); status != http.StatusForbidden && status != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", site, status, answer)
		}
	}
	if b.cookie["toolyard-connect"] != "" {
		t.Error("a sign-in has begun")
	}
}

// A59: only the caller receives the link in an error. Its ticket appears in neither logs nor
// recorded calls.
func TestTicketsAreNotLogged(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	_, ticket := ticketOf(c.linkFor("ann"))
	var calls string
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(calls, `"caller":"ann"`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the call was not recorded", calls)
		}
		_, calls = c.api("GET", "/calls", "")
	}
	for place, text := range map[string]string{"log": c.log.String(), "recorded calls": calls} {
		if !strings.Contains(text, "SIGN_IN_REQUIRED") || strings.Contains(text, ticket) {
			t.Errorf("%s: %s", place, text)
		}
	}
}

// A59: a callback reveals nothing to other sites, caches or logs, because the response is moved to
// the fragment.
func TestCallbackIsPrivate(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(c.url + "/oauth/callback?code=c&state=s")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Location": "/console/connections#code=c&state=s"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A60: people are redirected to the configured address, regardless of the request's headers.
func TestRedirectIsTheConfiguredAddress(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/api/v1/connections/crm/signin", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + operatorToken, "Content-Type": "application/json", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http", "Forwarded": "host=evil.example",
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var begun struct{ Address string }
	if err := json.NewDecoder(res.Body).Decode(&begun); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	address, err := url.Parse(begun.Address)
	if err != nil || address.Query().Get("redirect_uri") != c.url+"/oauth/callback" {
		t.Error(begun.Address, err)
	}
}

// A73: the store's files contain no tokens, client secrets or keys that people entered.
func TestStoreFilesContainNoTokens(t *testing.T) {
	as := oauthtest.New(t)
	dir := t.TempDir()
	c := newReplica(t, as, startProtectedServer(t, as, false), "{type: person}", "sqlite:"+filepath.Join(dir, "connections.db"))
	c.start()
	c.as.Expire()
	c.expect("local", "operator") // after a token refresh
	if c.as.Counts().Registrations == 0 || c.as.Counts().Refreshes == 0 {
		t.Fatalf("%+v", c.as.Counts())
	}
	files, err := filepath.Glob(filepath.Join(dir, "connections.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tokens := regexp.MustCompile(`[ar]t-[A-Z2-7]{26}|secret-of-client`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := tokens.Find(data); found != nil {
			t.Errorf("%s contains %s", filepath.Base(file), found)
		}
	}
}

// A84: if a server is removed from the configuration during a sign-in, no token is requested and
// the person sees an error.
func TestSignInEndsWhenTheServerIsRemoved(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	b, callback := c.started("ann")
	before := c.as.Counts().Redeemed
	text, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.file, []byte(strings.Replace(string(text), "  crm:", "  other:", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	status, answer := b.finishConnection(b.back(callback))
	if status != http.StatusNotFound || !strings.Contains(fmt.Sprint(answer), "no longer configured") {
		t.Error(status, answer)
	}
	if after := c.as.Counts().Redeemed; after != before {
		t.Errorf("%d codes were redeemed", after-before)
	}
}

// A75: a person who connects with another account gets a new session at a legacy server.
func TestNewAccountEndsTheOldSession(t *testing.T) {
	c := newConnectable(t, true, "{type: person}")
	c.start()
	c.signIn(c.linkFor("ann"), "ann", "ann.private")
	c.expect("ann", "ann.private")
	// The operator connects again while still connected.
	c.signIn(c.operatorLink(), "local", "operator.new")
	c.expect("local", "operator.new")
	c.expect("ann", "ann.private")
}
