package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
)

// maxConcurrent is the maximum number of concurrent requests on a connection.
const maxConcurrent = 1000

// connection is a client on a bidirectional transport: stdio, or HTTP+SSE. Its MCP session is in memory
// and ends with the connection.
type connection struct {
	gate   *gate
	caller toolyard.Caller
	origin string
	write  func(message []byte) error

	ctx context.Context // ends with the connection
	end context.CancelFunc

	session     session
	initialized bool
	silent      context.Context // ends when the client stops sending messages
	setSilent   context.CancelFunc

	slots      chan struct{}  // holds a token for each running request
	responding sync.WaitGroup // running requests, except subscriptions, which do not end on their own
	background sync.WaitGroup // all goroutines of the connection
}

func newConnection(ctx context.Context, g *gate, caller toolyard.Caller, write func([]byte) error) *connection {
	c := &connection{gate: g, caller: caller, write: write, session: session{id: rand.Text()}, slots: make(chan struct{}, maxConcurrent)}
	c.ctx, c.end = context.WithCancel(ctx)
	c.silent, c.setSilent = context.WithCancel(c.ctx)
	return c
}

// send sends a message, and ends the connection if that fails.
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

func (c *connection) respond(id json.RawMessage, result []byte, rpcErr *jsonrpc.Error) {
	c.send(appendResponse(make([]byte, 0, len(result)+256), id, result, rpcErr))
}

// receive handles a message from the client. Requests run in the background.
func (c *connection) receive(m *message) {
	x := &requestContext{
		access:  access{gate: c.gate, view: c.gate.view.Load(), caller: c.caller, origin: c.origin},
		message: m, params: readParams(m.params), peer: c.session.id, send: c.send, gone: c.ctx, silent: c.silent,
	}
	if x.params.meta.version == "" {
		session := c.session
		x.session = &session
	}
	switch {
	case m.method == "" || m.id == nil:
		_ = x.receive(c.ctx) // fails only for sessions shared by replicas
	case m.method == "initialize" && x.session != nil:
		c.initialize(m)
	default:
		c.start(x)
	}
}

// initialize negotiates the MCP session. This can happen only once.
func (c *connection) initialize(m *message) {
	agreed, result, rpcErr := c.gate.server.initialize(m.params)
	if rpcErr == nil && c.initialized {
		rpcErr = invalid("the MCP session is already initialized")
	}
	if rpcErr != nil {
		c.respond(m.id, nil, rpcErr)
		return
	}
	c.session.version, c.session.features, c.initialized = agreed.version, agreed.features, true
	l := watchAll(c.gate, c.gate.view.Load()) // created before the client can list anything
	c.respond(m.id, result, nil)
	l.notify = func(k kind) bool { return c.send(changeMessage(k, "")) }
	l.update = func(uri string) bool { return c.send(updateMessage(uri, "")) }
	s := c.gate.server
	l.updates = s.legacy.subscriptions.open(c.session.id, c.gate, s.opts.Now())
	c.background.Go(func() {
		l.run(c.silent)
		s.legacy.subscriptions.close(c.session.id, s.opts.Now())
	})
}

// start runs a request in the background.
func (c *connection) start(x *requestContext) {
	if rpcErr := c.check(x); rpcErr != nil {
		c.respond(x.message.id, nil, rpcErr)
		return
	}
	select {
	case c.slots <- struct{}{}:
	default:
		c.respond(x.message.id, nil, invalid("too many concurrent requests on this connection: the limit is %d", maxConcurrent))
		return
	}
	if x.message.method == "subscriptions/listen" {
		c.background.Go(func() { c.subscribe(x) })
		return
	}
	c.responding.Add(1)
	c.background.Go(func() {
		defer c.responding.Done()
		defer func() { <-c.slots }()
		result, rpcErr := x.answer(c.ctx)
		c.respond(x.message.id, result, rpcErr)
	})
}

// check prepares a request, or returns an error.
func (c *connection) check(x *requestContext) *jsonrpc.Error {
	switch {
	case x.session == nil:
		if rpcErr := x.params.meta.check(); rpcErr != nil {
			return rpcErr
		}
	case !c.initialized && x.message.method != "ping":
		return invalid("send initialize before %.100q", x.message.method)
	}
	return x.prepare()
}

// subscribe sends notifications until the client cancels its subscription.
func (c *connection) subscribe(x *requestContext) {
	defer func() { <-c.slots }()
	subscribed, rpcErr := x.subscription()
	if rpcErr != nil {
		c.respond(x.message.id, nil, rpcErr)
		return
	}
	release, err := x.reserveSubscriptions(len(subscribed.resources))
	if err != nil {
		c.respond(x.message.id, nil, protocolError(x.view.Gate.Errors, toolyard.AsError(err)))
		return
	}
	defer release()
	ctx, done := x.trackRequest(c.silent)
	defer done()
	subscribed.run(ctx, watchAll(c.gate, x.view), x.send, func(result []byte) { c.respond(x.message.id, result, nil) })
}

// drain waits for the running requests after the client has stopped sending. Pending questions
// fail, and change notifications stop.
func (c *connection) drain() {
	c.setSilent()
	c.gate.server.legacy.questions.fail(c.session.id, json.RawMessage(`{"message":"`+errSilent.Error()+`"}`))
	c.responding.Wait()
}

// close ends all goroutines of the connection and waits for them.
func (c *connection) close() {
	c.end()
	c.background.Wait()
	c.gate.server.legacy.subscriptions.forget(c.session.id)
}
