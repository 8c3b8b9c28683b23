package identity

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
)

// fakeBlocked is a list of blocked callers that can fail.
type fakeBlocked struct {
	callers []string
	err     error
	reads   int
}

func (f *fakeBlocked) BlockedCallers(context.Context) ([]string, error) {
	f.reads++
	return f.callers, f.err
}

func TestBlocklist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeBlocked{callers: []string{"corp:bob"}}
		b := NewBlocklist(store, time.Now)
		check := func(caller string, want toolyard.Code) {
			t.Helper()
			err := b.Check(t.Context(), caller)
			if want == "" && err != nil || want != "" && (err == nil || toolyard.AsError(err).Code != want) {
				t.Errorf("%s: %v, want %q", caller, err, want)
			}
		}
		check("corp:bob", toolyard.PermissionDenied)
		check("corp:ann", "")
		if store.reads != 1 {
			t.Errorf("%d reads", store.reads)
		}

		store.callers = []string{"corp:ann"}
		check("corp:ann", "") // cached
		time.Sleep(blocklistTTL)
		check("corp:ann", toolyard.PermissionDenied) // there was no notification
		check("corp:bob", "")

		store.callers = nil
		b.Refresh()
		check("corp:ann", "") // takes effect immediately
		if store.reads != 3 {
			t.Errorf("%d reads", store.reads)
		}

		store.callers = []string{"corp:ann"}
		b.Refresh()
		check("corp:ann", toolyard.PermissionDenied)
		store.err = errors.New("down")
		time.Sleep(blocklistTTL)
		check("corp:ann", toolyard.PermissionDenied) // the last list is used while the store is down
		check("corp:bob", "")
		time.Sleep(staleTTL)
		check("corp:ann", toolyard.PermissionDenied)
		check("corp:bob", toolyard.Unavailable) // a list that is too old admits no one
		store.err = nil
		time.Sleep(retryPause)
		check("corp:bob", "")
	})
}

// A read that started before a change does not hide the change.
func TestBlocklistReadsAgainAfterAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowBlocked{results: make(chan []string)}
		b := NewBlocklist(store, time.Now)
		result := make(chan error)
		go func() { result <- b.Check(t.Context(), "corp:ann") }()
		synctest.Wait()
		b.Refresh() // ann was blocked after the read began
		store.results <- nil
		store.results <- []string{"corp:ann"}
		if err := <-result; toolyard.AsError(err).Code != toolyard.PermissionDenied {
			t.Error(err)
		}
	})
}

// slowBlocked returns the lists that a test sends.
type slowBlocked struct{ results chan []string }

func (s *slowBlocked) BlockedCallers(context.Context) ([]string, error) { return <-s.results, nil }
