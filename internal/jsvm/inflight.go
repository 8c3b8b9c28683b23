package jsvm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/base/stack"
)

// inFlight is a run that the parent has sent to a worker and that has not ended.
type inFlight struct {
	run          *Run
	ctx          context.Context
	cancel       context.CancelFunc
	header       runHeader
	answer       chan frame // closed if the worker dies
	timedOut     bool       // the run exceeded its deadline, and the worker was killed
	reported     bool       // the end of the run was reported to the caller
	usedHost     bool
	openRequests int // number of unanswered host requests
	log          *slog.Logger

	messages  chan frame    // log lines and notifications; nil until the first one
	dropped   int           // number of dropped log lines; read after messages is closed
	delivered chan struct{} // closed when all messages are delivered
}

// run sends a run to the worker and waits for its answer.
func (w *process) run(ctx context.Context, r *Run, cpu time.Duration) (json.RawMessage, error) {
	timeout := cmp.Or(r.Timeout, defaultTimeout)
	if at, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(at))
	}
	if timeout <= 0 {
		return nil, &Stopped{DeadlineExceeded}
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	pend := &inFlight{run: r, ctx: inner, cancel: cancel, header: r.header(timeout, cpu), answer: make(chan frame, 1), log: w.log}
	id, ok := w.begin(pend)
	if !ok {
		return nil, &lostError{}
	}
	// The worker stops the run at its deadline. If it fails to do so, it is killed.
	watchdog := time.AfterFunc(timeout+grace, func() { w.overdue(id) })
	if err := w.conn.send(frameRun, id, pend.header.bytes(), r.Request); err != nil {
		watchdog.Stop()
		w.forget(id)
		if errors.Is(err, errLargeFrame) {
			return nil, err
		}
		return nil, &lostError{}
	}
	// If the caller is canceled, return immediately. At a deadline, wait for the worker to stop the
	// run.
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
		pend.drainLogs(ctx)
		return r.Module.open(f.body)
	case <-left:
		return nil, &Stopped{Canceled} // the watchdog stays active until the worker answers
	}
}

func (r *Run) header(timeout, cpu time.Duration) runHeader {
	now := time.Now()
	about := r.Now
	if about.IsZero() {
		about = now
	}
	return runHeader{
		Module: r.Module.key, Deadline: now.Add(timeout).UnixNano(), CPU: int64(cpu),
		Seconds: about.Unix(), Nanos: int32(about.Nanosecond()), Shared: r.Shared, Once: r.Once, Seed: r.Seed, //nolint:gosec // below 10^9
	}
}

// begin registers a run, unless the worker accepts no more runs.
func (w *process) begin(pend *inFlight) (id uint32, ok bool) {
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

func (w *process) lost(pend *inFlight) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &lostError{timedOut: pend.timedOut, usedHost: pend.usedHost}
}

// overdue kills the worker if the run has not ended.
func (w *process) overdue(id uint32) {
	w.mu.Lock()
	pend := w.pending[id]
	late := pend != nil && !pend.reported
	if late {
		pend.reported, pend.timedOut, w.gone = true, true, true
		close(pend.answer) // the caller does not wait for the process to exit
	}
	w.mu.Unlock()
	if !late {
		return
	}
	pend.cancel()
	w.kill()
	w.log.Warn("script did not stop at its deadline; its worker was killed", "module", pend.run.Module.Name)
}

// handle handles a frame from the worker.
func (w *process) handle(f frame) {
	w.mu.Lock()
	pend := w.pending[f.run]
	told := false
	switch {
	case pend == nil:
	case f.kind == frameAnswer:
		delete(w.pending, f.run)
		w.used = time.Now()
		told, pend.reported = pend.reported, true
	case f.kind == frameAsk:
		pend.usedHost = true
		if pend.openRequests++; pend.openRequests > maxPosts+1 { // the worker exceeded its own limit
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
		pend.closeLogs()
		if !told {
			pend.answer <- f
		}
	case frameNeed:
		go w.sendModule(f.run, pend)
	case frameAsk:
		go w.answer(f, pend)
	case frameLog, frameTell:
		pend.enqueue(f)
	}
}

// sendModule sends the module that a run needs, followed by the run again.
func (w *process) sendModule(id uint32, pend *inFlight) {
	m := pend.run.Module
	if w.conn.send(frameModule, 0, m.body()) == nil {
		_ = w.conn.send(frameRun, id, pend.header.bytes(), pend.run.Request)
	}
}

// answer responds to a run's host request.
func (w *process) answer(f frame, pend *inFlight) {
	stack.Reserve()
	if len(f.body) < 4 {
		return
	}
	n := binary.LittleEndian.Uint32(f.body)
	op, payload, _ := bytes.Cut(f.body[4:], []byte{0})
	reply := pend.reply(string(op), payload)
	w.mu.Lock()
	pend.openRequests--
	w.mu.Unlock()
	_ = w.conn.send(frameReply, f.run, number32(n), reply)
}

// reply returns the answer to a host request, or its error, as JSON.
func (pend *inFlight) reply(op string, payload []byte) []byte {
	value, err := pend.ask(op, payload)
	member := "value"
	if err != nil {
		member, value = "error", refusalOf(err)
	}
	data, err := json.Marshal(value)
	if err == nil && len(data) > maxAnswer {
		err = errors.New("the response is too large")
	}
	if err != nil {
		member = "error"
		data, _ = json.Marshal(Refusal{Name: "RangeError", Message: err.Error()}) // cannot fail
	}
	return slices.Concat([]byte(`{"`+member+`":`), data, []byte("}"))
}

// ask calls the host function. If it panics, this process must not crash.
func (pend *inFlight) ask(op string, payload []byte) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			pend.log.Error("script host function panicked", "op", op, "panic", p, "stack", string(debug.Stack()))
			value, err = nil, errors.New("internal error")
		}
	}()
	if pend.run.Host == nil {
		return nil, &Refusal{Name: "NotCapable", Message: op + " is not available here"}
	}
	return pend.run.Host(pend.ctx, op, payload)
}

// Refusal is a host function's error as seen by the script: an Error with a name and a code.
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

// maxMessages is the maximum number of messages waiting for delivery. Excess messages are dropped,
// because all runs share the connection to the worker. A final log line reports their number.
const maxMessages = 256

// enqueue queues a log line or notification for delivery. It never blocks. A worker's frames are
// handled one at a time, including the answer that ends the run.
func (pend *inFlight) enqueue(f frame) {
	if pend.messages == nil {
		pend.messages, pend.delivered = make(chan frame, maxMessages), make(chan struct{})
		go func() {
			defer close(pend.delivered)
			for f := range pend.messages {
				pend.deliver(f)
			}
			if pend.dropped > 0 {
				pend.deliver(frame{kind: frameLog, body: fmt.Appendf(nil, "warn\x00[%d more lines omitted]", pend.dropped)})
			}
		}()
	}
	select {
	case pend.messages <- f:
	default:
		if f.kind == frameLog {
			pend.dropped++
		}
	}
}

// closeLogs closes the queue of messages.
func (pend *inFlight) closeLogs() {
	if pend.messages != nil {
		close(pend.messages)
	}
}

// deliver passes a message to the caller.
func (pend *inFlight) deliver(f frame) {
	defer func() { _ = recover() }() // a message has no reply that could report the failure
	first, rest, _ := bytes.Cut(f.body, []byte{0})
	switch {
	case f.kind == frameLog:
		pend.logLine(string(first), string(rest))
	case pend.run.Notify != nil:
		pend.run.Notify(string(first), rest)
	}
}

// drainTime is how long a result waits for earlier messages to be delivered.
const drainTime = 5 * time.Second

// drainLogs waits until all messages are delivered, but gives up on a caller that does not read
// them.
func (pend *inFlight) drainLogs(ctx context.Context) {
	if pend.delivered == nil {
		return
	}
	select {
	case <-pend.delivered:
	case <-ctx.Done():
	case <-time.After(drainTime):
	}
}

func (pend *inFlight) logLine(level, text string) {
	if pend.run.Log == nil {
		return
	}
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}
	pend.run.Log(levels[level], text) // unknown levels are logged as info
}
