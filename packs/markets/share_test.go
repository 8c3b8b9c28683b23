package markets

import (
	"testing"
	"time"
)

func TestACallerHasAShare(t *testing.T) {
	var s share
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for i := range shareOf + 5 {
		if got := s.take("poor", now); got != (i < shareOf) {
			t.Fatalf("request %d of a minute: %v", i+1, got)
		}
	}
	if !s.take("ann", now) || !s.take("poor", now.Add(time.Minute)) {
		t.Error("another caller, or the next minute, is refused")
	}
}
