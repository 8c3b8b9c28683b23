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

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// link carries messages to and from a server.
type link interface {
	// roundTrip sends a request and returns its response. Messages that belong to the request
	// and precede the response are passed to x.onMessage, one at a time.
	roundTrip(ctx context.Context, x *exchange) (message, error)
	// notify sends a message that has no response.
	notify(ctx context.Context, body []byte) error
	// listen reads the notification stream until it or ctx ends. Links that need no separate stream
	// return nil immediately.
	listen(ctx context.Context) error
	// updateCredentials applies changed secrets to later requests. It reports whether they require
	// a new link. Secrets that cannot be read are ignored.
	updateCredentials(o *Options) (restart bool)
	// fail ends the link with a reason: done is closed, and err returns the reason.
	fail(err error)
	done() <-chan struct{}
	err() error
	// close ends the link and waits until all of its resources are released.
	close()
}

// exchange is a request in flight.
type exchange struct {
	id        int64
	body      []byte
	method    string
	name      string         // name of the tool, prompt or resource, for the header
	headers   [][2]string    // further headers of modern requests
	onMessage func(message)  // receives messages that belong to the request; may be nil
	noCancel  bool           // whether to skip notifying the server of a cancellation
	call      *toolyard.Call // call whose credentials are used; nil for the session's own requests

	response chan outcome // used by links that receive all responses on one stream
}

// outcome is the response to a request, or the error that replaced it.
type outcome struct {
	message
	err error
}

// Limits on a server's messages.
const (
	maxMessage     = 12 << 20 // bytes in one message
	maxUnsolicited = 10_000   // messages between two responses
)

var errUnsolicited = fmt.Errorf("the server sent more than %d messages but no response", maxUnsolicited)

// duplex is the common part of links that receive all messages on one stream: stdio and HTTP+SSE.
type duplex struct {
	send      func(ctx context.Context, body []byte) error
	onMessage func(message) // receives messages that belong to no request; called by one goroutine

	calls       runningCalls
	mu          sync.Mutex
	pending     map[int64]*exchange
	unsolicited int // messages since the last response
	*ending
}

func newDuplex(onMessage func(message)) *duplex {
	return &duplex{onMessage: onMessage, pending: make(map[int64]*exchange), ending: newEnding()}
}

// ending records the end of a link and its reason.
type ending struct {
	once   sync.Once
	ended  chan struct{}
	reason error // set before ended is closed
}

func newEnding() *ending { return &ending{ended: make(chan struct{})} }

// fail implements link. The first reason is kept.
func (e *ending) fail(err error) {
	e.once.Do(func() {
		e.reason = err
		close(e.ended)
	})
}

// done implements link.
func (e *ending) done() <-chan struct{} { return e.ended }

// err implements link.
func (e *ending) err() error {
	select {
	case <-e.ended:
		return e.reason
	default:
		return nil
	}
}

// roundTrip implements link.
func (d *duplex) roundTrip(ctx context.Context, x *exchange) (m message, err error) {
	x.response = make(chan outcome, 1)
	if err := d.add(x); err != nil {
		return message{}, err
	}
	defer func() { d.remove(x, err == nil) }()
	if err := d.send(ctx, x.body); err != nil {
		return message{}, d.sendError(err)
	}
	select {
	case o := <-x.response:
		return o.message, o.err
	case <-d.ended:
		select {
		case o := <-x.response: // the response arrived just before the link ended
			return o.message, o.err
		default:
			return message{}, d.err()
		}
	case <-ctx.Done():
		d.cancel(ctx, x)
		return message{}, ctx.Err()
	}
}

// cancel notifies the server of a canceled request if it can do so without waiting.
func (d *duplex) cancel(ctx context.Context, x *exchange) {
	if x.noCancel {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	go func() {
		defer cancel()
		_ = d.send(ctx, cancellation(x.id))
	}()
}

func cancellation(id int64) []byte {
	return appendMessage(nil, 0, "notifications/cancelled", fmt.Appendf(nil, `"requestId":%d`, id))
}

// add registers a request, unless the link has ended.
func (d *duplex) add(x *exchange) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.err(); err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	d.pending[x.id] = x
	d.calls.add(x)
	return nil
}

func (d *duplex) remove(x *exchange, answered bool) {
	d.calls.remove(x, answered)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pending, x.id)
}

// sendError returns why sending failed. If the link has ended, that is the reason.
func (d *duplex) sendError(err error) error {
	return cmp.Or(d.err(), err)
}

// receive handles one message. An error ends the link.
func (d *duplex) receive(data []byte) error {
	m, err := parse(data)
	if err != nil {
		return d.invalid(err, data, data)
	}
	if m.method == "" {
		d.resolve(number(m.id), outcome{message: m})
		return nil
	}
	if err := d.count(); err != nil {
		return err
	}
	if x := d.exchangeOf(m); x != nil && x.onMessage != nil {
		x.onMessage(m)
		return nil
	}
	d.onMessage(m)
	return nil
}

// invalid handles output that is not a message. If it looks like a response to a pending request,
// that request fails.
func (d *duplex) invalid(err error, head, tail []byte) error {
	d.resolve(guessID(head, tail), outcome{err: err})
	return d.count()
}

// resolve completes a request if it is pending.
func (d *duplex) resolve(id int64, o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.pending[id]
	if x == nil {
		return
	}
	d.unsolicited = 0
	delete(d.pending, id)
	x.response <- o
}

// count limits the number of messages that are not responses.
func (d *duplex) count() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unsolicited++; d.unsolicited > maxUnsolicited {
		return errUnsolicited
	}
	return nil
}

// exchangeOf returns the request that a message belongs to. Progress has a token; the server's
// requests belong to the only running call.
func (d *duplex) exchangeOf(m message) *exchange {
	if m.method == "notifications/progress" {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.pending[number(strictjson.Member(m.params, "progressToken"))]
	}
	if m.id == nil {
		return nil
	}
	return d.calls.sole()
}

// listen implements link: notifications arrive on the same stream.
func (d *duplex) listen(context.Context) error { return nil }

var (
	idAtStart = regexp.MustCompile(`^\s*\{(?:\s*"jsonrpc"\s*:\s*"2.0"\s*,)?\s*"id"\s*:\s*(\d{1,18})\s*,`)
	idAtEnd   = regexp.MustCompile(`"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?\}\s*$`)
)

// guessID searches the beginning and the end of an unparsable message for its ID. In this way, a
// server can only cause its own calls to fail.
func guessID(head, tail []byte) int64 {
	for re, part := range map[*regexp.Regexp][]byte{idAtStart: head[:min(len(head), 256)], idAtEnd: tail[max(0, len(tail)-256):]} {
		if found := re.FindSubmatch(part); found != nil {
			return number(json.RawMessage(found[1]))
		}
	}
	return 0
}

// sizeError is returned for a message that exceeds maxMessage.
type sizeError struct{ size int64 }

func (e *sizeError) Error() string {
	return fmt.Sprintf("the server sent a message of %d bytes; the limit is %d MiB", e.size, maxMessage>>20)
}

// isMessage reports whether a line can be a message. Servers may print other text too.
func isMessage(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("{"))
}

var errClosed = errors.New("the server was stopped")

// errNotSent is returned for a request that was not sent because the link had ended.
var errNotSent = errors.New("the request was not sent")
