// Package backoff spreads retries and periodic work over time, so that clients that failed at the
// same time do not all retry at the same time.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Jitter returns a random duration between half of d and one and a half times d.
func Jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d) //nolint:gosec // a pause need not be secret
}

// Sleep waits for about d. It reports false if ctx ended first.
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
