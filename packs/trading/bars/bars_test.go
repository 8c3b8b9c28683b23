package bars

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// makeBar returns a bar whose prices depend on its start.
func makeBar(interval market.Interval, start time.Time) market.Bar {
	p := decimal.NewFromInt(1000 + start.Unix()/60%1000)
	one := decimal.NewFromInt(1)
	return market.Bar{
		Start: start.UTC(), End: start.UTC().Add(interval.Duration()), Open: p, High: p.Add(one), Low: p.Sub(one), Close: p.Add(decimal.RequireFromString("0.5")),
		Volume: decimal.RequireFromString("12.25"), Trades: int(start.Unix() / 60 % 50),
	}
}

// venue provides bars until now, except for gaps. It includes the bar that has not ended yet, as
// some venues do.
type venue struct {
	now      time.Time
	gaps     map[time.Time]bool
	requests int
	err      error
}

func (v *venue) Between(_ context.Context, _ string, interval market.Interval, from, to time.Time) ([]market.Bar, error) {
	v.requests++
	if v.err != nil {
		return nil, v.err
	}
	var out []market.Bar
	for t := from.UTC().Truncate(interval.Duration()); t.Before(to) && t.Before(v.now); t = t.Add(interval.Duration()) {
		if b := makeBar(interval, t); !v.gaps[t] && !t.Before(from) && b.ClosedAt(v.now) {
			out = append(out, b)
		}
	}
	return out, nil
}

func (v *venue) Recent(context.Context, string, market.Interval, int, time.Time) ([]market.Bar, error) {
	return nil, errors.New("not used")
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func equalBars(t testing.TB, got, want []market.Bar) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Comparer(decimal.Decimal.Equal)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBarsAreFetchedOnce(t *testing.T) {
	v := &venue{now: noon.Add(2 * time.Minute), gaps: map[time.Time]bool{noon.Add(-10 * time.Minute): true}}
	dir := t.TempDir()
	s := Open(Options{Dir: dir, Venue: v, Now: func() time.Time { return noon.Add(time.Hour) }})
	for range 3 {
		got, err := s.Recent(t.Context(), "BTC", "5m", 6, v.now)
		if err != nil || len(got) != 5 || !got[0].End.Equal(noon) {
			t.Fatalf("%d bars, %v", len(got), err)
		}
	}
	if v.requests != 1 {
		t.Errorf("%d requests", v.requests)
	}
	offline := Open(Options{Dir: dir, Now: func() time.Time { return noon.Add(time.Hour) }})
	got, err := offline.Recent(t.Context(), "BTC", "5m", 6, v.now)
	if err != nil || len(got) != 5 {
		t.Errorf("stored: %d bars, %v", len(got), err)
	}
}

func TestANewBarIsNotStoredAtOnce(t *testing.T) {
	now := noon.Add(time.Second)
	v := &venue{now: now}
	dir := t.TempDir()
	s := Open(Options{Dir: dir, Venue: v, Now: func() time.Time { return now }})
	if got, err := s.Recent(t.Context(), "BTC", "5m", 3, now); err != nil || len(got) != 3 {
		t.Fatalf("%d bars, %v", len(got), err)
	}
	stored, err := Open(Options{Dir: dir, Now: time.Now}).Recent(t.Context(), "BTC", "5m", 3, now)
	if err != nil || len(stored) != 2 || !stored[0].End.Before(noon) {
		t.Errorf("%d bars are stored, %v", len(stored), err)
	}
}

func TestAMonthBoundaryIsNoGap(t *testing.T) {
	v := &venue{now: noon}
	s := Open(Options{Dir: t.TempDir(), Venue: v, Now: func() time.Time { return noon.Add(time.Hour) }})
	from := time.Date(2026, 2, 28, 22, 0, 0, 0, time.UTC)
	got, err := s.Between(t.Context(), "BTC", "1h", from, from.Add(4*time.Hour))
	if err != nil || len(got) != 4 {
		t.Fatalf("%d bars, %v", len(got), err)
	}
	again, err := s.Between(t.Context(), "BTC", "1h", from, from.Add(4*time.Hour))
	if err != nil || v.requests != 1 {
		t.Errorf("%d requests, %v", v.requests, err)
	}
	equalBars(t, again, got)
}

func TestStoredBarsAreNotOverwrittenByAccident(t *testing.T) {
	s := Open(Options{Dir: t.TempDir(), Now: func() time.Time { return noon.Add(time.Hour) }})
	bar := makeBar("1h", noon)
	changed := bar
	changed.Volume = changed.Volume.Add(decimal.NewFromInt(1))
	put := func(b market.Bar, replace bool) Change {
		t.Helper()
		c, err := s.Put("BTC", "1h", []market.Bar{b}, replace)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, step := range []struct {
		bar     market.Bar
		replace bool
		want    Change
		stored  market.Bar
	}{
		{bar, false, Change{Added: 1}, bar},
		{bar, false, Change{Unchanged: 1}, bar},
		{changed, false, Change{Different: 1}, bar},
		{changed, true, Change{Different: 1}, changed},
	} {
		if got := put(step.bar, step.replace); got != step.want {
			t.Errorf("got %+v, want %+v", got, step.want)
		}
		stored, err := s.Between(t.Context(), "BTC", "1h", noon, noon.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		equalBars(t, stored, []market.Bar{step.stored})
	}
}

func TestFailuresOfTheVenueAreReported(t *testing.T) {
	v := &venue{now: noon, err: toolyard.Errorf(toolyard.Unavailable, "down")}
	s := Open(Options{Dir: t.TempDir(), Venue: v, Now: func() time.Time { return noon.Add(time.Hour) }})
	if _, err := s.Recent(t.Context(), "BTC", "5m", 3, noon); toolyard.AsError(err).Code != toolyard.Unavailable {
		t.Errorf("got %v", err)
	}
	v.err = nil
	if got, err := s.Recent(t.Context(), "BTC", "5m", 3, noon); err != nil || len(got) != 3 {
		t.Errorf("afterwards: %d bars, %v", len(got), err)
	}
}

func TestBarsAreShownEvenIfTheyCannotBeStored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	v := &venue{now: noon}
	s := Open(Options{Dir: filepath.Join(file, "bars"), Venue: v, Now: func() time.Time { return noon.Add(time.Hour) }})
	for range 2 {
		if got, err := s.Recent(t.Context(), "BTC", "5m", 3, noon); err != nil || len(got) != 3 {
			t.Errorf("%d bars, %v", len(got), err)
		}
	}
}

func TestSymbolsAreNoPaths(t *testing.T) {
	s := Open(Options{Dir: t.TempDir(), Now: func() time.Time { return noon.Add(time.Hour) }})
	for _, symbol := range []string{"", "..", "../x", "a/b", "a\\b", ".hidden", "A\x00", strings.Repeat("A", 65)} {
		if _, err := s.Recent(t.Context(), symbol, "5m", 1, noon); err == nil {
			t.Errorf("%q is accepted", symbol)
		}
		if _, err := s.Put(symbol, "5m", nil, false); err == nil {
			t.Errorf("%q is stored", symbol)
		}
	}
}

func TestBrokenFilesAreReportedWithoutTheirPath(t *testing.T) {
	dir := t.TempDir()
	s := Open(Options{Dir: dir, Now: func() time.Time { return noon.Add(time.Hour) }})
	path := s.path(series{"BTC", "1h"}, monthStart(noon))
	for name, content := range map[string]string{"cut": "ts,open,high,low,close\n17723", "other month": header + "1767225600000,1,1,1,1,1,1\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := s.Between(t.Context(), "BTC", "1h", noon, noon.Add(time.Hour))
		if toolyard.AsError(err).Code != toolyard.Unavailable || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCSVFormats(t *testing.T) {
	want := []market.Bar{{
		Start: noon, End: noon.Add(time.Hour), Open: decimal.NewFromInt(1), High: decimal.NewFromInt(3), Low: decimal.NewFromInt(1), Close: decimal.NewFromInt(2),
	}}
	for _, text := range []string{
		"ts,open,high,low,close\n1772366400000,1,3,1,2\n", "Date,Close,Open,High,Low\n2026-03-01T12:00:00Z,2,1,3,1\n",
		"\ufefftimestamp,o,h,l,c,v\n1772366400,1,3,1,2,0\n", "time,open,high,low,close,extra\r\n2026-03-01T13:00:00+01:00,1.0,3.0,1.0,2.0,x\r\n",
	} {
		got, err := ParseCSV(strings.NewReader(text), "1h")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		equalBars(t, got, want)
	}
	for text, reason := range map[string]string{
		"":                   "no header",
		"ts,open,high,low\n": "missing column close",
		"ts,open,high,low,close\n1772366401,1,1,1,1\n":                     "multiple of 1h",
		"ts,open,high,low,close\nnow,1,1,1,1\n":                            "line 2",
		"ts,open,high,low,close\n1772366400,1e9,1,1,1\n":                   "not a number",
		"ts,open,high,low,close\n1772366400,1,1,2,1\n":                     "impossible",
		"ts,open,high,low,close\n1772366400,1,1,1,1\n1772366400,1,1,1,1\n": "not later",
	} {
		if _, err := ParseCSV(strings.NewReader(text), "1h"); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %v, want %s", text, err, reason)
		}
	}
}

// No bar ends after the as-of time, regardless of what is stored and fetched.
func TestNoBarEndsAfterTheAsOfTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		interval := rapid.SampledFrom(market.Intervals).Draw(rt, "interval")
		d := interval.Duration()
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(3*d)).Draw(rt, "now")))
		v := &venue{now: now, gaps: map[time.Time]bool{}}
		for range rapid.IntRange(0, 20).Draw(rt, "gaps") {
			v.gaps[now.Truncate(d).Add(-time.Duration(rapid.IntRange(0, 40).Draw(rt, "gap"))*d)] = true
		}
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		s := Open(Options{Dir: dir, Venue: v, Now: func() time.Time { return now }})
		for range rapid.IntRange(1, 5).Draw(rt, "calls") {
			asOf := now.Add(-time.Duration(rapid.Int64Range(0, int64(40*d)).Draw(rt, "age")))
			n := rapid.IntRange(1, 60).Draw(rt, "n")
			got, err := s.Recent(context.Background(), "BTC", interval, n, asOf)
			if err != nil {
				rt.Fatal(err)
			}
			want := 0
			for i := range n {
				if !v.gaps[interval.LastClosed(asOf).Add(-time.Duration(i)*d)] {
					want++
				}
			}
			if len(got) != want {
				rt.Fatalf("%d bars instead of %d", len(got), want)
			}
			for i, b := range got {
				if b.End.After(asOf) || i > 0 && !b.Start.Before(got[i-1].Start) {
					rt.Fatalf("bar %d from %s to %s, as of %s", i, b.Start, b.End, asOf)
				}
			}
		}
	})
}

func FuzzParseCSV(f *testing.F) {
	f.Add([]byte(header + "1772366400000,1,3,1,2,0,5\n"))
	f.Add([]byte("date,open,high,low,close\n2026-03-01T12:00:00Z,1,1,1,1\n"))
	f.Add([]byte("date,open,high,low,close\n0026-03-01T12:00:00Z,1,1,1,1\n"))
	f.Add([]byte("date,open,high,low,close\n1971-03-01T12:00:00Z,1,1,1,1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ParseCSV(bytes.NewReader(data), "1h")
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "x.csv")
		if err := writeFile(path, list); err != nil {
			t.Fatal(err)
		}
		again, err := readFile(path, "1h")
		if err != nil {
			t.Fatal(err)
		}
		equalBars(t, again, list)
	})
}
