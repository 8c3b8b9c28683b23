package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUsageIgnoresExpiredLeases(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	p := &limitState{Last: now}
	p.Counts = []permitCount{{p.epoch() - window, 5}, {p.epoch() - window + 1, 2}, {p.epoch(), 1}}
	p.Held = []heldConcurrency{{"a", 1, 3, now}, {"b", 1, 4, now.Add(1)}}
	for name, c := range map[string]struct {
		startRight *startRight
		next       time.Time
		want       time.Time
	}{
		"free":      {nil, time.Time{}, time.Time{}},
		"over":      {nil, now, time.Time{}},
		"cooling":   {nil, now.Add(time.Second), now.Add(time.Second)},
		"turn":      {&startRight{"a", 1, now.Add(time.Second)}, now, now.Add(time.Second)},
		"past turn": {&startRight{"a", 1, now}, now, time.Time{}},
	} {
		p.StartRight, p.Next = c.startRight, c.next
		got, err := Usage(p.encode(), now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(LimitUsage{Used: 3, Running: 4, Next: c.want}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
