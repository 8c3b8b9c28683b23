package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/packs/markets"
	"github.com/toolyard/toolyard/packs/trading"
	"github.com/toolyard/toolyard/yard"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func env(name string) (string, bool) {
	v, ok := map[string]string{"PORT": "4000", "EMPTY": "", "YES": "true"}[name]
	return v, ok
}

func TestDefault(t *testing.T) {
	c := config.Default()
	if c.Listen != "127.0.0.1:3001" || c.Limits.Timeout != config.Duration(30*time.Second) ||
		c.Limits.Args != 256<<10 || c.Limits.Result != 1<<20 || c.Log.Level != "info" || c.Name != "toolyard" {
		t.Errorf("%+v", c)
	}
}

// fileSchema returns the file's schema as printed by the toolyard command.
func fileSchema() string {
	return string(yard.ConfigSchema(yard.Options{
		ProviderKinds: markets.Kinds(),
		Packs:         map[string]yard.Pack{homeassistant.Name: homeassistant.Pack(), "trading": trading.Pack()},
	}))
}

func TestTheSchemaNamesTheKindsOfContext(t *testing.T) {
	for kind := range markets.Kinds() {
		if !strings.Contains(fileSchema(), kind) {
			t.Errorf("no word of %s", kind)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := config.Parse("toolyard.yaml", []byte(`
# a comment
name: shop
listen: 127.0.0.1:${PORT}
sse: ${YES}
log: {file: "${EMPTY:-a.log}"}
limits: {timeout: 1m30s, args: 8KiB}
toolsets:
  research: {tools: [a, b]}
gates:
  chat: {mode: read, surface: answer, toolset: research}
  dev:
    mode: write
    errors: protocol
`), env)
	if err != nil {
		t.Fatal(err)
	}
	if s.Listen != "127.0.0.1:4000" || !s.SSE || s.Log.File != "a.log" || s.Log.Format != "auto" ||
		time.Duration(s.Limits.Timeout) != 90*time.Second || s.Limits.Args != 8<<10 || s.Limits.Result != 1<<20 {
		t.Errorf("%+v", s.Config)
	}
	want := map[string]config.Gate{
		"chat": {Mode: "read", Surface: "answer", Toolset: "research", Naming: "mcp", Errors: "result"},
		"dev":  {Mode: "write", Surface: "both", Naming: "mcp", Errors: "protocol"},
	}
	if diff := cmp.Diff(want, s.Gates); diff != "" {
		t.Error(diff)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n"} {
		if s, err := config.Parse("x", []byte(empty), env); err != nil || s.Listen == "" {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestContext(t *testing.T) {
	s, err := config.Parse("toolyard.yaml", []byte(`
secrets: {crm: "env:CRM_TOKEN"}
context:
  crm: {http: {url: "https://crm.example.com/{caller.id}", headers: {Authorization: "Bearer ${secret:crm}", X-Flag: "${YES}"}, pointer: /data, cache: 30s}}
  erp: {script: providers/erp.ts, grants: {net: [erp.example.com]}}
  wallet: {url: "https://node.example.com", chain: 1}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&config.HTTPContext{
		URL: "https://crm.example.com/{caller.id}", Headers: map[string]string{"Authorization": "Bearer ${secret:crm}", "X-Flag": "true"},
		Pointer: "/data", Timeout: config.Duration(2 * time.Second), Cache: config.Duration(30 * time.Second),
	}, s.Context["crm"].HTTP); diff != "" {
		t.Error(diff)
	}
	if erp := s.Context["erp"]; erp.Script != "providers/erp.ts" || len(erp.Grants.Net) != 1 {
		t.Errorf("%+v", erp)
	}
	if got := string(s.Context["wallet"].Settings); got != `{"chain":1,"url":"https://node.example.com"}` {
		t.Error(got)
	}
	for text, needs := range map[string]bool{
		`crm: {http: {url: "https://crm.example.com/{caller.id}"}}`:                     false,
		`crm: {http: {url: "https://crm.example.com/{link}"}}`:                          true,
		`crm: {http: {url: "https://crm.example.com/", headers: {X-Id: "{link.erp}"}}}`: true,
		`crm: {script: crm.ts}`: false,
		`wallet: {}`:            true,
	} {
		s, err := config.Parse("toolyard.yaml", []byte("context: {"+text+"}\n"), env)
		if err != nil || s.NeedsStore() != needs {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestContextRequirements(t *testing.T) {
	s, err := config.Parse("toolyard.yaml", []byte("terms: {a: {contextRequirements: [wallet, {kind: crm, argument: customer}]}}\n"), env)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Contexts{Kinds: []string{"wallet", "crm"}, Arguments: map[string]string{"crm": "customer"}}
	if diff := cmp.Diff(&want, s.Terms["a"].Contexts); diff != "" {
		t.Error(diff)
	}
	_, err = config.Parse("toolyard.yaml", []byte("terms: {a: {contextRequirements: [crm, {kind: crm, argument: customer}]}}\n"), env)
	if err == nil || !strings.Contains(err.Error(), `duplicate kind "crm"`) {
		t.Error(err)
	}
}

func TestOldKeysAreAcceptedWithAWarning(t *testing.T) {
	old, err := config.Parse("toolyard.yaml", []byte(`private: [10.0.0.0/8]
identity: key.txt
edits: [gates]
record: {keep: 1h}
gates:
  chat: {mode: read, naming: dotted, notes: relative}
toolsets: {notes: {tools: [keep]}}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	current, err := config.Parse("toolyard.yaml", []byte(`privateNetworks: [10.0.0.0/8]
ageIdentity: key.txt
editable: [gates]
record: {retention: 1h}
gates:
  chat: {mode: read, naming: plain, sourceNotes: relative}
toolsets: {notes: {tools: [keep]}}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(current.Config, old.Config); diff != "" {
		t.Error(diff)
	}
	var warnings []string
	for _, w := range old.Warnings {
		warnings = append(warnings, w.String())
	}
	if diff := cmp.Diff([]string{
		"toolyard.yaml:1:1: private: was renamed to privateNetworks",
		"toolyard.yaml:2:1: identity: was renamed to ageIdentity",
		"toolyard.yaml:3:1: edits: was renamed to editable",
		"toolyard.yaml:4:10: record.keep: was renamed to retention",
		"toolyard.yaml:6:30: gates.chat.naming.dotted: was renamed to plain",
		"toolyard.yaml:6:38: gates.chat.notes: was renamed to sourceNotes",
	}, warnings); diff != "" {
		t.Error(diff)
	}
	if len(current.Warnings) > 0 {
		t.Error(current.Warnings)
	}
	if _, err := config.Parse("f", []byte("edits: [gates]\neditable: [gates]\n"), env); err == nil || !strings.Contains(err.Error(), "editable: duplicate key") {
		t.Error(err)
	}
}

func TestEditsAcceptOldKeys(t *testing.T) {
	e, err := config.ParseEdits([]byte(`{"gates":{"chat":{"mode":"read","naming":"dotted","notes":"off"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Gate{Mode: "read", Surface: "both", Naming: "plain", SourceNotes: "off", Errors: "result"}
	if diff := cmp.Diff(want, e.Gates["chat"]); diff != "" {
		t.Error(diff)
	}
}

// Each file in testdata contains an input, a line of dashes, and the expected errors.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(data), "----------\n")
			_, err = config.Parse("toolyard.yaml", []byte(input), env)
			if err == nil {
				t.Fatal("no error")
			}
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(input+"----------\n"+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	const file = "../../docs/toolyard.schema.json"
	if *update {
		if err := os.WriteFile(file, []byte(fileSchema()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), fileSchema()); diff != "" {
		t.Errorf("run go test ./internal/config -update: %s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("gates:\n  a: {mode: read}\n")
	f.Add("a: &x [*x]\n")
	f.Add("listen: ${PORT:-1}\nlog: {level: debug}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := config.Parse("f", []byte(text), env); err == nil && s.Config == nil {
			t.Fatal("neither a configuration nor an error")
		}
	})
}

// Spellings used by other platforms are equivalent.
func TestSpellingsOfOtherPlatforms(t *testing.T) {
	parse := func(text string) *config.Source {
		t.Helper()
		s, err := config.Parse("toolyard.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := parse(`servers: {search.engine: {url: "https://example.com/mcp", tools: [find]}}
toolsets:
  a: {tools: [hello], servers: [{id: search.engine, tools: [find]}]}
  b: {servers: [search.engine, {id: search.engine, tools: [find], resources: ["resource://data"]}]}
`)
	got := parse(`mcpServers: {search.engine: {url: "https://example.com/mcp", toolFilter: [find]}}
toolsets:
  a: {builtIn: [hello], mcpServers: [{server_id: search.engine, toolFilter: [find]}]}
  b: {mcp_servers: {servers: [search.engine, {server_id: search.engine, tools: [find], resources: ["resource://data"]}]}}
`)
	if diff := cmp.Diff(want.Config, got.Config); diff != "" || len(got.Warnings) > 0 {
		t.Error(diff, got.Warnings)
	}
	_, err := config.Parse("toolyard.yaml", []byte("toolsets: {a: {tools: [x], builtIn: [y]}}\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "duplicate key") {
		t.Error(err)
	}
}
