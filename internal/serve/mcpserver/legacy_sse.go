package mcpserver

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// SSEHandler serves the gate over the HTTP+SSE transport of 2024-11-05: a GET opens a connection,
// and the client POSTs its messages to the URL in the first event. The connection exists only on
// this replica.
func (s *Server) SSEHandler(gateOf func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w)
		a := s.enter(w, r, gateOf(r))
		switch {
		case a == nil:
		case r.Method == http.MethodPost:
			a.postSSE(w, r)
		case r.Method == http.MethodGet:
			a.openSSE(w, r)
		default:
			w.Header().Set("Allow", "GET, POST")
			http.Error(w, "HTTP+SSE supports only GET and POST", http.StatusMethodNotAllowed)
		}
	})
}

// sseConnection is a connection over HTTP+SSE.
type sseConnection struct {
	*connection
	owner string

	receiving sync.Mutex // serializes messages
}

// openSSE opens a connection and serves its stream.
func (a *access) openSSE(w http.ResponseWriter, r *http.Request) {
	release, err := a.gate.server.streams.acquire(a.origin, 1)
	if err != nil {
		refuseBusy(w, err)
		return
	}
	defer release()
	id := rand.Text()
	var writing sync.Mutex
	write := func(b []byte) error {
		writing.Lock()
		defer writing.Unlock()
		return writeNow(w, b)
	}
	c := &sseConnection{owner: callerName(a.caller), connection: newConnection(r.Context(), a.gate, a.caller, func(message []byte) error {
		return write(event("message", message))
	})}
	c.origin = a.origin
	a.gate.sse.Store(id, c)
	defer c.close()
	defer a.gate.sse.Delete(id)
	openStream(w)
	endpoint := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: "sessionid=" + id}
	if write(event("endpoint", []byte(endpoint.RequestURI()))) != nil {
		return
	}
	c.serve(func() bool {
		_, err := a.gate.authorize(r)
		return err == nil && write([]byte(": keepalive\n\n")) == nil
	})
}

// serve keeps a connection open until it ends or the gate or server closes. If the gate or server
// closes, running requests are answered first.
func (c *sseConnection) serve(keepalive func() bool) {
	ticker := time.NewTicker(c.gate.server.opts.Keepalive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !keepalive() {
				return
			}
		case <-c.ctx.Done():
			return
		case <-c.gate.closed.Done():
			c.finish()
			return
		case <-c.gate.server.done.Done():
			c.finish()
			return
		}
	}
}

// finishPause separates the last response from the end of the stream. Without it, official clients
// may lose a message.
const finishPause = 100 * time.Millisecond

// finish waits for the running requests before the stream ends.
func (c *sseConnection) finish() {
	c.drain()
	select {
	case <-time.After(finishPause):
	case <-c.ctx.Done():
	}
}

// postSSE passes a message to a connection of the same caller.
func (a *access) postSSE(w http.ResponseWriter, r *http.Request) {
	if !checkJSONType(w, r) {
		return
	}
	m, release, ok := a.readMessage(w, r)
	defer release()
	if !ok {
		return
	}
	if a = a.renew(w, r); a == nil {
		return
	}
	found, ok := a.gate.sse.Load(r.URL.Query().Get("sessionid"))
	if !ok || found.(*sseConnection).owner != callerName(a.caller) {
		noSession(w)
		return
	}
	found.(*sseConnection).post(&m)
	w.WriteHeader(http.StatusAccepted)
}

func (c *sseConnection) post(m *message) {
	c.receiving.Lock()
	defer c.receiving.Unlock()
	if c.ctx.Err() == nil && c.silent.Err() == nil {
		c.receive(m)
	}
}
