package mcpserve

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
	"github.com/toolyard/toolyard/internal/guard"
)

// modernVersion is the first version of the modern era, and the only one so far.
const modernVersion = "2026-07-28"

// firstRead is how much memory a body gets before it has come in.
const firstRead = 4 << 10

// envelope is a JSON-RPC message, taken apart but not decoded.
type envelope struct {
	id     json.RawMessage // the client's own bytes; nil for a notification
	method string
	params json.RawMessage
	body   []byte
}

// Handler serves the gate that gateOf names for a request.
func (s *Server) Handler(gateOf func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w)
		if g, caller := s.enter(w, r, gateOf(r)); g != nil {
			g.serveHTTP(w, r, caller)
		}
	})
}

// enter finds the gate and asks who comes. It returns nil when it has answered itself.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, gateName string) (*gate, toolyard.Caller) {
	g, ok := (*s.gates.Load())[gateName]
	if !ok {
		http.Error(w, fmt.Sprintf("there is no gate %q; gates are at /mcp/{gate}", gateName), http.StatusNotFound)
		return nil, toolyard.Caller{}
	}
	caller, err := s.opts.Admit(r, g.view.Load().Gate)
	if err != nil {
		Refuse(w, r, err)
		return nil, toolyard.Caller{}
	}
	// A deadline for the whole answer would end long calls; each write has its own.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return g, caller
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
	case e.Code == toolyard.Denied:
		status = http.StatusForbidden
		challenge += `, error="insufficient_scope"` + scopeParam(e.Needs)
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

// SSEHandler serves the gate over the HTTP+SSE transport of 2024-11-05.
func (s *Server) SSEHandler(gateOf func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w)
		g, caller := s.enter(w, r, gateOf(r))
		switch {
		case g == nil:
		case r.Method == http.MethodPost:
			if r = g.strictLegacy(w, r); r != nil {
				g.legacy.postSSE(w, r, caller)
			}
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", "GET, POST")
			http.Error(w, "this transport has only GET and POST", http.StatusMethodNotAllowed)
		case g.legacy.full():
			tooManySessions(w)
		default:
			g.legacy.openSSE(w, r, caller)
		}
	})
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

func (g *gate) serveHTTP(w http.ResponseWriter, r *http.Request, caller toolyard.Caller) {
	modern := r.Header.Get("Mcp-Protocol-Version") >= modernVersion
	if r.Method != http.MethodPost {
		if modern {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "this version of MCP has only POST", http.StatusMethodNotAllowed)
			return
		}
		g.legacy.pass(w, r.Clone(r.Context()), caller)
		return
	}
	env, wire := g.readBody(w, r)
	if wire != nil {
		writeError(w, env.id, wire)
		return
	}
	if !modern && guard.Member(guard.Member(env.params, "_meta"), mcp.MetaKeyProtocolVersion) == nil {
		g.legacy.serve(w, r, env, caller)
		return
	}
	g.serveModern(w, r, env, caller)
}

// readBody takes in the body once, strictly.
func (g *gate) readBody(w http.ResponseWriter, r *http.Request) (env envelope, _ *jsonrpc.Error) {
	limit := g.server.opts.MaxBody
	if r.ContentLength > limit {
		return env, tooLarge(limit)
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead) // what is claimed may never come
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return env, tooLarge(limit)
		}
		return env, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body could not be read"}
	}
	// The deadline for the body, which the server set, would end long answers. A body that
	// has not come in keeps it.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return parse(body.Bytes())
}

func tooLarge(limit int64) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the body has more than %d bytes", limit), Data: json.RawMessage(`{"error":"SIZE_LIMIT"}`)}
}

// parse takes a message apart. It refuses what two readers could read differently.
func parse(body []byte) (env envelope, _ *jsonrpc.Error) {
	if err := guard.CheckJSON(body); err != nil {
		return env, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "not strict JSON: " + err.Error()}
	}
	env.body = body
	var version, method, reply json.RawMessage
	for key, value := range guard.Members(body) {
		switch key {
		case "jsonrpc":
			version = value
		case "id":
			env.id = value
		case "method":
			method = value
		case "params":
			env.params = value
		case "result", "error":
			reply = value
		default:
			if looksLike(key, "jsonrpc", "id", "method", "params", "result", "error") {
				return env, invalid("unknown member %q", key)
			}
		}
	}
	var ok bool
	switch env.method, ok = guard.String(method); {
	case string(version) != `"2.0"`:
		return env, invalid(`a message has "jsonrpc": "2.0"`)
	case env.id != nil && !validID(env.id):
		env.id = nil
		return env, invalid("an id is a string or an integer")
	case method != nil && (!ok || env.method == ""), method == nil && reply == nil:
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

// strictLegacy reads the body as the modern era does, and hands on a request with the
// same body for the SDK. It returns nil when it has answered itself.
func (g *gate) strictLegacy(w http.ResponseWriter, r *http.Request) *http.Request {
	env, wire := g.readBody(w, r)
	if wire != nil {
		writeError(w, env.id, wire)
		return nil
	}
	return withBody(r, g.server.mask.hide(env.body))
}

func withBody(r *http.Request, body []byte) *http.Request {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return r
}

// writeError answers a request that never became a call.
func writeError(w http.ResponseWriter, id json.RawMessage, e *jsonrpc.Error) {
	status := statusOf(e)
	if status == http.StatusOK {
		status = http.StatusBadRequest
	}
	if bytes.Contains(e.Data, []byte(toolyard.TooLarge)) {
		status = http.StatusRequestEntityTooLarge
	}
	newReply(w, nil).finish(status, appendResponse(nil, id, nil, e))
}
