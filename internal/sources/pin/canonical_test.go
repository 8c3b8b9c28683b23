package pin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

func canonical(t interface{ Fatalf(string, ...any) }, raw string) string {
	c, err := pin.Canonical(json.RawMessage(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return string(c)
}

func TestCanonical(t *testing.T) {
	for raw, want := range map[string]string{
		` { } `:                                    `{}`,
		"\t[\r\n]":                                 `[]`,
		`{"b":1,"a":{"d":[ ],"c":null}}`:           `{"a":{"c":null,"d":[]},"b":1}`,
		`[3 , true,false , "x" ]`:                  `[3,true,false,"x"]`,
		`"\u0041\/\u00e9\ud83d\ude00"`:             `"A/é😀"`,
		`"\u0000\u001F\u007f\b\f\n\r\t\"\\\u0008"`: "\"\\u0000\\u001f\x7f\\b\\f\\n\\r\\t\\\"\\\\\\b\"",
		"\"\u2028<&>\"":                            "\"\u2028<&>\"",
		`{"a\u0062":1,"aa":2}`:                     `{"aa":2,"ab":1}`,
		`{"":1}`:                                   `{"":1}`,
		// The example of RFC 8785, 3.2.3: U+1F600 is D83D DE00, before U+FB33.
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`: "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
	} {
		if got := canonical(t, raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}

func TestCanonicalNumbers(t *testing.T) {
	for want, spellings := range map[string][]string{
		"0":                                     {"0", "-0", "0.0", "-0.000", "0e5", "0E-300", "0.0e+308"},
		"1":                                     {"1", "1.0", "1e0", "1E0", "1e+0", "10e-1", "0.1e1", "0.0000000001e10"},
		"-1.5":                                  {"-1.5", "-15e-1", "-1.50", "-0.15E1"},
		"1000":                                  {"1000", "1e3", "1.000e3", "1000.000"},
		"9007199254740993":                      {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
		"9007199254740992":                      {"9007199254740992"},
		"100000000000000000000":                 {"1e20", "100000000000000000000"},
		"100000000000000000000.5":               {"100000000000000000000.5"},
		"1e+21":                                 {"1e21", "1000000000000000000000", "10E+20"},
		"1.2e+21":                               {"1200000000000000000000"},
		"0.1":                                   {"0.1", "1e-1", "0.10"},
		"0.1000000000000000055511151231257827":  {"0.1000000000000000055511151231257827"},
		"0.000001":                              {"0.000001", "1e-6"},
		"1e-7":                                  {"0.0000001", "1e-7"},
		"-1.25e-7":                              {"-0.000000125"},
		"1e+308":                                {"1e308", "100e306"},
		"1e-308":                                {"1e-308", "0.01e-306"},
		strings.Repeat("7", 21):                 {strings.Repeat("7", 21)},
		"7." + strings.Repeat("7", 99) + "e+99": {strings.Repeat("7", 100)},
	} {
		for _, s := range spellings {
			if got := canonical(t, s); got != want {
				t.Errorf("%s: %s, want %s", s, got, want)
			}
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:                                   "expected a value",
		`{"a":1,"a":2}`:                      "duplicate key",
		`{"a":`:                              "expected a value",
		`[1] 2`:                              "data after",
		`"\ud800"`:                           "unpaired surrogate",
		`[` + strings.Repeat("7", 101) + `]`: "has more than 100 digits",
		`10e308`:                             "number 10e308 is out of range",
		`0.1e-308`:                           "number 0.1e-308 is out of range",
		strings.Repeat("[", 70) + strings.Repeat("]", 70): "nested more than",
	} {
		if got, err := pin.Canonical(json.RawMessage(raw)); err == nil || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: %s, %v, want %s", raw, got, err, want)
		}
	}
}

func TestDigest(t *testing.T) {
	if got := pin.Digest(json.RawMessage(`{}`)); got != "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
		t.Error(got)
	}
}

// value generates any JSON value, as decoded by encoding/json with UseNumber.
func value(depth int) *rapid.Generator[any] {
	text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("abz.[\"\\\n\x00é\ue000\uffee😀\U0010ffff")), rapid.Rune()))
	number := rapid.Custom(func(t *rapid.T) any {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		return json.Number(s)
	})
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), number, text.AsAny())
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.SliceOfN(value(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(text, value(depth-1), 0, 6).AsAny())
}

// spell encodes a value in one of many equivalent ways.
func spell(t *rapid.T, v any) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space") }
	switch v := v.(type) {
	case map[string]any:
		keys := rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(t, "keys")
		var members []string
		for _, k := range keys {
			members = append(members, space()+spell(t, k)+space()+":"+space()+spell(t, v[k])+space())
		}
		return "{" + space() + strings.Join(members, ",") + "}"
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, space()+spell(t, item)+space())
		}
		return "[" + space() + strings.Join(items, ",") + "]"
	case string:
		return spellText(t, v)
	case json.Number:
		return spellNumber(t, string(v))
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

func spellText(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || rapid.IntRange(0, 3).Draw(t, "escape") == 0 {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), unit)
			}
		} else {
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// spellNumber moves a number's decimal point, or adds zeros.
func spellNumber(t *rapid.T, s string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	e := 0
	_, _ = fmt.Sscan(exponent, &e)
	switch rapid.IntRange(0, 3).Draw(t, "spelling") {
	case 0:
		if strings.Contains(mantissa, ".") {
			mantissa += "00"
		} else {
			mantissa += ".0"
		}
	case 1:
		if !strings.Contains(mantissa, ".") && mantissa != "0" && mantissa != "-0" {
			mantissa += "000"
			e -= 3
		}
	}
	return fmt.Sprintf("%s%s%d", mantissa, rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e"), e)
}

func TestCanonicalIsOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(4).Draw(t, "value")
		a, b := canonical(t, spell(t, v)), canonical(t, spell(t, v))
		if a != b {
			t.Fatalf("two spellings of one value:\n%s\n%s", a, b)
		}
		if again := canonical(t, a); again != a {
			t.Fatalf("not idempotent:\n%s\n%s", a, again)
		}
		if diff := pin.Diff(json.RawMessage(spell(t, v)), json.RawMessage(a)); diff != nil {
			t.Fatalf("a difference to itself: %v", diff)
		}
		if diff := cmp.Diff(decoded(t, spell(t, v)), decoded(t, a)); diff != "" {
			t.Fatalf("the canonical form means something else: %s", diff)
		}
	})
}

// decoded returns the value of a JSON text, with numbers as exact fractions.
func decoded(t *rapid.T, raw string) any {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case json.Number:
		r, _ := new(big.Rat).SetString(string(v))
		return "number " + r.String()
	}
	return v
}

// Two values differ if and only if their digests differ, and if and only if Diff reports it.
func TestDigestDiffAndMeaningAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		a := spell(t, v)
		b := spell(t, v)
		if rapid.Bool().Draw(t, "other") {
			b = spell(t, value(3).Draw(t, "second"))
		}
		same := cmp.Equal(decoded(t, a), decoded(t, b))
		digests := pin.Digest(json.RawMessage(canonical(t, a))) == pin.Digest(json.RawMessage(canonical(t, b)))
		none := len(pin.Diff(json.RawMessage(a), json.RawMessage(b))) == 0
		if same != digests || same != none {
			t.Fatalf("same value: %v, same digest: %v, no difference: %v\n%s\n%s", same, digests, none, a, b)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1.0,-0,1e5,0.1e-9],"a":"\u00e9\ud83d\ude00\n"}`, ` [ ] `, `10e308`, `{"\ufb33":1,"😀":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := pin.Canonical(data)
		if err != nil {
			return
		}
		if err := strictjson.Check(c); err != nil {
			t.Fatalf("%q became %q: %v", data, c, err)
		}
		again, err := pin.Canonical(c)
		if err != nil || !bytes.Equal(again, c) {
			t.Fatalf("%q became %q and then %q (%v)", data, c, again, err)
		}
		if d := pin.Diff(data, c); d != nil {
			t.Fatalf("%q differs from its canonical form: %v", data, d)
		}
		var x, y any
		if json.Unmarshal(data, &x) == nil && (json.Unmarshal(c, &y) != nil || !cmp.Equal(x, y)) {
			t.Fatalf("%q became %q, which means something else", data, c)
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	raw := json.RawMessage(definition(7))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pin.Canonical(raw); err != nil {
			b.Fatal(err)
		}
	}
}
