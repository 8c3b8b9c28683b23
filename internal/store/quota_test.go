package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// An account's spending includes its sessions' spending at any time.
func TestAccountSpendIncludesItsSessions(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		if err := s.Fund(ctx, "acme", 100, "first"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.OpenSession(ctx, ledger.Session{ID: "s", Account: "acme", Limit: 50, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for i, balance := range []string{"s", "acme"} {
			lease := ledger.HoldRequest{Hold: "hold-" + balance, Serial: 1, Balance: balance, Account: "acme", Want: 10, Min: 10, TTL: time.Hour}
			charge := ledger.Settlement{Call: fmt.Sprint("call-", i), Hold: lease.Hold, Balance: balance, Amount: 7, Seller: "shop"}
			for _, b := range []*ledger.Batch{{Replica: "r", Holds: []ledger.HoldRequest{lease}}, {Replica: "r", Settlements: []ledger.Settlement{charge}}} {
				if _, err := s.Exchange(ctx, b); err != nil {
					t.Fatal(err)
				}
			}
		}
		spent := func(want toolyard.Money) {
			t.Helper()
			if p, err := s.Balance(ctx, "acme"); err != nil || p.Spent != want {
				t.Errorf("%+v %v", p, err)
			}
		}
		spent(14)
		if _, err := s.Exchange(ctx, &ledger.Batch{Replica: "r", Releases: []ledger.HoldRelease{{Hold: "hold-s", Balance: "s"}}}); err != nil {
			t.Fatal(err)
		}
		spent(14)
		if p, err := s.CloseSession(ctx, "s"); err != nil || p.Spent != 7 {
			t.Errorf("%+v %v", p, err)
		}
		spent(14)
	})
}

// The number of an account's open sessions is limited, even if they are free.
func TestOpenSessionsOfAnAccountAreBounded(t *testing.T) {
	s, err := Open(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // in memory
	open := func(account string, n int) error {
		_, err := s.OpenSession(t.Context(), ledger.Session{ID: fmt.Sprint(account, n), Account: account, Calls: 1, TTL: time.Hour})
		return err
	}
	if err := open("acme", 0); err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
		for n := 1; n < maxOpenSessions; n++ {
			id := fmt.Sprint("acme", n)
			r.Balances[id] = &ledger.BalanceRow{Change: ledger.Created, ID: id, Account: "acme", State: ledger.StateOpen, MaxCalls: 1, Expires: future}
		}
	})
	wantCode(t, open("acme", maxOpenSessions), toolyard.RateLimited)
	for name, err := range map[string]error{"the same again": open("acme", 0), "another account": open("other", 0)} {
		if err != nil {
			t.Errorf("OpenSession, %s: error %v, want none", name, err)
		}
	}
	if _, err := s.CloseSession(t.Context(), "acme0"); err != nil {
		t.Fatal(err)
	}
	if err := open("acme", maxOpenSessions); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
}

// Ended sessions that spent nothing are deleted after a while. Sessions that spent money are part
// of the ledger.
func TestEmptySessionsAreDeleted(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		past, now := time.Now().Add(-2*keepSessions).UTC().Truncate(time.Microsecond), time.Now().UTC().Truncate(time.Microsecond)
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			for _, p := range []ledger.BalanceRow{
				{ID: "acme", Account: "acme", State: ledger.StateOpen},
				{ID: "empty", Account: "acme", State: ledger.StateClosed, Expires: past},
				{ID: "expired", Account: "acme", State: ledger.StateExpired, Limit: 5, Expires: past},
				{ID: "open", Account: "acme", State: ledger.StateOpen, Expires: past},
				{ID: "recent", Account: "acme", State: ledger.StateExpired, Expires: now},
				{ID: "spent", Account: "acme", State: ledger.StateClosed, Spent: 1, Expires: past},
				{ID: "left", Account: "acme", State: ledger.StateClosed, Available: 1, Expires: past},
			} {
				p.Change = ledger.Created
				r.Balances[p.ID] = &p
			}
		})
		if err := s.Maintain(t.Context(), Retention{}); err != nil {
			t.Fatal(err)
		}
		for id, kept := range map[string]bool{"acme": true, "empty": false, "expired": false, "open": true, "recent": true, "spent": true, "left": true} {
			if _, err := s.Balance(t.Context(), id); (err == nil) != kept {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// Stored idempotency keys are counted for each scope separately.
func TestKeysAreCountedByScope(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			r.Runs[ledger.RunKey{Scope: "a", Key: "1"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunDone, Until: until, Outcome: []byte("12345")}
			r.Runs[ledger.RunKey{Scope: "a", Key: "2"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunRunning, Until: until}
			r.Runs[ledger.RunKey{Scope: "b", Key: "1"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunDone, Until: until, Outcome: []byte("123")}
		})
		for scope, want := range map[string]ledger.KeyUsage{"a": {Keys: 2, Bytes: 5}, "b": {Keys: 1, Bytes: 3}, "c": {}} {
			if got, err := s.KeyUsage(t.Context(), scope); err != nil || got != want {
				t.Errorf("%s: %+v %v", scope, got, err)
			}
		}
	})
}
