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
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// modernVersion is the first version of the modern era, and the only one so far.
const modernVersion = "2026-07-28"

// firstRead is how much memory a body gets before it has come in.
const firstRead = 4 << 10

// envelope is a JSON-RPC message, taken apart but not decoded.
type envelope struct {
	id     json.RawMessage // the client's own bytes; nil for a notification
	method string          // empty for a response
	params json.RawMessage
	result json.RawMessage // of a response
	fault  json.RawMessage // of a response
}

// Handler serves the gate that gateOf names for a request.
func (s *Server) Handler(gateOf func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w)
		if a := s.enter(w, r, gateOf(r)); a != nil {
			a.serve(w, r)
		}
	})
}

// access is an HTTP request that was admitted to a gate: who sent it, and the view that it is
// served from.
type access struct {
	gate   *gate
	view   *view
	caller toolyard.Caller
	origin string // whom bounds on what one sender may use are for
}

// enter finds the gate and admits the sender. It returns nil when it has answered itself.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, gateName string) *access {
	g, ok := (*s.gates.Load())[gateName]
	if !ok {
		unknownGateError(w, gateName)
		return nil
	}
	a, err := g.admit(r)
	if err != nil {
		Refuse(w, r, err)
		return nil
	}
	// A deadline for the whole answer would end long calls; each write has its own.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return a
}

func unknownGateError(w http.ResponseWriter, name string) {
	http.Error(w, fmt.Sprintf("there is no gate %q; gates are at /mcp/{gate}", name), http.StatusNotFound)
}

// admit admits the sender of a request by the rules that the gate has now.
func (g *gate) admit(r *http.Request) (*access, error) {
	v := g.view.Load()
	caller, err := g.server.opts.Admit(r, v.Gate)
	if err != nil {
		return nil, err
	}
	return &access{g, v, caller, originOf(caller, r)}, nil
}

// renew admits the sender again if the gate has changed meanwhile: a body that is sent slowly
// must not be served by rules that no longer hold. It returns nil when it has answered itself.
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
	renewed, err := a.gate.admit(r)
	if err != nil {
		Refuse(w, r, err)
		return nil
	}
	return renewed
}

// Refuse answers somebody who was not let in, on any route, as RFC 6750 has it.
func Refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := toolyard.AsError(err)
	status, challenge := http.StatusUnauthorized, `Bearer realm="toolyard"`
	switch {
	case e.Code == toolyard.Unavailable:
		w.Header().Set("Retry-After", e.RetrySeconds())
		http.Error(w, e.Message, http.StatusServiceUnavailable)
		return
	case e.Code == toolyard.PermissionDenied:
		status = http.StatusForbidden
		challenge += `, error="insufficient_scope"` + scopeParam(e.Missing)
	case len(r.Header["Authorization"]) > 0:
		challenge += `, error="invalid_token"`
	}
	w.Header().Set("WWW-Authenticate", challenge)
	http.Error(w, e.Message, status)
}

// scopeParam names scopes in a challenge, those that have no place in one left out.
func scopeParam(scopes []string) string {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool {
		return scope == "" || strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
	})
	if len(scopes) == 0 {
		return ""
	}
	return `, scope="` + strings.Join(scopes, " ") + `"`
}

// recover makes a fault of ours one failed request.
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
		http.Error(w, "this version of MCP has only POST", http.StatusMethodNotAllowed)
	case r.Method == http.MethodGet:
		a.getLegacy(w, r)
	case r.Method == http.MethodDelete:
		a.deleteLegacy(w, r)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "MCP has only GET, POST and DELETE", http.StatusMethodNotAllowed)
	}
}

func (a *access) post(w http.ResponseWriter, r *http.Request, modern bool) {
	env, release, ok := a.readBody(w, r)
	defer release()
	if !ok {
		return
	}
	if a = a.renew(w, r); a == nil {
		return
	}
	if modern || strictjson.Member(strictjson.Member(env.params, "_meta"), mcp.MetaKeyProtocolVersion) != nil {
		a.postModern(w, r, &env)
		return
	}
	a.postLegacy(w, r, &env)
}

// smallBody is how many bytes of a body are read before memory for it is taken.
const smallBody = 16 << 10

// readBody reads the body once, strictly. Release gives back the memory that it takes. It
// reports false when it has answered itself.
func (a *access) readBody(w http.ResponseWriter, r *http.Request) (env envelope, release func(), ok bool) {
	limit, release := a.gate.server.opts.MaxBody, func() {}
	if r.ContentLength > limit {
		writeError(w, nil, tooLarge(limit))
		return env, release, false
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead) // what is claimed may never come
	from := http.MaxBytesReader(w, r.Body, limit)
	_, err := body.ReadFrom(io.LimitReader(from, smallBody))
	if err == nil && body.Len() == smallBody {
		if release, err = a.holdBody(r); err != nil {
			refuseBusy(w, err)
			return env, func() {}, false
		}
		_, err = body.ReadFrom(from)
	}
	var wire *jsonrpc.Error
	if err != nil {
		wire = unreadable(err, limit)
	} else {
		// The deadline for the body, which the server set, would end long answers. A body that
		// has not come in keeps it.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		env, wire = parse(body.Bytes())
	}
	if wire != nil {
		writeError(w, env.id, wire)
	}
	return env, release, wire == nil
}

// holdBody takes the memory for a large body.
func (a *access) holdBody(r *http.Request) (release func(), err error) {
	size := r.ContentLength
	if size < 0 {
		size = a.gate.server.opts.MaxBody // it may have so many bytes
	}
	return a.gate.server.bodies.take(a.origin, int(size))
}

func unreadable(err error, limit int64) *jsonrpc.Error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(limit)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body could not be read"}
}

func tooLarge(limit int64) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the body has more than %d bytes", limit), Data: json.RawMessage(`{"error":"SIZE_LIMIT"}`)}
}

// parse takes a message apart. It refuses what two readers could read differently.
func parse(body []byte) (env envelope, _ *jsonrpc.Error) {
	if err := strictjson.Check(body); err != nil {
		return env, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "not strict JSON: " + err.Error()}
	}
	var version, method json.RawMessage
	for key, value := range strictjson.Members(body) {
		switch key {
		case "jsonrpc":
			version = value
		case "id":
			env.id = value
		case "method":
			method = value
		case "params":
			env.params = value
		case "result":
			env.result = value
		case "error":
			env.fault = value
		default:
			if looksLike(key, "jsonrpc", "id", "method", "params", "result", "error") {
				return env, invalid("unknown member %q", key)
			}
		}
	}
	var ok bool
	switch env.method, ok = strictjson.String(method); {
	case string(version) != `"2.0"`:
		return env, invalid(`a message has "jsonrpc": "2.0"`)
	case env.id != nil && !validID(env.id):
		env.id = nil
		return env, invalid("an id is a string or an integer")
	case method != nil && (!ok || env.method == ""), method == nil && env.result == nil && env.fault == nil:
		return env, invalid("a request has a method")
	case env.params != nil && env.params[0] != '{':
		return env, invalid("params is an object")
	}
	return env, nil
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// looksLike reports whether a careless reader would take key for one of the names.
func looksLike(key string, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(key, name) })
}

func validID(id json.RawMessage) bool {
	if id[0] == '"' {
		return true
	}
	return (id[0] == '-' || '0' <= id[0] && id[0] <= '9') && !bytes.ContainsAny(id, ".eE")
}

// writeError answers a request that never became a call.
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
