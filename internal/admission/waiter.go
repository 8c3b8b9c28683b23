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
	deadline  time.Time       // of the wait for limits and money
	reason    *toolyard.Error // why it is not admitted yet
	backlog   *backlog        // counts the waiter; may be nil
	attempt   attempt
	done      chan struct{} // closed when there is an admission or an error
	admission *Admission
	err       *toolyard.Error
}

// attempt is the state of a waiter that the store admits directly.
type attempt struct {
	next         time.Time // when to send the request again
	refusedSince time.Time // first refusal by the store
	sent         time.Time // first time sent since the last refusal
	inFlight     bool      // part of the batch being sent
	uncertain    bool      // admitted or not: the reply was lost
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

// size returns the memory of a waiting call.
func (w *waiter) size() int64 {
	if w.request.Call == nil {
		return waiterBytes
	}
	return waiterBytes + int64(len(w.request.Call.Args))
}
