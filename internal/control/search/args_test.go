package search

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArgs(t *testing.T) {
	got := Args(json.RawMessage(`{"type":"object","description":"Not an argument","properties":{
		"to":{"type":"string","description":"Who \"gets\" it"},
		"options":{"properties":{"deep":{"properties":{"deeper":{"properties":{"deepest":{}}}}}}},
		"lines":{"type":"array","items":{"properties":{"sku":{"description":"Stock keeping unit"}}}},
		"any":true}}`))
	want := []Arg{{"to", `Who "gets" it`}, {"options", ""}, {"deep", ""}, {"deeper", ""}, {"lines", ""}, {"sku", "Stock keeping unit"}, {"any", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, schema := range []string{``, `null`, `true`, `[]`, `{"properties":[]}`, `{"properties":{}}`} {
		if got := Args(json.RawMessage(schema)); got != nil {
			t.Errorf("Args(%s) = %v", schema, got)
		}
	}
	properties := make([]string, 1000)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"a%d":{}`, i)
	}
	if got := Args(json.RawMessage(`{"properties":{` + strings.Join(properties, ",") + `}}`)); len(got) != maxArgCount {
		t.Errorf("%d arguments are read", len(got))
	}
}
