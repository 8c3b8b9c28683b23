package yard_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/yard"
)

const peopleConfig = `
url: %s
hosts: [tools.example.com]
secrets: {console: env:CONSOLE_SECRET}
issuers:
  corp:
    issuer: %s
    console: {client: console, secretRef: console}
    access:
      - {groups: [staff], gates: [chat]}
      - {groups: [platform], role: operator}
  other:
    issuer: %s
    console: {client: console, secretRef: console}
    access: [{anyone: true, gates: [chat]}]
gates:
  chat: {mode: read, callers: tokens}
`

// newPeopleAPI serves a console for two issuers.
func newPeopleAPI(t *testing.T) (s *testAPI, corp, other *issuertest.Issuer) {
	t.Helper()
	t.Setenv("CONSOLE_SECRET", "s3cret")
	corp, other = issuertest.New(t), issuertest.New(t)
	corp.Provider.Secret, other.Provider.Secret = "s3cret", "s3cret"
	s = newTestAPI(t, fmt.Sprintf(peopleConfig, publicURL, corp.URL, other.URL), yard.Options{Tools: []*toolyard.Tool{whoami}})
	for _, issuer := range []string{"corp", "other"} { // on a loaded machine, the first attempt may be too early
		within(t, time.Minute, "the issuer to be known", func() bool {
			status, _ := s.do(t, "none", "POST", "/api/v1/signin/issuers/"+issuer, "")
			return status == http.StatusOK
		})
	}
	return s, corp, other
}

// browser is a browser with the console open. It has cookies and the page's session storage.
type browser struct {
	t      *testing.T
	server *httptest.Server
	site   string            // value of Sec-Fetch-Site
	cookie map[string]string // keyed by name
	flow   string            // secret of the current sign-in
	page   string            // page secret
}

func newBrowser(t *testing.T, s *testAPI) *browser {
	return &browser{t: t, server: s.Server, site: "same-origin", cookie: map[string]string{}}
}

func (b *browser) clone() *browser {
	c := *b
	c.cookie = maps.Clone(b.cookie)
	return &c
}

// send sends a request as the page does, and decodes the response.
func (b *browser) send(method, path string, body any) (status int, answer map[string]any) {
	b.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+"/api/v1"+path, bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", b.site)
	if b.page != "" {
		r.Header.Set("Toolyard-Page-Secret", b.page)
	}
	for name, value := range b.cookie {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	res, err := b.server.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for _, c := range res.Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/api/v1" {
			b.t.Errorf("weak cookie %s", c)
		}
		b.cookie[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookie, c.Name)
		}
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = json.Unmarshal(text, &answer)
	return res.StatusCode, answer
}

// begin begins a sign-in and returns the issuer's URL.
func (b *browser) begin(issuer string) string {
	b.t.Helper()
	status, answer := b.send("POST", "/signin/issuers/"+issuer, struct{}{})
	if status != http.StatusOK {
		b.t.Fatal(status, answer)
	}
	b.flow = answer["secret"].(string)
	return answer["address"].(string)
}

// complete sends an issuer's response, as the page at its redirect URI does.
func (b *browser) complete(issuer string, response url.Values) (status int, answer map[string]any) {
	b.t.Helper()
	status, answer = b.send("POST", "/signin/response", map[string]string{
		"issuer": issuer, "secret": b.flow, "state": response.Get("state"), "code": response.Get("code"), "iss": response.Get("iss"), "error": response.Get("error"),
	})
	if secret, ok := answer["pageSecret"].(string); ok {
		b.page = secret
	}
	return status, answer
}

// signIn signs in a person from the issuer corp.
func (b *browser) signIn(corp *issuertest.Issuer) {
	b.t.Helper()
	if status, answer := b.complete("corp", corp.Authorize(b.begin("corp"))); status != http.StatusOK {
		b.t.Fatal(status, answer)
	}
}

func (b *browser) me() (status int, caller, role string) {
	b.t.Helper()
	status, answer := b.send("GET", "/me", nil)
	return status, fmt.Sprint(answer["caller"]), fmt.Sprint(answer["role"])
}

func TestPeopleSignInToTheConsole(t *testing.T) {
	s, corp, _ := newPeopleAPI(t)
	b := newBrowser(t, s)
	if _, answer := b.send("GET", "/signin", nil); fmt.Sprint(answer["issuers"]) != "[corp other]" || answer["url"] != publicURL {
		t.Error(answer)
	}
	b.signIn(corp)
	if status, caller, role := b.me(); status != 200 || caller != "corp:ann" || role != "caller" {
		t.Error(status, caller, role)
	}
	if status, answer := b.send("POST", "/calls", map[string]any{"gate": "chat", "tool": "whoami", "args": struct{}{}}); status != 200 || !strings.Contains(fmt.Sprint(answer), "corp:ann") {
		t.Error(status, answer)
	}
	if status, answer := b.send("GET", "/people", nil); status != 403 || !strings.Contains(fmt.Sprint(answer), "no access rule for issuer corp grants") {
		t.Error(status, answer)
	}

	corp.Provider.SetClaims(map[string]any{"sub": "olivia", "groups": []string{"platform"}})
	operator := newBrowser(t, s)
	operator.signIn(corp)
	if status, caller, role := operator.me(); status != 200 || caller != "corp:olivia" || role != "operator" {
		t.Error(status, caller, role)
	}
	if status, answer := operator.send("GET", "/issuers", nil); status != 200 || !strings.Contains(fmt.Sprint(answer), publicURL+"/console/signin/corp") {
		t.Error(status, answer)
	}
	if status, _ := operator.send("DELETE", "/signin", nil); status != 204 || len(operator.cookie) > 0 {
		t.Error(status, operator.cookie)
	}
	if _, _, role := operator.me(); role == "operator" {
		t.Error("still signed in")
	}
}

// A sign-in can be completed only once, in the browser and on the origin where it began, and only
// with its own issuer's response. Otherwise the code is not sent anywhere.
func TestSignInIsBoundToTheBrowser(t *testing.T) {
	s, corp, other := newPeopleAPI(t)
	for name, attack := range map[string]func(victim *browser) (int, map[string]any){
		"login CSRF: the attacker's response in another browser": func(victim *browser) (int, map[string]any) {
			attacker := newBrowser(t, s)
			return victim.complete("corp", corp.Authorize(attacker.begin("corp")))
		},
		"login CSRF: the attacker's response and cookie, set from another port": func(victim *browser) (int, map[string]any) {
			attacker := newBrowser(t, s)
			response := corp.Authorize(attacker.begin("corp"))
			victim.begin("corp") // the origin's storage contains a secret of the victim
			victim.cookie = attacker.cookie
			return victim.complete("corp", response)
		},
		"the victim's cookie and response, read on another port": func(victim *browser) (int, map[string]any) {
			response := corp.Authorize(victim.begin("corp"))
			thief := victim.clone()
			thief.flow = "guessed"
			return thief.complete("corp", response)
		},
		"no cookie": func(victim *browser) (int, map[string]any) {
			response := corp.Authorize(victim.begin("corp"))
			clear(victim.cookie)
			return victim.complete("corp", response)
		},
		"no secret of the page": func(victim *browser) (int, map[string]any) {
			response := corp.Authorize(victim.begin("corp"))
			victim.flow = ""
			return victim.complete("corp", response)
		},
		"state of an earlier sign-in": func(victim *browser) (int, map[string]any) {
			response := corp.Authorize(victim.begin("corp"))
			victim.begin("corp")
			return victim.complete("corp", response)
		},
		"mix-up: response at the redirect URI of another issuer": func(victim *browser) (int, map[string]any) {
			return victim.complete("other", corp.Authorize(victim.begin("corp")))
		},
		"mix-up: response of another issuer": func(victim *browser) (int, map[string]any) {
			return victim.complete("corp", other.Authorize(victim.begin("corp")))
		},
		"page of another origin on the host": func(victim *browser) (int, map[string]any) {
			response := corp.Authorize(victim.begin("corp"))
			victim.site = "same-site"
			return victim.complete("corp", response)
		},
		"begin from another site": func(victim *browser) (int, map[string]any) {
			victim.site = "cross-site"
			return victim.send("POST", "/signin/issuers/corp", struct{}{})
		},
		"person's cookie as a sign-in": func(victim *browser) (int, map[string]any) {
			response := corp.Authorize(victim.begin("corp"))
			victim.cookie["toolyard-signin"] = victim.cookie["toolyard-signin"][:20]
			return victim.complete("corp", response)
		},
	} {
		before := corp.Provider.TokenRequests.Load() + other.Provider.TokenRequests.Load()
		victim := newBrowser(t, s)
		status, answer := attack(victim)
		if status != http.StatusUnauthorized && status != http.StatusForbidden || victim.page != "" || victim.cookie["toolyard"] != "" {
			t.Errorf("%s: %d %v", name, status, answer)
		}
		if n := corp.Provider.TokenRequests.Load() + other.Provider.TokenRequests.Load() - before; n != 0 {
			t.Errorf("%s: %d token requests", name, n)
		}
	}
}

// A response is used once, even if the browser keeps the cookie.
func TestSignInIsCompletedOnce(t *testing.T) {
	s, corp, _ := newPeopleAPI(t)
	b := newBrowser(t, s)
	response := corp.Authorize(b.begin("corp"))
	replayed := b.clone()
	if status, answer := b.complete("corp", response); status != 200 {
		t.Fatal(status, answer)
	}
	if _, kept := b.cookie["toolyard-signin"]; kept {
		t.Error("the cookie of the sign-in is kept")
	}
	requests := corp.Provider.TokenRequests.Load()
	for _, again := range []*browser{b.clone(), replayed} {
		if status, answer := again.complete("corp", response); status != 401 {
			t.Error(status, answer)
		}
	}
	if n := corp.Provider.TokenRequests.Load(); n != requests {
		t.Errorf("%d token requests, want %d", n, requests)
	}
}

// A person's cookie is useless without the page secret, on another origin, and after a new sign-in.
func TestPersonCookieAlone(t *testing.T) {
	s, corp, _ := newPeopleAPI(t)
	corp.Provider.SetClaims(map[string]any{"groups": []string{"platform"}})
	b := newBrowser(t, s)
	b.cookie["toolyard"] = "fixed" // session fixation: the sign-in must replace it
	b.signIn(corp)
	first := b.clone()
	b.signIn(corp)
	if b.cookie["toolyard"] == first.cookie["toolyard"] || b.page == first.page {
		t.Error("a sign-in reuses the cookie or the page secret")
	}
	for name, thief := range map[string]*browser{
		"no page secret":              {cookie: b.cookie, site: "same-origin"},
		"guessed page secret":         {cookie: b.cookie, site: "same-origin", page: "guessed"},
		"page secret of an older one": {cookie: b.cookie, site: "same-origin", page: first.page},
		"another origin":              {cookie: b.cookie, site: "same-site", page: b.page},
	} {
		thief.t, thief.server = t, s.Server
		if _, _, role := thief.me(); role == "operator" {
			t.Errorf("%s: signed in", name)
		}
	}
}

// A person who matches no rule is refused, and stays signed out.
func TestSignInWithoutARule(t *testing.T) {
	s, corp, _ := newPeopleAPI(t)
	corp.Provider.SetClaims(map[string]any{"sub": "mallory", "groups": []string{"guests"}})
	b := newBrowser(t, s)
	status, answer := b.complete("corp", corp.Authorize(b.begin("corp")))
	if status != 403 || !strings.Contains(fmt.Sprint(answer["message"]), `lists ["guests"]`) || b.cookie["toolyard"] != "" {
		t.Error(status, answer)
	}
}

// Blocking a person, or changing a rule, ends the person's sign-ins and access tokens.
func TestBlockedPeople(t *testing.T) {
	s, corp, _ := newPeopleAPI(t)
	b := newBrowser(t, s)
	b.signIn(corp)
	token := corp.Token(publicURL+"/mcp/chat", nil)
	gate := func() int { status, _, _ := post(t, s.Server, "/mcp/chat", token); return status }
	if status := gate(); status != 200 {
		t.Fatal(status)
	}
	within(t, time.Minute, "the person to be listed", func() bool {
		_, answer := s.do(t, "viewer", "GET", "/api/v1/people?q=EXAMPLE.com&issuer=corp", "")
		return strings.Contains(fmt.Sprint(answer), "corp:ann") && strings.Contains(fmt.Sprint(answer), "Ann Example")
	})

	// Another process blocks the person, and the store notifies this one.
	if status, answer := s.do(t, "operator", "POST", "/api/v1/people/corp:ann/block", `{"reason":"left"}`); status != 200 || !strings.Contains(fmt.Sprint(answer["blocked"]), "left") {
		t.Fatal(status, answer)
	}
	within(t, time.Minute, "the sign-in to end", func() bool { status, _, _ := b.me(); return status == 401 })
	within(t, time.Minute, "the token to be refused", func() bool { return gate() == 403 })
	if status, answer := b.complete("corp", corp.Authorize(b.begin("corp"))); status != 403 || !strings.Contains(fmt.Sprint(answer), "blocked") {
		t.Error(status, answer)
	}
	if _, answer := s.do(t, "viewer", "GET", "/api/v1/people?state=active", ""); strings.Contains(fmt.Sprint(answer), "corp:ann") {
		t.Error(answer)
	}

	if status, answer := s.do(t, "operator", "POST", "/api/v1/people/corp:ann/unblock", ""); status != 200 || answer["blocked"] != nil {
		t.Fatal(status, answer)
	}
	within(t, time.Minute, "the sign-in to be valid again", func() bool { status, _, _ := b.me(); return status == 200 })
	within(t, time.Minute, "the token to be accepted", func() bool { return gate() == 200 })

	for path, want := range map[string]int{"/people/ann/block": 404, "/people/corp:nobody/unblock": 404, "/people/corp:new/block": 200} {
		if status, answer := s.do(t, "operator", "POST", "/api/v1"+path, "{}"); status != want {
			t.Error(path, status, answer)
		}
	}
}

// When another process blocks a person, the store notifies this one.
func TestAPersonBlockedElsewhereIsRefusedSoon(t *testing.T) {
	s, corp, _ := newPeopleAPI(t)
	b := newBrowser(t, s)
	b.signIn(corp)
	if status, _, _ := b.me(); status != 200 {
		t.Fatal(status)
	}
	blockInStore(t, s, "corp:ann")
	within(t, time.Minute, "the sign-in to end", func() bool { status, _, _ := b.me(); return status == 401 })
}

// People cannot block themselves, and lose their sign-in when the rules change.
func TestRulesApplyToSignedInPeople(t *testing.T) {
	s, corp, other := newPeopleAPI(t)
	corp.Provider.SetClaims(map[string]any{"sub": "olivia", "groups": []string{"platform"}})
	b := newBrowser(t, s)
	b.signIn(corp)
	if status, answer := b.send("POST", "/people/corp:olivia/block", struct{}{}); status != 400 {
		t.Error(status, answer)
	}
	text := strings.Replace(fmt.Sprintf(peopleConfig, publicURL, corp.URL, other.URL), "groups: [platform], role: operator", "groups: [platform], role: viewer", 1)
	reload := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.yard.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(text)
	if status, _, role := b.me(); status != 200 || role != "viewer" {
		t.Error(status, role)
	}
	reload(strings.Replace(text, "groups: [platform]", "groups: [admins]", 1))
	if status, _, _ := b.me(); status != 401 {
		t.Error(status)
	}
}

func blockInStore(t *testing.T, s *testAPI, caller string) {
	t.Helper()
	if _, err := s.store.BlockPerson(t.Context(), caller, store.Block{At: time.Now(), By: "olivia"}); err != nil {
		t.Fatal(err)
	}
}
