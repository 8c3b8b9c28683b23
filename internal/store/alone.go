package store

import (
	"time"

	"github.com/toolyard/toolyard"
)

// Alone counts the limits of a replica that cannot reach the store: its share of each, as
// if all replicas did the same. What was granted before it was alone is not counted, so for a
// minute more may begin than the limit says; who cannot have that refuses instead.
type Alone struct{ paces map[string]*pace }

// Lease grants what a replica may have of a limit that so many share.
func (a *Alone) Lease(now time.Time, ask PaceAsk, replicas int) PaceGrant {
	ask.Limit = shareOf(ask.Limit, replicas)
	if (ask.Limit.PerMinute < 0) || (ask.Limit.Concurrency < 0) {
		return PaceGrant{After: soon}
	}
	if a.paces == nil {
		a.paces = make(map[string]*pace)
	}
	p := a.paces[ask.Key]
	if p == nil {
		p = &pace{}
		a.paces[ask.Key] = p
	}
	p.Last = now
	p.expire(ask.Limit)
	g := p.lease("", ask)
	g.Slot = -g.Slot // the store knows nothing of it, and must not take it back
	return g
}

// Return takes back what a replica does not use.
func (a *Alone) Return(now time.Time, r PaceReturn) {
	if p := a.paces[r.Key]; p != nil {
		p.Last, r.Slot = now, -r.Slot
		p.giveBack("", r)
	}
}

// shareOf is one of so many equal shares of a limit; -1 for less than one.
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
