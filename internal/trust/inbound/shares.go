package inbound

import (
	"net/netip"
	"sync"
)

// Shares counts how much of something is held at once, in all and by each origin, so that no
// origin can take everything.
type Shares struct {
	max, each int

	mu    sync.Mutex
	total int
	by    map[string]int
}

// NewShares makes a count with a bound for all and one for each origin.
func NewShares(maximum, each int) *Shares {
	return &Shares{max: maximum, each: max(1, each), by: make(map[string]int)}
}

// Verdict says whether something could be taken.
type Verdict int

// The verdicts.
const (
	Granted    Verdict = iota
	CallerFull         // the origin has its share
	AllFull            // there is no more for anybody
)

// Take takes n for an origin. If the verdict is Granted, release gives it back, once.
func (s *Shares) Take(origin string, n int) (release func(), v Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[origin]+n > s.each:
		return nil, CallerFull
	case s.total+n > s.max:
		return nil, AllFull
	}
	s.total += n
	s.by[origin] += n
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total -= n
		if s.by[origin] -= n; s.by[origin] == 0 {
			delete(s.by, origin)
		}
	}), Granted
}

// CallerAddress is the network address that a remote address, host and port, is counted under. For
// IPv6 it is the /64 network, of which one host usually has all addresses.
func CallerAddress(remote string) string {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return "unknown" // not TCP
	}
	address := from.Addr().Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}
