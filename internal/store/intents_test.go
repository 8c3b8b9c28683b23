package store

import (
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

func countIntents(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM intents`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestIntentsEndWithTheirCalls(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now := time.Now().UTC().Truncate(time.Microsecond)
		calls := someCalls(3, now)
		var intents []*ledger.Intent
		for i, c := range calls {
			c.Price, c.Args = 0, nil
			lost := *c
			lost.Code = toolyard.OutcomeUnknown
			intents = append(intents, &ledger.Intent{Call: &lost, Until: now.Add(time.Duration(1-i) * time.Hour)}) // only the first call is still running
		}
		if err := s.AppendIntents(t.Context(), intents); err != nil || countIntents(t, s) != 3 {
			t.Fatal(err)
		}
		calls[1].Intended = true // its outcome is recorded
		if err := s.AppendCalls(t.Context(), calls[1:2]); err != nil || countIntents(t, s) != 2 {
			t.Fatal(err, countIntents(t, s))
		}
		for range 2 {
			if err := s.Maintain(t.Context(), Retention{}); err != nil || countIntents(t, s) != 1 {
				t.Fatal(err, countIntents(t, s))
			}
		}
		for i, want := range []toolyard.Code{"", calls[1].Code, toolyard.OutcomeUnknown} {
			got, err := s.Call(t.Context(), calls[i].ID)
			if want == "" {
				if err == nil {
					t.Errorf("a running call is recorded: %+v", got)
				}
				continue
			}
			if err != nil || got.Code != want {
				t.Errorf("%d: %+v %v", i, got, err)
			}
		}
	})
}

// A refused call may be recorded before its delayed intent is stored. Its outcome must not change.
func TestIntentAfterItsCall(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		call := someCalls(1, time.Now().UTC().Truncate(time.Microsecond))[0]
		call.Code, call.Price, call.Intended = toolyard.Unavailable, 0, true
		if err := s.AppendCalls(t.Context(), []*CallRow{call}); err != nil {
			t.Fatal(err)
		}
		late := *call
		late.Code = toolyard.OutcomeUnknown
		if err := s.AppendIntents(t.Context(), []*ledger.Intent{{Call: &late, Until: call.At}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Maintain(t.Context(), Retention{}); err != nil || countIntents(t, s) != 0 {
			t.Fatal(err)
		}
		if got, err := s.Call(t.Context(), call.ID); err != nil || got.Code != toolyard.Unavailable {
			t.Errorf("%+v %v", got, err)
		}
	})
}
