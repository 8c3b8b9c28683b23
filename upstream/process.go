package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/trust/framing"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// notifyTimeout limits how long sending a message that has no response may take.
const notifyTimeout = 5 * time.Second

// stuckTimeout limits how long a server may leave its input unread.
const stuckTimeout = 15 * time.Second

// processLink is a link to a child process, with one message per line.
type processLink struct {
	*duplex
	process *subprocess.Process
	env     []string
	redact  func(string) string
	outbox  chan []byte
	written chan struct{} // closed when writing has ended
	read    chan struct{} // closed when reading has ended
}

// newProcess starts a server. Its output is not read until start is called.
func newProcess(o *Options, onMessage func(message)) (*processLink, error) {
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
		duplex: newDuplex(onMessage), process: process, env: env, redact: o.Redact,
		outbox: make(chan []byte), written: make(chan struct{}), read: make(chan struct{}),
	}
	l.send = l.post
	return l, nil
}

// updateCredentials reports whether the environment has changed. Applying the change requires
// restarting the process.
func (l *processLink) updateCredentials(o *Options) (restart bool) {
	if o.Env == nil {
		return false
	}
	env, err := o.Env()
	return err == nil && !slices.Equal(env, l.env)
}

// start starts reading and writing.
func (l *processLink) start() {
	go l.writeLoop()
	go l.readLoop()
	go l.reap()
}

// post passes a message to the writer.
func (l *processLink) post(ctx context.Context, body []byte) error {
	line := append(bytes.Clone(body), '\n')
	select {
	case l.outbox <- line:
		return nil
	case <-l.done():
		return l.err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// notify implements link.
func (l *processLink) notify(ctx context.Context, body []byte) error { return l.post(ctx, body) }

// writeLoop writes posted messages. Either a line is written completely, or the link ends.
func (l *processLink) writeLoop() {
	defer close(l.written)
	for {
		select {
		case line := <-l.outbox:
			_ = l.process.In.SetWriteDeadline(time.Now().Add(stuckTimeout))
			if _, err := l.process.In.Write(line); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					l.fail(errors.New("the server does not read its input"))
				}
				return // the process's exit is the more helpful reason
			}
		case <-l.done():
			return
		}
	}
}

// readLoop reads messages until the output ends or exceeds a limit.
func (l *processLink) readLoop() {
	defer close(l.read)
	lines := framing.NewLineReader(l.process.Out, maxMessage)
	for {
		line, err := lines.Next()
		var long *framing.LongLineError
		switch {
		case errors.As(err, &long):
			err = l.invalid(&sizeError{long.Size}, long.Head, long.Tail)
		case err == nil && isMessage(line):
			err = l.receive(cloneMessage(line))
		case err == nil:
			err = l.count()
		}
		if err != nil {
			l.finish(err)
			return
		}
	}
}

// cloneMessage copies a line out of the reader's buffer. The reader does not reuse the buffer of a
// large line.
func cloneMessage(line []byte) []byte {
	if len(line) > framing.MaxReused {
		return line
	}
	return bytes.Clone(line)
}

// Time limits for the end of a process. Its exit and the end of its output are reported separately.
const (
	exitWait   = time.Second     // wait for the exit status after the output has ended
	outputWait = 2 * time.Second // wait for the rest of the output after the exit, if another process holds the output open
)

// finish ends the link after the last message.
func (l *processLink) finish(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		select {
		case <-l.process.Ended():
		case <-time.After(exitWait):
		}
		err = l.exitError()
	}
	l.fail(err)
}

// exitError returns how the process ended, with the last lines of its standard error.
func (l *processLink) exitError() error {
	how := "the server closed its output"
	if err := l.process.Exit(); err != nil {
		how = err.Error()
	}
	stderr := l.redact(l.process.Tail())
	if len(stderr) > maxShown/2 {
		stderr = "…" + untrusted.Suffix(stderr, maxShown/2)
	}
	if stderr == "" {
		return errors.New(how)
	}
	return errors.New(how + ": " + stderr)
}

// reap ends the link once the process has exited, even if another process holds its output open.
// When the link has ended, it releases the process's resources.
func (l *processLink) reap() {
	select {
	case <-l.process.Ended():
		select {
		case <-l.read: // all output has been read
		case <-l.done():
		case <-time.After(outputWait):
			l.fail(l.exitError())
		}
	case <-l.done():
		l.process.Kill()
	}
	<-l.process.Ended()
	l.fail(l.exitError())
	_ = l.process.Out.Close()
	_ = l.process.In.Close()
}

// close implements link. It gives the server time to exit.
func (l *processLink) close() {
	l.process.Stop(context.Background())
	l.fail(errClosed)
	<-l.written
	<-l.read
}
