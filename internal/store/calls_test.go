package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
)

// recordStart is when the calls in tests start: shortly before midnight UTC.
var recordStart = time.Date(2026, 11, 14, 23, 0, 0, 0, time.UTC)

// aCall returns the i-th call in a test.
func aCall(i int) *CallRow {
	c := &CallRow{
		ID: fmt.Sprintf("c%06d", i), At: recordStart.Add(time.Duration(i) * time.Second), Elapsed: time.Duration(i*7919%1000+1) * time.Microsecond,
		Gate: pick(i, "sdk", "chat"), Mode: toolyard.Read, Caller: pick(i, "alice", "bob", "carol"), Account: pick(i, "acme", "umbrella"),
		Session: pick(i, "", "ses_1", "ses_2"), Server: pick(i, "", "github"), Tool: pick(i, "quote", "search", "trade"), Generation: uint64(i),
		Code: pick(i, toolyard.OK, toolyard.OK, toolyard.Timeout), Price: toolyard.Money(i%4) * toolyard.USD / 1000, ArgsSize: i, ResultSize: 2 * i,
	}
	if i%5 == 0 {
		c.Args = []byte(`{"symbol":"string"}`)
		c.Marks = []Mark{{Step: "cap"}, {Step: "run", At: 21 * time.Microsecond}, {Step: "ran", At: time.Duration(i) * time.Millisecond}}
	}
	if i%4 == 1 {
		c.AsOf = c.At.Add(-time.Duration(i) * time.Hour)
	}
	if i%7 == 6 {
		c.Parent = fmt.Sprintf("c%06d", i/7)
	}
	if c.Code != toolyard.OK {
		c.Message = "late \"by\" 漢字"
	}
	return c
}

func pick[T any](i int, from ...T) T { return from[i%len(from)] }

func manyCalls(n int) []*CallRow {
	list := make([]*CallRow, n)
	for i := range list {
		list[i] = aCall(i)
	}
	return list
}

func appendAll(t testing.TB, s *Store, calls []*CallRow) {
	t.Helper()
	for chunk := range slices.Chunk(calls, 1000) {
		if err := s.AppendCalls(context.Background(), chunk); err != nil {
			t.Fatal(err)
		}
	}
}

// newest sorts calls in the order of the call record.
func newest(calls []*CallRow) []*CallRow {
	return slices.SortedFunc(slices.Values(calls), func(a, b *CallRow) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID))
	})
}

func TestCalls(t *testing.T) {
	at := func(i int) time.Time { return aCall(i).At }
	onEngines(t, func(t *testing.T, s *Store) {
		all := manyCalls(60)
		appendAll(t, s, all)
		for name, c := range map[string]struct {
			query CallQuery
			want  func(*CallRow) bool
		}{
			"all":       {CallQuery{}, func(*CallRow) bool { return true }},
			"account":   {CallQuery{Account: "acme"}, func(c *CallRow) bool { return c.Account == "acme" }},
			"caller":    {CallQuery{Caller: "bob"}, func(c *CallRow) bool { return c.Caller == "bob" }},
			"session":   {CallQuery{Session: "ses_1"}, func(c *CallRow) bool { return c.Session == "ses_1" }},
			"server":    {CallQuery{Server: "github"}, func(c *CallRow) bool { return c.Server == "github" }},
			"tool":      {CallQuery{Tool: "trade"}, func(c *CallRow) bool { return c.Tool == "trade" }},
			"gate":      {CallQuery{Gate: "chat"}, func(c *CallRow) bool { return c.Gate == "chat" }},
			"code":      {CallQuery{Code: "TIMEOUT"}, func(c *CallRow) bool { return c.Code == toolyard.Timeout }},
			"good":      {CallQuery{Code: "OK"}, func(c *CallRow) bool { return c.Code == toolyard.OK }},
			"failed":    {CallQuery{Failed: true}, func(c *CallRow) bool { return c.Code != toolyard.OK }},
			"neither":   {CallQuery{Failed: true, Code: "OK"}, func(*CallRow) bool { return false }},
			"id":        {CallQuery{ID: "c000017"}, func(c *CallRow) bool { return c.Generation == 17 }},
			"parent":    {CallQuery{Parent: "c000003"}, func(c *CallRow) bool { return c.Generation == 27 }},
			"between":   {CallQuery{Since: at(30).Add(1), Until: at(40).Add(1)}, func(c *CallRow) bool { return c.Generation > 30 && c.Generation <= 40 }},
			"since":     {CallQuery{Since: at(30)}, func(c *CallRow) bool { return c.Generation >= 30 }},
			"elsewhere": {CallQuery{Since: at(30).In(time.FixedZone("", 7200))}, func(c *CallRow) bool { return c.Generation >= 30 }},
			"until":     {CallQuery{Until: at(30)}, func(c *CallRow) bool { return c.Generation < 30 }},
			"before":    {CallQuery{Before: Cursor{at(30), "c000030"}}, func(c *CallRow) bool { return c.Generation < 30 }},
			"limit":     {CallQuery{Limit: 7}, func(c *CallRow) bool { return c.Generation >= 53 }},
			"no limit":  {CallQuery{Limit: 1 << 30}, func(*CallRow) bool { return true }},
			"none":      {CallQuery{Tool: "' OR ''='"}, func(*CallRow) bool { return false }},
			"everything": {
				CallQuery{Account: "acme", Caller: "alice", Tool: "quote", Gate: "sdk", Code: "OK", Since: at(3), Until: at(50), Before: Cursor{at(40), "x"}, Limit: 3},
				func(c *CallRow) bool { return slices.Contains([]uint64{36, 30, 24}, c.Generation) },
			},
		} {
			got, err := s.Calls(t.Context(), c.query)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var want []*CallRow
			for _, call := range newest(all) {
				if c.want(call) {
					want = append(want, call)
				}
			}
			if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

func TestOneCall(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		all := manyCalls(40)
		appendAll(t, s, all)
		got, err := s.Call(t.Context(), "c000020")
		if diff := gocmp.Diff(all[20], got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		for _, id := range []string{"", "c", "c000040"} {
			_, err := s.Call(t.Context(), id)
			wantCode(t, err, toolyard.NotFound)
		}
	})
}

// Paging returns every call once, in order, even if many calls started at the same time.
func TestCallsInPages(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		all := manyCalls(100)
		for i, c := range all {
			c.ID, c.At = fmt.Sprintf("%c%d", "aB_c-D"[i%6], i*7919%1000), recordStart.Add(time.Duration(i*31%7)*time.Microsecond)
		}
		appendAll(t, s, all)
		all = newest(all)
		rapid.Check(t, func(t *rapid.T) {
			q := CallQuery{Tool: rapid.SampledFrom([]string{"", "quote"}).Draw(t, "tool"), Limit: rapid.IntRange(7, 120).Draw(t, "limit")}
			var want, got []*CallRow
			for _, c := range all {
				if q.Tool == "" || q.Tool == c.Tool {
					want = append(want, c)
				}
			}
			for {
				page, err := s.Calls(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, page...); len(page) < q.Limit {
					break
				}
				last := page[len(page)-1]
				q.Before = Cursor{last.At, last.ID}
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	})
}

func TestCosts(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		all := manyCalls(600)
		for i, c := range all {
			c.At = recordStart.Add(time.Duration(i) * 12 * time.Second) // crosses midnight
		}
		appendAll(t, s, all)
		since, until := recordStart.Add(10*time.Minute), recordStart.Add(100*time.Minute)
		for _, by := range [][]string{nil, {"account"}, {"tool"}, {"day"}, {"account", "tool"}, {"day", "account"}, {"tool", "day"}, {"account", "tool", "day"}, {"week"}, {"month", "account"}, {"tool", "week"}} {
			for _, account := range []string{"", "acme"} {
				got, err := s.Costs(t.Context(), CostQuery{Account: account, Since: since, Until: until, By: by})
				if err != nil {
					t.Fatal(err)
				}
				want := costs(all, account, since, until, by)
				if diff := gocmp.Diff(want, got); diff != "" {
					t.Errorf("by %v of %q: %s", by, account, diff)
				}
			}
		}
		for most, of := range map[Most]func(CostRow) int64{Spent: func(r CostRow) int64 { return int64(r.USD) }, Called: func(r CostRow) int64 { return r.Calls }} {
			got, err := s.Costs(t.Context(), CostQuery{By: []string{"account", "tool"}, Top: 3, Most: most})
			if err != nil || len(got) != 3 || of(got[0]) < of(got[1]) || of(got[1]) < of(got[2]) {
				t.Errorf("the most %s: %v %v", most, got, err)
			}
		}
		for _, by := range [][]string{{"gate"}, {"day", "week"}} {
			if _, err := s.Costs(t.Context(), CostQuery{By: by}); toolyard.AsError(err).Code != toolyard.Invalid {
				t.Errorf("by %v: %v", by, err)
			}
		}
	})
}

// The result for a span of several months does not depend on how the totals are split.
func TestCostsByWeekAndMonthCoverLongSpans(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		all := manyCalls(300)
		for i, c := range all {
			c.At = recordStart.Add(-time.Duration(i) * 7 * time.Hour)
		}
		appendAll(t, s, all)
		until := recordStart.Add(-5 * time.Hour)
		for _, since := range []time.Time{until.AddDate(0, 0, -80), until.AddDate(0, 0, -20).Add(-90 * time.Minute)} {
			for _, by := range [][]string{{"day"}, {"week"}, {"month"}, {"account", "week"}, {"tool", "month"}} {
				got, err := s.Costs(t.Context(), CostQuery{Since: since, Until: until, By: by})
				if err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(costs(all, "", since, until, by), got); diff != "" {
					t.Errorf("by %v since %s: %s", by, since, diff)
				}
			}
		}
	})
}

// costs computes the expected result of Costs.
func costs(all []*CallRow, account string, since, until time.Time, by []string) (list []CostRow) {
	groups := make(map[CostRow]*CostRow)
	for _, c := range all {
		if account != "" && c.Account != account || c.At.Before(since) || !c.At.Before(until) {
			continue
		}
		var key CostRow
		for _, g := range by {
			switch g {
			case "account":
				key.Account = c.Account
			case "tool":
				key.Server, key.Tool = c.Server, c.Tool
			case "day":
				key.Day = c.At.Format(time.DateOnly)
			case "week":
				key.Day = c.At.Truncate(week).Format(time.DateOnly)
			case "month":
				key.Day = c.At.Format("2006-01") + "-01"
			}
		}
		row := groups[key]
		if row == nil {
			row = &CostRow{Account: key.Account, Server: key.Server, Tool: key.Tool, Day: key.Day}
			groups[key] = row
		}
		row.Calls++
		row.USD += c.Price
		if c.Code != toolyard.OK {
			row.Errors++
		}
		if c.Price > 0 {
			row.Charged++
		}
	}
	for _, row := range groups {
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b CostRow) int {
		return cmp.Or(strings.Compare(b.Day, a.Day), strings.Compare(a.Account, b.Account), strings.Compare(a.Server, b.Server), strings.Compare(a.Tool, b.Tool))
	})
	return list
}

// A partial result is not returned as a complete one.
func TestTooManyCosts(t *testing.T) {
	s := openAt(t, "memory")
	calls := manyCalls(MaxGroups + 1)
	for i, c := range calls {
		c.Account = fmt.Sprint("account", i)
	}
	appendAll(t, s, calls[:MaxGroups])
	if got, err := s.Costs(t.Context(), CostQuery{By: []string{"account"}}); err != nil || len(got) != MaxGroups {
		t.Errorf("%d rows, %v", len(got), err)
	}
	appendAll(t, s, calls[MaxGroups:])
	if _, err := s.Costs(t.Context(), CostQuery{By: []string{"account"}}); err == nil || toolyard.AsError(err).Code != toolyard.Invalid {
		t.Errorf("%v", err)
	}
}

func TestLatencies(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		var all []*CallRow
		var want []LatencyRow
		for n := range 101 { // a tool with n+1 calls
			row := LatencyRow{Server: "s", Tool: fmt.Sprintf("tool%03d", n), Calls: int64(n + 1)}
			var times []time.Duration
			for i := range n + 1 {
				c := aCall(i)
				c.ID, c.Server, c.Tool, c.Account = fmt.Sprintf("%d-%d", n, i), "s", row.Tool, "acme"
				if c.Code != toolyard.OK {
					row.Errors++
				}
				times = append(times, c.Elapsed)
				all = append(all, c)
			}
			slices.Sort(times)
			percentile := func(p int) time.Duration { return times[(p*len(times)+99)/100-1] }
			row.P50, row.P95, row.P99 = percentile(50), percentile(95), percentile(99)
			want = append(want, row)
		}
		appendAll(t, s, all)
		got, err := s.Latencies(t.Context(), LatencyQuery{})
		if diff := gocmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		got, err = s.Latencies(t.Context(), LatencyQuery{Account: "acme", Server: "s", Tool: "tool007", Since: recordStart, Until: recordStart.Add(time.Hour)})
		if diff := gocmp.Diff(want[7:8], got); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if got, err = s.Latencies(t.Context(), LatencyQuery{Account: "umbrella"}); len(got) != 0 || err != nil {
			t.Error(err, got)
		}
	})
}

// Only the latest matching calls are considered.
func TestLatenciesOfTheNewest(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes many calls")
	}
	onEngines(t, func(t *testing.T, s *Store) {
		all := manyCalls(MaxTimed + 10)
		for i, c := range all {
			if c.Elapsed = time.Second; i < 10 {
				c.Elapsed = time.Hour
			}
			c.Server, c.Tool, c.Code = "s", "t", toolyard.OK
		}
		appendAll(t, s, all)
		got, err := s.Latencies(t.Context(), LatencyQuery{})
		want := []LatencyRow{{Server: "s", Tool: "t", Calls: MaxTimed, P50: time.Second, P95: time.Second, P99: time.Second}}
		if diff := gocmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

// A query that takes too long is distinguished from an unavailable store.
func TestQuestionTakesTooLong(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if _, err := s.Calls(ctx, CallQuery{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

// BenchmarkRecord queries a call record with 100,000 calls.
func BenchmarkRecord(b *testing.B) {
	ctx := context.Background()
	for name, address := range engines {
		b.Run(name, func(b *testing.B) {
			s := openAt(b, address(b))
			calls := manyCalls(100_000)
			for i, c := range calls {
				c.Account, c.Tool = fmt.Sprint("account", i%100), fmt.Sprint("tool", i%50)
			}
			appendAll(b, s, calls)
			middle := calls[50_000]
			for question, ask := range map[string]func() error{
				"newest": func() error { _, err := s.Calls(ctx, CallQuery{Limit: 100}); return err },
				"page": func() error {
					_, err := s.Calls(ctx, CallQuery{Limit: 100, Before: Cursor{middle.At, middle.ID}})
					return err
				},
				"account": func() error { _, err := s.Calls(ctx, CallQuery{Account: "account7", Limit: 100}); return err },
				"session": func() error { _, err := s.Calls(ctx, CallQuery{Session: "ses_1", Limit: 100}); return err },
				"costs":   func() error { _, err := s.Costs(ctx, CostQuery{By: []string{"tool", "day"}}); return err },
				"mycosts": func() error {
					_, err := s.Costs(ctx, CostQuery{Account: "account7", By: []string{"tool", "day"}})
					return err
				},
				"latencies": func() error { _, err := s.Latencies(ctx, LatencyQuery{}); return err },
				"mylatencies": func() error {
					_, err := s.Latencies(ctx, LatencyQuery{Account: "account7"})
					return err
				},
			} {
				b.Run(question, func(b *testing.B) {
					for b.Loop() {
						if err := ask(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

// Long queries leave enough connections for calls.
func TestQuestionsLeaveConnections(t *testing.T) {
	s := openAt(t, engines["postgres"](t))
	tx, err := s.engine.(*postgres).pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE balances, limits IN ACCESS EXCLUSIVE MODE`); err != nil { // makes listing them slow
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range poolConns {
		wg.Go(func() { _, _ = s.AccountPage(ctx, AccountQuery{}) })
		wg.Go(func() { _, _ = s.Sessions(ctx, SessionQuery{}) })
		wg.Go(func() { _, _ = s.LimitUsage(ctx, []string{"a"}) })
		wg.Go(func() {
			_, _ = collect(ctx, s.database, 1, func(row scanner) (string, error) { var s string; return s, row.Scan(&s) }, `SELECT pg_sleep(60)::text`, nil)
		})
	}
	for s.reports.Stats().InUse < poolConns/2 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	if err := s.AppendCalls(t.Context(), manyCalls(3)); err != nil || time.Since(began) > 30*time.Second {
		t.Errorf("a call waited %v for people: %v", time.Since(began), err)
	}
	cancel()
	_ = tx.Rollback(context.Background())
	wg.Wait()
}
