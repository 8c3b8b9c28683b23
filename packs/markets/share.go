package markets

import (
	"sync"
	"time"
)

// shareOf is how often one caller may have a service asked in a minute. Who asks for the same
// address again and again is answered from memory and needs no more than that; only who links
// one address after the other does, and must not use up what is there for all.
const shareOf = int(time.Minute / cacheTTL)

// share counts how often callers had a service asked in this minute.
type share struct {
	mu    sync.Mutex
	since time.Time
	asked map[string]int
}

// take reports whether a caller may have the service asked once more.
func (s *share) take(caller string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil || now.Sub(s.since) >= time.Minute {
		s.since, s.asked = now, make(map[string]int)
	}
	s.asked[caller]++
	return s.asked[caller] <= shareOf
}
