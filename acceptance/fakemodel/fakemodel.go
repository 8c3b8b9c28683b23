// Package fakemodel provides a language model that follows a script. Its HTTP server supports the
// wire formats of Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini, and is
// as strict as the providers: every call needs its answer, and the opaque parts of earlier turns
// must come back unchanged.
//
//	script, err := fakemodel.Parse(yaml)
//	server := fakemodel.New(fakemodel.Options{Script: script})
//	defer server.Close()
//	client := model.New(model.Options{API: model.Chat, URL: server.URL + "/v1", Private: true, ...})
package fakemodel

import (
	"bytes"
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

// Key is the API key that a server accepts by default.
const Key = "fake-model-key"

const (
	maxRequest = 32 << 20 // bytes in a request
	piece      = 12       // bytes of text in one event
)

// Options configure a server.
type Options struct {
	Script  *Script
	Address string        // address to listen on; defaults to a free port on loopback
	Key     string        // key that requests must have; defaults to [Key]
	Exact   bool          // whether earlier turns must come back byte for byte, as Toolyard's drivers send them
	Delay   time.Duration // pause between events
}

// Server is a running fake.
type Server struct {
	URL string

	options Options
	http    *http.Server

	mu       sync.Mutex
	failures []string
	requests []Request
	faults   map[*Fault]int
}

// Request is a request that the server received.
type Request struct {
	API    string
	Header http.Header
	Body   []byte
}

// New starts a server.
func New(o Options) (*Server, error) {
	if o.Key == "" {
		o.Key = Key
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + listener.Addr().String(), options: o, faults: map[*Fault]int{}}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(listener) }()
	return s, nil
}

// Close stops the server and its connections.
func (s *Server) Close() { _ = s.http.Close() }

// Failures returns the reasons why requests were refused: violations of a wire format, and unmet
// expectations.
func (s *Server) Failures() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.failures...)
}

// Requests returns the requests received so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// api is a wire format.
type api interface {
	name() string
	// base returns the base URL's path, which clients append their paths to.
	base() string
	// key returns a request's API key.
	key(h http.Header) string
	// check decodes a request, and refuses whatever the provider would refuse.
	check(h http.Header, body map[string]json.RawMessage) (*conversation, error)
	// same describes how a returned turn differs from the one that was sent.
	same(got []json.RawMessage, sent *reply, exact bool) string
	// stream returns a response's events.
	stream(r *reply) []string
	// failure encodes an error.
	failure(status int, code, message string) json.RawMessage
	// failureEvent encodes an error within a stream.
	failureEvent(code, message string) string
}

var apis = []api{anthropicAPI{}, responsesAPI{}, chatAPI{}, geminiAPI{}}

// route returns a path's wire format, or nil.
func route(path string) api {
	switch {
	case strings.HasSuffix(path, "/v1/messages"):
		return anthropicAPI{}
	case strings.HasSuffix(path, "/responses"):
		return responsesAPI{}
	case strings.HasSuffix(path, "/chat/completions"):
		return chatAPI{}
	case strings.HasPrefix(path, "/v1beta/models/") && strings.HasSuffix(path, ":streamGenerateContent"):
		return geminiAPI{}
	}
	return nil
}

// BaseURL returns the base URL for clients that use a wire format: anthropic, openai, chat or
// gemini.
func (s *Server) BaseURL(name string) string {
	for _, a := range apis {
		if a.name() == name {
			return s.URL + a.base()
		}
	}
	return s.URL
}

// Stream returns the whole response for a turn, given the answers to earlier calls.
func Stream(name string, t *Turn, number int, answers []string) []byte {
	for _, a := range apis {
		if a.name() == name {
			return []byte(strings.Join(a.stream(t.render(number, answers, 0)), ""))
		}
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := route(r.URL.Path)
	if a == nil || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		s.refuse(w, a, http.StatusRequestEntityTooLarge, "request_too_large", err.Error())
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{API: a.name(), Header: r.Header.Clone(), Body: body})
	s.mu.Unlock()
	if a.key(r.Header) != s.options.Key {
		s.refuse(w, a, http.StatusUnauthorized, "authentication_error", "wrong API key: "+a.key(r.Header))
		return
	}
	c, err := s.parse(a, r, body)
	if err != nil {
		s.refuse(w, a, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	turn, reply, err := s.next(a, c, body)
	if err != nil {
		s.refuse(w, a, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	s.send(w, r, a, s.fault(turn.Fault), a.stream(reply))
}

func (s *Server) parse(a api, r *http.Request, body []byte) (*conversation, error) {
	if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return nil, fmt.Errorf("the content type is %q", kind)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	c, err := a.check(r.Header, members)
	if err != nil {
		return nil, err
	}
	return c, c.check()
}

// next selects the turn, after checking the earlier turns in the request.
func (s *Server) next(a api, c *conversation, body []byte) (*Turn, *reply, error) {
	script := s.conversation(c.firstText())
	if script == nil {
		return nil, nil, fmt.Errorf("no conversation of the script matches %q", c.firstText())
	}
	var answers []string
	number := 0
	for _, m := range c.messages {
		answers = append(answers, texts(m.answers)...)
		if m.turn == nil {
			continue
		}
		if number == len(script.Turns) {
			return nil, nil, errors.New("the request contains more turns than the script")
		}
		sent := script.Turns[number].render(number+1, answers, 0)
		if difference := a.same(m.turn, sent, s.options.Exact); difference != "" {
			return nil, nil, fmt.Errorf("turn %d came back changed: %s", number+1, difference)
		}
		number++
	}
	if number >= len(script.Turns) {
		return nil, nil, fmt.Errorf("the script has only %d turns", len(script.Turns))
	}
	turn := &script.Turns[number]
	if problem := turn.Expect.check(body, c); problem != "" {
		return nil, nil, fmt.Errorf("turn %d: %s", number+1, problem)
	}
	return turn, turn.render(number+1, answers, len(body)), nil
}

func (s *Server) conversation(first string) *Conversation {
	if s.options.Script == nil {
		return nil
	}
	for i, c := range s.options.Script.Conversations {
		if strings.Contains(first, c.Match) {
			return &s.options.Script.Conversations[i]
		}
	}
	return nil
}

// fault returns f if the fault should occur now.
func (s *Server) fault(f *Fault) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil || f.Times > 0 && s.faults[f] >= f.Times {
		return nil
	}
	s.faults[f]++
	return f
}

// refuse responds with an error and records it.
func (s *Server) refuse(w http.ResponseWriter, a api, status int, code, message string) {
	s.mu.Lock()
	s.failures = append(s.failures, a.name()+": "+message)
	s.mu.Unlock()
	respond(w, status, a.failure(status, code, message))
}

func respond(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// send writes a response, including a fault if there is one.
func (s *Server) send(w http.ResponseWriter, r *http.Request, a api, f *Fault, events []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	if f == nil {
		f = &Fault{After: len(events)}
	}
	for name, value := range f.Headers {
		w.Header().Set(name, value)
	}
	if f.Status != 0 {
		respond(w, f.Status, a.failure(f.Status, f.Code, f.Message))
		return
	}
	if f.Body != "" {
		_, _ = io.WriteString(w, f.Body)
		return
	}
	flush := http.NewResponseController(w)
	for i, event := range events {
		if i == f.After && (f.Cut || f.Hang || f.Stream) {
			break
		}
		_, _ = io.WriteString(w, event)
		_ = flush.Flush()
		if s.options.Delay > 0 {
			time.Sleep(s.options.Delay)
		}
	}
	switch {
	case f.Stream:
		_, _ = io.WriteString(w, a.failureEvent(f.Code, f.Message))
	case f.Hang:
		_ = flush.Flush()
		<-r.Context().Done()
	case f.Cut:
		_ = flush.Flush()
		panic(http.ErrAbortHandler)
	}
}

// event encodes a server-sent event.
func event(name string, data json.RawMessage) string {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.String()
}
