package jsvm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/subprocess"
)

// process is the parent's view of a worker.
type process struct {
	conn    *conn
	process *subprocess.Process
	log     *slog.Logger
	ready   chan struct{} // closed when the engine is ready
	dead    chan struct{} // closed when the process exits

	mu      sync.Mutex
	pending map[uint32]*inFlight
	last    uint32
	gone    bool      // accepts no more runs
	used    time.Time // end of the last run
	err     error     // reason for the exit
}

// start starts a worker: this binary under another name, with nothing but two pipes. The worker
// exits when this process exits.
func (p *Pool) start() *process {
	w := &process{log: p.opts.Log, ready: make(chan struct{}), dead: make(chan struct{}), pending: make(map[uint32]*inFlight), used: time.Now()}
	var err error
	if w.process, err = subprocess.Start(subprocess.Command{Path: ownBinary(), Name: workerName, Dir: "/", Bare: true}); err != nil {
		w.fail(err)
		close(w.dead)
		return w
	}
	w.conn = newConn(w.process.Out, w.process.In)
	go w.serve(p.setup)
	return w
}

// serve handles the worker's frames until it exits.
func (w *process) serve(setup []byte) {
	err := w.conn.send(frameSetup, 0, setup)
	for err == nil {
		var f frame
		if f, err = w.conn.receive(); err != nil {
			break
		}
		if f.kind != frameReady {
			w.handle(f)
		} else if !w.isReady() {
			close(w.ready)
		}
	}
	w.kill()
	<-w.process.Ended()
	w.fail(errors.Join(w.process.Err(), err))
	close(w.dead)
	_, _ = w.process.In.Close(), w.process.Out.Close()
}

// fail ends all runs on a worker that has exited.
func (w *process) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.err = true, err
	for _, pend := range w.pending {
		pend.cancel()
		pend.closeLogs()
		if !pend.reported {
			pend.reported = true
			close(pend.answer)
		}
	}
	w.pending = nil
}

func (w *process) kill() {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	if w.process != nil {
		w.process.Kill()
	}
}

func (w *process) load() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// idleFor returns how long the worker has had no runs.
func (w *process) idleFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		return 0
	}
	return time.Since(w.used)
}

// isGone reports whether the worker accepts no more runs.
func (w *process) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
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

// await waits until the worker is ready.
func (w *process) await(ctx context.Context) error {
	select {
	case <-w.ready:
	case <-w.dead:
		if !w.isReady() {
			return fmt.Errorf("cannot start the script engine: %w", w.cause())
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
