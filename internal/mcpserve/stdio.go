package mcpserve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioDrain is how long calls in flight may go on after stdio was told to stop.
const stdioDrain = 30 * time.Second

// ServeStdio speaks MCP of both eras over a pair of streams, one message a line, until
// in ends or ctx does. What was asked before that is answered.
func (s *Server) ServeStdio(ctx context.Context, gateName string, in io.Reader, out io.Writer) error {
	g, ok := (*s.gates.Load())[gateName]
	if !ok {
		return fmt.Errorf("there is no gate %q", gateName)
	}
	l := &lines{
		server: s, in: in, out: out,
		messages: make(chan jsonrpc.Message), closed: make(chan struct{}),
		stopping: ctx.Done(), gone: g.closed.Done(),
		open: make(map[jsonrpc.ID]bool), asked: make(map[jsonrpc.ID]bool), news: make(chan struct{}, 1),
	}
	ended := make(chan error, 1)
	go func() { ended <- g.legacy.sdk.Run(context.WithoutCancel(ctx), l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stdioDrain): // a client that does not read cannot hold us
		return errors.New("calls in flight did not end in time")
	}
}

// lines is a transport of one message a line, read strictly.
type lines struct {
	server *Server
	in     io.Reader
	out    io.Writer

	messages chan jsonrpc.Message
	failed   error // why messages ended

	stopping <-chan struct{} // closed when no more is to be read
	gone     <-chan struct{} // closed when the gate is
	closing  sync.Once
	closed   chan struct{}

	writing sync.Mutex

	owing sync.Mutex
	open  map[jsonrpc.ID]bool // requests that are owed an answer
	asked map[jsonrpc.ID]bool // requests of ours that the client has not answered
	news  chan struct{}       // told of each answer and question of ours
}

// Connect implements mcp.Transport.
func (l *lines) Connect(context.Context) (mcp.Connection, error) {
	go func() {
		defer close(l.messages)
		l.pump()
	}()
	return l, nil
}

// drain waits until all requests are answered: that a client says no more does not mean
// that it listens no more. But it answers no more: each question to it gets a refusal, which
// drain returns.
func (l *lines) drain() *jsonrpc.Response {
	for {
		l.owing.Lock()
		owed := len(l.open)
		for id := range l.asked {
			delete(l.asked, id)
			l.owing.Unlock()
			return &jsonrpc.Response{ID: id, Error: errGone}
		}
		l.owing.Unlock()
		if owed == 0 {
			return nil
		}
		select {
		case <-l.news:
		case <-l.closed:
			return nil
		}
	}
}

var errGone = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client says no more"}

// owe notes that a request waits for an answer, and that one of ours has got its own. A
// subscription does not end by itself, and a request that is canceled may get none.
func (l *lines) owe(msg jsonrpc.Message) {
	l.owing.Lock()
	defer l.owing.Unlock()
	r, ok := msg.(*jsonrpc.Request)
	if !ok {
		if answer, ok := msg.(*jsonrpc.Response); ok {
			delete(l.asked, answer.ID)
		}
		return
	}
	switch {
	case r.Method == "notifications/cancelled":
		var params struct {
			RequestID any `json:"requestId"`
		}
		_ = json.Unmarshal(r.Params, &params)
		if id, err := jsonrpc.MakeID(params.RequestID); err == nil {
			delete(l.open, id)
		}
	case r.IsCall() && r.Method != "subscriptions/listen":
		l.open[r.ID] = true
	}
}

// pump reads until the input ends. A line that is refused is answered and skipped.
func (l *lines) pump() {
	r := bufio.NewReaderSize(l.in, 64<<10)
	for {
		line, err := readLine(r, l.server.opts.MaxBody)
		if err != nil && !errors.Is(err, errLongLine) {
			l.failed = err
			return
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		msg, id, wire := l.decode(line, err)
		if wire != nil {
			l.failed = l.write(appendResponse(nil, id, nil, wire))
			if l.failed != nil {
				return
			}
			continue
		}
		select {
		case l.messages <- msg:
		case <-l.closed:
			l.failed = io.EOF
			return
		}
	}
}

func (l *lines) decode(line []byte, err error) (jsonrpc.Message, json.RawMessage, *jsonrpc.Error) {
	if err != nil {
		return nil, nil, tooLarge(l.server.opts.MaxBody)
	}
	env, wire := parse(line)
	if wire != nil {
		return nil, env.id, wire
	}
	msg, err := jsonrpc.DecodeMessage(l.server.mask.hide(env.body))
	if err != nil {
		return nil, env.id, invalid("not a JSON-RPC message")
	}
	return msg, nil, nil
}

var errLongLine = errors.New("the line is too long")

// readLine reads up to a newline. Of a line over the limit it reads the rest and keeps
// nothing.
func readLine(r *bufio.Reader, limit int64) (line []byte, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if !long && int64(len(line)+len(part)) > limit {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case long:
			return nil, errLongLine
		}
		return line, nil
	}
}

// Read implements mcp.Connection. The end is told when all that was asked is answered.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg, ok := <-l.messages:
		if ok {
			l.owe(msg)
			return msg, nil
		}
		if refusal := l.drain(); refusal != nil {
			return refusal, nil
		}
		return nil, l.failed
	case <-l.stopping:
	case <-l.gone:
	case <-l.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if refusal := l.drain(); refusal != nil {
		return refusal, nil
	}
	return nil, io.EOF
}

// Write implements mcp.Connection.
func (l *lines) Write(_ context.Context, msg jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(msg)
	answer, isAnswer := msg.(*jsonrpc.Response)
	if err != nil && isAnswer { // an answer is owed, if not this one
		b, err = jsonrpc.EncodeMessage(&jsonrpc.Response{ID: answer.ID, Error: errInternal})
	}
	if err != nil {
		return err
	}
	question, isRequest := msg.(*jsonrpc.Request)
	if isRequest && question.IsCall() {
		l.note(func() { l.asked[question.ID] = true })
	}
	err = l.write(l.server.mask.show(b))
	if isAnswer {
		l.note(func() { delete(l.open, answer.ID) })
	}
	return err
}

// note changes what is owed or asked, and tells drain.
func (l *lines) note(change func()) {
	l.owing.Lock()
	change()
	l.owing.Unlock()
	select {
	case l.news <- struct{}{}:
	default: // drain looks again anyway
	}
}

func (l *lines) write(message []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.out.Write(append(message, '\n'))
	return err
}

// Close implements mcp.Connection.
func (l *lines) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

// SessionID implements mcp.Connection.
func (l *lines) SessionID() string { return l.server.stdio }
