package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// The funds of an account, including its sessions, are limited, so that closing sessions never
// overflows.
func TestTheFundsOfAnAccountAreBounded(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		wantCode(t, s.Fund(ctx, "acme", math.MaxInt64, "too much"), toolyard.Invalid)
		if err := s.Fund(ctx, "acme", ledger.MaxFunds, "all"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.Fund(ctx, "acme", 1, "more"), toolyard.Invalid)
		if _, err := s.OpenSession(ctx, ledger.Session{ID: "s", Account: "acme", Limit: ledger.MaxFunds, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.Fund(ctx, "acme", 1, "beside the session"), toolyard.Invalid)
		if err := s.Fund(ctx, "acme", ledger.MaxFunds, "all"); err != nil { // already funded
			t.Error(err)
		}
		if p, err := s.CloseSession(ctx, "s"); err != nil || p.Remaining != 0 {
			t.Errorf("%+v %v", p, err)
		}
		if p, err := s.Balance(ctx, "acme"); err != nil || p.Remaining != ledger.MaxFunds {
			t.Errorf("%+v %v", p, err)
		}
		if err := s.Fund(ctx, "acme", -ledger.MaxFunds, "out"); err != nil {
			t.Error(err)
		}
		if err := s.Audit(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A row that cannot be expired does not prevent others from being expired, and is reported. Money
// that does not fit in an account stays where it is.
func TestOneBadRowDoesNotStopTheSweep(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		past := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			for _, p := range []ledger.BalanceRow{
				{ID: "acme", Account: "acme", State: ledger.StateOpen},
				{ID: "worse", Account: "worse", State: ledger.StateOpen},
				{ID: "rich", Account: "rich", State: ledger.StateOpen, Available: math.MaxInt64 - 1},
				{ID: "a-full", Account: "rich", State: ledger.StateOpen, Available: 5, Expires: past}, // only 1 of this fits
				{ID: "b-bad", Account: "worse", State: ledger.StateOpen, Spent: math.MaxInt64, Held: 5, Expires: past},
				{ID: "c-good", Account: "acme", State: ledger.StateOpen, Available: 7, Expires: past},
			} {
				p.Change = ledger.Created
				r.Balances[p.ID] = &p
			}
			// The hold's spending cannot be added to its session's spending.
			r.Holds["bad"] = &ledger.HoldRow{Change: ledger.Created, ID: "bad", Balance: "b-bad", Spent: 5, Expires: past}
		})
		_, err := s.Sweep(t.Context(), 100)
		if err == nil || !strings.Contains(err.Error(), "hold bad") || strings.Contains(err.Error(), "c-good") || strings.Contains(err.Error(), "a-full") {
			t.Errorf("the error does not name only the bad row: %v", err)
		}
		for id, want := range map[string]toolyard.Money{"acme": 7, "rich": math.MaxInt64, "a-full": 4, "c-good": 0} {
			if p, err := s.Balance(t.Context(), id); err != nil || p.Remaining != want {
				t.Errorf("%s: %+v %v", id, p, err)
			}
		}
		if _, err := s.Sweep(t.Context(), 100); err != nil {
			t.Errorf("it was retried too soon: %v", err)
		}
	})
}
