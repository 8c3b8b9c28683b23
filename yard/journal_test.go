package yard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// journals opens the implementations that all tests in this file run on.
var journals = map[string]func(*testing.T) Journal{
	"memory":   func(*testing.T) Journal { return MemoryJournal() },
	"sqlite":   func(t *testing.T) Journal { return openJournal(t, "sqlite:"+filepath.Join(t.TempDir(), "j.db")) },
	"postgres": func(t *testing.T) Journal { return openJournal(t, pgtest.ForTest(t).Database(t)) },
}

func openJournal(t *testing.T, address string) Journal {
	t.Helper()
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return checkedJournal{backend: newJournal(s), prefix: "pack/", now: time.Now}
}

func forEachJournal(t *testing.T, test func(*testing.T, Journal)) {
	for name, open := range journals {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// A pack cannot read another pack's streams.
func TestJournalStreamsArePrivate(t *testing.T) {
	forEachJournal(t, func(t *testing.T, j Journal) {
		c := j.(checkedJournal)
		a, b := c, c
		a.prefix, b.prefix = "a/", "b/"
		if _, err := a.Append(t.Context(), "s", 0, JournalEntry{Kind: "k"}); err != nil {
			t.Fatal(err)
		}
		if last, err := b.Last(t.Context(), "s"); last != 0 || err != nil {
			t.Error(last, err)
		}
		if last, err := a.Last(t.Context(), "s"); last != 1 || err != nil {
			t.Error(last, err)
		}
	})
}

func TestJournalReportsConflicts(t *testing.T) {
	forEachJournal(t, func(t *testing.T, j Journal) {
		for _, after := range []uint64{1, 1 << 62, 1<<64 - 1} {
			if _, err := j.Append(t.Context(), "s", after, JournalEntry{Kind: "k"}); toolyard.AsError(err).Code != toolyard.VersionConflict {
				t.Errorf("after %d: %v", after, err)
			}
		}
		for range 2 {
			last, _ := j.Append(t.Context(), "s", 0, JournalEntry{Kind: "k"}, JournalEntry{Kind: "k"})
			if last != 2 && last != 0 {
				t.Error(last)
			}
		}
		if last, err := j.Last(t.Context(), "s"); last != 2 || err != nil {
			t.Error(last, err)
		}
	})
}

// Writers race for every sequence number. Each number is assigned once, with no gaps, and every
// writer that loses a race gets a conflict.
func TestJournalAppendersNeverShareASequenceNumber(t *testing.T) {
	forEachJournal(t, func(t *testing.T, j Journal) {
		const writers, each = 8, 12
		appended := make([][]string, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					batch := make([]JournalEntry, 1+(w+i)%3)
					for n := range batch {
						batch[n] = JournalEntry{Kind: "k", Key: fmt.Sprintf("%d/%d/%d", w, i, n)}
						appended[w] = append(appended[w], batch[n].Key)
					}
					for {
						last, err := j.Last(t.Context(), "race")
						if err != nil {
							t.Error(err)
							return
						}
						end, err := j.Append(t.Context(), "race", last, batch...)
						if err == nil {
							if end != last+uint64(len(batch)) {
								t.Errorf("appended %d entries after %d, got %d", len(batch), last, end)
							}
							break
						}
						if toolyard.AsError(err).Code != toolyard.VersionConflict {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		wg.Wait()
		list := readAll(t, j, "race")
		var got []string
		for i, e := range list {
			if e.Seq != uint64(i+1) {
				t.Fatalf("entry %d has sequence number %d", i+1, e.Seq)
			}
			got = append(got, e.Key)
		}
		want := slices.Concat(appended...)
		slices.Sort(got)
		slices.Sort(want)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func readAll(t *testing.T, j Journal, stream string) (all []JournalEntry) {
	t.Helper()
	for {
		page, err := j.List(t.Context(), stream, JournalQuery{After: uint64(len(all)), Limit: 50})
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, page...); len(page) < 50 {
			return all
		}
	}
}

// Every query returns the same entries as a scan of the whole stream.
func TestJournalListMatchesAScan(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	forEachJournal(t, func(t *testing.T, j Journal) {
		streams := 0
		rapid.Check(t, func(t *rapid.T) {
			streams++
			stream := fmt.Sprintf("scan %d", streams)
			kind, key := rapid.SampledFrom([]string{"order", "fill", "halt"}), rapid.SampledFrom([]string{"", "a", "b"})
			entries := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) JournalEntry {
				return JournalEntry{
					Kind: kind.Draw(t, "kind"), Key: key.Draw(t, "key"), At: start,
					AsOf: start.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "as of")) * time.Microsecond),
					Body: json.RawMessage(rapid.SampledFrom([]string{`{"b": 1, "a":2}`, `"é"`, `1.0`}).Draw(t, "body")),
				}
			}), 1, 20).Draw(t, "entries")
			if _, err := j.Append(context.Background(), stream, 0, entries...); err != nil {
				t.Fatal(err)
			}
			for i := range entries {
				entries[i].Seq = uint64(i + 1)
			}
			q := JournalQuery{
				After: rapid.Uint64Range(0, 22).Draw(t, "after"), Before: rapid.Uint64Range(0, 22).Draw(t, "before"),
				Kinds: rapid.SliceOfN(kind, 0, 2).Draw(t, "kinds"), Key: key.Draw(t, "query key"),
				Newest: rapid.Bool().Draw(t, "newest"), Limit: rapid.IntRange(0, 6).Draw(t, "limit"),
			}
			if rapid.Bool().Draw(t, "bounded") {
				q.Until = start.Add(time.Duration(rapid.IntRange(-1, 5).Draw(t, "until")) * time.Microsecond)
			}
			got, err := j.List(context.Background(), stream, q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(scan(entries, q), got); diff != "" {
				t.Fatalf("%+v: %s", q, diff)
			}
		})
	})
}

func scan(entries []JournalEntry, q JournalQuery) (list []JournalEntry) {
	for _, e := range entries {
		if e.Seq > q.After && (q.Before == 0 || e.Seq < q.Before) && q.matches(&e) {
			list = append(list, e)
		}
	}
	if q.Newest {
		slices.Reverse(list)
	}
	return list[:min(len(list), cmp.Or(q.Limit, maxJournalList))]
}

func TestJournalRefusesWhatItCannotStore(t *testing.T) {
	forEachJournal(t, func(t *testing.T, j Journal) {
		for name, e := range map[string]JournalEntry{
			"no kind":       {},
			"long kind":     {Kind: strings.Repeat("k", 65)},
			"long key":      {Kind: "k", Key: strings.Repeat("k", 257)},
			"zero byte":     {Kind: "k", Key: "a\x00"},
			"no JSON":       {Kind: "k", Body: json.RawMessage(`{`)},
			"invalid UTF-8": {Kind: "k", Body: json.RawMessage("\"\xff\"")},
			"long body":     {Kind: "k", Body: json.RawMessage(`"` + strings.Repeat("b", 64<<10) + `"`)},
		} {
			if _, err := j.Append(t.Context(), "s", 0, JournalEntry{Kind: "fine"}, e); toolyard.AsError(err).Code != toolyard.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
		if last, err := j.Last(t.Context(), "s"); last != 0 || err != nil {
			t.Errorf("a refused append wrote %d entries (%v)", last, err)
		}
		largest := JournalEntry{Kind: "k", Body: json.RawMessage(`"` + strings.Repeat("b", 64<<10-2) + `"`)}
		if _, err := j.Append(t.Context(), "s", 0, largest); err != nil {
			t.Error(err)
		}
	})
}

func TestJournalSetsTimes(t *testing.T) {
	forEachJournal(t, func(t *testing.T, j Journal) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600))
		if _, err := j.Append(t.Context(), "times", 0, JournalEntry{Kind: "now"}, JournalEntry{Kind: "at", At: at}, JournalEntry{Kind: "as-of", AsOf: at}); err != nil {
			t.Fatal(err)
		}
		list := readAll(t, j, "times")
		want := time.Date(2026, 1, 2, 2, 4, 5, 6000, time.UTC)
		if e := list[0]; e.At.IsZero() || !e.AsOf.Equal(e.At) {
			t.Errorf("now: %+v", e)
		}
		if e := list[1]; e.At != want || e.AsOf != want {
			t.Errorf("at: %+v", e)
		}
		if e := list[2]; e.At.Before(want) || e.AsOf != want {
			t.Errorf("as-of: %+v", e)
		}
	})
}
