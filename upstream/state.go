package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
)

// state is whether a server can be used. It is replaced, never changed.
type state struct {
	session *session // nil while there is none
	err     error    // why there is none, nil at the beginning
	fix     string   // what to do about err
	down    bool     // there is no use in waiting for one
	next    chan struct{}
}

// set replaces the state and tells who waits for another.
func (v *Server) set(next *state) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old := v.state
	next.next = make(chan struct{})
	v.state = next
	v.condition.follow(next)
	close(old.next)
}

// fail notes that the server is down, and whether callers should wait for it.
func (v *Server) fail(err error, wait bool) {
	fix := v.downFix(err)
	err = errors.New(v.words(err))
	if v.said != err.Error() { // once, not at each attempt
		v.said = err.Error()
		v.opts.Log.Warn("server is down", "error", oneLine(err))
	}
	v.event(EventDown, err.Error())
	v.set(&state{err: err, fix: fix, down: !wait})
}

// session is the current session. A server that is starting is waited for, almost as long as
// the call may take; one that is down is not.
func (v *Server) session(ctx context.Context) (*session, error) {
	waiting := ctx
	for {
		v.mu.Lock()
		st := v.state
		v.mu.Unlock()
		switch {
		case st.session != nil:
			return st.session, nil
		case st.down:
			v.Retry()
			return nil, v.notReady(st.err)
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
			return nil, v.notReady(v.lastError())
		}
	}
}

// unavailable tells a caller that the server cannot be used.
func (v *Server) unavailable(err error) *toolyard.Error {
	return toolyard.Errorf(toolyard.Unavailable, "The server %s is not available: %s", v.opts.ID, v.words(err))
}

// notReady tells a caller that the server cannot be used yet. Nothing was sent to it, so the
// call can be repeated.
func (v *Server) notReady(err error) error {
	e := v.unavailable(err)
	e.RetryAfter = time.Second
	return e
}

// await waits until a session is no longer the current one.
func (v *Server) await(ctx context.Context, old *session) {
	for {
		v.mu.Lock()
		st := v.state
		v.mu.Unlock()
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

// lastError is why the server is down.
func (v *Server) lastError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state.err == nil {
		return errors.New("it has not started yet")
	}
	return v.state.err
}

// Settle waits until the server was tried once and what came of it was published: it is up
// then, or its problems say why not.
func (v *Server) Settle(ctx context.Context) {
	select {
	case <-v.tried:
	case <-ctx.Done():
	}
}
