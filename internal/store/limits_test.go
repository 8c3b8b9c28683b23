package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
)

func TestPaces(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		busy := PaceAsk{Key: "busy", Limit: toolyard.Limit{PerMinute: 100, Concurrency: 10}, Permits: 7, Slots: 3, Hold: time.Hour}
		cool := PaceAsk{Key: "cool", Limit: toolyard.Limit{Cooldown: time.Hour}, Turn: true, Permits: 1, Slots: 1}
		began := time.Now()
		answers, err := s.Exchange(ctx, &Batch{Replica: "r", Paces: []PaceAsk{busy, cool}})
		if err != nil || answers.Paces[0].Permits != 7 || !answers.Paces[1].Turn {
			t.Fatal(answers, err)
		}
		keys := []string{"none", "busy", "cool"}
		for i := range 2 * keysAtOnce {
			keys = append(keys, fmt.Sprint("other", i))
		}
		got, err := s.Paces(ctx, keys)
		if err != nil || len(got) != 2 || got["busy"] != (PaceState{Used: 7, Running: 3}) {
			t.Fatal(got, err)
		}
		next, now := got["cool"].Next, time.Now()
		if next.Sub(now) > TurnTTL || next.IsZero() && now.Sub(began) < TurnTTL { // a slow machine may be late
			t.Errorf("after %s the turn lasts until %s", now.Sub(began), next)
		}
		_, err = s.Exchange(ctx, &Batch{Replica: "r", Returns: []PaceReturn{
			{Key: "cool", Limit: cool.Limit, Slot: answers.Paces[1].Slot, Turn: true},
			{Key: "busy", Limit: busy.Limit, Slot: answers.Paces[0].Slot, Permits: 5, Slots: 3},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err = s.Paces(ctx, keys)
		if wait := time.Until(got["cool"].Next); err != nil || wait < 59*time.Minute || wait > 61*time.Minute || got["busy"] != (PaceState{Used: 2}) {
			t.Error(got, err)
		}
		if got, err := s.Paces(ctx, nil); len(got) != 0 || err != nil {
			t.Error(got, err)
		}
	})
}

// What is used does not count any more when its time is over.
func TestPaceStates(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	p := &pace{Last: now}
	p.Counts = []count{{p.slot() - window, 5}, {p.slot() - window + 1, 2}, {p.slot(), 1}}
	p.Held = []held{{"a", 1, 3, now}, {"b", 1, 4, now.Add(1)}}
	for name, c := range map[string]struct {
		turn *turn
		next time.Time
		want time.Time
	}{
		"free":      {nil, time.Time{}, time.Time{}},
		"over":      {nil, now, time.Time{}},
		"cooling":   {nil, now.Add(time.Second), now.Add(time.Second)},
		"turn":      {&turn{"a", 1, now.Add(time.Second)}, now, now.Add(time.Second)},
		"past turn": {&turn{"a", 1, now}, now, time.Time{}},
	} {
		p.Turn, p.Next = c.turn, c.next
		read, err := readPace(p.encode(), toolyard.Limit{}, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(PaceState{Used: 3, Running: 4, Next: c.want}, read.state()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
