package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/yard"
)

const operatorToken = "operator-token-of-this-test"

// connectable is a yard whose server crm is called on behalf of each caller.
type connectable struct {
	*yard.Yard
	t      *testing.T
	as     *oauthtest.Server
	server *httptest.Server
	url    string
	file   string // path of the configuration file
	log    *safeLog
}

// safeLog collects a yard's log.
type safeLog struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements [io.Writer].
func (l *safeLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newConnectable(t *testing.T, legacy bool, auth string) *connectable {
	t.Helper()
	as := oauthtest.New(t)
	address := startProtectedServer(t, as, legacy)
	return newReplica(t, as, address, auth, "memory")
}

// newReplica starts a yard at the given address.
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
	log := &safeLog{}
	y, err := yard.New(yard.Options{
		ConfigFile: file, Command: yard.Command{OperatorToken: operatorToken}, Log: slog.New(slog.NewTextHandler(log, nil)),
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
	return &connectable{y, t, as, server, server.URL, file, log}
}

// api sends a request to the HTTP API as the operator.
func (c *connectable) api(method, path, body string) (int, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// operatorLink returns a link for the operator.
func (c *connectable) operatorLink() string {
	c.t.Helper()
	status, body := c.api("POST", "/connections/crm", "")
	var page struct{ URL string }
	if status != http.StatusOK || json.Unmarshal([]byte(body), &page) != nil || page.URL == "" {
		c.t.Fatal(status, body)
	}
	return page.URL
}

// page opens the console in a new browser and signs a caller in: the local operator, or another
// caller with a new API key.
func (c *connectable) page(caller string) *browser {
	c.t.Helper()
	key := operatorToken
	if caller != "local" {
		status, body := c.api("POST", "/keys", fmt.Sprintf(`{"name":"test","caller":%q,"account":%q}`, caller, caller))
		var created struct{ Token string }
		if status != http.StatusCreated || json.Unmarshal([]byte(body), &created) != nil || created.Token == "" {
			c.t.Fatal(status, body)
		}
		key = created.Token
	}
	b := newBrowser(c.t, &testAPI{Server: c.server})
	b.enterConsole(key)
	return b
}

// enterConsole signs in to the console with a key.
func (b *browser) enterConsole(key string) {
	b.t.Helper()
	status, answer := b.send("POST", "/signin", map[string]string{"key": key})
	if status != http.StatusOK {
		b.t.Fatal(status, answer)
	}
	b.page = answer["pageSecret"].(string)
}

// ticketOf returns a link's server and ticket.
func ticketOf(link string) (server, ticket string) {
	page, ticket, _ := strings.Cut(link, "#ticket=")
	_, server, _ = strings.Cut(page, "/console/connections/")
	return server, ticket
}

// beginConnection reviews and accepts a link, and returns the authorization server's URL.
func (b *browser) beginConnection(link string) (status int, answer map[string]any) {
	b.t.Helper()
	server, ticket := ticketOf(link)
	body := map[string]string{"ticket": ticket}
	if status, answer = b.send("POST", "/connections/"+server+"/review", body); status != http.StatusOK {
		return status, answer
	}
	return b.send("POST", "/connections/"+server+"/signin", body)
}

// leave opens the authorization server's URL, which signs a person in without showing a page, and
// returns the URL that it redirects the browser to.
func (b *browser) leave(address string) (callback string) {
	b.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(address)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = res.Body.Close()
	callback = res.Header.Get("Location")
	if !strings.HasPrefix(callback, b.server.URL+"/oauth/callback?") {
		b.t.Fatalf("the authorization server sends the browser to %q", callback)
	}
	return callback
}

// back opens the callback and returns the authorization server's response, which the callback
// passes to the console page.
func (b *browser) back(callback string) (response string) {
	b.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(callback)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = res.Body.Close()
	page, response, ok := strings.Cut(res.Header.Get("Location"), "#")
	if res.StatusCode != http.StatusSeeOther || page != "/console/connections" || !ok {
		b.t.Fatal(res.Status, res.Header)
	}
	return response
}

// finishConnection sends the authorization server's response, as the page does.
func (b *browser) finishConnection(response string) (status int, answer map[string]any) {
	b.t.Helper()
	return b.send("POST", "/oauth/response", map[string]string{"response": response})
}

// connect opens a link, accepts it and signs in at the authorization server.
func (b *browser) connect(link string) (status int, answer map[string]any) {
	b.t.Helper()
	if status, answer = b.beginConnection(link); status != http.StatusOK {
		return status, answer
	}
	return b.finishConnection(b.back(b.leave(answer["address"].(string))))
}

// signIn connects a caller to a person's account on the server.
func (c *connectable) signIn(link, caller, person string) {
	c.t.Helper()
	c.as.Set(func(s *oauthtest.Server) { s.Person = person })
	if status, answer := c.page(caller).connect(link); status != http.StatusOK || answer["server"] != "crm" {
		c.t.Fatal(status, answer)
	}
}

// start connects the operator, so that the server's tools can be listed.
func (c *connectable) start() {
	c.t.Helper()
	c.signIn(c.operatorLink(), "local", "operator")
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

var linkPattern = regexp.MustCompile(`http://[^ "]+/console/connections/crm#ticket=[A-Za-z0-9_-]+`)

// linkFor calls the tool as a caller who is not connected, and returns the link in the error.
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

// expect calls the tool and checks which account the server was called with.
func (c *connectable) expect(caller, person string) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := callWhoami(c.t, c.Yard, caller)
		if err == nil && strings.Contains(text, fmt.Sprintf("%q", person)) {
			return
		}
		if err == nil || toolyard.AsError(err).Code != toolyard.Unavailable || time.Now().After(deadline) { // the server may still be connecting
			c.t.Fatal(caller, text, err, c.Problems())
		}
	}
}

func TestServerIsCalledAsThePerson(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%t", legacy), func(t *testing.T) {
			c := newConnectable(t, legacy, "{type: person}")
			c.start()
			c.signIn(c.linkFor("ann"), "ann", "ann.smith")
			c.signIn(c.linkFor("bob"), "bob", "bob.jones")
			for range 3 {
				c.expect("ann", "ann.smith")
				c.expect("bob", "bob.jones")
			}
			if n := c.as.Counts().Registrations; n != 1 {
				t.Errorf("%d registrations", n)
			}
			c.as.Expire() // the server refuses the tokens, so they are renewed
			c.expect("ann", "ann.smith")
			c.expect("bob", "bob.jones")
			c.as.RevokeAll() // the refresh tokens are refused too, so ann must sign in again
			c.signIn(c.linkFor("ann"), "ann", "ann.miller")
			c.expect("ann", "ann.miller")
			c.linkFor("bob")
		})
	}
}

func TestDisconnectRevokesTheTokens(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	if _, body := c.api("GET", "/connections", ""); !strings.Contains(body, `"state":"active"`) || !strings.Contains(body, `"renewed":true`) || strings.Contains(body, "at-") {
		t.Error(body)
	}
	if _, body := c.api("GET", "/connections/crm/people", ""); !strings.Contains(body, `"caller":"local"`) || strings.Contains(body, "at-") || strings.Contains(body, "rt-") {
		t.Error(body)
	}
	if status, body := c.api("DELETE", "/connections/crm", ""); status != http.StatusNoContent || c.as.Counts().Revocations != 1 {
		t.Error(status, body)
	}
	if _, body := c.api("GET", "/connections", ""); !strings.Contains(body, `"state":"none"`) {
		t.Error(body)
	}
	c.linkFor("local")
}

func TestConnectedCallersAreListed(t *testing.T) {
	c := newConnectable(t, false, "{type: header, header: PRIVATE-TOKEN}")
	s := c.page("ann")
	if status, answer := s.send("PUT", "/connections/crm/key", map[string]string{"key": "key-of-ann"}); status != http.StatusNoContent {
		t.Fatal(status, answer)
	}
	if status, answer := s.send("GET", "/connections/crm/people", nil); status != http.StatusForbidden {
		t.Error("a caller sees who is connected:", status, answer)
	}
	if _, body := c.api("GET", "/connections/crm/people", ""); !strings.Contains(body, `"caller":"ann"`) || !strings.Contains(body, `"more":false`) || strings.Contains(body, "key-of-ann") {
		t.Error(body)
	}
	if _, answer := c.page("bob").send("GET", "/connections", nil); strings.Contains(fmt.Sprint(answer), "active") {
		t.Error("bob sees a connection of ann:", answer)
	}
}

func TestSignInInsideACall(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	asked := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := c.CallAsking(ctx, "", toolyard.Caller{ID: "ann", Account: "ann"}, "crm__whoami", nil, func(_ context.Context, questions []toolyard.Question) (json.RawMessage, error) {
		asked++
		if len(questions) != 1 || questions[0].URL == "" || !strings.Contains(questions[0].Message, "sign in to server crm") {
			t.Error(questions)
		}
		c.signIn(questions[0].URL, "ann", "ann.smith")
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

// A83: unauthenticated callers have no connections.
func TestUnauthenticatedCallersHaveNoConnection(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	for _, caller := range []string{"", "anonymous"} {
		_, err := callWhoami(t, c.Yard, caller)
		if err == nil || toolyard.AsError(err).Code != "SIGN_IN_REQUIRED" || linkPattern.MatchString(err.Error()) {
			t.Error(err)
		}
	}
	c.signIn(c.linkFor("ann"), "ann", "ann.smith")
	_, err := c.Call(t.Context(), "", toolyard.Caller{ID: "ann", Account: "other"}, "crm__whoami", nil)
	if err == nil || toolyard.AsError(err).Code != "SIGN_IN_REQUIRED" {
		t.Error("the key of another account uses the connection", err)
	}
}

func TestPeopleEnterTheirOwnKeys(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		t.Run(fmt.Sprintf("legacy=%t", legacy), func(t *testing.T) {
			y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}, Identify: func(r *http.Request) (toolyard.Caller, error) {
				return toolyard.Caller{ID: "owner:" + strings.TrimPrefix(r.Header.Get("Private-Token"), "key-of-")}, nil
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
			enter := func(link, caller, key string) {
				t.Helper()
				server, ticket := ticketOf(link)
				other := c.page("mallory")
				if status, answer := other.send("PUT", "/connections/"+server+"/key", map[string]string{"ticket": ticket, "key": key}); status != http.StatusForbidden {
					t.Error("another person enters a key:", status, answer)
				}
				if status, answer := c.page(caller).send("PUT", "/connections/"+server+"/key", map[string]string{"ticket": ticket, "key": key}); status != http.StatusNoContent {
					t.Fatal(status, answer)
				}
			}
			enter(c.operatorLink(), "local", "key-of-operator")
			c.awaitTool()
			enter(c.linkFor("ann"), "ann", "key-of-ann")
			enter(c.linkFor("bob"), "bob", "key-of-bob")
			for _, name := range []string{"ann", "bob"} {
				c.expect(name, "owner:"+name) // avoids the key itself, which would be redacted
			}
		})
	}
}
