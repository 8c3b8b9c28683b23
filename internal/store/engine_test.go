package store

import (
	"context"
	"crypto/rand"
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
)

// testServer names the environment variable with the URL of a PostgreSQL server on which
// tests may make databases.
const testServer = "TOOLYARD_TEST_POSTGRES"

// postgresAddress is the address of a new database, which ends with the test.
func postgresAddress(t testing.TB) string {
	t.Helper()
	server := os.Getenv(testServer)
	if server == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not set", testServer)
		}
		t.Skipf("%s is not set", testServer)
	}
	name := "test_" + strings.ToLower(rand.Text())
	run := func(text string) {
		ctx := context.Background() // t.Context is over when the database is dropped
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, text); err != nil {
			t.Error(err)
		}
	}
	run("CREATE DATABASE " + name)
	t.Cleanup(func() { run("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// engines are the addresses to test with.
var engines = map[string]func(testing.TB) string{
	"memory":   func(testing.TB) string { return "memory" },
	"sqlite":   func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "a b?%20.db") },
	"postgres": postgresAddress,
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

func exchange(t testing.TB, s *Store, names refs, change func(*rows)) {
	t.Helper()
	err := s.engine.exchange(t.Context(), names, func(r *rows) error {
		change(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var unexported = cmp.AllowUnexported(rows{}, paceRow{}, purseRow{}, holdRow{}, runRow{}, transfer{})

func TestRowsComeBackAsTheyWere(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 30, 0, 123456000, time.UTC)
	run := RunID{"scope", "key with \"quotes\", 漢字 and \\"}
	names := refs{paces: []string{"p2", "p1"}, purses: []string{"s", "a"}, holds: []string{"h2", "h"}, runs: []RunID{run, {"scope", "none"}}, calls: []callRef{{"c", at}, {"d", at}, {"t", time.Time{}}}}
	fill := func(how change, n int) *rows {
		m := toolyard.Money(n)
		return &rows{
			paces: map[string]*paceRow{"p1": {changed, json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}, "p2": {}},
			purses: map[string]*purseRow{
				"a": {how, "a", "a", ledger.StateOpen, 0, 1<<62 + m, 0, 0, 0, 0, 0, time.Time{}},
				"s": {how, "s", "a", ledger.StateClosed, 1 + m, 2 + m, 3 + m, 4 + m, 5 + n, 6 + n, 7 + n, at},
			},
			holds: map[string]*holdRow{"h": {how, "h", "s", "r", 1 << 60, 8 + m, 9 + m, 10 + n, 11 + n, at}},
			runs:  map[RunID]*runRow{run: {how, run, sha256.Sum256([]byte{byte(n)}), "c", done, at, json.RawMessage(`{"x":"\u0000"}`)}},
		}
	}
	onEngines(t, func(t *testing.T, s *Store) {
		for n, how := range []change{created, changed} {
			want := fill(how, n)
			exchange(t, s, names, func(r *rows) {
				if n == 0 && (len(r.paces) != 2 || r.paces["p1"].state != nil || len(r.purses)+len(r.holds)+len(r.runs)+len(r.charged) > 0) {
					t.Errorf("a new store has rows: %+v", r)
				}
				r.paces["p1"], r.purses, r.holds, r.runs = want.paces["p1"], want.purses, want.holds, want.runs
				if how == created {
					r.transfers = []transfer{{"c", "hold/h", "sales/x", 5, "charge", "s", at}, {"t", "world", "purse/a", 1, "fund", "", at}}
					r.calls = someCalls(2, at)
					r.calls[0].ID, r.calls[1].ID, r.calls[1].Price = "c", "d", 0
				}
			})
			want = fill(unchanged, n)
			want.paces["p1"].change, want.charged = unchanged, map[string]bool{"c": true, "t": true}
			exchange(t, s, names, func(r *rows) {
				if d := time.Since(r.now); d.Abs() > time.Minute || r.now.Location() != time.UTC {
					t.Errorf("now is %s", r.now)
				}
				want.now = r.now
				if diff := cmp.Diff(want, r, unexported); diff != "" {
					t.Error(diff)
				}
			})
		}
		exchange(t, s, names, func(r *rows) {
			r.paces["p1"].change, r.holds["h"].change, r.runs[run].change = deleted, deleted, deleted
			r.purses["a"].change, r.purses["s"].change = deleted, deleted
		})
		exchange(t, s, names, func(r *rows) {
			if r.paces["p1"].state != nil || len(r.purses)+len(r.holds)+len(r.runs) > 0 {
				t.Errorf("rows that were deleted are there: %+v", r)
			}
		})
	})
}

func TestAnOutcomeMayBeMissing(t *testing.T) {
	id := RunID{"s", "k"}
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, refs{}, func(r *rows) { r.runs[id] = &runRow{change: created, id: id, state: running, until: r.now} })
		exchange(t, s, refs{runs: []RunID{id}}, func(r *rows) {
			if r.runs[id].outcome != nil {
				t.Errorf("%q", r.runs[id].outcome)
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
					err := s.engine.exchange(t.Context(), refs{paces: []string{"p"}, purses: []string{"a"}}, func(r *rows) error {
						a := r.purses["a"]
						if a == nil {
							a = &purseRow{change: created, id: "a", account: "a", state: ledger.StateOpen}
							r.purses["a"] = a
						}
						n := 0
						if state := r.paces["p"].state; state != nil {
							if err := json.Unmarshal(state, &n); err != nil {
								return err
							}
						}
						r.paces["p"].state, r.paces["p"].change = json.RawMessage(fmt.Sprint(n+1)), changed
						a.balance++
						a.mark()
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		exchange(t, s, refs{paces: []string{"p"}, purses: []string{"a"}}, func(r *rows) {
			if r.purses["a"].balance != workers*each || string(r.paces["p"].state) != fmt.Sprint(workers*each) {
				t.Errorf("%d and %s of %d", r.purses["a"].balance, r.paces["p"].state, workers*each)
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
					won, ids := false, []RunID{{"s", fmt.Sprint(i)}, {"s", fmt.Sprint(i + 1)}}
					err := s.engine.exchange(t.Context(), refs{runs: slices.Clone(ids)}, func(r *rows) error {
						won = r.runs[ids[1]] == nil
						for _, id := range ids {
							if r.runs[id] == nil {
								r.runs[id] = &runRow{change: created, id: id, call: fmt.Sprint(call), state: running, until: r.now}
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
		err := s.engine.exchange(t.Context(), refs{paces: []string{"p"}}, func(r *rows) error {
			r.paces["p"].change, r.paces["p"].state = changed, json.RawMessage("1")
			r.purses["a"] = &purseRow{change: created, id: "a", account: "a", state: ledger.StateOpen}
			return failure
		})
		if err != failure { //nolint:errorlint // it comes back as it is
			t.Fatal(err)
		}
		exchange(t, s, refs{paces: []string{"p"}, purses: []string{"a"}}, func(r *rows) {
			if r.paces["p"].state != nil || len(r.purses) > 0 {
				t.Errorf("%+v", r)
			}
		})
	})
}

func TestTheDatabaseRefusesWhatCannotBe(t *testing.T) {
	a := purseRow{change: created, id: "b", account: "b", state: ledger.StateOpen}
	cases := map[string]func(*rows){
		"balance": func(r *rows) { p := a; p.balance = -1; r.purses["b"] = &p },
		"held":    func(r *rows) { p := a; p.held = -1; r.purses["b"] = &p },
		"spent":   func(r *rows) { p := a; p.spent = -1; r.purses["b"] = &p },
		"state":   func(r *rows) { p := a; p.state = "merry"; r.purses["b"] = &p },
		"left":    func(r *rows) { r.holds["h"] = &holdRow{change: created, purse: "a", left: -1} },
		"purse":   func(r *rows) { r.holds["h"] = &holdRow{change: created, purse: "none"} },
		"amount":  func(r *rows) { r.transfers = []transfer{{id: "t", from: "x", to: "y", amount: -1}} },
		"circle":  func(r *rows) { r.transfers = []transfer{{id: "t", from: "x", to: "x"}} },
		"twice": func(r *rows) {
			r.transfers = []transfer{{id: "t", from: "x", to: "y"}, {id: "t", from: "x", to: "y"}}
		},
	}
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, refs{}, func(r *rows) { r.purses["a"] = &purseRow{change: created, account: "a", state: ledger.StateOpen} })
		for name, change := range cases {
			err := s.engine.exchange(t.Context(), refs{purses: []string{"a"}}, func(r *rows) error {
				r.purses["a"].balance, r.purses["a"].change = 5, changed
				change(r)
				return nil
			})
			if err == nil || errors.Is(err, ErrAway) {
				t.Errorf("%s was taken: %v", name, err)
			}
		}
		exchange(t, s, refs{purses: []string{"a"}}, func(r *rows) {
			if r.purses["a"].balance != 0 {
				t.Error("half of it was written")
			}
		})
	})
}

func TestAnExchangeSeesExpiredHoldsOfItsPurses(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, refs{}, func(r *rows) {
			for _, id := range []string{"a", "b"} {
				r.purses[id] = &purseRow{change: created, account: id, state: ledger.StateOpen}
				r.holds[id+"old"] = &holdRow{change: created, purse: id, expires: r.now}
				r.holds[id+"new"] = &holdRow{change: created, purse: id, expires: r.now.Add(time.Hour)}
			}
		})
		exchange(t, s, refs{purses: []string{"a"}, holds: []string{"bnew", "none"}}, func(r *rows) {
			if len(r.holds) != 2 || r.holds["aold"] == nil || r.holds["bnew"] == nil {
				t.Errorf("%v", r.holds)
			}
		})
	})
}

func TestStaleFindsWhatHasRunOut(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, refs{}, func(r *rows) {
			past, future := r.now.Add(-time.Second), r.now.Add(time.Hour)
			for _, p := range []purseRow{
				{id: "a", account: "a", state: ledger.StateOpen},
				{id: "b", account: "b", state: ledger.StateOpen},
				{id: "c", account: "c", state: ledger.StateOpen},
				{id: "over", account: "a", state: ledger.StateOpen, expires: past},
				{id: "open", account: "b", state: ledger.StateOpen, expires: future},
				{id: "closed", account: "b", state: ledger.StateClosed, expires: past},
				{id: "left", account: "c", state: ledger.StateClosed, balance: 1, expires: future},
			} {
				p.change = created
				r.purses[p.id] = &p
			}
			r.holds["old"] = &holdRow{change: created, purse: "open", expires: past}
			r.holds["new"] = &holdRow{change: created, purse: "open", expires: future}
			r.runs[RunID{"s", "lost"}] = &runRow{change: created, state: running, until: past}
			r.runs[RunID{"s", "busy"}] = &runRow{change: created, state: running, until: future}
			r.runs[RunID{"s", "done"}] = &runRow{change: created, state: done, until: past}
		})
		got, err := s.engine.stale(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		want := refs{purses: []string{"a", "b", "c", "left", "open", "over"}, holds: []string{"old"}, runs: []RunID{{"s", "lost"}}}
		if diff := cmp.Diff(want, merge(got), cmp.AllowUnexported(refs{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMigrationsAreMadeOnce(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			address := engines[name](t)
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					s, err := Open(t.Context(), address)
					if err != nil {
						t.Error(err)
						return
					}
					exchange(t, s, refs{paces: []string{"p"}}, func(r *rows) { r.paces["p"].change = changed })
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
			t.Errorf("%d rows without arguments", got)
		}
	})
}

func TestMaintainForgetsWhatIsOld(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now := time.Now()
		for age := range 6 {
			if err := s.AppendCalls(t.Context(), someCalls(10, now.Add(-time.Duration(age)*24*time.Hour))); err != nil {
				t.Fatal(err)
			}
		}
		exchange(t, s, refs{}, func(r *rows) {
			r.runs[RunID{"s", "over"}] = &runRow{change: created, state: done, until: r.now}
			r.runs[RunID{"s", "lost"}] = &runRow{change: created, state: running, until: r.now}
			r.runs[RunID{"s", "kept"}] = &runRow{change: created, state: unknown, until: r.now.Add(time.Hour)}
		})
		for range 2 {
			if err := s.Maintain(t.Context(), 60*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		// PostgreSQL forgets whole days, so it may keep one more.
		if n := rowCount(t, s, `SELECT count(*) FROM calls`); n != 30 && n != 40 {
			t.Errorf("%d calls are left", n)
		}
		if n := rowCount(t, s, `SELECT count(*) FROM runs`); n != 2 {
			t.Errorf("%d runs are left", n)
		}
	})
}

func TestDaysOfTheRecord(t *testing.T) {
	s := openAt(t, postgresAddress(t))
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
	err := p.alone(t.Context(), func(tx pgx.Tx, _ time.Time) error { return makeDay(t.Context(), tx, later.Truncate(day)) })
	if err != nil {
		t.Fatal(err)
	}
	if n := rowCount(t, s, `SELECT count(*) FROM `+partition(later)); n != 4 {
		t.Errorf("%d calls have moved to their day", n)
	}
	err = p.alone(t.Context(), func(tx pgx.Tx, _ time.Time) error { return dropDays(t.Context(), tx, today.Add(day)) })
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

// someBooks funds an account, holds money of it and charges a call.
func someBooks(r *rows) {
	at := r.now
	r.purses["a"] = &purseRow{change: created, account: "a", state: ledger.StateOpen, balance: 60, held: 40, heldCalls: 5}
	r.holds["h"] = &holdRow{change: created, purse: "a", left: 30, spent: 10, callsLeft: 4, callsSpent: 1, expires: at.Add(time.Hour)}
	r.transfers = []transfer{
		{"f", "world", "purse/a", 100, "fund", "", at},
		{"l", "purse/a", "hold/h", 40, "lease", "", at},
		{"call-0", "hold/h", "sales/x", 5, "charge", "a", at},
		{"call-1", "hold/h", "sales/x", 5, "charge", "a", at}, // written as one with the other
		{"1", "purse/a", "hold/gone", 7, "lease", "", at},
		{"2", "hold/gone", "purse/a", 7, "release", "", at},
	}
	r.calls = someCalls(2, at)
	r.calls[0].Session, r.calls[1].Session = "", ""
}

func TestAudit(t *testing.T) {
	cases := []struct {
		spoil string
		want  string // a part of the finding
	}{
		{"", ""},
		{`UPDATE purses SET balance = 61`, "purse a has a balance of 61, but by its transfers it is 60"},
		{`UPDATE holds SET unspent = 29, spent = 11`, "hold h has 29 left, but by its transfers it is 30"},
		{`UPDATE purses SET held = 41`, "purse a has 41 held, but its holds have 40"},
		{`UPDATE purses SET held_calls = 6`, "purse a has 6 calls held, but its holds have 5"},
		{`UPDATE purses SET spent = 1`, "purse a has spent 11, but its charges are 10"},
		{`DELETE FROM transfers WHERE id = '2'`, "hold/gone is gone, but by its transfers it has 7"},
		{`UPDATE transfers SET purse = 'x' WHERE kind = 'charge'`, "charge charge/call-0 is of a purse that is not there"},
		{`DELETE FROM calls WHERE id = 'call-1'`, "purse a was charged 10, but by the record of calls it is 5"},
		{`DELETE FROM calls WHERE id = 'call-1'; INSERT INTO retired (purse, amount) VALUES ('a', 5)`, "account a has 2 calls of 10 by the sums, but 1 calls of 5"},
		{`DELETE FROM calls WHERE id = 'call-1'; INSERT INTO retired (purse, amount) VALUES ('a', 5); UPDATE sums SET calls = 1, usd = 5`, ""},
	}
	onEngines(t, func(t *testing.T, s *Store) {
		run := func(text string) {
			if _, err := s.db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range cases {
			exchange(t, s, refs{}, someBooks)
			for text := range strings.SplitSeq(c.spoil, "; ") {
				run(text)
			}
			err := s.Audit(t.Context())
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.spoil, err, c.want)
			}
			for _, table := range []string{"retired", "calls", "sums", "minutes", "transfers", "holds", "purses"} {
				run("DELETE FROM " + table)
			}
		}
	})
}

func TestAnAuditReportsABoundedNumber(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, refs{}, func(r *rows) {
			for i := range 100 {
				id := fmt.Sprint(i)
				r.purses[id] = &purseRow{change: created, account: id, state: ledger.StateOpen, balance: 1, held: 1, spent: 1}
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
			exchange(t, s, refs{paces: []string{"p"}}, func(r *rows) {
				if !r.now.Equal(time.Now()) {
					t.Errorf("%s at %s", r.now, time.Now())
				}
				r.paces["p"].change = changed
			})
			time.Sleep(time.Hour)
		}
	})
}

func TestAContextEndsTheWait(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		exchange(t, s, refs{paces: []string{"p"}}, func(r *rows) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := s.engine.exchange(ctx, refs{paces: []string{"p"}}, func(*rows) error { return nil })
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrAway) {
				t.Error(err)
			}
			r.paces["p"].change = changed
		})
		exchange(t, s, refs{paces: []string{"p"}}, func(r *rows) { r.paces["p"].change = changed })
	})
}

// proxy passes connections on to a server until it is cut.
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

// set cuts the line, or mends it.
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
	address := postgresAddress(t)
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, &config.Config)
	u := url.URL{Scheme: "postgres", User: url.UserPassword(config.User, config.Password), Host: p.listener.Addr().String(), Path: "/" + config.Database}
	return openAt(t, u.String()+"?sslmode=disable"), p
}

func TestAServerThatIsAwayComesBack(t *testing.T) {
	s, p := behindProxy(t)
	add := func() error {
		return s.engine.exchange(t.Context(), refs{paces: []string{"p"}}, func(r *rows) error {
			r.paces["p"].change, r.paces["p"].state = changed, append(r.paces["p"].state, '1')
			return nil
		})
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	p.set(false) // connections break, the server is there: nobody notices
	if err := add(); err != nil {
		t.Fatal(err)
	}
	p.set(true)
	for range 3 {
		if err := add(); !errors.Is(err, ErrAway) {
			t.Fatal(err)
		}
	}
	if _, err := s.engine.stale(t.Context(), 1); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
	p.set(false)
	if err := add(); err != nil {
		t.Fatal(err)
	}
	exchange(t, s, refs{paces: []string{"p"}}, func(r *rows) {
		if string(r.paces["p"].state) != "111" {
			t.Errorf("%s", r.paces["p"].state)
		}
	})
}

func TestACommitThatBreaksIsSaidToBeUnknown(t *testing.T) {
	s, p := behindProxy(t)
	err := s.engine.exchange(t.Context(), refs{paces: []string{"p"}}, func(r *rows) error {
		r.paces["p"].change = changed
		p.set(true)
		return nil
	})
	if !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "may or may not") {
		t.Error(err)
	}
}

func TestAServerThatOnlyReadsIsAway(t *testing.T) {
	address := postgresAddress(t)
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
		if readOnly == "on" { // for new connections; the exchange that fails makes all of them anew
			s.engine.(*postgres).pool.Reset()
		}
		err = s.engine.exchange(t.Context(), refs{paces: []string{"p"}}, func(r *rows) error {
			r.paces["p"].change = changed
			return nil
		})
		if errors.Is(err, ErrAway) != (readOnly == "on") || readOnly == "off" && err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileThatIsFullIsAway(t *testing.T) {
	s := openAt(t, engines["sqlite"](t))
	for _, pages := range []int{10, 1_000_000} { // there are more than 10 already
		if _, err := s.engine.(*lite).db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
		err := s.AppendCalls(t.Context(), someCalls(2000, time.Now()))
		if errors.Is(err, ErrAway) != (pages == 10) || pages > 10 && err != nil {
			t.Fatal(err)
		}
	}
}

func TestNamesAreTexts(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		for _, name := range []string{"a\x00", "\xff"} {
			for _, names := range []refs{{paces: []string{name}}, {purses: []string{name}}, {holds: []string{name}}, {calls: []callRef{{id: name}}}, {runs: []RunID{{"s", name}}}, {runs: []RunID{{name, "k"}}}} {
				err := s.engine.exchange(t.Context(), names, func(*rows) error { return nil })
				if err == nil || errors.Is(err, ErrAway) {
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
			exchange(t, s, refs{paces: []string{"p"}}, func(r *rows) { r.paces["p"].change = changed })
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			goleak.VerifyNone(t, running)
		})
	}
}

func TestErrorsThatMeanAway(t *testing.T) {
	for code, want := range map[string]bool{
		"57P01": true, "57P02": true, "57P03": true, "53100": true, "53300": true, "25006": true, "40001": true, "57014": true,
		"23505": false, "23514": false, "42601": false, "22021": false,
	} {
		err := pgError(fmt.Errorf("a batch: %w", &pgconn.PgError{Code: code}))
		if errors.Is(err, ErrAway) != want {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := pgError(context.Canceled); errors.Is(err, ErrAway) {
		t.Error("a caller that goes away is not a server that is away")
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

// BenchmarkSettle settles 50 calls of one hold in each exchange.
func BenchmarkSettle(b *testing.B) {
	for _, name := range []string{"memory", "sqlite", "postgres"} {
		b.Run(name, func(b *testing.B) {
			s := openAt(b, engines[name](b))
			exchange(b, s, refs{}, func(r *rows) {
				r.purses["a"] = &purseRow{change: created, account: "a", state: ledger.StateOpen}
				r.holds["h"] = &holdRow{change: created, purse: "a", left: toolyard.USD * 1e9, expires: r.now.Add(time.Hour)}
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
	names, at := refs{holds: []string{"h"}}, time.Now().UTC().Truncate(time.Microsecond)
	for i := range 50 {
		names.calls = append(names.calls, callRef{fmt.Sprintf("%d-%d", n, i), at})
	}
	exchange(b, s, names, func(r *rows) {
		h := r.holds["h"]
		h.change = changed
		for i, call := range names.calls {
			id := call.id
			if r.charged[id] {
				b.Fatal("charged twice")
			}
			h.left, h.spent = h.left-5, h.spent+5
			r.transfers = append(r.transfers, transfer{id, "hold/h", "sales/x", 5, "charge", "a", r.now})
			c := someCalls(1, at)[0]
			c.ID, c.Elapsed = id, time.Duration(i)
			r.calls = append(r.calls, c)
		}
	})
}
