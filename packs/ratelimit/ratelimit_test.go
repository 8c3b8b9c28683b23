package ratelimit

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
		l := New(10, 10*time.Second, time.Now)
		start := time.Now()
		for range 5 {
			if err := l.Take(t.Context(), 2); err != nil || time.Since(start) != 0 {
				t.Fatal(err, time.Since(start))
			}
		}
		refused, ok := errors.AsType[*BusyError](l.Take(t.Context(), 2))
		if !ok || refused.Wait < 10*time.Second || refused.Wait > 10100*time.Millisecond {
			t.Fatal(refused)
		}
		time.Sleep(9 * time.Second)
		if err := l.Take(t.Context(), 2); err != nil || time.Since(start) < 10*time.Second || time.Since(start) > 10100*time.Millisecond {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestLimiterLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, time.Second, time.Now)
		if err := l.Take(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
			t.Fatal(err, time.Since(start))
		}
	})
}

func TestLimiterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(100, time.Minute, time.Now)
		l.Pause(5 * time.Second)
		l.Pause(time.Second) // the longer pause applies
		if refused, ok := errors.AsType[*BusyError](l.Take(t.Context(), 1)); !ok || refused.Wait != 5*time.Second {
			t.Fatal(refused)
		}
		time.Sleep(4 * time.Second)
		start := time.Now()
		if err := l.Take(t.Context(), 1); err != nil || time.Since(start) != time.Second {
			t.Fatal(err, time.Since(start))
		}
	})
}

// No window exceeds the budget, requests are served in order, and the available budget is used.
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
		l := New(budget, window, func() time.Time { return now })
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

func TestSharedLimiterIsOnePerHost(t *testing.T) {
	a := Shared("a.example", 10, time.Minute, time.Now)
	b := Shared("a.example", 4, time.Minute, time.Now)
	if a != b || a.Budget() != 4 {
		t.Errorf("two limiters, or the larger budget: %d", a.Budget())
	}
	if Shared("b.example", 10, time.Minute, time.Now) == a {
		t.Error("two hosts share a limiter")
	}
}

func TestChargeCountsLaterWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(10, time.Minute, time.Now)
		if err := l.Take(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		l.Charge(6)
		if _, ok := errors.AsType[*BusyError](l.Take(t.Context(), 1)); !ok {
			t.Error("the charge is not counted")
		}
	})
}
