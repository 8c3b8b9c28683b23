package markets

import (
	"sync"
	"time"
)

// shareOf limits the requests per minute for one caller. Repeated requests for one address are
// cached, so only callers that link many addresses reach the limit. It protects the shared budget.
const shareOf = int(time.Minute / cacheTTL)

// share counts each caller's requests in the current minute.
type share struct {
	mu    sync.Mutex
	since time.Time
	asked map[string]int
}

// take counts a request and reports whether it is within the limit.
func (s *share) take(caller string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil || now.Sub(s.since) >= time.Minute {
		s.since, s.asked = now, make(map[string]int)
	}
	s.asked[caller]++
	return s.asked[caller] <= shareOf
}
