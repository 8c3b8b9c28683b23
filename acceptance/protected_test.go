package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// protectedYard is a yard whose server tracker is called on behalf of each caller. The server uses
// the official TypeScript SDK, and its authorization server is an OpenID provider.
type protectedYard struct {
	*process
	issuer string
	base   string // URL of the yard
	keys   map[string]string
}

func newProtectedYard(t *testing.T, era string) *protectedYard {
	t.Helper()
	upstream, address := freeAddress(t), freeAddress(t)
	resource := "http://" + upstream + "/mcp"
	y := &protectedYard{issuer: startIssuer(t, "--opaque", resource), base: "http://" + address, keys: map[string]string{}}
	_, port, _ := strings.Cut(upstream, ":")
	startNode(t, "protected.mjs", era, port, y.issuer)
	y.process = &process{t: t, dir: t.TempDir(), url: y.base + "/mcp"}
	y.configure(fmt.Sprintf(`
url: http://%s
store: sqlite:toolyard.db
servers:
  tracker: {url: %q, auth: {type: person}, effects: {"*": read}}
gates:
  chat: {mode: read, callers: keys}
`, address, resource))
	y.launch("toolyard", nil, "serve", "--listen", address)
	y.await(y.url)
	for _, caller := range []string{"ann", "bob"} {
		y.keys[caller] = keyOf(t, y.process, caller)
	}
	return y
}

// connecting is a person with a browser who is signed in to the console.
type connecting struct {
	y      *protectedYard
	client *http.Client
	secret string
}

// browse signs a caller in to the console.
func (y *protectedYard) browse(caller string) *connecting {
	y.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		y.t.Fatal(err)
	}
	p := &connecting{y: y, client: &http.Client{Jar: jar, Timeout: time.Minute}}
	p.secret, _ = p.send("POST", "/signin", map[string]string{"key": y.keys[caller]}, http.StatusOK)["pageSecret"].(string)
	return p
}

// send sends a request as one of the console's pages does.
func (p *connecting) send(method, path string, body any, want int) (answer map[string]any) {
	p.y.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		p.y.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.y.t.Context(), method, p.y.base+"/api/v1"+path, bytes.NewReader(raw))
	if err != nil {
		p.y.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if p.secret != "" {
		r.Header.Set("Toolyard-Page-Secret", p.secret)
	}
	res, err := p.client.Do(r)
	if err != nil {
		p.y.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.y.t.Fatal(err)
	}
	_ = json.Unmarshal(text, &answer)
	if res.StatusCode != want {
		p.y.t.Fatalf("%s %s: %s %s", method, path, res.Status, text)
	}
	return answer
}

// connect opens a sign-in link and signs in at the provider, which shows no page.
func (p *connecting) connect(link string) {
	p.y.t.Helper()
	_, ticket, ok := strings.Cut(link, "/console/connections/tracker#ticket=")
	if !ok {
		p.y.t.Fatalf("no link: %s", link)
	}
	body := map[string]string{"ticket": ticket}
	if review := p.send("POST", "/connections/tracker/review", body, http.StatusOK); !strings.Contains(p.y.issuer, fmt.Sprint(review["host"])) {
		p.y.t.Errorf("%v", review)
	}
	address, _ := p.send("POST", "/connections/tracker/signin", body, http.StatusOK)["address"].(string)
	response := ""
	browser := &http.Client{Jar: p.client.Jar, Timeout: time.Minute, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), p.y.base+"/console/connections") {
			response = r.URL.Fragment
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := browser.Get(address)
	if err != nil {
		p.y.t.Fatal(err)
	}
	_ = res.Body.Close()
	if response == "" {
		p.y.t.Fatalf("the provider does not return: %s %s", res.Status, res.Request.URL)
	}
	p.send("POST", "/oauth/response", map[string]string{"response": response}, http.StatusOK)
}

// link returns a new link for the person.
func (p *connecting) link() string {
	p.y.t.Helper()
	address, _ := p.send("POST", "/connections/tracker", map[string]string{}, http.StatusOK)["url"].(string)
	return address
}

// control performs one of the provider's test actions.
func (y *protectedYard) control(action string) (counts struct{ Refreshed, Revoked int }) {
	y.t.Helper()
	res, err := http.Post(y.issuer+"/test/"+action, "", http.NoBody)
	if err != nil {
		y.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&counts); err != nil {
		y.t.Fatal(err)
	}
	return counts
}

// keyTransport sends a key with every request.
type keyTransport string

func (k keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// client connects a legacy client for a caller. If open is set, the client declares support for URL
// elicitation.
func (y *protectedYard) client(caller string, open func(*mcp.ElicitParams) string) *mcp.ClientSession {
	y.t.Helper()
	opts := &mcp.ClientOptions{}
	if open != nil {
		opts.Capabilities = &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}}
		opts.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: open(r.Params)}, nil
		}
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "legacy", Version: "1"}, opts).Connect(y.t.Context(),
		&mcp.StreamableClientTransport{Endpoint: y.url, HTTPClient: &http.Client{Transport: keyTransport(y.keys[caller])}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { _ = s.Close() })
	return s
}

// whoami calls the protected server's tool. It waits while the tool is not listed yet or the server
// is still connecting.
func (y *protectedYard) whoami(s *mcp.ClientSession) (text string, failed bool) {
	y.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		res, err := s.CallTool(y.t.Context(), &mcp.CallToolParams{Name: "tracker__whoami", Arguments: map[string]any{}})
		if err == nil {
			text = res.Content[0].(*mcp.TextContent).Text
			if raw, err := json.Marshal(res); err != nil || !res.IsError || !regexp.MustCompile(`UNAVAILABLE|METHOD_NOT_FOUND`).Match(raw) {
				return text, res.IsError
			}
		} else {
			text = err.Error()
		}
		if time.Now().After(deadline) {
			y.t.Fatalf("%s\n%v", text, y.log())
		}
	}
}

var connectLink = regexp.MustCompile(`http://[^ "\\]+/console/connections/tracker#ticket=[A-Za-z0-9_-]+`)

// A protected server uses the official TypeScript SDK and an OpenID provider. People connect in the
// console, or with a link in the error result that a legacy client receives if it does not support
// URL elicitation. Tokens are refreshed; after a revocation, the person is asked to sign in again;
// disconnecting revokes the tokens.
func TestProtectedServer(t *testing.T) {
	t.Parallel()
	if _, err := node(t, "--version"); err != nil {
		t.Fatal(err)
	}
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			y := newProtectedYard(t, era)
			bob := y.browse("bob")
			bob.connect(bob.link()) // so that the tools can be listed
			ann, client := y.browse("ann"), y.client("ann", nil)
			ask := func() string {
				t.Helper()
				text, failed := y.whoami(client)
				link := connectLink.FindString(text)
				if !failed || link == "" {
					t.Fatalf("no link in the result: %s", text)
				}
				return link
			}
			called := func() {
				t.Helper()
				if text, failed := y.whoami(client); failed || text != "ann" {
					t.Fatalf("%s\n%v", text, y.log())
				}
			}
			ann.connect(ask())
			called()
			before := y.control("expire").Refreshed
			called()
			if counts := y.control("counts"); counts.Refreshed <= before {
				t.Errorf("%+v", counts)
			}
			y.control("revoke")
			ann.connect(ask())
			called()
			ann.send("DELETE", "/connections/tracker", struct{}{}, http.StatusNoContent)
			if counts := y.control("counts"); counts.Revoked == 0 {
				t.Error("the provider has not received a revocation")
			}
			ask()
		})
	}
}

// A legacy client that supports URL elicitation opens the page during the call, which continues
// once the person has connected.
func TestLegacyClientSignsInByElicitation(t *testing.T) {
	t.Parallel()
	if _, err := node(t, "--version"); err != nil {
		t.Fatal(err)
	}
	y := newProtectedYard(t, "legacy")
	bob, ann := y.browse("bob"), y.browse("ann")
	bob.connect(bob.link())
	links := make(chan string, 10)
	client := y.client("ann", func(p *mcp.ElicitParams) string {
		if p.Mode != "url" || p.ElicitationID == "" || !strings.Contains(p.Message, "tracker") {
			t.Errorf("%+v", p)
		}
		links <- p.URL
		ann.connect(p.URL)
		return "accept"
	})
	if text, failed := y.whoami(client); failed || text != "ann" {
		t.Fatalf("%s\n%v", text, y.log())
	}
	link, err := url.Parse(<-links)
	if err != nil || !strings.HasPrefix(link.String(), y.base+"/console/connections/tracker#ticket=") || len(links) > 0 {
		t.Error(link, err, len(links))
	}
	declining := y.client("bob", func(*mcp.ElicitParams) string { return "decline" })
	bob.send("DELETE", "/connections/tracker", struct{}{}, http.StatusNoContent)
	if text, failed := y.whoami(declining); !failed || !strings.Contains(text, "declined") {
		t.Error(text)
	}
}

// In a browser, a person opens a link, signs in to the console, connects and disconnects. Another
// person cannot use the link, and an operator sees who is connected.
func TestConnectionsInTheConsole(t *testing.T) {
	heavy(t)
	needBrowser(t)
	y := newProtectedYard(t, "modern")
	browse(t, "connections.mjs", map[string]any{
		"url": y.base, "issuer": y.issuer, "ann": y.keys["ann"], "bob": y.keys["bob"], "operator": keyOf(t, y.process, "olivia", "operator"),
		"link": y.browse("ann").link(), "artifacts": t.ArtifactDir(),
	})
}
