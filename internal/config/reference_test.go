package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/config"
)

const referenceIntro = "# Configuration\n\n" +
	"Generated from the JSON Schema by `go test ./internal/config -run Reference -update`. Do not edit.\n\n" +
	"This page lists all settings in `toolyard.yaml`. Every setting is optional unless it is marked as required. " +
	"In the names below, NAME is a name that you choose, and [] is an element of a list. " +
	"Write a *duration* as `90s` or `1m30s`, a *size* as `64KiB` or `8MiB`, and an *amount* of US dollars as `\"0.001\"`. " +
	"To use an environment variable in a value, write `${NAME}` or `${NAME:-default}`.\n\n" +
	"`toolyard check` validates the file and reports every mistake with its line. `toolyard serve` applies changes to the file while it runs. " +
	"For completion in your editor, use [toolyard.schema.json](../toolyard.schema.json), or the output of `toolyard schema`.\n"

// schemaNode is the part of a JSON Schema that the reference shows.
type schemaNode struct {
	Type                 any
	Description, Pattern string
	Default              json.RawMessage
	Enum, Examples       []json.RawMessage
	Properties           map[string]*schemaNode
	AdditionalProperties json.RawMessage
	Items                *schemaNode
	AnyOf                []*schemaNode
	Required             []string
}

// values returns the schema for a map's values, or nil.
func (n *schemaNode) values() *schemaNode {
	var values *schemaNode
	if len(n.AdditionalProperties) == 0 || n.AdditionalProperties[0] != '{' || json.Unmarshal(n.AdditionalProperties, &values) != nil {
		return nil
	}
	return values
}

// kind describes the type of a setting.
func (n *schemaNode) kind() string {
	switch {
	case len(n.Enum) > 0:
		return "`" + strings.Join(plainValues(n.Enum), "`, `") + "`"
	case n.Items != nil && n.Type == "array":
		return "list of " + strings.TrimPrefix(n.Items.kind(), "one ")
	case len(n.AnyOf) > 0:
		var kinds []string
		for _, choice := range n.AnyOf {
			if kind := choice.kind(); kind != "" && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
		return strings.Join(kinds, " or ")
	case n.values() != nil && len(n.Properties) == 0:
		return "map"
	case strings.Contains(n.Pattern, "(ms|s|m|h)"):
		return "duration"
	case strings.Contains(n.Pattern, "(B|KiB|MiB)"):
		return "size"
	case strings.HasPrefix(n.Pattern, `^(none|[0-9]`), strings.HasPrefix(n.Pattern, `^[0-9]{1,9}(\.`), strings.HasPrefix(n.Pattern, `^[0-9]{1,15}(\.`):
		return "amount"
	}
	if several, ok := n.Type.([]any); ok {
		var kinds []string
		for _, kind := range several {
			kinds = append(kinds, strings.Replace(fmt.Sprint(kind), "array", "list", 1))
		}
		return strings.Join(kinds, " or ")
	}
	if n.Type == nil {
		return ""
	}
	return fmt.Sprint(n.Type)
}

// plainValues returns JSON values as they are written in YAML.
func plainValues(values []json.RawMessage) (texts []string) {
	for _, v := range values {
		var compact bytes.Buffer
		if json.Compact(&compact, v) != nil {
			panic("invalid JSON in the schema: " + string(v))
		}
		texts = append(texts, strings.Trim(compact.String(), `"`))
	}
	return texts
}

// describe returns a setting's description, including its default and examples.
func (n *schemaNode) describe(required bool) string {
	text := strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`).Replace(strings.TrimSpace(n.Description))
	add := func(sentence string) { text = strings.TrimSpace(text + " " + sentence) }
	if required {
		add("Required.")
	}
	examples := n.Examples
	if n.Items != nil && len(examples) == 0 {
		examples = n.Items.Examples
	}
	if kind := n.kind(); len(examples) > 0 && kind != "duration" && kind != "size" { // the introduction covers both
		add("Example: `" + strings.Join(plainValues(examples), "`, `") + "`.")
	}
	if value := string(n.Default); value != "" && value != "{}" {
		add("Default: `" + strings.Trim(value, `"`) + "`.")
	}
	return text
}

// writeRows writes a row for a setting and for each setting below it.
func writeRows(w *strings.Builder, path string, n *schemaNode, required bool) {
	if text := n.describe(required); text != "" || len(n.Properties) == 0 {
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", path, n.kind(), text)
	}
	writeChildren(w, path, n)
}

func writeChildren(w *strings.Builder, path string, n *schemaNode) {
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		writeRows(w, path+"."+name, n.Properties[name], slices.Contains(n.Required, name))
	}
	if values := n.values(); values != nil && len(values.Properties) > 0 {
		writeChildren(w, path+".NAME", values)
	}
	if n.Items != nil {
		writeChildren(w, path+"[]", n.Items)
	}
	for _, choice := range n.AnyOf {
		writeChildren(w, path, choice)
	}
}

// examples show a section in use. Each is a complete configuration.
var examples = map[string]string{
	"agents":    "models:\n  main: {api: anthropic, model: claude-sonnet-4-5, auth: {secretRef: env:ANTHROPIC_API_KEY}}\ngates:\n  desk: {mode: read, agents: [librarian]}\n  shelves: {mode: read}\nagents:\n  librarian: {model: main, gate: shelves, instructions: librarian.md, description: Answers questions about books.}\n",
	"gates":     "gates:\n  chat: {mode: read, naming: plain}\n  team: {mode: write, callers: keys, toolset: everyday}\ntoolsets:\n  everyday: {tools: [hello], servers: [github]}\nservers:\n  github: {url: https://mcp.example.com/mcp}\n",
	"issuers":   "issuers:\n  work:\n    issuer: https://login.example.com\n    audiences: [toolyard]\n    access:\n      - {groups: [engineering], gates: [team], write: true}\nurl: https://tools.example.com\ngates:\n  team: {mode: write, callers: tokens}\n",
	"limits":    "limits: {timeout: 10s, args: 64KiB, result: 512KiB}\n",
	"record":    "store: sqlite:toolyard.db\nrecord: {arguments: full, retention: 2160h}\n",
	"rules":     "rules:\n  - {name: no-deletes, tools: [\"github/delete_*\"], then: deny, message: Deleting is not allowed here.}\n  - {name: ask-before-writes, effects: write, then: ask}\n",
	"scripts":   "scripts:\n  dir: tools\n  memory: 128MiB\n  grants:\n    weather: {net: [api.example.com], env: [WEATHER_KEY]}\n",
	"secrets":   "secrets: {github-token: env:GITHUB_TOKEN}\nservers:\n  github:\n    url: https://mcp.example.com/mcp\n    auth: {type: bearer, secretRef: github-token}\n",
	"servers":   "servers:\n  files:\n    command: npx\n    args: [\"-y\", \"@modelcontextprotocol/server-filesystem\", \".\"]\n    effects: {read_text_file: read, list_directory: read}\n    limits: {timeout: 20s, concurrency: 4}\n",
	"terms":     "terms:\n  quote: {rate: {perMinute: 60}, executeUsd: \"0.01\"}\n",
	"approvals": "approvals: {hold: 30s}\n",
	"log":       "log: {level: debug, format: json, file: toolyard.log}\n",
	"metrics":   "metrics: {listen: 127.0.0.1:9090}\n",
}

// TestConfigReferenceIsCurrent generates docs/reference/CONFIG.md from the schema.
func TestConfigReferenceIsCurrent(t *testing.T) {
	var schema schemaNode
	if err := json.Unmarshal([]byte(fileSchema()), &schema); err != nil {
		t.Fatal(err)
	}
	const header = "\n| setting | type | meaning |\n|---|---|---|\n"
	var single, sections strings.Builder
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		n := schema.Properties[name]
		if len(n.Properties) == 0 && n.values() == nil && (n.Items == nil || len(n.Items.Properties) == 0) {
			writeRows(&single, name, n, false)
			continue
		}
		fmt.Fprintf(&sections, "\n## %s\n\n%s\n", name, n.describe(false))
		if example := examples[name]; example != "" {
			fmt.Fprintf(&sections, "\n```yaml\n%s```\n", example)
		}
		var rows strings.Builder
		writeChildren(&rows, name, n)
		if rows.Len() == 0 {
			writeRows(&rows, name+".NAME", n.values(), false)
		}
		sections.WriteString(header + rows.String())
	}
	text := referenceIntro + "\n## Single settings\n" + header + single.String() + sections.String()
	const file = "../../docs/reference/CONFIG.md"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), text); diff != "" {
		t.Errorf("run go test ./internal/config -run Reference -update: %s", diff)
	}
}

func TestConfigReferenceExamples(t *testing.T) {
	getenv := func(string) (string, bool) { return "x", true }
	for section, example := range examples {
		if _, err := config.Parse("toolyard.yaml", []byte(example), getenv); err != nil {
			t.Errorf("%s: %v", section, err)
		}
	}
}
