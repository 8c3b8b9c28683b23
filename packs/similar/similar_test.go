package similar_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/packs/similar"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"kitchen", "kitchen", 0},
		{"kitchn", "kitchen", 1},
		{"kitten", "sitting", 3},
		{"ab", "ba", 2},
	} {
		if got, back := similar.Distance(tt.a, tt.b), similar.Distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("the distance of %q and %q is %d and back %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
}

func TestClosest(t *testing.T) {
	list := []similar.Candidate{{"c", 2}, {"b", 1}, {"d", 3}, {"a", 1}}
	if diff := cmp.Diff([]string{"a", "b", "c"}, similar.Closest(list, 3)); diff != "" {
		t.Error(diff)
	}
	if got := similar.Closest(nil, 3); len(got) != 0 {
		t.Errorf("%v for no candidates", got)
	}
}
