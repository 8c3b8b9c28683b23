package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// exchange is an HTTP request and its response.
type exchange struct {
	w http.ResponseWriter
	r *http.Request
}

// body writes a response as one JSON message or as an event stream.
type body struct {
	w      http.ResponseWriter
	stream bool
	mu     sync.Mutex
	begun  bool
	ended  bool
}

func (b *body) write(p []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return net.ErrClosed
	}
	if !b.begun {
		b.begun = true
		b.begin()
	}
	if _, err := b.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(b.w).Flush()
}

// begin writes the response header once.
func (b *body) begin() {
	kind := "application/json"
	if b.stream {
		kind = "text/event-stream"
	}
	if b.w.Header().Get("Content-Type") == "" {
		b.w.Header().Set("Content-Type", kind)
	}
}

func (b *body) frame() (before, after string) {
	if b.stream {
		return "event: message\ndata: ", "\n\n"
	}
	return "", ""
}

// many makes the response an event stream, because there is more than one message.
func (t *turn) many() {
	if b, ok := t.wire.(*body); ok {
		b.stream = true
	}
}

// streamable serves streamable HTTP.
func (s *server) streamable(w http.ResponseWriter, r *http.Request) {
	isModern := s.modern(s.seed)
	if r.Method != http.MethodPost {
		s.bodiless(w, r, isModern)
		return
	}
	m, err := readMessage(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := &body{w: w}
	t := s.newTurn(r.Context(), m, &route{wire: out, call: &exchange{w, r}}, isModern)
	out.stream = t.rng.IntN(2) == 0 || m.Method == "subscriptions/listen"
	if !isModern && !s.known(t) {
		return
	}
	switch {
	case t.struck() && s.respond != nil:
		s.respond(t)
	case s.pours(t) && isModern:
		t.acknowledge()
		s.pour(t)
	case m.ID == nil || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		s.take(t)
	}
}

// bodiless serves requests that have no message: they open a stream or end a session.
func (s *server) bodiless(w http.ResponseWriter, r *http.Request, isModern bool) {
	t := s.newTurn(r.Context(), message{Method: r.Method}, &route{wire: &body{w: w, stream: true}, call: &exchange{w, r}}, isModern)
	switch {
	case isModern || (r.Method != http.MethodGet && r.Method != http.MethodDelete):
		http.Error(w, "POST is the only method", http.StatusMethodNotAllowed)
	case t.struck() && s.respond != nil:
		s.respond(t)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case s.pour != nil:
		s.pour(t)
	default:
		t.raw(": welcome\n\n")
		t.hang()
	}
}

// known reports whether the message belongs to a session or starts one. If not, known has already
// responded.
func (s *server) known(t *turn) bool {
	id := t.call.r.Header.Get("Mcp-Session-Id")
	switch {
	case t.Method == "initialize":
		t.call.w.Header().Set("Mcp-Session-Id", s.newSession(nil))
	case id == "" && t.Method == "server/discover" && t.rng.IntN(2) == 0:
		return true // some older servers check the method first
	case id == "":
		http.Error(t.call.w, "there is no session id", http.StatusBadRequest)
		return false
	case !s.has(id):
		http.Error(t.call.w, "there is no such session", http.StatusNotFound)
		return false
	}
	return true
}

// newSession starts a session.
func (s *server) newSession(stream *stream) string {
	id := fmt.Sprintf("session-%d-%d", s.seed, s.turns.Add(1))
	s.remember(id, stream)
	return id
}

func (s *server) remember(id string, stream *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = stream
}

func (s *server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

func (s *server) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.sessions[id]
	return ok
}

func readMessage(r *http.Request) (m message, err error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxMessage))
	if err != nil {
		return m, err
	}
	if json.Unmarshal(data, &m) != nil {
		return m, errors.New("it is not a message")
	}
	return m, nil
}

// stream is an HTTP+SSE session's event stream.
type stream struct {
	body
	ctx context.Context
}

// end waits for the last write before the response ends.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// events serves an HTTP+SSE session's stream.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &stream{body: body{w: w, stream: true}, ctx: ctx}
	defer out.end()
	t := s.newTurn(ctx, message{Method: http.MethodGet}, &route{wire: out, call: &exchange{w, r}}, false)
	if t.struck() && s.respond != nil {
		s.respond(t)
		return
	}
	t.endpoint(t.address(out))
	t.hang()
}

// address returns the message URL of a new session.
func (t *turn) address(out *stream) string { return "/messages?session=" + t.newSession(out) }

// endpoint sends the client the URL for its messages.
func (t *turn) endpoint(address string) {
	t.raw("event: endpoint\ndata: " + address + "\n\n")
}

// messages receives an HTTP+SSE session's messages and sends the responses on its stream.
func (s *server) messages(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	out := s.sessions[r.URL.Query().Get("session")]
	s.mu.Unlock()
	if out == nil {
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	}
	m, err := readMessage(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t := s.newTurn(out.ctx, m, &route{wire: out, call: &exchange{w, r}}, false)
	if t.struck() && s.respond != nil {
		s.respond(t)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	go func() {
		if s.pours(t) {
			s.pour(t)
			return
		}
		s.take(t)
	}()
}

// gone returns a channel that is closed when the request ends, even if the response is sent
// elsewhere.
func (t *turn) gone() <-chan struct{} { return t.call.r.Context().Done() }

// connection passes the raw connection to f and closes it afterwards.
func (t *turn) connection(f func(net.Conn)) {
	conn, _, err := http.NewResponseController(t.call.w).Hijack()
	if err != nil {
		return // HTTP/2 has no raw connections
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	f(conn)
}

// head returns the start of a response that is written manually.
func head(status string, headers ...string) string {
	return strings.Join(append([]string{"HTTP/1.1 " + status}, headers...), "\r\n") + "\r\n"
}

// put writes to a raw connection and reports whether the client is still connected.
func put(conn net.Conn, text string) bool {
	_, err := io.WriteString(conn, text)
	return err == nil
}

// wait waits until the client closes a raw connection.
func wait(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
