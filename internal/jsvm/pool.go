package jsvm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
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

	// Outside answers what the script asks of the outside; nil refuses everything. It may
	// be called many times at once. Its context ends with the run.
	Outside func(ctx context.Context, op string, payload json.RawMessage) (any, error)
	// Told takes what the script says without waiting for an answer, in order. It must not
	// wait either.
	Told func(op string, payload json.RawMessage)
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
	Late     Reason = "it did not end in time"
	Busy     Reason = "it used too much CPU time"
	Unending Reason = "it waits for a promise that nothing can settle"
	Canceled Reason = "it was cancelled"
	Lost     Reason = "the process that ran it has died"
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
const grace = 35 * time.Millisecond

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
		if lost.guilty || lost.asked || attempt == 2 || ctx.Err() != nil {
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
type lostError struct{ guilty, asked bool }

func (e *lostError) Error() string { return string(Lost) }

func (e *lostError) reason() error {
	if e.guilty {
		return &Stopped{Late}
	}
	return &Stopped{Lost}
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

// await waits until the worker has been ready.
func (w *process) await(ctx context.Context) error {
	select {
	case <-w.ready:
	case <-w.dead:
		if !w.isReady() {
			return fmt.Errorf("the script engine does not start: %w", w.cause())
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
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

// pending is a run that a worker has not answered yet.
type pending struct {
	run    *Run
	ctx    context.Context
	cancel context.CancelFunc
	order  order
	answer chan frame // closed when the worker dies
	guilty bool       // the worker was killed because of this run
	asked  bool
	open   int // questions
	log    *slog.Logger
}

// run sends a run to the worker and waits for its end.
func (w *process) run(ctx context.Context, r *Run, cpu time.Duration) (json.RawMessage, error) {
	timeout := cmp.Or(r.Timeout, defaultTimeout)
	if at, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(at))
	}
	if timeout <= 0 {
		return nil, &Stopped{Late}
	}
	now := r.Now
	if now.IsZero() {
		now = time.Now()
	}
	o := order{Module: r.Module.key, Deadline: time.Now().Add(timeout).UnixNano(), CPU: int64(cpu), Seconds: now.Unix(), Nanos: int32(now.Nanosecond()), Shared: r.Shared, Once: r.Once} //nolint:gosec // below 10^9
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	pend := &pending{run: r, ctx: inner, cancel: cancel, order: o, answer: make(chan frame, 1), log: w.log}
	id, ok := w.begin(pend)
	if !ok {
		return nil, &lostError{}
	}
	// The worker ends the run at its deadline. If it does not, it is ended.
	watchdog := time.AfterFunc(timeout+grace, func() { w.overdue(id) })
	if err := w.conn.send(frameRun, id, pend.order.bytes(), r.Request); err != nil {
		watchdog.Stop()
		w.forget(id)
		if errors.Is(err, errLargeFrame) {
			return nil, err
		}
		return nil, &lostError{}
	}
	// A caller who gives up is let go at once. A deadline the worker notices by itself, and
	// its end is awaited.
	left := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			close(left)
			_ = w.conn.send(frameCancel, id)
		}
	})
	defer stop()
	select {
	case f, ok := <-pend.answer:
		watchdog.Stop()
		if !ok {
			return nil, w.lost(pend)
		}
		return r.Module.open(f.body)
	case <-left:
		return nil, &Stopped{Canceled} // the watchdog stays until the worker has answered
	}
}

// begin registers a run, unless the worker takes no more.
func (w *process) begin(pend *pending) (id uint32, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return 0, false
	}
	w.last++
	w.pending[w.last] = pend
	w.used = time.Now()
	return w.last, true
}

func (w *process) forget(id uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, id)
}

func (w *process) lost(pend *pending) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &lostError{guilty: pend.guilty, asked: pend.asked}
}

// overdue kills the worker if it still has the run.
func (w *process) overdue(id uint32) {
	w.mu.Lock()
	pend := w.pending[id]
	if pend != nil {
		pend.guilty = true
	}
	w.mu.Unlock()
	if pend != nil {
		w.log.Warn("a script did not end at its deadline and its worker was ended", "module", pend.run.Module.Name)
		w.kill()
	}
}

// take handles a frame of the worker.
func (w *process) take(f frame) {
	w.mu.Lock()
	pend := w.pending[f.run]
	switch {
	case pend == nil:
	case f.kind == frameAnswer:
		delete(w.pending, f.run)
		w.used = time.Now()
	case f.kind == frameAsk:
		pend.asked = true
		if pend.open++; pend.open > maxPosts+1 { // more than its own bound allows
			pend = nil
			go w.kill()
		}
	}
	w.mu.Unlock()
	if pend == nil {
		return
	}
	switch f.kind {
	case frameAnswer:
		pend.cancel()
		pend.answer <- f
	case frameNeed:
		go w.supply(f.run, pend)
	case frameAsk:
		go w.answer(f, pend)
	case frameLog:
		pend.logLine(f.body)
	case frameTell:
		op, payload, _ := bytes.Cut(f.body, []byte{0})
		pend.say(string(op), payload)
	}
}

// supply sends the module that a run needs, and the run again.
func (w *process) supply(id uint32, pend *pending) {
	m := pend.run.Module
	if w.conn.send(frameModule, 0, m.body()) == nil {
		_ = w.conn.send(frameRun, id, pend.order.bytes(), pend.run.Request)
	}
}

// answer answers a question of a run.
func (w *process) answer(f frame, pend *pending) {
	if len(f.body) < 4 {
		return
	}
	n := binary.LittleEndian.Uint32(f.body)
	op, payload, _ := bytes.Cut(f.body[4:], []byte{0})
	reply := pend.reply(string(op), payload)
	w.mu.Lock()
	pend.open--
	w.mu.Unlock()
	_ = w.conn.send(frameReply, f.run, number32(n), reply)
}

// reply is the answer to a question as JSON, which says so if there is none.
func (pend *pending) reply(op string, payload []byte) []byte {
	value, err := pend.ask(op, payload)
	reply := map[string]any{"value": value}
	if err != nil {
		reply = map[string]any{"error": refusalOf(err)}
	}
	data, err := json.Marshal(reply)
	if err == nil && len(data) > maxAnswer {
		err = errors.New("the answer is too large")
	}
	if err != nil {
		data, _ = json.Marshal(map[string]any{"error": Refusal{Name: "RangeError", Message: err.Error()}})
	}
	return data
}

// ask asks the outside. Nothing that happens there may end this process.
func (pend *pending) ask(op string, payload []byte) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			pend.log.Error("a question of a script panicked", "op", op, "panic", p, "stack", string(debug.Stack()))
			value, err = nil, errors.New("it failed inside")
		}
	}()
	if pend.run.Outside == nil {
		return nil, &Refusal{Name: "NotCapable", Message: op + " is not available here"}
	}
	return pend.run.Outside(pend.ctx, op, payload)
}

// Refusal is an error that a script gets from the outside, with the name and code that it
// can ask for.
type Refusal struct {
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

func (r *Refusal) Error() string { return r.Message }

func refusalOf(err error) *Refusal {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	return &Refusal{Message: err.Error()}
}

func (pend *pending) say(op string, payload []byte) {
	defer func() { _ = recover() }() // nobody waits for it
	if pend.run.Told != nil {
		pend.run.Told(op, payload)
	}
}

func (pend *pending) logLine(body []byte) {
	level, text, _ := bytes.Cut(body, []byte{0})
	if pend.run.Log == nil {
		return
	}
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}
	pend.run.Log(levels[string(level)], string(text)) // info is zero
}

// open reads how a run ended.
func (m *Module) open(body []byte) (json.RawMessage, error) {
	if len(body) == 0 {
		return nil, errors.New("the worker sent nothing")
	}
	end, body := body[0], body[1:]
	switch end {
	case endAnswer:
		return m.openAnswer(body)
	case endException:
		e := &Exception{}
		if err := json.Unmarshal(body, e); err != nil {
			return nil, err
		}
		return nil, m.mapped(e)
	}
	reasons := map[byte]Reason{endDeadline: Late, endCPU: Busy, endUnending: Unending, endCanceled: Canceled}
	if reason, ok := reasons[end]; ok {
		return nil, &Stopped{reason}
	}
	return nil, errors.New(string(body))
}

func (m *Module) openAnswer(body []byte) (json.RawMessage, error) {
	var answer struct {
		Value json.RawMessage `json:"value"`
		Error *Exception      `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("the worker's answer: %w", err)
	}
	if answer.Error != nil {
		return nil, m.mapped(answer.Error)
	}
	return answer.Value, nil
}

// Module is a compiled script.
type Module struct {
	Name   string   // the file it was made from
	Code   string   // JavaScript
	Map    []byte   // its source map
	Inputs []Input  // the files that it is made of
	key    [32]byte // of name and code
}

// Input is a file that a module is made of.
type Input struct {
	Path string
	Sum  [32]byte
}

// NewModule is a module of JavaScript that needs no compiling.
func NewModule(name, code string, sourceMap []byte) *Module {
	m := &Module{Name: name, Code: code, Map: sourceMap}
	m.key = sha256.Sum256(m.body())
	return m
}

func (m *Module) body() []byte {
	return append(append([]byte(m.Name), 0), m.Code...)
}
