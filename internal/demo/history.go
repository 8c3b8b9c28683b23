package demo

import (
	"encoding/json"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/toolyard/toolyard"
)

// Size of the history.
const (
	historyDays    = 14
	historyCalls   = 17_500 // calls before the last hour
	callsPerMinute = 45     // calls per minute in the last hour
)

// PastCall is a call in the generated history.
type PastCall struct {
	*CallPattern
	At      time.Time
	Caller  toolyard.Caller
	Sent    json.RawMessage // arguments
	Code    toolyard.Code
	Elapsed time.Duration
	Result  int // size in bytes
}

// Paid returns the amount charged for the call.
func (m *PastCall) Paid() toolyard.Money {
	if m.Code != toolyard.OK {
		return 0
	}
	return m.Price
}

// Message returns the error message of a failed call.
func (m *PastCall) Message() string {
	switch m.Code {
	case toolyard.OK:
		return ""
	case toolyard.Invalid:
		return "Invalid arguments for " + m.Tool
	case toolyard.RateLimited:
		return "The limit for " + m.Tool + " has been reached. Try again later."
	case toolyard.Timeout:
		return "The call of " + m.Tool + " took longer than " + m.Elapsed.String() + "."
	}
	return m.FailureText
}

// History generates the calls of the last two weeks, oldest hour first. Most calls are in office
// hours, few on weekends, and the number grows every day. It includes calls to packs if packs is
// set.
func History(now time.Time, r *rand.Rand, packs bool) iter.Seq[PastCall] {
	traffic := NewTraffic(func(p *CallPattern) bool { return !p.NoHistory && (packs || !p.Pack) })
	const hours = historyDays * 24
	start, total := now.Add(-hours*time.Hour), 0.0
	for h := range hours - 1 {
		total += load(start.Add(time.Duration(h)*time.Hour), h)
	}
	return func(yield func(PastCall) bool) {
		for h := range hours {
			hour := start.Add(time.Duration(h) * time.Hour)
			n := int(math.Round(historyCalls*load(hour, h)/total*(0.85+0.3*r.Float64()) + 0.2))
			if h == hours-1 {
				n = 60 * callsPerMinute
			}
			for range n {
				if !yield(pastCall(traffic.Next(r), hour.Add(time.Duration(r.Int64N(int64(time.Hour)))), r)) {
					return
				}
			}
		}
	}
}

// load returns the relative traffic in hour h of the history.
func load(at time.Time, h int) float64 {
	b := 0.12 + math.Exp(-math.Pow(float64(at.Hour())-13, 2)/18)
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		b *= 0.3
	}
	return b * (1 + float64(h)/600)
}

// pastCall generates one call.
func pastCall(p *CallPattern, at time.Time, r *rand.Rand) PastCall {
	m := PastCall{CallPattern: p, At: at.UTC().Truncate(time.Microsecond), Code: toolyard.OK, Result: 90 + r.IntN(700)}
	m.Caller = m.CallPattern.Caller(r)
	m.Elapsed = time.Duration(float64(m.Duration) * math.Exp(0.35*r.NormFloat64()))
	switch p := r.Float64(); {
	case p < 0.03:
		m.Code, m.Elapsed = toolyard.Invalid, time.Duration(40+r.IntN(80))*time.Microsecond
	case p < 0.03+m.FailureRate:
		m.Code = m.FailureCode
	case m.Limited && p > 0.9:
		m.Code, m.Elapsed = toolyard.RateLimited, time.Duration(r.IntN(10_000))*milli
	case m.Limited && p > 0.7: // the call waited for the limit
		m.Elapsed += time.Duration(r.IntN(6_000)) * milli
	case m.Server != "" && p > 0.996:
		m.Code, m.Elapsed = toolyard.Timeout, 10*time.Second
	}
	if m.Code != toolyard.OK && m.Code != codeToolError {
		m.Result = 0
	}
	m.Sent = m.Args(r, m.Code == toolyard.Invalid)
	return m
}
