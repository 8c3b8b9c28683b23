package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
)

// How long what was leased of a limit may be used. A replica counts from before it asked,
// so it stops before the store does, whatever the clocks say.
const (
	PermitTTL = time.Second // a permit to begin a call
	TurnTTL   = time.Second // the right to be the one that begins calls
	// Slack is added to every cooldown. A call begins a moment after it was admitted, and the
	// next one may be quicker.
	Slack = 3 * time.Millisecond
)

const (
	// slotTime is how finely permits are counted.
	slotTime = 500 * time.Millisecond
	// window is how many slots in a row may hold no more permits than the limit of a minute.
	// A permit that is granted in a slot is used up to PermitTTL later, so the calls that
	// begin in any minute were granted in at most this many slots: those of a minute, those of
	// PermitTTL before it, and one because a minute does not begin with a slot.
	window = int64((time.Minute+PermitTTL)/slotTime) + 1
	// seatTime is how long a replica that does not ask keeps its place in the line.
	seatTime = time.Second
	// activeTime is how long a replica counts as one that uses the limit.
	activeTime = 10 * time.Second
	// soon is when to ask again for what others may give back at any time.
	soon = 20 * time.Millisecond
)

// pace is how much of a limit is used.
type pace struct {
	Counts []count              `json:"counts,omitempty"` // permits granted, oldest first
	Turn   *turn                `json:"turn,omitempty"`   // who may begin calls, if there is a cooldown
	Next   time.Time            `json:"next,omitzero"`    // when the cooldown is over
	Held   []held               `json:"held,omitempty"`   // slots, by grant
	Line   []seat               `json:"line,omitempty"`   // the replicas that want more than they have, in order of arrival
	Seen   map[string]time.Time `json:"seen,omitempty"`   // when replicas asked last
	Last   time.Time            `json:"last"`             // the latest time seen: it never goes back
}

type count struct {
	Slot int64 `json:"s"`
	N    int   `json:"n"`
}

type turn struct {
	Replica string    `json:"replica"`
	Slot    int64     `json:"slot"` // of the grant
	Until   time.Time `json:"until"`
}

type held struct {
	Replica string    `json:"replica"`
	Slot    int64     `json:"slot"` // of the grant
	N       int       `json:"n"`
	Until   time.Time `json:"until"`
}

type seat struct {
	Replica string    `json:"replica"`
	Seen    time.Time `json:"seen"`
}

// readPace reads the state of a limit, and lets what has run out go.
func readPace(raw json.RawMessage, l toolyard.Limit, now time.Time) (*pace, error) {
	p := &pace{}
	if raw != nil {
		if err := json.Unmarshal(raw, p); err != nil {
			return nil, fmt.Errorf("the state of a limit cannot be read: %w", err)
		}
	}
	if p.Last.Before(now) { // a clock that goes back stops the limit, it does not open it
		p.Last = now
	}
	p.expire(l)
	return p, nil
}

func (p *pace) expire(l toolyard.Limit) {
	now, first := p.Last, p.slot()-window
	p.Counts = slices.DeleteFunc(p.Counts, func(c count) bool { return c.Slot <= first })
	if p.Turn != nil && !p.Turn.Until.After(now) {
		p.Next, p.Turn = p.Turn.Until.Add(l.Cooldown), nil
	}
	p.Held = slices.DeleteFunc(p.Held, func(h held) bool { return h.N <= 0 || !h.Until.After(now) })
	for replica, at := range p.Seen {
		if now.Sub(at) > activeTime {
			delete(p.Seen, replica)
		}
	}
	p.Line = slices.DeleteFunc(p.Line, func(s seat) bool { return now.Sub(s.Seen) > seatTime })
}

// slot is the slot of now.
func (p *pace) slot() int64 { return p.Last.UnixNano() / int64(slotTime) }

// lease gives a replica what it asks for, as far as it is there and those before it in the
// line do not want it.
func (p *pace) lease(replica string, ask PaceAsk) PaceGrant {
	p.see(replica)
	place := p.sit(replica)
	g := PaceGrant{Slot: p.slot(), Replicas: len(p.Seen)}
	permits, slots, free := p.available(ask, place)
	if permits > 0 && slots > 0 && free {
		g.Permits, g.Slots, g.Turn = min(permits, ask.Permits), min(slots, ask.Slots), ask.Turn
		p.take(replica, ask, g)
	}
	if g.Permits < ask.Permits || g.Slots < ask.Slots || g.Turn != ask.Turn {
		g.After = p.after(ask)
		p.stand(replica, g.Permits+g.Slots > 0 || g.Turn)
		return g
	}
	p.leave(replica)
	return g
}

// unlimited is more than anybody asks for.
const unlimited = 1 << 30

// available is what a replica in that place of the line may have of each: permits, slots,
// and whether the turn is free.
func (p *pace) available(ask PaceAsk, place int) (permits, slots int, free bool) {
	l, others := ask.Limit, len(p.Line)-place
	permits, slots, free = unlimited, unlimited, true
	if l.PerMinute > 0 && ask.Permits > 0 {
		permits = share(l.PerMinute-p.granted(), place, others)
	}
	if l.Concurrency > 0 && ask.Slots > 0 {
		slots = share(l.Concurrency-p.running(), place, others)
	}
	if l.Cooldown > 0 && ask.Turn {
		free = place == 0 && p.Turn == nil && !p.Next.After(p.Last)
		permits = min(permits, max(1, int(TurnTTL/2/l.Cooldown))) // what can begin while the turn lasts
	}
	return permits, slots, free
}

// share is what one of several that wait may have of what is left: those before it take one
// each, and those behind it get as much.
func share(left, before, waiting int) int {
	left -= before
	if left <= 0 {
		return 0
	}
	return (left + waiting - 1) / max(1, waiting)
}

func (p *pace) take(replica string, ask PaceAsk, g PaceGrant) {
	if ask.Limit.PerMinute > 0 && g.Permits > 0 {
		if n := len(p.Counts); n > 0 && p.Counts[n-1].Slot == g.Slot {
			p.Counts[n-1].N += g.Permits
		} else {
			p.Counts = append(p.Counts, count{g.Slot, g.Permits})
		}
	}
	if ask.Limit.Concurrency > 0 && g.Slots > 0 {
		p.Held = append(p.Held, held{replica, g.Slot, g.Slots, p.Last.Add(ask.Hold)})
	}
	if ask.Limit.Cooldown > 0 && g.Turn {
		p.Turn = &turn{replica, g.Slot, p.Last.Add(TurnTTL)}
	}
}

// giveBack takes back what a replica did not use, or does not use any more.
func (p *pace) giveBack(replica string, r PaceReturn) {
	if i := slices.IndexFunc(p.Counts, func(c count) bool { return c.Slot == r.Slot }); i >= 0 {
		p.Counts[i].N = max(0, p.Counts[i].N-r.Permits)
	}
	for i := range p.Held {
		if h := &p.Held[i]; h.Replica == replica && h.Slot == r.Slot {
			n := min(r.Slots, h.N)
			h.N, r.Slots = h.N-n, r.Slots-n
		}
	}
	if r.Turn && p.Turn != nil && p.Turn.Replica == replica && p.Turn.Slot == r.Slot {
		p.Turn, p.Next = nil, p.Last.Add(r.Limit.Cooldown+Slack)
	}
}

// granted is how many permits count now.
func (p *pace) granted() (n int) {
	for _, c := range p.Counts {
		n += c.N
	}
	return n
}

// running is how many slots are held.
func (p *pace) running() (n int) {
	for _, h := range p.Held {
		n += h.N
	}
	return n
}

// after is how long it takes until something of what is missing may be there.
func (p *pace) after(ask PaceAsk) time.Duration {
	wait := time.Duration(0)
	if l := ask.Limit.PerMinute; l > 0 && ask.Permits > 0 && p.granted() >= l && len(p.Counts) > 0 {
		end := time.Unix(0, (p.Counts[0].Slot+window)*int64(slotTime))
		wait = max(wait, end.Sub(p.Last))
	}
	if ask.Turn && ask.Limit.Cooldown > 0 {
		if p.Turn != nil {
			wait = max(wait, soon)
		}
		wait = max(wait, p.Next.Sub(p.Last))
	}
	if wait == 0 {
		wait = soon
	}
	return wait
}

// see notes that a replica uses the limit.
func (p *pace) see(replica string) {
	if p.Seen == nil {
		p.Seen = make(map[string]time.Time)
	}
	p.Seen[replica] = p.Last
}

// sit returns the place of a replica in the line: how many are before it. It is put at the
// end if it is not there.
func (p *pace) sit(replica string) int {
	i := slices.IndexFunc(p.Line, func(s seat) bool { return s.Replica == replica })
	if i < 0 {
		i = len(p.Line)
		p.Line = append(p.Line, seat{Replica: replica})
	}
	p.Line[i].Seen = p.Last
	return i
}

// stand keeps a replica in the line that still wants something: at its place, or behind the
// others if it got something.
func (p *pace) stand(replica string, served bool) {
	if served {
		p.leave(replica)
		p.Line = append(p.Line, seat{replica, p.Last})
	}
}

func (p *pace) leave(replica string) {
	p.Line = slices.DeleteFunc(p.Line, func(s seat) bool { return s.Replica == replica })
}

func (p *pace) encode() json.RawMessage {
	raw, _ := json.Marshal(p) // always has a JSON form
	return raw
}
