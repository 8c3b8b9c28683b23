package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
)

// leased is a part of a limit leased by a replica.
type leased struct {
	replica string
	n       int
	slot    int64     // epoch of the permits
	at      time.Time // when it was granted
	until   time.Time // end of the lease, as seen by the replica
}

// limitMachine drives one limit at random: replicas request, use, return and fail, while the
// store's clock jumps.
type limitMachine struct {
	limit    toolyard.Limit
	raw      json.RawMessage
	now      time.Time     // real time
	offset   time.Duration // offset of the store's clock
	jumps    bool          // the store's clock also jumps forward, so only the store's time counts
	names    int
	replicas []string // replicas that still request
	permits  []leased
	slots    []leased
	turns    []leased
	next     map[string]time.Time // when each replica may start the next call
	begun    time.Time            // start of the last call
}

func newLimitMachine(t *rapid.T) *limitMachine {
	m := &limitMachine{
		now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), next: map[string]time.Time{}, jumps: rapid.Bool().Draw(t, "jumps"),
		limit: toolyard.Limit{
			PerMinute:   rapid.SampledFrom([]int{0, 1, 3, 60}).Draw(t, "per minute"),
			Concurrency: rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "concurrency"),
			Cooldown:    rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, 3 * time.Second}).Draw(t, "cooldown"),
		},
	}
	for range 3 {
		m.join()
	}
	return m
}

func (m *limitMachine) join() {
	m.names++
	m.replicas = append(m.replicas, fmt.Sprint("r", m.names))
}

// clock returns the time used to check leases: real time, or the store's time if its clock jumps
// ahead, because the store cannot distinguish a jump from elapsed time.
func (m *limitMachine) clock() time.Time {
	if !m.jumps {
		return m.now
	}
	p := m.read()
	return p.Last
}

func (m *limitMachine) read() *limitState {
	p, err := decodeLimit(m.raw, m.limit, m.now.Add(m.offset))
	if err != nil {
		panic(err)
	}
	return p
}

func (m *limitMachine) with(do func(*limitState)) {
	p := m.read()
	do(p)
	m.raw = p.encode()
}

func (m *limitMachine) replica(t *rapid.T) string {
	return rapid.SampledFrom(m.replicas).Draw(t, "replica")
}

const slotTTL = 10 * time.Second

func (m *limitMachine) ask(t *rapid.T) {
	r := m.replica(t)
	a := LimitRequest{Key: "k", Limit: m.limit, Permits: rapid.IntRange(0, 5).Draw(t, "permits"), Concurrency: rapid.IntRange(0, 3).Draw(t, "slots"), SlotTTL: slotTTL}
	a.StartRight = m.limit.Cooldown > 0 && !slices.ContainsFunc(m.turns, func(l leased) bool { return l.replica == r && l.until.After(m.clock()) })
	now := m.clock()
	var g LimitGrant
	m.with(func(p *limitState) { g = p.lease(r, a) })
	if g.Permits > a.Permits || g.Concurrency > a.Concurrency || (g.StartRight && !a.StartRight) {
		t.Fatalf("asked for %+v, and got %+v", a, g)
	}
	if m.limit.PerMinute > 0 && g.Permits > 0 {
		m.permits = append(m.permits, leased{r, g.Permits, g.Epoch, now, now.Add(PermitTTL)})
	}
	if m.limit.Concurrency > 0 && g.Concurrency > 0 {
		m.slots = append(m.slots, leased{replica: r, n: g.Concurrency, at: now, until: now.Add(slotTTL), slot: g.Epoch})
	}
	if m.limit.Cooldown > 0 && g.StartRight {
		m.turns = append(m.turns, leased{replica: r, n: 1, slot: g.Epoch, at: now, until: now.Add(StartRightTTL)})
	}
}

// pick chooses one of a replica's leases at random and returns its index in the list.
func (m *limitMachine) pick(t *rapid.T, list []leased, label string) int {
	var own []int
	for i, l := range list {
		if l.n > 0 && l.until.After(m.clock()) && slices.Contains(m.replicas, l.replica) {
			own = append(own, i)
		}
	}
	if len(own) == 0 {
		return -1
	}
	return rapid.SampledFrom(own).Draw(t, label)
}

// unused returns unused permits.
func (m *limitMachine) unused(t *rapid.T) {
	if i := m.pick(t, m.permits, "lease"); i >= 0 {
		l := &m.permits[i]
		n := rapid.IntRange(1, l.n).Draw(t, "n")
		l.n -= n
		m.with(func(p *limitState) {
			p.giveBack(l.replica, LimitReturn{Key: "k", Limit: m.limit, Permits: n, Epoch: l.slot})
		})
	}
}

// ended returns the slots of finished calls.
func (m *limitMachine) ended(t *rapid.T) {
	if i := m.pick(t, m.slots, "lease"); i >= 0 {
		l := &m.slots[i]
		l.n--
		m.with(func(p *limitState) {
			p.giveBack(l.replica, LimitReturn{Key: "k", Limit: m.limit, Concurrency: 1, Epoch: l.slot})
		})
	}
}

// begin starts a call, and either returns or keeps the start right.
func (m *limitMachine) begin(t *rapid.T) {
	i := m.pick(t, m.turns, "lease")
	if i < 0 || m.clock().Before(m.next[m.turns[i].replica]) {
		return
	}
	l, now := &m.turns[i], m.clock()
	if d := now.Sub(m.begun); d < m.limit.Cooldown {
		t.Fatalf("two calls began within %v", d)
	}
	m.begun, m.next[l.replica] = now, now.Add(m.limit.Cooldown)
	if rapid.Bool().Draw(t, "give back") {
		l.n = 0
		m.with(func(p *limitState) {
			p.giveBack(l.replica, LimitReturn{Key: "k", Limit: m.limit, StartRight: true, Epoch: l.slot})
		})
	}
}

// silence stops a replica from sending requests. It may still use its leases.
func (m *limitMachine) silence(t *rapid.T) {
	i := rapid.IntRange(0, len(m.replicas)-1).Draw(t, "silent")
	m.replicas = slices.Delete(m.replicas, i, i+1)
	m.join()
}

func (m *limitMachine) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.OneOf(rapid.IntRange(1, 1500), rapid.IntRange(1, 70_000)).Draw(t, "ms")) * time.Millisecond)
}

func (m *limitMachine) step(t *rapid.T) {
	by := time.Duration(rapid.IntRange(-3600, 0).Draw(t, "s")) * time.Second
	if m.jumps && rapid.Bool().Draw(t, "forward") {
		by = -by
	}
	m.with(func(*limitState) {}) // the limit has seen the earlier time
	m.offset += by
}

// invariant is checked after every step, no matter when replicas use their leases.
func (m *limitMachine) invariant(t *rapid.T) {
	now := m.clock()
	m.permits = slices.DeleteFunc(m.permits, func(l leased) bool { return now.Sub(l.at) >= time.Minute+PermitTTL })
	m.slots = slices.DeleteFunc(m.slots, func(l leased) bool { return !l.until.After(now) })
	m.turns = slices.DeleteFunc(m.turns, func(l leased) bool { return !l.until.After(now) })
	if n := total(m.permits); m.limit.PerMinute > 0 && n > m.limit.PerMinute {
		t.Fatalf("%d calls may begin within a minute: %+v", n, m.permits)
	}
	if n := total(m.slots); m.limit.Concurrency > 0 && n > m.limit.Concurrency {
		t.Fatalf("%d calls may run concurrently: %+v", n, m.slots)
	}
	if n := total(m.turns); n > 1 {
		t.Fatalf("%d replicas have the turn: %+v", n, m.turns)
	}
	if n := len(m.raw); n > 20_000 {
		t.Fatalf("the state has %d bytes", n)
	}
}

func total(list []leased) (n int) {
	for _, l := range list {
		n += l.n
	}
	return n
}

// No sequence of requests and returns grants more than the limit, even if replicas fail and the
// clock goes back.
func TestLimitsAreNeverPassed(t *testing.T) {
	for range 5 {
		rapid.Check(t, func(t *rapid.T) {
			m := newLimitMachine(t)
			t.Repeat(map[string]func(*rapid.T){
				"ask": m.ask, "ask 2": m.ask, "ask 3": m.ask, "unused": m.unused, "ended": m.ended, "begin": m.begin, "begin 2": m.begin,
				"silence": m.silence, "pass": m.pass, "pass 2": m.pass, "step": m.step, "": m.invariant,
			})
		})
	}
}

// waiter is a replica that always requests more.
type waiter struct {
	name   string
	served time.Time
	slots  int
	slot   int64 // epoch of the grant
}

// Replicas that always request more than is available all get a share repeatedly, even if others
// fail while holding leases.
func TestEveryReplicaGetsAShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newLimitMachine(t)
		m.jumps = false
		m.limit.PerMinute = rapid.SampledFrom([]int{0, 3, 60}).Draw(t, "of a minute")
		if !m.limit.Limited() {
			return
		}
		for range rapid.IntRange(0, 30).Draw(t, "before") {
			m.ask(t)
			m.pass(t)
		}
		var all []*waiter
		for i := range rapid.IntRange(2, 6).Draw(t, "waiters") {
			all = append(all, &waiter{name: fmt.Sprint("w", i), served: m.now})
		}
		longest := longestWait(m.limit, len(all))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for end := m.now.Add(2 * longest); m.now.Before(end); m.now = m.now.Add(300 * time.Millisecond) {
			m.with(func(p *limitState) {
				for _, w := range all {
					w.ask(p, m.limit, 1+random.IntN(20))
				}
			})
			for _, w := range all {
				if d := m.now.Sub(w.served); d > longest {
					t.Fatalf("%s of %d got nothing for %v of %+v", w.name, len(all), d, m.limit)
				}
			}
		}
	})
}

// longestWait is an upper bound on the wait of any of n replicas: the minutes needed to serve them
// one after another, plus their start rights, each of which may expire.
func longestWait(l toolyard.Limit, n int) time.Duration {
	wait := 2*slotTTL + time.Duration(n)*(l.Cooldown+StartRightTTL)
	if l.PerMinute > 0 {
		wait += time.Duration(2+n/l.PerMinute) * (time.Minute + 2*PermitTTL)
	}
	return wait
}

// ask returns the previous grant and requests what the replica needs.
func (w *waiter) ask(p *limitState, l toolyard.Limit, wanted int) {
	if w.slots > 0 {
		p.giveBack(w.name, LimitReturn{Key: "k", Limit: l, Concurrency: w.slots, Epoch: w.slot})
	}
	g := p.lease(w.name, LimitRequest{Key: "k", Limit: l, Permits: wanted, Concurrency: wanted, StartRight: l.Cooldown > 0, SlotTTL: slotTTL})
	w.slots, w.slot = g.Concurrency, g.Epoch
	if g.Permits > 0 {
		w.served = p.Last
	}
	if g.StartRight {
		p.giveBack(w.name, LimitReturn{Key: "k", Limit: l, StartRight: true, Epoch: g.Epoch})
	}
}

// The permits of a minute become available again a minute after the last of them could have been
// used, and not much later.
func TestAMinuteIsAMinute(t *testing.T) {
	limit := toolyard.Limit{PerMinute: 2}
	for phase := time.Duration(0); phase < epochLength; phase += 7 * time.Millisecond {
		first := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC).Add(phase)
		p, ask := &limitState{Last: first}, LimitRequest{Key: "k", Limit: limit, Permits: 2}
		if g := p.lease("a", ask); g.Permits != 2 {
			t.Fatalf("%+v", g)
		}
		for p.Last = first.Add(time.Minute); ; p.Last = p.Last.Add(time.Millisecond) {
			p.expire(limit)
			if p.lease("a", ask).Permits > 0 {
				break
			}
		}
		if d := p.Last.Sub(first); d < time.Minute+PermitTTL || d > time.Minute+PermitTTL+epochLength {
			t.Errorf("the next were granted %v later", d)
		}
	}
}

// An expired start right cannot be returned, because the replica may already have another one.
func TestAnOldTurnIsNotGivenBack(t *testing.T) {
	ask := LimitRequest{Key: "k", Limit: toolyard.Limit{Cooldown: time.Millisecond}, StartRight: true}
	p := &limitState{Last: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	first := p.lease("a", ask)
	p.Last = p.Last.Add(2 * StartRightTTL)
	p.expire(ask.Limit)
	second := p.lease("a", ask)
	if !first.StartRight || !second.StartRight {
		t.Fatalf("%+v, %+v", first, second)
	}
	p.giveBack("a", LimitReturn{Key: "k", Limit: ask.Limit, StartRight: true, Epoch: first.Epoch})
	if p.StartRight == nil {
		t.Error("the second turn was given back")
	}
	p.giveBack("a", LimitReturn{Key: "k", Limit: ask.Limit, StartRight: true, Epoch: second.Epoch})
	if p.StartRight != nil {
		t.Error("the second turn was not returned")
	}
}
