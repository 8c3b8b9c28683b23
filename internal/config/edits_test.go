package config

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Edits are stored as JSON. All of a gate's settings must survive encoding and decoding.
func TestEditsKeepAllSettings(t *testing.T) {
	const gate = `{
		"mode": "read", "surface": "execute", "toolset": "some", "naming": "plain", "sourceNotes": "off", "callers": "keys",
		"issuers": ["corp"], "errors": "protocol", "clock": "caller", "packs": {"home": {"url": "http://home"}},
		"rate": [{"perMinute": 7, "cooldown": "2s", "per": "caller"}, {"concurrency": 3}],
		"spend": [{"perDayUsd": "2.50"}, {"perMonthUsd": "20", "per": "account"}],
		"agents": ["clerk"], "offer": "search", "pinned": ["greet"], "accept": "trifecta", "show": "2KiB"
	}`
	first, err := ParseEdits([]byte(`{"gates": {"g": ` + gate + `}, "prices": {"-/*": "none", "up/echo": "0.001"}, "toolsets": {"some": {"tools": ["greet"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range reflect.ValueOf(first.Gates["g"]).Fields() {
		if value.IsZero() {
			t.Errorf("the gate of this test does not set %s", field.Name)
		}
	}
	body, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseEdits(body)
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
