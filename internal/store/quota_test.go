package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// What an account has spent includes what its sessions have spent, at any time.
func TestAnAccountHasSpentWhatItsSessionsHaveSpent(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		if err := s.Fund(ctx, "acme", 100, "first"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.OpenSession(ctx, ledger.Session{ID: "s", Account: "acme", Limit: 50, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for i, purse := range []string{"s", "acme"} {
			lease := FundAsk{Hold: "hold-" + purse, Serial: 1, Purse: purse, Account: "acme", Want: 10, Least: 10, TTL: time.Hour}
			charge := Settle{Call: fmt.Sprint("call-", i), Hold: lease.Hold, Purse: purse, Amount: 7, Seller: "shop"}
			for _, b := range []*Batch{{Replica: "r", Funds: []FundAsk{lease}}, {Replica: "r", Settles: []Settle{charge}}} {
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
		if _, err := s.Exchange(ctx, &Batch{Replica: "r", Drops: []Drop{{Hold: "hold-s", Purse: "s"}}}); err != nil {
			t.Fatal(err)
		}
		spent(14)
		if p, err := s.CloseSession(ctx, "s"); err != nil || p.Spent != 7 {
			t.Errorf("%+v %v", p, err)
		}
		spent(14)
	})
}

// An account has a bounded number of open sessions, also if they cost nothing.
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
	exchange(t, s, refs{}, func(r *rows) {
		for n := 1; n < maxOpenSessions; n++ {
			id := fmt.Sprint("acme", n)
			r.purses[id] = &purseRow{change: created, id: id, account: "acme", state: ledger.StateOpen, maxCalls: 1, expires: future}
		}
	})
	wantCode(t, open("acme", maxOpenSessions), toolyard.RateLimited)
	for name, err := range map[string]error{"the same again": open("acme", 0), "another account": open("other", 0)} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.CloseSession(t.Context(), "acme0"); err != nil {
		t.Fatal(err)
	}
	if err := open("acme", maxOpenSessions); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
}

// Sessions that ended and spent nothing are deleted after a while; those that spent something
// are part of the books.
func TestEmptySessionsAreDeleted(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		past, now := time.Now().Add(-2*keepSessions).UTC().Truncate(time.Microsecond), time.Now().UTC().Truncate(time.Microsecond)
		exchange(t, s, refs{}, func(r *rows) {
			for _, p := range []purseRow{
				{id: "acme", account: "acme", state: ledger.StateOpen},
				{id: "empty", account: "acme", state: ledger.StateClosed, expires: past},
				{id: "expired", account: "acme", state: ledger.StateExpired, limit: 5, expires: past},
				{id: "open", account: "acme", state: ledger.StateOpen, expires: past},
				{id: "recent", account: "acme", state: ledger.StateExpired, expires: now},
				{id: "spent", account: "acme", state: ledger.StateClosed, spent: 1, expires: past},
				{id: "left", account: "acme", state: ledger.StateClosed, balance: 1, expires: past},
			} {
				p.change = created
				r.purses[p.id] = &p
			}
		})
		if err := s.Maintain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for id, kept := range map[string]bool{"acme": true, "empty": false, "expired": false, "open": true, "recent": true, "spent": true, "left": true} {
			if _, err := s.Balance(t.Context(), id); (err == nil) != kept {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// What is kept for idempotency keys is counted for each scope apart.
func TestKeysAreCountedByScope(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
		exchange(t, s, refs{}, func(r *rows) {
			r.runs[RunID{"a", "1"}] = &runRow{change: created, state: done, until: until, outcome: []byte("12345")}
			r.runs[RunID{"a", "2"}] = &runRow{change: created, state: running, until: until}
			r.runs[RunID{"b", "1"}] = &runRow{change: created, state: done, until: until, outcome: []byte("123")}
		})
		for scope, want := range map[string]RunUse{"a": {2, 5}, "b": {1, 3}, "c": {}} {
			if got, err := s.RunUse(t.Context(), scope); err != nil || got != want {
				t.Errorf("%s: %+v %v", scope, got, err)
			}
		}
	})
}
