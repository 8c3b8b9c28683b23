package yard_test

import (
	"bytes"
	"context"
	"encoding/base64"
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
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/trust/issuertest"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/yard"
)

// routeRequest is a request to a route that identifies its caller.
type routeRequest struct {
	method, path, body string
	header             map[string]string
}

// identifyingRequests returns a request to every route of the HTTP API that requires a caller, and
// to a gate in both eras.
func identifyingRequests(session string) (requests []routeRequest) {
	parameter := regexp.MustCompile(`\{\w+\}`)
	for _, rule := range httpapi.Rules() {
		if rule.Access == "open" {
			continue
		}
		body := ""
		if rule.Method != http.MethodGet {
			body = "{}"
		}
		requests = append(requests, routeRequest{method: rule.Method, path: parameter.ReplaceAllString(rule.Path, "none"), body: body})
	}
	for _, path := range []string{"/api/tools/catalog?gate=chat", "/v0.1/servers", "/metrics"} {
		requests = append(requests, routeRequest{method: http.MethodGet, path: path})
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, gate := range []string{"/mcp/chat", "/mcp/dev"} {
		for method, params := range map[string]string{"tools/call": `"name":"whoami","arguments":{},`, "tools/list": "", "server/discover": "", "subscriptions/listen": `"notifications":{"toolsListChanged":true},`} {
			header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
			if method == "tools/call" {
				header["Mcp-Name"] = "whoami"
			}
			requests = append(requests, routeRequest{"POST", gate, `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + meta + `}}`, header})
		}
		legacy := map[string]string{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session}
		requests = append(requests,
			routeRequest{"POST", gate, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, nil},
			routeRequest{"POST", gate, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{}}}`, legacy},
			routeRequest{"GET", gate, "", legacy}, routeRequest{"DELETE", gate, "", legacy},
			routeRequest{"GET", strings.Replace(gate, "/mcp/", "/sse/", 1), "", nil})
	}
	return requests
}

// badCredentials returns functions that add invalid credentials to a request, as headers or in the
// query.
func badCredentials(issuer, other *issuertest.Issuer, key string) map[string]func(r *http.Request) {
	const audience = publicURL + "/mcp/chat"
	resources := []string{publicURL + "/mcp/chat", publicURL + "/mcp/dev", publicURL + "/api/v1"}
	claims := map[string]any{"sub": "canary-subject", "aud": resources, "groups": []string{"staff", "engineering", "platform"}, "scope": "tools.write"}
	with := func(name string, value any) string {
		changed := map[string]any{name: value}
		for n, v := range claims {
			if n != name {
				changed[n] = v
			}
		}
		return issuer.Token(audience, changed)
	}
	good := issuer.Token(audience, claims)
	parts := strings.Split(good, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		panic(err)
	}
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
	bad := make(map[string]func(r *http.Request))
	for name, token := range map[string]string{
		"unsigned": unsigned, "signature of another token": parts[0] + "." + parts[1] + "." + strings.Split(with("sub", "ann"), ".")[2],
		"another issuer": other.Token(audience, claims), "key of another issuer": other.Token(audience, map[string]any{"iss": issuer.URL, "aud": resources}),
		"another audience": with("aud", "https://other.example.com"), "expired": with("exp", time.Now().Add(-time.Hour).Unix()), "no subject": with("sub", nil),
		"ID token": issuer.Sign(payload, map[string]any{"typ": "JWT"}), "ID-JAG": issuer.Sign(payload, map[string]any{"typ": "oauth-id-jag+jwt"}), "logout token": issuer.Sign(payload, map[string]any{"typ": "logout+jwt"}),
		"opaque": "opaque-canary", "looks like a key": "ty_" + strings.Repeat("a", 10) + "_" + good, "too long": good + strings.Repeat("A", 9<<10),
	} {
		bad[name] = func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	bad["token in the query"] = func(r *http.Request) { r.URL.RawQuery += "&access_token=" + good }
	bad["token as a password"] = func(r *http.Request) { r.SetBasicAuth("canary-subject", good) }
	bad["two tokens"] = func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + good, "Bearer " + good} }
	bad["token and API key"] = func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + key, "Bearer " + good} }
	return bad
}

// A1 to A35, A40: on every route that identifies its caller, and in both eras, bad credentials are
// refused before anything runs, and the response does not repeat them.
func TestBadCredentialsAreRefusedOnEveryRoute(t *testing.T) {
	issuer, other := issuertest.New(t), issuertest.New(t)
	var ran atomic.Int64
	tool := toolyard.Define(toolyard.Spec{Name: "whoami", Description: "Returns the ID of the caller.", Effects: toolyard.ReadOnly},
		func(context.Context, *toolyard.Call, struct{}) (string, error) { ran.Add(1); return "reached", nil })
	s := newTestAPI(t, "sse: true\n"+fmt.Sprintf(issuerConfig, publicURL, issuer.URL), yard.Options{Tools: []*toolyard.Tool{tool}})
	open := func(token string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/mcp/chat", strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + token}}
		res, body := doPatiently(t, req)
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status, body)
		}
		return res.Header.Get("Mcp-Session-Id")
	}
	session := open(issuer.Token(publicURL+"/mcp/chat", nil)) // session of a caller with a valid token
	requests := identifyingRequests(session)
	if len(requests) < 90 {
		t.Fatalf("only %d routes", len(requests))
	}
	for name, identify := range badCredentials(issuer, other, s.keys["operator"]) {
		for _, request := range requests {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a stream opened by mistake would not end
			req, err := http.NewRequestWithContext(ctx, request.method, s.URL+request.path, strings.NewReader(request.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Accept": {"application/json, text/event-stream"}}
			if request.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			for name, value := range request.header {
				req.Header.Set(name, value)
			}
			identify(req)
			res, body := doPatiently(t, req)
			cancel()
			refused := res.StatusCode == http.StatusUnauthorized || name == "token in the query" && res.StatusCode == http.StatusBadRequest
			if shown := body + fmt.Sprint(res.Header); !refused || strings.Contains(shown, "canary") || strings.Contains(shown, "eyJ") || strings.Contains(body, "aud") {
				t.Errorf("%s at %s %s: %s %s", name, request.method, request.path, res.Status, body)
			}
		}
	}
	if n := ran.Load(); n > 0 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A36: once an issuer is removed from the configuration, its tokens are refused at once, even if
// they were verified before.
func TestTokensOfARemovedIssuerAreRefused(t *testing.T) {
	issuer, other := issuertest.New(t), issuertest.New(t)
	config := fmt.Sprintf(issuerConfig, publicURL, issuer.URL)
	s := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{whoami}})
	token := issuer.Token(publicURL+"/mcp/chat", nil)
	if status, _, body := post(t, s.Server, "/mcp/chat", token); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if err := os.WriteFile(s.file, []byte(strings.Replace(config, issuer.URL, other.URL, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.yard.Reload(); err != nil {
		t.Fatal(err)
	}
	if status, _, body := post(t, s.Server, "/mcp/chat", token); status != http.StatusUnauthorized {
		t.Error(status, body)
	}
}

// A42: for metadata requests, a gate that accepts only keys looks the same as one that does not
// exist.
func TestMetadataDoesNotConfirmGates(t *testing.T) {
	server := newYardWithIssuer(t, issuertest.New(t))
	var bodies []string
	for _, gate := range []string{"internal", "unknown"} {
		res, err := http.Get(server.URL + "/.well-known/oauth-protected-resource/mcp/" + gate)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusNotFound {
			t.Error(gate, res.Status, err)
		}
		bodies = append(bodies, string(raw))
	}
	if bodies[0] != bodies[1] {
		t.Errorf("%q, %q", bodies[0], bodies[1])
	}
}

// A43: for a token that lacks a scope, the response lists all scopes that the gate needs, and
// always the same ones.
func TestStepUpIsTheSameEachTime(t *testing.T) {
	issuer := issuertest.New(t)
	server := newYardWithIssuer(t, issuer)
	token := issuer.Token(publicURL+"/mcp/dev", map[string]any{"groups": []string{"staff"}, "scope": ""}) // no rule grants access to the gate
	var first string
	for range 3 {
		status, challenge, _ := post(t, server, "/mcp/dev", token)
		if first == "" {
			first = challenge
		}
		if status != http.StatusForbidden || challenge != first || !strings.Contains(challenge, `scope="tools.write"`) {
			t.Errorf("%d %s", status, challenge)
		}
	}
}

// A47: the state of a question to ann is useless to bob, who has the same account and rights.
func TestRequestStateIsBoundToThePerson(t *testing.T) {
	issuer := issuertest.New(t)
	tool, ran := confirming()
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
issuers: {corp: {issuer: %s, access: [{anyone: true, gates: [chat], account: shared}]}}
gates: {chat: {mode: read, callers: tokens}}
`, publicURL, issuer.URL), yard.Options{Tools: []*toolyard.Tool{tool}})
	for _, person := range []string{"ann", "bob"} {
		s.keys[person] = issuer.Token(publicURL+"/api/v1", map[string]any{"sub": person})
	}
	status, first := s.do(t, "ann", "POST", "/api/v1/calls", `{"gate":"chat","interactive":true,"tool":"confirm"}`)
	state := at(first, "inputRequired.state")
	if status != http.StatusOK || state == "" {
		t.Fatal(status, first)
	}
	body := fmt.Sprintf(`{"gate":"chat","tool":"confirm","state":%q,"answers":{"sure":{"action":"decline"}}}`, state)
	if status, answer := s.do(t, "bob", "POST", "/api/v1/calls", body); status != http.StatusBadRequest {
		t.Error("bob:", status, answer)
	}
	if status, answer := s.do(t, "ann", "POST", "/api/v1/calls", body); status != http.StatusOK || ran.Load() != 2 {
		t.Error("ann:", status, answer, ran.Load())
	}
}

// A60: there is one callback, at the configured address.
func TestThereIsOneCallback(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, change := range map[string]func(r *http.Request){
		"another path":       func(r *http.Request) { r.URL.Path = "/oauth/callback/x" },
		"another case":       func(r *http.Request) { r.URL.Path = "/OAuth/callback" },
		"a path with a dot":  func(r *http.Request) { r.URL.Path = "/oauth/./callback" },
		"two slashes":        func(r *http.Request) { r.URL.Path = "//oauth/callback" },
		"another host":       func(r *http.Request) { r.Host = "evil.example" },
		"another host, port": func(r *http.Request) { r.Host = "evil.example:443" },
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/oauth/callback?code=c&state=s", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if location := res.Header.Get("Location"); res.StatusCode == http.StatusOK || strings.Contains(location, "code=c") && location != "/oauth/callback?code=c&state=s" || strings.Contains(location, "evil") {
			t.Errorf("%s: %s %s", name, res.Status, location)
		}
	}
}

// recordedLog is a log that tests can search.
type recordedLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *recordedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *recordedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A59: the log, the metrics and the store contain no codes, states, tickets, cookies or tokens from
// sign-ins to the console or to servers.
func TestSignInsLeaveNoTrace(t *testing.T) {
	as := oauthtest.New(t)
	var log recordedLog
	s, corp := newPeopleYard(t, as, yard.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	b := newBrowser(t, s)
	first := corp.Authorize(b.begin("corp"))
	if status, answer := b.complete("corp", first); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	status, answer := b.send("POST", "/connections/crm", nil)
	link, _ := answer["url"].(string)
	_, ticket := ticketOf(link)
	if status != http.StatusOK || ticket == "" {
		t.Fatal(status, answer)
	}
	if status, answer = b.beginConnection(link); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get(answer["address"].(string))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	second, err := res.Location()
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{first.Get("code"), first.Get("state"), b.flow, b.page, ticket, second.Query().Get("code"), second.Query().Get("state"), "secret-of-the-console"}
	for _, value := range b.cookie {
		secrets = append(secrets, value)
	}
	if status, answer = b.finishConnection(b.back(s.URL + "/oauth/callback?" + second.RawQuery)); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	within(t, time.Minute, "a call", func() bool {
		status, answer = b.send("POST", "/calls", map[string]any{"gate": "chat", "tool": "crm__whoami", "args": struct{}{}})
		return status == http.StatusOK && at(answer, "result.content") != ""
	})
	searched := map[string]string{"the log": log.String()}
	for _, path := range []string{"/metrics", "/api/v1/changes", "/api/v1/connections"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.keys["local"])
		res, body := doPatiently(t, req)
		if res.StatusCode != http.StatusOK {
			t.Error(path, res.Status)
		}
		searched[path] = body
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.file), "toolyard.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		searched[filepath.Base(file)] = string(data)
	}
	tokens := regexp.MustCompile(`[ar]t-[A-Z2-7]{26}|secret-of-client|eyJ[A-Za-z0-9_-]+\.`)
	for where, text := range searched {
		if found := tokens.FindString(text); found != "" {
			t.Errorf("%s contains %s", where, found)
		}
		for i, secret := range secrets {
			if len(secret) < 10 || strings.Contains(text, secret) {
				t.Errorf("%s contains the secret %d, %q", where, i, secret)
			}
		}
	}
}

// A76: a caller's token is not sent to any server, regardless of the server's authentication, and
// is not logged or recorded.
func TestCallersTokensStayHere(t *testing.T) {
	issuer, as := issuertest.New(t), oauthtest.New(t)
	var mu sync.Mutex
	var received bytes.Buffer
	inner, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}})
	if err != nil {
		t.Fatal(err)
	}
	runYard(t, inner)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		_, _ = fmt.Fprintln(&received, r.URL, r.Header, string(body))
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		inner.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(upstream.Close)
	t.Setenv("SHARED_SECRET", "secret-of-the-server")
	protected := startProtectedServer(t, as, false)
	as.Set(func(s *oauthtest.Server) { s.Clients["yard"] = "secret-of-the-yard" })
	t.Setenv("YARD_SECRET", "secret-of-the-yard")
	var log recordedLog
	s := newTestAPI(t, fmt.Sprintf(`
url: %s
hosts: [tools.example.com]
record: {arguments: full}
issuers: {corp: {issuer: %s, access: [{anyone: true, gates: [chat], role: operator}]}}
servers:
  open: {url: %q, effects: {"*": read}}
  shared: {url: %q, auth: {type: bearer, secretRef: env:SHARED_SECRET}, effects: {"*": read}}
  program: {url: %q, auth: {type: client, client: {id: yard, secretRef: env:YARD_SECRET}}, effects: {"*": read}}
gates: {chat: {mode: read, callers: tokens}}
`, publicURL, issuer.URL, upstream.URL+"/mcp", upstream.URL+"/mcp", protected), yard.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	token := issuer.Token(publicURL+"/mcp/chat", nil)
	s.keys["ann"] = issuer.Token(publicURL+"/api/v1", nil)
	for _, server := range []string{"open", "shared", "program"} {
		within(t, time.Minute, "the server "+server, func() bool {
			status, answer := s.do(t, "ann", "POST", "/api/v1/calls", fmt.Sprintf(`{"gate":"chat","tool":%q,"args":{}}`, server+"__whoami"))
			return status == http.StatusOK && at(answer, "result.content") != ""
		})
		if status, _, body := postTool(t, s.Server, "/mcp/chat", token, server+"__whoami"); status != http.StatusOK || strings.Contains(body, `"isError":true`) {
			t.Errorf("%s: %d %s", server, status, body)
		}
	}
	within(t, time.Minute, "the calls to be recorded", func() bool {
		_, calls := s.do(t, "operator", "GET", "/api/v1/calls?limit=100", "")
		return strings.Contains(fmt.Sprint(calls), "program")
	})
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.file), "toolyard.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var stored bytes.Buffer
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stored.Write(data)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(received.String(), "secret-of-the-server") {
		t.Error("the server was not called with its secret")
	}
	for where, text := range map[string]string{"the server": received.String(), "the log": log.String(), "the store": stored.String()} {
		for _, secret := range []string{token, s.keys["ann"]} {
			if signature := secret[strings.LastIndex(secret, ".")+1:]; strings.Contains(text, signature) {
				t.Errorf("the token of the caller is in %s", where)
			}
		}
	}
}

// A80: if a server returns the token that it was called with, the caller does not see it, even
// after the token was renewed and the configuration was reloaded.
func TestTokensInResultsAreRedacted(t *testing.T) {
	as := oauthtest.New(t)
	inner, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}, Identify: func(r *http.Request) (toolyard.Caller, error) {
		return toolyard.Caller{ID: "echo " + r.Header.Get("Authorization")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	runYard(t, inner)
	var address string
	server := httptest.NewServer(as.Protect(func() string { return address }, nil, func(string) http.Handler { return inner.Handler() }))
	t.Cleanup(server.Close)
	address = server.URL + "/mcp"
	as.Set(func(s *oauthtest.Server) { s.Resource = address })
	c := newReplica(t, as, address, "{type: person}", "memory")
	c.start()
	check := func(when string) {
		t.Helper()
		within(t, time.Minute, "a call "+when, func() bool {
			text, err := callWhoami(t, c.Yard, "local")
			if regexp.MustCompile(`at-[A-Z2-7]{26}`).MatchString(text + fmt.Sprint(err)) {
				t.Fatalf("%s: %s %v", when, text, err)
			}
			return err == nil && strings.Contains(text, "echo") && strings.Contains(text, "[redacted]")
		})
	}
	check("at first")
	as.Expire()
	check("after a refresh")
	text, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.file, append(text, "name: other\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	as.Expire()
	check("after a reload and a refresh")
}

// A84: while a server is removed, its connections cannot be used. They work again once it is back.
func TestConnectionsOutliveARemovedServer(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	text, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) {
		t.Helper()
		if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	load(strings.Replace(string(text), "  crm:", "  other:", 1))
	within(t, time.Minute, "the tool to be removed", func() bool {
		_, err := callWhoami(t, c.Yard, "")
		return err != nil && toolyard.AsError(err).Code == toolyard.UnknownTool
	})
	refreshes := c.as.Counts().Refreshes
	load(string(text))
	c.awaitTool()
	c.expect("local", "operator")
	if n := c.as.Counts(); n.Refreshes != refreshes || n.Redeemed != 1 {
		t.Errorf("%+v", n)
	}
}
