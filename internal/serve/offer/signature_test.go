package offer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func toolOf(t rapid.TB, spec toolyard.Spec, schema string) *toolyard.Tool {
	t.Helper()
	spec.Input = json.RawMessage(schema)
	spec.Server = "docs" // a server's schema is used unchanged
	tool, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return &toolyard.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func TestSignatureLine(t *testing.T) {
	object := func(members string) string { return `{"type":"object",` + members + `}` }
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf(`"argument_%02d":{"type":"string","enum":["first","second"]}`, i)
	}
	for _, c := range []struct {
		name, schema, want string
		complete           bool
	}{
		{"none", `{"type":"object"}`, "", true},
		{"required first, in the order of the schema; optional by name", object(`"properties":{"z":{"type":"string"},"y":{"type":"integer"},"b":{"type":"boolean"},"a":{"type":"null"}},"required":["y","z"]`), "z: string; y: number; a?: null; b?: boolean", true},
		{"enums and constants", object(`"properties":{"a":{"enum":["x","y",1,null]},"b":{"const":"c"}}`), `a?: "x" | "y" | 1 | null; b?: "c"`, true},
		{"too many values", object(`"properties":{"a":{"type":"string","enum":["1","2","3","4","5","6","7","8","9"]}}`), "a?: string", false},
		{"arrays", object(`"properties":{"a":{"type":"array","items":{"type":["string","null"]}},"b":{"type":"array"},"c":{"items":{"type":"array","items":{"type":"number"}}}}`), "a?: (string | null)[]; b?: unknown[]; c?: number[][]", true},
		{"unions", object(`"properties":{"a":{"anyOf":[{"type":"string"},{"type":"string"},{"type":"object","properties":{"b":{"type":"number"}}}]}}`), "a?: string | {b?: number}", true},
		{"records", object(`"properties":{"a":{"type":"object","additionalProperties":{"type":"number"}},"b":{"type":"object"}}`), "a?: Record<string, number>; b?: object", true},
		{"references", object(`"properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"type":"string"}}`), "a?: string", true},
		{"circles", object(`"properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}`), "a?: {n?: {n?: {n?: object}}}", false},
		{"names that are not identifiers", object(`"properties":{"a-b":{},"\u2028\"":{}},"required":["a-b"]`), `"a-b": unknown; "\u2028\""?: unknown`, true},
		{"required without a schema", object(`"required":["ghost"]`), "ghost: unknown", true},
		{"branches of the root", object(`"properties":{"a":{}},"anyOf":[{"required":["a"]}]`), "a?: unknown", false},
		{"conditions", object(`"properties":{"a":{"type":"string","not":{"const":"x"}}}`), "a?: string", false},
	} {
		s := Compile(toolOf(t, toolyard.Spec{Name: "t"}, c.schema))
		if s.Params != c.want || s.Complete != c.complete {
			t.Errorf("%s: %s, complete %v; want %s, %v", c.name, s.Params, s.Complete, c.want, c.complete)
		}
	}
	long := Compile(toolOf(t, toolyard.Spec{Name: "t"}, object(`"properties":{`+strings.Join(many, ",")+`,"needed":{"type":"string"}},"required":["needed"]`)))
	if len(long.Params) > maxParams || long.Complete || !strings.HasPrefix(long.Params, "needed: string; argument_00?: ") {
		t.Errorf("%d bytes, complete %v: %s", len(long.Params), long.Complete, long.Params)
	}
}

// A line lists every required argument, even if nothing else fits.
func TestSignatureNamesRequiredArguments(t *testing.T) {
	var properties, names []string
	for i := range 40 {
		name := fmt.Sprintf("a_required_argument_%02d", i)
		properties = append(properties, fmt.Sprintf(`"%s":{"type":"object","properties":{"x":{"type":"string"}}}`, name))
		names = append(names, `"`+name+`"`)
	}
	s := Compile(toolOf(t, toolyard.Spec{Name: "t"}, `{"type":"object","properties":{`+strings.Join(properties, ",")+`},"required":[`+strings.Join(names, ",")+`]}`))
	for i := range 40 {
		if name := fmt.Sprintf("a_required_argument_%02d: ", i); !strings.Contains(s.Params, name) {
			t.Errorf("%s is missing in %s", name, s.Params)
		}
	}
	if s.Complete {
		t.Error("the types were left out, and the signature claims to be complete")
	}
}

func TestSignatureLong(t *testing.T) {
	tool := toolOf(t, toolyard.Spec{Name: "t", Output: json.RawMessage(`{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`)}, `{"type":"object","properties":{
		"city":{"type":"string","description":"Name of the city.\n*/ evil(); /*","minLength":1},
		"options":{"type":"object","properties":{"days":{"type":"integer","default":3,"maximum":14}}}},"required":["city"]}`)
	const want = `(args: {
  /** Name of the city. * / evil(); /* Minimum length: 1. */
  city: string;
  options?: {
    /** Maximum: 14. Default: 3. */
    days?: number;
  };
}): {
  sum: number;
};`
	if got := Compile(tool).Long(); got != want {
		t.Error(got)
	}
}

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"Finds files. Use it often.":         "Finds files.",
		"Finds e.g. files. More.":            "Finds e.g. files.",
		"Version 1.2 of it":                  "Version 1.2 of it",
		"One\nline\r\n\u2028stays\u200b one": "One line stays one",
		strings.Repeat("x", 200):             strings.Repeat("x", 119) + "…",
	} {
		if got := firstSentence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// schemas generates schemas with all keywords that signatures use, both valid and invalid.
func schemas(depth int) *rapid.Generator[any] {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab-_1 \n\"'`*/\\}{;:\u2028\u200b\u202eäβ漢😀$")))
	return rapid.Custom(func(t *rapid.T) any {
		if rapid.IntRange(0, 20).Draw(t, "boolean") == 0 {
			return rapid.Bool().Draw(t, "any")
		}
		s := map[string]any{}
		if rapid.Bool().Draw(t, "described") {
			s["description"] = text.Draw(t, "description")
		}
		kind := rapid.SampledFrom([]string{"string", "integer", "null", "boolean", "object", "array", "list", "enum", "const", "ref", "anyOf", "allOf", "none"}).Draw(t, "kind")
		list := func() []any { return rapid.SliceOfN(schemas(depth-1), 1, 3).Draw(t, "list") }
		switch {
		case kind == "list":
			s["type"] = []string{"string", "null"}
		case kind == "enum":
			s["enum"] = rapid.SliceOfN(rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](-1.5), rapid.Map(text, func(s string) any { return s })), 1, 12).Draw(t, "values")
		case kind == "const":
			s["const"] = text.Draw(t, "value")
		case kind == "ref":
			s["$ref"] = rapid.SampledFrom([]string{"#/$defs/a", "#/$defs/missing", "#"}).Draw(t, "ref")
		case (kind == "anyOf" || kind == "allOf") && depth > 0:
			s[kind] = list()
		case kind == "array" && depth > 0:
			s["type"] = "array"
			s[rapid.SampledFrom([]string{"items", "prefixItems"}).Draw(t, "items")] = list()[0]
		case kind == "object" && depth > 0:
			object(t, s, text, depth)
		case kind != "none" && kind != "anyOf" && kind != "allOf" && kind != "array" && kind != "object":
			s["type"] = kind
		}
		return s
	})
}

func object(t *rapid.T, s map[string]any, text *rapid.Generator[string], depth int) {
	s["type"] = "object"
	s["properties"] = rapid.MapOfN(text, schemas(depth-1), 0, 4).Draw(t, "properties")
	s["required"] = rapid.SliceOfN(text, 0, 2).Draw(t, "required")
	if rapid.Bool().Draw(t, "additional") {
		s["additionalProperties"] = schemas(depth-1).Draw(t, "rest")
	}
}

// Both forms of a signature parse as TypeScript, and the short form is a single visible line.
func TestSignaturesAreTypeScript(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab-_1 \n\"'`*/\\}{;:\u2028\u200b\u202eäβ漢😀$")))
	rapid.Check(t, func(t *rapid.T) {
		root := map[string]any{"$defs": map[string]any{"a": schemas(2).Draw(t, "a")}}
		object(t, root, text, 5)
		raw, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		line, _ := compileLine(raw)
		if strings.ContainsAny(line, "\n\r") || untrusted.CheckText(line) != nil {
			t.Fatalf("not one visible line: %q", line)
		}
		long := compileLong(raw, raw)
		one := "export type T = {" + line + "};\nexport declare function f" + long
		if result := parse(one); len(result.Errors) > 0 {
			t.Fatalf("%s\n%s\n%s", result.Errors[0].Text, one, raw)
		}
	})
}

func parse(source string) api.TransformResult {
	return api.Transform(source, api.TransformOptions{Loader: api.LoaderTS, LogLevel: api.LogLevelSilent})
}

func FuzzSignature(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"array","items":[{"enum":[1e400,{}]}]}},"required":["a",1]}`)
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		line, _ := compileLine(json.RawMessage(schema))
		long := compileLong(json.RawMessage(schema), nil)
		if result := parse("type T = {" + line + "};\ndeclare function f" + long); len(result.Errors) > 0 {
			t.Fatalf("%s: %s\n%s", result.Errors[0].Text, line, long)
		}
	})
}
