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
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/backoff"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// The supported protocol versions. The modern version has no sessions.
const modernVersion = "2026-07-28"

var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Keys in _meta that concern only the direct peer.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// probeTimeout is how long a server may take to report its protocol versions or to respond to a ping.
const probeTimeout = 5 * time.Second

// session speaks one version of the protocol over a link.
type session struct {
	link   link
	client []byte // name and version of this client, as JSON
	self   string // ID of this yard
	handshake
	toolsOnly bool // whether to offer only tools

	ids      atomic.Int64
	answered atomic.Bool   // whether the server has responded to a call
	failures atomic.Int32  // consecutive failed calls
	active   atomic.Int32  // number of running calls
	changed  chan struct{} // signaled when the server announces a change
	log      func(message) // receives log messages
	relay    *relay        // receives resource updates
	opening  sync.Map      // streams that are not acknowledged yet: chan struct{} by ID
	replies  chan struct{} // limits the replies in flight
}

// handshake is what a server declares about itself when a session starts.
type handshake struct {
	version        string
	versionGuessed bool            // whether the version was guessed, because the server was slow to report it
	capabilities   map[string]bool // such as tools or tools.listChanged
	serverName     string
	serverVersion  string
}

// maxReplies limits the replies in flight. A server that sends requests faster than it reads
// replies does not get any more.
const maxReplies = 8

func (s *session) modern() bool { return s.version >= modernVersion }

// openProcess starts the server. If it exits when it is probed for the modern version, it is
// restarted as a legacy server.
func (s *session) openProcess(ctx context.Context, o *Options, lastVersion string, started func(*subprocess.Process)) (err error) {
	for _, legacy := range []bool{lastVersion != modernVersion && lastVersion != "", true} {
		l, err := newProcess(o, s.handleMessage)
		if err != nil {
			return err
		}
		s.link = l
		started(l.process)
		l.start()
		if legacy {
			return s.initialize(ctx)
		}
		err = s.discover(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errSelf) {
			return err
		}
		select {
		case <-s.link.done():
			s.link.close()
		default:
			return s.fallBack(ctx, err)
		}
	}
	return err
}

// fallBack opens a legacy session with a server that did not report the modern version. If the
// server was just slow and supports only the modern version, it is probed again.
func (s *session) fallBack(ctx context.Context, why error) error {
	s.versionGuessed = errors.Is(why, context.DeadlineExceeded)
	err := s.initialize(ctx)
	if _, refused := errors.AsType[*rpcError](err); refused && s.versionGuessed {
		s.versionGuessed = false
		return s.discover(ctx)
	}
	return err
}

// openHTTP tries the protocol versions from the newest to the oldest, starting with the one that
// worked last.
func (s *session) openHTTP(ctx context.Context, o *Options, lastVersion string) error {
	l, err := newHTTPLink(o, s.handleMessage)
	if err != nil {
		return err
	}
	s.link = l
	if lastVersion == "" || lastVersion >= modernVersion {
		err := s.discover(ctx)
		if err == nil || !mayBeOlder(err) {
			return err
		}
	}
	err = s.initialize(ctx)
	if err == nil || o.Transport == TransportHTTP || !mayBeOlder(err) {
		return err
	}
	l.close()
	if s.openSSE(ctx, o) != nil {
		return err // the newer transport's error is more helpful
	}
	return nil
}

// mayBeOlder reports whether an error may mean that the server supports only older versions, and
// not that it is down or denies access.
func mayBeOlder(err error) bool {
	switch status := statusOf(err); {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return false
	case status >= 500 && status != http.StatusNotImplemented:
		return false
	}
	_, down := errors.AsType[*unreachableError](err)
	if _, unauthorized := errors.AsType[*credentialError](err); unauthorized {
		return false
	}
	return !down && !errors.Is(err, context.Canceled) && !errors.Is(err, errSelf)
}

// statusOf returns the HTTP status of an error, or 0.
func statusOf(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.status
	}
	if e, ok := errors.AsType[*rpcError](err); ok {
		return e.status
	}
	return 0
}

func (s *session) openSSE(ctx context.Context, o *Options) error {
	l, err := openSSE(ctx, o, s.handleMessage)
	if err != nil {
		s.link = nil
		return err
	}
	s.link = l
	l.start()
	return s.initialize(ctx)
}

// discover probes whether a server supports the modern version.
func (s *session) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	s.version = modernVersion
	result, err := s.request(ctx, request{method: "server/discover", noCancel: true})
	if refused, ok := errors.AsType[*rpcError](err); ok && refused.supports(modernVersion) {
		result, err = s.request(ctx, request{method: "server/discover", noCancel: true})
	}
	if err != nil {
		s.version = ""
		return err
	}
	var versions []string
	_ = json.Unmarshal(strictjson.Member(result, "supportedVersions"), &versions)
	if !slices.Contains(versions, modernVersion) {
		s.version = ""
		return fmt.Errorf("the server does not support protocol version %s", modernVersion)
	}
	if self := text(strictjson.Member(result, "_meta"), metaYard); self != "" && self == s.self {
		return errSelf
	}
	s.setCapabilities(strictjson.Member(result, "capabilities"))
	s.setServerInfo(strictjson.Member(strictjson.Member(result, "_meta"), metaServer))
	return nil
}

// metaYard is the _meta key for a yard's ID.
const metaYard = "dev.toolyard/yard"

var errSelf = errors.New("the server is this yard itself; remove it from servers")

// initialize opens a legacy session.
func (s *session) initialize(ctx context.Context) error {
	s.version = ""
	params := append([]byte(`"protocolVersion":"`+legacyVersions[0]+`","capabilities":{"elicitation":{"form":{},"url":{}}},"clientInfo":`), s.client...)
	result, err := s.request(ctx, request{method: "initialize", params: params, noCancel: true})
	if refused, ok := errors.AsType[*rpcError](err); ok && refused.Code == codeMethodNotFound {
		return &notMCPError{err}
	}
	if err != nil {
		return err
	}
	s.version = text(result, "protocolVersion")
	if !slices.Contains(legacyVersions, s.version) {
		return fmt.Errorf("the server uses protocol version %.40q, which is not supported", s.version)
	}
	s.setCapabilities(strictjson.Member(result, "capabilities"))
	s.setServerInfo(strictjson.Member(result, "serverInfo"))
	return s.link.notify(ctx, appendMessage(nil, 0, "notifications/initialized", nil))
}

// notMCPError is returned for a program or URL that does not respond like an MCP server.
type notMCPError struct{ cause error }

func (e *notMCPError) Error() string {
	return "the server is running, but it is not responding like an MCP server"
}

func (e *notMCPError) Unwrap() error { return e.cause }

// setCapabilities records the capabilities and the version of the session.
func (s *session) setCapabilities(capabilities json.RawMessage) {
	s.capabilities = make(map[string]bool)
	for name, value := range strictjson.Members(capabilities) {
		s.capabilities[name] = true
		for part, set := range strictjson.Members(value) {
			s.capabilities[name+"."+part] = string(set) == "true"
		}
	}
	if l, ok := s.link.(*httpLink); ok {
		l.setVersion(s.version)
	}
}

// setServerInfo records the server's name and version. It clones them to release the message.
func (s *session) setServerInfo(info json.RawMessage) {
	s.serverName = strings.Clone(untrusted.Truncate(text(info, "name"), maxShown))
	s.serverVersion = strings.Clone(untrusted.Truncate(text(info, "version"), maxShown))
}

// request is a request to the server.
type request struct {
	method    string
	params    []byte // an object's members without the braces
	name      string // name of the tool, prompt or resource, for the header
	headers   [][2]string
	onMessage func(message)
	noCancel  bool
	call      *toolyard.Call // nil for the session's own requests
	id        int64          // 0 to assign the next ID
	current   func() bool    // reports whether the definition is still offered; may be nil
}

// request sends a request and returns its result.
func (s *session) request(ctx context.Context, r request) (json.RawMessage, error) {
	if r.id == 0 {
		r.id = s.ids.Add(1)
	}
	m, err := s.link.roundTrip(ctx, &exchange{
		id: r.id, body: appendMessage(nil, r.id, r.method, s.withMeta(r)),
		method: r.method, name: r.name, headers: r.headers, onMessage: r.onMessage, noCancel: r.noCancel, call: r.call,
	})
	switch {
	case err != nil:
		return nil, err
	case m.err != nil:
		return nil, m.err
	}
	return m.result, nil
}

// withMeta returns the params with the request's metadata added.
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

// capabilitiesOf returns the client capabilities to declare to the server: those of the caller's
// client that the yard can relay.
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

// handleMessage handles a message that belongs to no request. It must not block.
func (s *session) handleMessage(m message) {
	switch {
	case m.id != nil && m.method == "ping":
		s.reply(m.id, json.RawMessage("{}"), nil)
	case m.id != nil && m.method == "elicitation/create":
		s.reply(m.id, nil, &rpcError{Code: codeBusy, Message: "several calls are running, and the question does not identify the call it belongs to; try again later"})
	case m.id != nil:
		s.reply(m.id, nil, &rpcError{Code: codeMethodNotFound, Message: "method not found"})
	case strings.HasSuffix(m.method, "/list_changed"):
		signal(s.changed)
	case m.method == "notifications/message":
		s.log(m)
	case m.method == "notifications/resources/updated":
		s.relay.updated(m)
	case m.method == "notifications/subscriptions/acknowledged":
		id := strictjson.Member(strictjson.Member(m.params, "_meta"), metaSubscription)
		if acknowledged, ok := s.opening.LoadAndDelete(string(id)); ok {
			close(acknowledged.(chan struct{}))
		}
	}
}

// reply responds to a request from the server without waiting for delivery.
func (s *session) reply(id, result json.RawMessage, rpcErr *rpcError) {
	if len(id) > 256 {
		return
	}
	select {
	case s.replies <- struct{}{}:
	default:
		return
	}
	body := appendReply(nil, id, result, rpcErr)
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	go func() {
		defer func() { cancel(); <-s.replies }()
		_ = s.link.notify(ctx, body)
	}()
}

// drain waits until the running calls have ended, the limit expires or the link ends.
func (s *session) drain(limit time.Duration) {
	for deadline := time.Now().Add(limit); s.active.Load() > 0 && time.Now().Before(deadline); {
		select {
		case <-s.link.done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ping checks that the server responds.
func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	method := "ping"
	if s.modern() {
		method = "server/discover"
	}
	_, err := s.request(ctx, request{method: method, noCancel: true})
	if _, answered := errors.AsType[*rpcError](err); answered {
		return nil // any response is sufficient
	}
	return err
}

// watchStream keeps the server's notification stream open until ctx ends. After a
// reconnect it reports changes, because a notification may have been missed.
func (s *session) watchStream(ctx context.Context) {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		start := time.Now()
		err := s.listen(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if status, ok := errors.AsType[*statusError](err); ok && status.status/100 == 4 {
			return // the server has no such stream
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
		case <-s.link.done():
			return
		case <-time.After(backoff.Jitter(pause)):
		}
		signal(s.changed)
		if !s.modern() { // with a modern server, the relay has its own stream
			s.relay.missed()
		}
	}
}

// openTimeout limits how long to wait for a server's stream before using the session without it.
const openTimeout = 500 * time.Millisecond

// awaitStream waits until a legacy server's notification stream opens, because questions would be
// lost without it. It returns false if the stream does not open in time.
func (s *session) awaitStream(ctx context.Context) bool {
	l, ok := s.link.(*httpLink)
	if !ok || s.modern() {
		return true
	}
	select {
	case <-l.streamReady:
	case <-time.After(openTimeout):
		return false
	case <-l.done():
	case <-ctx.Done():
	}
	return true
}

// awaitLateStream reports changes when the notification stream finally opens, because a
// notification may have been missed.
func (s *session) awaitLateStream(ctx context.Context) {
	l, ok := s.link.(*httpLink)
	if !ok {
		return
	}
	select {
	case <-l.streamReady:
		signal(s.changed)
		s.relay.missed()
	case <-l.done():
	case <-ctx.Done():
	}
}

// listen reads the notification stream until it ends.
func (s *session) listen(ctx context.Context) error {
	if !s.modern() {
		return s.link.listen(ctx)
	}
	if !s.notifiesChanges() {
		return nil
	}
	meter := newMeter()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, err := s.request(ctx, request{
		method: "subscriptions/listen",
		params: []byte(`"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`),
		onMessage: func(m message) {
			if s.handleMessage(m); !meter.allow() {
				cancel(errUnsolicited)
			}
		},
	})
	if err == nil {
		err = errors.New("the server closed the stream")
	}
	return err
}

// notifiesChanges reports whether the server announces changes to its lists.
func (s *session) notifiesChanges() bool {
	return s.capabilities["tools.listChanged"] || s.capabilities["prompts.listChanged"] || s.capabilities["resources.listChanged"]
}

// isLost reports whether an error means that the server has lost the session and did not
// process the request.
func (s *session) isLost(err error) bool {
	l, ok := s.link.(*httpLink)
	if !ok || s.modern() || l.sessionID() == "" {
		return false
	}
	status := statusOf(err)
	return status == http.StatusNotFound || status == http.StatusBadRequest && strings.Contains(strings.ToLower(err.Error()), "session")
}
