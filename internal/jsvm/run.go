package jsvm

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// execution is a run in a VM, from the request to the answer.
type execution struct {
	ctx      context.Context // canceled by the parent
	deadline time.Time
	cpu      time.Duration // CPU time limit; zero for no limit
	clock    clock
	shared   bool // the VM keeps its state for the next run
	out      host

	meter  cpuMeter
	spent  bool // the CPU limit has been reached
	answer *string
	posts  int // number of host requests in progress
	timers timers
	lines  int // number of log lines and notifications

	logged  int  // bytes logged
	logFull bool // the log limit has been reached
}

// clock provides time and random numbers to an execution.
type clock struct {
	now     time.Time // the as-of time
	started time.Time

	seeded  *rand.ChaCha8 // nil for real time and secure random numbers
	virtual time.Duration // how far timers have advanced a seeded clock
}

func newClock(now time.Time, seed [32]byte) clock {
	c := clock{now: now, started: time.Now()}
	if seed != [32]byte{} {
		c.seeded = rand.NewChaCha8(seed)
	}
	return c
}

// elapsed returns the time since the start of the execution.
func (c *clock) elapsed() time.Duration {
	if c.seeded != nil {
		return c.virtual
	}
	return time.Since(c.started)
}

func (c *clock) random(buf []byte) {
	if c.seeded != nil {
		_, _ = c.seeded.Read(buf) // cannot fail
		return
	}
	_, _ = crand.Read(buf) // cannot fail
}

// host handles an execution's host requests, notifications and log lines.
type host interface {
	log(level, text string)
	tell(op, payload string)
	ask(r *execution, op, payload string) (string, error)
	post(id int, op, payload string)
	answers() <-chan struct{} // receives a value when take has an answer
	take() []posted
}

// posted is the answer to a post.
type posted struct {
	id     int
	answer string
}

// Reasons for stopping an execution.
var (
	errDeadline = errors.New(string(DeadlineExceeded))
	errCPU      = errors.New(string(CPUExceeded))
	errCanceled = errors.New(string(Canceled))
	errUnending = errors.New(string(NeverSettles))
)

// stop returns the reason if the execution must stop now, or nil.
func (r *execution) stop() error {
	switch {
	case r.spent:
		return errCPU
	case r.ctx.Err() != nil:
		return errCanceled
	case time.Now().After(r.deadline):
		return errDeadline
	}
	return nil
}

// measure checks the CPU limit.
func (r *execution) measure() {
	r.spent = r.spent || (r.cpu > 0 && r.meter.used() > r.cpu)
}

// perform runs a request with the module's exports until there is an answer.
func (v *vm) perform(exports uint64, request string) (string, error) {
	text := v.newText(request)
	if err := v.invoke(v.engine.entry.begin, exports, text); err != nil {
		return "", err
	}
	v.call(v.fn.freeValue, text)
	for v.run.answer == nil {
		if err := v.turn(); err != nil {
			return "", err
		}
	}
	return *v.run.answer, nil
}

// turn runs all pending jobs, or waits for the next event if there are none.
func (v *vm) turn() error {
	ran := false
	for v.failure == nil && v.call(v.fn.isJobPending) != 0 {
		if int32(v.call(v.fn.executeJob)) < 0 { //nolint:gosec // a C int
			v.call(v.fn.freeValue, v.call(v.fn.exception))
		}
		if err := v.broken(); err != nil {
			return err
		}
		ran = true
	}
	if err := v.broken(); err != nil || ran || v.run.answer != nil {
		return err
	}
	return v.wait()
}

// wait blocks until a timer is due or the host answers.
func (v *vm) wait() error {
	r := v.run
	if r.out != nil {
		if answers := r.out.take(); len(answers) > 0 { // even if timers are due
			return v.settle(answers)
		}
	}
	due, armed := r.timers.next()
	if !armed && r.posts == 0 {
		return errUnending
	}
	var alarm <-chan time.Time
	if armed {
		left := time.Until(due.at)
		if left <= 0 {
			return v.fire(due)
		}
		t := time.NewTimer(left)
		defer t.Stop()
		alarm = t.C
	}
	var answers <-chan struct{}
	if r.out != nil {
		answers = r.out.answers()
	}
	late := time.NewTimer(time.Until(r.deadline))
	defer late.Stop()
	select {
	case <-alarm:
		return v.fire(due)
	case <-answers:
		return v.settle(r.out.take())
	case <-late.C:
		return errDeadline
	case <-r.ctx.Done():
		return errCanceled
	}
}

// settle passes answers to the script.
func (v *vm) settle(answers []posted) error {
	for _, p := range answers {
		v.run.posts--
		if err := v.invokeWith(v.engine.entry.settle, v.call(v.fn.newNumber, number(p.id)), v.newText(p.answer)); err != nil {
			return err
		}
	}
	return nil
}

func (v *vm) fire(t timer) error {
	v.run.timers.remove(t.id)
	v.run.clock.virtual = max(v.run.clock.virtual, t.due)
	return v.invokeWith(v.engine.entry.fire, v.call(v.fn.newNumber, number(t.id)))
}

func number(n int) uint64 { return api.EncodeF64(float64(n)) }

func (v *vm) putUint32(at uint64, n uint32) {
	binary.LittleEndian.PutUint32(v.memory.reserved[at:], n)
}

// timer is a timeout set by a script.
type timer struct {
	id  int
	at  time.Time
	due time.Duration // due time on a seeded clock
}

// timers are an execution's timers. There are few, so a list is sufficient.
type timers []timer

// maxTimers is the maximum number of timers per run.
const maxTimers = 1000

func (t *timers) add(id int, ms float64, virtual time.Duration) bool {
	if len(*t) >= maxTimers {
		return false
	}
	ms = min(max(ms, 0), math.MaxInt32)
	after := time.Duration(ms * float64(time.Millisecond))
	*t = append(*t, timer{id, time.Now().Add(after), virtual + after})
	return true
}

func (t *timers) remove(id int) {
	for i, one := range *t {
		if one.id == id {
			*t = append((*t)[:i], (*t)[i+1:]...)
			return
		}
	}
}

// next returns the timer that is due first. If several are due at the same time, it returns the one
// that was set first.
func (t *timers) next() (first timer, ok bool) {
	for _, one := range *t {
		if !ok || one.at.Before(first.at) {
			first, ok = one, true
		}
	}
	return first, ok
}
