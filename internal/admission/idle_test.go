package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
)

// delayed is a store that takes up to 40 ms to respond.
type delayed struct {
	admission.Store
	random *rand.Rand
}

func (s *delayed) Exchange(ctx context.Context, b *ledger.Batch) (*ledger.Results, error) {
	half := time.Duration(s.random.Int64N(int64(20 * time.Millisecond)))
	time.Sleep(half)
	defer time.Sleep(half)
	return s.Store.Exchange(ctx, b)
}

// A replica that waits for its turn must not hold a slot that another replica could use. Three
// replicas share a limit of one start every 500 ms and two concurrent calls, and each call takes
// 800 ms. When a replica kept an idle slot, only 36 of 60 possible calls started.
func TestIdleSlotsReturnWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := store.Open(ctx, "memory")
		if err != nil {
			t.Fatal(err)
		}
		limits := []admission.LimitRef{{Key: "tool", Name: "the tool", Limit: toolyard.Limit{Cooldown: 500 * time.Millisecond, Concurrency: 2}}}
		var mu sync.Mutex
		starts, end := 0, time.Now().Add(30*time.Second)
		call := func(c *admission.Controller, id string) {
			admitted, err := c.Admit(ctx, &admission.Request{CallID: id, Caller: "ann", Timeout: 5 * time.Second, Wait: time.Minute, Limits: limits})
			if err != nil {
				t.Error(err)
				return
			}
			if time.Now().Before(end) {
				mu.Lock()
				starts++
				mu.Unlock()
			}
			time.Sleep(800 * time.Millisecond)
			if _, err := c.Settle(ctx, admitted, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
				t.Error(err)
			}
		}
		var controllers, callers sync.WaitGroup
		for replica := range 3 {
			c := admission.New(&delayed{s, rand.New(rand.NewPCG(1, uint64(replica)))}, options(fmt.Sprint("replica-", replica)))
			controllers.Go(func() { c.Run(ctx) })
			for caller := range 4 {
				callers.Go(func() {
					time.Sleep(time.Duration(replica) * 100 * time.Millisecond)
					for n := 0; time.Now().Before(end); n++ {
						call(c, fmt.Sprint(replica, "-", caller, "-", n))
					}
				})
			}
		}
		callers.Wait()
		cancel()
		controllers.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if starts < 50 {
			t.Errorf("%d calls started; 60 are possible without any delay of the store, and at least 50 with it", starts)
		}
	})
}
