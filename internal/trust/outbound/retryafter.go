package outbound

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns the delay that a service requests in the Retry-After header, in seconds or as
// a date. The result is zero if there is no header, and never exceeds limit.
func RetryAfter(h http.Header, now time.Time, limit time.Duration) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, limit)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), limit)
	}
	return 0
}
