package jsvm

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options configures a pool's VMs and their limits. Limits that are zero have defaults.
type Options struct {
	Harness  string     // JavaScript module that calls __runtime.install(f) with the request handler
	Modules  []Provided // modules that scripts can import
	Memory   int        // maximum bytes per run; 64 MiB if zero
	CPU      time.Duration
	Workers  int    // maximum number of processes; if zero, one per processor and at least two
	CacheDir string // cache for the compiled engine; may be empty
	Log      *slog.Logger
}

// Run is a request to a module.
type Run struct {
	Module  *Module
	Request json.RawMessage
	Now     time.Time // the current time as seen by the script; the real time if zero
	Shared  bool      // keeps the module's state for the next run in this VM
	Once    bool      // the module is not expected to run again

	// Seed, if not zero, makes the run repeatable: it determines all random numbers, and time
	// starts at Now and advances only through timers.
	Seed [32]byte

	Timeout time.Duration // limit in the worker, in addition to the context's deadline; 30 s if zero

	// Host handles the script's requests; nil refuses all of them. It may be called concurrently.
	// Its context ends with the run.
	Host func(ctx context.Context, op string, payload json.RawMessage) (any, error)
	// Notify receives the script's notifications, in order. It must not block.
	Notify func(op string, payload json.RawMessage)
	// Log receives lines from the script's console.
	Log func(level slog.Level, text string)
	// Nested is set if another run is waiting for this one.
	Nested bool
}

// Stopped is the error for a run that was stopped.
type Stopped struct{ Reason Reason }

// Reason is the reason why a run was stopped.
type Reason string

// Reasons for stopping a run.
const (
	DeadlineExceeded Reason = "it did not finish in time"
	CPUExceeded      Reason = "it used too much CPU time"
	NeverSettles     Reason = "it is waiting for a promise that never settles"
	Canceled         Reason = "it was canceled"
	WorkerDied       Reason = "the process that ran it exited unexpectedly"
	WorkerFull       Reason = "scripts are already using all of the memory reserved for them"
)

func (s *Stopped) Error() string { return string(s.Reason) }

// Defaults for Options.
const (
	defaultMemory  = 64 << 20
	defaultCPU     = 5 * time.Second
	defaultTimeout = 30 * time.Second
	workerBudget   = 1 << 30 // bytes that all VMs of a worker may use
)

// grace is how long after the deadline a worker may take to stop a run.
const grace = 25 * time.Millisecond

// maxRuns is the maximum number of concurrent runs per worker. Most of them are waiting for the
// host.
const maxRuns = 256

// Pool runs scripts in worker processes, which it starts on demand.
type Pool struct {
	opts  Options
	setup []byte
	slots chan struct{} // limits runs that are not nested
	inner chan struct{} // limits nested runs; excess runs are refused, because waiting could deadlock

	mu       sync.Mutex
	workers  []*process
	closed   bool
	retiring bool // a call to retire is scheduled
}

// NewPool returns a pool. It fails if the binary was built without its assets.
func NewPool(opts Options) (*Pool, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if opts.Memory == 0 {
		opts.Memory = defaultMemory
	}
	opts.Memory = min(max(opts.Memory, 8<<20), 1<<30)
	if opts.CPU == 0 {
		opts.CPU = defaultCPU
	}
	if opts.Workers == 0 {
		opts.Workers = max(2, runtime.NumCPU())
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	s := &setup{Modules: opts.Modules, Harness: opts.Harness, Memory: opts.Memory, Budget: max(workerBudget, 2*(opts.Memory+overhead)), CacheDir: opts.CacheDir}
	body, err := json.Marshal(s)
	return &Pool{opts: opts, setup: body, slots: make(chan struct{}, maxRuns*opts.Workers), inner: make(chan struct{}, 4*maxRuns*opts.Workers)}, err
}

// idleAfter is how long a worker may be idle. The last worker is always kept.
const idleAfter = time.Minute

// retire ends idle workers, but keeps one.
func (p *Pool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.workers) - 1; i > 0; i-- {
		if w := p.workers[i]; w.idleFor() > idleAfter {
			p.workers = slices.Delete(p.workers, i, i+1)
			w.kill()
		}
	}
	if p.retiring = len(p.workers) > 1 && !p.closed; p.retiring {
		time.AfterFunc(idleAfter, p.retire)
	}
}

// retireTime is how long runs may continue in a retired pool.
const retireTime = 30 * time.Second

// Retire closes the pool when its runs have ended, or after retireTime. It does not block.
func (p *Pool) Retire() {
	go func() {
		defer p.Close()
		for deadline := time.Now().Add(retireTime); time.Now().Before(deadline); {
			if time.Sleep(250 * time.Millisecond); len(p.slots)+len(p.inner) == 0 {
				return
			}
		}
	}()
}

// Close kills all workers and stops their runs.
func (p *Pool) Close() {
	p.mu.Lock()
	workers := p.workers
	p.workers, p.closed = nil, true
	p.mu.Unlock()
	for _, w := range workers {
		w.kill()
		<-w.dead
	}
}

// Run runs a request and returns its answer. The error is an *Exception if the script threw one, a
// *Stopped, or another error if the run could not start.
func (p *Pool) Run(ctx context.Context, r *Run) (json.RawMessage, error) {
	done, err := p.enter(ctx, r.Nested)
	if err != nil {
		return nil, err
	}
	defer done()
	for attempt := 0; ; attempt++ {
		w, err := p.worker(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := w.run(ctx, r, p.opts.CPU)
		var lost *lostError
		if !errors.As(err, &lost) {
			return answer, err
		}
		// Another run crashed the worker. This run has made no host requests, so it has had no
		// effects and can be repeated.
		if lost.timedOut || lost.usedHost || attempt == 2 || ctx.Err() != nil {
			return nil, lost.reason()
		}
	}
}

// enter waits for a slot.
func (p *Pool) enter(ctx context.Context, nested bool) (leave func(), err error) {
	if nested {
		select {
		case p.inner <- struct{}{}:
			return func() { <-p.inner }, nil
		default:
			return nil, errors.New("too many nested script calls")
		}
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lostError is the error for a run whose worker died.
type lostError struct{ timedOut, usedHost bool }

func (e *lostError) Error() string { return string(WorkerDied) }

func (e *lostError) reason() error {
	if e.timedOut {
		return &Stopped{DeadlineExceeded}
	}
	return &Stopped{WorkerDied}
}

// worker returns the least busy worker. If all are busy, it starts another one.
func (p *Pool) worker(ctx context.Context) (*process, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errors.New("the script engine is closed")
	}
	p.workers = slices.DeleteFunc(p.workers, (*process).isGone)
	best := leastBusy(p.workers)
	starting := slices.ContainsFunc(p.workers, func(w *process) bool { return !w.isReady() })
	if best == nil || (best.load() >= busyAt && len(p.workers) < p.opts.Workers && !starting) {
		started := p.start()
		if p.workers = append(p.workers, started); len(p.workers) > 1 && !p.retiring {
			p.retiring = true
			time.AfterFunc(idleAfter, p.retire)
		}
		if best == nil {
			best = started
		}
	}
	p.mu.Unlock()
	return best, best.await(ctx)
}

// busyAt is the number of runs at which a worker counts as busy.
const busyAt = 2

// leastBusy returns the worker with the fewest runs. It prefers workers that are ready.
func leastBusy(workers []*process) (best *process) {
	for _, w := range workers {
		switch {
		case best == nil, w.isReady() && !best.isReady():
			best = w
		case w.isReady() == best.isReady() && w.load() < best.load():
			best = w
		}
	}
	return best
}
