package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

func TestCheckJSONRefuses(t *testing.T) {
	for input, want := range map[string]string{
		``:                             "expected a value",
		` `:                            "expected a value",
		`{"a":1,"a":2}`:                "duplicate key a",
		`{"name":1,"n\u0061me":2}`:     "duplicate key name",
		`[{"a":{"b":1,"c":[],"b":2}}]`: "duplicate key b",
		`{} {}`:                        "unexpected data after the value",
		`{}x`:                          "unexpected data after the value",
		"\"\xff\"":                     "not valid UTF-8",
		`"\ud800"`:                     "unpaired surrogate",
		`"\udc00\ud800"`:               "unpaired surrogate",
		`"\ud800\u0041"`:               "unpaired surrogate",
		`"\x"`:                         "unknown escape",
		`"\u12g4"`:                     "hexadecimal",
		`"\u12`:                        "hexadecimal",
		`"abc`:                         "unterminated string",
		`"abc\`:                        "unknown escape",
		"\"a\nb\"":                     "control character",
		`01`:                           "data after",
		`-`:                            "expected a digit",
		`1.`:                           "expected a digit",
		`1e`:                           "expected a digit",
		`.5`:                           "expected a value",
		`1e309`:                        "out of range",
		`2.5e-309`:                     "", // subnormal
		`1e-325`:                       "out of range",
		`1e-99999999999999999999`:      "out of range",
		strings.Repeat("1", 129):       "too long",
		`NaN`:                          "expected a value",
		`tru`:                          "expected a value",
		`[1,]`:                         "expected a value",
		`{"a":1,}`:                     "expected a key",
		`{a:1}`:                        "expected a key",
		`{"a" 1}`:                      "expected a colon",
		`{"a":1 "b":2}`:                "expected a comma or }",
		`[1 2]`:                        "expected a comma or ]",
		`{`:                            "expected a key",
		strings.Repeat("[", 65) + strings.Repeat("]", 65): "",
		strings.Repeat("[", 66) + strings.Repeat("]", 66): "nested more than 64",
		strings.Repeat(`{"a":`, 1<<17):                    "nested more than 64",
	} {
		err := strictjson.Check([]byte(input))
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%.60s: %v, want %q", input, err, want)
		}
	}
}

// Every value that encoding/json produces is accepted, and the members are the same as with
// encoding/json.
func TestCheckAcceptsEncodedValues(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny())
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.SliceOfN(value(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(rapid.String(), value(depth-1), 0, 20).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value(4).Draw(t, "value"))
		if err != nil {
			return
		}
		if rapid.Bool().Draw(t, "indent") {
			var b bytes.Buffer
			_ = json.Indent(&b, raw, " ", "\t")
			raw = b.Bytes()
		}
		if err := strictjson.Check(raw); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		var want map[string]json.RawMessage
		_ = json.Unmarshal(raw, &want)
		got := maps.Collect(strictjson.Members(raw))
		if diff := cmp.Diff(len(want), len(got)); diff != "" {
			t.Fatalf("%s: %s", raw, diff)
		}
		for k, v := range want {
			if string(got[k]) != string(v) {
				t.Fatalf("member %q of %s is %s", k, raw, got[k])
			}
		}
		var elements []json.RawMessage
		_ = json.Unmarshal(raw, &elements)
		if diff := cmp.Diff(elements, slices.Collect(strictjson.Elements(raw)), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("elements of %s: %s", raw, diff)
		}
	})
}

func TestManyKeys(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&b, `"k%d":1,`, i)
	}
	if err := strictjson.Check([]byte("{" + b.String() + `"z":1}`)); err != nil {
		t.Error(err)
	}
	if err := strictjson.Check([]byte("{" + b.String() + `"k7":1}`)); err == nil {
		t.Error("a duplicate among many was not seen")
	}
}

func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"\u00e9\ud83d\ude00",null,true]}`, `{"a":1,"a":2}`, `"\ud800"`, ` [ ] `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for range strictjson.Elements(data) { // must end, even if the data is not an array
			continue
		}
		if strictjson.Check(data) != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q was accepted", data)
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(data, &want) != nil {
			return
		}
		if got := maps.Collect(strictjson.Members(data)); len(got) != len(want) {
			t.Fatalf("%q has members %v, not %v", data, got, want)
		}
	})
}

func BenchmarkCheckJSON(b *testing.B) {
	call := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello world"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`)
	b.SetBytes(int64(len(call)))
	b.ReportAllocs()
	for b.Loop() {
		_ = strictjson.Check(call)
	}
}
