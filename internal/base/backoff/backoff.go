// Package backoff spreads retries and periodic work over time, so that clients that fail at the
// same time don't all retry at the same time.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Jitter returns a random duration between 0.5 and 1.5 times d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d) //nolint:gosec // not security-sensitive
}

// Sleep waits for approximately d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(Jitter(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
