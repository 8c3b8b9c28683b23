package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/config"
)

func TestImportFromEverywhere(t *testing.T) {
	u := newUser(t)
	u.write(filepath.Join(u.home, ".cursor/mcp.json"), `{"mcpServers": {"git_hub": {"url": "https://api.example.com/mcp", "headers": {"Authorization": "Bearer hidden"}}}}`)
	u.write(".mcp.json", `{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files", "${workspaceFolder}"], "env": {"LEVEL": "${LEVEL:-1}"}}, "me": {"command": "/bin/toolyard"}}}`)
	u.write(filepath.Join(u.home, ".config/goose/config.yaml"), "extensions: [broken\n")
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := u.do("import")
	want := `secrets:
  git-hub-token: env:GIT_HUB_TOKEN
servers:
  files:
    command: npx
    args: ["-y", files, ` + folder + `]
    env:
      LEVEL: "${LEVEL:-1}"
  git-hub:
    url: https://api.example.com/mcp
    auth: {type: bearer, secretRef: git-hub-token}
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Error(diff)
	}
	for _, part := range []string{
		".mcp.json (Claude Code): 2 servers", "(Cursor): 1 server\n", "config.yaml: the file is not valid YAML", "me is Toolyard itself",
		"git_hub is imported as git-hub", "set GIT_HUB_TOKEN",
	} {
		if !strings.Contains(stderr, part) {
			t.Errorf("%q is missing:\n%s", part, stderr)
		}
	}
	if strings.Contains(stderr, "hidden") {
		t.Error(stderr)
	}
	if _, err := os.Stat("toolyard.yaml"); err == nil {
		t.Error("a file was written")
	}
}

func TestImportWrites(t *testing.T) {
	u := newUser(t)
	u.write("a.json", `{"mcpServers": {"a": {"command": "a-mcp", "env": {"API_KEY": "hidden"}}}}`)
	u.do("import", "a.json", "--write")
	first := "# Run \"toolyard schema\" for the JSON Schema of this file.\ngates: {default: {mode: write, naming: plain}}\nsecrets:\n  a-api-key: env:A_API_KEY\nservers:\n  a:\n    command: a-mcp\n    env:\n      API_KEY: \"${secret:a-api-key}\"\n"
	u.want("toolyard.yaml", first)

	u.write("my.yaml", "# mine\nservers: # all of them\n  a: # ours\n    command: other\n\n# the rest\nname: shop\n")
	u.write("b.json", `{"mcpServers": {"a": {"command": "a-mcp"}, "b": {"url": "https://b.example.com/sse", "type": "sse"}}}`)
	_, stderr := u.do("import", "b.json", "--write", "--config", "my.yaml")
	if !strings.Contains(stderr, "server a is already in the configuration") {
		t.Error(stderr)
	}
	want := "# mine\nservers: # all of them\n  a: # ours\n    command: other\n  b:\n    url: https://b.example.com/sse\n    transport: sse\n\n# the rest\nname: shop\n"
	u.want("my.yaml", want)
	u.want("my.yaml.bak", "# mine\nservers: # all of them\n  a: # ours\n    command: other\n\n# the rest\nname: shop\n")
	if _, stderr := u.do("import", "b.json", "--write", "--config", "my.yaml"); !strings.Contains(stderr, "Nothing to add: my.yaml is unchanged") {
		t.Error(stderr)
	}
	u.want("my.yaml", want)
	u.want("toolyard.yaml", first)
}

func TestImportRefuses(t *testing.T) {
	u := newUser(t)
	u.write("bad.json", "{oops")
	u.write("toolyard.yaml", "servers: [a]\n")
	u.write("good.json", `{"mcpServers": {"a": {"command": "x"}}}`)
	for want, args := range map[string][]string{
		"no client configuration found": {},
		"no such file":                  {"missing.json"},
		"claude is neither a file nor a client (did you mean \"claude-desktop\" or \"claude-code\"?)": {"claude"},
		"curser is neither a file nor a client (did you mean \"cursor\"?)":                            {"curser"},
		"is not valid JSON":              {"bad.json"},
		"the path is not a regular file": {"."},
		"not a mapping":                  {"good.json", "--write"},
	} {
		if code, stdout, stderr := u.run(append([]string{"import"}, args...)...); code == exitOK || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
		}
	}
	u.env = nil
	if code, _, stderr := u.run("import"); code == exitOK || !strings.Contains(stderr, "HOME") {
		t.Error(code, stderr)
	}
}

// Untrusted text can control neither the terminal nor the file.
func TestImportOfHostileText(t *testing.T) {
	u := newUser(t)
	u.write("x.json", `{"mcpServers": {
		"a\u001b[2J\nservers:": {"command": "x\u0007\n    evil: true", "args": ["\u202e", "${secret:a}"]},
		"b: {}\u009b": {"command": "x\u0007\n    evil: true", "args": ["\u202e"], "\u001b]0;title": 1}
	}}`)
	stdout, stderr := u.do("import", "x.json")
	for _, r := range stdout + stderr {
		if r != '\n' && (r < ' ' || r == 0x7f || r == 0x9b || r == 0x202e) {
			t.Errorf("%q is printed", r)
		}
	}
	want := "servers:\n  b:\n    command: \"x\\u0007\\n    evil: true\"\n    args: [\"\\u202e\"]\n"
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Error(diff)
	}
}

// Every client's import is a valid configuration.
func TestImportIsAConfiguration(t *testing.T) {
	files, err := filepath.Glob("../internal/config/clientconfig/testdata/*/in.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	u := newUser(t)
	stdout, _ := u.do(append([]string{"import"}, files...)...)
	c, err := config.Parse("toolyard.yaml", []byte(stdout), func(string) (string, bool) { return "x", true })
	if err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if len(c.Servers) < 15 || len(c.Secrets) < 8 {
		t.Errorf("%d servers, %d secrets", len(c.Servers), len(c.Secrets))
	}
}

// Variables for servers that are already configured are not listed.
func TestImportListsOnlyVariablesOfNewServers(t *testing.T) {
	u := newUser(t)
	u.write("a.json", `{"mcpServers": {"a": {"command": "a-mcp", "args": ["--api-key", "first"]}}}`)
	if _, stderr := u.do("import", "a.json", "--write"); !strings.Contains(stderr, "set A_API_KEY") {
		t.Error(stderr)
	}
	u.write("b.json", `{"mcpServers": {"b": {"url": "https://b.example.com/mcp?api_key=second"}}}`)
	_, stderr := u.do("import", "a.json", "b.json", "--write")
	if strings.Contains(stderr, "A_API_KEY") || !strings.Contains(stderr, "set B_API_KEY") {
		t.Error(stderr)
	}
}
