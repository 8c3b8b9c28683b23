package demo

import (
	"encoding/json"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/toolyard/toolyard"
)

// How much is in the past.
const (
	pastDays     = 14
	pastCalls    = 17_500 // until the last hour
	callsAMinute = 45     // in the last hour
)

// Moment is a call that somebody made.
type Moment struct {
	*Act
	At      time.Time
	Caller  toolyard.Caller
	Sent    json.RawMessage
	Code    toolyard.Code
	Elapsed time.Duration
	Result  int // bytes
}

// Paid is what was paid for it.
func (m *Moment) Paid() toolyard.Money {
	if m.Code != toolyard.OK {
		return 0
	}
	return m.Price
}

// Message is what its caller was told if it failed.
func (m *Moment) Message() string {
	switch m.Code {
	case toolyard.OK:
		return ""
	case toolyard.Invalid:
		return "Invalid arguments for " + m.Tool
	case toolyard.RateLimited:
		return "The limit of the tool " + m.Tool + " is reached. Try again later."
	case toolyard.Timeout:
		return "The call of " + m.Tool + " took longer than " + m.Elapsed.String() + "."
	}
	return m.Says
}

// Past are the calls of the last two weeks, the oldest hour first: most in office hours, few
// at the weekend, more from day to day.
func Past(now time.Time, r *rand.Rand) iter.Seq[Moment] {
	const hours = pastDays * 24
	start, total := now.Add(-hours*time.Hour), 0.0
	for h := range hours - 1 {
		total += busy(start.Add(time.Duration(h)*time.Hour), h)
	}
	return func(yield func(Moment) bool) {
		for h := range hours {
			hour := start.Add(time.Duration(h) * time.Hour)
			n := int(math.Round(pastCalls*busy(hour, h)/total*(0.85+0.3*r.Float64()) + 0.2))
			if h == hours-1 {
				n = 60 * callsAMinute
			}
			for range n {
				if !yield(moment(hour.Add(time.Duration(r.Int64N(int64(time.Hour)))), r)) {
					return
				}
			}
		}
	}
}

// busy is how much is going on in an hour, the hth of all.
func busy(at time.Time, h int) float64 {
	b := 0.12 + math.Exp(-math.Pow(float64(at.Hour())-13, 2)/18)
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		b *= 0.3
	}
	return b * (1 + float64(h)/600)
}

// moment is a call as it may have been.
func moment(at time.Time, r *rand.Rand) Moment {
	m := Moment{Act: Next(r), At: at.UTC().Truncate(time.Microsecond), Code: toolyard.OK, Result: 90 + r.IntN(700)}
	m.Caller = m.Act.Caller(r)
	m.Elapsed = time.Duration(float64(m.Takes) * math.Exp(0.35*r.NormFloat64()))
	switch p := r.Float64(); {
	case p < 0.03:
		m.Code, m.Elapsed = toolyard.Invalid, time.Duration(40+r.IntN(80))*time.Microsecond
	case p < 0.03+m.Fails:
		m.Code = m.Fault
	case m.Limited && p > 0.9:
		m.Code, m.Elapsed = toolyard.RateLimited, time.Duration(r.IntN(10_000))*milli
	case m.Limited && p > 0.7: // it waited for its turn
		m.Elapsed += time.Duration(r.IntN(6_000)) * milli
	case m.Server != "" && p > 0.996:
		m.Code, m.Elapsed = toolyard.Timeout, 10*time.Second
	}
	if m.Code != toolyard.OK && m.Code != toolyard.ToolError {
		m.Result = 0
	}
	m.Sent = m.Args(r, m.Code == toolyard.Invalid)
	return m
}
