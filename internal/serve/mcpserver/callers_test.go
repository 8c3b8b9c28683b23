package mcpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// keyring is a key store that can become unavailable.
type keyring struct {
	keys map[string]identity.Key
	away atomic.Bool
}

// Key implements identity.Keys.
func (k *keyring) Key(_ context.Context, prefix string) (identity.Key, error) {
	key, ok := k.keys[prefix]
	switch {
	case k.away.Load():
		return key, errors.New("password=hunter2: connection refused")
	case !ok:
		return key, toolyard.Errorf(toolyard.NotFound, "Key %s not found.", prefix)
	}
	return key, nil
}

// issue creates a key for alice, applies a change to it and returns its token.
func (k *keyring) issue(t *testing.T, change func(*identity.Key), scopes ...string) string {
	t.Helper()
	key, token, err := identity.New("test", "alice", "acme", scopes, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&key)
	}
	k.keys[key.Prefix] = key
	return token
}

// locked serves a tool that returns its caller. It has two gates that require keys: chat (read) and
// trade (write).
func locked(t *testing.T, ring *keyring) (s *mcpserver.Server, reached *atomic.Int64) {
	t.Helper()
	reached = new(atomic.Int64)
	who := toolyard.Define(toolyard.Spec{Name: "who", Effects: toolyard.ReadOnly}, func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) {
		reached.Add(1)
		return fmt.Sprintf("%s of %s with %v", c.Caller.ID, c.Caller.Account, c.Caller.Roles), nil
	})
	verifier := identity.NewVerifier(ring, time.Now)
	s = mcpserver.New(mcpserver.Options{
		Call: callpath.Run,
		Authorize: func(r *http.Request, gate *gates.Gate) (toolyard.Caller, error) {
			caller, err := verifier.Identify(r)
			if err != nil {
				return caller, err
			}
			return caller, identity.Allows(caller, gate)
		},
	})
	s.Publish([]*gates.Gate{{Name: "chat", Mode: toolyard.Read}, {Name: "trade", Mode: toolyard.Write}}, catalog.Offer{Tools: []*toolyard.Tool{who}}, true)
	t.Cleanup(s.Close)
	return s, reached
}

func lastOfPath(r *http.Request) string { return r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:] }

const (
	callWho   = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","arguments":{},` + goodMeta + `}}`
	whoHeader = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: who\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
)

// rawPost sends a call as raw bytes, with headers that HTTP clients would reject.
func rawPost(t *testing.T, address, target, headers, body string) (int, http.Header, string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s%sContent-Length: %d\r\n\r\n%s", target, whoHeader, headers, len(body), body)
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	_ = res.Body.Close()
	return res.StatusCode, res.Header, string(text)
}

// attack is a request with invalid credentials.
type attack struct {
	name    string
	headers string // header lines
	target  string // /mcp/chat if empty
	status  int    // 401 if zero
	error   string // expected error in the challenge
}

// attacks returns requests derived from a valid token and from tokens that are no longer valid.
func attacks(t *testing.T, ring *keyring) []attack {
	good := ring.issue(t, nil)
	revoked := ring.issue(t, func(k *identity.Key) { k.Revoked = time.Now() })
	tomorrow := ring.issue(t, func(k *identity.Key) { k.Revoked = time.Now().Add(24 * time.Hour) })
	expired := ring.issue(t, func(k *identity.Key) { k.Expires = time.Now().Add(-time.Hour) })
	now := ring.issue(t, func(k *identity.Key) { k.Expires = time.Now() })
	other := ring.issue(t, func(k *identity.Key) { k.Hash = [32]byte{} })
	chat := ring.issue(t, nil, "gate:chat")
	reader := ring.issue(t, nil, "gate:*")
	operator := ring.issue(t, nil, "operator")
	_, unknown, err := identity.New("test", "eve", "", nil, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	foreign, second := ring.issue(t, nil), ring.issue(t, nil)
	const bad = "invalid_token"
	auth := func(value string) string { return "Authorization: " + value + "\r\n" }
	bearer := func(token string) string { return auth("Bearer " + token) }
	return []attack{
		{name: "nothing"},
		{name: "an empty header", headers: auth(""), error: bad},
		{name: "no token", headers: auth("Bearer"), error: bad},
		{name: "an empty token", headers: auth("Bearer "), error: bad},
		{name: "a token alone", headers: auth(good), error: bad},
		{name: "Basic", headers: auth("Basic " + good), error: bad},
		{name: "Basic with a password", headers: auth("Basic dHk6dHk="), error: bad},
		{name: "Digest", headers: auth(`Digest username="` + good + `"`), error: bad},
		{name: "Token", headers: auth("Token " + good), error: bad},
		{name: "Bearer with a colon", headers: auth("Bearer: " + good), error: bad},
		{name: "Bearer without a space", headers: auth("Bearer" + good), error: bad},
		{name: "Bearer with an equals sign", headers: auth("Bearer=" + good), error: bad},
		{name: "Bearer twice", headers: auth("Bearer Bearer " + good), error: bad},
		{name: "Bearer with a look-alike letter", headers: auth("Веarer " + good), error: bad},
		{name: "two spaces", headers: auth("Bearer  " + good), error: bad},
		{name: "a tab", headers: auth("Bearer\t" + good), error: bad},
		{name: "a space inside", headers: bearer(good[:20] + " " + good[20:]), error: bad},
		{name: "a space that does not look like one", headers: auth("Bearer\u00a0" + good), error: bad},
		{name: "quotes", headers: bearer(`"` + good + `"`), error: bad},
		{name: "angle brackets", headers: bearer("<" + good + ">"), error: bad},
		{name: "a comma", headers: bearer(good + ","), error: bad},
		{name: "a list", headers: bearer(good + ", Bearer " + good), error: bad},
		{name: "two headers", headers: bearer(good) + bearer(good), error: bad},
		{name: "two headers, one of them bad", headers: bearer(unknown) + bearer(good), error: bad},
		{name: "two headers, one of them empty", headers: auth("") + bearer(good), error: bad},
		{name: "two headers in two cases", headers: bearer(good) + "authorization: Bearer " + good + "\r\n", error: bad},
		{name: "another header", headers: "X-Api-Key: " + good + "\r\n"},
		{name: "the header of a proxy", headers: "Proxy-Authorization: Bearer " + good + "\r\n"},
		{name: "a cookie", headers: "Cookie: access_token=" + good + "\r\n"},
		{name: "the name of a user", headers: "X-Forwarded-User: alice\r\n"},
		{name: "in the query", target: "/mcp/chat?access_token=" + good},
		{name: "in the query under another name", target: "/mcp/chat?key=" + good},
		{name: "in the query and the header", target: "/mcp/chat?access_token=" + good, headers: bearer(good), error: bad},
		{name: "a query that cannot be read", target: "/mcp/chat?a=%zz;access_token=x", headers: bearer(good), error: bad},
		{name: "a wrong checksum", headers: bearer(good[:len(good)-1] + flip(good[len(good)-1])), error: bad},
		{name: "no checksum", headers: bearer(good[:len(good)-6]), error: bad},
		{name: "one character less", headers: bearer(good[:len(good)-1]), error: bad},
		{name: "one character more", headers: bearer(good + "a"), error: bad},
		{name: "upper case", headers: bearer(strings.ToUpper(good)), error: bad},
		{name: "lower case", headers: bearer(strings.ToLower(good)), error: bad},
		{name: "a typo in the secret", headers: bearer(good[:30] + flip(good[30]) + good[31:]), error: bad},
		{name: "a typo in the prefix", headers: bearer(good[:5] + flip(good[5]) + good[6:]), error: bad},
		{name: "the prefix alone", headers: bearer(good[:13]), error: bad},
		{name: "the secret alone", headers: bearer(good[14:]), error: bad},
		{name: "the prefix of one with the secret of another", headers: bearer(foreign[:14] + second[14:]), error: bad},
		{name: "a wrong secret", headers: bearer(other), error: bad},
		{name: "an unknown prefix", headers: bearer(unknown), error: bad},
		{name: "revoked", headers: bearer(revoked), error: bad},
		{name: "revoked by a clock that is ahead", headers: bearer(tomorrow), error: bad},
		{name: "expired", headers: bearer(expired), error: bad},
		{name: "expired just now", headers: bearer(now), error: bad},
		{name: "look-alike letters", headers: bearer("tу_" + good[3:]), error: bad}, // a Cyrillic letter
		{name: "wide letters", headers: bearer("ｔｙ_" + good[3:]), error: bad},
		{name: "letters that nobody sees", headers: bearer(good[:10] + "\u200b" + good[10:]), error: bad},
		{name: "not UTF-8", headers: bearer(good[:10] + "\xff\xfe" + good[10:]), error: bad},
		{name: "percents", headers: bearer("%74y_" + good[3:]), error: bad},
		{name: "SQL", headers: bearer("ty_' OR '1'='1"), error: bad},
		{name: "a wildcard", headers: bearer("ty_%%%%%%%%%%_" + good[14:]), error: bad},
		{name: "a JWT", headers: bearer("e30.e30."), error: bad},
		{name: "null", headers: bearer("null"), error: bad},
		{name: "undefined", headers: bearer("undefined"), error: bad},
		{name: "513 bytes", headers: auth("Bearer " + strings.Repeat("x", 506)), error: bad},
		{name: "64 KiB", headers: bearer(strings.Repeat("x", 64<<10)), error: bad},
		{name: "a zero byte", headers: bearer(good + "\x00"), status: http.StatusBadRequest},
		{name: "a control character", headers: bearer(good[:10] + "\x07" + good[10:]), status: http.StatusBadRequest},
		{name: "a folded line", headers: bearer(good[:20] + "\r\n " + good[20:]), error: bad},
		{name: "a space before the colon", headers: "Authorization : Bearer " + good + "\r\n", status: http.StatusBadRequest},
		{name: "the key of another gate", target: "/mcp/trade", headers: bearer(chat), status: http.StatusForbidden, error: `insufficient_scope", scope="gate:trade write`},
		{name: "a key for reading", target: "/mcp/trade", headers: bearer(reader), status: http.StatusForbidden, error: `insufficient_scope", scope="write`},
		{name: "an operator who may not write", target: "/mcp/trade", headers: bearer(operator), status: http.StatusForbidden, error: `insufficient_scope", scope="write`},
		{name: "no such gate", target: "/mcp/none", headers: bearer(good), status: http.StatusNotFound},
	}
}

// flip returns a different character that is valid in tokens.
func flip(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

// Requests with invalid tokens get the right status and reach no tool, and the token is not echoed.
func TestInvalidTokensAreRejected(t *testing.T) {
	ring := &keyring{keys: make(map[string]identity.Key)}
	list := attacks(t, ring)
	s, reached := locked(t, ring)
	server := httptest.NewServer(s.Handler(lastOfPath))
	defer server.Close()
	address := server.Listener.Addr().String()
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			if a.status == 0 {
				a.status = http.StatusUnauthorized
			}
			if a.target == "" {
				a.target = "/mcp/chat"
			}
			status, header, body := rawPost(t, address, a.target, a.headers, callWho)
			if status != a.status || reached.Load() > 0 {
				t.Errorf("status %d, want %d; reached %d; %s", status, a.status, reached.Load(), body)
			}
			challenge := header.Get("WWW-Authenticate")
			want := `Bearer realm="toolyard"`
			if a.error != "" {
				want += `, error="` + a.error + `"`
			}
			if challenged := status == http.StatusUnauthorized || status == http.StatusForbidden; challenged && challenge != want {
				t.Errorf("challenge %s, want %s", challenge, want)
			}
			if strings.Contains(body, "ty_") && !strings.Contains(body, "begin with ty_ ") || len(body) > 250 || strings.Contains(body, "alice") {
				t.Errorf("the body tells too much: %s", body)
			}
		})
	}
	t.Logf("%d attacks", len(list))
	for _, scheme := range []string{"Bearer", "bearer", "BEARER", "bEaReR"} {
		token := ring.issue(t, nil, "gate:chat")
		status, _, body := rawPost(t, address, "/mcp/chat", "Authorization: "+scheme+" "+token+"\r\n", callWho)
		if status != http.StatusOK || !strings.Contains(body, "alice of acme with [gate:chat]") {
			t.Errorf("%s: %d %s", scheme, status, body)
		}
	}
}

func TestUnavailableKeyStoreIsNotAnInvalidKey(t *testing.T) {
	ring := &keyring{keys: make(map[string]identity.Key)}
	token := ring.issue(t, nil)
	s, reached := locked(t, ring)
	ring.away.Store(true)
	header := maps.Clone(modernHeader)
	header["Mcp-Name"], header["Authorization"] = "who", "Bearer "+token
	w := post(s.Handler(func(*http.Request) string { return "chat" }), []byte(callWho), header)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "2" || w.Header().Get("WWW-Authenticate") != "" || reached.Load() > 0 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if strings.Contains(w.Body.String(), "hunter2") {
		t.Errorf("the body tells too much: %s", w.Body)
	}
}

// Scopes come from the configuration. A scope that would break out of the header is omitted.
func TestChallengeOmitsInvalidScopes(t *testing.T) {
	s := mcpserver.New(mcpserver.Options{
		Call: callpath.Run,
		Authorize: func(*http.Request, *gates.Gate) (toolyard.Caller, error) {
			return toolyard.Caller{}, &toolyard.Error{Code: toolyard.PermissionDenied, Message: "No.", Missing: []string{`a", error="none`, "b\r\nX: y", "", `c\`, "gate:é", "good"}}
		},
	})
	t.Cleanup(s.Close)
	s.Publish(defaultGate, catalog.Offer{}, true)
	w := post(s.Handler(func(*http.Request) string { return "default" }), []byte(callWho), modernHeader)
	if got := w.Header().Get("WWW-Authenticate"); got != `Bearer realm="toolyard", error="insufficient_scope", scope="good"` || w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, got)
	}
}

// with sends a token with each request. The token can be replaced.
type with struct {
	mu    sync.Mutex
	token string
}

// RoundTrip implements http.RoundTripper.
func (w *with) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return http.DefaultTransport.RoundTrip(r)
}

// A legacy session is valid only for the caller that opened it, and the caller of each call is the
// sender of its own request.
func TestSessionBelongsToItsCaller(t *testing.T) {
	ring := &keyring{keys: make(map[string]identity.Key)}
	bob := func(k *identity.Key) { k.Caller = "bob" }
	alice, rotated, eve := ring.issue(t, nil, "write"), ring.issue(t, nil, "write"), ring.issue(t, bob, "write")
	narrow := ring.issue(t, nil, "gate:chat", "write")
	poor := ring.issue(t, func(k *identity.Key) { k.Account = "bob" }, "write")
	s, reached := locked(t, ring)
	server := httptest.NewServer(s.Handler(lastOfPath))
	defer server.Close()
	send := func(method, token, session, body string) (int, http.Header, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a stream opened by mistake would not end
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, server.URL+"/mcp/chat", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{
			"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session},
		}
		if session == "" {
			r.Header.Del("Mcp-Session-Id")
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return res.StatusCode, res.Header, string(text)
	}
	_, header, _ := send(http.MethodPost, alice, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`)
	session := header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("there is no session")
	}
	send(http.MethodPost, alice, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"who","arguments":{}}}`
	_, _, unknown := send(http.MethodPost, alice, "NOSUCHSESSION", call)
	for name, token := range map[string]string{"another caller": eve, "another scope": narrow, "another account": poor} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			body := call
			if method != http.MethodPost {
				body = ""
			}
			if status, _, text := send(method, token, session, body); status != http.StatusNotFound || text != unknown {
				t.Errorf("%s, %s: %d %s", name, method, status, text)
			}
		}
	}
	if status, _, _ := send(http.MethodPost, "", session, call); status != http.StatusUnauthorized || reached.Load() > 0 {
		t.Errorf("nobody: %d, reached %d", status, reached.Load())
	}
	for _, token := range []string{alice, rotated} {
		if status, _, text := send(http.MethodPost, token, session, call); status != http.StatusOK || !strings.Contains(text, "alice of acme with [write]") {
			t.Errorf("its caller: %d %s", status, text)
		}
	}
	if status, _, _ := send(http.MethodDelete, alice, session, ""); status != http.StatusNoContent {
		t.Errorf("its caller cannot end it: %d", status)
	}
	if status, _, text := send(http.MethodPost, alice, session, call); status != http.StatusNotFound || text != unknown {
		t.Errorf("after its end: %d %s", status, text)
	}
}

func TestSSEConnectionBelongsToItsCaller(t *testing.T) {
	ring := &keyring{keys: make(map[string]identity.Key)}
	alice := ring.issue(t, nil, "write")
	eve := ring.issue(t, func(k *identity.Key) { k.Caller = "eve" }, "write")
	s, reached := locked(t, ring)
	server := httptest.NewServer(s.SSEHandler(lastOfPath))
	defer server.Close()
	credential := &with{token: alice}
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: server.URL + "/sse/chat", HTTPClient: &http.Client{Transport: credential}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who"})
	if err != nil || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "alice of acme with [write]") {
		t.Fatalf("%+v %v", res, err)
	}
	reached.Store(0)
	credential.mu.Lock()
	credential.token = eve
	credential.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "who"}); err == nil || reached.Load() > 0 {
		t.Errorf("another caller was accepted: %v", err)
	}
	_ = session.Close()
	h := s.SSEHandler(lastOfPath)
	for _, c := range []struct {
		method, token, kind string
		want                int
	}{
		{http.MethodPost, alice, "application/json", http.StatusNotFound},
		{http.MethodPost, alice, "text/plain", http.StatusUnsupportedMediaType},
		{http.MethodPost, "", "application/json", http.StatusUnauthorized},
		{http.MethodGet, "", "", http.StatusUnauthorized},
		{http.MethodDelete, alice, "", http.StatusMethodNotAllowed},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/sse/chat?sessionid=NONE", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Content-Type", c.kind)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.kind, w.Code, c.want)
		}
	}
}

func TestStdioCallsAsLocalUser(t *testing.T) {
	who := toolyard.Define(toolyard.Spec{Name: "who"}, func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) {
		return c.Caller.ID + " of " + c.Caller.Account, nil
	})
	c := open(t, newServer(t, who), `{}`)
	defer c.close()
	for _, call := range []string{callWho, strings.Replace(callWho, `,`+goodMeta, "", 1)} { // both eras
		c.send(call)
		if line := c.next(); !strings.Contains(line, "local of local") {
			t.Error(line)
		}
	}
}
