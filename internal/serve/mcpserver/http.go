package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/tracecontext"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// modernVersion is the only protocol version of the modern era so far.
const modernVersion = "2026-07-28"

// message is a parsed JSON-RPC message with undecoded members.
type message struct {
	id     json.RawMessage // as sent by the client; nil for a notification
	method string          // empty for a response
	params json.RawMessage
	result json.RawMessage // set in a response
	fault  json.RawMessage // set in an error response
}

// Handler serves the gate that gateOf returns for a request.
func (s *Server) Handler(gateOf func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w)
		if a := s.enter(w, r, gateOf(r)); a != nil {
			a.serve(w, r)
		}
	})
}

// access is an authorized request: its caller, and the gate's view that serves it.
type access struct {
	gate   *gate
	view   *view
	caller toolyard.Caller
	origin string // key for per-caller quotas
}

// enter authorizes a request for a gate. It returns nil if it has written a response.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, gateName string) *access {
	g, ok := (*s.gates.Load())[gateName]
	if !ok {
		unknownGateError(w, gateName)
		return nil
	}
	a, err := g.authorize(r)
	if err != nil {
		g.refuse(w, r, err)
		return nil
	}
	// A deadline for the whole response would end long calls, so each write has its own.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return a
}

func unknownGateError(w http.ResponseWriter, name string) {
	http.Error(w, fmt.Sprintf("unknown gate %q; gates are at /mcp/{gate}", name), http.StatusNotFound)
}

// authorize authorizes a request under the gate's current rules.
func (g *gate) authorize(r *http.Request) (*access, error) {
	v := g.view.Load()
	caller, err := g.server.opts.Authorize(r, v.Gate)
	if err != nil {
		return nil, err
	}
	return &access{g, v, caller, originOf(caller, r)}, nil
}

// renew authorizes the request again if the gate has changed in the meantime, so that a slowly sent
// body is not handled under outdated rules. It returns nil if it has written a response.
func (a *access) renew(w http.ResponseWriter, r *http.Request) *access {
	v := a.gate.view.Load()
	switch {
	case a.gate.closed.Err() != nil:
		unknownGateError(w, v.Gate.Name)
		return nil
	case v.Gate == a.view.Gate:
		a.view = v
		return a
	}
	renewed, err := a.gate.authorize(r)
	if err != nil {
		a.gate.refuse(w, r, err)
		return nil
	}
	return renewed
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	metadata := ""
	if url := g.server.opts.MetadataURL; url != nil {
		metadata = url(r, g.view.Load().Gate)
	}
	Refuse(w, r, err, metadata)
}

// Refuse writes the response to an unauthorized request, following RFC 6750 and RFC 9728. The
// metadata URL tells OAuth clients where to sign in; it is empty if the resource accepts no access
// tokens.
func Refuse(w http.ResponseWriter, r *http.Request, err error, metadataURL string) {
	e := toolyard.AsError(err)
	status, challenge := http.StatusUnauthorized, `Bearer realm="toolyard"`
	if metadataURL != "" {
		challenge += `, resource_metadata="` + metadataURL + `"`
	}
	switch {
	case e.Code == toolyard.Unavailable:
		w.Header().Set("Retry-After", e.RetrySeconds())
		http.Error(w, e.Message, http.StatusServiceUnavailable)
		return
	case e.Code == toolyard.PermissionDenied:
		status = http.StatusForbidden
		challenge += `, error="insufficient_scope"` + scopeParam(e.Missing)
	case len(r.Header["Authorization"]) > 0:
		challenge += `, error="invalid_token"` + scopeParam(e.Missing)
	default:
		challenge += scopeParam(e.Missing)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, e.Message, status)
}

// scopeParam returns a challenge's scope parameter, omitting scopes with invalid characters.
func scopeParam(scopes []string) string {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool {
		return scope == "" || strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
	})
	if len(scopes) == 0 {
		return ""
	}
	return `, scope="` + strings.Join(scopes, " ") + `"`
}

// recover turns a panic into an error, so that only one request fails.
func (s *Server) recover(w http.ResponseWriter) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.opts.Log.Error("request panicked", "panic", p, "stack", string(debug.Stack()))
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

func (a *access) serve(w http.ResponseWriter, r *http.Request) {
	modern := r.Header.Get("Mcp-Protocol-Version") >= modernVersion
	switch {
	case r.Method == http.MethodPost:
		a.post(w, r, modern)
	case modern:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this protocol version supports only POST", http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		a.getLegacy(w, r)
	case r.Method == http.MethodDelete:
		a.deleteLegacy(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "MCP supports only GET, POST and DELETE", http.StatusMethodNotAllowed)
	}
}

func (a *access) post(w http.ResponseWriter, r *http.Request, modern bool) {
	m, release, ok := a.readMessage(w, r)
	defer release()
	if !ok {
		return
	}
	if a = a.renew(w, r); a == nil {
		return
	}
	if p := readParams(m.params); modern || p.meta.modern {
		a.postModern(w, r, &m, p)
	} else {
		a.postLegacy(w, r, &m, p)
	}
}

// Body sizes, in bytes.
const (
	firstRead = 4 << 10  // allocated before any data has arrived
	smallBody = 16 << 10 // maximum read before the quota for large bodies is charged
)

// readMessage reads and parses the body. release returns the memory quota. readMessage returns
// false if it has written a response.
func (a *access) readMessage(w http.ResponseWriter, r *http.Request) (m message, release func(), ok bool) {
	limit, release := a.gate.server.opts.MaxBody, func() {}
	if r.ContentLength > limit {
		writeError(w, nil, tooLarge(limit))
		return m, release, false
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead) // don't allocate the declared length, which may never arrive
	from := http.MaxBytesReader(w, r.Body, limit)
	_, err := body.ReadFrom(io.LimitReader(from, smallBody))
	if err == nil && body.Len() == smallBody {
		if release, err = a.reserveBody(r); err != nil {
			refuseBusy(w, err)
			return m, func() {}, false
		}
		_, err = body.ReadFrom(from)
	}
	var rpcErr *jsonrpc.Error
	if err != nil {
		rpcErr = readError(err, limit)
	} else {
		// The server's read deadline would also end long responses. It applies until the body has
		// arrived.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		m, rpcErr = parse(body.Bytes())
	}
	if rpcErr != nil {
		writeError(w, m.id, rpcErr)
	}
	return m, release, rpcErr == nil
}

func (a *access) reserveBody(r *http.Request) (release func(), err error) {
	size := r.ContentLength
	if size < 0 {
		size = a.gate.server.opts.MaxBody // assume the maximum
	}
	return a.gate.server.bodies.acquire(a.origin, int(size))
}

func readError(err error, limit int64) *jsonrpc.Error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(limit)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body could not be read"}
}

func tooLarge(limit int64) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the body exceeds %d bytes", limit), Data: json.RawMessage(`{"error":"SIZE_LIMIT"}`)}
}

// parse parses a message. It rejects JSON that parsers may interpret differently.
func parse(body []byte) (m message, _ *jsonrpc.Error) {
	if err := strictjson.Check(body); err != nil {
		return m, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "invalid JSON: " + err.Error()}
	}
	var version, method json.RawMessage
	for key, value := range strictjson.Members(body) {
		switch key {
		case "jsonrpc":
			version = value
		case "id":
			m.id = value
		case "method":
			method = value
		case "params":
			m.params = value
		case "result":
			m.result = value
		case "error":
			m.fault = value
		default:
			if looksLike(key, "jsonrpc", "id", "method", "params", "result", "error") {
				return m, invalid("unknown member %q", key)
			}
		}
	}
	var ok bool
	switch m.method, ok = strictjson.String(method); {
	case string(version) != `"2.0"`:
		return m, invalid(`"jsonrpc" must be "2.0"`)
	case m.id != nil && !validID(m.id):
		m.id = nil
		return m, invalid("id must be a string or an integer")
	case method != nil && (!ok || m.method == ""), method == nil && m.result == nil && m.fault == nil:
		return m, invalid("method is missing")
	case m.params != nil && m.params[0] != '{':
		return m, invalid("params must be an object")
	}
	return m, nil
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// looksLike reports whether a case-insensitive parser would treat key as one of the names.
func looksLike(key string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(key, name) })
}

func validID(id json.RawMessage) bool {
	if id[0] == '"' {
		return true
	}
	return (id[0] == '-' || '0' <= id[0] && id[0] <= '9') && !bytes.ContainsAny(id, ".eE")
}

// writeError writes the response to a request that was rejected before it ran.
func writeError(w http.ResponseWriter, id json.RawMessage, e *jsonrpc.Error) {
	status := statusOf(e)
	if status == http.StatusOK {
		status = http.StatusBadRequest
	}
	if bytes.Contains(e.Data, []byte(toolyard.ArgsTooLarge)) {
		status = http.StatusRequestEntityTooLarge
	}
	newReply(w, nil).finish(status, appendResponse(nil, id, nil, e))
}

// refuseBusy writes the response to a request that exceeds a quota or fails temporarily.
func refuseBusy(w http.ResponseWriter, err error) {
	e, status := toolyard.AsError(err), http.StatusServiceUnavailable
	if e.Code == toolyard.RateLimited {
		status = http.StatusTooManyRequests
	}
	w.Header().Set("Retry-After", e.RetrySeconds())
	http.Error(w, e.Message, status)
}

func traceOf(r *http.Request) tracecontext.Trace {
	return tracecontext.Trace{Parent: r.Header.Get("Traceparent"), State: r.Header.Get("Tracestate")}
}
