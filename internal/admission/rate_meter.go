package admission

import "time"

type rateMeter struct {
	rate float64 // per second
	last time.Time
	n    int // number of uses since from
	from time.Time
}

const (
	// meterTime is the duration of one measurement.
	meterTime = 50 * time.Millisecond
	// leaseAhead is how far in advance demand is leased.
	leaseAhead = 250 * time.Millisecond
	// minAhead is the minimum number of uses leased in advance.
	minAhead = 4
)

func (m *rateMeter) count(now time.Time) {
	m.last = now
	if m.from.IsZero() {
		m.from = now
	}
	m.n++
	if d := now.Sub(m.from); d >= meterTime {
		m.rate += (float64(m.n)/d.Seconds() - m.rate) / 2
		m.n, m.from = 0, now
	}
}

// expected returns the number of uses to lease in advance.
func (m *rateMeter) expected(now time.Time) int {
	if now.Sub(m.last) >= meterTime {
		return 0
	}
	if n := int(m.rate * leaseAhead.Seconds()); n >= minAhead {
		return n
	}
	return 0
}
