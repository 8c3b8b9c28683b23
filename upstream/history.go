package upstream

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Event is one entry in a server's history.
type Event struct {
	At   time.Time
	Kind string
	Text string
}

// Kinds of events.
const (
	EventStart    = "start"    // an attempt to reach the server begins
	EventUp       = "up"       // the server can be called
	EventDown     = "down"     // an attempt or a session has ended
	EventChanged  = "changed"  // a definition differs from the approved one
	EventApproved = "approved" // definitions were approved
	EventRejected = "rejected" // definitions were rejected
)

// maxHistory is the maximum number of events in a history.
const maxHistory = 100

// history holds the most recent events. The zero value is empty.
type history struct {
	mu     sync.Mutex
	events []repeatedEvent // oldest first
}

// repeatedEvent is an event that may have occurred several times in a row. Its time is that of the
// last occurrence.
type repeatedEvent struct {
	Event
	count int
}

func (r *repeatedEvent) matches(kind, text string) bool {
	return r.Kind == kind && r.Text == text && text != ""
}

// add adds an event. It only counts repeated events, and attempts that fail in the same way as the
// previous one.
func (h *history) add(kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.events)
	if kind == EventDown && n > 1 && h.events[n-1].Kind == EventStart && h.events[n-2].matches(kind, text) {
		n--
		h.events = h.events[:n]
	}
	if n > 0 && h.events[n-1].matches(kind, text) {
		last := &h.events[n-1]
		last.At, last.count = time.Now(), last.count+1
		return
	}
	if n == maxHistory {
		h.events = slices.Delete(h.events, 0, 1)
	}
	h.events = append(h.events, repeatedEvent{Event{time.Now(), kind, text}, 1})
}

// newest returns the events, newest first.
func (h *history) newest() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Event, 0, len(h.events))
	for _, r := range slices.Backward(h.events) {
		if r.count > 1 {
			r.Text += fmt.Sprintf(", %d times", r.count)
		}
		list = append(list, r.Event)
	}
	return list
}
