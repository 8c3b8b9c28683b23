package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// newDatabases return the addresses of new databases that have no tables yet.
var newDatabases = map[string]func(testing.TB) string{
	"memory":   func(testing.TB) string { return "memory" },
	"sqlite":   func(t testing.TB) string { return "sqlite:" + newFile(t) },
	"postgres": func(t testing.TB) string { return pgtest.ForTest(t).Database(t) },
}

func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "a b?%20.db") }

// engines return the addresses of databases that have tables. They are copies, which is faster than
// running the migrations.
var engines = map[string]func(testing.TB) string{
	"memory": newDatabases["memory"],
	"sqlite": func(t testing.TB) string {
		content, err := migratedFile()
		if err != nil {
			t.Fatal(err)
		}
		file := newFile(t)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return "sqlite:" + file
	},
	"postgres": func(t testing.TB) string { return pgtest.ForTest(t).Copy(t, createTables) },
}

// migratedFile returns the content of an SQLite database that has tables.
var migratedFile = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "toolyard")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the folder is temporary
	file := filepath.Join(dir, "migrated.db")
	if err := createTables("sqlite:" + file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func createTables(address string) error {
	s, err := Open(context.Background(), address)
	if err != nil {
		return err
	}
	return s.Close()
}

// onEngines runs a test on every engine.
func onEngines(t *testing.T, test func(*testing.T, *Store)) {
	for name, address := range engines {
		t.Run(name, func(t *testing.T) {
			test(t, openAt(t, address(t)))
		})
	}
}

func openAt(t testing.TB, address string) *Store {
	t.Helper()
	s, err := Open(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func exchange(t testing.TB, s *Store, refs ledger.Refs, change func(*ledger.Rows)) {
	t.Helper()
	err := s.engine.exchange(t.Context(), refs, func(r *ledger.Rows) error {
		change(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var unexported = cmp.AllowUnexported(ledger.Rows{}, ledger.LimitRow{}, ledger.BalanceRow{}, ledger.HoldRow{}, ledger.RunRow{}, ledger.Transfer{})

func TestRowsComeBackAsTheyWere(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 30, 0, 123456000, time.UTC)
	run := ledger.RunKey{Scope: "scope", Key: "key with \"quotes\", 漢字 and \\"}
	names := ledger.Refs{Limits: []string{"p2", "p1"}, Balances: []string{"s", "a"}, Holds: []string{"h2", "h"}, Runs: []ledger.RunKey{run, {Scope: "scope", Key: "none"}}, Calls: []ledger.CallRef{{ID: "c", At: at}, {ID: "d", At: at}, {ID: "t", At: time.Time{}}}}
	fill := func(how ledger.Change, n int) *ledger.Rows {
		m := toolyard.Money(n)
		return &ledger.Rows{
			Limits: map[string]*ledger.LimitRow{"p1": {Change: ledger.Changed, State: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}, "p2": {}},
			Balances: map[string]*ledger.BalanceRow{
				"a": {Change: how, ID: "a", Account: "a", State: ledger.StateOpen, Limit: 0, Available: 1<<62 + m, Held: 0, Spent: 0, Calls: 0, HeldCalls: 0, MaxCalls: 0, Expires: time.Time{}},
				"s": {Change: how, ID: "s", Account: "a", State: ledger.StateClosed, Limit: 1 + m, Available: 2 + m, Held: 3 + m, Spent: 4 + m, Calls: 5 + n, HeldCalls: 6 + n, MaxCalls: 7 + n, Expires: at},
			},
			Holds: map[string]*ledger.HoldRow{"h": {Change: how, ID: "h", Balance: "s", Replica: "r", Serial: 1 << 60, Unspent: 8 + m, Spent: 9 + m, CallsUnspent: 10 + n, CallsSpent: 11 + n, Expires: at}},
			Runs:  map[ledger.RunKey]*ledger.RunRow{run: {Change: how, Key: run, Digest: sha256.Sum256([]byte{byte(n)}), Call: "c", State: ledger.RunDone, Until: at, Outcome: json.RawMessage(`{"x":"\u0000"}`)}},
		}
	}
	onEngines(t, func(t *testing.T, s *Store) {
		for n, how := range []ledger.Change{ledger.Created, ledger.Changed} {
			want := fill(how, n)
			exchange(t, s, names, func(r *ledger.Rows) {
				if n == 0 && (len(r.Limits) != 2 || r.Limits["p1"].State != nil || len(r.Balances)+len(r.Holds)+len(r.Runs)+len(r.Charged) > 0) {
					t.Errorf("a new store has rows: %+v", r)
				}
				r.Limits["p1"], r.Balances, r.Holds, r.Runs = want.Limits["p1"], want.Balances, want.Holds, want.Runs
				if how == ledger.Created {
					r.Transfers = []ledger.Transfer{{ID: "c", From: "hold/h", To: "sales/x", Amount: 5, Kind: "charge", Balance: "s", At: at}, {ID: "t", From: "world", To: "balance/a", Amount: 1, Kind: "fund", Balance: "", At: at}}
					r.Calls = someCalls(2, at)
					r.Calls[0].ID, r.Calls[1].ID, r.Calls[1].Price = "c", "d", 0
				}
			})
			want = fill(ledger.Unchanged, n)
			want.Limits["p1"].Change, want.Charged, want.Approvals = ledger.Unchanged, map[string]bool{"c": true, "t": true}, map[string]*ledger.ApprovalRow{}
			exchange(t, s, names, func(r *ledger.Rows) {
				if d := time.Since(r.Now); d.Abs() > time.Minute || r.Now.Location() != time.UTC {
					t.Errorf("now is %s", r.Now)
				}
				want.Now = r.Now
				if diff := cmp.Diff(want, r, unexported); diff != "" {
					t.Error(diff)
				}
			})
		}
		exchange(t, s, names, func(r *ledger.Rows) {
			r.Limits["p1"].Change, r.Holds["h"].Change, r.Runs[run].Change = ledger.Deleted, ledger.Deleted, ledger.Deleted
			r.Balances["a"].Change, r.Balances["s"].Change = ledger.Deleted, ledger.Deleted
		})
		exchange(t, s, names, func(r *ledger.Rows) {
			if r.Limits["p1"].State != nil || len(r.Balances)+len(r.Holds)+len(r.Runs) > 0 {
				t.Errorf("rows that were deleted are there: %+v", r)
			}
		})
	})
}

func TestAnOutcomeMayBeMissing(t *testing.T) {
	id := ledger.RunKey{Scope: "s", Key: "k"}
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			r.Runs[id] = &ledger.RunRow{Change: ledger.Created, Key: id, State: ledger.RunRunning, Until: r.Now}
		})
		exchange(t, s, ledger.Refs{Runs: []ledger.RunKey{id}}, func(r *ledger.Rows) {
			if r.Runs[id].Outcome != nil {
				t.Errorf("%q", r.Runs[id].Outcome)
			}
		})
	})
}

func TestExchangesLoseNothing(t *testing.T) {
	const workers, each = 100, 20
	onEngines(t, func(t *testing.T, s *Store) {
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range each {
					err := s.engine.exchange(t.Context(), ledger.Refs{Limits: []string{"p"}, Balances: []string{"a"}}, func(r *ledger.Rows) error {
						a := r.Balances["a"]
						if a == nil {
							a = &ledger.BalanceRow{Change: ledger.Created, ID: "a", Account: "a", State: ledger.StateOpen}
							r.Balances["a"] = a
						}
						n := 0
						if state := r.Limits["p"].State; state != nil {
							if err := json.Unmarshal(state, &n); err != nil {
								return err
							}
						}
						r.Limits["p"].State, r.Limits["p"].Change = json.RawMessage(fmt.Sprint(n+1)), ledger.Changed
						a.Available++
						a.Mark()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		exchange(t, s, ledger.Refs{Limits: []string{"p"}, Balances: []string{"a"}}, func(r *ledger.Rows) {
			if r.Balances["a"].Available != workers*each || string(r.Limits["p"].State) != fmt.Sprint(workers*each) {
				t.Errorf("%d and %s of %d", r.Balances["a"].Available, r.Limits["p"].State, workers*each)
			}
		})
	})
}

func TestARunIsInsertedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		for i := range 20 {
			var all sync.WaitGroup
			var first atomic.Int64
			for call := range 8 {
				all.Go(func() {
					won, ids := false, []ledger.RunKey{{Scope: "s", Key: fmt.Sprint(i)}, {Scope: "s", Key: fmt.Sprint(i + 1)}}
					err := s.engine.exchange(t.Context(), ledger.Refs{Runs: slices.Clone(ids)}, func(r *ledger.Rows) error {
						won = r.Runs[ids[1]] == nil
						for _, id := range ids {
							if r.Runs[id] == nil {
								r.Runs[id] = &ledger.RunRow{Change: ledger.Created, Key: id, Call: fmt.Sprint(call), State: ledger.RunRunning, Until: r.Now}
							}
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					if won {
						first.Add(1)
					}
				})
			}
			all.Wait()
			if n := first.Load(); n != 1 {
				t.Errorf("%d exchanges have inserted run %d", n, i+1)
			}
		}
	})
}

func TestAnErrorUndoesEverything(t *testing.T) {
	failure := errors.New("no")
	onEngines(t, func(t *testing.T, s *Store) {
		err := s.engine.exchange(t.Context(), ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) error {
			r.Limits["p"].Change, r.Limits["p"].State = ledger.Changed, json.RawMessage("1")
			r.Balances["a"] = &ledger.BalanceRow{Change: ledger.Created, ID: "a", Account: "a", State: ledger.StateOpen}
			return failure
		})
		if err != failure { //nolint:errorlint // the error must be returned unwrapped
			t.Fatal(err)
		}
		exchange(t, s, ledger.Refs{Limits: []string{"p"}, Balances: []string{"a"}}, func(r *ledger.Rows) {
			if r.Limits["p"].State != nil || len(r.Balances) > 0 {
				t.Errorf("%+v", r)
			}
		})
	})
}

func TestTheDatabaseRejectsInvalidRows(t *testing.T) {
	a := ledger.BalanceRow{Change: ledger.Created, ID: "b", Account: "b", State: ledger.StateOpen}
	cases := map[string]func(*ledger.Rows){
		"available": func(r *ledger.Rows) { p := a; p.Available = -1; r.Balances["b"] = &p },
		"held":      func(r *ledger.Rows) { p := a; p.Held = -1; r.Balances["b"] = &p },
		"spent":     func(r *ledger.Rows) { p := a; p.Spent = -1; r.Balances["b"] = &p },
		"state":     func(r *ledger.Rows) { p := a; p.State = "merry"; r.Balances["b"] = &p },
		"left": func(r *ledger.Rows) {
			r.Holds["h"] = &ledger.HoldRow{Change: ledger.Created, Balance: "a", Unspent: -1}
		},
		"owner":  func(r *ledger.Rows) { r.Holds["h"] = &ledger.HoldRow{Change: ledger.Created, Balance: "none"} },
		"amount": func(r *ledger.Rows) { r.Transfers = []ledger.Transfer{{ID: "t", From: "x", To: "y", Amount: -1}} },
		"circle": func(r *ledger.Rows) { r.Transfers = []ledger.Transfer{{ID: "t", From: "x", To: "x"}} },
		"twice": func(r *ledger.Rows) {
			r.Transfers = []ledger.Transfer{{ID: "t", From: "x", To: "y"}, {ID: "t", From: "x", To: "y"}}
		},
	}
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			r.Balances["a"] = &ledger.BalanceRow{Change: ledger.Created, Account: "a", State: ledger.StateOpen}
		})
		for name, change := range cases {
			err := s.engine.exchange(t.Context(), ledger.Refs{Balances: []string{"a"}}, func(r *ledger.Rows) error {
				r.Balances["a"].Available, r.Balances["a"].Change = 5, ledger.Changed
				change(r)
				return nil
			})
			if err == nil || errors.Is(err, ErrUnavailable) {
				t.Errorf("%s was taken: %v", name, err)
			}
		}
		exchange(t, s, ledger.Refs{Balances: []string{"a"}}, func(r *ledger.Rows) {
			if r.Balances["a"].Available != 0 {
				t.Error("half of it was written")
			}
		})
	})
}

func TestAnExchangeSeesExpiredHoldsOfItsBalances(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			for _, id := range []string{"a", "b"} {
				r.Balances[id] = &ledger.BalanceRow{Change: ledger.Created, Account: id, State: ledger.StateOpen}
				r.Holds[id+"old"] = &ledger.HoldRow{Change: ledger.Created, Balance: id, Expires: r.Now}
				r.Holds[id+"new"] = &ledger.HoldRow{Change: ledger.Created, Balance: id, Expires: r.Now.Add(time.Hour)}
			}
		})
		exchange(t, s, ledger.Refs{Balances: []string{"a"}, Holds: []string{"bnew", "none"}}, func(r *ledger.Rows) {
			if len(r.Holds) != 2 || r.Holds["aold"] == nil || r.Holds["bnew"] == nil {
				t.Errorf("%v", r.Holds)
			}
		})
	})
}

func TestStaleFindsExpiredRows(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			past, future := r.Now.Add(-time.Second), r.Now.Add(time.Hour)
			for _, p := range []ledger.BalanceRow{
				{ID: "a", Account: "a", State: ledger.StateOpen},
				{ID: "b", Account: "b", State: ledger.StateOpen},
				{ID: "c", Account: "c", State: ledger.StateOpen},
				{ID: "over", Account: "a", State: ledger.StateOpen, Expires: past},
				{ID: "open", Account: "b", State: ledger.StateOpen, Expires: future},
				{ID: "closed", Account: "b", State: ledger.StateClosed, Expires: past},
				{ID: "left", Account: "c", State: ledger.StateClosed, Available: 1, Expires: future},
			} {
				p.Change = ledger.Created
				r.Balances[p.ID] = &p
			}
			r.Holds["old"] = &ledger.HoldRow{Change: ledger.Created, Balance: "open", Expires: past}
			r.Holds["new"] = &ledger.HoldRow{Change: ledger.Created, Balance: "open", Expires: future}
			r.Runs[ledger.RunKey{Scope: "s", Key: "lost"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunRunning, Until: past}
			r.Runs[ledger.RunKey{Scope: "s", Key: "busy"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunRunning, Until: future}
			r.Runs[ledger.RunKey{Scope: "s", Key: "done"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunDone, Until: past}
		})
		got, err := s.engine.stale(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		want := ledger.Refs{Balances: []string{"a", "b", "c", "left", "open", "over"}, Holds: []string{"old"}, Runs: []ledger.RunKey{{Scope: "s", Key: "lost"}}}
		if diff := cmp.Diff(want, mergeRefs(got)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMigrationsAreMadeOnce(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			address := newDatabases[name](t)
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					s, err := Open(t.Context(), address)
					if err != nil {
						t.Error(err)
						return
					}
					exchange(t, s, ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) { r.Limits["p"].Change = ledger.Changed })
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			openAt(t, address)
		})
	}
}

func someCalls(n int, at time.Time) []*CallRow {
	calls := make([]*CallRow, n)
	for i := range calls {
		calls[i] = &CallRow{
			ID: fmt.Sprintf("call-%d", i), At: at, Elapsed: time.Duration(i), Gate: "g", Mode: toolyard.Read, Caller: "c", Account: "a", Session: "s",
			Server: "v", Tool: "t", Generation: 1<<64 - 1, Code: "OK", Price: 5, ArgsSize: 6, ResultSize: 7, Args: json.RawMessage(`{"a":1}`),
		}
	}
	return calls
}

func rowCount(t *testing.T, s *Store, text string, args ...any) (n int) {
	t.Helper()
	if err := s.db.QueryRowContext(t.Context(), text, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCallsAreAppendedOnce(t *testing.T) {
	const n = 10_000
	onEngines(t, func(t *testing.T, s *Store) {
		calls := someCalls(n, time.Now())
		calls[0].Tool, calls[1].Args = "odd\x00\xff", nil
		began := time.Now()
		for range 2 {
			if err := s.AppendCalls(t.Context(), calls); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%.0f rows per second", 2*n/time.Since(began).Seconds())
		if got := rowCount(t, s, `SELECT count(*) FROM calls WHERE generation = -1`); got != n {
			t.Errorf("%d rows of %d", got, n)
		}
		if got := rowCount(t, s, `SELECT count(*) FROM calls WHERE args IS NULL AND at = $1`, calls[1].At); got != 1 {
			t.Errorf("%d rows without arguments, want 1", got)
		}
	})
}

func TestMaintainDeletesOldRows(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now := time.Now()
		for age := range 6 {
			if err := s.AppendCalls(t.Context(), someCalls(10, now.Add(-time.Duration(age)*24*time.Hour))); err != nil {
				t.Fatal(err)
			}
		}
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			r.Runs[ledger.RunKey{Scope: "s", Key: "over"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunDone, Until: r.Now}
			r.Runs[ledger.RunKey{Scope: "s", Key: "lost"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunRunning, Until: r.Now}
			r.Runs[ledger.RunKey{Scope: "s", Key: "kept"}] = &ledger.RunRow{Change: ledger.Created, State: ledger.RunUnknown, Until: r.Now.Add(time.Hour)}
		})
		for range 2 {
			if err := s.Maintain(t.Context(), Retention{Calls: 60 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		// PostgreSQL deletes whole days, so it may keep one more.
		if n := rowCount(t, s, `SELECT count(*) FROM calls`); n != 30 && n != 40 {
			t.Errorf("%d calls are left", n)
		}
		if n := rowCount(t, s, `SELECT count(*) FROM runs`); n != 2 {
			t.Errorf("%d runs are left", n)
		}
	})
}

func TestDaysOfTheRecord(t *testing.T) {
	s := openAt(t, engines["postgres"](t))
	p := s.engine.(*postgres)
	today := time.Now().UTC().Truncate(day)
	partition := func(at time.Time) string { return dayTable + at.Format(dayFormat) }
	later := today.Add(7*day + time.Hour)
	if err := s.AppendCalls(t.Context(), append(someCalls(3, today.Add(time.Hour)), someCalls(4, later)...)); err != nil {
		t.Fatal(err)
	}
	for ahead := range daysAhead + 1 {
		rowCount(t, s, `SELECT count(*) FROM `+partition(today.Add(time.Duration(ahead)*day)))
	}
	if n := rowCount(t, s, `SELECT count(*) FROM `+partition(today)); n != 3 {
		t.Errorf("%d calls today", n)
	}
	if n := rowCount(t, s, `SELECT count(*) FROM calls_default`); n != 4 {
		t.Errorf("%d calls of no day", n)
	}
	err := p.exclusively(t.Context(), func(tx pgx.Tx, _ time.Time) error { return createDay(t.Context(), tx, later.Truncate(day)) })
	if err != nil {
		t.Fatal(err)
	}
	if n := rowCount(t, s, `SELECT count(*) FROM `+partition(later)); n != 4 {
		t.Errorf("%d calls have moved to their day", n)
	}
	err = p.exclusively(t.Context(), func(tx pgx.Tx, _ time.Time) error { return dropDays(t.Context(), tx, today.Add(day)) })
	if err != nil {
		t.Fatal(err)
	}
	if n := rowCount(t, s, `SELECT count(*) FROM calls`); n != 4 {
		t.Errorf("%d calls are left", n)
	}
	if n := rowCount(t, s, `SELECT count(*) FROM pg_tables WHERE tablename = $1`, partition(today)); n != 0 {
		t.Error("the old day is there")
	}
}

// someBooks funds an account, puts some of its money on hold, and charges a call.
func someBooks(r *ledger.Rows) {
	at := r.Now
	r.Balances["a"] = &ledger.BalanceRow{Change: ledger.Created, Account: "a", State: ledger.StateOpen, Available: 60, Held: 40, HeldCalls: 5}
	r.Holds["h"] = &ledger.HoldRow{Change: ledger.Created, Balance: "a", Unspent: 30, Spent: 10, CallsUnspent: 4, CallsSpent: 1, Expires: at.Add(time.Hour)}
	r.Transfers = []ledger.Transfer{
		{ID: "f", From: "world", To: "balance/a", Amount: 100, Kind: "fund", Balance: "", At: at},
		{ID: "l", From: "balance/a", To: "hold/h", Amount: 40, Kind: "lease", Balance: "", At: at},
		{ID: "call-0", From: "hold/h", To: "sales/x", Amount: 5, Kind: "charge", Balance: "a", At: at},
		{ID: "call-1", From: "hold/h", To: "sales/x", Amount: 5, Kind: "charge", Balance: "a", At: at}, // written in one transaction
		{ID: "1", From: "balance/a", To: "hold/gone", Amount: 7, Kind: "lease", Balance: "", At: at},
		{ID: "2", From: "hold/gone", To: "balance/a", Amount: 7, Kind: "release", Balance: "", At: at},
	}
	r.Calls = someCalls(2, at)
	r.Calls[0].Session, r.Calls[1].Session = "", ""
}

func TestAudit(t *testing.T) {
	cases := []struct {
		spoil string
		want  string // part of the finding
	}{
		{"", ""},
		{`UPDATE balances SET available = 61`, "a has a balance of 61, but its transfers total 60"},
		{`UPDATE holds SET unspent = 29, spent = 11`, "hold h has 29 left, but its transfers total 30"},
		{`UPDATE balances SET held = 41`, "a has 41 on hold, but its holds total 40"},
		{`UPDATE balances SET held_calls = 6`, "a has 6 calls on hold, but its holds total 5"},
		{`UPDATE balances SET spent = 1`, "a has spent 11, but its charges total 10"},
		{`DELETE FROM transfers WHERE id = '2'`, "hold/gone no longer exists, but its transfers total 7"},
		{`UPDATE transfers SET balance = 'x' WHERE kind = 'charge'`, "charge charge/call-0 belongs to a missing account or session"},
		{`DELETE FROM calls WHERE id = 'call-1'`, "a was charged 10, but its recorded calls total 5"},
		{`DELETE FROM calls WHERE id = 'call-1'; INSERT INTO retired (balance, amount) VALUES ('a', 5)`, "account a has 2 calls of 10 in the totals but 1 calls of 5"},
		{`DELETE FROM calls WHERE id = 'call-1'; INSERT INTO retired (balance, amount) VALUES ('a', 5); UPDATE sums SET calls = 1, usd = 5`, ""},
	}
	onEngines(t, func(t *testing.T, s *Store) {
		run := func(text string) {
			if _, err := s.db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range cases {
			exchange(t, s, ledger.Refs{}, someBooks)
			for text := range strings.SplitSeq(c.spoil, "; ") {
				run(text)
			}
			err := s.Audit(t.Context())
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.spoil, err, c.want)
			}
			for _, table := range []string{"retired", "calls", "sums", "minutes", "transfers", "holds", "balances"} {
				run("DELETE FROM " + table)
			}
		}
	})
}

func TestAnAuditReportsABoundedNumber(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, ledger.Refs{}, func(r *ledger.Rows) {
			for i := range 100 {
				id := fmt.Sprint(i)
				r.Balances[id] = &ledger.BalanceRow{Change: ledger.Created, Account: id, State: ledger.StateOpen, Available: 1, Held: 1, Spent: 1}
			}
		})
		err := s.Audit(t.Context())
		if err == nil || strings.Count(err.Error(), "\n") != maxFindings {
			t.Error(err)
		}
	})
}

func TestTheStoreInMemoryHasTheTimeOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), "memory")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		for range 2 {
			exchange(t, s, ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) {
				if !r.Now.Equal(time.Now()) {
					t.Errorf("%s at %s", r.Now, time.Now())
				}
				r.Limits["p"].Change = ledger.Changed
			})
			time.Sleep(time.Hour)
		}
	})
}

func TestAContextEndsTheWait(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := s.engine.exchange(ctx, ledger.Refs{Limits: []string{"p"}}, func(*ledger.Rows) error { return nil })
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
			r.Limits["p"].Change = ledger.Changed
		})
		exchange(t, s, ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) { r.Limits["p"].Change = ledger.Changed })
	})
}

// proxy forwards connections to a server until it is cut.
type proxy struct {
	listener net.Listener
	network  string
	target   string
	mu       sync.Mutex
	cut      bool
	conns    []net.Conn
}

func newProxy(t *testing.T, config *pgconn.Config) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l}
	p.network, p.target = pgconn.NetworkAddress(config.Host, config.Port)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.set(true)
		all.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	cut := p.cut
	p.mu.Unlock()
	if cut {
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			buffer := make([]byte, 1<<16)
			for {
				n, err := pair[0].Read(buffer)
				if err == nil {
					_, err = pair[1].Write(buffer[:n])
				}
				if err != nil {
					_ = pair[1].Close()
					return
				}
			}
		})
	}
	both.Wait()
}

// set cuts or restores the connection.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// behindProxy opens a new database through a proxy.
func behindProxy(t *testing.T) (*Store, *proxy) {
	t.Helper()
	address := engines["postgres"](t)
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, &config.Config)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Host: p.listener.Addr().String(), Path: "/" + config.Database}
	return openAt(t, u.String()+"?sslmode=disable"), p
}

func TestAnUnavailableServerRecovers(t *testing.T) {
	s, p := behindProxy(t)
	add := func() error {
		return s.engine.exchange(t.Context(), ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) error {
			r.Limits["p"].Change, r.Limits["p"].State = ledger.Changed, append(r.Limits["p"].State, '1')
			return nil
		})
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	p.set(false) // connections break, but the server is up, so callers are not affected
	if err := add(); err != nil {
		t.Fatal(err)
	}
	p.set(true)
	for range 3 {
		if err := add(); !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if _, err := s.engine.stale(t.Context(), 1); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	p.set(false)
	if err := add(); err != nil {
		t.Fatal(err)
	}
	exchange(t, s, ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) {
		if string(r.Limits["p"].State) != "111" {
			t.Errorf("%s", r.Limits["p"].State)
		}
	})
}

func TestLostCommitIsReportedAsUncertain(t *testing.T) {
	s, p := behindProxy(t)
	err := s.engine.exchange(t.Context(), ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) error {
		r.Limits["p"].Change = ledger.Changed
		p.set(true)
		return nil
	})
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "may have been committed") {
		t.Error(err)
	}
}

func TestAReadOnlyServerIsUnavailable(t *testing.T) {
	address := engines["postgres"](t)
	s := openAt(t, address)
	admin, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.Background()) })
	for _, readOnly := range []string{"on", "off"} {
		_, err := admin.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+readOnly+`', current_database()); END $$`)
		if err != nil {
			t.Fatal(err)
		}
		if readOnly == "on" { // for new connections; a failing exchange reconnects all of them
			s.engine.(*postgres).pool.Reset()
		}
		err = s.engine.exchange(t.Context(), ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) error {
			r.Limits["p"].Change = ledger.Changed
			return nil
		})
		if errors.Is(err, ErrUnavailable) != (readOnly == "on") || readOnly == "off" && err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskIsAnUnavailableStore(t *testing.T) {
	s := openAt(t, engines["sqlite"](t))
	for _, pages := range []int{10, 1_000_000} { // there are already more than 10
		if _, err := s.engine.(*lite).db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
		err := s.AppendCalls(t.Context(), someCalls(2000, time.Now()))
		if errors.Is(err, ErrUnavailable) != (pages == 10) || pages > 10 && err != nil {
			t.Fatal(err)
		}
	}
}

func TestNamesAreTexts(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		for _, name := range []string{"a\x00", "\xff"} {
			for _, names := range []ledger.Refs{{Limits: []string{name}}, {Balances: []string{name}}, {Holds: []string{name}}, {Calls: []ledger.CallRef{{ID: name}}}, {Runs: []ledger.RunKey{{Scope: "s", Key: name}}}, {Runs: []ledger.RunKey{{Scope: name, Key: "k"}}}} {
				err := s.engine.exchange(t.Context(), names, func(*ledger.Rows) error { return nil })
				if err == nil || errors.Is(err, ErrUnavailable) {
					t.Errorf("%+v: %v", names, err)
				}
			}
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	for name, address := range engines {
		t.Run(name, func(t *testing.T) {
			where := address(t)
			running := goleak.IgnoreCurrent()
			s, err := Open(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			exchange(t, s, ledger.Refs{Limits: []string{"p"}}, func(r *ledger.Rows) { r.Limits["p"].Change = ledger.Changed })
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			leaktest.VerifyNone(t, running)
		})
	}
}

func TestErrorsOfAnUnavailableStore(t *testing.T) {
	for code, want := range map[string]bool{
		"57P01": true, "57P02": true, "57P03": true, "53100": true, "53300": true, "25006": true, "40001": true, "57014": true,
		"23505": false, "23514": false, "42601": false, "22021": false,
	} {
		err := pgError(fmt.Errorf("a batch: %w", &pgconn.PgError{Code: code}))
		if errors.Is(err, ErrUnavailable) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := pgError(context.Canceled); errors.Is(err, ErrUnavailable) {
		t.Error("a disconnected caller is not an unavailable server")
	}
}

func TestAnAddressKeepsWhatItSays(t *testing.T) {
	config, err := poolConfig("postgres://u:secret@a,b:5433/d?target_session_attrs=read-write")
	if err != nil {
		t.Fatal(err)
	}
	if config.MaxConns != poolConns || config.ConnConfig.ConnectTimeout != connectTimeout || config.HealthCheckPeriod != healthPeriod ||
		config.ConnConfig.RuntimeParams["statement_timeout"] != "10s" || len(config.ConnConfig.Fallbacks) == 0 || config.ConnConfig.ValidateConnect == nil {
		t.Errorf("%+v", config)
	}
	config, err = poolConfig("postgres://u@a/d?pool_max_conns=3&connect_timeout=7&statement_timeout=1s")
	if err != nil {
		t.Fatal(err)
	}
	if config.MaxConns != 3 || config.ConnConfig.ConnectTimeout != 7*time.Second || config.ConnConfig.RuntimeParams["statement_timeout"] != "1s" {
		t.Errorf("%+v", config)
	}
	if _, err := poolConfig("postgres://u:secret@a/d?pool_max_conns=x"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// BenchmarkSettle settles 50 calls from one hold in each exchange.
func BenchmarkSettle(b *testing.B) {
	for _, name := range []string{"memory", "sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			s := openAt(b, engines[name](b))
			exchange(b, s, ledger.Refs{}, func(r *ledger.Rows) {
				r.Balances["a"] = &ledger.BalanceRow{Change: ledger.Created, Account: "a", State: ledger.StateOpen}
				r.Holds["h"] = &ledger.HoldRow{Change: ledger.Created, Balance: "a", Unspent: toolyard.USD * 1e9, Expires: r.Now.Add(time.Hour)}
			})
			n := 0
			for b.Loop() {
				settle50(b, s, n)
				n++
			}
			b.ReportMetric(50*float64(n)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

func settle50(b *testing.B, s *Store, n int) {
	refs, at := ledger.Refs{Holds: []string{"h"}}, time.Now().UTC().Truncate(time.Microsecond)
	for i := range 50 {
		refs.Calls = append(refs.Calls, ledger.CallRef{ID: fmt.Sprintf("%d-%d", n, i), At: at})
	}
	exchange(b, s, refs, func(r *ledger.Rows) {
		h := r.Holds["h"]
		h.Change = ledger.Changed
		for i, call := range refs.Calls {
			id := call.ID
			if r.Charged[id] {
				b.Fatal("charged twice")
			}
			h.Unspent, h.Spent = h.Unspent-5, h.Spent+5
			r.Transfers = append(r.Transfers, ledger.Transfer{ID: id, From: "hold/h", To: "sales/x", Amount: 5, Kind: "charge", Balance: "a", At: r.Now})
			c := someCalls(1, at)[0]
			c.ID, c.Elapsed = id, time.Duration(i)
			r.Calls = append(r.Calls, c)
		}
	})
}
