package ledger

import (
	"time"

	"github.com/toolyard/toolyard"
)

// LocalLimits enforces limits at a replica that cannot reach the store. The replica gets its share
// of each limit, as if all replicas were in the same situation. Earlier grants are not counted, so
// more calls than the limit may start for up to a minute.
type LocalLimits struct{ states map[string]*limitState }

// Lease grants part of a limit that the given number of replicas share.
func (a *LocalLimits) Lease(now time.Time, r LimitRequest, replicas int) LimitGrant {
	r.Limit = shareOf(r.Limit, replicas)
	if (r.Limit.PerMinute < 0) || (r.Limit.Concurrency < 0) {
		return LimitGrant{RetryAfter: soon}
	}
	if a.states == nil {
		a.states = make(map[string]*limitState)
	}
	l := a.states[r.Key]
	if l == nil {
		l = &limitState{}
		a.states[r.Key] = l
	}
	l.Last = now
	l.expire(r.Limit)
	g := l.lease("", r)
	g.Epoch = -g.Epoch // negative epochs are unknown to the store, which ignores their return
	return g
}

// Return adds the unused part of a grant back to the limit.
func (a *LocalLimits) Return(now time.Time, r LimitReturn) {
	if l := a.states[r.Key]; l != nil {
		l.Last, r.Epoch = now, -r.Epoch
		l.giveBack("", r)
	}
}

// shareOf returns one of n equal shares of a limit, or -1 if the share is less than one.
func shareOf(l toolyard.Limit, n int) toolyard.Limit {
	l.Cooldown *= time.Duration(n)
	for _, limit := range []*int{&l.PerMinute, &l.Concurrency} {
		if *limit > 0 && *limit < n {
			*limit = -1
		} else {
			*limit /= n
		}
	}
	return l
}
