package jsvm

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a worker as the pool sees it.
type process struct {
	conn  *conn
	cmd   *exec.Cmd
	log   *slog.Logger
	ready chan struct{} // closed when the engine runs
	dead  chan struct{} // closed when the process has ended

	mu      sync.Mutex
	pending map[uint32]*pending
	last    uint32
	gone    bool
	used    time.Time // when it last had something to do
	err     error     // why it ended
}

// start starts a worker: this binary under another name, with no environment and nothing
// but two pipes.
func (p *Pool) start() *process {
	w := &process{log: p.opts.Log, ready: make(chan struct{}), dead: make(chan struct{}), pending: make(map[uint32]*pending), used: time.Now()}
	var complaint tail
	in, out, err := w.launch(&complaint)
	if err != nil {
		w.fail(err)
		close(w.dead)
		return w
	}
	w.conn = newConn(out, in)
	go w.serve(p.setup, &complaint, in, out)
	return w
}

func (w *process) launch(complaint *tail) (in, out *os.File, err error) {
	w.cmd = &exec.Cmd{Path: ownBinary(), Args: []string{workerName}, Dir: "/", Env: []string{}, Stderr: complaint}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = theirIn.Close() }()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = theirOut.Close() }()
	w.cmd.Stdin, w.cmd.Stdout = theirIn, theirOut
	return in, out, w.cmd.Start()
}

// serve talks to the worker until it ends.
func (w *process) serve(setup []byte, complaint *tail, in, out *os.File) {
	err := w.conn.send(frameSetup, 0, setup)
	for err == nil {
		var f frame
		if f, err = w.conn.receive(); err != nil {
			break
		}
		if f.kind == frameReady {
			close(w.ready)
			continue
		}
		w.take(f)
	}
	w.kill()
	err = errors.Join(w.cmd.Wait(), complaint.err())
	w.fail(err)
	close(w.dead)
	_, _ = in.Close(), out.Close()
}

// fail says that the worker is gone, to all who wait for it.
func (w *process) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.err = true, err
	for _, pend := range w.pending {
		pend.cancel()
		close(pend.answer)
	}
	w.pending = nil
}

// kill ends the process at once.
func (w *process) kill() {
	if w.cmd != nil && w.cmd.Process != nil {
		_ = w.cmd.Process.Kill()
	}
}

func (w *process) load() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// idleFor is how long the worker has had nothing to do.
func (w *process) idleFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		return 0
	}
	return time.Since(w.used)
}

func (w *process) isDead() bool {
	select {
	case <-w.dead:
		return true
	default:
		return false
	}
}

func (w *process) isReady() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

func (w *process) cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// tail keeps the end of what a process complains of.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

func (t *tail) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(bytes.ToValidUTF8(t.text, nil))); text != "" {
		return errors.New(text)
	}
	return nil
}
