package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

var update = flag.Bool("update", false, "write the golden files anew")

// named returns a tool with its name at a gate.
func named(t rapid.TB, name, description, note, schema string) gates.NamedTool {
	t.Helper()
	tool, err := toolyard.NewTool(
		toolyard.Spec{Name: "tool", Description: description, Summary: "A summary.", Input: json.RawMessage(schema)},
		func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return &toolyard.Result{}, nil },
	)
	if err != nil {
		t.Fatal(err)
	}
	return gates.NamedTool{Name: name, Tool: tool, Note: note}
}

// union is a schema with branches.
const union = `{
	"type": "object",
	"$defs": {"card": {"properties": {"method": {"const": "card"}, "number": {"type": "string"}}, "required": ["method", "number"]}},
	"properties": {"amount": {"type": "number"}},
	"required": ["amount"],
	"oneOf": [
		{"$ref": "#/$defs/card"},
		{"properties": {"method": {"const": "transfer"}, "iban": {"type": "string"}, "amount": {"maximum": 10}}, "required": ["iban", "method"]},
		{"properties": {"method": {"const": "card"}}, "required": ["method"]}
	],
	"not": {"required": ["cash"]}
}`

func tools(t rapid.TB) []gates.NamedTool {
	return []gates.NamedTool{
		named(t, "mcp_github__search", "Finds <code> & more.", "\n\n---\nSource: a.ts", `{"type": "object",
			"properties": {"query": {"type": "string", "minLength": 1}, "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
			"required": ["query"], "additionalProperties": false}`),
		named(t, "pay", "", "", union),
		named(t, "ping", "Answers.", "", `{"type":"object"}`),
	}
}

func TestFunctions(t *testing.T) {
	for _, f := range Formats {
		t.Run(string(f), func(t *testing.T) {
			raw, err := Functions(f, tools(t))
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Indent(&got, raw, "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			golden := filepath.Join("testdata", string(f)+".json")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFunctionsWithoutTools(t *testing.T) {
	for f, want := range map[Format]string{OpenAI: `[]`, Anthropic: `[]`, Gemini: `{"functionDeclarations":[]}`, AISDK: `{}`} {
		if raw, err := Functions(f, nil); err != nil || string(raw) != want {
			t.Errorf("%s: %s, %v, want %s", f, raw, err, want)
		}
	}
}

func TestFunctionsRefuses(t *testing.T) {
	ping := named(t, "2ping", "", "", `{"type":"object"}`)
	for _, c := range []struct {
		format Format
		tools  []gates.NamedTool
		want   string
	}{
		{"yaml", nil, "use openai, anthropic, gemini, ai-sdk, openai-deferred, anthropic-deferred"},
		{OpenAI, []gates.NamedTool{ping, ping}, "Two tools are named 2ping"},
		{Gemini, []gates.NamedTool{ping}, "but 2ping does not"},
	} {
		_, err := Functions(c.format, c.tools)
		e, ok := errors.AsType[*toolyard.Error](err)
		if !ok || e.Code != toolyard.Invalid || !strings.Contains(e.Message, c.want) {
			t.Errorf("%s: %v, want %q", c.format, err, c.want)
		}
	}
	if _, err := Functions(Anthropic, []gates.NamedTool{ping}); err != nil {
		t.Error(err)
	}
}

func TestFlatten(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"nothing to do", `{"type":"object",  "properties":{}}`, `{"type":"object",  "properties":{}}`},
		{"nothing to say", `{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{
			"at least one of",
			`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"properties":{"a":{},"b":{}},"type":"object"}`,
		},
		{
			"all of",
			`{"type":"object","allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"minLength":1},"b":{}},"required":["b"]}]}`,
			`{"properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"type":"object"}`,
		},
		{
			"no others than its own",
			`{"type":"object","properties":{"a":{}},"additionalProperties":false,"oneOf":[{"required":["a"]},{"properties":{"b":{}},"required":["a"]}]}`,
			`{"additionalProperties":false,"properties":{"a":{}},"required":["a"],"type":"object"}`,
		},
		{
			"branches of branches",
			`{"type":"object","anyOf":[{"oneOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]},true]}`,
			`{"properties":{"a":{},"b":{}},"type":"object"}`,
		},
		{
			"an anyOf that the author wrote keeps what stands beside it",
			`{"type":"object","oneOf":[{"properties":{"a":{"anyOf":[{},{}],"title":"A"}}},{"properties":{"a":{"title":"B"}}}]}`,
			`{"properties":{"a":{"anyOf":[{"anyOf":[{},{}],"title":"A"},{"title":"B"}]}},"type":"object"}`,
		},
		{
			"turns in circles",
			`{"type":"object","$defs":{"a":{"properties":{"x":{}},"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"anyOf":[{"$ref":"#/$defs/a"}]}`,
			`{"$defs":{"a":{"properties":{"x":{}},"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"properties":{"x":{}},"type":"object"}`,
		},
		{"refers to nowhere", `{"type":"object","anyOf":[{"$ref":"#/$defs/a"},{"$ref":1},7]}`, `{"properties":{},"type":"object"}`},
		{"one value only", `{"type":"object","enum":[{}],"const":{},"not":{}}`, `{"properties":{},"type":"object"}`},
	} {
		got, err := flatten(json.RawMessage(c.schema), openAIRules)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// Values that match a tool's schema also match its flattened schema.
func TestFlattenedSchemaAcceptsAllValidValues(t *testing.T) {
	flat, err := flatten(json.RawMessage(union), openAIRules)
	if err != nil {
		t.Fatal(err)
	}
	var before, after toolyard.Schema
	if err := errors.Join(json.Unmarshal([]byte(union), &before), json.Unmarshal(flat, &after)); err != nil {
		t.Fatal(err)
	}
	for value, fits := range map[string]bool{
		`{"amount":5,"method":"transfer","iban":"x"}`:  true,
		`{"amount":5,"method":"card"}`:                 true,
		`{"amount":50,"method":"transfer","iban":"x"}`: false,
		`{"amount":5}`: false,
	} {
		if issues, _ := before.Check(t.Context(), json.RawMessage(value)); (len(issues) == 0) != fits {
			t.Errorf("%s: %v", value, issues)
		}
		if issues, _ := after.Check(t.Context(), json.RawMessage(value)); fits && len(issues) > 0 {
			t.Errorf("%s does not fit %s: %v", value, flat, issues)
		}
	}
}

func FuzzFlatten(f *testing.F) {
	f.Add(union)
	f.Add(`{"anyOf":[{"$ref":"#/$defs/~1"}],"$defs":{"/":{"required":["a",1]}},"required":7}`)
	f.Fuzz(func(t *testing.T, schema string) {
		got, err := flatten(json.RawMessage(schema), openAIRules)
		if err != nil {
			return
		}
		var root map[string]json.RawMessage
		if err := json.Unmarshal(got, &root); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		for _, word := range openAIRules.refused {
			if root[word] != nil {
				t.Fatalf("%s is left in %s", word, got)
			}
		}
	})
}

func TestTokens(t *testing.T) {
	if got := Tokens(named(t, "ping", "Answers.", "", `{ "type" : "object" }`)); got != 17 { // for 67 bytes
		t.Errorf("Tokens = %d, want 17", got)
	}
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab\"\\\n\t\r\x01\b äß€😀{}:,")))
	rapid.Check(t, func(t *rapid.T) {
		note := text.Draw(t, "text")
		schema, err := json.MarshalIndent(map[string]any{"type": "object", "title": note}, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		b := named(t, "name", "d", note, string(schema))
		exact, err := encode(struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"schema"`
		}{"name", "d" + note, schema})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Tokens(b), (len(exact)+3)/4; got != want {
			t.Fatalf("%d tokens, want %d for %s", got, want, exact)
		}
	})
}

func BenchmarkTokens(b *testing.B) {
	pay := named(b, "pay", "Pays.", "", union)
	for b.Loop() {
		Tokens(pay)
	}
}
