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

// Options say what scripts find in their VM and how much they may use. The zero value of
// each bound is a sensible one.
type Options struct {
	Harness  string     // a JavaScript module that calls __runtime.install(f) with what answers requests
	Modules  []Provided // modules that scripts can import
	Memory   int        // bytes that one run may use; 64 MiB
	CPU      time.Duration
	Workers  int    // processes at most; one for each processor, and at least two
	CacheDir string // where compiled code of the engine is kept, empty for nowhere
	Log      *slog.Logger
}

// Run is a request to a module.
type Run struct {
	Module  *Module
	Request json.RawMessage
	Now     time.Time // the time that the script sees; now when zero
	Shared  bool      // keep what the module changed in itself for the next run in this VM
	Once    bool      // the module is not expected to run again

	Timeout time.Duration // from when a worker has it, beside the context's deadline; 30 s when zero

	// Host answers what the script asks of the outside; nil refuses everything. It may
	// be called many times at once. Its context ends with the run.
	Host func(ctx context.Context, op string, payload json.RawMessage) (any, error)
	// Notify takes what the script says without waiting for an answer, in order. It must not
	// wait either.
	Notify func(op string, payload json.RawMessage)
	// Log takes the lines of the script's console.
	Log func(level slog.Level, text string)
	// Nested is a run that another run waits for.
	Nested bool
}

// Stopped is a run that was ended. Reason says why.
type Stopped struct{ Reason Reason }

// Reason is why a run was ended.
type Reason string

// The reasons.
const (
	DeadlineExceeded Reason = "it did not end in time"
	CPUExceeded      Reason = "it used too much CPU time"
	NeverSettles     Reason = "it waits for a promise that nothing can settle"
	Canceled         Reason = "it was cancelled"
	WorkerDied       Reason = "the process that ran it has died"
	OutOfMemory      Reason = "all memory for scripts is in use"
)

func (s *Stopped) Error() string { return string(s.Reason) }

// defaults of Options.
const (
	defaultMemory  = 64 << 20
	defaultCPU     = 5 * time.Second
	defaultTimeout = 30 * time.Second
	workerBudget   = 1 << 30 // bytes that all VMs of a worker may have
)

// grace is how long a worker may take to end a run by itself after the deadline.
const grace = 25 * time.Millisecond

// maxRuns is how many runs a worker has at once, most of which wait for the outside.
const maxRuns = 256

// Pool runs scripts in worker processes, which it starts when they are needed.
type Pool struct {
	opts  Options
	setup []byte
	slots chan struct{} // bounds runs that no other run waits for
	inner chan struct{} // bounds the others, which cannot wait: what they wait for waits for them

	mu       sync.Mutex
	workers  []*process
	closed   bool
	retiring bool // retire will run
}

// NewPool makes a pool. It fails if the binary lacks its assets.
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

// idleAfter is how long a worker that is not the only one stays without work.
const idleAfter = time.Minute

// retire ends workers that have had nothing to do for a while, but for one.
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

// retireTime is how long runs may go on in a pool that is not needed any more.
const retireTime = 30 * time.Second

// Retire closes the pool when its runs have ended, or after a while. It does not wait.
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

// Close ends all workers and with them all runs.
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

// Run runs a request and returns its answer. Errors are *Exception for what the script threw
// and *Stopped for a run that was ended; any other says that it could not be run.
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
		// Another run took the worker down. Nothing was asked of the outside, so nothing
		// happened that a second attempt could repeat.
		if lost.timedOut || lost.usedHost || attempt == 2 || ctx.Err() != nil {
			return nil, lost.reason()
		}
	}
}

// enter takes a place for a run.
func (p *Pool) enter(ctx context.Context, nested bool) (leave func(), err error) {
	if nested {
		select {
		case p.inner <- struct{}{}:
			return func() { <-p.inner }, nil
		default:
			return nil, errors.New("too many scripts are called by scripts")
		}
	}
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// lostError says that the worker died during a run.
type lostError struct{ timedOut, usedHost bool }

func (e *lostError) Error() string { return string(WorkerDied) }

func (e *lostError) reason() error {
	if e.timedOut {
		return &Stopped{DeadlineExceeded}
	}
	return &Stopped{WorkerDied}
}

// worker returns the worker with the least to do, and has another one started where all
// have enough.
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

// busyAt is how many runs a worker has when another one is started beside it.
const busyAt = 2

// leastBusy is the worker with the least to do, of those that are ready if there is one.
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
