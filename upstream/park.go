package upstream

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// A server of the legacy era asks its questions while a call runs; a client of the modern
// era hears them as an unfinished result, and calls again with the answers. In between the
// call is parked: it goes on at the server, and nobody waits for it here.

// How long a call is parked. A server on stdio does not say which call a question belongs to, so
// while one is open it can ask nobody else: whoever is not known must be quicker.
const (
	parkTimeout     = 10 * time.Minute
	strangerTimeout = time.Minute
)

// maxParked is how many calls may be parked. Over HTTP each has a connection, of which half are
// left to others.
func (v *Server) maxParked() int { return 2*v.opts.Connections + 8 }

// maxParkedOf is how many calls of one caller may be parked: nobody takes the place of all.
func (v *Server) maxParkedOf() int { return v.maxParked() / 4 }

// parked is a call that waits for an answer of a person, or one that runs.
type parked struct {
	session  *session
	request  request
	answer   chan outcome // of the call
	question chan message // of the server
	asked    message      // the question that is open
	cancel   context.CancelFunc
	expire   *time.Timer
	since    time.Time
}

// converse sends a request whose server may ask something before it answers.
func (v *Server) converse(ctx context.Context, s *session, r request) (json.RawMessage, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &parked{session: s, request: r, answer: make(chan outcome, 1), question: make(chan message, 1), cancel: cancel}
	r.heard = func(m message) {
		if m.method != "elicitation/create" || m.id == nil {
			v.overhear(s, r, m)
			return
		}
		select {
		case p.question <- m:
		default: // one at a time
			s.answer(m.id, nil, &rpcError{Code: codeInvalidParams, Message: "another question is open"})
		}
	}
	go func() {
		defer cancelWith(s.link, cancel)()
		raw, err := s.request(running, r)
		if errors.Is(err, context.Canceled) && s.link.cause() != nil {
			err = s.link.cause() // that is why
		}
		if err != nil && s.link.cause() != nil {
			v.leave(p)
		}
		p.answer <- outcome{message: message{result: raw}, err: err}
	}()
	return v.wait(ctx, p)
}

// cancelWith cancels when a link ends, until it is told to stop.
func cancelWith(l link, cancel context.CancelFunc) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-l.gone():
			if !errors.Is(l.cause(), errLost) { // those that run are answered yet
				cancel()
			}
		case <-done:
		}
	}()
	return func() { close(done) }
}

// wait waits until a call ends or has a question.
func (v *Server) wait(ctx context.Context, p *parked) (json.RawMessage, error) {
	select {
	case o := <-p.answer:
		p.cancel()
		return o.result, o.err
	case <-ctx.Done():
		p.cancel()
		return nil, ctx.Err()
	case p.asked = <-p.question:
		return v.park(p), nil
	}
}

// park keeps a call for when its question is answered, and is the result that asks it.
func (v *Server) park(p *parked) json.RawMessage {
	key := rand.Text()
	v.evict(p.request.call.Caller)
	v.mu.Lock()
	full := len(v.parked) >= v.maxParked()
	if !full {
		v.parked[key], p.since = p, time.Now()
		timeout := parkTimeout
		if !p.request.call.Caller.Authenticated() {
			timeout = strangerTimeout
		}
		p.expire = time.AfterFunc(timeout, func() {
			if p := v.unpark(key); p != nil {
				p.cancel()
			}
		})
	}
	v.mu.Unlock()
	if full {
		p.cancel()
		return json.RawMessage(`{"content":[{"type":"text","text":"Too many calls of this server wait for answers of people. Try again later."}],"isError":true}`)
	}
	params := p.asked.params
	if params == nil {
		params = json.RawMessage("{}")
	}
	b := append([]byte(`{"resultType":"input_required","inputRequests":{"question":{"method":"elicitation/create","params":`), params...)
	return append(append(append(b, `}},"requestState":"`...), key...), `"}`...)
}

// evict ends the oldest parked call of a caller who has too many.
func (v *Server) evict(who toolyard.Caller) {
	v.mu.Lock()
	var oldest string
	n := 0
	for key, p := range v.parked {
		if by := p.request.call.Caller; by.ID != who.ID || by.Account != who.Account {
			continue
		}
		if n++; oldest == "" || p.since.Before(v.parked[oldest].since) {
			oldest = key
		}
	}
	v.mu.Unlock()
	if n < v.maxParkedOf() {
		return
	}
	if p := v.unpark(oldest); p != nil {
		p.cancel()
	}
}

// leave forgets a call whose session has ended, if it is parked.
func (v *Server) leave(p *parked) {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.parked, func(_ string, other *parked) bool {
		if other == p {
			p.expire.Stop()
		}
		return other == p
	})
}

// unpark takes a parked call back, nil if there is none. It is given out once.
func (v *Server) unpark(key string) *parked {
	if key == "" {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.parked[key]
	if p != nil {
		delete(v.parked, key)
		p.expire.Stop()
	}
	return p
}

// resume tells the server what a person answered, and waits on.
func (v *Server) resume(ctx context.Context, c *toolyard.Call, p *parked) (*toolyard.Result, error) {
	answer := strictjson.Member(c.InputResponses, "question")
	if len(answer) == 0 || answer[0] != '{' {
		answer = json.RawMessage(`{"action":"cancel"}`)
	}
	p.session.answer(p.asked.id, answer, nil)
	raw, err := v.wait(ctx, p)
	return v.result(p.session, p.request.method, raw, err)
}
