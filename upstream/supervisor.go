package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/backoff"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
)

// supervisor keeps a session with the server open: it starts the server, watches the session,
// and restarts it with growing pauses.
type supervisor struct {
	*reporter
	definitions *definitions
	approvals   *approvals
	version     *protocolVersion
	clientInfo  []byte // name and version, as JSON

	callers *callerSessions

	mu        sync.Mutex
	state     *state
	condition condition
	identity  identity

	relist     chan struct{} // signaled when the pins have changed
	suspect    chan struct{} // signaled after consecutive failed calls
	retry      chan struct{} // signaled to retry immediately
	tried      chan struct{} // closed after the first attempt
	lastLogged string        // the last error that was logged
	process    atomic.Pointer[subprocess.Process]
}

func newSupervisor(o *Options, r *reporter, d *definitions, a *approvals) *supervisor {
	info, _ := json.Marshal(map[string]string{"name": o.Name, "version": o.Version}) // cannot fail for two strings
	sup := &supervisor{
		reporter: r, definitions: d, approvals: a, clientInfo: info, version: &protocolVersion{opts: o},
		state: &state{next: make(chan struct{})}, condition: condition{state: StateStarting, since: time.Now()},
		relist: make(chan struct{}, 1), suspect: make(chan struct{}, 1), retry: make(chan struct{}, 1), tried: make(chan struct{}),
	}
	sup.callers = newCallerSessions(sup)
	return sup
}

// Pauses between two attempts to reach a server.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 30 * time.Second
)

const (
	connectTimeout = time.Minute // a server may have to be downloaded first
	slowStart      = time.Second // after this time, other sources stop waiting for this one
	maxRestartWait = time.Second // callers wait during pauses up to this long
)

// run keeps a session with the server open until ctx ends.
func (sup *supervisor) run(ctx context.Context, publishOffer func()) {
	var publishing sync.Mutex
	publish := func() {
		publishing.Lock()
		defer publishing.Unlock()
		publishOffer()
	}
	if l := sup.definitions.approvedListing(); len(l.tools)+len(l.prompts) > 0 {
		sup.definitions.apply(l)
		publish()
	}
	heard := sup.definitions.expectResponse(slowStart, publish)
	defer heard()
	markTried := sync.OnceFunc(func() { close(sup.tried) })
	defer markTried()
	sup.setState(&state{})
	defer sup.setState(&state{err: errClosed, down: true})
	defer sup.callers.close()
	pause := firstPause
	for ctx.Err() == nil {
		s, err := sup.runSession(ctx, heard, func() { publish(); markTried() })
		if ctx.Err() != nil {
			break
		}
		answered := s != nil && s.answered.Load()
		if answered {
			pause = firstPause
		}
		if (errors.Is(err, errSessionLost) || errors.Is(err, errNewCredentials)) && answered { // the server is up, so open a new session at once
			sup.event(EventDown, err.Error())
			continue
		}
		heard()
		sup.fail(err, s != nil && pause <= maxRestartWait)
		publish()
		markTried()
		sup.pause(ctx, backoff.Jitter(pause))
		pause = min(2*pause, lastPause)
	}
}

// pause waits for d. A retry request ends the pause early, but not within the first second.
func (sup *supervisor) pause(ctx context.Context, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-ctx.Done():
		return
	case <-end.C:
		return
	case <-time.After(min(d, time.Second)):
	}
	select {
	case <-ctx.Done():
	case <-end.C:
	case <-sup.retry:
	}
}

func (sup *supervisor) requestRetry()   { signal(sup.retry) }
func (sup *supervisor) requestListing() { signal(sup.relist) }
func (sup *supervisor) requestProbe()   { signal(sup.suspect) }

// signal sends on a channel with capacity one, unless a signal is pending.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runSession opens a session and watches it until it ends. The session is nil if it was never
// usable.
func (sup *supervisor) runSession(ctx context.Context, heard, publish func()) (s *session, err error) {
	sup.event(EventStart, "")
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, err = sup.open(opening)
	if err != nil {
		sup.version.setUncertain(true)
		return nil, err
	}
	sup.version.setUncertain(false)
	opened := s // nil if the session was never usable
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer func() {
		sup.setState(&state{}) // new callers wait for the next session
		if ctx.Err() != nil || errors.Is(err, errNewCredentials) {
			opened.drain(sup.opts.longestTimeout())
		}
		stop()
		opened.link.close()
		watching.Wait()
	}()
	select {
	case <-sup.relist: // the pins are compared anyway
		sup.definitions.forgetListing()
	default:
	}
	if _, err := sup.list(opening, s); err != nil {
		return nil, err
	}
	heard()
	watching.Go(func() { s.watchStream(ctx) })
	if !s.awaitStream(ctx) {
		watching.Go(func() { s.awaitLateStream(ctx) })
	}
	watching.Go(func() { sup.definitions.relay.run(ctx, s) })
	sup.recordIdentity(s)
	sup.setState(&state{session: s})
	sup.lastLogged = ""
	sup.opts.Log.Info("server is up", "protocol", s.version, "tools", len(sup.definitions.tools()))
	publish()
	return s, sup.watch(ctx, s, publish)
}

func (sup *supervisor) newSession() *session {
	return &session{
		client: sup.clientInfo, self: sup.opts.Self, changed: make(chan struct{}, 1), toolsOnly: sup.opts.PerCaller,
		log: sup.logMessage, relay: sup.definitions.relay, replies: make(chan struct{}, maxReplies),
	}
}

// open opens a session. It tries the protocol version that worked last first.
func (sup *supervisor) open(ctx context.Context) (*session, error) {
	s := sup.newSession()
	var err error
	switch {
	case sup.opts.Transport == TransportSSE:
		err = s.openSSE(ctx, sup.opts)
	case len(sup.opts.Command) > 0:
		err = s.openProcess(ctx, sup.opts, sup.version.last(), sup.process.Store)
	default:
		err = s.openHTTP(ctx, sup.opts, sup.version.last())
	}
	if err != nil {
		if s.link != nil {
			s.link.close()
		}
		return nil, err
	}
	if !s.versionGuessed {
		sup.version.remember(s.version)
	}
	return s, nil
}

// Limits on how often a server is listed.
const (
	refresh     = time.Minute      // between listings if no change is announced
	settleTime  = time.Second / 2  // between two listings
	maxFailures = 5                // consecutive failed calls before the server is probed
	credentials = 10 * time.Second // between two checks for changed secrets
)

// watch lists the server again when it announces a change, and periodically. It returns when the
// session ends.
func (sup *supervisor) watch(ctx context.Context, s *session, publish func()) error {
	ticker := time.NewTicker(backoff.Jitter(refresh) + refresh/2)
	defer ticker.Stop()
	rotation := time.NewTicker(backoff.Jitter(credentials))
	defer rotation.Stop()
	for {
		check := sup.list
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.link.done():
			return s.link.err()
		case <-sup.suspect:
			check = probe
		case <-sup.relist:
			sup.definitions.forgetListing()
		case <-s.changed:
		case <-ticker.C:
		case <-rotation.C:
			check = nil
		}
		if s.link.updateCredentials(sup.opts) {
			return errNewCredentials
		}
		if check == nil {
			continue
		}
		start := time.Now()
		changed, err := check(ctx, s)
		switch {
		case err != nil && s.isLost(err):
			return errSessionLost
		case err != nil && ctx.Err() == nil:
			return err
		case changed:
			publish()
		}
		select { // limits the cost of a server that changes all the time
		case <-time.After(min(max(settleTime, 10*time.Since(start)), 20*settleTime)):
		case <-s.link.done():
		case <-ctx.Done():
		}
	}
}

// probe checks that a server responds.
func probe(ctx context.Context, s *session) (changed bool, err error) {
	s.failures.Store(0)
	return false, s.ping(ctx)
}

// errNewCredentials ends a session that cannot use changed secrets.
var errNewCredentials = errors.New("the server's secrets have changed")

var errSessionLost = errors.New("the server no longer recognizes the MCP session")

// list reads the server's definitions and offers them. It reports whether they have changed.
func (sup *supervisor) list(ctx context.Context, s *session) (changed bool, err error) {
	l, err := s.listAll(ctx)
	if err != nil {
		return false, err
	}
	if changed = sup.definitions.applyIfChanged(&l); changed {
		sup.approvals.update()
	}
	return changed, nil
}

// problems returns the reason why the server is down, if it is.
func (sup *supervisor) problems() []toolyard.Problem {
	st := sup.current()
	if st.session != nil || st.err == nil {
		return nil
	}
	return []toolyard.Problem{sup.problem("", "down: "+oneLine(st.err), st.fix)}
}

// fixFor returns advice on how to fix a server that is down.
func (sup *supervisor) fixFor(err error) string {
	if _, ok := errors.AsType[*subprocess.NotFoundError](err); ok {
		return "Install the program, or correct the server's command."
	}
	if _, ok := errors.AsType[*notMCPError](err); ok && len(sup.opts.Command) > 0 {
		return "Check the server's command and args."
	} else if ok {
		return "Check the server's url."
	}
	return "Toolyard retries automatically."
}

// protocolVersion remembers the version that the server last used, even across restarts.
type protocolVersion struct {
	opts *Options

	mu        sync.Mutex
	version   string
	uncertain bool
}

func (p *protocolVersion) remember(version string) {
	p.mu.Lock()
	known := p.version == version && !p.uncertain
	p.version = version
	p.mu.Unlock()
	if !known && p.opts.Pins.Protocol(p.opts.ID) != version {
		if err := p.opts.Pins.SetProtocol(p.opts.ID, version); err != nil {
			p.opts.Log.Debug("could not store the protocol version", "error", err)
		}
	}
}

// last returns the version that the server last used, or "" if it is unknown.
func (p *protocolVersion) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uncertain {
		return ""
	}
	return cmp.Or(p.version, p.opts.Pins.Protocol(p.opts.ID))
}

// setUncertain records whether the server may now use a different version: a server that could not
// be reached may have been replaced.
func (p *protocolVersion) setUncertain(uncertain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uncertain = uncertain
}
