package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

func TestLimitRows(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		busy := ledger.LimitRequest{Key: "busy", Limit: toolyard.Limit{PerMinute: 100, Concurrency: 10}, Permits: 7, Concurrency: 3, SlotTTL: time.Hour}
		cool := ledger.LimitRequest{Key: "cool", Limit: toolyard.Limit{Cooldown: time.Hour}, StartRight: true, Permits: 1, Concurrency: 1}
		began := time.Now()
		answers, err := s.Exchange(ctx, &ledger.Batch{Replica: "r", Limits: []ledger.LimitRequest{busy, cool}})
		if err != nil || answers.Limits[0].Permits != 7 || !answers.Limits[1].StartRight {
			t.Fatal(answers, err)
		}
		keys := []string{"none", "busy", "cool"}
		for i := range 2 * keysPerQuery {
			keys = append(keys, fmt.Sprint("other", i))
		}
		got, err := s.LimitUsage(ctx, keys)
		if err != nil || len(got) != 2 || got["busy"] != (ledger.LimitUsage{Used: 7, Running: 3}) {
			t.Fatal(got, err)
		}
		next, now := got["cool"].Next, time.Now()
		if next.Sub(now) > ledger.StartRightTTL || next.IsZero() && now.Sub(began) < ledger.StartRightTTL { // a slow machine may be late
			t.Errorf("after %s the turn lasts until %s", now.Sub(began), next)
		}
		_, err = s.Exchange(ctx, &ledger.Batch{Replica: "r", Returns: []ledger.LimitReturn{
			{Key: "cool", Limit: cool.Limit, Epoch: answers.Limits[1].Epoch, StartRight: true},
			{Key: "busy", Limit: busy.Limit, Epoch: answers.Limits[0].Epoch, Permits: 5, Concurrency: 3},
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, err = s.LimitUsage(ctx, keys)
		if wait := time.Until(got["cool"].Next); err != nil || wait < 59*time.Minute || wait > 61*time.Minute || got["busy"] != (ledger.LimitUsage{Used: 2}) {
			t.Error(got, err)
		}
		if got, err := s.LimitUsage(ctx, nil); len(got) != 0 || err != nil {
			t.Error(got, err)
		}
	})
}
