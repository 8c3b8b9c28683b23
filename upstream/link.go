package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// link carries messages between us and a server.
type link interface {
	// exchange sends a request and returns the answer to it. What the server says about
	// the request before that is handed to q.heard, one message at a time.
	exchange(ctx context.Context, q *query) (message, error)
	// tell sends a message that no answer is owed to.
	tell(ctx context.Context, body []byte) error
	// listen reads what the server says unasked, until it or ctx ends. Links that hear
	// that anyway return nil at once.
	listen(ctx context.Context) error
	// end gives the link up for a reason; gone is closed then, and cause says why.
	end(err error)
	gone() <-chan struct{}
	cause() error
	// close ends the link; it returns when nothing of it is left.
	close()
}

// query is a request on its way.
type query struct {
	id      int64
	body    []byte
	method  string
	name    string        // of the tool, prompt or resource, for the header
	headers [][2]string   // further headers of the modern era
	heard   func(message) // what belongs to it; nil for nothing
	silence bool          // cancel it without telling the server

	answer chan outcome // for links that hear all answers in one place
}

// outcome is how a query ends.
type outcome struct {
	message
	err error
}

// Bounds on what a server may say.
const (
	maxMessage = 12 << 20 // bytes of one message
	maxChatter = 10_000   // messages that answer nothing, between two answers
)

var errChatter = fmt.Errorf("it sent more than %d messages that answer nothing", maxChatter)

// duplex is the part of a link that hears everything in one place: a process, or
// HTTP+SSE.
type duplex struct {
	send  func(ctx context.Context, body []byte) error
	heard func(message) // what belongs to no query; called by one goroutine

	calls   calls
	mu      sync.Mutex
	pending map[int64]*query
	chatter int // messages since the last answer
	*ending
}

func newDuplex(heard func(message)) *duplex {
	return &duplex{heard: heard, pending: make(map[int64]*query), ending: newEnding()}
}

// ending is the end of a link, and why it came.
type ending struct {
	once  sync.Once
	ended chan struct{}
	err   error // set before ended is closed
}

func newEnding() *ending { return &ending{ended: make(chan struct{})} }

// end implements link; the first reason stands.
func (e *ending) end(err error) {
	e.once.Do(func() {
		e.err = err
		close(e.ended)
	})
}

// gone implements link.
func (e *ending) gone() <-chan struct{} { return e.ended }

// cause implements link.
func (e *ending) cause() error {
	select {
	case <-e.ended:
		return e.err
	default:
		return nil
	}
}

// exchange implements link.
func (d *duplex) exchange(ctx context.Context, q *query) (m message, err error) {
	q.answer = make(chan outcome, 1)
	if err := d.enter(q); err != nil {
		return message{}, err
	}
	defer func() { d.leave(q, err == nil) }()
	if err := d.send(ctx, q.body); err != nil {
		return message{}, d.failure(err)
	}
	select {
	case o := <-q.answer:
		return o.message, o.err
	case <-d.ended:
		select {
		case o := <-q.answer: // it came just before the end
			return o.message, o.err
		default:
			return message{}, d.cause()
		}
	case <-ctx.Done():
		d.cancel(ctx, q)
		return message{}, ctx.Err()
	}
}

// cancel tells the server that nobody waits any more. What cannot be said at once is not
// said.
func (d *duplex) cancel(ctx context.Context, q *query) {
	if q.silence {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sayTimeout)
	go func() {
		defer cancel()
		_ = d.send(ctx, cancellation(q.id))
	}()
}

func cancellation(id int64) []byte {
	return appendMessage(nil, 0, "notifications/cancelled", fmt.Appendf(nil, `"requestId":%d`, id))
}

// enter notes a query, unless the link has ended.
func (d *duplex) enter(q *query) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if why := d.cause(); why != nil {
		return fmt.Errorf("%w: %w", errUnsent, why)
	}
	d.pending[q.id] = q
	d.calls.enter(q)
	return nil
}

func (d *duplex) leave(q *query, answered bool) {
	d.calls.leave(q, answered)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pending, q.id)
}

// failure is the reason that sending failed: the end of the link, if it has ended.
func (d *duplex) failure(err error) error {
	return cmp.Or(d.cause(), err)
}

// receive takes in one message. An error ends the link.
func (d *duplex) receive(data []byte) error {
	m, err := parse(data)
	if err != nil {
		return d.garbage(err, data, data)
	}
	if m.method == "" {
		d.settle(number(m.id), outcome{message: m})
		return nil
	}
	if err := d.count(); err != nil {
		return err
	}
	if q := d.about(m); q != nil && q.heard != nil {
		q.heard(m)
		return nil
	}
	d.heard(m)
	return nil
}

// garbage deals with what is no message: servers print things. If it was meant as the
// answer to a query, that one fails.
func (d *duplex) garbage(err error, head, tail []byte) error {
	d.settle(guessID(head, tail), outcome{err: err})
	return d.count()
}

// settle ends a query, if there is one. It is told once.
func (d *duplex) settle(id int64, o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.pending[id]
	if q == nil {
		return
	}
	d.chatter = 0
	delete(d.pending, id)
	q.answer <- o
}

// count bounds how much a server may say that answers nothing.
func (d *duplex) count() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.chatter++; d.chatter > maxChatter {
		return errChatter
	}
	return nil
}

// about is the query that a message belongs to: progress says it by its token, and what
// else a server asks belongs to the only call there is.
func (d *duplex) about(m message) *query {
	if m.method == "notifications/progress" {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.pending[number(strictjson.Member(m.params, "progressToken"))]
	}
	if m.id == nil {
		return nil
	}
	return d.calls.only()
}

// listen implements link: everything is heard anyway.
func (d *duplex) listen(context.Context) error { return nil }

var (
	idAtStart = regexp.MustCompile(`^\s*\{(?:\s*"jsonrpc"\s*:\s*"2.0"\s*,)?\s*"id"\s*:\s*(\d{1,18})\s*,`)
	idAtEnd   = regexp.MustCompile(`"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?\}\s*$`)
)

// guessID finds the id of a message that cannot be read as a whole, where servers put it:
// at its beginning or its end. A server can only lie about its own calls.
func guessID(head, tail []byte) int64 {
	for re, part := range map[*regexp.Regexp][]byte{idAtStart: head[:min(len(head), 256)], idAtEnd: tail[max(0, len(tail)-256):]} {
		if found := re.FindSubmatch(part); found != nil {
			return number(json.RawMessage(found[1]))
		}
	}
	return 0
}

// sizeError says that a message was larger than we take.
type sizeError struct{ size int64 }

func (e *sizeError) Error() string {
	return fmt.Sprintf("it sent %d bytes at once, more than %d MiB", e.size, maxMessage>>20)
}

// isMessage reports whether a line could be one: servers print other things too.
func isMessage(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("{"))
}

var errClosed = errors.New("it was stopped")

// errUnsent says that a request was not sent: the link had ended before.
var errUnsent = errors.New("it was not sent")
