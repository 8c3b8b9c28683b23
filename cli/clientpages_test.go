package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/yard"
)

// clientPages writes the quick starts in docs/clients with the real command, for a user whose home
// folder is /home/ann and whose configuration is in ~/yard.
type clientPages struct {
	t                *testing.T
	home, executable string
}

// run runs a command in an empty home folder. It returns the output and the client's file.
func (p clientPages) run(client *clientconfig.Client, args ...string) (output, file string) {
	p.t.Helper()
	if err := os.RemoveAll(p.home); err != nil {
		p.t.Fatal(err)
	}
	folder := filepath.Join(p.home, "yard")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "toolyard.yaml"), []byte("gates:\n  default: {mode: read}\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.t.Chdir(folder)
	getenv := only("HOME", p.home)
	var out strings.Builder
	opts := yard.Options{Process: yard.Process{Getenv: getenv, Version: "test"}}
	if code := Run(context.Background(), opts, append([]string{"install", client.ID}, args...), strings.NewReader(""), &out, &out); code != exitOK {
		p.t.Fatalf("install %s %v: %s", client.ID, args, &out)
	}
	paths := client.Paths(p.home, folder, runtime.GOOS, getenv)
	data, err := os.ReadFile(paths[len(paths)-1])
	if err != nil {
		p.t.Fatal(err)
	}
	return p.shown(out.String()), p.shown(string(data))
}

// shown replaces the test's folders with those on the pages.
func (p clientPages) shown(text string) string {
	return strings.TrimSpace(strings.NewReplacer(p.executable, "/usr/local/bin/toolyard", p.home, "/home/ann", "ty_key", "ty_…").Replace(text)) + "\n"
}

func (p clientPages) page(c *clientconfig.Client) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s\n\nGenerated with `toolyard install` by `go test ./cli -run ClientPages -update`. Do not edit.\n", c.Name)
	files := clientFiles(c)
	fence := map[string]string{".toml": "toml", ".yaml": "yaml"}[filepath.Ext(files[0])]
	fence = cmp.Or(fence, "json")
	block := func(intro, command string, args ...string) {
		output, file := p.run(c, args...)
		fmt.Fprintf(&w, "\n%s\n\n```console\n$ toolyard install %s%s\n%s```\n\nThe file then contains:\n\n```%s\n%s```\n", intro, c.ID, command, output, fence, file)
	}
	fmt.Fprintf(&w, "\nRun these commands in the folder that contains your `toolyard.yaml`. Toolyard backs up %s's configuration file and adds one entry. Your other settings stay as they are.\n", c.Name)
	if c.Remote {
		w.WriteString("\n## Over HTTP\n")
		block("With HTTP, a single Toolyard process serves all your clients. Start it with `toolyard serve --http`.", "")
		w.WriteString("\n### With an API key\n")
		block("If the gate has `callers: keys`, the client needs an API key. To create one, run `toolyard keys create --name "+c.ID+" --caller ann`.",
			` --header "Authorization: Bearer $TOOLYARD_KEY"`, "--header", "Authorization: Bearer ty_key")
	}
	w.WriteString("\n## Over stdio\n")
	if c.Remote {
		block(c.Name+" can also start Toolyard itself. You don't have to sign in, because Toolyard then runs as your user.", " --stdio", "--stdio")
	} else {
		block(c.Name+" doesn't support URLs, so it starts Toolyard itself. You don't have to sign in, because Toolyard then runs as your user.", "")
	}
	fmt.Fprintf(&w, "\nIf `toolyard.yaml` uses environment variables, set them in %s's environment or in the entry itself. `toolyard install` lists them.\n", c.Name)
	fmt.Fprintf(&w, "\n## Files\n\n| scope | file |\n|---|---|\n| Linux | `%s` |\n| macOS | `%s` |\n| Windows | `%s` |\n", files[0], files[1], files[2])
	if c.Project != "" {
		fmt.Fprintf(&w, "| one project, with `--project` | `%s` |\n", c.Project)
	}
	if names := locationVariables(c); len(names) > 0 {
		fmt.Fprintf(&w, "\nIf you've set `%s`, the file is in that folder.\n", strings.Join(names, "` or `"))
	}
	fmt.Fprintf(&w, "\nTo remove the entry, run `toolyard install %s --remove`. To choose a gate, add `--gate NAME`. To preview a change without writing it, add `--dry-run`.\n", c.ID)
	return w.String()
}

// clientFiles returns a user's files on Linux, macOS and Windows.
func clientFiles(c *clientconfig.Client) (files []string) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		home, getenv := "~", only("HOME", "~")
		if goos == "windows" {
			home, getenv = "%USERPROFILE%", only("APPDATA", "%APPDATA%")
		}
		paths := c.Paths(home, ".", goos, getenv)
		file := paths[len(paths)-1]
		if goos == "windows" {
			file = strings.ReplaceAll(file, "/", `\`)
		}
		files = append(files, file)
	}
	return files
}

// only returns an environment with one variable.
func only(name, value string) clientconfig.Getenv {
	return func(wanted string) (string, bool) {
		if wanted != name {
			return "", false
		}
		return value, true
	}
}

// locationVariables returns the Linux environment variables that change where the client looks for
// its file.
func locationVariables(c *clientconfig.Client) (names []string) {
	c.Paths("~", ".", "linux", func(name string) (string, bool) {
		names = append(names, name)
		return "", false
	})
	return names
}

func clientIndex() string {
	var w strings.Builder
	w.WriteString("# MCP clients\n\nGenerated by `go test ./cli -run ClientPages -update`. Do not edit.\n\n" +
		"To add Toolyard to an MCP client's configuration, run `toolyard install CLIENT`. Without a client, the command lists all clients and their files. " +
		"To import the servers that your clients already use, run `toolyard import`. You can connect any other client that supports Streamable HTTP to " +
		"`http://127.0.0.1:3001/mcp`, or to `/mcp/NAME` for the gate NAME.\n\n" +
		"If a gate has `callers: tokens`, the client opens a browser to sign in when it connects; see [Identity](../IDENTITY.md).\n\n" +
		"| client | command | HTTP | stdio | project file |\n|---|---|---|---|---|\n")
	for _, c := range clientconfig.Clients {
		mark := map[bool]string{true: "✓", false: "–"}
		fmt.Fprintf(&w, "| [%s](%s.md) | `toolyard install %s` | %s | ✓ | %s |\n", c.Name, c.ID, c.ID, mark[c.Remote], mark[c.Project != ""])
	}
	return w.String()
}

// TestClientPagesAreCurrent generates the quick starts with the install command.
func TestClientPagesAreCurrent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the pages show paths of Linux")
	}
	docs, err := filepath.Abs("../docs/clients")
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := clientPages{t, filepath.Join(t.TempDir(), "ann"), executable}
	pages := map[string]string{"README.md": clientIndex()}
	for _, c := range clientconfig.Clients {
		pages[c.ID+".md"] = p.page(c)
	}
	t.Chdir(docs)
	if *update {
		for name, text := range pages {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if _, ok := pages[name]; !ok {
			t.Errorf("docs/clients/%s is not a page of a client", name)
		}
	}
	for name, text := range pages {
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("docs/clients/%s is stale (%v): run go test ./cli -run ClientPages -update", name, err)
		}
	}
	if !slices.Contains(files, "cursor.md") {
		t.Error("no page for Cursor")
	}
}
