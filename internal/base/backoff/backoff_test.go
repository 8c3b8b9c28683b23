package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/base/backoff"
)

func TestJitterStaysNearTheDuration(t *testing.T) {
	for range 1000 {
		if d := backoff.Jitter(time.Second); d < time.Second/2 || d >= 3*time.Second/2 {
			t.Fatal(d)
		}
	}
	if d := backoff.Jitter(0); d != 0 {
		t.Error(d)
	}
}

func TestSleepEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if !backoff.Sleep(t.Context(), time.Second) {
			t.Error("Sleep reported an ended context")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if backoff.Sleep(ctx, time.Hour) {
			t.Error("Sleep outlasted its context")
		}
	})
}
