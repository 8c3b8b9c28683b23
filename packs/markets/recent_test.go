package markets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// answering answers after a while, and counts.
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

func TestOneLeavesAndOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, asked := newRecent(time.Now), 0
		ask := answering(time.Second, 1, &asked)
		first, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := r.get(first, "a", ask)
			left <- err
		}()
		synctest.Wait()
		stayed := make(chan error)
		go func() {
			_, err := r.get(t.Context(), "a", ask)
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

func TestAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, asked := newRecent(time.Now), 0
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.get(ctx, "a", answering(time.Hour, 1, &asked)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		synctest.Wait() // the question has ended by itself
		if _, err := r.get(t.Context(), "a", answering(time.Second, 1, &asked)); err != nil || asked != 2 || time.Since(start) != 2*time.Second {
			t.Error(err, asked, time.Since(start))
		}
	})
}

func TestFailuresAreNotKept(t *testing.T) {
	r, asked := newRecent(time.Now), 0
	for range 3 {
		_, err := r.get(t.Context(), "a", func(context.Context) (json.RawMessage, error) {
			asked++
			return nil, errors.New("no")
		})
		if err == nil {
			t.Error("no error")
		}
	}
	if asked != 3 || len(r.kept) != 0 || len(r.flights) != 0 {
		t.Error(asked, len(r.kept), len(r.flights))
	}
}

func TestLittleIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ count, size, kept int }{{recentMax + 10, 10, recentMax}, {70, 1 << 20, 64}} {
			r, asked := newRecent(time.Now), 0
			for i := range test.count {
				if _, err := r.get(t.Context(), fmt.Sprint(i), answering(0, test.size, &asked)); err != nil {
					t.Fatal(err)
				}
			}
			if len(r.kept) != test.kept || r.order.Len() != test.kept || r.bytes != test.kept*test.size {
				t.Errorf("%d answers with %d bytes are kept", len(r.kept), r.bytes)
			}
			newest := fmt.Sprint(test.count - 1)
			if _, err := r.get(t.Context(), newest, answering(0, test.size, &asked)); err != nil || asked != test.count {
				t.Error("the newest was dropped", err)
			}
			time.Sleep(recentFor)
			if _, err := r.get(t.Context(), newest, answering(0, 1, &asked)); err != nil || len(r.kept) != 1 || r.bytes != 1 {
				t.Error("what is old is still kept", err, len(r.kept), r.bytes)
			}
		}
	})
}
