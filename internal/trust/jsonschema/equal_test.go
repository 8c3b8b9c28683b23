package jsonschema

import (
	"encoding/json"
	"testing"
)

// Values with the same hash are still distinguished.
func TestHashCollisionsHideNothing(t *testing.T) {
	defer func(seeded uint64) { hashNumber = seeded }(hashNumber)
	hashNumber = hashNull + 5*0x0100000001000001 // as if an attacker knew the process's seed
	for schema, values := range map[string]map[string]bool{
		`{"uniqueItems":true}`:               {`[5,6356903766403604015e1,5]`: false, `[5,6356903766403604015e1]`: true},
		`{"enum":[5,6356903766403604015e1]}`: {`5`: true, `63569037664036040150`: true, `6`: false},
	} {
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		for value, want := range values {
			issues, err := s.Validate(t.Context(), json.RawMessage(value))
			if err != nil || (len(issues) == 0) != want {
				t.Errorf("%s of %s: %v %v", schema, value, issues, err)
			}
		}
	}
}
