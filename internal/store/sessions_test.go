package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

func TestSessions(t *testing.T) {
	const n = 60
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		for _, account := range []string{"acme", "umbrella"} {
			if err := s.Fund(ctx, account, 100*toolyard.USD, "r"); err != nil {
				t.Fatal(err)
			}
		}
		var all []*ledger.Balance // the newest first
		for i := range n {
			p, err := s.OpenSession(ctx, ledger.Session{ID: fmt.Sprintf("s%02d", i), Account: pick(i, "acme", "umbrella"), Limit: toolyard.USD, TTL: time.Hour})
			if err == nil && i%3 == 0 {
				p, err = s.CloseSession(ctx, p.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append([]*ledger.Balance{p}, all...)
		}
		end := all[0].Expires
		for i, p := range all { // many end at the same time
			p.Expires = end.Add(-time.Duration(i/7) * time.Minute)
			if _, err := s.db.ExecContext(ctx, `UPDATE balances SET expires = $1 WHERE id = $2`, p.Expires, p.ID); err != nil {
				t.Fatal(err)
			}
		}
		exchange(t, s, ledger.Refs{Balances: []string{"s01"}}, func(r *ledger.Rows) { // amounts on hold are shown
			p := r.Balances["s01"]
			p.Available, p.Held = p.Available-toolyard.USD/4, p.Held+toolyard.USD/4
			p.Mark()
			r.Holds["h"] = &ledger.HoldRow{Change: ledger.Created, ID: "h", Balance: p.ID, Serial: 1, Unspent: toolyard.USD / 4, Expires: r.Now.Add(time.Hour)}
		})
		all[n-2].Held = toolyard.USD / 4
		checkSessions(t, s, all)
	})
}

// checkSessions pages through the sessions.
func checkSessions(t *testing.T, s *Store, all []*ledger.Balance) {
	rapid.Check(t, func(t *rapid.T) {
		q := SessionQuery{
			Account: rapid.SampledFrom([]string{"", "acme", "nobody"}).Draw(t, "account"),
			State:   rapid.SampledFrom([]string{"", "open", "closed", "expired"}).Draw(t, "state"),
			Limit:   rapid.SampledFrom([]int{0, 7, 25, 10_000}).Draw(t, "limit"),
		}
		var want, got []*ledger.Balance
		for _, p := range all {
			if (q.Account == "" || q.Account == p.Account) && (q.State == "" || q.State == string(p.State)) {
				want = append(want, p)
			}
		}
		for {
			page, err := s.Sessions(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, page...); len(page) == 0 || q.Limit == 0 {
				break
			}
			last := page[len(page)-1]
			q.Before = SessionCursor{last.Expires, last.ID}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
