package mcpserver

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
)

const sessionHeader = "Mcp-Session-Id"

// postLegacy serves a POST of a client of the legacy era. All that the server has to know about
// its session is in the request.
func (a *access) postLegacy(w http.ResponseWriter, r *http.Request, env *envelope) {
	if !checkJSONType(w, r) {
		return
	}
	if env.method == "initialize" && env.id != nil {
		a.postInitialize(w, env)
		return
	}
	agreed, ok := a.sessionOf(w, r)
	if !ok {
		return
	}
	x := &exchange{access: *a, env: env, session: agreed, peer: agreed.id, left: r.Context()}
	if env.id == nil || env.method == "" {
		if err := x.take(r.Context()); err != nil {
			refuseBusy(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	reply := newReply(w, r)
	x.send, x.meta, x.trace = reply.notify, readMeta(env.params), traceOf(r)
	wire := x.prepare()
	var result []byte
	if wire == nil {
		result, wire = x.answer(x.lasting(r.Context()))
	}
	reply.finish(http.StatusOK, appendResponse(make([]byte, 0, len(result)+256), env.id, result, wire))
}

// lasting is the context of a request that may go on when its client disconnects, which in the
// legacy era does not cancel it. A call that only reads does end: nobody would get its result.
func (x *exchange) lasting(ctx context.Context) context.Context {
	if x.env.method != "tools/call" {
		return ctx
	}
	if tool, ok := x.view.Lookup(x.job.name); ok && !tool.IsReadOnly() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// checkJSONType answers a request whose body does not claim to be JSON, and reports false.
func checkJSONType(w http.ResponseWriter, r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		http.Error(w, "the Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return false
	}
	return true
}

func (a *access) postInitialize(w http.ResponseWriter, env *envelope) {
	agreed, result, wire := a.gate.server.initialize(env.params)
	if wire != nil {
		writeError(w, env.id, wire)
		return
	}
	w.Header().Set(sessionHeader, a.gate.server.sealSession(a, agreed))
	writeResult(w, env.id, result)
}

// sessionOf is the session that a request names. A request that names none is served too: it
// has all that a call needs, only questions to its client cannot be asked.
func (a *access) sessionOf(w http.ResponseWriter, r *http.Request) (*session, bool) {
	version := r.Header.Get("Mcp-Protocol-Version")
	if version != "" && !slices.Contains(legacyVersions, version) {
		http.Error(w, fmt.Sprintf("unsupported protocol version %.40q; supported: %s, %s", version, modernVersion, strings.Join(legacyVersions, ", ")), http.StatusBadRequest)
		return nil, false
	}
	sealed := r.Header.Get(sessionHeader)
	if sealed == "" {
		if version == "" {
			version = defaultVersion
		}
		return &session{version: version}, true
	}
	agreed, ok := a.gate.server.openSession(a, sealed)
	if !ok {
		noSession(w)
	}
	return agreed, ok
}

func noSession(w http.ResponseWriter) {
	http.Error(w, "session not found: it has ended or expired, or is not yours; initialize again", http.StatusNotFound)
}

// refuseBusy answers somebody who wants too much at once, or something that cannot be done now.
func refuseBusy(w http.ResponseWriter, err error) {
	e, status := toolyard.AsError(err), http.StatusServiceUnavailable
	if e.Code == toolyard.RateLimited {
		status = http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", e.RetrySeconds())
	http.Error(w, e.Message, status)
}

func traceOf(r *http.Request) toolyard.Trace {
	return toolyard.Trace{Parent: r.Header.Get("Traceparent"), State: r.Header.Get("Tracestate")}
}

// getLegacy opens a stream on which a client of the legacy era is told of changes. Its session
// need not have been opened at this replica, and it may have several streams.
func (a *access) getLegacy(w http.ResponseWriter, r *http.Request) {
	if !acceptsStream(r) {
		http.Error(w, "Accept must contain text/event-stream", http.StatusNotAcceptable)
		return
	}
	if r.Header.Get(sessionHeader) == "" {
		http.Error(w, "a stream needs the header "+sessionHeader, http.StatusBadRequest)
		return
	}
	agreed, ok := a.sessionOf(w, r)
	if !ok {
		return
	}
	release, err := a.gate.server.streams.take(a.origin, 1)
	if err != nil {
		refuseBusy(w, err)
		return
	}
	defer release()
	openStream(w)
	if writeNow(w, []byte(": open\n\n")) != nil {
		return
	}
	watch := a.watch(w, r)
	watch.valid = func() bool {
		_, ended := a.gate.server.ended.get(agreed.id)
		return !ended
	}
	watch.run(r.Context())
}

// deleteLegacy ends a session, at all replicas.
func (a *access) deleteLegacy(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(sessionHeader) == "" {
		http.Error(w, "DELETE needs the header "+sessionHeader, http.StatusBadRequest)
		return
	}
	agreed, ok := a.sessionOf(w, r)
	if !ok {
		return
	}
	if err := a.endSession(r.Context(), agreed); err != nil {
		refuseBusy(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// endSession ends a session here and at the other replicas. The end is stored only for known
// callers: strangers must not fill the store, and nobody loses anything if the session of a
// stranger outlives a restart.
func (a *access) endSession(ctx context.Context, agreed *session) error {
	s := a.gate.server
	if err := a.tellFleet(ctx, agreed, &fleetMessage{Kind: endSession}); err != nil {
		return err
	}
	s.Forget(agreed.id)
	if s.opts.Fleet == nil || !a.caller.Authenticated() {
		return nil
	}
	return s.opts.Fleet.EndSession(ctx, agreed.id, a.caller, s.opts.Now().Add(sessionLifetime))
}
