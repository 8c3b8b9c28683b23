// Package fakemarkets provides local fakes of Hyperliquid, Polymarket, CryptoPanic and an EVM node. They return the
// same data formats, enforce the same rate limits, and can simulate failures.
//
//	hl := fakemarkets.NewHyperliquid()
//	defer hl.Close()
//	hl.Set("0x00000000000000000000000000000000000000a1", fakemarkets.HyperliquidAccount{AccountValue: "1000.0"})
package fakemarkets

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBody     = 1 << 20
	maxRequests = 10_000 // number of requests to remember
)

// Request is a request that a server received.
type Request struct {
	Method string
	Path   string
	Query  string
	Header http.Header
	Body   string
}

// Server is the common part of all fakes: address, failures and recorded requests.
type Server struct {
	URL string

	http    *http.Server
	serving sync.WaitGroup
	answer  func(*http.Request, []byte) reply
	closed  chan struct{}
	closing sync.Once
	window  time.Duration // time window of the budget

	mu       sync.Mutex
	faults   faults
	budget   int
	charges  []charge // charges in the last window
	requests []Request
}

// faults are the simulated failures.
type faults struct {
	down, cut  bool
	delay      time.Duration
	status     int
	retryAfter string
	garbage    string
}

// charge is the weight of a request and its time.
type charge struct {
	at     time.Time
	weight int
}

// reply is a response and the weight of its request.
type reply struct {
	weight int
	status int
	body   any // JSON, or text sent unchanged
}

// lost is the body of a response that is never sent, because the connection ends.
type lost struct{}

// start starts a server. It panics on failure.
func start(budget int, window time.Duration, answer func(*http.Request, []byte) reply) *Server {
	s, err := listen(budget, window, answer)
	if err != nil {
		panic(err)
	}
	return s
}

// listen starts a server at a free local port.
func listen(budget int, window time.Duration, answer func(*http.Request, []byte) reply) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fakemarkets: %w", err)
	}
	s := &Server{answer: answer, closed: make(chan struct{}), budget: budget, window: window, URL: "http://" + listener.Addr().String()}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	s.serving.Go(func() { _ = s.http.Serve(listener) })
	return s, nil
}

// Close stops the server. It can be called more than once.
func (s *Server) Close() {
	s.closing.Do(func() {
		close(s.closed)
		_ = s.http.Close()
		s.serving.Wait()
	})
}

// set changes the simulated failures.
func (s *Server) set(change func(*faults)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.faults)
}

// Down determines whether the server closes every connection.
func (s *Server) Down(down bool) { s.set(func(f *faults) { f.down = down }) }

// Delay delays every response.
func (s *Server) Delay(d time.Duration) { s.set(func(f *faults) { f.delay = d }) }

// Status makes the server respond only with a status. Zero turns this off.
func (s *Server) Status(code int) { s.set(func(f *faults) { f.status = code }) }

// RetryAfter sets the Retry-After header in refusals. Empty means none.
func (s *Server) RetryAfter(value string) { s.set(func(f *faults) { f.retryAfter = value }) }

// Cut determines whether responses are truncated.
func (s *Server) Cut(cut bool) { s.set(func(f *faults) { f.cut = cut }) }

// Garbage makes the server respond to everything with this body. An empty body turns this off.
func (s *Server) Garbage(body string) { s.set(func(f *faults) { f.garbage = body }) }

// Budget sets the weight that the server accepts per window.
func (s *Server) Budget(weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget = weight
}

// Requests returns the received requests, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	f := s.note(r, body)
	select {
	case <-time.After(f.delay):
	case <-r.Context().Done():
	case <-s.closed:
	}
	switch {
	case f.down:
		panic(http.ErrAbortHandler)
	case f.status != 0:
		f.refuse(w, f.status)
	case f.garbage != "":
		_, _ = io.WriteString(w, f.garbage)
	default:
		s.reply(w, f, s.answer(r, body))
	}
}

// note records a request and returns the current faults.
func (s *Server) note(r *http.Request, body []byte) faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == maxRequests {
		s.requests = slices.Delete(s.requests, 0, 1)
	}
	s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Clone(), string(body)})
	return s.faults
}

func (f *faults) refuse(w http.ResponseWriter, status int) {
	if f.retryAfter != "" {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	w.WriteHeader(status)
}

// reply sends a response if it fits into the budget.
func (s *Server) reply(w http.ResponseWriter, f faults, a reply) {
	if !s.spend(a.weight) {
		f.refuse(w, http.StatusTooManyRequests)
		return
	}
	if a.body == (lost{}) {
		panic(http.ErrAbortHandler)
	}
	data, kind := []byte(nil), "application/json"
	if text, ok := a.body.(string); ok {
		data, kind = []byte(text), "text/plain; charset=utf-8"
	} else {
		data, _ = json.Marshal(a.body) // cannot fail for any of the bodies
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(a.status)
	if f.cut {
		_, _ = w.Write(data[:len(data)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(data)
}

// spend charges weight if it fits into the window.
func (s *Server) spend(weight int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, total := time.Now(), weight
	s.charges = slices.DeleteFunc(s.charges, func(c charge) bool { return now.Sub(c.at) >= s.window })
	for _, c := range s.charges {
		total += c.weight
	}
	if total > s.budget {
		return false
	}
	s.charges = append(s.charges, charge{now, weight})
	return true
}

// isAddress reports whether a text is 0x followed by 40 hexadecimal digits.
func isAddress(text string) bool {
	digits, ok := strings.CutPrefix(text, "0x")
	return ok && len(digits) == 40 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}
