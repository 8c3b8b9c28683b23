package upstream

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Event is something that became of a server.
type Event struct {
	At   time.Time
	Kind string
	Text string
}

// The kinds of events.
const (
	EventStart    = "start"    // an attempt to reach it begins
	EventUp       = "up"       // it can be used
	EventDown     = "down"     // an attempt or a session has ended
	EventChanged  = "changed"  // it offers something that is not as it was approved
	EventApproved = "approved" // somebody has approved what it offers
	EventRejected = "rejected" // somebody does not want what it offers
)

// maxHistory is how many events are kept.
const maxHistory = 100

// history is the last that became of a server. The zero value is empty.
type history struct {
	mu     sync.Mutex
	events []repeated // the newest last
}

// repeated is an event that may have happened several times in a row, the last time when it
// says.
type repeated struct {
	Event
	times int
}

func (r *repeated) is(kind, text string) bool { return r.Kind == kind && r.Text == text && text != "" }

// add notes an event. One that is like the last is counted there, and so is an attempt that
// failed like the one before.
func (h *history) add(kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.events)
	if kind == EventDown && n > 1 && h.events[n-1].Kind == EventStart && h.events[n-2].is(kind, text) {
		n--
		h.events = h.events[:n]
	}
	if n > 0 && h.events[n-1].is(kind, text) {
		last := &h.events[n-1]
		last.At, last.times = time.Now(), last.times+1
		return
	}
	if n == maxHistory {
		h.events = slices.Delete(h.events, 0, 1)
	}
	h.events = append(h.events, repeated{Event{time.Now(), kind, text}, 1})
}

// newest are the events, the newest first.
func (h *history) newest() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Event, 0, len(h.events))
	for _, r := range slices.Backward(h.events) {
		if r.times > 1 {
			r.Text += fmt.Sprintf(", %d times", r.times)
		}
		list = append(list, r.Event)
	}
	return list
}

// event notes what became of the server, in words that can be shown.
func (v *Server) event(kind, text string) {
	v.history.add(kind, untrusted.Truncate(inOneLine(v.opts.Redact(text)), maxLine))
}
