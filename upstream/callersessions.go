package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// Limits on callers' sessions with a legacy server.
const (
	maxCallerSessions = 200
	callerIdle        = 10 * time.Minute
)

// callerSessions manages the sessions with a legacy server that is called under each caller's own
// identity. The server binds each session to the credentials that opened it.
type callerSessions struct {
	supervisor *supervisor

	mu     sync.Mutex
	all    map[string]*callerSession // keyed by identity
	closed bool
	ending sync.WaitGroup // counts open sessions
}

// callerSession is one identity's session.
type callerSession struct {
	opened  chan struct{} // closed when the session has been opened or has failed
	session *session      // set before opened is closed; nil on failure
	err     error
	used    time.Time
	stop    context.CancelFunc // ends the notification stream
}

func newCallerSessions(sup *supervisor) *callerSessions {
	return &callerSessions{supervisor: sup, all: make(map[string]*callerSession)}
}

// sessionFor returns the session for a call: the server's own, or that of the caller's identity.
func (sup *supervisor) sessionFor(ctx context.Context, identity string, c *toolyard.Call) (*session, error) {
	s, err := sup.session(ctx)
	if err != nil || identity == "" || s.modern() {
		return s, err
	}
	return sup.callers.get(ctx, identity, c)
}

// replace waits until a lost session is replaced.
func (sup *supervisor) replace(ctx context.Context, lost *session) {
	if !sup.callers.drop(lost) {
		sup.awaitReplacement(ctx, lost)
	}
}

// get returns an identity's session, opening one if necessary.
func (cs *callerSessions) get(ctx context.Context, identity string, c *toolyard.Call) (*session, error) {
	cs.mu.Lock()
	if cs.closed {
		cs.mu.Unlock()
		return nil, cs.supervisor.unavailable(errClosed)
	}
	own := cs.all[identity]
	if own == nil {
		cs.evict()
		own = &callerSession{opened: make(chan struct{})}
		cs.all[identity] = own
		var running context.Context
		running, own.stop = context.WithCancel(context.WithoutCancel(ctx))
		cs.ending.Go(func() { cs.open(running, identity, own, &toolyard.Call{Caller: c.Caller, Tool: c.Tool}) })
	}
	own.used = time.Now()
	cs.mu.Unlock()
	select {
	case <-own.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e, ok := errors.AsType[*credentialError](own.err); ok {
		return nil, e.err
	}
	if own.err != nil {
		return nil, cs.supervisor.unavailable(own.err)
	}
	return own.session, nil
}

// open opens an identity's session.
func (cs *callerSessions) open(ctx context.Context, identity string, own *callerSession, owner *toolyard.Call) {
	sup := cs.supervisor
	opts := *sup.opts
	opts.owner = owner
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s := sup.newSession()
	var err error
	if opts.Transport == TransportSSE {
		err = s.openSSE(opening, &opts)
	} else {
		err = s.openHTTP(opening, &opts, legacyVersions[0])
	}
	if err != nil {
		if s.link != nil {
			s.link.close()
		}
		cs.mu.Lock()
		if cs.all[identity] == own {
			delete(cs.all, identity)
		}
		cs.mu.Unlock()
		own.err = err
		close(own.opened)
		own.stop()
		return
	}
	cs.ending.Go(func() { s.watchStream(ctx) })
	s.awaitStream(ctx)
	own.session = s
	close(own.opened)
	select {
	case <-ctx.Done():
	case <-s.link.done():
		cs.drop(s)
	}
	s.drain(sup.opts.longestTimeout())
	s.link.close()
}

// evict ends sessions that have been idle for a while, and the least recently used one if there are
// too many. Sessions with running calls are kept until the calls end.
func (cs *callerSessions) evict() {
	var oldest string
	for identity, own := range cs.all {
		switch {
		case time.Since(own.used) > callerIdle:
			own.stop()
			delete(cs.all, identity)
		case oldest == "" || own.used.Before(cs.all[oldest].used):
			oldest = identity
		}
	}
	if len(cs.all) >= maxCallerSessions {
		cs.all[oldest].stop()
		delete(cs.all, oldest)
	}
}

// drop removes a session. It returns false if the session does not belong to a caller.
func (cs *callerSessions) drop(s *session) bool {
	if s.link == nil {
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for identity, own := range cs.all {
		select {
		case <-own.opened:
		default:
			continue
		}
		if own.session == s {
			own.stop()
			delete(cs.all, identity)
			return true
		}
	}
	return false
}

// close ends all sessions after their running calls have finished.
func (cs *callerSessions) close() {
	cs.mu.Lock()
	cs.closed = true
	for _, own := range cs.all {
		own.stop()
	}
	clear(cs.all)
	cs.mu.Unlock()
	cs.ending.Wait()
}
