package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// putKeys stores keys, several of them created at the same time, and returns them, newest first.
func putKeys(t *testing.T, s *Store, n int) (all []identity.Key) {
	t.Helper()
	for i := range n {
		name := pick(i, "ci", "Größe 100%", "a_b", "GRÖSSE")
		key, _, err := identity.New(fmt.Sprint(name, i), pick(i, "alice", "Bob"), pick(i, "acme", "acme/eu", "umbrella"), nil, time.Duration(i%5)*time.Hour, keyTime.Add(time.Duration(i/7)*time.Second))
		if i%4 == 0 {
			key.Revoked = keyTime.Add(time.Minute)
		}
		if err == nil {
			err = s.PutKey(t.Context(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, key)
	}
	slices.SortFunc(all, newestKey)
	return all
}

func newestKey(a, b identity.Key) int {
	return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Prefix, a.Prefix))
}

// has reports whether one of several texts contains a part, ignoring ASCII case.
func has(part string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(lowerASCII(text), lowerASCII(part)) })
}

func TestKeyPages(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		all := putKeys(t, s, 60)
		parts := []string{"", "C", "ci1", "größe", "GRÖSSE", "grÖsse", "%", "_", "BOB", "eu", `\`, "'", "nothing", all[5].Prefix, strings.ToUpper(all[7].Prefix[2:5])}
		rapid.Check(t, func(t *rapid.T) {
			q := KeyQuery{
				Caller:  rapid.SampledFrom([]string{"", "alice", "bob"}).Draw(t, "caller"),
				Account: rapid.SampledFrom([]string{"", "acme", "nobody"}).Draw(t, "account"),
				Part:    rapid.SampledFrom(parts).Draw(t, "part"),
				State:   rapid.SampledFrom([]identity.State{"", identity.Active, identity.Expired, identity.Revoked}).Draw(t, "state"),
				Now:     keyTime.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "now")) * time.Hour),
				Limit:   rapid.SampledFrom([]int{-1, 0, 1, 7, 25, 10_000}).Draw(t, "limit"),
			}
			var want, got []identity.Key
			for _, k := range all {
				if (q.Caller == "" || q.Caller == k.Caller) && (q.Account == "" || q.Account == k.Account) && (q.State == "" || q.State == k.State(q.Now)) && has(q.Part, k.Prefix, k.Name, k.Caller, k.Account) {
					want = append(want, k)
				}
			}
			for {
				page, err := s.KeyPage(context.Background(), q)
				if err != nil || q.Limit > 0 && len(page) > q.Limit {
					t.Fatal(len(page), err)
				}
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
				q.Before = Cursor{page[len(page)-1].Created, page[len(page)-1].Prefix}
			}
			if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
		})
	})
}

func TestAccountPages(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		var all []string
		for i := range 40 {
			id := fmt.Sprint(pick(i, "acme", "Acme/", "team_", "z@example.com:"), i)
			if err := s.Fund(t.Context(), id, toolyard.USD, "r"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.OpenSession(t.Context(), ledger.Session{ID: fmt.Sprint("acme-session", i), Account: id, Limit: 1, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
			all = append(all, id)
		}
		slices.Sort(all)
		rapid.Check(t, func(t *rapid.T) {
			q := AccountQuery{
				Prefix: rapid.SampledFrom([]string{"", "acme", "Acme/", "a", "_", "%", "team_", "tean", "z@example.com:39", "acme-session"}).Draw(t, "begins"),
				Limit:  rapid.SampledFrom([]int{-1, 0, 1, 7, 25, 10_000}).Draw(t, "limit"),
			}
			var want, got []string
			for _, id := range all {
				if strings.HasPrefix(id, q.Prefix) {
					want = append(want, id)
				}
			}
			for {
				page, err := s.AccountPage(context.Background(), q)
				if err != nil || q.Limit > 0 && len(page) > q.Limit {
					t.Fatal(len(page), err)
				}
				if len(page) == 0 {
					break
				}
				got = append(got, idsOf(page)...)
				q.After = got[len(got)-1]
			}
			if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
		})
	})
}

func idsOf(balances []*ledger.Balance) (ids []string) {
	for _, p := range balances {
		ids = append(ids, p.ID)
	}
	return ids
}

// Paging while keys and accounts are created returns everything that existed at the start, and
// nothing twice.
func TestPagesWhileRowsAreAdded(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		serial := 0
		rapid.Check(t, func(rt *rapid.T) {
			ctx := context.Background()
			add := func(n int) {
				for range n {
					serial++
					at := keyTime.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "at")) * time.Second) // clocks differ
					key, _ := newTestKey(t, "k", nil, 0, at)
					id := fmt.Sprint(rapid.SampledFrom([]string{"a", "m", "z"}).Draw(rt, "id"), serial)
					if err := cmp.Or(s.PutKey(ctx, key), s.Fund(ctx, id, 1, "r")); err != nil {
						rt.Fatal(err)
					}
				}
			}
			add(rapid.IntRange(0, 3).Draw(rt, "first"))
			keys, accounts := all(rt, s)
			limit := rapid.IntRange(1, 9).Draw(rt, "limit") + serial/3 // a few pages, regardless of the number of runs
			var seen, paid []string
			for q, a := (KeyQuery{Limit: limit}), (AccountQuery{Limit: limit}); ; add(rapid.IntRange(0, 1).Draw(rt, "more")) {
				page, err := s.KeyPage(ctx, q)
				balances, also := s.AccountPage(ctx, a)
				if err = cmp.Or(err, also); err != nil {
					rt.Fatal(err)
				}
				for _, k := range page {
					seen, q.Before = append(seen, k.Prefix), Cursor{k.Created, k.Prefix}
				}
				for _, p := range balances {
					paid, a.After = append(paid, p.ID), p.ID
				}
				if len(page) < limit && len(balances) < limit {
					break
				}
			}
			checkSeen(rt, keys, seen)
			checkSeen(rt, accounts, paid)
		})
	})
}

// all returns all keys and accounts.
func all(t *rapid.T, s *Store) (keys, accounts []string) {
	list, err := s.Keys(context.Background())
	balances, also := s.Accounts(context.Background())
	if err = cmp.Or(err, also); err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		keys = append(keys, k.Prefix)
	}
	return keys, idsOf(balances)
}

// checkSeen fails unless everything in before was seen, and nothing was seen twice.
func checkSeen(t *rapid.T, before, seen []string) {
	count := make(map[string]int)
	for _, id := range seen {
		if count[id]++; count[id] > 1 {
			t.Fatalf("%s is on two pages", id)
		}
	}
	for _, id := range before {
		if count[id] == 0 {
			t.Fatalf("%s is on no page", id)
		}
	}
}

// Lists can be longer than a page.
func TestAllKeysAndAccounts(t *testing.T) {
	const n = 2*MaxCalls + 1
	onEngines(t, func(t *testing.T, s *Store) {
		fill(t, s, n)
		keys, err := s.Keys(t.Context())
		if err != nil || len(keys) != n || !slices.IsSortedFunc(keys, func(a, b identity.Key) int { return newestKey(b, a) }) {
			t.Errorf("%d keys: %v", len(keys), err)
		}
		accounts, err := s.Accounts(t.Context())
		if err != nil || len(accounts) != n || !slices.IsSorted(idsOf(accounts)) {
			t.Errorf("%d accounts: %v", len(accounts), err)
		}
	})
}

// fill creates many keys, several at the same time, and many accounts, each with a session.
func fill(t testing.TB, s *Store, n int) {
	t.Helper()
	series, blob := `generate_series(1, $1) AS i`, `decode(repeat('00', 32), 'hex')`
	if s.isLite() {
		series, blob = `(WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < $1) SELECT i FROM s)`, `zeroblob(32)`
	}
	for _, text := range []string{
		`INSERT INTO keys (` + keyColumns + `) SELECT 'k' || i, ` + blob + `, 'key ' || i, 'caller' || (i % 1000), 'account' || (i % 1000), '[]', 1700000000000000 + i / 3, 0, i % 2 FROM ` + series,
		`INSERT INTO balances (id, account, state, cap, available, held, spent, calls, held_calls, max_calls)
			SELECT 'account' || i, 'account' || i, 'open', 0, 1, 0, 0, 0, 0, 0 FROM ` + series,
		`INSERT INTO balances (id, account, state, cap, available, held, spent, calls, held_calls, max_calls)
			SELECT 'session' || i, 'account' || i, 'open', 0, 1, 0, 0, 0, 0, 0 FROM ` + series,
	} {
		if _, err := s.db.ExecContext(t.Context(), text, n); err != nil {
			t.Fatal(err)
		}
	}
}

// Pages are read using indexes, regardless of the number of rows.
func TestPlansOfPages(t *testing.T) {
	s := openAt(t, engines["postgres"](t))
	fill(t, s, 30_000)
	if _, err := s.db.ExecContext(t.Context(), `ANALYZE`); err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]AccountQuery{
		"first": {Limit: 100}, "next": {Limit: 100, After: "account5"}, "longest": {After: "account5"},
		"begins": {Limit: 100, Prefix: "account77"}, "begins, next": {Limit: 100, Prefix: "account", After: "account5"}, "begins with nothing": {Prefix: "b"},
	} {
		where, args := accountPage(q)
		if p := plan(t, s, selectBalances(where, "p.id"), args); !strings.Contains(p, "balances_accounts") || strings.Contains(p, "Seq Scan on balances") {
			t.Errorf("%s:\n%s", name, p)
		}
	}
	for name, q := range map[string]KeyQuery{
		"newest": {Limit: 100}, "newest, next": {Limit: 100, Before: Cursor{time.UnixMicro(1700000000005000), "k"}}, "newest, part": {Limit: 100, Part: "7"}, "newest, state": {Limit: 100, State: identity.Active, Now: keyTime},
		"account": {Limit: 100, Account: "account77"}, "caller": {Limit: 100, Caller: "caller77"},
	} {
		text, args, _ := s.keyPage(q)
		index, _, _ := strings.Cut(name, ",")
		if p := plan(t, s, text, args); !strings.Contains(p, "keys_"+index) || strings.Contains(p, "Seq Scan") {
			t.Errorf("%s:\n%s", name, p)
		}
	}
}

// plan returns PostgreSQL's plan for a statement.
func plan(t *testing.T, s *Store, text string, args []any) string {
	t.Helper()
	var lines []string
	err := query(t.Context(), s.db, func(row scanner) error {
		var line string
		err := row.Scan(&line)
		lines = append(lines, line)
		return err
	}, "EXPLAIN "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
