package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// quay is the in-memory state of Harbor's tools.
type quay struct {
	mu       sync.Mutex
	bookings []booking // in order of creation
	created  int
	notices  int
}

// maxBookings is the maximum number of stored bookings. The oldest are dropped.
const maxBookings = 200

type ship struct {
	Name   string  `json:"name" minLength:"2" maxLength:"60"`
	IMO    string  `json:"imo" doc:"IMO number, seven digits" pattern:"^[0-9]{7}$"`
	Length float64 `json:"lengthMetres" minimum:"5" maximum:"400"`
}

type booking struct {
	Number   string    `json:"number"`
	Berth    string    `json:"berth"`
	Ship     string    `json:"ship"`
	Arrives  time.Time `json:"arrives"`
	Leaves   time.Time `json:"leaves"`
	Services []string  `json:"services,omitempty"`
}

type bookArgs struct {
	Ship     ship      `json:"ship"`
	Berth    string    `json:"berth" enum:"A1,A2,B1,B2,C1,C2"`
	Arrives  time.Time `json:"arrives"`
	Hours    int       `json:"hours" doc:"Length of the stay" minimum:"1" maximum:"72" default:"12"`
	Services []string  `json:"services,omitempty" doc:"Services at the quay" enum:"pilot,tugs,shore_power,bunkering,waste" uniqueItems:"true"`
}

func (q *quay) book(_ context.Context, _ *toolyard.Call, in bookArgs) (booking, error) {
	b := booking{
		Berth: in.Berth, Ship: in.Ship.Name, Services: in.Services,
		Arrives: in.Arrives.UTC(), Leaves: in.Arrives.UTC().Add(time.Duration(in.Hours) * time.Hour),
	}
	if in.Ship.Length > 250 && in.Berth[0] != 'A' {
		return b, refuse("%s is too long for berth %s; only A1 and A2 fit ships over 250 m.", b.Ship, b.Berth)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, other := range q.bookings {
		if other.Berth == b.Berth && b.Arrives.Before(other.Leaves) && other.Arrives.Before(b.Leaves) {
			return b, refuse("Berth %s is occupied by %s until %s.", b.Berth, other.Ship, other.Leaves.Format(time.RFC3339))
		}
	}
	q.created++
	b.Number = fmt.Sprintf("HB-%05d", q.created)
	q.bookings = append(q.bookings[max(0, len(q.bookings)-maxBookings+1):], b)
	return b, nil
}

type planArgs struct {
	Berth string `json:"berth,omitempty" doc:"Only this berth" enum:"A1,A2,B1,B2,C1,C2"`
	Most  int    `json:"most" doc:"Maximum number of bookings" minimum:"1" maximum:"100" default:"20"`
}

func (q *quay) plan(_ context.Context, _ *toolyard.Call, in planArgs) ([]booking, error) {
	q.mu.Lock()
	list := slices.Clone(q.bookings)
	q.mu.Unlock()
	list = slices.DeleteFunc(list, func(b booking) bool { return in.Berth != "" && b.Berth != in.Berth })
	slices.SortFunc(list, func(a, b booking) int { return a.Arrives.Compare(b.Arrives) })
	return append([]booking{}, list[:min(len(list), in.Most)]...), nil
}

type noticeArgs struct {
	To       []string `json:"to" doc:"Recipients" enum:"master,pilot,customs,terminal,owner" minItems:"1" uniqueItems:"true"`
	Channel  string   `json:"channel" enum:"email,radio,sms" default:"email"`
	Priority string   `json:"priority" enum:"routine,urgent,distress" default:"routine"`
	Text     string   `json:"text" minLength:"5" maxLength:"1000"`
}

type noticeSent struct {
	Number     string `json:"number"`
	Recipients int    `json:"recipients"`
}

func noticeSpec() toolyard.Spec {
	s := spec("send_notice", "Send a notice", "operations", "Sends a notice about a ship to the parties concerned.", "")
	s.Limit = toolyard.Limit{PerMinute: 30, Cooldown: 500 * time.Millisecond, Notes: "Put all recipients into one call."}
	s.Latency = "fast"
	return s
}

func (q *quay) notify(_ context.Context, c *toolyard.Call, in noticeArgs) (noticeSent, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.notices++
	c.Logger().Info("notice", "channel", in.Channel, "priority", in.Priority, "recipients", len(in.To))
	return noticeSent{fmt.Sprintf("N-%04d", q.notices), len(in.To)}, nil
}
