package admission

import (
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// lane is what a replica has leased of a limit.
type lane struct {
	LimitRef
	permits  []permits
	slots    []slot    // that nobody uses
	running  int       // slots in use
	turn     time.Time // until when it may begin calls; zero if it may not
	turnSlot int64     // of the grant of the turn
	busy     bool      // a call has the turn and has not begun yet
	next     time.Time // when the cooldown is over
	lines    []*line
	turns    turns
	again    time.Time // when to ask the store again
	free     time.Time // when something of the limit may be free, if it is known that nothing is
	replicas int
	pulse    pulse
	hold     time.Duration // how long its calls need a slot
	mean     time.Duration // how long calls had a slot lately, if it is local; zero if that is not known
}

// slot is the right to have one call run.
type slot struct {
	granted int64     // by which grant
	until   time.Time // when it runs out; zero for none
	taken   time.Time // of a local lane
}

// permits are permits of one grant.
type permits struct {
	n     int
	slot  int64
	until time.Time
}

func (d *Controller) laneOf(p LimitRef) *lane {
	l := d.lanes[p.Key]
	if l == nil {
		l = &lane{LimitRef: p}
		d.lanes[p.Key] = l
	}
	return l
}

// ready reports whether a call may begin.
func (l *lane) ready(d *Controller, ask *Request, now time.Time) bool {
	l.hold = max(l.hold, ask.Timeout+ledger.Grace)
	l.expire(d, now)
	switch {
	case l.Local:
		return l.running < l.Limit.Concurrency
	case l.Limit.PerMinute > 0 && len(l.permits) == 0:
	case l.Limit.Concurrency > 0 && !l.hasSlot(now.Add(ask.Timeout)):
	case l.Limit.Cooldown > 0 && (l.turn.IsZero() || l.busy || l.next.After(now)):
	default:
		return true
	}
	return false
}

// hasSlot reports whether a slot lasts until a time.
func (l *lane) hasSlot(until time.Time) bool {
	return slices.ContainsFunc(l.slots, func(s slot) bool { return !s.until.Before(until) })
}

// expire lets go what may not be used any more. Permits that were not used count no longer,
// whenever the store hears of it.
func (l *lane) expire(d *Controller, now time.Time) {
	l.permits = slices.DeleteFunc(l.permits, func(p permits) bool {
		if p.until.After(now) {
			return p.n == 0
		}
		l.returnPermits(d, p)
		return true
	})
	l.slots = slices.DeleteFunc(l.slots, func(s slot) bool { return !s.until.After(now) })
	if !l.turn.After(now) && !l.busy {
		l.turn = time.Time{}
	}
}

func (l *lane) returnPermits(d *Controller, p permits) {
	if p.n > 0 {
		d.giveBack(l.LimitRef, ledger.LimitReturn{Permits: p.n, Epoch: p.slot})
	}
}

// take takes a permit, a slot and the turn for a call, and returns the slot.
func (l *lane) take(ask *Request, now time.Time) (taken slot) {
	l.pulse.beat(now)
	if l.Local {
		l.running++
		return slot{until: now.Add(time.Hour), taken: now}
	}
	if l.Limit.PerMinute > 0 {
		l.permits[0].n--
	}
	if l.Limit.Concurrency > 0 {
		i := slices.IndexFunc(l.slots, func(s slot) bool { return !s.until.Before(now.Add(ask.Timeout)) })
		taken = l.slots[i]
		l.slots = slices.Delete(l.slots, i, i+1)
		l.running++
	}
	l.busy = l.Limit.Cooldown > 0
	return taken
}

// begun starts the cooldown. A turn that is worth nothing until it runs out is given back.
func (l *lane) begun(d *Controller, now time.Time) {
	l.busy, l.next = false, now.Add(l.Limit.Cooldown+ledger.Slack)
	if l.turn.IsZero() {
		return
	}
	if !l.next.Before(l.turn) || l.Limit.Cooldown > ledger.TurnTTL/4 || l.waiting() == 0 {
		l.returnTurn(d)
	}
	d.call()
}

// returnTurn returns the turn. Idle slots go with it: the replica that gets the turn next needs
// a slot, and this one requests slots together with its next turn.
func (l *lane) returnTurn(d *Controller) {
	l.turn = time.Time{}
	if l.replicas > 1 {
		l.returnSlots(d)
	}
	d.giveBack(l.LimitRef, ledger.LimitReturn{Turn: true, Epoch: l.turnSlot})
}

// end frees the slot of a call. If other replicas may want it, it goes back at once.
func (l *lane) end(d *Controller, s slot) {
	if s.until.IsZero() {
		return
	}
	l.running--
	switch {
	case l.Local:
		l.observe(time.Since(s.taken))
		d.serve(l.lines...)
	case !s.until.After(time.Now()): // the store has it back already
	case l.replicas > 1:
		l.returnSlot(d, s)
		l.again = time.Time{}
		d.call()
	default:
		l.slots = append(l.slots, s)
		if l.waiting() > 0 {
			d.serve(l.lines...)
			d.call()
		}
	}
}

func (l *lane) returnSlots(d *Controller) {
	for _, s := range l.slots {
		l.returnSlot(d, s)
	}
	l.slots = nil
}

func (l *lane) returnSlot(d *Controller, s slot) {
	d.giveBack(l.LimitRef, ledger.LimitReturn{Concurrency: 1, Epoch: s.granted})
}

func (l *lane) waiting() int { return waitingIn(l.lines) }

// wanted is how many calls wait that could begin: not those of which it is known that they
// wait for another limit.
func (l *lane) wanted(now time.Time) (n int) {
	for _, line := range l.lines {
		if !slices.ContainsFunc(line.lanes, func(other *lane) bool { return other != l && other.free.After(now) }) {
			n += line.n
		}
	}
	return n
}

// ask is what the lane wants of the store now, and whether it wants anything.
func (l *lane) ask(d *Controller, now time.Time) (ledger.LimitRequest, bool) {
	if l.Local {
		return ledger.LimitRequest{}, false
	}
	l.expire(d, now)
	waiting := l.wanted(now)
	ahead := l.pulse.expect(now)
	if (waiting == 0 && ahead == 0) || l.again.After(now) {
		return ledger.LimitRequest{}, false
	}
	a := ledger.LimitRequest{Key: l.Key, Limit: l.Limit, Hold: l.hold}
	if l.Limit.PerMinute > 0 {
		have := 0
		for _, p := range l.permits {
			have += p.n
		}
		if want := min(waiting+ahead, l.Limit.PerMinute); have < (want+1)/2 {
			a.Permits = want - have
		}
	}
	if l.Limit.Concurrency > 0 && waiting > 0 {
		fresh := 0
		for _, s := range l.slots {
			if s.until.After(now.Add(l.hold - ledger.Grace)) {
				fresh++
			}
		}
		want := min(waiting, l.Limit.Concurrency)
		if l.Limit.Cooldown > 0 {
			want = min(want, ledger.StartsPerTurn(l.Limit.Cooldown))
		}
		a.Concurrency = max(0, want-fresh)
	}
	a.Turn = l.Limit.Cooldown > 0 && l.turn.IsZero() && waiting > 0
	if waiting == 0 && l.Limit.Cooldown > 0 {
		return a, false
	}
	return a, a.Permits > 0 || a.Concurrency > 0 || a.Turn
}

// pollTime is how long to wait at most before the store is asked again for those who wait.
const pollTime = 300 * time.Millisecond

// granted adds what was leased. Sent is when it was asked for.
func (l *lane) granted(d *Controller, a ledger.LimitRequest, g ledger.LimitGrant, sent time.Time) {
	now := time.Now()
	l.replicas = g.Replicas
	if g.Permits > 0 && l.Limit.PerMinute > 0 {
		l.permits = append(l.permits, permits{g.Permits, g.Epoch, sent.Add(ledger.PermitTTL)})
	}
	for range g.Concurrency {
		l.slots = append(l.slots, slot{granted: g.Epoch, until: sent.Add(a.Hold)})
	}
	if g.Turn && a.Limit.Cooldown > 0 {
		l.turn, l.turnSlot = sent.Add(ledger.TurnTTL), g.Epoch
	}
	l.again, l.free = time.Time{}, time.Time{}
	d.serve(l.lines...)
	if g.RetryAfter > 0 {
		l.again, l.free = now.Add(min(g.RetryAfter, pollTime)), now.Add(g.RetryAfter)
		reason := reached(l.Name, g.RetryAfter)
		for _, line := range l.lines {
			line.refuse(now, g.RetryAfter, reason)
		}
	}
}

// reached says that a limit is reached.
func reached(name string, after time.Duration) *toolyard.Error {
	return &toolyard.Error{Code: toolyard.RateLimited, Message: "The limit of " + name + " is reached. Try again later.", RetryAfter: after}
}

// observe notes how long a call had a slot. The last few calls count most.
func (l *lane) observe(took time.Duration) {
	if l.mean == 0 {
		l.mean = took
	}
	l.mean += (took - l.mean) / 4
}

// hopeless reports whether a call that has to wait in a local lane would not get its turn in
// time, and how long it would have to wait. That is an estimate: it sends a call away only if it
// is twice as long as the call may wait.
func (l *lane) hopeless(ask *Request) (wait time.Duration, hopeless bool) {
	if !l.Local || l.running < l.Limit.Concurrency {
		return 0, false
	}
	if ask.Wait > 0 && l.estimate(l.waiting()) <= 2*ask.Wait { // even if all who wait came first
		return 0, false
	}
	wait = l.expected(ask.Caller)
	return wait, ask.Wait <= 0 || wait > 2*ask.Wait
}

// expected is how long the last call of a caller will wait. Callers take turns, so it is
// behind as many calls of each other caller as its own caller has.
func (l *lane) expected(caller string) time.Duration {
	waiting := make(map[string]int)
	for _, line := range l.lines {
		for who, queue := range line.waiting {
			waiting[who] += len(queue)
		}
	}
	own, before := max(1, waiting[caller]), 0
	for _, n := range waiting {
		before += min(n, own)
	}
	return l.estimate(max(1, before))
}

// estimate is how long it takes until so many waiting calls have begun.
func (l *lane) estimate(calls int) time.Duration {
	return l.mean * time.Duration(calls) / time.Duration(max(1, l.Limit.Concurrency))
}

// refusal says that all slots are taken, and when to come back.
func (l *lane) refusal(after time.Duration) *toolyard.Error {
	return &toolyard.Error{
		Code: toolyard.RateLimited, RetryAfter: max(after, 100*time.Millisecond),
		Message: fmt.Sprintf("%s is busy: %d calls are running and %d are waiting. Try again later.", l.Name, l.running, l.waiting()),
	}
}

// rest gives back what nobody needs just now, and reports whether there is nothing left.
func (l *lane) rest(d *Controller, now time.Time) (empty bool) {
	l.expire(d, now)
	if l.wanted(now) > 0 || l.pulse.expect(now) > 0 || now.Sub(l.pulse.last) < l.idle() {
		return false
	}
	if l.Local {
		return l.running == 0 && l.waiting() == 0
	}
	for _, p := range l.permits {
		l.returnPermits(d, p)
	}
	l.returnSlots(d)
	l.permits = nil
	if !l.turn.IsZero() && !l.busy {
		l.returnTurn(d)
	}
	return l.running == 0 && !l.busy && l.waiting() == 0
}

// idle is after which time a lane that is not used gives back what it has.
func (l *lane) idle() time.Duration {
	if l.replicas > 1 {
		return 50 * time.Millisecond
	}
	return 400 * time.Millisecond
}
