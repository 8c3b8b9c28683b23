package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
)

// stubborn is a store that rejects batches that contain a certain account, and counts the others.
type stubborn struct {
	*store.Store
	account   string
	exchanges atomic.Int64
}

func (s *stubborn) Exchange(ctx context.Context, b *ledger.Batch) (*ledger.Results, error) {
	s.exchanges.Add(1)
	for _, f := range b.Holds {
		if f.Account == s.account {
			return nil, errors.New("that is no account")
		}
	}
	return s.Store.Exchange(ctx, b)
}

// inBubble runs a test with a controller and an in-memory store in fake time.
func inBubble(t *testing.T, test func(t *testing.T, s *stubborn, d *admission.Controller)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inner, err := store.Open(ctx, "memory")
		if err != nil {
			t.Fatal(err)
		}
		s := &stubborn{Store: inner, account: "bad"}
		for _, account := range []string{"acme", "bad"} {
			if err := s.Fund(ctx, account, toolyard.USD, "first"); err != nil {
				t.Fatal(err)
			}
		}
		d := admission.New(s, options("replica"))
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(ctx) })
		test(t, s, d)
		cancel()
		wg.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func paidBy(account, balance string, n int) *admission.Request {
	return &admission.Request{
		CallID: fmt.Sprintf("%s-%d", account, n), Caller: account, Account: account, Balance: balance, Price: toolyard.USD / 1000, Seller: "shop",
		Timeout: time.Second, Wait: 5 * time.Second,
	}
}

var succeeded = toolyard.Outcome{Result: &toolyard.Result{}}

// If the store rejects a request, only its caller is affected.
func TestOneBadAccountDoesNotAffectOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *stubborn, d *admission.Controller) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				account := []string{"acme", "bad"}[i%2]
				ticket, err := d.Admit(t.Context(), paidBy(account, account, i))
				if err == nil {
					_, err = d.Settle(t.Context(), ticket, succeeded)
				}
				if (err == nil) != (account == "acme") {
					t.Errorf("%s: %v", account, err)
				}
			})
		}
		wg.Wait()
	})
}

// A call that waits for a session whose calls are all running does not keep the store busy.
func TestWaitingForACallIsIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, s *stubborn, d *admission.Controller) {
		if _, err := s.OpenSession(t.Context(), ledger.Session{ID: "one", Account: "acme", Limit: toolyard.USD / 2, Calls: 1, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		ticket, err := d.Admit(t.Context(), paidBy("acme", "one", 1))
		if err != nil {
			t.Fatal(err)
		}
		before := s.exchanges.Load()
		if _, err := d.Admit(t.Context(), paidBy("acme", "one", 2)); err == nil || toolyard.AsError(err).Code != toolyard.BudgetExceeded {
			t.Error(err)
		}
		if n := s.exchanges.Load() - before; n > 100 {
			t.Errorf("the store was queried %d times", n)
		}
		if _, err := d.Settle(t.Context(), ticket, succeeded); err != nil {
			t.Error(err)
		}
	})
}

// A closed session is not used for longer than the check interval.
func TestAClosedSessionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *stubborn, d *admission.Controller) {
		if _, err := s.OpenSession(t.Context(), ledger.Session{ID: "shut", Account: "acme", Limit: toolyard.USD / 2, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		var closed time.Time
		for i := range 400 {
			ticket, err := d.Admit(t.Context(), paidBy("acme", "shut", i))
			if err != nil {
				if closed.IsZero() || time.Since(closed) > 2*time.Second {
					t.Errorf("refused %v after it was closed: %v", time.Since(closed), err)
				}
				return
			}
			time.Sleep(10 * time.Millisecond)
			if _, err := d.Settle(t.Context(), ticket, succeeded); err != nil {
				t.Fatal(err)
			}
			if i == 50 {
				if _, err := s.CloseSession(t.Context(), "shut"); err != nil {
					t.Fatal(err)
				}
				closed = time.Now()
			}
		}
		t.Errorf("it is used %v after it was closed", time.Since(closed))
	})
}

// A call that requires input returns everything that was reserved for it. The call with the answer
// needs nothing more from the store.
func TestACallThatAsksGivesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *stubborn, d *admission.Controller) {
		if _, err := s.OpenSession(t.Context(), ledger.Session{ID: "one", Account: "acme", Limit: toolyard.USD / 2, Calls: 1, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		asks := &toolyard.Result{}
		if err := json.Unmarshal([]byte(`{"resultType":"input_required","inputRequests":{}}`), asks); err != nil {
			t.Fatal(err)
		}
		before := int64(0)
		for i := range 3 {
			ticket, err := d.Admit(t.Context(), paidBy("acme", "one", i))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Settle(t.Context(), ticket, toolyard.Outcome{Result: asks}); err != nil {
				t.Error(err)
			}
			if n := s.exchanges.Load(); i > 0 && n != before {
				t.Errorf("the store was queried %d times", n-before)
			} else {
				before = n
			}
		}
	})
}
