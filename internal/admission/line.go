package admission

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// line are the calls that wait for the same things. Callers take turns in it, and the calls
// of one caller keep their order.
type line struct {
	name    string
	lanes   []*lane
	wallet  *wallet // nil for none
	turns   *turns
	waiting map[string][]*visitor // by caller, in order of arrival
	n       int
}

// turns remember who was served how often. Lines that lead to the same narrow limit share
// them.
type turns struct {
	round  uint64            // how often those were served who still wait
	served map[string]uint64 // by caller; nothing for one who was served no more often than that
}

// lag is how much more often a caller was served than others who wait.
func (t *turns) lag(caller string) uint64 { return max(t.served[caller], t.round) - t.round }

// maxServed is how many callers are remembered before those are forgotten who need not be.
const maxServed = 1000

// serve notes that a caller was served.
func (t *turns) serve(caller string) {
	t.round += t.lag(caller)
	if t.served == nil {
		t.served = make(map[string]uint64)
	}
	t.served[caller] = t.round + 1
	if len(t.served) > maxServed {
		maps.DeleteFunc(t.served, func(_ string, n uint64) bool { return n <= t.round })
	}
}

// lineOf finds the line for an ask.
func (d *Controller) lineOf(ask *Request) *line {
	var b strings.Builder
	for _, p := range ask.Limits {
		b.WriteString(p.Key + "\n")
	}
	if ask.Balance != "" {
		b.WriteString("\n" + ask.Balance + "\n" + ask.Account)
	}
	l := d.lines[b.String()]
	if l == nil {
		l = d.newLine(b.String(), ask)
	}
	for i, p := range ask.Limits { // the limits may have been changed
		l.lanes[i].LimitRef = p
	}
	return l
}

func (d *Controller) newLine(name string, ask *Request) *line {
	l := &line{name: name, turns: &turns{}, waiting: make(map[string][]*visitor)}
	for _, p := range ask.Limits {
		lane := d.laneOf(p)
		lane.lines = append(lane.lines, l)
		l.lanes, l.turns = append(l.lanes, lane), &lane.turns // of the last, which is the narrowest
	}
	if ask.Balance != "" {
		l.wallet = d.walletOf(ask)
		l.wallet.lines = append(l.wallet.lines, l)
	}
	d.lines[name] = l
	return l
}

// next is the visitor whose turn it is, nil for none.
func (l *line) next() (first *visitor) {
	for _, queue := range l.waiting {
		if v := queue[0]; first == nil || l.before(v, first) {
			first = v
		}
	}
	return first
}

// before reports whether it is the turn of one visitor rather than of another, who may be of
// another line.
func (l *line) before(v, other *visitor) bool {
	mine, theirs := l.turns.lag(v.ask.Caller), other.line.turns.lag(other.ask.Caller)
	return mine < theirs || mine == theirs && v.seq < other.seq
}

// forever is longer than anybody waits.
const forever = time.Duration(1 << 62)

// busy says which local limit of the line keeps a visitor waiting; nil for none.
func (l *line) busy(v *visitor) *toolyard.Error {
	for _, lane := range l.lanes {
		if lane.Local && lane.running >= lane.Limit.Concurrency {
			return lane.refusal(lane.expected(v.ask.Caller))
		}
	}
	return nil
}

// push puts a visitor in line, behind its own caller's others.
func (l *line) push(v *visitor) {
	l.waiting[v.ask.Caller] = append(l.waiting[v.ask.Caller], v)
	l.n++
}

// remove takes out a visitor, because it is served or does not wait any more.
func (l *line) remove(v *visitor) {
	queue := l.waiting[v.ask.Caller]
	i := slices.Index(queue, v)
	if i < 0 {
		return
	}
	l.n--
	if queue = slices.Delete(queue, i, i+1); len(queue) == 0 {
		delete(l.waiting, v.ask.Caller)
		return
	}
	l.waiting[v.ask.Caller] = queue
}

// waitingIn is how many wait in lines.
func waitingIn(lines []*line) (n int) {
	for _, l := range lines {
		n += l.n
	}
	return n
}

// all are all visitors of the line.
func (l *line) all() []*visitor { return slices.Concat(slices.Collect(maps.Values(l.waiting))...) }

// foresee tells a visitor what is known already: that a limit is reached, and until when. It
// sends away a visitor that would wait in vain.
func (l *line) foresee(v *visitor, now time.Time) {
	for _, lane := range l.lanes {
		if wait, hopeless := lane.hopeless(v.ask); hopeless {
			l.remove(v)
			v.end(nil, lane.refusal(wait-max(0, v.ask.Wait)))
			return
		}
		if !lane.free.After(now) {
			continue
		}
		v.reason = reached(lane.Name, lane.free.Sub(now))
		if v.deadline.Before(lane.free) {
			l.remove(v)
			v.end(nil, v.reason)
			return
		}
	}
}

// serve admits the visitors of lines as far as everything is there, each in its turn. Who is
// not ready holds up its line, and no other.
func (d *Controller) serve(lines ...*line) {
	next := make([]*visitor, 0, len(lines))
	for _, l := range lines {
		if v := l.next(); v != nil {
			next = append(next, v)
		}
	}
	for len(next) > 0 {
		first := 0
		for i, v := range next {
			if v.line.before(v, next[first]) {
				first = i
			}
		}
		v := next[first]
		if full := v.line.fullLane(d, v.ask); full != nil { // nobody else finds room there either
			next = slices.DeleteFunc(next, func(v *visitor) bool { return slices.Contains(v.line.lanes, full) })
			continue
		}
		if w := v.line.wallet; w != nil && !w.ready(v.ask, time.Now()) {
			next = slices.Delete(next, first, first+1)
			continue
		}
		v.line.remove(v)
		v.line.turns.serve(v.ask.Caller)
		v.end(v.line.take(v.ask, time.Now()), nil)
		if next[first] = v.line.next(); next[first] == nil {
			next = slices.Delete(next, first, first+1)
		}
	}
}

// fullLane is a lane of the line in which no call may begin now, nil if it may in all.
func (l *line) fullLane(d *Controller, ask *Request) *lane {
	for _, lane := range l.lanes {
		if !lane.ready(d, ask, time.Now()) {
			return lane
		}
	}
	return nil
}

// take takes all that a call needs.
func (l *line) take(ask *Request, now time.Time) *Admission {
	t := &taken{wallet: l.wallet}
	for _, lane := range l.lanes {
		t.lanes = append(t.lanes, used{lane, lane.take(ask, now)})
	}
	if l.wallet != nil {
		l.wallet.take(ask, now)
	}
	return &Admission{Request: ask, Reserved: t}
}

// refuse sends away those of a line who would wait in vain.
func (l *line) refuse(now time.Time, after time.Duration, reason *toolyard.Error) {
	for _, v := range l.all() {
		if v.deadline.Before(now.Add(after)) {
			l.remove(v)
			v.end(nil, reason)
		} else {
			v.reason = reason
		}
	}
}
