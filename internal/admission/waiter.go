package admission

import (
	"time"

	"github.com/toolyard/toolyard"
)

// waiter is a call waiting for admission.
type waiter struct {
	request   *Request
	queue     *queue // nil if the store admits the call directly
	seq       uint64 // order of arrival
	entered   time.Time
	deadline  time.Time       // end of the wait for limits and money
	reason    *toolyard.Error // why the call is not admitted yet
	backlog   *backlog        // counts the waiter; may be nil
	attempt   attempt
	done      chan struct{} // closed once the call is admitted or refused
	admission *Admission
	err       *toolyard.Error
}

// attempt tracks the requests for a waiter that the store admits directly.
type attempt struct {
	next         time.Time // time of the next attempt
	refusedSince time.Time // first refusal by the store
	sent         time.Time // first time sent since the last refusal
	inFlight     bool      // part of the batch being sent
	uncertain    bool      // the reply was lost, so the store may have admitted the call
	canceled     bool      // the call is no longer waiting
}

func (w *waiter) finish(a *Admission, err *toolyard.Error) {
	if w.backlog != nil {
		w.backlog.remove(w)
	}
	w.admission, w.err = a, err
	close(w.done)
}

func (w *waiter) finished() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// size returns the memory that a waiting call uses.
func (w *waiter) size() int64 {
	if w.request.Call == nil {
		return waiterBytes
	}
	return waiterBytes + int64(len(w.request.Call.Args))
}
