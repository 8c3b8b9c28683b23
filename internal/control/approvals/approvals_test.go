package approvals

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/store"
)

// fakeStore fails all requests after a given number.
type fakeStore struct {
	Store
	left atomic.Int64
}

var errAway = errors.New("connection refused")

func (s *fakeStore) away() bool { return s.left.Add(-1) < 0 }

func (s *fakeStore) RequestApproval(context.Context, *store.ApprovalRequest) (*store.Approval, bool, error) {
	if s.away() {
		return nil, false, errAway
	}
	return &store.Approval{ID: "apr_1", State: ledger.ApprovalPending}, false, nil
}

func (s *fakeStore) Approval(context.Context, string) (*store.Approval, error) {
	if s.away() {
		return nil, errAway
	}
	return &store.Approval{ID: "apr_1", State: ledger.ApprovalPending}, nil
}

// While the store is unavailable, no call is approved: neither calls that request approval nor
// calls that are already waiting.
func TestAttack22CallsAreRefusedWhileTheStoreIsAway(t *testing.T) {
	tool := toolyard.Define(toolyard.Spec{Name: "refund"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
	for requests := range int64(3) {
		fake := &fakeStore{}
		fake.left.Store(requests)
		s := New(fake, Options{Hold: func() time.Duration { return time.Minute }, Log: slog.New(slog.DiscardHandler)})
		if requests == 2 { // the call is waiting, and a notification makes it read again
			stop := notifyUntilDone(s)
			defer stop()
		}
		id, err := s.Await(t.Context(), &toolyard.Call{ID: "c", Tool: tool, Caller: toolyard.Caller{ID: "ann"}}, &callpath.Approval{})
		if e := toolyard.AsError(err); err == nil || id != "" || e.Code != toolyard.Unavailable || !e.Retryable() {
			t.Errorf("after %d requests: %q, %v", requests, id, err)
		}
	}
}

// notifyUntilDone repeatedly wakes the waiting calls.
func notifyUntilDone(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			s.notify("apr_1", "acme", "approved")
			time.Sleep(time.Millisecond)
		}
	}()
	return func() { cancel(); <-ended }
}
