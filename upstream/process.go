package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/toolyard/toolyard/internal/trust/framing"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// sayTimeout is how long a server may take to take in what needs no answer.
const sayTimeout = 5 * time.Second

// stuckTimeout is how long a server may leave its input unread while we have something to
// say.
const stuckTimeout = 15 * time.Second

// processLink is a server that is a child of ours, one message a line.
type processLink struct {
	*duplex
	process *subprocess.Process
	redact  func(string) string
	outbox  chan []byte
	written chan struct{} // closed when nothing more is written
	read    chan struct{} // closed when nothing more is read
}

// newProcess starts a server. What it says is not heard before start.
func newProcess(o *Options, heard func(message)) (*processLink, error) {
	var env []string
	if o.Env != nil {
		var err error
		if env, err = o.Env(); err != nil {
			return nil, err
		}
	}
	process, err := subprocess.Start(subprocess.Command{Path: o.Command[0], Args: o.Command[1:], Env: env, Dir: o.Dir, Limits: subprocess.Limits{Files: 4096, Tail: maxKept}})
	if err != nil {
		return nil, err
	}
	l := &processLink{
		duplex: newDuplex(heard), process: process, redact: o.Redact,
		outbox: make(chan []byte), written: make(chan struct{}), read: make(chan struct{}),
	}
	l.send = l.post
	return l, nil
}

// start begins to talk.
func (l *processLink) start() {
	go l.write()
	go l.hear()
	go l.bury()
}

// post hands a message to the writer.
func (l *processLink) post(ctx context.Context, body []byte) error {
	line := append(bytes.Clone(body), '\n')
	select {
	case l.outbox <- line:
		return nil
	case <-l.gone():
		return l.cause()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell implements link.
func (l *processLink) tell(ctx context.Context, body []byte) error { return l.post(ctx, body) }

// write writes what is posted. A line is written whole or the link ends.
func (l *processLink) write() {
	defer close(l.written)
	for {
		select {
		case line := <-l.outbox:
			_ = l.process.In.SetWriteDeadline(time.Now().Add(stuckTimeout))
			if _, err := l.process.In.Write(line); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					l.end(errors.New("it does not read what is sent to it"))
				}
				return // the end of the process says more
			}
		case <-l.gone():
			return
		}
	}
}

// hear reads until the output ends or cannot be followed any more.
func (l *processLink) hear() {
	defer close(l.read)
	lines := framing.NewLineReader(l.process.Out, maxMessage)
	for {
		line, err := lines.Next()
		var long *framing.LongLineError
		switch {
		case errors.As(err, &long):
			err = l.garbage(&sizeError{long.Size}, long.Head, long.Tail)
		case err == nil && isMessage(line):
			err = l.receive(own(line))
		case err == nil:
			err = l.count()
		}
		if err != nil {
			l.last(err)
			return
		}
	}
}

// own is a line that outlives the reader's buffer. A large one is the reader's no more.
func own(line []byte) []byte {
	if len(line) > framing.MaxReused {
		return line
	}
	return bytes.Clone(line)
}

// lastWords is how long we wait for how a process ended once its output has.
const lastWords = 100 * time.Millisecond

// last ends the link after the last that was read.
func (l *processLink) last(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		select {
		case <-l.process.Ended():
		case <-time.After(lastWords):
		}
		err = l.fate()
	}
	l.end(err)
}

// fate is how the process ended, as far as is known, with the end of its complaints.
func (l *processLink) fate() error {
	how := "it ended its output"
	if err := l.process.Exit(); err != nil {
		how = err.Error()
	}
	complaint := l.redact(l.process.Tail())
	if len(complaint) > maxShown/2 {
		complaint = "…" + untrusted.Suffix(complaint, maxShown/2)
	}
	if complaint == "" {
		return errors.New(how)
	}
	return errors.New(how + ": " + complaint)
}

// bury ends the link when the process has ended, also if somebody else holds its output
// open, and lets go of everything when the link has ended.
func (l *processLink) bury() {
	select {
	case <-l.process.Ended():
		select {
		case <-l.read: // all that it said is heard
		case <-time.After(lastWords / 3):
			l.end(l.fate())
		}
	case <-l.gone():
		l.process.Kill()
	}
	<-l.process.Ended()
	l.end(l.fate())
	_ = l.process.Out.Close()
	_ = l.process.In.Close()
}

// close implements link. A server that was asked may take a moment to end.
func (l *processLink) close() {
	l.process.Stop(context.Background())
	l.end(errClosed)
	<-l.written
	<-l.read
}
