package homeassistant

import (
	"encoding/json"
	"testing"

	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

// FuzzSteps reads scripts' steps. In a home that has no entities, a step that has an effect must
// never count as harmless.
func FuzzSteps(f *testing.F) {
	for _, steps := range []string{
		`[{"action":"light.turn_on","target":{"entity_id":"light.a, light.b"}}]`,
		`[{"service":"lock.unlock","data":{"entity_id":["lock.a",null,7]}}]`,
		`[{"choose":[{"conditions":[],"sequence":[{"scene":"scene.a"}]}],"default":{"repeat":{"sequence":[{"parallel":["x"]}]}}}]`,
		`{"device_id":"d","type":"unlock","domain":"lock"}`,
		`[{"if":"{{ x }}","then":[{"action":"script.y"}],"else":null}]`,
	} {
		f.Add([]byte(steps))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var steps any
		if json.Unmarshal(raw, &steps) != nil {
			return
		}
		v := &view{Snapshot: &hass.Snapshot{}, home: &home{policy: &policy{}}}
		r := &reach{view: v, entities: make(map[*hass.Entity]bool), visited: make(map[string]any)}
		if err := r.steps(t.Context(), steps, 0); err != nil {
			t.Fatal(err)
		}
		unlock := append([]any{map[string]any{"action": "lock.unlock"}}, steps)
		if err := r.steps(t.Context(), unlock, 0); err != nil || len(r.unknown) == 0 {
			t.Errorf("lock.unlock is considered harmless (%v)", err)
		}
	})
}
