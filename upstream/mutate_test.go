package upstream_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// mutations returns definitions that differ from the given one in a single place: a changed value,
// a missing member or a new one.
func mutations(t *testing.T, definition string, n int) (mutants []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var original any
	if err := json.Unmarshal([]byte(definition), &original); err != nil {
		t.Fatal(err)
	}
	same, _ := json.Marshal(original)
	for len(mutants) < n {
		var value any
		_ = json.Unmarshal([]byte(definition), &value)
		mutant, _ := json.Marshal(mutate(rng, value))
		if string(mutant) != string(same) {
			mutants = append(mutants, string(mutant))
		}
	}
	return mutants
}

// mutate changes one place in a value.
func mutate(rng *rand.Rand, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return mutateObject(rng, v)
	case []any:
		if i := rng.IntN(len(v) + 1); i < len(v) {
			v[i] = mutate(rng, v[i])
			return v
		}
		return append(v, fmt.Sprint("new", rng.IntN(100)))
	case string:
		return v + string(rune('a'+rng.IntN(26)))
	case float64:
		return v + float64(1+rng.IntN(9))
	case bool:
		return !v
	}
	return fmt.Sprint(rng.IntN(1000))
}

func mutateObject(rng *rand.Rand, o map[string]any) any {
	keys := slices.Sorted(maps.Keys(o)) // sorted, so that every run makes the same mutations
	switch key := keys[rng.IntN(len(keys))]; rng.IntN(6) {
	case 0:
		delete(o, key)
	case 1:
		o[fmt.Sprint("x", rng.IntN(100))] = rng.IntN(100)
	default:
		o[key] = mutate(rng, o[key])
	}
	return o
}
