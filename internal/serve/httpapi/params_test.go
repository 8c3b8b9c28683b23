package httpapi

import "testing"

func TestFormerParameterNamesAreAccepted(t *testing.T) {
	changes := []string{"caller", "action"}
	for query, want := range map[string]string{"action=key.create": "key.create", "deed=key.create": "key.create", "deed=a&action=b": "b"} {
		if p, err := readParams(query, changes); err != nil || p.values["action"] != want {
			t.Errorf("%s: action is %q (%v), want %q", query, p.values["action"], err, want)
		}
	}
	if _, err := readParams("deed=key.create", []string{"caller"}); err == nil {
		t.Error("a route without the parameter accepts its former name")
	}
}
