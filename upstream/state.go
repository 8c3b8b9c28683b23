package upstream

import (
	"context"
	"errors"
	"time"
)

// state describes whether a server can be used. It is replaced as a whole, never modified.
type state struct {
	session *session // nil if there is none
	err     error    // why there is no session; nil before the first attempt
	fix     string   // how to fix err
	down    bool     // whether callers should not wait for a session
	next    chan struct{}
}

// setState replaces the state and wakes up all waiters.
func (sup *supervisor) setState(next *state) {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	old := sup.state
	next.next = make(chan struct{})
	sup.state = next
	sup.condition.update(next)
	close(old.next)
}

func (sup *supervisor) current() *state {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	return sup.state
}

func (sup *supervisor) up() bool { return sup.current().session != nil }

// fail records that the server is down. If wait is set, callers wait, because it is about to be
// restarted.
func (sup *supervisor) fail(err error, wait bool) {
	fix := sup.fixFor(err)
	err = errors.New(sup.describe(err))
	if sup.lastLogged != err.Error() { // log each error once, not at every attempt
		sup.lastLogged = err.Error()
		sup.opts.Log.Warn("server is down", "error", oneLine(err))
	}
	sup.event(EventDown, err.Error())
	sup.setState(&state{err: err, fix: fix, down: !wait})
}

// session returns the current session. While the server is starting, it waits for most of the
// call's remaining time. It does not wait for a server that is down.
func (sup *supervisor) session(ctx context.Context) (*session, error) {
	waiting := ctx
	for {
		st := sup.current()
		switch {
		case st.session != nil:
			return st.session, nil
		case st.down:
			sup.requestRetry()
			return nil, sup.notReady(st.err)
		}
		if deadline, ok := ctx.Deadline(); ok && waiting == ctx {
			var cancel context.CancelFunc
			waiting, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)/10))
			defer cancel()
		}
		select {
		case <-st.next:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, sup.notReady(sup.lastError())
		}
	}
}

// awaitReplacement waits until a session is no longer the current one.
func (sup *supervisor) awaitReplacement(ctx context.Context, old *session) {
	for {
		st := sup.current()
		if st.session != old {
			return
		}
		select {
		case <-st.next:
		case <-ctx.Done():
			return
		}
	}
}

// lastError returns why the server is down.
func (sup *supervisor) lastError() error {
	if err := sup.current().err; err != nil {
		return err
	}
	return errors.New("the server has not started yet")
}
