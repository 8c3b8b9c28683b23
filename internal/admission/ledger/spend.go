package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
)

// maxSpendReservations is the maximum number of running calls that count against one spend limit.
const maxSpendReservations = 1000

// Period is the calendar period of a spend limit, in UTC.
type Period string

// The periods.
const (
	Day   Period = "day"
	Month Period = "month"
)

// start returns the start of the period that contains the given time.
func (p Period) start(at time.Time) time.Time {
	year, month, day := at.UTC().Date()
	if p == Month {
		day = 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// end returns the end of the period that begins at start.
func (p Period) end(start time.Time) time.Time {
	if p == Month {
		return start.AddDate(0, 1, 0)
	}
	return start.AddDate(0, 0, 1)
}

// SpendLimit is the maximum price of all calls in a period.
type SpendLimit struct {
	Key    string // calls with the same key share the limit
	Name   string // for messages
	Max    toolyard.Money
	Period Period
}

// spendState is a spend limit's usage, stored as JSON like that of other limits. A call counts
// toward the period in which it was admitted.
type spendState struct {
	Start    time.Time      `json:"start"` // start of the period
	Spent    toolyard.Money `json:"spent"` // spending of settled calls in the period
	Reserved []reservation  `json:"reserved,omitempty"`
	Next     time.Time      `json:"next"` // end of the period; the state is stored at least until then
	Last     time.Time      `json:"last"` // latest time seen; never moves back
}

// reservation is the price of a running call.
type reservation struct {
	Call   string         `json:"call"`
	Amount toolyard.Money `json:"usd"`
	Start  time.Time      `json:"start"` // start of the period that counts the call
	Until  time.Time      `json:"until"`
}

func (b *books) spend(key string) (*spendState, error) {
	if s := b.spends[key]; s != nil {
		return s, nil
	}
	s, err := decodeSpend(b.Limits[key].State)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if s.Last.Before(b.Now) { // if the clock moves back, the limit's time does not advance
		s.Last = b.Now
	}
	b.spends[key] = s
	return s, nil
}

func decodeSpend(raw json.RawMessage) (*spendState, error) {
	s := &spendState{}
	if raw == nil {
		return s, nil
	}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("decode spend limit state: %w", err)
	}
	return s, nil
}

func (s *spendState) encode() json.RawMessage {
	raw, _ := json.Marshal(s) //nolint:errchkjson // cannot fail
	return raw
}

// renew starts a new period if the previous one is over, and drops expired reservations.
func (s *spendState) renew(p Period) {
	s.Reserved = slices.DeleteFunc(s.Reserved, func(r reservation) bool { return !r.Until.After(s.Last) })
	if start := p.start(s.Last); !start.Equal(s.Start) {
		s.Start, s.Spent = start, 0
	}
	s.Next = p.end(s.Start)
}

// reserved returns the total price of the running calls that count toward the period.
func (s *spendState) reserved() (sum toolyard.Money) {
	for _, r := range s.Reserved {
		if r.Start.Equal(s.Start) {
			sum += r.Amount
		}
	}
	return sum
}

// refuse returns the reason if a call with the given price exceeds the limit, or nil.
func (s *spendState) refuse(l *SpendLimit, price toolyard.Money) *Refusal {
	reserved := s.reserved()
	left := l.Max - s.Spent - reserved
	if price <= left && len(s.Reserved) < maxSpendReservations {
		return nil
	}
	r := &Refusal{Code: toolyard.BudgetExceeded, SpendLimit: l.Key, Message: fmt.Sprintf(
		"The spend limit for %s has been reached: %s USD per %s. The call costs %[5]s USD, but only %[4]s USD remains. The limit resets at %[6]s.",
		l.Name, l.Max, l.Period, max(0, left), price, s.Next.Format("2006-01-02 15:04 UTC"))}
	if price <= left+reserved {
		r.RetryAfter = soon // failed calls return their reservation
	}
	if price <= l.Max {
		r.RenewsAfter = s.Next.Sub(s.Last)
	}
	return r
}

// refuseSpend returns a refusal for the first spend limit that a call exceeds, or nil.
func (b *books) refuseSpend(a *AdmitRequest) (*Refusal, error) {
	for i := range a.Spend {
		l := &a.Spend[i]
		s, err := b.spend(l.Key)
		if err != nil {
			return nil, err
		}
		s.renew(l.Period)
		if refused := s.refuse(l, a.Price); refused != nil {
			return refused, nil
		}
	}
	return nil, nil
}

// reserveSpend counts the price of an admitted call against its spend limits.
func (b *books) reserveSpend(a *AdmitRequest) {
	for _, l := range a.Spend {
		s := b.spends[l.Key]
		s.Reserved = append(s.Reserved, reservation{a.Call, a.Price, s.Start, b.Now.Add(a.Timeout + Grace)})
	}
}

// holdsSpend reports whether all of a call's reservations still exist. Other calls may have used
// money from expired ones.
func (b *books) holdsSpend(call string, keys []string) (bool, error) {
	for _, key := range keys {
		s, err := b.spend(key)
		if err != nil {
			return false, err
		}
		if s.find(call) < 0 {
			return false, nil
		}
	}
	return true, nil
}

// settleSpend ends a call's reservations and counts the charged amount.
func (b *books) settleSpend(call string, keys []string, charged toolyard.Money) error {
	for _, key := range keys {
		s, err := b.spend(key)
		if err != nil {
			return err
		}
		i := s.find(call)
		if i < 0 {
			continue
		}
		if s.Reserved[i].Start.Equal(s.Start) {
			s.Spent += charged
		}
		s.Reserved = slices.Delete(s.Reserved, i, i+1)
	}
	return nil
}

// find returns the index of a call's reservation, or -1.
func (s *spendState) find(call string) int {
	return slices.IndexFunc(s.Reserved, func(r reservation) bool { return r.Call == call })
}

// SpendUsage is the current usage of a spend limit.
type SpendUsage struct {
	Spent  toolyard.Money // including the amount reserved for running calls
	Renews time.Time
}

// SpendUsed computes a spend limit's usage from its state.
func SpendUsed(state json.RawMessage, p Period, now time.Time) (SpendUsage, error) {
	s, err := decodeSpend(state)
	if err != nil {
		return SpendUsage{}, err
	}
	if s.Last.Before(now) {
		s.Last = now
	}
	s.renew(p)
	return SpendUsage{Spent: s.Spent + s.reserved(), Renews: s.Next}, nil
}
