package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

const testTTL = 2 * time.Second

// answering returns a function that responds after a delay and counts its calls.
func answering(after time.Duration, size int, asked *int) func(context.Context) (json.RawMessage, error) {
	return func(ctx context.Context) (json.RawMessage, error) {
		*asked++
		select {
		case <-time.After(after):
			return make(json.RawMessage, size), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestFetchContinuesWhileARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, asked := NewCache(testTTL, time.Now), 0
		ask := answering(time.Second, 1, &asked)
		first, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := r.Get(first, "a", ask)
			left <- err
		}()
		synctest.Wait()
		stayed := make(chan error)
		go func() {
			_, err := r.Get(t.Context(), "a", ask)
			stayed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-stayed; err != nil || asked != 1 {
			t.Error(err, asked)
		}
	})
}

func TestFetchIsCanceledWithTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, asked := NewCache(testTTL, time.Now), 0
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Get(ctx, "a", answering(time.Hour, 1, &asked)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait() // the request has ended on its own
		if _, err := r.Get(t.Context(), "a", answering(time.Second, 1, &asked)); err != nil || asked != 2 || time.Since(start) != 2*time.Second {
			t.Error(err, asked, time.Since(start))
		}
	})
}

func TestCacheDoesNotKeepFailures(t *testing.T) {
	r, asked := NewCache(testTTL, time.Now), 0
	for range 3 {
		_, err := r.Get(t.Context(), "a", func(context.Context) (json.RawMessage, error) {
			asked++
			return nil, errors.New("no")
		})
		if err == nil {
			t.Error("no error")
		}
	}
	if asked != 3 || len(r.entries) != 0 || len(r.flights) != 0 {
		t.Error(asked, len(r.entries), len(r.flights))
	}
}

func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ count, size, kept int }{{maxEntries + 10, 10, maxEntries}, {70, 1 << 20, 64}} {
			r, asked := NewCache(testTTL, time.Now), 0
			for i := range test.count {
				if _, err := r.Get(t.Context(), fmt.Sprint(i), answering(0, test.size, &asked)); err != nil {
					t.Fatal(err)
				}
			}
			if len(r.entries) != test.kept || r.order.Len() != test.kept || r.bytes != test.kept*test.size {
				t.Errorf("%d responses with %d bytes are cached", len(r.entries), r.bytes)
			}
			newest := fmt.Sprint(test.count - 1)
			if _, err := r.Get(t.Context(), newest, answering(0, test.size, &asked)); err != nil || asked != test.count {
				t.Error("the newest was dropped", err)
			}
			time.Sleep(testTTL)
			if _, err := r.Get(t.Context(), newest, answering(0, 1, &asked)); err != nil || len(r.entries) != 1 || r.bytes != 1 {
				t.Error("an expired entry is still cached", err, len(r.entries), r.bytes)
			}
		}
	})
}

func TestCacheWithoutTTLSharesOnlyConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, asked := NewCache(0, time.Now), 0
		ask := answering(time.Second, 1, &asked)
		errs := make(chan error)
		for range 2 {
			go func() {
				_, err := c.Get(t.Context(), "a", ask)
				errs <- err
			}()
		}
		for range 2 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Get(t.Context(), "a", ask); err != nil || asked != 2 || len(c.entries) != 0 {
			t.Error(err, asked, len(c.entries))
		}
	})
}
