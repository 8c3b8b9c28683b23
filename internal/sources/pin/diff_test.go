package pin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard/internal/sources/pin"
)

// definition returns a tool definition of ordinary size.
func definition(i int) string {
	var properties []string
	for j := range 12 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string","description":"What property %d of tool %d is for, in a sentence.","maxLength":%d}`, j, j, i, 100+j))
	}
	return fmt.Sprintf(`{"name":"tool_%d","title":"Tool %d","description":"Does what tool number %d does.","inputSchema":{"type":"object","properties":{%s},`+
		`"required":["p0","p1"],"additionalProperties":false},"annotations":{"readOnlyHint":true,"openWorldHint":false},"_meta":{"a/b":[1,2.5,null]}}`,
		i, i, i, strings.Join(properties, ","))
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		{`{"a":1}`, `{ "a":1.0}`, nil},
		{`{"a":1}`, `{"a":2}`, []string{"a: 1 → 2"}},
		{`{"inputSchema":{"properties":{"path":{"type":"string"}}}}`, `{"inputSchema":{"properties":{"path":{"type":"number"}}}}`, []string{`inputSchema.properties.path.type: "string" → "number"`}},
		{`{"b":1,"a":{"x":1}}`, `{"c":[2],"a":{"x":{}}}`, []string{"a.x: 1 → {}", "b: 1 → absent", "c: absent → [2]"}},
		{`{"l":[1,2,3]}`, `{"l":[1,3]}`, []string{"l[1]: 2 → 3", "l[2]: 3 → absent"}},
		{`[1]`, `[1,{"a":null}]`, []string{`[1]: absent → {"a":null}`}},
		{`{"a":null}`, `{}`, []string{"a: null → absent"}},
		{`{"a":{}}`, `{"a":[]}`, []string{"a: {} → []"}},
		{`{"a":"x"}`, `{"a":{"b":1}}`, []string{`a: "x" → {"b":1}`}},
		{`{"a.b":{"":1,"c]":2}}`, `{"a.b":{"":2,"c]":3}}`, []string{`["a.b"][""]: 1 → 2`, `["a.b"]["c]"]: 2 → 3`}},
		{"{\"x\u202ey\":1}", `{}`, []string{`["x\u202ey"]: 1 → absent`}},
		{`1`, `2`, []string{": 1 → 2"}},
		{``, `{}`, []string{": absent → {}"}},
		{`{}`, ``, []string{": {} → absent"}},
		{``, ``, nil},
		{`broken`, `broken`, nil},
		{`broken`, `{}`, []string{": broken → {}"}},
		{`{"a":1,"a":2}`, `{"a":1,"a":3}`, []string{`: {"a":1,"a":2} → {"a":1,"a":3}`}},
	} {
		var got []string
		for _, change := range pin.Diff(raw(c.old), raw(c.new)) {
			got = append(got, change.Path+": "+orAbsent(change.Old)+" → "+orAbsent(change.New))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s → %s: %s", c.old, c.new, diff)
		}
	}
}

// raw returns nil for an empty text.
func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

func orAbsent(v json.RawMessage) string {
	if v == nil {
		return "absent"
	}
	return string(v)
}

// A reviewer must see every difference.
func TestDiffShowsEverything(t *testing.T) {
	many := func(x int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", 60) + strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%d,", x), 50_000), ",") + strings.Repeat("]", 60))
	}
	changes := pin.Diff(many(1), many(2))
	if len(changes) != 50_000 || changes[199].Path != strings.Repeat("[0]", 59)+"[199]" {
		t.Errorf("%d changes, the last at %s", len(changes), changes[len(changes)-1].Path)
	}
}

// mutations returns all definitions in which one field differs.
func mutations(v any) (all []any) {
	switch v := v.(type) {
	case map[string]any:
		all = append(all, []any{v})
		for key, old := range v {
			with := func(key string, value any) {
				c := map[string]any{key: value}
				for k, x := range v {
					if _, ok := c[k]; !ok {
						c[k] = x
					}
				}
				all = append(all, c)
			}
			for _, m := range mutations(old) {
				with(key, m)
			}
			with(key+"x", old)
			without := make(map[string]any)
			for k, x := range v {
				if k != key {
					without[k] = x
				}
			}
			all = append(all, without)
		}
	case []any:
		for i, old := range v {
			for _, m := range mutations(old) {
				c := append([]any{}, v...)
				c[i] = m
				all = append(all, c)
			}
			all = append(all, append(append([]any{}, v[:i]...), v[i+1:]...))
		}
		all = append(all, append(append([]any{}, v...), nil))
	case string:
		all = append(all, v+" ", v+"\u200b", strings.ToUpper(v)+"!", strings.Replace(v, "e", "е", 1)+".", nil, []any{v}) // a Cyrillic е
	case json.Number:
		digits, negative := strings.CutPrefix(string(v), "-")
		flipped := json.Number("-" + digits)
		if negative {
			flipped = json.Number(digits)
		}
		all = append(all, json.Number("1"+digits), flipped, string(v), json.Number("0.5"))
	default:
		all = append(all, "null", fmt.Sprint(v), json.Number("7"))
	}
	return all
}

// Changing one field of any value changes the digest if and only if the value changes.
func TestAnyMutationIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(3).Draw(t, "value")
		original := spell(t, v)
		all := mutations(v)
		changed := spell(t, all[rapid.IntRange(0, len(all)-1).Draw(t, "mutation")])
		same := cmp.Equal(decoded(t, original), decoded(t, changed))
		digests := pin.Digest(json.RawMessage(canonical(t, original))) == pin.Digest(json.RawMessage(canonical(t, changed)))
		if none := len(pin.Diff(raw(original), raw(changed))) == 0; same != digests || same != none {
			t.Fatalf("same value: %v, same digest: %v, no difference: %v\n%s\n%s", same, digests, none, original, changed)
		}
	})
}

// Changing one field of a definition changes the digest and causes a difference.
func TestEveryMutationIsSeen(t *testing.T) {
	for i := range 3 {
		original := json.RawMessage(canonical(t, definition(i)))
		d := json.NewDecoder(strings.NewReader(definition(i)))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all := mutations(v)
		if len(all) < 350 {
			t.Fatalf("there are only %d mutations", len(all))
		}
		seen := map[string]bool{pin.Digest(original): true}
		for _, m := range all {
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			c := json.RawMessage(canonical(t, string(raw)))
			if seen[pin.Digest(c)] {
				t.Fatalf("a mutation has a digest that was seen before: %s", c)
			}
			seen[pin.Digest(c)] = true
			if len(pin.Diff(original, raw)) == 0 {
				t.Fatalf("no difference to %s", c)
			}
		}
		t.Logf("%d mutations", len(all))
	}
}
