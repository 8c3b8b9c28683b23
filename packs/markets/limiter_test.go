package markets

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(10, 10*time.Second, time.Now)
		start := time.Now()
		for range 5 {
			if err := l.take(t.Context(), 2); err != nil || time.Since(start) != 0 {
				t.Fatal(err, time.Since(start))
			}
		}
		refused, ok := errors.AsType[*busy](l.take(t.Context(), 2))
		if !ok || refused.wait < 10*time.Second || refused.wait > 10100*time.Millisecond {
			t.Fatal(refused)
		}
		time.Sleep(9 * time.Second)
		if err := l.take(t.Context(), 2); err != nil || time.Since(start) < 10*time.Second || time.Since(start) > 10100*time.Millisecond {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestLimiterLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(1, time.Second, time.Now)
		if err := l.take(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestLimiterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(100, time.Minute, time.Now)
		l.pause(5 * time.Second)
		l.pause(time.Second) // the longer one counts
		if refused, ok := errors.AsType[*busy](l.take(t.Context(), 1)); !ok || refused.wait != 5*time.Second {
			t.Fatal(refused)
		}
		time.Sleep(4 * time.Second)
		start := time.Now()
		if err := l.take(t.Context(), 1); err != nil || time.Since(start) != time.Second {
			t.Fatal(err, time.Since(start))
		}
	})
}

// In no window is more than the budget spent, turns come in order, and what is there is used.
func TestLimiterKeepsItsBudget(t *testing.T) {
	type turn struct {
		at     time.Duration
		weight int
	}
	rapid.Check(t, func(t *rapid.T) {
		budget := rapid.IntRange(4, 50).Draw(t, "budget")
		window := time.Duration(rapid.IntRange(1000, 60_000).Draw(t, "window")) * time.Millisecond
		start := time.Unix(1_760_000_000, 0)
		now := start
		l := newLimiter(budget, window, func() time.Time { return now })
		var turns []turn
		for range rapid.IntRange(1, 200).Draw(t, "count") {
			now = now.Add(time.Duration(rapid.IntRange(0, 500).Draw(t, "pause")) * time.Millisecond)
			weight := rapid.IntRange(1, 4).Draw(t, "weight")
			wait, err := l.book(weight)
			if err != nil {
				continue
			}
			at := now.Add(wait).Sub(start)
			total := weight
			for _, before := range turns {
				if before.at > at {
					t.Fatalf("%s is before %s", at, before.at)
				}
				if before.at > at-window {
					total += before.weight
				}
			}
			if total > budget || wait < 0 || wait > longestWait {
				t.Fatalf("%d of %d spent at %s after waiting %s", total, budget, at, wait)
			}
			turns = append(turns, turn{at, weight})
		}
		if len(l.spent) > steps+int(longestWait/(window/steps))+2 {
			t.Fatalf("it remembers %d steps", len(l.spent))
		}
		now = now.Add(window + longestWait + window/steps)
		if wait, err := l.book(budget); err != nil || wait > 0 {
			t.Fatalf("after a whole window nothing is free: %s, %v", wait, err)
		}
	})
}
