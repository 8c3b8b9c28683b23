package desk

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// maxLine is how many calls may wait in one line.
const maxLine = 10_000

// line are the calls that wait for the same things. Callers take turns in it, and the calls
// of one caller keep their order.
type line struct {
	name   string
	lanes  []*lane
	wallet *wallet // nil for none
	queue  queue
	round  uint64            // the tag of the last call that was served
	tags   map[string]uint64 // the last tag of each caller that waits
}

// lineOf finds the line for an ask.
func (d *Desk) lineOf(ask *toolyard.Ask) *line {
	var b strings.Builder
	for _, p := range ask.Paces {
		b.WriteString(p.Key + "\n")
	}
	b.WriteString("\n" + ask.Purse + "\n" + ask.Account)
	l := d.lines[b.String()]
	if l == nil {
		l = &line{name: b.String(), tags: make(map[string]uint64)}
		for _, p := range ask.Paces {
			l.lanes = append(l.lanes, d.laneOf(p))
		}
		if ask.Purse != "" {
			l.wallet = d.walletOf(ask)
			l.wallet.lines = append(l.wallet.lines, l)
		}
		for _, lane := range l.lanes {
			lane.lines = append(lane.lines, l)
		}
		d.lines[l.name] = l
	}
	for i, p := range ask.Paces { // the limits may have been changed
		l.lanes[i].Pace = p
	}
	return l
}

// full says why no more may wait in a line; nil if they may.
func (l *line) full() *toolyard.Error {
	for _, lane := range l.lanes {
		if lane.Local && lane.Queue > 0 && lane.waiting() > lane.Queue {
			return lane.full()
		}
	}
	if len(l.queue) > maxLine {
		return &toolyard.Error{Code: toolyard.Exhausted, Message: "Too many calls wait already.", RetryAfter: time.Second}
	}
	return nil
}

// push puts a visitor in line: behind its own caller's others, and between those of others.
func (l *line) push(v *visitor) {
	v.tag = max(l.round, l.tags[v.ask.Caller]) + 1
	l.tags[v.ask.Caller] = v.tag
	heap.Push(&l.queue, v)
}

// pop takes the first visitor.
func (l *line) pop() *visitor {
	v := heap.Pop(&l.queue).(*visitor)
	l.round = v.tag
	l.forget(v)
	return v
}

// remove takes out a visitor that does not wait any more.
func (l *line) remove(v *visitor) {
	if i := slices.Index(l.queue, v); i >= 0 {
		heap.Remove(&l.queue, i)
		l.forget(v)
	}
}

// forget forgets callers of whom nobody waits.
func (l *line) forget(v *visitor) {
	if len(l.queue) == 0 {
		clear(l.tags)
	} else if l.tags[v.ask.Caller] == v.tag {
		delete(l.tags, v.ask.Caller)
	}
}

// foresee tells a visitor what is known already: that a limit is reached, and until when.
func (l *line) foresee(v *visitor, now time.Time) {
	for _, lane := range l.lanes {
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

// serve admits the visitors of a line as far as everything is there.
func (d *Desk) serve(l *line) {
	for len(l.queue) > 0 && l.ready(d, l.queue[0].ask, time.Now()) {
		v := l.pop()
		v.end(l.take(v.ask, time.Now()), nil)
	}
}

// serveAll serves lines, those whose first visitor came first before the others.
func (d *Desk) serveAll(lines []*line) {
	if len(lines) > 1 {
		lines = slices.Clone(lines)
		slices.SortFunc(lines, func(a, b *line) int { return int(a.first()) - int(b.first()) }) //nolint:gosec // far from its limits
	}
	for _, l := range lines {
		d.serve(l)
	}
}

func (l *line) first() uint64 {
	if len(l.queue) == 0 {
		return 1 << 62
	}
	return l.queue[0].seq
}

// ready reports whether all that a call needs is here.
func (l *line) ready(d *Desk, ask *toolyard.Ask, now time.Time) bool {
	for _, lane := range l.lanes {
		if !lane.ready(d, ask, now) {
			return false
		}
	}
	return l.wallet == nil || l.wallet.ready(ask, now)
}

// take takes all that a call needs.
func (l *line) take(ask *toolyard.Ask, now time.Time) *toolyard.Ticket {
	t := &taken{wallet: l.wallet}
	for _, lane := range l.lanes {
		t.lanes = append(t.lanes, used{lane, lane.take(ask, now)})
	}
	if l.wallet != nil {
		l.wallet.take(ask, now)
	}
	return &toolyard.Ticket{Ask: ask, Taken: t}
}

// refuse sends away those of a line who would wait in vain.
func (l *line) refuse(now time.Time, after time.Duration, reason *toolyard.Error) {
	for _, v := range slices.Clone(l.queue) {
		if v.deadline.Before(now.Add(after)) {
			l.remove(v)
			v.end(nil, reason)
		} else {
			v.reason = reason
		}
	}
}

// queue is a heap of visitors.
type queue []*visitor

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].tag != q[j].tag {
		return q[i].tag < q[j].tag
	}
	return q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*visitor)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return v
}
