package jsonschema

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	judge "github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// judgeEngine is the library's pattern engine. Its limit is never reached here.
func judgeEngine(source string) (judge.Regexp, error) {
	re, err := regexp2.Compile(source, regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = time.Minute
	return judgePattern{re}, nil
}

type judgePattern struct{ *regexp2.Regexp }

func (p judgePattern) MatchString(s string) bool {
	ok, err := p.Regexp.MatchString(s)
	return ok && err == nil
}

func judgeCompile(raw string) (*judge.Schema, error) {
	doc, err := judge.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := judge.NewCompiler()
	c.DefaultDraft(judge.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(judgeEngine)
	c.UseLoader(judge.SchemeURLLoader{})
	if err := c.AddResource("tool:///schema", doc); err != nil {
		return nil, err
	}
	return c.Compile("tool:///schema")
}

// maker generates related schemas and values, with few names, strings and numbers.
type maker struct {
	*rapid.T
	draft int
}

func (m maker) pick(list ...string) string { return rapid.SampledFrom(list).Draw(m.T, "pick") }
func (m maker) chance(percent int) bool    { return rapid.IntRange(1, 100).Draw(m.T, "chance") <= percent }
func (m maker) name() string               { return m.pick("a", "b", "c", "kind") }
func (m maker) count() int                 { return rapid.IntRange(0, 3).Draw(m.T, "count") }

func (m maker) number() string {
	return m.pick("0", "1", "-1", "2", "1.5", "1.0", "1e1", "0.1", "3", "-0", "100e-2", "12345678901234567890123", "1e30", "0.30")
}

func (m maker) text() string {
	return m.pick(`""`, `"a"`, `"b"`, `"ab"`, `"é😀"`, `"2026-01-31"`, `"aaa-b"`, `"x@y.z"`, `"\u0061"`, `"127.0.0.1"`)
}

func (m maker) value(depth int) string {
	switch k := rapid.IntRange(0, 8).Draw(m.T, "kind"); {
	case k <= 1:
		return m.number()
	case k <= 3:
		return m.text()
	case k == 4 || depth == 0:
		return m.pick("null", "true", "false")
	case k <= 6:
		return "[" + strings.Join(m.several(func() string { return m.value(depth - 1) }), ",") + "]"
	}
	seen := make(map[string]bool)
	var members []string
	for range m.count() {
		if name := m.name(); !seen[name] {
			seen[name] = true
			members = append(members, fmt.Sprintf("%q:%s", name, m.value(depth-1)))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (m maker) several(f func() string) (list []string) {
	for range m.count() {
		list = append(list, f())
	}
	return list
}

func (m maker) schema(depth int) string {
	if m.chance(8) && m.draft > 4 {
		return m.pick("true", "false", "{}")
	}
	if m.chance(12) {
		return m.pick(`{"$ref":"#/$defs/x"}`, `{"$ref":"#/$defs/y"}`)
	}
	keywords := make(map[string]string)
	for range 1 + m.count() {
		key, value := m.keyword(depth)
		keywords[key] = value
	}
	var members []string
	for key, value := range keywords {
		members = append(members, fmt.Sprintf("%q:%s", key, value))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (m maker) keyword(depth int) (string, string) {
	simple := []string{
		"type", "const", "enum", "minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format",
		"required", "minProperties", "maxItems", "uniqueItems", "dependentRequired",
	}
	nested := []string{
		"properties", "properties", "additionalProperties", "patternProperties", "propertyNames", "items", "prefixItems", "contains",
		"anyOf", "oneOf", "allOf", "not", "if", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "$ref",
	}
	if depth == 0 || m.chance(45) {
		key := m.pick(simple...)
		return key, m.simple(key)
	}
	key := m.pick(nested...)
	return key, m.nested(key, depth-1)
}

func (m maker) simple(key string) string {
	switch key {
	case "type":
		return m.pick(`"string"`, `"number"`, `"integer"`, `"object"`, `"array"`, `"null"`, `["string","object"]`, `["integer","array"]`)
	case "const":
		return m.value(1)
	case "enum":
		return "[" + strings.Join(append(m.several(func() string { return m.value(1) }), `"zz"`), ",") + "]"
	case "minimum", "exclusiveMaximum":
		return m.number()
	case "multipleOf":
		return m.pick("1", "0.1", "2", "1.5", "0.01", "1e10", "7")
	case "pattern":
		return m.pick(`"^a"`, `"a+b?$"`, `"^(?!b)a"`, `"(a)\\1"`, `"^.{2}$"`, `"[^a-c]"`, `"\\d"`)
	case "format":
		return m.pick(`"date"`, `"email"`, `"ipv4"`, `"uri"`, `"unknown"`)
	case "required":
		return `["` + m.name() + `"]`
	case "uniqueItems":
		return m.pick("true", "false")
	case "dependentRequired":
		return fmt.Sprintf(`{%q:[%q]}`, m.name(), m.name())
	}
	return fmt.Sprint(m.count())
}

func (m maker) nested(key string, depth int) string {
	switch key {
	case "properties", "dependentSchemas":
		return fmt.Sprintf(`{%q:%s}`, m.name(), m.schema(depth))
	case "patternProperties":
		return fmt.Sprintf(`{%s:%s}`, m.pick(`"a"`, `"^[ab]$"`, `"k.*d"`), m.schema(depth))
	case "prefixItems", "anyOf", "oneOf", "allOf":
		return "[" + strings.Join(append(m.several(func() string { return m.schema(depth) }), m.schema(depth)), ",") + "]"
	case "$ref":
		return m.pick(`"#/$defs/x"`, `"#/$defs/y"`)
	}
	return m.schema(depth)
}

// document returns a schema with definitions that may refer to each other.
func (m maker) document() string {
	return fmt.Sprintf(`{"$defs":{"x":{"type":["object","array","string","number"],"properties":{"a":{"$ref":"#/$defs/y"}},"items":{"$ref":"#/$defs/x"}},`+
		`"y":{"anyOf":[{"type":"string"},{"items":{"$ref":"#/$defs/x"}},{"properties":{"b":%s}}]}},"allOf":[%s],"anyOf":[%s,%s]}`,
		m.schemaWithoutRef(), m.schema(2), m.schema(3), m.schema(2))
}

func (m maker) schemaWithoutRef() string {
	return m.pick(`{"type":"string"}`, `{"minimum":1}`, `{"$ref":"#/$defs/x"}`)
}

// Verdicts on generated schemas and values match those of a well-known library.
func TestVerdictsAreThoseOfTheJudge(t *testing.T) {
	valid, invalid, refused := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := maker{t, 2020}
		raw := m.document()
		theirs, theirErr := judgeCompile(raw)
		ours, err := Compile([]byte(raw))
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("%s\nours: %v\ntheirs: %v", raw, err, theirErr)
		}
		if err != nil {
			refused++
			return
		}
		for range 50 {
			value := m.value(3)
			doc, err := judge.UnmarshalJSON(strings.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			want := theirs.Validate(doc)
			issues, err := ours.Validate(t.Context(), []byte(value))
			if err != nil || (len(issues) == 0) != (want == nil) {
				t.Fatalf("%s\n%s\nours: %v %v\ntheirs: %v", raw, value, issues, err, want)
			}
			if want == nil {
				valid++
			} else {
				invalid++
			}
		}
	})
	t.Logf("%d fit, %d do not, %d schemas were refused by both", valid, invalid, refused)
	if valid < 50 || invalid < 50 {
		t.Error("the pairs do not test much")
	}
}

// Old drafts have the same meaning as in the library.
func TestOldDraftsAreThoseOfTheJudge(t *testing.T) {
	documents := []string{
		`{"$schema":"%s","id":"http://x/a","properties":{"a":{"minimum":1,"exclusiveMinimum":true}},"definitions":{"p":{"type":"integer"}},"additionalProperties":{"$ref":"#/definitions/p"}}`,
		`{"$schema":"%s","items":[{"type":"string"}],"additionalItems":{"type":"integer"}}`,
		`{"$schema":"%s","dependencies":{"a":["b"],"c":{"required":["kind"]}}}`,
		`{"$schema":"%s","properties":{"a":{"const":1},"b":{"if":{"type":"string"},"then":{"minLength":2},"else":{"type":"integer"}}}}`,
		`{"$schema":"%s","$ref":"#/definitions/p","type":"string","definitions":{"p":{"type":"integer"}}}`,
		`{"$schema":"%s","contains":{"type":"string"},"minContains":2,"propertyNames":{"maxLength":1}}`,
		`{"$schema":"%s","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"unevaluatedProperties":false}`,
		`{"$schema":"%s","definitions":{"p":{"$id":"#p","id":"#p","$anchor":"p","type":"integer"}},"properties":{"a":{"$ref":"#p"}}}`,
		`{"$schema":"%s","type":"strin"}`, `{"$schema":"%s","minLength":-1}`, `{"$schema":"%s","properties":{"a":true}}`, `{"$schema":"%s","pattern":"("}`,
	}
	metas := []string{
		"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
		"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema", "https://example.com/other",
	}
	rapid.Check(t, func(t *rapid.T) {
		m := maker{t, 7}
		raw := fmt.Sprintf(m.pick(documents...), m.pick(metas...))
		theirs, theirErr := judgeCompile(raw)
		ours, err := Compile([]byte(raw))
		if (err == nil) != (theirErr == nil) {
			t.Fatalf("%s\nours: %v\ntheirs: %v", raw, err, theirErr)
		}
		if err != nil {
			return
		}
		for range 20 {
			value := m.value(2)
			doc, _ := judge.UnmarshalJSON(strings.NewReader(value))
			want := theirs.Validate(doc)
			issues, err := ours.Validate(t.Context(), []byte(value))
			if err != nil || (len(issues) == 0) != (want == nil) {
				t.Fatalf("%s\n%s\nours: %v %v\ntheirs: %v", raw, value, issues, err, want)
			}
		}
	})
}

func TestPatternsAreThoseOfTheJudge(t *testing.T) {
	atoms := []string{"a", "b", ".", "[ab]", "[^a]", `\d`, `\w`, `\s`, `\b`, "(a)", "(?:ab)", "(a|b)", "(?=b)", "(?!a)", "(?<=a)", "(?<!b)", `\1`, "^", "$", `\x61`, `\u0062`, "(?<n>b)"}
	quantifiers := []string{"", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?", "+?", "??"}
	rapid.Check(t, func(t *rapid.T) {
		source := "(x|)"
		for range rapid.IntRange(1, 6).Draw(t, "length") {
			atom := rapid.SampledFrom(atoms).Draw(t, "atom")
			if q := rapid.SampledFrom(quantifiers).Draw(t, "quantifier"); !strings.ContainsAny(atom, "^$\\=!") || atom == `\d` || atom == `\w` || atom == `\s` {
				atom += q
			}
			source += atom
		}
		re, err := regexp2.Compile(source, regexp2.ECMAScript)
		if err != nil {
			t.Skip()
		}
		ours, err := compileSearch(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		for range 10 {
			text := rapid.StringOfN(rapid.SampledFrom([]rune("aab 1_-")), 0, 6, -1).Draw(t, "text")
			want, _ := re.MatchString(text)
			b := newBudget(t.Context(), limits{1 << 30, 1 << 30})
			if got, _ := ours.match(&b, text, 1<<62); got != want {
				t.Fatalf("%q in %q: %v, want %v", source, text, got, want)
			}
		}
	})
}

func TestFormatsAreThoseOfTheJudge(t *testing.T) {
	letters := []rune("01259-:TZPYMDWHS.@az/{}%~#[]\"\\ é")
	samples := []string{
		"2026-01-31", "2026-02-30", "09:30:00Z", "23:59:60Z", "23:59:60+01:00", "00:59:60+01:00", "2026-01-31T09:30:00.5+02:00", "P1DT2H", "P1W", "PT", "P", "P1M2D",
		"2026-01-31T09:30:00Z/P1D", "ann@example.com", `"a b"@x.y`, "a..b@c.d", "a@[127.0.0.1]", "a@[IPv6:::1]", "x.y.", "-a.b", "127.0.0.1", "127.0.0.01", "::1", "::1%eth0", "fe80::1",
		"https://[::1]/", "https://example.com/a?b#c", "/a/b", `\a`, "/a/{b}", "/%7Bb", "/a~0b", "/a~2", "0/a", "01#", "1#", "1.2.3", "1.2.3-rc.1+x", "1.2", "123e4567-e89b-12d3-a456-426614174000",
		"[a", "(?=a)", "",
	}
	names := []string{}
	for name := range formats {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "format")
		text := rapid.SampledFrom(samples).Draw(t, "sample")
		if rapid.Bool().Draw(t, "change") {
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			text = strings.ToValidUTF8(text[:at], "") + string(rapid.SampledFrom(letters).Draw(t, "letter")) + strings.ToValidUTF8(text[at:], "")
		}
		s, err := judgeCompile(`{"format":"` + name + `"}`)
		if err != nil {
			t.Fatal(err)
		}
		want := s.Validate(text)
		if got := formats[name].check(text); (got == nil) != (want == nil) {
			t.Fatalf("%s %q: %v, want %v", name, text, got, want)
		}
	})
}
