package jsonschema

import (
	"context"
	"errors"
	"testing"
	"time"
)

// For any schema and value, validation ends quickly and is deterministic.
func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"$defs":{"a":{"anyOf":[{"items":{"$ref":"#/$defs/a"}},{"type":"null"}]}},"$ref":"#/$defs/a"}`), []byte(`[[[null]]]`))
	f.Add([]byte(`{"properties":{"a":{"type":"integer","default":1,"multipleOf":0.1}},"unevaluatedProperties":false}`), []byte(`{"a":1e9999}`))
	f.Add([]byte(`{"items":{"pattern":"^(?!-)([a-z]+-?)+$","format":"email"},"uniqueItems":true}`), []byte(`["aaaaaaaaaaaaaaaaaaaaaaaaaaaa!"]`))
	f.Fuzz(func(t *testing.T, schema, raw []byte) {
		start := time.Now()
		s, err := Compile(schema)
		if err != nil {
			return
		}
		issues, err := s.Validate(context.Background(), raw)
		again, err2 := s.Validate(context.Background(), raw)
		if len(issues) != len(again) || (err == nil) != (err2 == nil) {
			t.Errorf("%v %v, then %v %v", issues, err, again, err2)
		}
		completed, _, err := s.Complete(context.Background(), raw)
		if completed != nil && err == nil {
			issues, err := s.Validate(context.Background(), completed)
			if limit := (*LimitError)(nil); len(issues) > 0 || err != nil && !errors.As(err, &limit) {
				t.Errorf("the completed value is invalid: %s %v %v", completed, issues, err)
			}
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
