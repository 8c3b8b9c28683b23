package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/yard"
)

// user is a person with a home directory who works in a project.
type user struct {
	t             *testing.T
	home, project string
	env           map[string]string
	types         string // standard input
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{t: t, home: t.TempDir(), project: t.TempDir()}
	u.env = map[string]string{"HOME": u.home}
	t.Chdir(u.project)
	return u
}

// run runs a command and returns its exit code and output.
func (u *user) run(args ...string) (code int, stdout, stderr string) {
	u.t.Helper()
	var out, errs bytes.Buffer
	a := &app{in: strings.NewReader(u.types), out: &out, err: &errs, opts: yard.Options{Process: yard.Process{Getenv: func(name string) (string, bool) {
		value, ok := u.env[name]
		return value, ok
	}}}}
	root := a.rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(u.t.Context())
	var exit exitStatus
	switch {
	case errors.As(err, &exit):
		if exit.err != nil {
			a.printError(exit.err)
		}
		code = exit.code
	case err != nil:
		a.printError(err)
		code = exitUsage
	}
	return code, out.String(), errs.String()
}

// do runs a command that must succeed.
func (u *user) do(args ...string) (stdout, stderr string) {
	u.t.Helper()
	code, stdout, stderr := u.run(args...)
	if code != exitOK {
		u.t.Fatalf("%v: %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout, stderr
}

func (u *user) write(path, text string) {
	u.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *user) read(path string) string {
	u.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		u.t.Fatal(err)
	}
	return string(data)
}

func (u *user) want(path, text string) {
	u.t.Helper()
	if diff := cmp.Diff(text, u.read(path)); diff != "" {
		u.t.Errorf("%s: %s", path, diff)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstallAndRemove(t *testing.T) {
	for _, c := range clientconfig.Clients {
		for _, text := range []string{"", "{}\n", "{ } // mine\n", "{\n  // mine\n  \"a\": 1\n}\n"} {
			t.Run(c.ID+text, func(t *testing.T) {
				u := newUser(t)
				paths := c.Paths(u.home, u.project, "linux", func(string) (string, bool) { return "", false })
				file := paths[len(paths)-1]
				switch filepath.Ext(file) {
				case ".yaml":
					text = strings.NewReplacer("{", "", "}", "", "//", "#", "\"", "").Replace(text)
				case ".toml":
					text = strings.NewReplacer("{", "", "}", "", "//", "#", "\"", "", ":", " =").Replace(text)
				}
				if text != "" {
					u.write(file, text)
				}
				u.do("install", c.ID)
				installed := u.read(file)
				if stdout, _ := u.do("install", c.ID); !strings.Contains(stdout, "nothing to do") || u.read(file) != installed {
					t.Errorf("installed twice: %s", stdout)
				}
				if stdout, _ := u.do("install"); !strings.Contains(stdout, "yes") {
					t.Error(stdout)
				}
				if text != "" {
					u.want(file+backupSuffix, text)
				}
				u.do("install", c.ID, "--remove")
				if text != "" {
					u.want(file, text)
				}
				if stdout, _ := u.do("install"); strings.Contains(stdout, "yes") {
					t.Error(stdout)
				}
			})
		}
	}
}

func TestInstallStdio(t *testing.T) {
	u := newUser(t)
	u.write("toolyard.yaml", "gates: {chat: {mode: read}}\n")
	u.do("install", "claude-desktop", "--gate", "chat", "--name", "yard")
	data := u.read(filepath.Join(u.home, ".config/Claude/claude_desktop_config.json"))
	servers, _, err := clientconfig.Read("x.json", []byte(data))
	if err != nil || len(servers) != 1 {
		t.Fatal(err, data)
	}
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := clientconfig.Server{
		Name: "yard", Transport: clientconfig.Stdio, Line: 3, Command: executable(t),
		Args: []string{"serve", "--config", filepath.Join(folder, "toolyard.yaml"), "--gate", "chat"},
	}
	if diff := cmp.Diff(want, servers[0]); diff != "" {
		t.Error(diff)
	}
}

func TestInstallURL(t *testing.T) {
	u := newUser(t)
	for _, test := range []struct {
		config, want string
		args         []string
	}{
		{"", "http://127.0.0.1:3001/mcp", nil},
		{"listen: 0.0.0.0:4000\nanonymous: true\n", "http://127.0.0.1:4000/mcp", nil},
		{"gates: {chat: {mode: read}}\n", "http://127.0.0.1:3001/mcp/chat", []string{"--gate", "chat"}},
		{"", "https://tools.example.com/mcp", []string{"--url", "https://tools.example.com/mcp"}},
	} {
		u.write("toolyard.yaml", test.config)
		u.do(append([]string{"install", "claude-code", "--project"}, test.args...)...)
		if data := u.read(".mcp.json"); !strings.Contains(data, `"url": "`+test.want+`"`) {
			t.Error(test.want, data)
		}
	}
}

func TestInstallRefuses(t *testing.T) {
	u := newUser(t)
	u.write(filepath.Join(u.home, ".cursor/mcp.json"), "{oops")
	for want, args := range map[string][]string{
		"did you mean \"cursor\"?":          {"cursr"},
		"available clients: claude-desktop": {"emacs-of-old"},
		"does not support URLs":             {"claude-desktop", "--url", "http://x/mcp"},
		"no project file":                   {"windsurf", "--project"},
		"not http or https":                 {"vscode", "--url", "ftp://x"},
		"is not valid JSON":                 {"cursor"},
		"omit --gate":                       {"vscode", "--url", "http://x/mcp", "--gate", "a"},
		"none of the others can be":         {"vscode", "--url", "http://x/mcp", "--stdio"},
	} {
		if code, _, stderr := u.run(append([]string{"install"}, args...)...); code == exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	u.want(filepath.Join(u.home, ".cursor/mcp.json"), "{oops")
}

func TestInstallDryRun(t *testing.T) {
	u := newUser(t)
	file := filepath.Join(u.home, ".cursor/mcp.json")
	text := "{\n  \"mcpServers\": {\n    \"a\": {\n      \"env\": {\"TOKEN\": \"hidden\"}\n    }\n  }\n}\n"
	u.write(file, text)
	stdout, _ := u.do("install", "cursor", "--dry-run")
	want := "--- " + file + "\n+++ " + file + "\n@@ -4,0 +5,4 @@\n+    },\n+    \"toolyard\": {\n" +
		"+      \"type\": \"http\",\n+      \"url\": \"http://127.0.0.1:3001/mcp\"\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Error(diff)
	}
	u.want(file, text)
	if _, err := os.Stat(file + backupSuffix); err == nil {
		t.Error("a backup was written")
	}
}

// The user's own symbolic links are followed; links that lead out of a project are rejected.
func TestInstallAndLinks(t *testing.T) {
	u := newUser(t)
	dotfiles, file := filepath.Join(u.home, "dotfiles/mcp.json"), filepath.Join(u.home, ".cursor/mcp.json")
	u.write(dotfiles, "{}\n")
	if err := os.Chmod(dotfiles, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dotfiles, file); err != nil {
		t.Skip(err)
	}
	u.do("install", "cursor")
	info, err := os.Lstat(file)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(u.read(dotfiles), "toolyard") {
		t.Error(info, err)
	}
	if info, err = os.Stat(dotfiles); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}

	u.write(filepath.Join(u.home, "precious.json"), "{}\n")
	for _, link := range [][2]string{
		{filepath.Join(u.home, "precious.json"), ".mcp.json"},
		{u.home, ".vscode"},
		{filepath.Join(u.home, "new.json"), ".roo"},
	} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, client := range []string{"claude-code", "vscode", "roo"} {
		if code, _, stderr := u.run("install", client, "--project"); code == exitOK || !strings.Contains(stderr, "link") {
			t.Error(client, code, stderr)
		}
	}
	u.want(filepath.Join(u.home, "precious.json"), "{}\n")

	// A backup replaces a symbolic link.
	u.write(".cursor/mcp.json", "{}\n")
	if err := os.Symlink(filepath.Join(u.home, "precious.json"), ".cursor/mcp.json.bak"); err != nil {
		t.Fatal(err)
	}
	u.write(filepath.Join(u.home, "precious.json"), "{\"precious\": 1}\n")
	u.do("install", "cursor", "--project")
	u.want(filepath.Join(u.home, "precious.json"), "{\"precious\": 1}\n")
	u.want(".cursor/mcp.json.bak", "{}\n")
}

func TestReplaceFileSeesOtherWriters(t *testing.T) {
	u := newUser(t)
	u.write("f", "theirs")
	if err := replaceFile("f", []byte("before"), []byte("after"), 0o600); err == nil {
		t.Error("their change was lost")
	}
	u.want("f", "theirs")
}

// Installing a gate that requires keys explains the key and the variables.
func TestInstallNamesKeysAndVariables(t *testing.T) {
	u := newUser(t)
	u.env["PORT"], u.env["HUB_TOKEN"] = "4000", "x"
	u.write("toolyard.yaml", `listen: 127.0.0.1:${PORT}
name: ${YARD_NAME:-shop}
secrets: {hub: env:HUB_TOKEN}
gates:
  team: {mode: write, callers: keys}
  open: {mode: read}
`)
	key := "Gate team requires an API key. Create one: toolyard keys create --name KEY --caller YOU --scope gate:team --scope write"
	stdout, _ := u.do("install", "cursor", "--gate", "team")
	for _, want := range []string{key, "Authorization", "toolyard.yaml requires the environment variables HUB_TOKEN, PORT: set them in the environment of \"toolyard serve\""} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing:\n%s", want, stdout)
		}
	}
	stdout, _ = u.do("install", "vscode", "--gate", "open")
	if strings.Contains(stdout, "API key") {
		t.Error(stdout)
	}
	stdout, _ = u.do("install", "claude-desktop", "--gate", "team")
	if want := "HUB_TOKEN, PORT: set them in the environment of Claude Desktop"; !strings.Contains(stdout, want) || strings.Contains(stdout, "API key") {
		t.Error(stdout)
	}
}

// Headers are written under the client's own name for them.
func TestInstallWritesHeaders(t *testing.T) {
	u := newUser(t)
	u.write("toolyard.yaml", "gates: {team: {mode: write, callers: keys}}\n")
	stdout, _ := u.do("install", "codex", "--gate", "team")
	if want := `toolyard install codex --gate team --header "Authorization: Bearer KEY"`; !strings.Contains(stdout, want) {
		t.Errorf("%q is missing:\n%s", want, stdout)
	}
	stdout, _ = u.do("install", "codex", "--gate", "team", "--header", "Authorization: Bearer tyk_1", "--dry-run")
	if strings.Contains(stdout, "tyk_1") {
		t.Error("the key is printed: ", stdout)
	}
	stdout, _ = u.do("install", "codex", "--gate", "team", "--header", "Authorization: Bearer tyk_1")
	if strings.Contains(stdout, "API key") {
		t.Error(stdout)
	}
	u.want(filepath.Join(u.home, ".codex", "config.toml"), `[mcp_servers.toolyard]
url = "http://127.0.0.1:3001/mcp/team"
http_headers = { Authorization = "Bearer tyk_1" }
`)
}

// Doctor reports whether Toolyard or another program uses the address.
func TestDoctorExaminesTheAddress(t *testing.T) {
	for body, want := range map[string]string{"ok\n": "✓ address        a server is running at ", "hello": "✗ address        "} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		u := newUser(t)
		u.write("toolyard.yaml", "listen: "+s.Listener.Addr().String()+"\n")
		code, stdout, _ := u.run("doctor")
		if !strings.Contains(stdout, want) || (code == exitOK) != (body == "ok\n") {
			t.Errorf("%q is missing, or exit code %d:\n%s", want, code, stdout)
		}
		s.Close()
	}
}
