package inbound

import (
	"net/netip"
	"sync"
)

// Shares limits how much of a resource can be held at the same time, both in total and by each
// caller, so that no caller can take all of it.
type Shares struct {
	max, each int

	mu    sync.Mutex
	total int
	by    map[string]int
}

// NewShares creates shares with a total limit and a limit for each caller.
func NewShares(maximum, each int) *Shares {
	return &Shares{max: maximum, each: max(1, each), by: make(map[string]int)}
}

// Verdict is the result of Take.
type Verdict int

// The verdicts.
const (
	Granted    Verdict = iota
	CallerFull         // the caller has reached its limit
	AllFull            // the total limit is reached
)

// Take takes n units for a caller. If the verdict is Granted, release returns them; further calls
// to release have no effect.
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

// CallerAddress returns the address under which a remote host is counted. For IPv6, it is the /64
// network, which usually belongs to one host.
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
