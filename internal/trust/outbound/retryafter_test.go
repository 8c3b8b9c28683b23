package outbound

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "99999": time.Hour, "99999999999999": 0, "-1": 0, "soon": 0, "1.5": 0,
		"Mon, 16 Nov 2026 12:00:30 GMT": 30 * time.Second, "Mon, 16 Nov 2026 11:00:00 GMT": 0, "Fri, 31 Dec 9999 23:59:59 GMT": time.Hour,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {text}}, now, time.Hour); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
