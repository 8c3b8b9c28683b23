package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// stdioDrain limits how long running calls continue after the input has ended.
const stdioDrain = 30 * time.Second

// ServeStdio serves MCP of both eras over a pair of streams, one message per line, until in or ctx
// ends. Requests that were already read are still answered.
func (s *Server) ServeStdio(ctx context.Context, gateName string, in io.Reader, out io.Writer) error {
	g, err := s.gate(gateName)
	if err != nil {
		return err
	}
	var writing sync.Mutex
	c := newConnection(context.WithoutCancel(ctx), g, toolyard.Caller{ID: "local", Account: "local"}, func(message []byte) error {
		writing.Lock()
		defer writing.Unlock()
		_, err := out.Write(append(oneLine(message), '\n'))
		return err
	})
	lines := make(chan line)
	go c.readLines(in, lines)
	err = c.serveLines(ctx, lines)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.drain()
		c.close()
	}()
	select {
	case <-drained:
		return err
	case <-time.After(stdioDrain): // the client is not reading its responses
		c.end()
		return errors.New("in-flight calls did not finish in time")
	}
}

// line is a line of input, or an error.
type line struct {
	text []byte
	err  error // errLongLine, io.EOF or a read error
}

// readLines reads until the input or the connection ends.
func (c *connection) readLines(in io.Reader, lines chan<- line) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := readLine(r, c.gate.server.opts.MaxBody)
		select {
		case lines <- line{text, err}:
		case <-c.ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return
		}
	}
}

// serveLines handles lines until the input, ctx, the gate or the connection ends. It responds to
// invalid lines with an error.
func (c *connection) serveLines(ctx context.Context, lines <-chan line) error {
	for {
		select {
		case l := <-lines:
			switch {
			case errors.Is(l.err, errLongLine):
				c.respond(nil, nil, tooLarge(c.gate.server.opts.MaxBody))
			case errors.Is(l.err, io.EOF):
				return nil
			case l.err != nil:
				return l.err
			case len(bytes.TrimSpace(l.text)) > 0:
				c.receiveLine(l.text)
			}
		case <-ctx.Done():
			return nil
		case <-c.gate.closed.Done():
			return nil
		case <-c.ctx.Done():
			return errors.New("cannot write to the client")
		}
	}
}

func (c *connection) receiveLine(text []byte) {
	m, rpcErr := parse(text)
	if rpcErr != nil {
		c.respond(m.id, nil, rpcErr)
		return
	}
	c.receive(&m)
}

var errLongLine = errors.New("the client sent a line that is too long")

// readLine reads up to a newline. It skips a line over the limit and returns errLongLine.
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
