package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/backoff"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// The versions of the protocol that we speak: one without sessions, and those with.
const modernVersion = "2026-07-28"

var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// The keys of _meta that belong to one hop.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// probeTimeout is how long a server may take to say that it knows the modern era.
const probeTimeout = 5 * time.Second

// session speaks the protocol over a link.
type session struct {
	link    link
	client  []byte // our name and version, as JSON
	self    string // which yard we are
	version string
	has     map[string]bool // what the server says it has: tools, tools.listChanged ...
	ids     atomic.Int64
	served  atomic.Bool   // it has answered a call
	failed  atomic.Int32  // calls in a row
	active  atomic.Int32  // calls that run
	changed chan struct{} // told when the server says that something changed
	log     func(message) // what it logs
	replies chan struct{} // answers of ours that are on their way
	guessed bool          // the version was taken because the server was slow to say another
	name    string        // what the server calls itself
	release string        // and which version of itself
}

// maxReplies is how many answers of ours may be on their way at once. A server that asks
// faster than it listens is not answered.
const maxReplies = 8

func (s *session) modern() bool { return s.version >= modernVersion }

// open opens a session in the way that the server was last known by.
func (v *Server) open(ctx context.Context) (*session, error) {
	s := &session{client: v.clientInfo, self: v.opts.Self, changed: make(chan struct{}, 1), log: v.logMessage, replies: make(chan struct{}, maxReplies)}
	var err error
	switch {
	case v.opts.Transport == TransportSSE:
		err = s.openSSE(ctx, v)
	case len(v.opts.Command) > 0:
		err = s.openProcess(ctx, v)
	default:
		err = s.openHTTP(ctx, v)
	}
	if err != nil {
		if s.link != nil {
			s.link.close()
		}
		return nil, err
	}
	v.remember(s.version, s.guessed)
	return s, nil
}

// openProcess starts the server. One that dies of being asked whether it is modern is
// started again and taken for a legacy one.
func (s *session) openProcess(ctx context.Context, v *Server) (err error) {
	for _, legacy := range []bool{v.remembered() != modernVersion && v.remembered() != "", true} {
		l, err := newProcess(&v.opts, s.heard)
		if err != nil {
			return err
		}
		s.link = l
		v.process.Store(l.process)
		l.start()
		if legacy {
			return s.initialize(ctx)
		}
		err = s.discover(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errSelf) {
			return err
		}
		select {
		case <-s.link.gone():
			s.link.close()
		default:
			return s.fallBack(ctx, err)
		}
	}
	return err
}

// fallBack opens a legacy session with a server that did not say that it is modern. One that
// was only too slow to say so may know nothing else, and is asked again.
func (s *session) fallBack(ctx context.Context, why error) error {
	s.guessed = errors.Is(why, context.DeadlineExceeded)
	err := s.initialize(ctx)
	if _, refused := errors.AsType[*rpcError](err); refused && s.guessed {
		s.guessed = false
		return s.discover(ctx)
	}
	return err
}

// openHTTP tries the eras in turn, from the newest, beginning with the one that the
// server was last known by.
func (s *session) openHTTP(ctx context.Context, v *Server) error {
	l, err := newHTTPLink(&v.opts, s.heard)
	if err != nil {
		return err
	}
	s.link = l
	if known := v.remembered(); known == "" || known >= modernVersion {
		err := s.discover(ctx)
		if err == nil || !mayBeOlder(err) {
			return err
		}
	}
	err = s.initialize(ctx)
	if err == nil || v.opts.Transport == TransportHTTP || !mayBeOlder(err) {
		return err
	}
	l.close()
	if older := s.openSSE(ctx, v); older != nil {
		return err // the newer way says more about what is wrong
	}
	return nil
}

// mayBeOlder reports whether a refusal can mean that the server does not know an era,
// rather than that it is down or does not let us in.
func mayBeOlder(err error) bool {
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return false
	case status >= 500 && status != http.StatusNotImplemented:
		return false
	}
	_, down := errors.AsType[*unreachable](err)
	return !down && !errors.Is(err, context.Canceled) && !errors.Is(err, errSelf)
}

// statusOf is the HTTP status that an error came with, 0 for none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status
	}
	if e, ok := errors.AsType[*rpcError](err); ok {
		return e.status
	}
	return 0
}

func (s *session) openSSE(ctx context.Context, v *Server) error {
	l, err := openSSE(ctx, &v.opts, s.heard)
	if err != nil {
		s.link = nil
		return err
	}
	s.link = l
	l.start()
	return s.initialize(ctx)
}

// discover asks a server whether it knows the modern era.
func (s *session) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	s.version = modernVersion
	result, err := s.request(ctx, request{method: "server/discover", silence: true})
	if refused, ok := errors.AsType[*rpcError](err); ok && refused.supports(modernVersion) {
		result, err = s.request(ctx, request{method: "server/discover", silence: true})
	}
	if err != nil {
		s.version = ""
		return err
	}
	var versions []string
	_ = json.Unmarshal(strictjson.Member(result, "supportedVersions"), &versions)
	if !slices.Contains(versions, modernVersion) {
		s.version = ""
		return fmt.Errorf("it does not speak version %s", modernVersion)
	}
	if self := text(strictjson.Member(result, "_meta"), metaYard); self != "" && self == s.self {
		return errSelf
	}
	s.agree(strictjson.Member(result, "capabilities"))
	s.introduce(strictjson.Member(strictjson.Member(result, "_meta"), metaServer))
	return nil
}

// metaYard is where a yard says which one it is.
const metaYard = "dev.toolyard/yard"

var errSelf = errors.New("it is this yard itself; take it out of servers")

// initialize opens a session of the legacy era.
func (s *session) initialize(ctx context.Context) error {
	s.version = ""
	params := append([]byte(`"protocolVersion":"`+legacyVersions[0]+`","capabilities":{"elicitation":{"form":{},"url":{}}},"clientInfo":`), s.client...)
	result, err := s.request(ctx, request{method: "initialize", params: params, silence: true})
	if refused, ok := errors.AsType[*rpcError](err); ok && refused.Code == codeMethodNotFound {
		return &notMCP{err}
	}
	if err != nil {
		return err
	}
	s.version = text(result, "protocolVersion")
	if !slices.Contains(legacyVersions, s.version) {
		return fmt.Errorf("it wants to speak version %.40q, which is not known", s.version)
	}
	s.agree(strictjson.Member(result, "capabilities"))
	s.introduce(strictjson.Member(result, "serverInfo"))
	return s.link.tell(ctx, appendMessage(nil, 0, "notifications/initialized", nil))
}

// notMCP says that what runs does not know how an MCP session begins.
type notMCP struct{ cause error }

func (e *notMCP) Error() string { return "it runs, but does not answer as an MCP server" }

func (e *notMCP) Unwrap() error { return e.cause }

// agree notes what the server has and which version is spoken.
func (s *session) agree(capabilities json.RawMessage) {
	s.has = make(map[string]bool)
	for name, value := range strictjson.Members(capabilities) {
		s.has[name] = true
		for part, set := range strictjson.Members(value) {
			s.has[name+"."+part] = string(set) == "true"
		}
	}
	if l, ok := s.link.(*httpLink); ok {
		l.agree(s.version)
	}
}

// introduce notes who the server says it is. The message that said so is not kept.
func (s *session) introduce(info json.RawMessage) {
	s.name = strings.Clone(untrusted.Truncate(text(info, "name"), maxShown))
	s.release = strings.Clone(untrusted.Truncate(text(info, "version"), maxShown))
}

// request is what we ask of a server.
type request struct {
	method  string
	params  []byte // members of the object, without braces
	name    string // of what it is about, for the header
	headers [][2]string
	heard   func(message)
	silence bool
	call    *toolyard.Call // whose request it is, nil for our own
	id      int64          // its number, 0 for the next
	current func() bool    // whether what it asks for is still offered; nil if that does not matter
}

// request sends a request and returns its result.
func (s *session) request(ctx context.Context, r request) (json.RawMessage, error) {
	if r.id == 0 {
		r.id = s.ids.Add(1)
	}
	m, err := s.link.exchange(ctx, &query{
		id: r.id, body: appendMessage(nil, r.id, r.method, s.withMeta(r)),
		method: r.method, name: r.name, headers: r.headers, heard: r.heard, silence: r.silence,
	})
	switch {
	case err != nil:
		return nil, err
	case m.err != nil:
		return nil, m.err
	}
	return m.result, nil
}

// withMeta are the params with what every request carries.
func (s *session) withMeta(r request) []byte {
	meta := make([]byte, 0, 256)
	add := func(key string, value []byte) {
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = append(append(jsonobject.AppendString(meta, key), ':'), value...)
	}
	if s.modern() {
		add(metaVersion, []byte(`"`+modernVersion+`"`))
		add(metaClient, s.client)
		add(metaCapabilities, capabilitiesOf(r.call))
	}
	if r.call != nil {
		if r.call.OnProgress != nil {
			add("progressToken", strconv.AppendInt(nil, r.id, 10))
		}
		t := r.call.Trace
		for _, key := range [][2]string{{"traceparent", t.Parent}, {"tracestate", t.State}, {"baggage", t.Baggage}} {
			if key[1] != "" {
				add(key[0], jsonobject.AppendString(nil, key[1]))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(r.call.Meta)) {
			add(key, r.call.Meta[key])
		}
	}
	if len(meta) == 0 {
		return r.params
	}
	params := make([]byte, 0, len(r.params)+len(meta)+16)
	if params = append(params, r.params...); len(params) > 0 {
		params = append(params, ',')
	}
	return append(append(append(params, `"_meta":{`...), meta...), '}')
}

// capabilitiesOf is what a server may ask of whoever calls: what the caller's client said
// that it can do, of the things that we pass on.
func capabilitiesOf(c *toolyard.Call) []byte {
	if c == nil {
		return []byte("{}")
	}
	elicitation := strictjson.Member(c.ClientCapabilities, "elicitation")
	if len(elicitation) == 0 || elicitation[0] != '{' {
		return []byte("{}")
	}
	return append(append([]byte(`{"elicitation":`), elicitation...), '}')
}

// heard takes in what a server says that belongs to no request of ours. It must not block.
func (s *session) heard(m message) {
	switch {
	case m.id != nil && m.method == "ping":
		s.answer(m.id, json.RawMessage("{}"), nil)
	case m.id != nil && m.method == "elicitation/create":
		s.answer(m.id, nil, &rpcError{Code: codeBusy, Message: "several calls are running, and the question does not say which one it belongs to: try again later"})
	case m.id != nil:
		s.answer(m.id, nil, &rpcError{Code: codeMethodNotFound, Message: "method not found"})
	case strings.HasSuffix(m.method, "/list_changed"):
		select {
		case s.changed <- struct{}{}:
		default: // it is known already
		}
	case m.method == "notifications/message":
		s.log(m)
	}
}

// answer answers a request of the server, without waiting for it to take that in.
func (s *session) answer(id, result json.RawMessage, refusal *rpcError) {
	if len(id) > 256 {
		return
	}
	select {
	case s.replies <- struct{}{}:
	default:
		return
	}
	body := appendAnswer(nil, id, result, refusal)
	ctx, cancel := context.WithTimeout(context.Background(), sayTimeout)
	go func() {
		defer func() { cancel(); <-s.replies }()
		_ = s.link.tell(ctx, body)
	}()
}

// drain waits for the calls in flight, for a time, if there is still something that can
// answer them.
func (s *session) drain(limit time.Duration) {
	for deadline := time.Now().Add(limit); s.active.Load() > 0 && time.Now().Before(deadline); {
		select {
		case <-s.link.gone():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// alive asks a server for a sign of life.
func (s *session) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	method := "ping"
	if s.modern() {
		method = "server/discover"
	}
	_, err := s.request(ctx, request{method: method, silence: true})
	if _, answered := errors.AsType[*rpcError](err); answered {
		return nil // it lives, whatever it thinks of the question
	}
	return err
}

// follow listens to what the server says unasked until ctx ends, and opens the stream
// again when it drops. What may have changed meanwhile is looked at again.
func (s *session) follow(ctx context.Context) {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		start := time.Now()
		err := s.listen(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if status, ok := errors.AsType[*statusError](err); ok && status.status/100 == 4 {
			return // it has no such stream
		}
		if _, refused := errors.AsType[*rpcError](err); refused {
			return
		}
		if time.Since(start) > time.Minute {
			pause = time.Second
		}
		select {
		case <-ctx.Done():
			return
		case <-s.link.gone():
			return
		case <-time.After(backoff.Jitter(pause)):
		}
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// openTimeout is how long a server may take to open its stream before it is used without.
const openTimeout = 500 * time.Millisecond

// heeded waits until the server can say something unasked: a question that it has nowhere to
// put is lost.
func (s *session) heeded(ctx context.Context) {
	l, ok := s.link.(*httpLink)
	if !ok || s.modern() {
		return
	}
	select {
	case <-l.hearing:
	case <-time.After(openTimeout):
	case <-l.gone():
	case <-ctx.Done():
	}
}

// listen holds the stream of the session's era open.
func (s *session) listen(ctx context.Context) error {
	if !s.modern() {
		return s.link.listen(ctx)
	}
	if !s.pushes() {
		return nil
	}
	said := newMeter()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, err := s.request(ctx, request{
		method: "subscriptions/listen",
		params: []byte(`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`),
		heard: func(m message) {
			if s.heard(m); !said.one() {
				cancel(errChatter)
			}
		},
	})
	if err == nil {
		err = errors.New("the server ended the stream")
	}
	return err
}

// pushes reports whether the server says when something changes.
func (s *session) pushes() bool {
	return s.has["tools.listChanged"] || s.has["prompts.listChanged"] || s.has["resources.listChanged"]
}

// lost reports whether an error means that the server has forgotten the session, so that
// the request was not looked at.
func (s *session) lost(err error) bool {
	l, ok := s.link.(*httpLink)
	if !ok || s.modern() || l.sessionID() == "" {
		return false
	}
	status := statusOf(err)
	return status == http.StatusNotFound || status == http.StatusBadRequest && strings.Contains(strings.ToLower(err.Error()), "session")
}
