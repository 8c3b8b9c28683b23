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
	maxMessage = 8 << 20          // maximum size of a message that the servers read
	patience   = 30 * time.Second // how long to serve a client whose end the servers cannot detect
)

// route is the path from a server to its client.
type route struct {
	wire
	call *exchange   // nil on stdio
	quit func()      // ends the process; nil on HTTP
	deaf atomic.Bool // whether the process no longer reads its input
}

// wire sends bytes to a client.
type wire interface {
	write(p []byte) error
	// frame returns the text before and after a message.
	frame() (before, after string)
}

// pipe is standard output. Messages from several turns are not interleaved.
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

// child is a server that runs as a separate process.
type child struct {
	*turn
	errOut io.Writer
	ended  bool   // whether the process does not serve at all
	linger func() // runs when the process should end
}

// ServeStdio serves on standard input and output until the input ends or the server stops. Run it
// in a separate process: some servers change signal handling, and some end the process.
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

// serve handles messages until the input or the process ends. A deaf process notices neither
// messages nor the end of its input.
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

// begin handles a message concurrently with other messages.
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

// acknowledge responds to a modern client that subscribed to changes.
func (t *turn) acknowledge() {
	if t.modern {
		t.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + t.subscription() + `,"notifications":{"toolsListChanged":true}}}`)
	}
}

// subscription marks a notification as belonging to the client's subscription.
func (t *turn) subscription() string {
	if !t.modern {
		return `"_meta":{}`
	}
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(t.ID) + `}`
}

// readMessages reads one message per line. Invalid lines are skipped.
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
