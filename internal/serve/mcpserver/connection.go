package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
)

// maxConcurrent is how many requests of one connection may run at once.
const maxConcurrent = 1000

// connection is a client on a transport that carries messages both ways: stdio, or HTTP+SSE.
// Its session is in memory, and ends with it.
type connection struct {
	gate   *gate
	caller toolyard.Caller
	origin string
	write  func(message []byte) error

	ctx context.Context // ends with the connection
	end context.CancelFunc

	session     session
	initialized bool
	silent      context.Context // ends when the client will say no more
	hush        context.CancelFunc

	requests   chan struct{}  // a place for each request that runs
	answering  sync.WaitGroup // requests that get an answer; not subscriptions, which do not end by themselves
	background sync.WaitGroup // all that runs for the connection
}

func newConnection(ctx context.Context, g *gate, caller toolyard.Caller, write func([]byte) error) *connection {
	c := &connection{gate: g, caller: caller, write: write, session: session{id: rand.Text()}, requests: make(chan struct{}, maxConcurrent)}
	c.ctx, c.end = context.WithCancel(ctx)
	c.silent, c.hush = context.WithCancel(c.ctx)
	return c
}

// send sends a message, and ends the connection if that is not possible.
func (c *connection) send(message []byte) bool {
	if c.ctx.Err() != nil {
		return false
	}
	if c.write(message) != nil {
		c.end()
		return false
	}
	return true
}

func (c *connection) respond(id json.RawMessage, result []byte, wire *jsonrpc.Error) {
	c.send(appendResponse(make([]byte, 0, len(result)+256), id, result, wire))
}

// receive takes one message of the client. Requests are answered in the background.
func (c *connection) receive(env *envelope) {
	x := &exchange{access: access{gate: c.gate, view: c.gate.view.Load(), caller: c.caller, origin: c.origin}, env: env, peer: c.session.id, left: c.ctx, silent: c.silent}
	x.send, x.meta = c.send, readMeta(env.params)
	if x.meta.version == "" {
		session := c.session
		x.session = &session
	}
	switch {
	case env.method == "" || env.id == nil:
		_ = x.take(c.ctx) // it fails only if other replicas cannot be told, who need not know
	case env.method == "initialize" && x.session != nil:
		c.initialize(env)
	default:
		c.start(x)
	}
}

// initialize agrees on the session, once.
func (c *connection) initialize(env *envelope) {
	agreed, result, wire := c.gate.server.initialize(env.params)
	if wire == nil && c.initialized {
		wire = invalid("the session is initialized already")
	}
	if wire != nil {
		c.respond(env.id, nil, wire)
		return
	}
	c.session.version, c.session.features, c.initialized = agreed.version, agreed.features, true
	l := watchAll(c.gate, c.gate.view.Load()) // before the client can list anything
	c.respond(env.id, result, nil)
	l.tell = func(k kind) bool { return c.send(changeMessage(k, "")) }
	c.background.Go(func() { l.run(c.silent) })
}

// start answers a request in the background.
func (c *connection) start(x *exchange) {
	if wire := c.check(x); wire != nil {
		c.respond(x.env.id, nil, wire)
		return
	}
	select {
	case c.requests <- struct{}{}:
	default:
		c.respond(x.env.id, nil, invalid("more than %d requests run on this connection", maxConcurrent))
		return
	}
	if x.env.method == "subscriptions/listen" {
		c.background.Go(func() { c.subscribe(x) })
		return
	}
	c.answering.Add(1)
	c.background.Go(func() {
		defer c.answering.Done()
		defer func() { <-c.requests }()
		result, wire := x.answer(c.ctx)
		c.respond(x.env.id, result, wire)
	})
}

// check prepares a request, or says why it is refused.
func (c *connection) check(x *exchange) *jsonrpc.Error {
	switch {
	case x.session == nil:
		if wire := x.meta.check(); wire != nil {
			return wire
		}
	case !c.initialized && x.env.method != "ping":
		return invalid("send initialize before %.100q", x.env.method)
	}
	return x.prepare()
}

// subscribe tells of changes until the client cancels its subscription.
func (c *connection) subscribe(x *exchange) {
	defer func() { <-c.requests }()
	subscribed, wire := x.subscription()
	if wire != nil {
		c.respond(x.env.id, nil, wire)
		return
	}
	ctx, done := x.begin(c.silent)
	defer done()
	subscribed.run(ctx, watchAll(c.gate, x.view), x.send, func(result []byte) { c.respond(x.env.id, result, nil) })
}

// drain waits until all requests are answered. The client says no more: questions to it are
// refused, and it is not told of changes.
func (c *connection) drain() {
	c.hush()
	c.gate.server.questions.refuse(c.session.id, json.RawMessage(`{"message":"`+errSilent.Error()+`"}`))
	c.answering.Wait()
}

// close ends everything that runs for the connection, and waits for it.
func (c *connection) close() {
	c.end()
	c.background.Wait()
}
