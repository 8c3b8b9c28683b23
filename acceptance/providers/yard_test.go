package providers

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	programClient   = "program" // public client that receives tokens for itself
	programRedirect = "http://127.0.0.1:9/callback"
	consoleClient   = "console"
	consoleSecret   = "console-secret-of-the-test"
)

// testYard is a running Toolyard with the gate chat, which accepts the issuer corp's tokens and has
// the tool whoami.
type testYard struct {
	t      *testing.T
	url    string
	issuer string
	client *http.Client // the person's client, with the cookies of all servers

	mu  sync.Mutex
	log bytes.Buffer
}

// Write receives the log.
func (y *testYard) Write(p []byte) (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.log.Write(p)
}

func (y *testYard) logs() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.log.String()
}

var addresses atomic.Int64

func init() { addresses.Store(int64(os.Getpid()) * 103) }

// freeAddress returns an address that a yard can listen on. The system does not use its port for
// outgoing connections, so it stays free until the yard starts.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+addresses.Add(1)%10_000)
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// consoleRedirect returns the console's redirect URI for a yard at an address.
func consoleRedirect(address string) string { return "http://" + address + "/console/signin/corp" }

// startYard builds Toolyard and starts it at an address. settings contains the issuer's settings,
// in addition to its URL and the console's client.
func startYard(t *testing.T, address, issuer, settings string) *testYard {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	y := &testYard{url: "http://" + address, t: t, issuer: issuer, client: &http.Client{Jar: jar, Timeout: time.Minute}}
	dir := t.TempDir()
	binary := filepath.Join(dir, "toolyard")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/toolyard")
	build.Dir = "../.." // the main module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range map[string]string{
		"toolyard.yaml": fmt.Sprintf(`
url: %s
store: memory
issuers:
  corp:
    issuer: %s
    console: {client: %s, secretRef: env:CONSOLE_SECRET, scopes: [groups]}
    %s
scripts: {}
gates:
  chat: {mode: read, callers: tokens}
`, y.url, issuer, consoleClient, strings.ReplaceAll(strings.TrimSpace(settings), "\n", "\n    ")),
		"tools/whoami.ts": `export const description = "Returns the ID of the caller.";
export const modes = ["read"];
export const inputSchema = { type: "object", properties: {} };
export default (_, ctx) => ctx.authorized.user_id;
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := exec.Command(binary, "serve", "--listen", address)
	serve.Dir, serve.Stderr, serve.Env = dir, y, append(os.Environ(), "CONSOLE_SECRET="+consoleSecret)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	y.within("the server to be ready", func() bool {
		res, err := http.Get(y.url + "/readyz")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return y
}

// within waits for a condition.
func (y *testYard) within(what string, done func() bool) {
	y.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			y.t.Fatalf("no end of waiting for %s\n%s", what, y.logs())
		}
	}
}

// send sends a request and decodes the response.
func (y *testYard) send(method, address string, header map[string]string, body io.Reader) (status int, text string, answer map[string]any) {
	y.t.Helper()
	req, err := http.NewRequestWithContext(y.t.Context(), method, address, body)
	if err != nil {
		y.t.Fatal(err)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := y.client.Do(req)
	if err != nil {
		y.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		y.t.Fatal(err)
	}
	_ = json.Unmarshal(raw, &answer)
	return res.StatusCode, string(raw), answer
}

// follow opens the authorization URL as a browser does, until the provider redirects to the
// redirect URI.
func (y *testYard) follow(address, redirect string) (response url.Values) {
	y.t.Helper()
	browser := &http.Client{Jar: y.client.Jar, Timeout: time.Minute, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirect) {
			response = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := browser.Get(address)
	if err != nil {
		y.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if response.Get("code") == "" {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		y.t.Fatalf("the provider does not return with a code: %s %s %v %s", res.Status, res.Request.URL, response, text)
	}
	return response
}

// signsIn waits until the person can sign in to the console, and checks the caller ID and the role
// there. After a rotation, keys are fetched again only 30 seconds after the last fetch.
func (y *testYard) signsIn(caller, role string) {
	y.t.Helper()
	var me map[string]any
	y.within("a sign-in", func() (ok bool) {
		me, ok = y.signIn()
		return ok
	})
	if me["caller"] != caller || me["role"] != role {
		y.t.Errorf("signed in as %v with the role %v, not as %s with the role %s", me["caller"], me["role"], caller, role)
	}
}

// signIn signs the person in to the console and returns the API's description of the caller.
func (y *testYard) signIn() (me map[string]any, ok bool) {
	y.t.Helper()
	page := map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
	status, _, begun := y.send("POST", y.url+"/api/v1/signin/issuers/corp", page, strings.NewReader("{}"))
	if status != http.StatusOK {
		return nil, false // the issuer's metadata is not available yet
	}
	response := y.follow(begun["address"].(string), y.url+"/console/signin/corp")
	body, err := json.Marshal(map[string]any{
		"issuer": "corp", "secret": begun["secret"], "state": response.Get("state"), "code": response.Get("code"), "iss": response.Get("iss"), "error": response.Get("error"),
	})
	if err != nil {
		y.t.Fatal(err)
	}
	status, _, answer := y.send("POST", y.url+"/api/v1/signin/response", page, bytes.NewReader(body))
	if status != http.StatusOK {
		return nil, false
	}
	page["Toolyard-Page-Secret"], _ = answer["pageSecret"].(string)
	_, _, me = y.send("GET", y.url+"/api/v1/me", page, http.NoBody)
	return me, true
}

// personTokens are the program's tokens for the person.
type personTokens struct{ access, id string }

// tokens signs the person in to the program, using an authorization code with PKCE and the
// provider's discovery document.
func (y *testYard) tokens(scope string) personTokens {
	y.t.Helper()
	status, text, metadata := y.send("GET", strings.TrimSuffix(y.issuer, "/")+"/.well-known/openid-configuration", nil, http.NoBody)
	if status != http.StatusOK || metadata["issuer"] != y.issuer {
		y.t.Fatalf("discovery: %d %s", status, text)
	}
	verifier := strings.Repeat("v", 43)
	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id": {programClient}, "redirect_uri": {programRedirect}, "response_type": {"code"}, "scope": {scope}, "state": {"state-of-the-test"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	response := y.follow(metadata["authorization_endpoint"].(string)+"?"+query.Encode(), programRedirect)
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {programClient}, "redirect_uri": {programRedirect}, "code": {response.Get("code")}, "code_verifier": {verifier},
	}
	status, text, answer := y.send("POST", metadata["token_endpoint"].(string), map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, strings.NewReader(form.Encode()))
	access, _ := answer["access_token"].(string)
	id, _ := answer["id_token"].(string)
	if status != http.StatusOK || access == "" {
		y.t.Fatalf("token endpoint: %d %s", status, text)
	}
	return personTokens{access: access, id: id}
}

// call calls whoami at the gate with a token, in both protocol eras. It returns the status and,
// after a call in the modern era, the caller's ID.
func (y *testYard) call(token string) (status int, caller string) {
	y.t.Helper()
	header := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	legacy, text, _ := y.send("POST", y.url+"/mcp/chat", header, strings.NewReader(initialize))
	header["Mcp-Protocol-Version"], header["Mcp-Method"], header["Mcp-Name"] = "2026-07-28", "tools/call", "whoami"
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	status, body, answer := y.send("POST", y.url+"/mcp/chat", header, strings.NewReader(call))
	if status != legacy {
		y.t.Errorf("modern: %d %s; legacy: %d %s", status, body, legacy, text)
	}
	result, _ := answer["result"].(map[string]any)
	content, _ := result["content"].([]any)
	if len(content) == 1 {
		first, _ := content[0].(map[string]any)
		caller, _ = first["text"].(string)
	}
	return status, caller
}

// enters waits until the gate accepts a token for the expected caller. After a rotation, keys are
// fetched again only 30 seconds after the last fetch.
func (y *testYard) enters(token, caller string) {
	y.t.Helper()
	var status int
	var got string
	y.within("the token to be accepted", func() bool {
		status, got = y.call(token)
		return status == http.StatusOK && got != ""
	})
	if got != caller {
		y.t.Errorf("the caller is %s, not %s", got, caller)
	}
}

// refused checks that the gate refuses a token.
func (y *testYard) refused(name, token string) {
	y.t.Helper()
	if status, caller := y.call(token); status != http.StatusUnauthorized || caller != "" {
		y.t.Errorf("%s: %d %s", name, status, caller)
	}
}
