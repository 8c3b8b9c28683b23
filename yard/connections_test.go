package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/yard"
)

const operatorToken = "operator-token-of-this-test"

// connectable is a yard with the server crm, which is called on behalf of each caller.
type connectable struct {
	*yard.Yard
	t   *testing.T
	as  *oauthtest.Server
	url string
}

func newConnectable(t *testing.T, legacy bool, auth string) *connectable {
	t.Helper()
	as := oauthtest.New(t)
	address := startProtectedServer(t, as, legacy)
	return newReplica(t, as, address, auth, "memory")
}

// newReplica starts a yard with its own address.
func newReplica(t *testing.T, as *oauthtest.Server, address, auth, store string) *connectable {
	t.Helper()
	var handler atomic.Pointer[http.Handler]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	text := fmt.Sprintf(`
url: %s
store: %s
connections: {keys: ["env:CONNECTIONS"]}
servers:
  crm: {url: %q, auth: %s, effects: {"*": read}}
`, server.URL, store, address, auth)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{
		ConfigFile: file, Command: yard.Command{OperatorToken: operatorToken},
		Process: yard.Process{Getenv: func(name string) (string, bool) {
			return strings.Repeat("k", 32), name == "CONNECTIONS"
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := y.Handler()
	handler.Store(&h)
	runYard(t, y)
	return &connectable{y, t, as, server.URL}
}

// api sends a request of the operator to the HTTP API.
func (c *connectable) api(method, path string) (int, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/api/v1"+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// operatorLink returns a link for the operator.
func (c *connectable) operatorLink() string {
	c.t.Helper()
	status, body := c.api("POST", "/connections/crm")
	var page struct{ URL string }
	if status != http.StatusOK || json.Unmarshal([]byte(body), &page) != nil || page.URL == "" {
		c.t.Fatal(status, body)
	}
	return page.URL
}

// visit is a visit of a person with a browser.
type visit struct {
	*http.Client
	t *testing.T
}

func newVisit(t *testing.T) *visit {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visit{&http.Client{Jar: jar}, t}
}

func (b *visit) read(res *http.Response, err error) string {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return html.UnescapeString(string(body))
}

var ticketField = regexp.MustCompile(`name="ticket" value="([^"]+)"`)

// connect opens a link and agrees, and returns the last page. The authorization server signs in a
// person without a page.
func (b *visit) connect(link string, fields ...string) string {
	b.t.Helper()
	page := b.read(b.Get(link))
	ticket := ticketField.FindStringSubmatch(page)
	if ticket == nil {
		return page
	}
	form := url.Values{"ticket": {ticket[1]}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	address, _, _ := strings.Cut(link, "?")
	return b.read(b.PostForm(address, form))
}

// signIn connects a person, who has the account of the same name at the server.
func (c *connectable) signIn(link, person string) {
	c.t.Helper()
	c.as.Set(func(s *oauthtest.Server) { s.Person = person })
	if page := newVisit(c.t).connect(link); !strings.Contains(page, "<h1>Connected</h1>") {
		c.t.Fatal(page)
	}
}

// start lets the operator connect, so that the tools are known.
func (c *connectable) start() {
	c.t.Helper()
	c.signIn(c.operatorLink(), "operator")
	c.awaitTool()
}

func (c *connectable) awaitTool() {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := callWhoami(c.t, c.Yard, ""); toolyard.AsError(err).Code != toolyard.UnknownTool {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal("the tool is not listed", c.Problems())
		}
	}
}

var linkPattern = regexp.MustCompile(`http://[^ "]+/connect/crm\?ticket=[A-Za-z0-9_-]+`)

// linkFor calls the tool as a person who is not connected, and returns the link in the error.
func (c *connectable) linkFor(caller string) string {
	c.t.Helper()
	_, err := callWhoami(c.t, c.Yard, caller)
	if e := toolyard.AsError(err); err == nil || e.Code != "SIGN_IN_REQUIRED" {
		c.t.Fatal(err)
	}
	link := linkPattern.FindString(err.Error())
	if link == "" {
		c.t.Fatal(err)
	}
	return link
}

// expect calls the tool and compares who the server was called as.
func (c *connectable) expect(caller, person string) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := callWhoami(c.t, c.Yard, caller)
		if err == nil && strings.Contains(text, fmt.Sprintf("%q", person)) {
			return
		}
		if e := toolyard.AsError(err); err == nil || e.Code != toolyard.Unavailable || time.Now().After(deadline) { // the server may just be connecting
			c.t.Fatal(caller, text, err, c.Problems())
		}
	}
}

func TestServerIsCalledAsThePerson(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%t", legacy), func(t *testing.T) {
			c := newConnectable(t, legacy, "{type: person}")
			c.start()
			c.signIn(c.linkFor("ann"), "ann.smith")
			c.signIn(c.linkFor("bob"), "bob.jones")
			for range 3 {
				c.expect("ann", "ann.smith")
				c.expect("bob", "bob.jones")
			}
			if n := c.as.Counts().Registrations; n != 1 {
				t.Errorf("%d registrations", n)
			}
			c.as.Expire() // the server refuses the tokens, which are renewed
			c.expect("ann", "ann.smith")
			c.expect("bob", "bob.jones")
			c.as.RevokeAll() // the refresh tokens are refused too: ann has to sign in again
			c.signIn(c.linkFor("ann"), "ann.miller")
			c.expect("ann", "ann.miller")
			c.linkFor("bob")
		})
	}
}

func TestDisconnectRevokesTheTokens(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	if _, body := c.api("GET", "/connections"); !strings.Contains(body, `"state":"active"`) || strings.Contains(body, "at-") {
		t.Error(body)
	}
	if status, body := c.api("DELETE", "/connections/crm"); status != http.StatusNoContent || c.as.Counts().Revocations != 1 {
		t.Error(status, body)
	}
	if _, body := c.api("GET", "/connections"); !strings.Contains(body, `"state":"none"`) {
		t.Error(body)
	}
	c.linkFor("local")
}

func TestSignInInsideACall(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	asked := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := c.CallAsking(ctx, "", toolyard.Caller{ID: "ann", Account: "ann"}, "crm__whoami", nil, func(_ context.Context, questions []toolyard.Question) (json.RawMessage, error) {
		asked++
		if len(questions) != 1 || questions[0].URL == "" || !strings.Contains(questions[0].Message, "sign in to the server crm") {
			t.Error(questions)
		}
		c.signIn(questions[0].URL, "ann.smith")
		return json.RawMessage(`{"toolyard.signin":{"action":"accept"}}`), nil
	})
	if err != nil || asked != 1 {
		t.Fatal(err, asked)
	}
	if raw, _ := res.MarshalJSON(); !strings.Contains(string(raw), "ann.smith") {
		t.Errorf("%s", raw)
	}
	_, err = c.CallAsking(ctx, "", toolyard.Caller{ID: "bob", Account: "bob"}, "crm__whoami", nil, func(context.Context, []toolyard.Question) (json.RawMessage, error) {
		return json.RawMessage(`{"toolyard.signin":{"action":"decline"}}`), nil
	})
	if e := toolyard.AsError(err); err == nil || e.Code != toolyard.PermissionDenied {
		t.Error(err)
	}
}

// A83
func TestUnauthenticatedCallersHaveNoConnection(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	for _, caller := range []string{"", "anonymous"} {
		_, err := callWhoami(t, c.Yard, caller)
		if err == nil || toolyard.AsError(err).Code != "SIGN_IN_REQUIRED" || linkPattern.MatchString(err.Error()) {
			t.Error(err)
		}
	}
	c.signIn(c.linkFor("ann"), "ann.smith")
	_, err := c.Call(t.Context(), "", toolyard.Caller{ID: "ann", Account: "other"}, "crm__whoami", nil)
	if err == nil || toolyard.AsError(err).Code != "SIGN_IN_REQUIRED" {
		t.Error("the key of another account uses the connection", err)
	}
}

func TestPeopleEnterTheirOwnKeys(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%t", legacy), func(t *testing.T) {
			y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}, Identify: func(r *http.Request) (toolyard.Caller, error) {
				return toolyard.Caller{ID: r.Header.Get("Private-Token")}, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			runYard(t, y)
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Private-Token") == "":
					http.Error(w, "no key", http.StatusUnauthorized)
				case legacy && r.Header.Get("Mcp-Protocol-Version") == "2026-07-28":
					http.Error(w, "unsupported version", http.StatusBadRequest)
				default:
					y.Handler().ServeHTTP(w, r)
				}
			}))
			t.Cleanup(upstream.Close)
			c := newReplica(t, oauthtest.New(t), upstream.URL+"/mcp", "{type: header, header: PRIVATE-TOKEN, per: person}", "memory")
			enter := func(link, key string) {
				t.Helper()
				if page := newVisit(t).connect(link, "secret", key); !strings.Contains(page, "<h1>Connected</h1>") || strings.Contains(page, key) {
					t.Fatal(page)
				}
			}
			enter(c.operatorLink(), "key-of-operator")
			c.awaitTool()
			enter(c.linkFor("ann"), "key-of-ann")
			enter(c.linkFor("bob"), "key-of-bob")
			for _, name := range []string{"ann", "bob"} {
				c.expect(name, "key-of-"+name)
			}
		})
	}
}
