package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxMessage = 8 << 20          // that the servers read
	patience   = 30 * time.Second // with clients whose end the servers cannot see
)

// route is the way from a server to its client.
type route struct {
	wire
	call *exchange   // of HTTP, nil on stdio
	quit func()      // ends the process, nil on HTTP
	deaf atomic.Bool // the process does not read its input any more
}

// wire takes bytes to a client.
type wire interface {
	write(p []byte) error
	// frame is what stands before and after a message.
	frame() (before, after string)
}

// pipe is standard output. Messages of several turns do not mix.
type pipe struct {
	mu  sync.Mutex
	out io.Writer
}

func (p *pipe) write(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.out.Write(b)
	return err
}

func (p *pipe) frame() (before, after string) { return "", "\n" }

// child is a server that is a process of its own.
type child struct {
	*turn
	errOut io.Writer
	ended  bool   // it serves nothing at all
	linger func() // what it does when it should end
}

// ServeStdio serves on standard input and output until the input ends, or until the server
// chooses to die, which is when it returns. Run it in a process of its own: some servers
// change how it takes signals, and some end it.
func ServeStdio(b Behaviour, seed uint64, in io.Reader, out, errOut io.Writer) {
	ctx, quit := context.WithCancel(context.Background())
	defer quit()
	s := newServer(b, seed)
	r := &route{wire: &pipe{out: out}, quit: quit}
	c := &child{turn: s.newTurn(ctx, message{}, r, b.modern(seed)), errOut: errOut, linger: func() {}}
	if b.start != nil {
		b.start(c)
	}
	if !c.ended {
		c.serve(in)
	}
	c.linger()
}

// serve answers until the input or the process ends. A process that has become deaf sees
// neither its messages nor its end.
func (c *child) serve(in io.Reader) {
	lines := make(chan message)
	if !c.deaf.Load() {
		go readMessages(c.ctx, in, lines)
	}
	for !c.deaf.Load() {
		select {
		case <-c.ctx.Done():
			return
		case m, ok := <-lines:
			if !ok {
				return
			}
			c.begin(c.ctx, m, c.route)
		}
	}
	c.pause(patience)
}

// begin answers a message beside the others.
func (s *server) begin(ctx context.Context, m message, r *route) {
	t := s.newTurn(ctx, m, r, s.modern(s.seed))
	go func() {
		if s.pours(t) {
			t.acknowledge()
			s.pour(t)
			return
		}
		s.take(t)
	}()
}

// acknowledge answers a modern client that asked to be told of changes.
func (t *turn) acknowledge() {
	if t.modern {
		t.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + t.subscription() + `,"notifications":{"toolsListChanged":true}}}`)
	}
}

// subscription marks a notification as one of the client's subscription.
func (t *turn) subscription() string {
	if !t.modern {
		return `"_meta":{}`
	}
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(t.ID) + `}`
}

// readMessages reads what the client sends, a message a line. What is not one is skipped.
func readMessages(ctx context.Context, in io.Reader, lines chan<- message) {
	defer close(lines)
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxMessage)
	for scanner.Scan() {
		var m message
		if json.Unmarshal(scanner.Bytes(), &m) != nil {
			continue
		}
		select {
		case lines <- m:
		case <-ctx.Done():
			return
		}
	}
}
