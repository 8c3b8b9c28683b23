package acceptance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startIssuer starts an OpenID provider and returns its URL; see issuer.mjs for the arguments.
func startIssuer(t *testing.T, args ...string) string {
	t.Helper()
	return startNode(t, "issuer.mjs", args...)
}

// startNode starts a server and returns its URL, which is the first line that it prints.
func startNode(t *testing.T, name string, args ...string) string {
	t.Helper()
	program, err := filepath.Abs("clients/node_modules/.bin/node")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{script(t, name)}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if address := lines.Text(); strings.HasPrefix(address, "http://127.0.0.1:") || strings.HasPrefix(address, "http://localhost:") {
			return address
		}
	}
	_ = cmd.Wait()
	t.Fatalf("%s did not start: %s", name, errs.String())
	return ""
}

// The OAuth clients of both official SDKs discover the issuer from the gate, register, sign in, and
// call a tool as the person who signed in. The access tokens are signed by the issuer, or opaque
// and introspected.
func TestOfficialClientsSignIn(t *testing.T) {
	t.Parallel()
	if _, err := node(t, "--version"); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]struct {
		options  []string // issuer options
		settings string
	}{
		"signed": {}, "opaque": {[]string{"--opaque"}, "introspect: {client: robot, secretRef: env:ROBOT_SECRET}"},
	} {
		t.Run(name, func(t *testing.T) {
			address := freeAddress(t)
			gate := "http://" + address + "/mcp/chat"
			issuer := startIssuer(t, append(kind.options, gate)...)
			p := &process{t: t, dir: t.TempDir(), url: gate}
			p.configure(fmt.Sprintf(`
url: http://%s
store: memory
issuers:
  corp:
    issuer: %s
    scopes: {tools.read: ["gate:chat"]}
    access: [{groups: [staff], gates: [chat], account: staff}]
    %s
scripts: {}
gates:
  chat: {mode: read, callers: tokens}
  dev: {mode: read, callers: tokens}
`, address, issuer, kind.settings))
			whoami := `export const description = "Returns the ID of the caller.";
export const modes = ["read"];
export const inputSchema = { type: "object", properties: {} };
export default (_, ctx) => ctx.authorized.user_id;
`
			if err := errors.Join(os.Mkdir(filepath.Join(p.dir, "tools"), 0o700), os.WriteFile(filepath.Join(p.dir, "tools", "whoami.ts"), []byte(whoami), 0o600)); err != nil {
				t.Fatal(err)
			}
			p.launch("toolyard", []string{"ROBOT_SECRET=robot-secret-of-the-test"}, "serve", "--listen", address)
			p.await("http://" + address)
			for _, era := range []string{"legacy", "modern"} {
				out, err := node(t, script(t, "oauth.mjs"), era, gate)
				var got struct {
					Caller, Scope string
					Parts         int
				}
				if err != nil || json.Unmarshal([]byte(out), &got) != nil || got.Caller != "corp:ann" || got.Scope != "tools.read" || (got.Parts == 3) != (name == "signed") {
					t.Errorf("%s: %v %s", era, err, out)
				}
			}
			if status := statusWithToken(t, gate, strings.Repeat("x", 43)); status != http.StatusUnauthorized {
				t.Errorf("a token that the issuer does not know: %d", status)
			}
		})
	}
}

// statusWithToken returns the status of a request to a gate with the given token.
func statusWithToken(t *testing.T, gate, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gate, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// People sign in to the console with an OpenID provider on another site, receive their groups'
// rights, and are signed out when an operator blocks them.
func TestPeopleSignInToTheConsole(t *testing.T) {
	heavy(t)
	needBrowser(t)
	address := freeAddress(t)
	issuer := startIssuer(t, "--console=http://"+address+"/console/signin/corp")
	p := &process{t: t, dir: t.TempDir(), url: "http://" + address + "/mcp"}
	p.configure(fmt.Sprintf(`
url: http://%s
store: memory
issuers:
  corp:
    issuer: %s
    console: {client: console, secretRef: env:CONSOLE_SECRET, scopes: [groups]}
    access:
      - {groups: [staff], gates: [chat], account: staff}
      - {groups: [platform], gates: ["*"], write: true, role: operator}
gates:
  chat: {mode: read, callers: tokens}
`, address, issuer))
	p.launch("toolyard", []string{"CONSOLE_SECRET=console-secret-of-the-test"}, "serve", "--listen", address)
	p.await(p.url)
	browse(t, "people.mjs", map[string]any{"url": "http://" + address, "issuer": issuer, "artifacts": t.ArtifactDir()})
}
