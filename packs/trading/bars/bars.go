// Package bars stores closed price bars in CSV files. A closed bar never changes, so the store also
// serves as a cache for a venue, and keeps history that venues no longer provide.
package bars

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// Limits on the store.
const (
	maxFile   = 16 << 20 // bytes per file
	maxCached = 256      // months kept in memory
	maxSpan   = 500_000  // bars per request

	settleAfter = time.Minute // time after its end when a bar no longer changes
)

// Store is a folder of bars, with one file for each symbol, interval and month. It is safe for
// concurrent use, even by several processes, because files are replaced as a whole.
type Store struct {
	dir   string
	venue market.Bars // provides missing bars; may be nil
	now   func() time.Time
	log   *slog.Logger

	failing atomic.Bool // whether the venue's bars could not be stored

	mu      sync.Mutex
	months  map[string]*month // keyed by path
	fetched map[series]span
}

var _ market.Bars = (*Store)(nil)

// series identifies the bars of a symbol and an interval.
type series struct {
	symbol   string
	interval market.Interval
}

// span is a period that includes from and excludes to.
type span struct{ from, to time.Time }

// month is a loaded file.
type month struct {
	bars     []market.Bar // oldest first
	size     int64        // size of the file
	modified time.Time
}

// Options configure a store.
type Options struct {
	Dir   string           // created when the first bar is stored
	Venue market.Bars      // provides missing bars; may be nil
	Now   func() time.Time // required if there is a venue
	Log   *slog.Logger     // discards everything if nil
}

// Open returns the store in a folder.
func Open(o Options) *Store {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{dir: o.Dir, venue: o.Venue, now: o.Now, log: o.Log, months: map[string]*month{}, fetched: map[series]span{}}
}

// Recent implements [market.Bars]: the closed bars of the last n intervals, newest first.
func (s *Store) Recent(ctx context.Context, symbol string, interval market.Interval, n int, asOf time.Time) ([]market.Bar, error) {
	if !interval.Valid() || n < 1 {
		return nil, toolyard.Errorf(toolyard.Invalid, "Invalid request for %d bars with interval %q.", n, interval)
	}
	last := interval.LastClosed(asOf)
	out, err := s.Between(ctx, symbol, interval, last.Add(-time.Duration(n-1)*interval.Duration()), last.Add(interval.Duration()))
	slices.Reverse(out)
	return out, err
}

// Between implements [market.Bars].
func (s *Store) Between(ctx context.Context, symbol string, interval market.Interval, from, to time.Time) ([]market.Bar, error) {
	key := series{symbol, interval}
	if err := key.check(); err != nil {
		return nil, err
	}
	want := key.align(span{from, to})
	if want.to.Sub(want.from)/interval.Duration() > maxSpan {
		return nil, toolyard.Errorf(toolyard.Invalid, "A request can cover at most %d bars.", maxSpan)
	}
	out, missing, err := s.stored(key, want)
	if err != nil || missing.from.IsZero() {
		return out, err
	}
	fresh, err := s.venue.Between(ctx, symbol, interval, missing.from, missing.to)
	if err != nil {
		if len(out) > 0 && toolyard.AsError(err).Code == toolyard.NoData {
			return out, nil
		}
		return nil, err
	}
	s.keep(key, fresh, missing)
	out, _ = mergeBars(out, fresh, false)
	return out, nil
}

// stored returns the bars in the files and the period to request from the venue, if any.
func (s *Store) stored(k series, want span) ([]market.Bar, span, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, err := s.load(k, want)
	if err != nil || s.venue == nil {
		return out, span{}, err
	}
	missing, ok := k.missing(out, want)
	if done := s.fetched[k]; !ok || !missing.from.Before(done.from) && !missing.to.After(done.to) {
		return out, span{}, nil
	}
	return out, missing, nil
}

// keep stores bars from the venue. It omits bars that ended very recently: the venue's clock may be
// behind, so they may still change. If it fails, the bars are requested again later.
func (s *Store) keep(k series, fresh []market.Bar, asked span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	final := s.now().Add(-settleAfter)
	if asked.to.After(final) {
		asked.to = final.UTC().Truncate(k.interval.Duration())
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(b market.Bar) bool { return !b.ClosedAt(final) })
	}
	if _, err := s.merge(k, fresh, false); err != nil {
		if !s.failing.Swap(true) {
			s.log.Warn("could not store price bars", "folder", s.dir, "error", errors.Unwrap(err))
		}
		return
	}
	s.failing.Store(false)
	if asked.from.Before(asked.to) {
		s.fetched[k] = s.fetched[k].join(asked)
	}
}

var symbolRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_:@-]{0,63}$`)

// check refuses symbols that are not valid file names.
func (k series) check() error {
	if !k.interval.Valid() {
		return toolyard.Errorf(toolyard.Invalid, "No bars found for %q.", k.interval)
	}
	if !symbolRE.MatchString(k.symbol) {
		return toolyard.Errorf(toolyard.NoData, "Unknown symbol %.80q.", k.symbol)
	}
	return nil
}

// align shrinks a period to whole intervals.
func (k series) align(p span) span {
	d := k.interval.Duration()
	out := span{p.from.UTC().Truncate(d), p.to.UTC().Truncate(d)}
	if out.from.Before(p.from) {
		out.from = out.from.Add(d)
	}
	return out
}

// missing returns the period that spans all bars missing from the list.
func (k series) missing(list []market.Bar, want span) (span, bool) {
	d := k.interval.Duration()
	var out span
	i := 0
	for t := want.from; t.Before(want.to); t = t.Add(d) {
		if i < len(list) && list[i].Start.Equal(t) {
			i++
			continue
		}
		if out.from.IsZero() {
			out.from = t
		}
		out.to = t.Add(d)
	}
	return out, !out.from.IsZero()
}

// join returns the union of two periods, or the second period if they do not touch.
func (p span) join(q span) span {
	if p.to.Before(q.from) || q.to.Before(p.from) {
		return q
	}
	if p.from.Before(q.from) {
		q.from = p.from
	}
	if p.to.After(q.to) {
		q.to = p.to
	}
	return q
}

// monthsOf returns the first day of each month in a period.
func (p span) monthsOf() []time.Time {
	var out []time.Time
	for m := monthStart(p.from); m.Before(p.to); m = m.AddDate(0, 1, 0) {
		out = append(out, m)
	}
	return out
}

func monthStart(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func (s *Store) path(k series, m time.Time) string {
	return filepath.Join(s.dir, k.symbol, string(k.interval), m.Format("2006-01")+".csv")
}

// load returns the stored bars in a period, oldest first.
func (s *Store) load(k series, p span) ([]market.Bar, error) {
	var out []market.Bar
	for _, m := range p.monthsOf() {
		list, err := s.readMonth(k, m)
		if err != nil {
			return nil, err
		}
		first, _ := slices.BinarySearchFunc(list, p.from, byStart)
		last, _ := slices.BinarySearchFunc(list, p.to, byStart)
		out = append(out, list[first:max(first, last)]...)
	}
	return out, nil
}

func byStart(b market.Bar, t time.Time) int { return b.Start.Compare(t) }

// readMonth returns a file's bars. It rereads the file only if the file has changed.
func (s *Store) readMonth(k series, m time.Time) ([]market.Bar, error) {
	path := s.path(k, m)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		delete(s.months, path)
		return nil, nil
	}
	if err != nil {
		return nil, storeError(err)
	}
	if c := s.months[path]; c != nil && c.size == info.Size() && c.modified.Equal(info.ModTime()) {
		return c.bars, nil
	}
	list, err := readFile(path, k.interval)
	if err != nil {
		return nil, storeError(err)
	}
	if n := len(list); n > 0 && (list[0].Start.Before(m) || !list[n-1].Start.Before(m.AddDate(0, 1, 0))) {
		return nil, storeError(fmt.Errorf("%s contains bars from another month", path))
	}
	if len(s.months) >= maxCached {
		clear(s.months)
	}
	s.months[path] = &month{list, info.Size(), info.ModTime()}
	return list, nil
}

// storeError returns the error for files that cannot be used. Only the operator sees the details.
func storeError(err error) error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "The stored bars cannot be read or written.", Err: err}
}

// Change is the result of storing bars.
type Change struct {
	Added     int
	Unchanged int
	Different int // already stored with different values; replaced only if requested
}

// Put stores closed bars in ascending order. Bars that are already stored are replaced only if
// replace is set.
func (s *Store) Put(symbol string, interval market.Interval, list []market.Bar, replace bool) (Change, error) {
	k := series{symbol, interval}
	if err := k.check(); err != nil {
		return Change{}, err
	}
	if err := checkBars(list, interval); err != nil {
		return Change{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.merge(k, list, replace)
}

// merge adds bars to the files.
func (s *Store) merge(k series, list []market.Bar, replace bool) (Change, error) {
	var total Change
	for len(list) > 0 {
		m := monthStart(list[0].Start)
		end, _ := slices.BinarySearchFunc(list, m.AddDate(0, 1, 0), byStart)
		stored, err := s.readMonth(k, m)
		if err != nil {
			return total, err
		}
		merged, change := mergeBars(stored, list[:end], replace)
		if change.Added > 0 || replace && change.Different > 0 {
			if err := writeFile(s.path(k, m), merged); err != nil {
				return total, storeError(err)
			}
			delete(s.months, s.path(k, m))
		}
		total.Added, total.Unchanged, total.Different = total.Added+change.Added, total.Unchanged+change.Unchanged, total.Different+change.Different
		list = list[end:]
	}
	return total, nil
}

// mergeBars merges two ascending lists.
func mergeBars(stored, added []market.Bar, replace bool) ([]market.Bar, Change) {
	var change Change
	out := make([]market.Bar, 0, len(stored)+len(added))
	for len(stored) > 0 && len(added) > 0 {
		a, b := stored[0], added[0]
		switch order := a.Start.Compare(b.Start); {
		case order < 0:
			out, stored = append(out, a), stored[1:]
			continue
		case order > 0:
			out, added = append(out, b), added[1:]
			change.Added++
			continue
		}
		if same(a, b) {
			change.Unchanged++
		} else {
			change.Different++
			if replace {
				a = b
			}
		}
		out, stored, added = append(out, a), stored[1:], added[1:]
	}
	change.Added += len(added)
	return append(append(out, stored...), added...), change
}

func same(a, b market.Bar) bool {
	return a.Open.Equal(b.Open) && a.High.Equal(b.High) && a.Low.Equal(b.Low) && a.Close.Equal(b.Close) && a.Volume.Equal(b.Volume) && a.Trades == b.Trades
}

// checkBars checks that bars are aligned, ascending and plausible.
func checkBars(list []market.Bar, interval market.Interval) error {
	d := interval.Duration()
	for i, b := range list {
		switch {
		case !b.Start.Truncate(d).Equal(b.Start) || !b.End.Equal(b.Start.Add(d)):
			return fmt.Errorf("bar %d starts at %s, which is not a multiple of %s", i+1, b.Start.Format(time.RFC3339), interval)
		case i > 0 && !b.Start.After(list[i-1].Start):
			return fmt.Errorf("bar %d at %s is not later than the previous bar", i+1, b.Start.Format(time.RFC3339))
		case !b.Low.IsPositive() || b.Volume.IsNegative() || b.Trades < 0 || b.Low.GreaterThan(b.Open) || b.Low.GreaterThan(b.Close) ||
			b.High.LessThan(b.Open) || b.High.LessThan(b.Close):
			return fmt.Errorf("bar %d at %s has impossible values", i+1, b.Start.Format(time.RFC3339))
		}
	}
	return nil
}
