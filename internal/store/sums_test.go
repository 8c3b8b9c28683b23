package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
)

// aRecord is the expected record.
type aRecord map[string]*CallRow // by ID: a call has only one time

// put adds calls like the call record does: an existing call stays unchanged, unless only the new
// one has a price.
func (r aRecord) put(calls []*CallRow) {
	for _, c := range calls {
		if old := r[c.ID]; old == nil || old.Price == 0 && c.Price > 0 {
			r[c.ID] = c
		}
	}
}

func (r aRecord) list() []*CallRow { return slices.Collect(maps.Values(r)) }

// traffic computes the expected result of Traffic.
func traffic(all []*CallRow, since, until time.Time) (list []TrafficRow) {
	minutes := make(map[time.Time]*TrafficRow)
	for _, c := range all {
		at := c.At.Truncate(time.Minute)
		if at.Before(since) || !until.IsZero() && !at.Before(until) {
			continue
		}
		if minutes[at] == nil {
			minutes[at] = &TrafficRow{At: at}
		}
		row := minutes[at]
		row.Calls++
		row.USD += c.Price
		if c.Code != toolyard.OK {
			row.Errors++
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(minutes), time.Time.Compare) {
		list = append(list, *minutes[at])
	}
	return list
}

// someBatch generates calls within a few hours and the following weeks. Many of them have the same
// ID, and calls with the same ID have the same time.
func someBatch(t *rapid.T, base time.Time) []*CallRow {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *CallRow {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		after := time.Duration(n*n) * 3_777_777 * time.Microsecond
		if n > 45 {
			after = time.Duration(n-45) * 35 * time.Hour
		}
		return &CallRow{
			ID: fmt.Sprintf("%d-%d", base.Unix(), n), At: base.Add(after),
			Account: fmt.Sprint(rapid.SampledFrom([]string{"acme", "umbrella", "Ä\x00"}).Draw(t, "account"), base.Unix()), Tool: rapid.SampledFrom([]string{"a", "B"}).Draw(t, "tool"),
			Server: rapid.SampledFrom([]string{"", "s"}).Draw(t, "server"), Code: rapid.SampledFrom([]toolyard.Code{toolyard.OK, toolyard.Timeout}).Draw(t, "code"),
			Price:   rapid.SampledFrom([]toolyard.Money{0, 0, 1, 999_999_999_999}).Draw(t, "price"),
			Elapsed: time.Duration(rapid.IntRange(0, 1e9).Draw(t, "elapsed")),
		}
	}), 1, 30).Draw(t, "batch")
}

// someTime generates a bound: none, a whole hour, day or week, or any time, even between
// microseconds.
func someTime(t *rapid.T, name string, base time.Time) time.Time {
	switch rapid.IntRange(0, 5).Draw(t, name+" kind") {
	case 0:
		return time.Time{}
	case 1:
		return base.Truncate(time.Hour).Add(time.Duration(rapid.IntRange(0, 5).Draw(t, name)) * time.Hour)
	case 2:
		return base.Truncate(day).Add(time.Duration(rapid.IntRange(-1, 2).Draw(t, name)) * day)
	case 3:
		return base.Truncate(day).Add(time.Duration(rapid.IntRange(3, 23).Draw(t, name)) * day)
	case 4:
		return base.Truncate(week).Add(time.Duration(rapid.IntRange(0, 4).Draw(t, name)) * week)
	}
	return base.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(5*time.Hour)).Draw(t, name)))
}

// The totals match the recorded calls, no matter in which order calls are written.
func TestSumsAreThoseOfTheRecord(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		base, runs := recordStart.Add(1234567*time.Microsecond), 0
		rapid.Check(t, func(t *rapid.T) {
			runs++
			base := base.Add(time.Duration(runs) * 5 * week) // used only by this run
			record := aRecord{}
			for range rapid.IntRange(1, 4).Draw(t, "batches") {
				batch := someBatch(t, base)
				if err := s.AppendCalls(context.Background(), batch); err != nil {
					t.Fatal(err)
				}
				record.put(chargedFirst(batch))
				if rapid.Bool().Draw(t, "gather") {
					if err := s.engine.gather(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			}
			since, until := someTime(t, "since", base), someTime(t, "until", base)
			checkCosts(t, s, record.list(), fmt.Sprint("acme", base.Unix()), since, until)
			if since.IsZero() {
				since = base.Add(-day) // other runs come before and after
			}
			got, err := s.Traffic(context.Background(), since, until)
			if diff := gocmp.Diff(traffic(record.list(), since, until), got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Fatal(err, diff)
			}
		})
		sumsAddUp(t, s)
	})
}

// chargedFirst returns the calls in a batch that count. If calls have the same ID, the first
// charged one counts.
func chargedFirst(batch []*CallRow) []*CallRow {
	batch = slices.Clone(batch)
	for i, c := range batch {
		c := *c
		c.Account = clean(c.Account)
		batch[i] = &c
	}
	slices.SortStableFunc(batch, func(a, b *CallRow) int { return int(min(b.Price, 1) - min(a.Price, 1)) })
	return batch
}

// checkCosts compares the costs in the store with the expected costs. If there is no start time,
// only the calls of one account belong to this run.
func checkCosts(t *rapid.T, s *Store, all []*CallRow, acme string, since, until time.Time) {
	end := until
	if end.IsZero() {
		end = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	for _, by := range [][]string{nil, {"tool", "day"}, {"account"}, {"account", "tool"}} {
		account := acme
		if !since.IsZero() && rapid.Bool().Draw(t, "of all") {
			account = ""
		}
		got, err := s.Costs(context.Background(), CostQuery{Account: account, Since: since, Until: until, By: by})
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(costs(all, account, since, end, by), got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("by %v of %q from %s to %s: %s", by, account, since, until, diff)
		}
	}
}

// sumsAddUp runs the part of the audit that concerns totals.
func sumsAddUp(t testing.TB, s *Store) {
	t.Helper()
	audited := 0
	for _, a := range audits {
		if !strings.Contains(a.finding, "the sums") && !strings.Contains(a.finding, "the totals") {
			continue
		}
		audited++
		err := query(t.Context(), s.db, func(row scanner) error {
			var name, is, should string
			err := row.Scan(&name, &is, &should)
			t.Errorf(a.finding, name, is, should)
			return err
		}, a.text)
		if err != nil {
			t.Error(err)
		}
	}
	if audited != 2 {
		t.Error("the totals are not audited")
	}
}

// Replicas that write the same accounts and tools in any order all succeed on the first attempt,
// and nothing is lost or counted twice.
func TestSumsOfManyReplicas(t *testing.T) {
	const replicas, rounds, each = 6, 40, 30
	address := engines["postgres"](t)
	stores := make([]*Store, replicas)
	for i := range stores {
		stores[i] = openAt(t, address)
		stores[i].engine.(*postgres).shard = int64(i % 2) // so that they compete for the same rows
	}
	before := rowCount(t, stores[0], deadlocks)
	start := time.Now().UTC().Truncate(time.Microsecond)
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for round := range rounds {
				calls := make([]*CallRow, each)
				for n := range calls {
					c := aCall(r.IntN(1000))
					c.ID, c.At = fmt.Sprintf("%d-%d", i/2*1000+round, n), start.Add(-time.Duration(n)*time.Minute) // two replicas write the same calls
					c.Account, c.Tool = fmt.Sprint("account", r.IntN(5)), fmt.Sprint("tool", r.IntN(5))
					calls[n] = c
				}
				r.Shuffle(each, func(a, b int) { calls[a], calls[b] = calls[b], calls[a] })
				if err := s.AppendCalls(t.Context(), calls); err != nil {
					t.Error(err)
				}
				if round%8 == i {
					if err := s.engine.gather(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if n := rowCount(t, stores[0], `SELECT count(*) FROM calls`); n != replicas/2*rounds*each {
		t.Errorf("%d calls", n)
	}
	if n := rowCount(t, stores[0], deadlocks) - before; n != 0 {
		t.Errorf("%d deadlocks", n)
	}
	sumsAddUp(t, stores[0])
}

// deadlocks is the number of deadlocks in a database.
const deadlocks = `SELECT deadlocks FROM pg_stat_database, pg_stat_clear_snapshot() WHERE datname = current_database()`

// Deleting calls deletes their totals and nothing else.
func TestMaintainForgetsSums(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now := time.Now().UTC().Truncate(time.Microsecond)
		for age := range 12 {
			calls := someCalls(10, now.Add(-time.Duration(age)*day))
			for i, c := range calls {
				c.Account, c.At = fmt.Sprint("account", i%2), c.At.Add(-time.Duration(i)*time.Hour)
			}
			appendAll(t, s, calls)
		}
		for _, keep := range []time.Duration{0, 10 * day, 60 * time.Hour, time.Minute} {
			if err := s.Maintain(t.Context(), Retention{Calls: keep}); err != nil {
				t.Fatal(err)
			}
			sumsAddUp(t, s)
			left := rowCount(t, s, `SELECT count(*) FROM calls`)
			got, err := s.Costs(t.Context(), CostQuery{})
			if err != nil || len(got) != 1 || got[0].Calls != int64(left) {
				t.Errorf("%v, %d on the record, %v", got, left, err)
			}
			oldest := now.Add(-keepMinutes)
			if keep > 0 && keep < keepMinutes {
				oldest = now.Add(-keep)
			}
			if n := rowCount(t, s, `SELECT count(*) FROM minutes WHERE minute < $1`, oldest.Add(-time.Minute)); n != 0 {
				t.Errorf("%d old minutes are kept", n)
			}
		}
		if n := rowCount(t, s, `SELECT (SELECT count(*) FROM sums) + (SELECT count(*) FROM totals WHERE calls = 0)`); n != 0 {
			t.Errorf("%d sums and totals of nothing are left", n)
		}
	})
}

// The first week is recomputed only if some of its days are deleted.
func TestTheFirstWeek(t *testing.T) {
	s := openAt(t, engines["postgres"](t))
	p, monday := s.engine.(*postgres), time.Now().UTC().Add(-30*day).Truncate(week)
	for i := range 21 {
		calls := someCalls(5, monday.Add(time.Duration(i)*day))
		appendAll(t, s, calls)
	}
	if err := p.gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	const rows = `SELECT coalesce(sum(xmin::text::bigint), 0) FROM totals WHERE grain LIKE '%/week'` // by shard
	before := rowCount(t, s, rows)
	for _, changes := range []bool{true, false, false} {
		if err := p.exclusively(t.Context(), func(tx pgx.Tx, _ time.Time) error { return dropDays(t.Context(), tx, monday.Add(3*day)) }); err != nil {
			t.Fatal(err)
		}
		after := rowCount(t, s, rows)
		if changed := before != after; changed != changes {
			t.Errorf("weeks written again: %v, want %v", changed, changes)
		}
		before = after
		sumsAddUp(t, s)
	}
}
