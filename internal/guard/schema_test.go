package guard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCheckSchema(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 70) + "{}" + strings.Repeat("}", 70)
	doubling := `{"type":"object","$defs":{"a0":{}`
	for i := 1; i < 40; i++ {
		doubling += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i-1, i-1)
	}
	doubling += `},"$ref":"#/$defs/a39"}`
	for name, tt := range map[string]struct{ schema, want string }{
		"plain":                   {`{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
		"recursive data":          {`{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}}`, ""},
		"definitions":             {`{"$defs":{"a/b":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a~1b"}}}`, ""},
		"anchors":                 {`{"$defs":{"a":{"$anchor":"here"}},"properties":{"x":{"$ref":"#here"}}}`, ""},
		"booleans":                {`{"properties":{"a":true},"additionalProperties":false}`, ""},
		"tuples":                  {`{"properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}],"items":false}}}`, ""},
		"unknown words":           {`{"type":"object","x-order":{"$ref":"http://example.com"},"default":{"$ref":"#"},"enum":[{"$ref":"file:///"}]}`, ""},
		"itself":                  {`{"$ref":"#"}`, "without end"},
		"a circle":                {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "without end"},
		"a circle that is unused": {`{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, "without end"},
		"a circle by anchor":      {`{"$anchor":"a","anyOf":[{"$ref":"#a"}]}`, "without end"},
		"remote":                  {`{"$ref":"http://127.0.0.1/x"}`, "outside"},
		"file":                    {`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "outside"},
		"relative":                {`{"$ref":"other.json#/a"}`, "outside"},
		"dynamic":                 {`{"$dynamicRef":"http://x/#a"}`, "outside"},
		"no text":                 {`{"$ref":1}`, "outside"},
		"another schema":          {`{"$defs":{"a":{"$id":"http://x/","$ref":"#"}}}`, "inside"},
		"nowhere":                 {`{"$ref":"#/$defs/none"}`, "no schema"},
		"into data":               {`{"default":{"$ref":"#/default"},"$ref":"#/default"}`, "no schema"},
		"doubling":                {doubling, "means more"},
		"deep":                    {deep, "JSON"},
		"large":                   {`{"description":"` + strings.Repeat("x", 300<<10) + `"}`, "larger"},
		"long pattern":            {`{"properties":{"a":{"pattern":"` + strings.Repeat("x", 3000) + `"}}}`, "pattern"},
		"list":                    {`[]`, "not an object"},
		"text":                    {`{"properties":{"a":"string"}}`, "something else"},
	} {
		start := time.Now()
		_, err := CheckSchema(json.RawMessage(tt.schema))
		switch {
		case time.Since(start) > time.Second:
			t.Errorf("%s took %v", name, time.Since(start))
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A schema whose work grows with the depth of a value says how deep that may be.
func TestCheckSchemaDepth(t *testing.T) {
	long := strings.Repeat("p", 60_000)
	for name, tt := range map[string]struct {
		schema string
		depth  int
		bad    bool
	}{
		"a tree":                    {`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, 0, false},
		"a list of lists":           {`{"$defs":{"n":{"items":{"$ref":"#/$defs/n"}}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, 0, false},
		"JSON itself":               {`{"$defs":{"n":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/n"}}]}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, 0, false},
		"twice the items":           {`{"$defs":{"n":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"array","items":{"$ref":"#/$defs/n"},"title":"b"}]}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, 16, false},
		"twice by allOf":            {`{"$defs":{"n":{"allOf":[{"items":{"$ref":"#/$defs/n"}},{"items":{"$ref":"#/$defs/n"}}]}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, 16, false},
		"by name and for all":       {`{"$defs":{"n":{"properties":{"x":{"$ref":"#/$defs/n"}},"patternProperties":{"x":{"$ref":"#/$defs/n"}}}},"properties":{"a":{"$ref":"#/$defs/n"}}}`, 16, false},
		"a language of filters":     {`{"$defs":{"f":{"oneOf":[{"properties":{"and":{"items":{"$ref":"#/$defs/f"}}}},{"properties":{"or":{"items":{"$ref":"#/$defs/f"}}}},{"properties":{"not":{"$ref":"#/$defs/f"}}}]}},"properties":{"filter":{"$ref":"#/$defs/f"}}}`, 0, false},
		"filters of one name":       {`{"$defs":{"f":{"oneOf":[{"properties":{"args":{"items":{"$ref":"#/$defs/f"}}}},{"properties":{"args":{"items":{"$ref":"#/$defs/f"}}}},{"properties":{"args":{"items":{"$ref":"#/$defs/f"}}}}]}},"properties":{"filter":{"$ref":"#/$defs/f"}}}`, 10, false},
		"a pattern that backtracks": {`{"properties":{"a":{"items":{"type":"string","pattern":"^(?=a)(a+)+$"}}}}`, 0, true},
		"a pattern in JavaScript":   {`{"properties":{"a":{"type":"string","pattern":"^[\\u00e9a-z]+$"}}}`, 0, false},
		"all depend on each other":  {`{"type":"object","unevaluatedProperties":{"$ref":"#"},"patternProperties":{` + many(190, `"p%d":{"dependentSchemas":{"text":{"$ref":"#"}},"unevaluatedProperties":{"$ref":"#"}}`) + `}}`, 2, false},
		"a long name":               {`{"type":"object","properties":{"` + long + `":{"allOf":[` + strings.TrimSuffix(strings.Repeat("{},", 19_000), ",") + `]}}}`, 0, true},
	} {
		start := time.Now()
		if depth, err := CheckSchema(json.RawMessage(tt.schema)); depth != tt.depth || (err != nil) != tt.bad || time.Since(start) > time.Second {
			t.Errorf("%s: %d, %v after %v", name, depth, err, time.Since(start))
		}
	}
}

// many repeats a text with a number in it.
func many(n int, format string) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(format, i))
	}
	return strings.Join(parts, ",")
}

func FuzzCheckSchema(f *testing.F) {
	f.Add([]byte(`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[true,{"$ref":"#"}]}},"properties":{"x":{"$ref":"#/$defs/a"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		_, _ = CheckSchema(data)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%v", took)
		}
	})
}
