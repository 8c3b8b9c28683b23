package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// What an account can have is bounded, with the money of its sessions, so that closing them
// never overflows.
func TestTheFundsOfAnAccountAreBounded(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		wantCode(t, s.Fund(ctx, "acme", math.MaxInt64, "too much"), toolyard.Invalid)
		if err := s.Fund(ctx, "acme", maxFunds, "all"); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.Fund(ctx, "acme", 1, "more"), toolyard.Invalid)
		if _, err := s.OpenSession(ctx, ledger.Session{ID: "s", Account: "acme", Limit: maxFunds, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.Fund(ctx, "acme", 1, "beside the session"), toolyard.Invalid)
		if err := s.Fund(ctx, "acme", maxFunds, "all"); err != nil { // funded already
			t.Error(err)
		}
		if p, err := s.CloseSession(ctx, "s"); err != nil || p.Remaining != 0 {
			t.Errorf("%+v %v", p, err)
		}
		if p, err := s.Balance(ctx, "acme"); err != nil || p.Remaining != maxFunds {
			t.Errorf("%+v %v", p, err)
		}
		if err := s.Fund(ctx, "acme", -maxFunds, "out"); err != nil {
			t.Error(err)
		}
		if err := s.Audit(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A row that cannot be ended keeps no other from being ended, and is named. Money that does not
// fit into an account stays where it is.
func TestOneBadRowDoesNotStopTheSweep(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		past := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
		exchange(t, s, refs{}, func(r *rows) {
			for _, p := range []purseRow{
				{id: "acme", account: "acme", state: ledger.StateOpen},
				{id: "worse", account: "worse", state: ledger.StateOpen},
				{id: "rich", account: "rich", state: ledger.StateOpen, balance: math.MaxInt64 - 1},
				{id: "a-full", account: "rich", state: ledger.StateOpen, balance: 5, expires: past}, // of which 1 fits
				{id: "b-bad", account: "worse", state: ledger.StateOpen, spent: math.MaxInt64, held: 5, expires: past},
				{id: "c-good", account: "acme", state: ledger.StateOpen, balance: 7, expires: past},
			} {
				p.change = created
				r.purses[p.id] = &p
			}
			// What it has spent cannot be added to what its session has spent.
			r.holds["bad"] = &holdRow{change: created, id: "bad", purse: "b-bad", spent: 5, expires: past}
		})
		_, err := s.Sweep(t.Context(), 100)
		if err == nil || !strings.Contains(err.Error(), "hold bad") || strings.Contains(err.Error(), "c-good") || strings.Contains(err.Error(), "a-full") {
			t.Errorf("the error does not name the bad row alone: %v", err)
		}
		for id, want := range map[string]toolyard.Money{"acme": 7, "rich": math.MaxInt64, "a-full": 4, "c-good": 0} {
			if p, err := s.Balance(t.Context(), id); err != nil || p.Remaining != want {
				t.Errorf("%s: %+v %v", id, p, err)
			}
		}
		if _, err := s.Sweep(t.Context(), 100); err != nil {
			t.Errorf("it is not left alone for a while: %v", err)
		}
	})
}
