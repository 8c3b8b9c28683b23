package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/live"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Live tells of calls as they happen.
type Live interface {
	Watch(wants func(account, caller, server, tool, gate string) bool) (*live.Watch, []*live.Call)
	Find(id string) (*live.Call, bool)
}

// Bounds on streams.
const (
	maxStreams = 200 // at once
	plain      = 100 // of them, of callers who see only what is their own
	ownStreams = 20  // of these, of one caller
	firstCalls = 100 // that a stream begins with
	beatTime   = 15 * time.Second
	eventTime  = 10 * time.Second // for one event to be written
)

// watchCalls streams calls as they happen, until the client hangs up.
func (a *v1) watchCalls(r *request) (*reply, error) {
	p := &r.params
	account, failed := p.account(r.caller), p.flag("failed")
	switch {
	case p.err != nil:
		return nil, p.err
	case a.Live == nil:
		return nil, notFound("Nobody can watch calls here.")
	}
	if !a.streams.take(r.caller) {
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many watch calls at once.", RetryAfter: beatTime}
	}
	defer a.streams.giveBack(r.caller)
	is := func(name, value string) bool { return p.values[name] == "" || p.values[name] == value }
	watch, last := a.Live.Watch(func(of, caller, server, tool, gate string) bool {
		return (account == "" || account == of) && is("caller", caller) && is("server", cmp.Or(server, store.Local)) && is("tool", tool) && is("gate", gate)
	})
	defer watch.Close()
	s := newStream(r.w)
	if r.Method == http.MethodHead {
		return nil, nil
	}
	for _, c := range last[max(0, len(last)-firstCalls):] {
		if !failed || c.Code != toolyard.OK {
			s.event("call", c)
		}
	}
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for s.err == nil {
		s.flush()
		select {
		case e := <-watch.Events():
			s.tell(e, failed)
		case <-beat.C:
			if c, err := a.admit(r.Request, caller); err != nil || c.ID != r.caller.ID || p.account(c) != account || p.err != nil {
				return nil, nil // the key is good for this no longer
			}
			s.comment()
		case <-watch.Done():
			return nil, nil
		case <-r.Context().Done():
			return nil, nil
		}
	}
	return nil, nil
}

// streams counts those who watch. Those who look after a yard are not kept out by its callers.
type streams struct {
	mu         sync.Mutex
	all, plain int
	of         map[string]int // of plain callers
}

// take counts a stream of a caller, unless there are too many.
func (s *streams) take(c toolyard.Caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams {
		return false
	}
	if !identity.Views(c) {
		if s.plain >= plain || s.of[c.ID] >= ownStreams {
			return false
		}
		if s.of == nil {
			s.of = make(map[string]int)
		}
		s.plain++
		s.of[c.ID]++
	}
	s.all++
	return true
}

func (s *streams) giveBack(c toolyard.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if identity.Views(c) {
		return
	}
	s.plain--
	if s.of[c.ID]--; s.of[c.ID] == 0 {
		delete(s.of, c.ID)
	}
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func newStream(w http.ResponseWriter) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	s := &stream{w: w, control: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	return s
}

// tell writes an event of the hub.
func (s *stream) tell(e live.Event, failed bool) {
	switch {
	case e.Lost > 0:
		s.event("lost", map[string]int{"count": e.Lost})
	case e.Begun != nil && !failed:
		s.event("begin", e.Begun)
	case e.Call != nil && (!failed || e.Call.Code != toolyard.OK):
		s.event("call", e.Call)
	}
}

func (s *stream) event(kind string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		return // one that has no JSON form is nobody's business
	}
	s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, raw))
}

func (s *stream) comment() { s.write(": still here\n\n") }

func (s *stream) write(text string) {
	if s.err == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(eventTime))
		_, s.err = io.WriteString(s.w, text)
	}
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.control.Flush()
	}
}
