package ledger

import (
	"time"

	"github.com/toolyard/toolyard"
)

// LocalLimits enforce limits at a replica that cannot reach the store: its share of each limit,
// as if all replicas did the same. Earlier grants of the store are not counted, so for a minute
// more calls may start than the limit allows.
type LocalLimits struct{ states map[string]*limitState }

// Lease grants part of a limit that is shared by that many replicas.
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
	g.Epoch = -g.Epoch // unknown to the store, which ignores its return
	return g
}

// Return takes back the unused part of a grant.
func (a *LocalLimits) Return(now time.Time, r LimitReturn) {
	if l := a.states[r.Key]; l != nil {
		l.Last, r.Epoch = now, -r.Epoch
		l.giveBack("", r)
	}
}

// shareOf returns one of n equal shares of a limit, with -1 for less than one.
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
