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
		err := CheckSchema(json.RawMessage(tt.schema))
		switch {
		case time.Since(start) > time.Second:
			t.Errorf("%s took %v", name, time.Since(start))
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCheckSchema(f *testing.F) {
	f.Add([]byte(`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[true,{"$ref":"#"}]}},"properties":{"x":{"$ref":"#/$defs/a"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		_ = CheckSchema(data)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%v", took)
		}
	})
}
