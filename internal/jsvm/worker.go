package jsvm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/jsvm/assets"
)

// workerName is the argv[0] that makes the binary a worker.
const workerName = "toolyard-script-worker"

// A process that was started as a worker or a compiler never reaches main. Every program that
// embeds a yard, and every test binary, therefore also serves as its own worker.
func init() {
	serve, ok := map[string]func() error{workerName: work, compilerName: serveCompiler}[os.Args[0]]
	if !ok {
		return
	}
	// The goroutine that runs init functions is locked to its thread. If it handled frames, each
	// frame would require two thread switches.
	ended := make(chan error)
	go func() { ended <- serve() }()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is the worker process's side of a pool.
type worker struct {
	conn   *conn
	engine *engine

	mu      sync.Mutex
	runs    map[uint32]*workerRun
	modules map[[32]byte]*module
	ended   int // runs

	tasks chan func() // received by idle goroutines
}

// workerRun is a run in a worker. It exchanges frames with the parent.
type workerRun struct {
	worker *worker
	id     uint32
	cancel context.CancelFunc
	posted chan struct{} // receives a value when a post is answered

	mu       sync.Mutex
	last     uint32
	asked    map[uint32]func(answer string)
	answered []posted
}

// work handles requests until the parent closes the pipe.
func work() error {
	runtime.GOMAXPROCS(1) // a worker uses one processor, so more threads would only compete for it
	noHugePages()
	debug.SetGCPercent(50)
	w := &worker{conn: newConn(pipeFile(0), pipeFile(1)), tasks: make(chan func()), runs: make(map[uint32]*workerRun), modules: make(map[[32]byte]*module)}
	f, err := w.conn.receive()
	if err != nil || f.kind != frameSetup {
		return fmt.Errorf("did not receive the setup message: %w", err)
	}
	if w.engine, err = engineOf(f.body); err != nil {
		return err
	}
	w.engine.reclaim = w.reclaim
	if err := lockDown(); err != nil {
		return fmt.Errorf("restrict the worker process: %w", err)
	}
	if err := w.conn.send(frameReady, 0); err != nil {
		return err
	}
	go w.tidy()
	for {
		f, err := w.conn.receive()
		if err != nil {
			return nil //nolint:nilerr // the parent has exited, so this process exits too
		}
		w.take(f)
	}
}

func engineOf(body []byte) (*engine, error) {
	s := &setup{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, err
	}
	var err error
	if s.Engine, err = assets.Read(assets.Engine); err != nil {
		return nil, err
	}
	text, err := assets.Read(assets.Runtime)
	if err != nil {
		return nil, err
	}
	s.Runtime = string(text)
	return newEngine(context.Background(), s)
}

func (w *worker) take(f frame) {
	switch f.kind {
	case frameModule:
		w.addModule(f.body)
	case frameRun:
		w.start(f)
	case frameCancel:
		if run := w.running(f.run); run != nil {
			run.cancel()
		}
	case frameReply:
		if run := w.running(f.run); run != nil && len(f.body) >= 4 {
			run.reply(binary.LittleEndian.Uint32(f.body), string(f.body[4:]))
		}
	}
}

// running returns a run by its ID, or nil if it has ended.
func (w *worker) running(id uint32) *workerRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[id]
}

// start starts a run, or requests its module.
func (w *worker) start(f frame) {
	header, request, err := readRunHeader(f.body)
	if err != nil {
		w.finish(f.run, "", err)
		return
	}
	m := w.useModule(header.Module)
	if m == nil {
		_ = w.conn.send(frameNeed, f.run)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	run := &workerRun{worker: w, id: f.run, cancel: cancel, posted: make(chan struct{}, 1)}
	w.mu.Lock()
	w.runs[f.run] = run
	w.mu.Unlock()
	r := &execution{
		ctx: ctx, deadline: time.Unix(0, header.Deadline), cpu: time.Duration(header.CPU), shared: header.Shared, out: run,
		clock: newClock(time.Unix(header.Seconds, int64(header.Nanos)), header.Seed),
	}
	w.do(func() {
		defer cancel()
		execute := m.run
		if header.Once {
			execute = m.runOnce
		}
		answer, err := execute(r, string(request))
		r.meter.release()
		w.mu.Lock()
		delete(w.runs, f.run)
		w.mu.Unlock()
		w.doneWith(m)
		w.finish(f.run, answer, err)
		w.tidyHeap()
	})
}

// heapCheck is the number of runs between two checks of the heap.
const heapCheck = 8

// tidyHeap collects garbage if no run is in progress and a collection is due.
func (w *worker) tidyHeap() {
	w.mu.Lock()
	w.ended++
	check := w.ended%heapCheck == 0 && len(w.runs) == 0
	w.mu.Unlock()
	if check {
		collectIfDue()
	}
}

// do runs a task on an idle goroutine if there is one, and otherwise on a new one. Reusing
// goroutines is faster because the engine needs a deep stack, which a new goroutine has to grow.
func (w *worker) do(task func()) {
	select {
	case w.tasks <- task:
	default:
		go func() {
			for {
				task()
				select {
				case task = <-w.tasks:
				case <-time.After(parkAfter):
					return
				}
			}
		}()
	}
}

// The first byte of an answer, which tells how the run ended.
const (
	endAnswer    = '.'
	endException = 'e'
	endDeadline  = 't'
	endCPU       = 'u'
	endUnending  = 'w'
	endCanceled  = 'x'
	endFull      = 'f'
	endBroken    = 'b'
)

var endOf = map[error]byte{errNoMemory: endFull, errDeadline: endDeadline, errCPU: endCPU, errUnending: endUnending, errCanceled: endCanceled}

func (w *worker) finish(id uint32, answer string, err error) {
	end, body := byte(endAnswer), []byte(answer)
	if err != nil {
		end, body = endBroken, []byte(err.Error())
		if e, ok := errors.AsType[*Exception](err); ok {
			end = endException
			body, _ = json.Marshal(e)
		} else if known, ok := endOf[err]; ok {
			end = known
		}
	}
	_ = w.conn.send(frameAnswer, id, []byte{end}, body)
}

// log implements host.
func (run *workerRun) log(level, text string) {
	_ = run.worker.conn.send(frameLog, run.id, []byte(level), []byte{0}, []byte(text))
}

// tell implements host.
func (run *workerRun) tell(op, payload string) {
	_ = run.worker.conn.send(frameTell, run.id, []byte(op), []byte{0}, []byte(payload))
}

// ask implements host. It waits for the answer, which arrives even if the run has ended.
func (run *workerRun) ask(r *execution, op, payload string) (string, error) {
	answer := make(chan string, 1)
	run.question(op, payload, func(s string) { answer <- s })
	late := time.NewTimer(time.Until(r.deadline))
	defer late.Stop()
	select {
	case s := <-answer:
		return s, nil
	case <-r.ctx.Done():
		return "", errCanceled
	case <-late.C:
		return "", errDeadline
	}
}

// post implements host.
func (run *workerRun) post(id int, op, payload string) {
	run.question(op, payload, func(s string) {
		run.mu.Lock()
		run.answered = append(run.answered, posted{id, s})
		run.mu.Unlock()
		select {
		case run.posted <- struct{}{}:
		default: // the previous signal is still pending
		}
	})
}

// answers implements host.
func (run *workerRun) answers() <-chan struct{} { return run.posted }

// take implements host.
func (run *workerRun) take() []posted {
	run.mu.Lock()
	defer run.mu.Unlock()
	list := run.answered
	run.answered = nil
	return list
}

// question sends a host request to the parent.
func (run *workerRun) question(op, payload string, answer func(string)) {
	run.mu.Lock()
	run.last++
	n := run.last
	if run.asked == nil {
		run.asked = make(map[uint32]func(string))
	}
	run.asked[n] = answer
	run.mu.Unlock()
	_ = run.worker.conn.send(frameAsk, run.id, number32(n), []byte(op), []byte{0}, []byte(payload))
}

func (run *workerRun) reply(n uint32, answer string) {
	run.mu.Lock()
	f := run.asked[n]
	delete(run.asked, n)
	run.mu.Unlock()
	if f != nil {
		f(answer)
	}
}
