package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
)

// Lifetimes of leased permits. A replica measures from the time before it sent the request, so it
// stops using a lease before the store expires it, regardless of clock differences.
const (
	PermitTTL     = time.Second // a permit to start a call
	StartRightTTL = time.Second // the exclusive right to start calls
	// Slack is added to every cooldown, because the delay between admission and start varies from
	// call to call.
	Slack = 3 * time.Millisecond
)

const (
	// epochLength is the granularity at which permits are counted.
	epochLength = 500 * time.Millisecond
	// window is the number of consecutive epochs in which at most the limit per minute may be
	// granted. A permit can be used until PermitTTL after its epoch. The calls that start in any
	// minute were therefore granted in at most this many epochs: those of the minute, those of
	// PermitTTL before it, and one more because a minute does not have to start with an epoch.
	window = int64((time.Minute+PermitTTL)/epochLength) + 1
	// queueTime is how long a replica keeps its place in the queue between requests.
	queueTime = time.Second
	// activeTime is how long a replica counts as a user of the limit after a request.
	activeTime = 10 * time.Second
	// soon is the retry delay for resources that may be returned at any time.
	soon = 20 * time.Millisecond
)

// limitState is a limit's usage, stored as JSON.
type limitState struct {
	Counts     []permitCount        `json:"counts,omitempty"` // granted permits, oldest first
	StartRight *startRight          `json:"turn,omitempty"`   // replica that may start calls, if there is a cooldown
	Next       time.Time            `json:"next,omitzero"`    // end of the cooldown
	Held       []heldConcurrency    `json:"held,omitempty"`   // one entry per grant
	Queue      []queuedReplica      `json:"line,omitempty"`   // replicas that need more than they have, in order of arrival
	Seen       map[string]time.Time `json:"seen,omitempty"`   // time of each replica's last request
	Last       time.Time            `json:"last"`             // latest time seen; never moves back
}

type permitCount struct {
	Epoch int64 `json:"s"`
	N     int   `json:"n"`
}

type startRight struct {
	Replica string    `json:"replica"`
	Epoch   int64     `json:"slot"` // epoch of the grant
	Until   time.Time `json:"until"`
}

type heldConcurrency struct {
	Replica string    `json:"replica"`
	Epoch   int64     `json:"slot"` // epoch of the grant
	N       int       `json:"n"`
	Until   time.Time `json:"until"`
}

type queuedReplica struct {
	Replica string    `json:"replica"`
	Seen    time.Time `json:"seen"`
}

// decodeLimit decodes a limit's state and removes expired entries.
func decodeLimit(raw json.RawMessage, limit toolyard.Limit, now time.Time) (*limitState, error) {
	l := &limitState{}
	if raw != nil {
		if err := json.Unmarshal(raw, l); err != nil {
			return nil, fmt.Errorf("decode limit state: %w", err)
		}
	}
	if l.Last.Before(now) { // if the clock moves back, the limit's time does not advance
		l.Last = now
	}
	l.expire(limit)
	return l, nil
}

func (l *limitState) encode() json.RawMessage {
	raw, _ := json.Marshal(l) // cannot fail
	return raw
}

func (l *limitState) expire(limit toolyard.Limit) {
	now, first := l.Last, l.epoch()-window
	l.Counts = slices.DeleteFunc(l.Counts, func(c permitCount) bool { return c.Epoch <= first })
	if l.StartRight != nil && !l.StartRight.Until.After(now) {
		l.Next, l.StartRight = l.StartRight.Until.Add(limit.Cooldown), nil
	}
	l.Held = slices.DeleteFunc(l.Held, func(h heldConcurrency) bool { return h.N <= 0 || !h.Until.After(now) })
	for replica, at := range l.Seen {
		if now.Sub(at) > activeTime {
			delete(l.Seen, replica)
		}
	}
	l.Queue = slices.DeleteFunc(l.Queue, func(q queuedReplica) bool { return now.Sub(q.Seen) > queueTime })
}

func (l *limitState) epoch() int64 { return l.Last.UnixNano() / int64(epochLength) }

// lease grants a replica the available part of its request, given its place in the queue.
func (l *limitState) lease(replica string, r LimitRequest) LimitGrant {
	l.see(replica)
	place := l.enqueue(replica)
	g := LimitGrant{Epoch: l.epoch(), Replicas: len(l.Seen)}
	permits, concurrency, free := l.available(r, place)
	if permits > 0 && concurrency > 0 && free {
		g.Permits, g.Concurrency, g.StartRight = min(permits, r.Permits), min(concurrency, r.Concurrency), r.StartRight
		l.take(replica, r, g)
	}
	if g.Permits < r.Permits || g.Concurrency < r.Concurrency || g.StartRight != r.StartRight {
		g.RetryAfter = l.retryAfter(r)
		if g.Permits+g.Concurrency > 0 || g.StartRight { // served, so it moves to the end of the queue
			l.dequeue(replica)
			l.Queue = append(l.Queue, queuedReplica{replica, l.Last})
		}
		return g
	}
	l.dequeue(replica)
	return g
}

// unlimited is larger than any request.
const unlimited = 1 << 30

// available returns how much a replica may have at its place in the queue, and whether the start
// right is free.
func (l *limitState) available(r LimitRequest, place int) (permits, concurrency int, free bool) {
	limit, others := r.Limit, len(l.Queue)-place
	permits, concurrency, free = unlimited, unlimited, true
	if limit.PerMinute > 0 && r.Permits > 0 {
		permits = share(limit.PerMinute-l.granted(), place, others)
	}
	if limit.Concurrency > 0 && r.Concurrency > 0 {
		concurrency = share(limit.Concurrency-l.running(), place, others)
	}
	if limit.Cooldown > 0 && r.StartRight {
		free = place == 0 && l.StartRight == nil && !l.Next.After(l.Last)
		permits = min(permits, StartsPerRight(limit.Cooldown))
	}
	return permits, concurrency, free
}

// StartsPerRight returns how many calls can start during one lease of a start right.
func StartsPerRight(cooldown time.Duration) int { return max(1, int(StartRightTTL/2/cooldown)) }

// share divides the remaining amount: each replica ahead in the queue gets one, and the others get
// equal parts.
func share(left, ahead, waiting int) int {
	left -= ahead
	if left <= 0 {
		return 0
	}
	return (left + waiting - 1) / max(1, waiting)
}

func (l *limitState) take(replica string, r LimitRequest, g LimitGrant) {
	if r.Limit.PerMinute > 0 && g.Permits > 0 {
		if n := len(l.Counts); n > 0 && l.Counts[n-1].Epoch == g.Epoch {
			l.Counts[n-1].N += g.Permits
		} else {
			l.Counts = append(l.Counts, permitCount{g.Epoch, g.Permits})
		}
	}
	if r.Limit.Concurrency > 0 && g.Concurrency > 0 {
		l.Held = append(l.Held, heldConcurrency{replica, g.Epoch, g.Concurrency, l.Last.Add(r.SlotTTL)})
	}
	if r.Limit.Cooldown > 0 && g.StartRight {
		l.StartRight = &startRight{replica, g.Epoch, l.Last.Add(StartRightTTL)}
	}
}

// giveBack adds the unused part of a grant back to the limit.
func (l *limitState) giveBack(replica string, r LimitReturn) {
	if i := slices.IndexFunc(l.Counts, func(c permitCount) bool { return c.Epoch == r.Epoch }); i >= 0 {
		l.Counts[i].N = max(0, l.Counts[i].N-r.Permits)
	}
	for i := range l.Held {
		if h := &l.Held[i]; h.Replica == replica && h.Epoch == r.Epoch {
			n := min(r.Concurrency, h.N)
			h.N, r.Concurrency = h.N-n, r.Concurrency-n
		}
	}
	if r.StartRight && l.StartRight != nil && l.StartRight.Replica == replica && l.StartRight.Epoch == r.Epoch {
		l.StartRight, l.Next = nil, l.Last.Add(r.Limit.Cooldown+Slack)
	}
}

// granted returns the number of permits granted in the window.
func (l *limitState) granted() (n int) {
	for _, c := range l.Counts {
		n += c.N
	}
	return n
}

// running returns the concurrency in use.
func (l *limitState) running() (n int) {
	for _, h := range l.Held {
		n += h.N
	}
	return n
}

// retryAfter estimates when more of the requested resources become available.
func (l *limitState) retryAfter(r LimitRequest) time.Duration {
	wait := time.Duration(0)
	if n := r.Limit.PerMinute; n > 0 && r.Permits > 0 && l.granted() >= n && len(l.Counts) > 0 {
		end := time.Unix(0, (l.Counts[0].Epoch+window)*int64(epochLength))
		wait = max(wait, end.Sub(l.Last))
	}
	if r.StartRight && r.Limit.Cooldown > 0 {
		if l.StartRight != nil {
			wait = max(wait, soon)
		}
		wait = max(wait, l.Next.Sub(l.Last))
	}
	if wait == 0 {
		wait = soon
	}
	return wait
}

// see records that a replica uses the limit.
func (l *limitState) see(replica string) {
	if l.Seen == nil {
		l.Seen = make(map[string]time.Time)
	}
	l.Seen[replica] = l.Last
}

// enqueue returns a replica's place in the queue. It appends the replica if it is not queued yet.
func (l *limitState) enqueue(replica string) int {
	i := slices.IndexFunc(l.Queue, func(q queuedReplica) bool { return q.Replica == replica })
	if i < 0 {
		i = len(l.Queue)
		l.Queue = append(l.Queue, queuedReplica{Replica: replica})
	}
	l.Queue[i].Seen = l.Last
	return i
}

func (l *limitState) dequeue(replica string) {
	l.Queue = slices.DeleteFunc(l.Queue, func(q queuedReplica) bool { return q.Replica == replica })
}

// LimitUsage is the current usage of a limit.
type LimitUsage struct {
	Used    int       // permits used in the last minute, including leased permits
	Running int       // concurrency in use
	Next    time.Time // when the cooldown allows the next call; zero if it allows one now
}

// Usage computes a limit's usage from its state.
func Usage(state json.RawMessage, now time.Time) (LimitUsage, error) {
	l, err := decodeLimit(state, toolyard.Limit{}, now)
	if err != nil {
		return LimitUsage{}, err
	}
	u := LimitUsage{Used: l.granted(), Running: l.running()}
	switch {
	case l.StartRight != nil: // the holder may start a call at any time; others have to wait until the right ends
		u.Next = l.StartRight.Until.UTC()
	case l.Next.After(l.Last):
		u.Next = l.Next.UTC()
	}
	return u, nil
}
