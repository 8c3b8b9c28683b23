package secret

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeDriver returns what fetches returns, and counts fetches.
type fakeDriver struct {
	fetches atomic.Int32
	answer  func(context.Context) (string, error)
}

func (d *fakeDriver) fetch(ctx context.Context, _ string) (string, error) {
	d.fetches.Add(1)
	return d.answer(ctx)
}

func fixed(text string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, err }
}

func TestStoreReadsAValueOncePerTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{answer: func(context.Context) (string, error) {
			time.Sleep(time.Second)
			return "first", nil
		}}
		s := newStore(Store{Command: []string{"fake"}, TTL: time.Minute, Stale: time.Hour}, d)
		var g sync.WaitGroup
		for range 100 {
			g.Go(func() {
				if got, err := s.get("x"); got != "first" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		g.Wait()
		if n := d.fetches.Load(); n != 1 {
			t.Errorf("%d reads for 100 concurrent requests, want 1", n)
		}
		d.answer = fixed("second", nil)
		time.Sleep(time.Minute - 2*time.Second)
		if got, _ := s.get("x"); got != "first" {
			t.Errorf("within the TTL: %q", got)
		}
		time.Sleep(3 * time.Second)
		if got, _ := s.get("x"); got != "second" {
			t.Errorf("after the TTL: %q", got)
		}
	})
}

func TestFailingStoreKeepsTheLastValueForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{answer: fixed("good", nil)}
		s := newStore(Store{Command: []string{"fake"}, TTL: time.Minute, Stale: 10 * time.Minute}, d)
		start := time.Now()
		if _, err := s.get("x"); err != nil {
			t.Fatal(err)
		}
		d.answer = fixed("", errors.New("it is sealed"))
		for time.Since(start) < 20*time.Minute {
			time.Sleep(time.Second)
			got, err := s.get("x")
			if usable := time.Since(start) < 11*time.Minute; usable != (got == "good" && err == nil) {
				t.Fatalf("after %s: %q, %v", time.Since(start), got, err)
			}
			switch failures := s.failures("bao", time.Now()); {
			case time.Since(start) < time.Minute:
			case len(failures) != 1 || failures[0].Err == nil || failures[0].Until.IsZero() != (time.Since(start) >= 11*time.Minute):
				t.Fatalf("after %s: failures %v", time.Since(start), failures)
			}
		}
		if n := d.fetches.Load(); n > 19*60/5+2 {
			t.Errorf("%d reads in 20 minutes: failures are not cached", n)
		}
		d.answer = fixed("again", nil)
		time.Sleep(failureTTL)
		if got, err := s.get("x"); got != "again" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if failures := s.failures("bao", time.Now()); len(failures) != 0 {
			t.Errorf("after recovery: %v", failures)
		}
	})
}

func TestDeletedSecretIsNotUsedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{answer: fixed("good", nil)}
		s := newStore(Store{Command: []string{"fake"}, TTL: time.Minute, Stale: time.Hour}, d)
		if _, err := s.get("x"); err != nil {
			t.Fatal(err)
		}
		d.answer = fixed("", goneError("it was deleted"))
		time.Sleep(time.Minute)
		if got, err := s.get("x"); got != "" || err == nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestStoreThatHangsIsTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDriver{answer: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }}
		s := newStore(Store{Command: []string{"fake"}, TTL: time.Minute}, d)
		start := time.Now()
		if _, err := s.get("x"); err == nil || err.Error() != "the store did not respond within 10s" || time.Since(start) != fetchTimeout {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestStoreBoundsItsCache(t *testing.T) {
	s := newStore(Store{Command: []string{"fake"}, TTL: time.Hour}, &fakeDriver{answer: fixed("value", nil)})
	for i := range 3 * maxCached {
		if _, err := s.get(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.entries); n > maxCached {
		t.Errorf("%d cached values", n)
	}
}

// A field is a string, or another value as JSON. Errors do not contain the object.
func FuzzMember(f *testing.F) {
	for _, object := range []string{`{"x":"canary"}`, `{"x":{"y":["canary"]}}`, `{"x":null}`, `["canary"]`, `{"x":"a","x":"canary"}`, `{"x":"\ud800canary"}`, `{`} {
		f.Add([]byte(object))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		text, err := member(object, "x")
		if err != nil && (text != "" || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%q, %v", text, err)
		}
	})
}
