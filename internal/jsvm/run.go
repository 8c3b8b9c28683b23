package jsvm

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// execution is one use of a VM, from the request to the answer.
type execution struct {
	ctx      context.Context // ended by the parent
	deadline time.Time
	cpu      time.Duration // CPU time that it may use, 0 for no bound
	now      time.Time     // the time that the call is about
	started  time.Time
	shared   bool // what it changes in the VM is for the next run to find
	out      host

	meter  cpuMeter
	spent  bool // all of its CPU time
	answer *string
	posts  int // asked of the outside and not answered yet
	timers timers
	lines  int // of its log, and what else it said

	logged  int  // bytes of its log
	logFull bool // no more of it is kept
}

// host is where a run's questions and log lines go.
type host interface {
	log(level, text string)
	tell(op, payload string)
	ask(r *execution, op, payload string) (string, error)
	post(id int, op, payload string)
	answers() <-chan struct{} // receives when take has something
	take() []posted
}

// posted is an answer to something that was posted.
type posted struct {
	id     int
	answer string
}

// The reasons to stop a run.
var (
	errDeadline = errors.New("it took too long")
	errCPU      = errors.New("it used too much CPU time")
	errCanceled = errors.New("it was cancelled")
	errUnending = errors.New("it waits for something that nothing can bring about")
)

// stop is why the run must end now, or nil.
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

// measure looks how much CPU time the run has used.
func (r *execution) measure() {
	r.spent = r.spent || (r.cpu > 0 && r.meter.used() > r.cpu)
}

// perform runs a request on the module's exports until it is answered.
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

// turn lets everything run that can, and otherwise waits for the next event.
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

// wait blocks until a timer is due or the outside answers.
func (v *vm) wait() error {
	r := v.run
	if r.out != nil {
		if answers := r.out.take(); len(answers) > 0 { // also while timers are due
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

// settle hands answers to the script.
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
	return v.invokeWith(v.engine.entry.fire, v.call(v.fn.newNumber, number(t.id)))
}

func number(n int) uint64 { return api.EncodeF64(float64(n)) }

func (v *vm) putUint32(at uint64, n uint32) {
	binary.LittleEndian.PutUint32(v.memory.reserved[at:], n)
}

// timer is a time at which a script wants to be woken.
type timer struct {
	id int
	at time.Time
}

// timers are those of one run. There are never many.
type timers []timer

// maxTimers bounds the timers of a run.
const maxTimers = 1000

func (t *timers) add(id int, ms float64) bool {
	if len(*t) >= maxTimers {
		return false
	}
	ms = min(max(ms, 0), math.MaxInt32)
	*t = append(*t, timer{id, time.Now().Add(time.Duration(ms * float64(time.Millisecond)))})
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

// next is the timer that is due first; of equals, the one that was set first.
func (t *timers) next() (first timer, ok bool) {
	for _, one := range *t {
		if !ok || one.at.Before(first.at) {
			first, ok = one, true
		}
	}
	return first, ok
}
