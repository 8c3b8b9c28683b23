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

// A legacy server asks questions while a call runs. A modern client receives a question as an
// unfinished result, and calls again with the answer. In between, the call is suspended: it
// continues on the server, but no caller is waiting for it.

// Time limits for suspended calls. A stdio server does not indicate which call a question belongs
// to, so only one question can be open at a time. Unauthenticated callers therefore get less time.
const (
	suspendTimeout                = 10 * time.Minute
	unauthenticatedSuspendTimeout = time.Minute
)

// maxSuspended limits a server's suspended calls. Over HTTP, each of them holds a connection, and
// half of the connections are reserved for other calls.
func (conv *conversations) maxSuspended() int { return 2*conv.opts.Connections + 8 }

// maxSuspendedPerCaller limits one caller's suspended calls.
func (conv *conversations) maxSuspendedPerCaller() int { return conv.maxSuspended() / 4 }

// suspendedCall is a call that may be waiting for a user's answer.
type suspendedCall struct {
	session   *session
	request   request
	outcome   chan outcome // outcome of the call
	questions chan message // questions from the server
	question  message      // the open question
	cancel    context.CancelFunc
	expire    *time.Timer
	since     time.Time
}

// sendSuspendable sends a request during which the server may ask a question.
func (conv *conversations) sendSuspendable(ctx context.Context, s *session, r request) (json.RawMessage, error) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &suspendedCall{session: s, request: r, outcome: make(chan outcome, 1), questions: make(chan message, 1), cancel: cancel}
	r.onMessage = func(m message) {
		if m.method != "elicitation/create" || m.id == nil {
			conv.handleMessage(s, r, m)
			return
		}
		select {
		case p.questions <- m:
		default: // only one question at a time
			s.reply(m.id, nil, &rpcError{Code: codeInvalidParams, Message: "another question has not been answered yet"})
		}
	}
	go func() {
		defer cancelWith(s.link, cancel)()
		raw, err := s.request(running, r)
		if errors.Is(err, context.Canceled) && s.link.err() != nil {
			err = s.link.err() // the link's error is why the request was canceled
		}
		if err != nil && s.link.err() != nil {
			conv.discard(p)
		}
		p.outcome <- outcome{message: message{result: raw}, err: err}
	}()
	return conv.await(ctx, p)
}

// cancelWith calls cancel when the link ends, unless stop is called first.
func cancelWith(l link, cancel context.CancelFunc) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-l.done():
			if !errors.Is(l.err(), errSessionLost) { // after a lost session, running calls still get their responses
				cancel()
			}
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

// await waits until a call ends or the server asks a question.
func (conv *conversations) await(ctx context.Context, p *suspendedCall) (json.RawMessage, error) {
	select {
	case o := <-p.outcome:
		p.cancel()
		return o.result, o.err
	case <-ctx.Done():
		p.cancel()
		return nil, ctx.Err()
	case p.question = <-p.questions:
		return conv.suspend(p), nil
	}
}

// suspend stores a call until its question is answered, and returns a result that contains the
// question.
func (conv *conversations) suspend(p *suspendedCall) json.RawMessage {
	key := rand.Text()
	conv.evictOldest(p.request.call.Caller)
	conv.mu.Lock()
	full := len(conv.suspended) >= conv.maxSuspended()
	if !full {
		conv.suspended[key], p.since = p, time.Now()
		timeout := suspendTimeout
		if !p.request.call.Caller.Authenticated() {
			timeout = unauthenticatedSuspendTimeout
		}
		p.expire = time.AfterFunc(timeout, func() {
			if p := conv.takeSuspended(key); p != nil {
				p.cancel()
			}
		})
	}
	conv.mu.Unlock()
	if full {
		p.cancel()
		return json.RawMessage(`{"content":[{"type":"text","text":"Too many calls to this server are waiting for answers from users. Try again later."}],"isError":true}`)
	}
	params := p.question.params
	if params == nil {
		params = json.RawMessage("{}")
	}
	b := append([]byte(`{"resultType":"input_required","inputRequests":{"question":{"method":"elicitation/create","params":`), params...)
	return append(append(append(b, `}},"requestState":"`...), key...), `"}`...)
}

// evictOldest cancels a caller's oldest suspended call if the caller has reached its limit.
func (conv *conversations) evictOldest(caller toolyard.Caller) {
	conv.mu.Lock()
	var oldest string
	n := 0
	for key, p := range conv.suspended {
		if by := p.request.call.Caller; by.ID != caller.ID || by.Account != caller.Account {
			continue
		}
		if n++; oldest == "" || p.since.Before(conv.suspended[oldest].since) {
			oldest = key
		}
	}
	conv.mu.Unlock()
	if n < conv.maxSuspendedPerCaller() {
		return
	}
	if p := conv.takeSuspended(oldest); p != nil {
		p.cancel()
	}
}

// discard removes a call whose session has ended, if it is suspended.
func (conv *conversations) discard(p *suspendedCall) {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	maps.DeleteFunc(conv.suspended, func(_ string, other *suspendedCall) bool {
		if other == p {
			p.expire.Stop()
		}
		return other == p
	})
}

// takeSuspended removes and returns a suspended call, or nil if there is none.
func (conv *conversations) takeSuspended(key string) *suspendedCall {
	if key == "" {
		return nil
	}
	conv.mu.Lock()
	defer conv.mu.Unlock()
	p := conv.suspended[key]
	if p != nil {
		delete(conv.suspended, key)
		p.expire.Stop()
	}
	return p
}

// resume sends the user's answer to the server and waits for the outcome.
func (conv *conversations) resume(ctx context.Context, c *toolyard.Call, p *suspendedCall) (*toolyard.Result, error) {
	answer := strictjson.Member(c.InputResponses, "question")
	if len(answer) == 0 || answer[0] != '{' {
		answer = json.RawMessage(`{"action":"cancel"}`)
	}
	p.session.reply(p.question.id, answer, nil)
	raw, err := conv.await(ctx, p)
	return conv.result(ctx, p.session, &p.request, raw, err)
}
