package mcpserver

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
)

const sessionHeader = "Mcp-Session-Id"

// postLegacy serves a POST from a legacy client. The request contains its MCP session.
func (a *access) postLegacy(w http.ResponseWriter, r *http.Request, m *message, p params) {
	if !checkJSONType(w, r) {
		return
	}
	if m.method == "initialize" && m.id != nil {
		a.postInitialize(w, m)
		return
	}
	agreed, ok := a.sessionOf(w, r)
	if !ok {
		return
	}
	reply := newReply(w, r)
	x := &requestContext{
		access: *a, message: m, params: p, session: agreed, trace: traceOf(r), peer: agreed.id, send: reply.notify, gone: r.Context(),
	}
	if m.id == nil || m.method == "" {
		if err := x.receive(r.Context()); err != nil {
			refuseBusy(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	rpcErr := x.prepare()
	var result []byte
	if rpcErr == nil {
		result, rpcErr = x.answer(x.callContext(r.Context()))
	}
	reply.finish(http.StatusOK, appendResponse(make([]byte, 0, len(result)+256), m.id, result, rpcErr))
}

// callContext returns a request's context. In the legacy era, disconnecting does not cancel a
// request, so calls to write tools continue. Calls to read-only tools end, because their results
// would be lost.
func (x *requestContext) callContext(ctx context.Context) context.Context {
	if x.message.method != "tools/call" {
		return ctx
	}
	if tool, ok := x.view.Lookup(x.request.name); ok && !tool.IsReadOnly() {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// checkJSONType writes an error and returns false if the content type is not JSON.
func checkJSONType(w http.ResponseWriter, r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return false
	}
	return true
}

func (a *access) postInitialize(w http.ResponseWriter, m *message) {
	agreed, result, rpcErr := a.gate.server.initialize(m.params)
	if rpcErr != nil {
		writeError(w, m.id, rpcErr)
		return
	}
	w.Header().Set(sessionHeader, a.gate.server.sealSession(a, agreed))
	newReply(w, nil).finish(http.StatusOK, appendResponse(make([]byte, 0, len(result)+64), m.id, result, nil))
}

// sessionOf returns a request's MCP session. Requests that have none are served too, but their
// clients cannot be asked questions.
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
	http.Error(w, "MCP session not found: it has ended or expired, or it belongs to another caller; initialize again", http.StatusNotFound)
}

// getLegacy serves a stream of change notifications. An MCP session may have several streams, on
// any replica.
func (a *access) getLegacy(w http.ResponseWriter, r *http.Request) {
	if !acceptsStream(r) {
		http.Error(w, "Accept must contain text/event-stream", http.StatusNotAcceptable)
		return
	}
	if r.Header.Get(sessionHeader) == "" {
		http.Error(w, "opening a stream requires the header "+sessionHeader, http.StatusBadRequest)
		return
	}
	agreed, ok := a.sessionOf(w, r)
	if !ok {
		return
	}
	release, err := a.gate.server.streams.acquire(a.origin, 1)
	if err != nil {
		refuseBusy(w, err)
		return
	}
	defer release()
	openStream(w)
	if writeNow(w, []byte(": open\n\n")) != nil {
		return
	}
	s := a.gate.server
	watch := a.watch(w, r)
	watch.updates = s.legacy.subscriptions.open(agreed.id, a.gate, s.opts.Now())
	defer func() { s.legacy.subscriptions.close(agreed.id, s.opts.Now()) }()
	watch.valid = func() bool {
		_, ended := s.legacy.ended.get(agreed.id)
		return !ended
	}
	watch.run(r.Context())
}

// deleteLegacy ends an MCP session on all replicas.
func (a *access) deleteLegacy(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(sessionHeader) == "" {
		http.Error(w, "DELETE requires the header "+sessionHeader, http.StatusBadRequest)
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

// endSession ends an MCP session on all replicas. It stores the end only for authenticated callers,
// so that others cannot fill the store. An anonymous session that survives a restart is harmless.
func (a *access) endSession(ctx context.Context, agreed *session) error {
	s := a.gate.server
	if err := a.notifyReplicas(ctx, agreed, &replicaMessage{Kind: endSession}); err != nil {
		return err
	}
	s.Forget(agreed.id)
	if s.opts.Replicas.Bus == nil || !a.caller.Authenticated() {
		return nil
	}
	return s.opts.Replicas.Bus.EndSession(ctx, agreed.id, a.caller, s.opts.Now().Add(sessionLifetime))
}
