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

// Live streams calls as they start and end.
type Live interface {
	// Observe returns a stream of matching calls, together with the most recent ones.
	Observe(matches func(account, caller, server, tool, gate string) bool) (*live.Observer, []*live.Call)
	Find(id string) (*live.Call, bool)
}

// Limits on streams.
const (
	maxStreams       = 200              // concurrent streams
	maxCallerStreams = 100              // concurrent streams of callers that lack the scope viewer
	ownStreams       = 20               // concurrent streams of one such caller
	firstCalls       = 100              // number of past calls sent at the start of a stream
	keepalive        = 15 * time.Second // interval between comments; the caller is authorized again each time
	writeTime        = 10 * time.Second // time limit for one event
)

// liveHandler streams calls.
type liveHandler struct {
	live    Live // may be nil
	auth    *authenticator
	streams *streams
}

// watch streams calls as server-sent events until the client disconnects.
func (h *liveHandler) watch(r *request) (*reply, error) {
	p := &r.params
	account, failed := p.account(r.caller), p.flag("failed")
	switch {
	case p.err != nil:
		return nil, p.err
	case h.live == nil:
		return nil, notFound("Live calls are not available.")
	}
	if !h.streams.acquire(r.caller) {
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many open streams. Try again later.", RetryAfter: keepalive}
	}
	defer h.streams.release(r.caller)
	is := func(name, value string) bool { return p.values[name] == "" || p.values[name] == value }
	watch, last := h.live.Observe(func(callAccount, caller, server, tool, gate string) bool {
		return (account == "" || account == callAccount) && is("caller", caller) && is("server", cmp.Or(server, store.Local)) && is("tool", tool) && is("gate", gate)
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
	beat := time.NewTicker(keepalive)
	defer beat.Stop()
	for s.err == nil {
		s.flush()
		select {
		case e := <-watch.Events():
			s.write(e, failed)
		case <-beat.C:
			if c, err := h.auth.authorize(r.Request, caller); err != nil || c.ID != r.caller.ID || p.account(c) != account || p.err != nil {
				return nil, nil // the caller has lost access
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

// streams counts open streams. Callers that lack the scope viewer have a separate limit, so that
// they cannot lock out operators.
type streams struct {
	mu             sync.Mutex
	all, ofCallers int
	byCaller       map[string]int
}

// acquire reserves a stream for a caller, or returns false if the limit is reached.
func (s *streams) acquire(c toolyard.Caller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxStreams {
		return false
	}
	if !identity.Views(c) {
		if s.ofCallers >= maxCallerStreams || s.byCaller[c.ID] >= ownStreams {
			return false
		}
		if s.byCaller == nil {
			s.byCaller = make(map[string]int)
		}
		s.ofCallers++
		s.byCaller[c.ID]++
	}
	s.all++
	return true
}

func (s *streams) release(c toolyard.Caller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if identity.Views(c) {
		return
	}
	s.ofCallers--
	if s.byCaller[c.ID]--; s.byCaller[c.ID] == 0 {
		delete(s.byCaller, c.ID)
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

// write writes an event.
func (s *stream) write(e live.Event, failed bool) {
	switch {
	case e.Lost > 0:
		s.event("lost", map[string]int{"count": e.Lost})
	case e.Approval != nil && !failed:
		s.event("approval", e.Approval)
	case e.Start != nil && !failed:
		s.event("begin", e.Start)
	case e.Call != nil && (!failed || e.Call.Code != toolyard.OK):
		s.event("call", e.Call)
	}
}

func (s *stream) event(kind string, data any) {
	raw, err := json.Marshal(data)
	if err != nil {
		return // cannot happen: calls can always be encoded
	}
	s.writeText(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, raw))
}

func (s *stream) comment() { s.writeText(": keepalive\n\n") }

func (s *stream) writeText(text string) {
	if s.err == nil {
		_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
		_, s.err = io.WriteString(s.w, text)
	}
}

func (s *stream) flush() {
	if s.err == nil {
		s.err = s.control.Flush()
	}
}

func (h *liveHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/calls/live", id: "watchCalls", summary: "Stream calls as server-sent events: begin, call, approval, and lost if the client is too slow. The stream begins with the last calls.",
			access: caller, query: []string{"account", "caller", "server", "tool", "gate", "failed"}, gives: streamShape, refusals: []int{400, 404}, long: true, serve: h.watch,
		},
	}
}
