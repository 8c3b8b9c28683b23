package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/backoff"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Transport is how a server is spoken to.
type Transport string

// The transports. Empty is stdio for a command and HTTP for a URL, with HTTP+SSE for
// servers that know nothing newer.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
)

// Options say where a server is, and what is believed and wanted of it. ID and one of
// Command and URL must be set.
type Options struct {
	ID        string // part of the names of its tools
	Transport Transport

	Command []string                 // the program and its arguments
	Dir     string                   // where it runs
	Env     func() ([]string, error) // KEY=VALUE for it, asked at each start; nil for none

	URL         string
	Headers     func() (http.Header, error) // sent along, asked at each connection; nil for none
	Private     []netip.Prefix              // networks beside the public internet that the URL may lead to
	Connections int                         // kept open for the next calls; zero for 16

	Tools     []string                 // the tools that are wanted; all when empty
	Resources []string                 // the resources that may be read; all when empty
	Effects   map[string]toolyard.Mode // what tools do, by name; * is for all others
	Trust     bool                     // believe the server's own annotations
	Pins      Pins                     // nil to remember until the end only
	Pinning   Pinning

	Timeout  time.Duration            // of a call; zero for 10 s
	Timeouts map[string]time.Duration // of calls of single tools
	Bounds   toolyard.Bounds          // of every call

	Name, Version string              // what we call ourselves; zero for toolyard dev
	Self          string              // how a server that is we ourselves would identify; empty to not look
	Redact        func(string) string // takes secrets out of what the server says of itself; nil for none
	Log           *slog.Logger        // nil for none
}

// DefaultTimeout is how long a call of a server may take if nobody says otherwise.
const DefaultTimeout = 10 * time.Second

// Server is another MCP server as a source.
type Server struct {
	opts       Options
	clientInfo []byte

	mu        sync.Mutex
	state     *state
	offered   []*offered
	approved  map[string]json.RawMessage // as it was last read
	listed    [32]byte                   // what the last listing was like
	made      map[string]*toolyard.Tool  // by definition
	actions   map[string]*toolyard.Tool  // what reads, gets and completes
	resources []*toolyard.Resource
	prompts   []*toolyard.Prompt
	problems  []toolyard.Problem // of the last listing
	notes     []toolyard.Problem // of what came beside it
	protocol  string             // the version that it spoke last
	unsure    bool               // whether it still does
	parked    map[string]*parked
	again     chan struct{} // told when the pins have changed
	suspect   chan struct{} // told when calls fail in a row
	nudged    chan struct{} // told when somebody wants the server to be tried now
	tried     chan struct{} // closed when it was tried once and what came of it is said
	said      string        // why it was down when that was last logged
	condition condition
	identity  identity
	seen      bool // it was listed since we began
	awaiting  awaiting

	recounting sync.Mutex      // held by whoever counts what awaits people
	differing  map[string]mark // what was not as approved when that was last counted
	history    history
	process    atomic.Pointer[subprocess.Process] // the last that was started
}

// New makes a source of a server. Nothing is started before Run.
func New(o Options) (*Server, error) {
	if err := ident.CheckServerID(o.ID); err != nil {
		return nil, err
	}
	if (len(o.Command) == 0) == (o.URL == "") {
		return nil, fmt.Errorf("server %s: it has either a command or a url", o.ID)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Connections = cmp.Or(o.Connections, 16)
	o.Name, o.Version = cmp.Or(o.Name, "toolyard"), cmp.Or(o.Version, "dev")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("server", o.ID)
	if o.Pins == nil {
		o.Pins = &memory{}
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	v := &Server{
		opts: o, state: &state{next: make(chan struct{})}, condition: condition{state: StateStarting, since: time.Now()},
		made: make(map[string]*toolyard.Tool), actions: make(map[string]*toolyard.Tool),
		parked: make(map[string]*parked), again: make(chan struct{}, 1), suspect: make(chan struct{}, 1),
		nudged: make(chan struct{}, 1), tried: make(chan struct{}),
	}
	v.clientInfo, _ = json.Marshal(map[string]string{"name": o.Name, "version": o.Version}) // always has a JSON form
	return v, nil
}

// The pauses between two attempts to reach a server.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 30 * time.Second
)

// connectTimeout is how long a server may take to start: it may have to be fetched first.
const connectTimeout = time.Minute

// Run implements [toolyard.Source]. It keeps a session with the server open until ctx
// ends; what was approved is offered from the start.
func (v *Server) Run(ctx context.Context, publish func([]*toolyard.Tool)) error {
	var saying sync.Mutex
	say := func() {
		saying.Lock()
		defer saying.Unlock()
		publish(v.Tools())
	}
	if l := v.pinnedListing(); len(l.tools)+len(l.prompts) > 0 {
		v.take(l)
		say()
	}
	slow := time.AfterFunc(slowStart, func() { // whoever waits for all sources waits no longer
		v.note("it has not answered yet", "If it stays so, run its command by hand to see what it does.")
		say()
	})
	defer slow.Stop()
	tried := sync.OnceFunc(func() { close(v.tried) })
	defer tried()
	v.set(&state{})
	defer v.set(&state{err: errClosed, down: true})
	pause := firstPause
	for ctx.Err() == nil {
		s, err := v.attend(ctx, slow.Stop, func() { say(); tried() })
		if ctx.Err() != nil {
			break
		}
		served := s != nil && s.served.Load()
		if served {
			pause = firstPause
		}
		if errors.Is(err, errLost) && served { // it lives, and only forgot us
			v.event(EventDown, err.Error())
			continue
		}
		slow.Stop()
		v.fail(err, s != nil && pause <= patience)
		say()
		tried()
		v.pause(ctx, backoff.Jitter(pause))
		pause = min(2*pause, lastPause)
	}
	return nil
}

// pause waits until the server is tried again: for a time, or less if somebody asks for it,
// but not more often than once a second.
func (v *Server) pause(ctx context.Context, d time.Duration) {
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
	case <-v.nudged:
	}
}

// Retry has a server that is down tried again soon.
func (v *Server) Retry() {
	select {
	case v.nudged <- struct{}{}:
	default: // it is known already
	}
}

// slowStart is how long a server may take to start before others stop waiting for it.
const slowStart = time.Second

// patience is how long a caller is made to wait for a server that is about to be started
// again.
const patience = time.Second

// attend opens a session and looks after it until it ends. The session is nil if it was
// never of use.
func (v *Server) attend(ctx context.Context, up func() bool, say func()) (*session, error) {
	v.event(EventStart, "")
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, err := v.open(opening)
	if err != nil {
		v.doubt(true)
		return nil, err
	}
	v.doubt(false)
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer func() {
		v.set(&state{}) // whoever comes now waits for what is next
		if ctx.Err() != nil {
			s.drain(v.longest())
		}
		stop()
		s.link.close()
		following.Wait()
	}()
	select {
	case <-v.again: // the pins are compared anyway
		v.unlisted()
	default:
	}
	if _, err := v.list(opening, s); err != nil {
		return nil, err
	}
	up()
	following.Go(func() { s.follow(ctx) })
	s.heeded(ctx)
	v.meet(s)
	v.set(&state{session: s})
	v.said = ""
	v.opts.Log.Info("server is up", "protocol", s.version, "tools", len(v.Tools()))
	say()
	return s, v.watch(ctx, s, say)
}

// Bounds on how often a server is looked at again.
const (
	refresh = time.Minute     // without being told
	settle  = time.Second / 2 // between two looks
	strikes = 5               // calls that fail in a row
)

// watch looks at the server again when it says that something changed, and now and then
// anyway. It ends with the session.
func (v *Server) watch(ctx context.Context, s *session, say func()) error {
	again := time.NewTicker(backoff.Jitter(refresh) + refresh/2)
	defer again.Stop()
	for {
		look := v.list
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.link.gone():
			return s.link.cause()
		case <-v.suspect:
			look = v.probe
		case <-v.again:
			v.unlisted()
		case <-s.changed:
		case <-again.C:
		}
		start := time.Now()
		changed, err := look(ctx, s)
		switch {
		case err != nil && s.lost(err):
			return errLost
		case err != nil && ctx.Err() == nil:
			return err
		case changed:
			say()
		}
		select { // a server that changes all the time costs no more than this
		case <-time.After(min(max(settle, 10*time.Since(start)), 20*settle)):
		case <-s.link.gone():
		case <-ctx.Done():
		}
	}
}

// probe asks a server for a sign of life.
func (v *Server) probe(ctx context.Context, s *session) (changed bool, err error) {
	s.failed.Store(0)
	return false, s.alive(ctx)
}

var errLost = errors.New("it has forgotten the session")

// list reads what the server has and makes it what is offered. It reports whether that is
// another than before.
func (v *Server) list(ctx context.Context, s *session) (changed bool, err error) {
	l, err := s.listAll(ctx)
	if err != nil {
		return false, err
	}
	sum := l.sum()
	v.mu.Lock()
	changed = v.listed != sum
	v.listed = sum
	v.mu.Unlock()
	if changed {
		v.take(&l)
		v.mu.Lock()
		v.seen = true
		v.mu.Unlock()
		v.recount()
	}
	return changed, nil
}

// unlisted forgets what the last listing was like, so that the next one counts as new.
func (v *Server) unlisted() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed = [32]byte{}
}

// take makes a listing what is offered.
func (v *Server) take(l *listing) {
	v.mu.Lock()
	v.notes = nil
	v.mu.Unlock()
	offered := v.define(l)
	resources, problems := v.resourcesOf(l)
	var prompts []*toolyard.Prompt
	for _, text := range l.problems {
		problems = append(problems, v.problem("", text, ""))
	}
	problems = append(problems, v.troubles(offered)...)
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.made)
	for _, o := range offered {
		if o.tool != nil {
			v.made[string(o.raw)] = o.tool
		}
		if o.prompt != nil {
			prompts = append(prompts, o.prompt)
		}
	}
	v.offered, v.resources, v.prompts, v.problems = offered, resources, prompts, problems
}

// maxProblems is how many problems one server shows.
const maxProblems = 50

// troubles are the problems of a listing: tools that are withheld although they are
// wanted, and tools that are wanted and not there.
func (v *Server) troubles(list []*offered) (problems []toolyard.Problem) {
	var names []string
	for _, o := range list {
		if !o.isPrompt() {
			names = append(names, o.name)
		}
		if o.why != "" && !o.unwanted && !o.rejected {
			problems = append(problems, v.problem(untrusted.Quote(o.key), untrusted.Quote(o.key)+" is withheld: "+o.why, o.fix))
		}
	}
	for _, said := range []struct {
		key  string
		what []string
	}{{"tools", v.opts.Tools}, {"effects", slices.Sorted(maps.Keys(v.opts.Effects))}, {"timeouts", slices.Sorted(maps.Keys(v.opts.Timeouts))}} {
		for _, want := range said.what {
			if want == "*" || slices.Contains(names, want) {
				continue
			}
			fix := ""
			if near := spelling.Nearest(want, names); near != "" {
				fix = "Did you mean " + untrusted.Quote(near) + "?"
			}
			problems = append(problems, v.problem(want, said.key+" names "+want+", which the server does not have", fix))
		}
	}
	if extra := len(problems) - maxProblems; extra > 0 {
		problems = append(problems[:maxProblems], v.problem("", fmt.Sprintf("and %d more problems", extra), ""))
	}
	return problems
}

func (v *Server) problem(tool, message, fix string) toolyard.Problem {
	return toolyard.Problem{Source: v.opts.ID, Subject: "server " + v.opts.ID, Tool: tool, Message: untrusted.Truncate(v.opts.Redact(message), maxShown), Fix: fix}
}

// note adds a problem that is not about a definition.
func (v *Server) note(message, fix string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.notes = append(v.notes, v.problem("", message, fix))
}

// Tools are those that are offered now.
func (v *Server) Tools() (tools []*toolyard.Tool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range v.offered {
		if o.tool != nil {
			tools = append(tools, o.tool)
		}
	}
	return tools
}

// Resources implements [toolyard.ResourceProvider].
func (v *Server) Resources() []*toolyard.Resource {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.resources
}

// Prompts implements [toolyard.PromptProvider].
func (v *Server) Prompts() []*toolyard.Prompt {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.prompts
}

// Problems implements [toolyard.ProblemReporter].
func (v *Server) Problems() []toolyard.Problem {
	v.mu.Lock()
	defer v.mu.Unlock()
	problems := slices.Concat(v.notes, v.problems)
	if st := v.state; st.session == nil && st.err != nil {
		problems = append(problems, v.problem("", "it is down: "+oneLine(st.err), st.fix))
	}
	return problems
}

// downFix says what to do about a server that is down. Only what may pass by itself needs nothing.
func (v *Server) downFix(err error) string {
	if _, ok := errors.AsType[*subprocess.NotFoundError](err); ok {
		return "Install it, or correct command."
	}
	if _, ok := errors.AsType[*notMCP](err); ok && len(v.opts.Command) > 0 {
		return "Check command and args."
	} else if ok {
		return "Check url."
	}
	return "It is retried automatically."
}

// oneLine is an error as a problem shows it.
func oneLine(err error) string { return untrusted.Truncate(inOneLine(err.Error()), maxLine) }

// Up reports whether the server can be used now.
func (v *Server) Up() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.session != nil
}

// Recheck compares the definitions with the pins again, which may have changed.
func (v *Server) Recheck() {
	v.recount()
	select {
	case v.again <- struct{}{}:
	default: // it is known already
	}
}

// remember notes the version that the server speaks.
func (v *Server) remember(version string, guessed bool) {
	if guessed { // it may speak another when it is asked next
		return
	}
	v.mu.Lock()
	known := v.protocol == version && !v.unsure
	v.protocol = version
	v.mu.Unlock()
	if !known && v.opts.Pins.Protocol(v.opts.ID) != version {
		if err := v.opts.Pins.SetProtocol(v.opts.ID, version); err != nil {
			v.opts.Log.Debug("the version of the protocol could not be kept", "error", err)
		}
	}
}

// remembered is the version that the server spoke last, empty if that is not known.
func (v *Server) remembered() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unsure {
		return ""
	}
	return cmp.Or(v.protocol, v.opts.Pins.Protocol(v.opts.ID))
}

// doubt notes whether the server may speak another version than it did: one that cannot
// be spoken to may have become another.
func (v *Server) doubt(unsure bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unsure = unsure
}

// longest is how long any call may take.
func (v *Server) longest() time.Duration {
	longest := v.opts.Timeout
	for _, t := range v.opts.Timeouts {
		longest = max(longest, t)
	}
	return min(longest, maxDrain)
}

// maxDrain is how long calls in flight are waited for at most when a server is given up.
const maxDrain = 30 * time.Second

// timeout is how long a call of a tool may take.
func (v *Server) timeout(tool string) time.Duration {
	return cmp.Or(v.opts.Timeouts[tool], v.opts.Timeout)
}

// logMessage passes on what a server logs.
func (v *Server) logMessage(m message) {
	data := ""
	if raw := strictjson.Member(m.params, "data"); len(raw) <= maxKept {
		data = untrusted.Truncate(string(redactTexts(raw, v.opts.Redact)), maxShown)
	}
	v.opts.Log.Debug("server logs", "level", untrusted.Truncate(text(m.params, "level"), 20), "data", data)
}
