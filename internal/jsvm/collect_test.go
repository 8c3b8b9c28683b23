package jsvm

import "testing"

func TestCollectionDue(t *testing.T) {
	for _, test := range []struct {
		live, goal, objects uint64
		want                bool
	}{
		{0, 4, 3, false}, // before the first collection
		{0, 4, 4, true},
		{100, 200, 175, false},
		{100, 200, 176, true},
		{100, 200, 220, true}, // a collection is in progress
		{100, 200, 90, false}, // objects were freed
		{200, 200, 300, false},
		{300, 200, 400, false}, // the limit of the process is exceeded
	} {
		if got := collectionDue(test.live, test.goal, test.objects); got != test.want {
			t.Errorf("live %d, goal %d, objects %d: %v", test.live, test.goal, test.objects, got)
		}
	}
}

// The metrics exist in this version of Go: a missing one would panic.
func TestCollectIfDue(*testing.T) { collectIfDue() }
