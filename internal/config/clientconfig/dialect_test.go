package clientconfig_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard/internal/config/clientconfig"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	local  = clientconfig.Server{Name: "toolyard", Command: "/usr/bin/toolyard", Args: []string{"serve", "--config", "/home/ann/a b.yaml"}}
	remote = clientconfig.Server{Name: "toolyard", URL: "http://127.0.0.1:3001/mcp"}
)

// golden compares the result with a golden file, or updates the file.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", file, diff)
	}
}

// fixture returns a client's sample file.
func fixture(t testing.TB, c *clientconfig.Client) (name string, data []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", c.ID, "in.*"))
	if err != nil || len(files) != 1 {
		t.Fatal("no fixture of", c.ID, err)
	}
	data, err = os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(files[0]), data
}

// Each client's folder contains a client file, the parsed servers, the sections of toolyard.yaml,
// and the file with Toolyard added.
func TestGolden(t *testing.T) {
	for _, c := range clientconfig.Clients {
		t.Run(c.ID, func(t *testing.T) {
			name, data := fixture(t, c)
			servers, warnings, err := clientconfig.Read(name, data)
			if err != nil {
				t.Fatal(err)
			}
			read, err := json.MarshalIndent(map[string]any{"servers": servers, "warnings": warnings}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", c.ID, "read.golden"), append(read, '\n'))

			tr := &clientconfig.Translator{Home: "/home/ann", Project: "/home/ann/shop", Self: []string{"toolyard"}}
			tr.Add(servers)
			yard := append(tr.Sections().YAML(), "----------\n"+strings.Join(tr.Notes(), "\n")+"\n"...)
			golden(t, filepath.Join("testdata", c.ID, "yard.golden"), yard)

			for kind, s := range map[string]clientconfig.Server{"stdio": local, "url": remote} {
				if s.URL != "" && !c.Remote {
					if _, err := c.Add(data, s); err == nil {
						t.Error("a URL was taken")
					}
					continue
				}
				added, err := c.Add(data, s)
				if err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", c.ID, kind+".golden"), added)
			}
		})
	}
}

func TestAddTwiceAndRemove(t *testing.T) {
	for _, c := range clientconfig.Clients {
		name, data := fixture(t, c)
		if c.ID == "inspector" { // already contains Toolyard
			data = mustRemove(t, c, data)
		}
		for _, variant := range map[string][]byte{
			"as it is": data,
			"crlf":     bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")),
			"bom":      append([]byte("\xef\xbb\xbf"), data...),
		} {
			once, err := c.Add(variant, local)
			if err != nil {
				t.Fatal(c.ID, err)
			}
			twice, err := c.Add(once, local)
			if err != nil || !bytes.Equal(once, twice) {
				t.Errorf("%s: added twice: %v\n%s", c.ID, err, twice)
			}
			checkHas(t, c, name, once, local)
			if removed := mustRemove(t, c, once); !bytes.Equal(removed, variant) {
				t.Errorf("%s: %s", c.ID, cmp.Diff(string(variant), string(removed)))
			}
		}
		if again := mustRemove(t, c, data); !bytes.Equal(again, data) {
			t.Errorf("%s: a missing item was removed", c.ID)
		}
	}
}

func mustRemove(t *testing.T, c *clientconfig.Client, data []byte) []byte {
	t.Helper()
	out, err := c.Remove(data, "toolyard")
	if err != nil {
		t.Fatal(c.ID, err)
	}
	return out
}

// checkHas checks that a file contains a server and can be parsed.
func checkHas(t testing.TB, c *clientconfig.Client, name string, data []byte, want clientconfig.Server) {
	t.Helper()
	servers, _, err := clientconfig.Read(name, data)
	if err != nil {
		t.Fatal(c.ID, err)
	}
	if want.Transport = clientconfig.Stdio; want.URL != "" {
		want.Transport = clientconfig.HTTP
	}
	for _, s := range servers {
		if s.Name == want.Name && s.Project == "" {
			if diff := cmp.Diff(want, s, cmpopts.IgnoreFields(s, "Line"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", c.ID, diff)
			}
			return
		}
	}
	t.Errorf("%s: the server is not there:\n%s", c.ID, data)
}

func TestAddToNothing(t *testing.T) {
	for _, c := range clientconfig.Clients {
		name, _ := fixture(t, c)
		for _, empty := range []string{"", "\n", "  \n"} {
			data, err := c.Add([]byte(empty), local)
			if err != nil {
				t.Fatal(c.ID, err)
			}
			checkHas(t, c, name, data, local)
		}
	}
}

func TestReplace(t *testing.T) {
	for _, c := range clientconfig.Clients {
		name, data := fixture(t, c)
		if !c.Remote {
			continue
		}
		data, err := c.Add(data, local)
		if err != nil {
			t.Fatal(err)
		}
		data, err = c.Add(data, remote)
		if err != nil {
			t.Fatal(err)
		}
		checkHas(t, c, name, data, remote)
	}
}

// Adding and removing a server leaves every layout unchanged.
func TestLayouts(t *testing.T) {
	cursor, _ := clientconfig.Lookup("cursor")
	for _, in := range []string{
		`{"mcpServers": {"a": {"command": "x"}}}`,
		`{"mcpServers": {"a": {"command": "x"},}}`,
		"{\n\"mcpServers\": {\n\"a\": {\"command\": \"x\"}\n}\n}",
		"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // the only one\n  } // the end\n}\n",
		"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}, // the only one\n    // \"b\": {}\n  }\n}\n",
		"{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} /* one */ , /* two */\n\n\n  }\n}\n",
		"{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"x\"}}}",
		"// top\n{ \"mcpServers\": { \"a\": {\"command\": \"x\"} // c\n} }",
		`{"mcpServers": {}}`,
	} {
		added, err := cursor.Add([]byte(in), local)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		checkHas(t, cursor, "x.json", added, local)
		if removed := mustRemove(t, cursor, added); string(removed) != in {
			t.Errorf("%s\nbecame\n%s\nand then\n%s", in, added, removed)
		}
	}
}

func TestRemoveAnywhere(t *testing.T) {
	cursor, _ := clientconfig.Lookup("cursor")
	for in, want := range map[string]string{
		"{\"mcpServers\": {\n  // ours\n  \"toolyard\": {}, // theirs\n  \"a\": {}\n}}":           "{\"mcpServers\": {\n  // ours\n   // theirs\n  \"a\": {}\n}}",
		"{\"mcpServers\": {\n  // ours\n  \"toolyard\": {}}}":                                     "{\"mcpServers\": {\n  // ours\n  }}",
		"{\"mcpServers\": {\n  \"toolyard\": {}\n}}":                                              "{\"mcpServers\": {}}",
		"{\"mcpServers\": {\n  \"a\": {},\n  \"toolyard\": {},\n  \"b\": {}\n}, \"servers\": {}}": "{\"mcpServers\": {\n  \"a\": {},\n  \"b\": {}\n}, \"servers\": {}}",
	} {
		got, err := cursor.Remove([]byte(in), "toolyard")
		if err != nil || string(got) != want {
			t.Errorf("%s\nbecame\n%s\n%v", in, got, err)
		}
	}
}

func TestYAMLLayouts(t *testing.T) {
	goose, _ := clientconfig.Lookup("goose")
	for _, in := range []string{
		"extensions:\n  a: {type: stdio, cmd: x}\n",
		"extensions:\n    a:\n        cmd: x\n        # of a\n    # of all\n# of b\nb: 1\n",
		"a: 1\nextensions:\n  a:\n    cmd: x\n\n\nb: |\n  text\n",
		"a: 1\nextensions: {}\nb: 2\n",
		"a: 1\nextensions: {} # none\nb: 2\n",
	} {
		added, err := goose.Add([]byte(in), local)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		checkHas(t, goose, "x.yaml", added, local)
		if removed := mustRemove(t, goose, added); string(removed) != in {
			t.Errorf("%s\nbecame\n%s\nand then\n%s", in, added, removed)
		}
	}
}

func TestHostileFiles(t *testing.T) {
	cursor, _ := clientconfig.Lookup("cursor")
	goose, _ := clientconfig.Lookup("goose")
	many := func(one string) string {
		return `{"mcpServers": {` + strings.Repeat(one+",", 100_000) + `}}`
	}
	for name, text := range map[string]string{
		"deep.json":     strings.Repeat(`{"mcpServers":`, 100_000),
		"arrays.json":   strings.Repeat("[", 1<<20),
		"large.json":    `{"a": "` + strings.Repeat("x", 9<<20) + `"}`,
		"many.json":     many(`"toolyard":1`),
		"latin.json":    "{\"mcpServers\": {\"\xff\": {}}}",
		"list.json":     `["mcpServers"]`,
		"open.json":     `{"mcpServers": {"a": {`,
		"comment.json":  `{"mcpServers": {} /*`,
		"deep.yaml":     strings.Repeat("[", 1<<19),
		"maps.yaml":     strings.Repeat("{a: ", 1<<17),
		"dashes.yaml":   strings.Repeat("- ", 1<<18),
		"large.yaml":    strings.Repeat("# x\n", 1<<19),
		"second.yaml":   "a: 1\n---\nextensions: {}\n",
		"alias.yaml":    "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + bomb(),
		"endless.yaml":  "a: &a [*a]\n",
		"merge.yaml":    "a: &a {x: 1}\nextensions: {<<: *a}\n",
		"flow.yaml":     "{extensions: {}}\n",
		"scalar.yaml":   "extensions\n",
		"dangling.yaml": "extensions: *x\n",
		"twice.json":    `{"mcpServers": {}, "mcpServers": {"toolyard": {}}}`,
		"text.json":     `{"mcpServers": "x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			client := cursor
			if strings.HasSuffix(name, ".yaml") {
				client = goose
			}
			if data, err := client.Add([]byte(text), local); err == nil {
				t.Errorf("it was changed: %.200s", data)
			}
			_, _, err := clientconfig.Read(name, []byte(text))
			if err != nil && (len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\x1b")) {
				t.Errorf("a bad text: %q", err)
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// bomb returns a YAML file that expands enormously through aliases.
func bomb() string {
	var b strings.Builder
	for i := 'b'; i < 'l'; i++ {
		fmt.Fprintf(&b, "%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat("*"+string(i-1)+", ", 10), ", "))
	}
	return b.String() + "extensions: {}\n"
}

func TestReadBounds(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "%q: {\"command\": \"x\", \"odd\": 1},", fmt.Sprint("s", i))
	}
	servers, warnings, err := clientconfig.Read("x.json", []byte(`{"mcpServers": {`+b.String()+`}}`))
	if err != nil || len(servers) != 1000 || len(warnings) != 100 {
		t.Error(len(servers), len(warnings), err)
	}
	many := `{"mcpServers": {"a": {"command": "x", "args": [` + strings.Repeat("1,", 1000) + `]}}}`
	if servers, warnings, err = clientconfig.Read("x.json", []byte(many)); err != nil || len(servers) != 0 || len(warnings) != 1 {
		t.Error(len(servers), warnings, err)
	}
}

// Making many equal names unique must not take long.
func TestManyNamesAlike(t *testing.T) {
	var env, b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&env, "\"%skey\": \"%d\",", strings.Repeat("_", i), i)
	}
	for i := range 100 {
		fmt.Fprintf(&b, "\"%s\": {\"command\": \"x\", \"env\": {%s}},", strings.Repeat("_", i+1), env.String())
	}
	start := time.Now()
	servers, _, err := clientconfig.Read("x.json", []byte(`{"mcpServers": {`+b.String()+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	var tr clientconfig.Translator
	tr.Add(servers)
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestReadOddities(t *testing.T) {
	text := `{
  "mcpServers": {
    "a": 1,
    "b": {"args": ["x"]},
    "c": {"command": "x", "url": "http://y"},
    "d": {"type": "carrier-pigeon", "command": "x"},
    "e": {"url": "ftp://x"},
    "f": {"command": {}, "args": "x", "env": []},
    "g": {"command": "x", "args": [1, true, null, []], "env": {"A": 1, "B": {}}, "oauth": {"x": 1}, "empty": {}},
    "h": {"command": "\u001b[31mred"},
    "h\u001b[0m": {},
    "g": {"command": "again"},
    "i": {"url": "https://${HOST}/mcp"},
    "j": {"url": "${URL}"}
  },
  "servers": []
}`
	servers, warnings, err := clientconfig.Read("x.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range servers {
		names = append(names, fmt.Sprintf("%q:%d", s.Name, s.Line))
	}
	got := strings.Join(append(names, warnings...), "\n") + "\n"
	golden(t, "testdata/oddities.golden", []byte(got))
}

func TestPaths(t *testing.T) {
	var b strings.Builder
	env := map[string]map[string]string{
		"windows": {"APPDATA": "/users/ann/roaming"},
		"linux":   {"XDG_CONFIG_HOME": "/xdg", "CLAUDE_CONFIG_DIR": "/claude"},
	}
	for _, goos := range []string{"darwin", "linux", "windows"} {
		for _, c := range clientconfig.Clients {
			paths := c.Paths("/home/ann", "/work", goos, func(name string) (string, bool) {
				v, ok := env[goos][name]
				return v, ok
			})
			fmt.Fprintln(&b, goos, c.ID, filepath.ToSlash(strings.Join(paths, " ")))
		}
	}
	golden(t, "testdata/paths.golden", []byte(b.String()))
}

func FuzzRead(f *testing.F) {
	for _, c := range clientconfig.Clients {
		name, data := fixture(f, c)
		f.Add(name, data)
	}
	f.Add("x", []byte("extensions: &a {b: *a}\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		servers, warnings, err := clientconfig.Read(name, data)
		if err != nil {
			return
		}
		tr := &clientconfig.Translator{Home: "/home/ann", Project: "/home/ann/shop"}
		tr.Add(servers)
		for _, line := range append(warnings, tr.Notes()...) {
			if strings.ContainsAny(line, "\x00\x1b\r\n\u202e") {
				t.Errorf("%q", line)
			}
		}
		if _, _, err := tr.Sections().AddTo(nil); err != nil {
			t.Errorf("%v\n%s", err, tr.Sections().YAML())
		}
	})
}

func FuzzAdd(f *testing.F) {
	for _, c := range clientconfig.Clients {
		name, data := fixture(f, c)
		f.Add(filepath.Ext(name), data, "toolyard", "/bin/toolyard")
	}
	for _, text := range []string{
		"a: &x {b: 1}\nextensions: *x\n", "extensions:\n  a: |+\n    x\n\n\nb: 1\n", "extensions: &x\n  toolyard: {}\nb: *x\n",
		"---\nextensions:\n  toolyard:\n    cmd: x\n...\n", "? extensions\n: a: 1\n", "\"extensions\" : # x\n", " extensions:\n  a: 1", "y:\rx: # y\n",
	} {
		f.Add(".yaml", []byte(text), "toolyard", "x: y")
	}
	for _, text := range []string{"[mcp_servers]\n", "mcp_servers = {}\n", "a = [\n[1]\n]", "x = '''\n[mcp_servers.y]\n'''", "[[a]]\n[a.b]\n# c\n\n", "a.b = 1\r\n"} {
		f.Add(".toml", []byte(text), "a b", "x: y")
	}
	f.Fuzz(func(t *testing.T, format string, data []byte, name, command string) {
		id, file := "cursor", "x.json"
		switch format {
		case ".yaml":
			id, file = "goose", "x.yaml"
		case ".toml":
			id, file = "codex", "x.toml"
		}
		if !utf8.ValidString(name) || !utf8.ValidString(command) {
			return
		}
		c, _ := clientconfig.Lookup(id)
		s := clientconfig.Server{Name: name, Command: command, Args: []string{command}}
		once, err := c.Add(data, s)
		if err != nil {
			return
		}
		checkHas(t, c, file, once, s)
		if twice, err := c.Add(once, s); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("added twice: %v\n%s\n%s", err, once, twice)
		}
		if bytes.Equal(once, data) {
			return
		}
		removed, err := c.Remove(once, name)
		if err != nil {
			t.Fatalf("%v\n%s", err, once)
		}
		if again, err := c.Remove(removed, name); err != nil || !bytes.Equal(again, removed) {
			t.Errorf("removed twice: %v\n%s", err, removed)
		}
	})
}

// Secrets in a URL's path are replaced with variables, but words, versions and dates are not.
func TestSecretsInPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/mcp":                                         "/mcp",
		"/v1/servers/everyday-tools/mcp":               "/v1/servers/everyday-tools/mcp",
		"/models/claude-sonnet-4-5-20250929/mcp":       "/models/claude-sonnet-4-5-20250929/mcp",
		"/releases/release20241022stable/mcp":          "/releases/release20241022stable/mcp",
		"/s/Zx81kQp2Vn7Rt4Lm/mcp":                      "/s/${REMOTE_URL_SECRET}/mcp",
		"/s/Zx81kQp2Vn7Rt4Lm":                          "/s/${REMOTE_URL_SECRET}",
		"/s/qXvTmKzBpWnRyL3h/mcp":                      "/s/${REMOTE_URL_SECRET}/mcp",
		"/s/a81f0c9be27d4430/mcp":                      "/s/${REMOTE_URL_SECRET}/mcp",
		"/apps/MyServerForProduction/mcp":              "/apps/MyServerForProduction/mcp",
		"/token/correct-horse/sse":                     "/token/${REMOTE_URL_SECRET}/sse",
		"/api-keys/letters/x":                          "/api-keys/${REMOTE_URL_SECRET}/x",
		"/keys":                                        "/keys",
		"/token/${MY_TOKEN}/sse":                       "/token/${MY_TOKEN}/sse",
		"/u/3f2504e0-4f89-11d3-9a0c-0305e82c3301/mcp":  "/u/${REMOTE_URL_SECRET}/mcp",
		"/x/sk-abcdefghijklmnopqrstuvwx/mcp":           "/x/${REMOTE_URL_SECRET}/mcp",
		"/s/Zx81kQp2Vn7Rt4Lm/mcp?token=letters&page=2": "/s/${REMOTE_URL_SECRET}/mcp?token=${REMOTE_TOKEN}&page=2",
	} {
		tr := &clientconfig.Translator{Home: "/home/ann", Project: "/home/ann/app"}
		tr.Add([]clientconfig.Server{{Name: "remote", Transport: clientconfig.HTTP, URL: "https://tools.example.com" + path}})
		if got := string(tr.Sections().YAML()); !strings.Contains(got, "https://tools.example.com"+want+"\n") && !strings.Contains(got, "https://tools.example.com"+want+"\"") {
			t.Errorf("%s: want %s in\n%s", path, want, got)
		}
	}
}
