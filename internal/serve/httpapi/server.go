// Package httpapi serves the HTTP API next to MCP: calls, the call record, the catalog, accounts
// and sessions, and the administration of a yard.
//
// Each resource has a handler type, with its routes and its request and response bodies in one
// file. The routes of all handlers form one table, which dispatches requests and from which the
// OpenAPI document is generated.
package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// Options configures the API. Routes whose data source is nil respond with NOT_FOUND.
type Options struct {
	Identify    func(*http.Request) (toolyard.Caller, error) // nil accepts every request as anonymous
	Seal        func() SealKey                               // returns the key for cookies, called before the first is set; nil for a new key
	Yard        Yard
	Ledger      ledger.Ledger
	Balances    Balances
	Calls       Calls
	Links       LinkOptions
	Connections Connections // may be nil
	Keys        Keys
	People      PeopleOptions
	Changes     Changes // nil keeps the latest changes in memory
	Queries     QueryOptions
	Live        Live
	Execute     func(context.Context, *serve.CallRequest) (serve.CallOutcome, error)
	Gates       func() []*gates.Gate // in the order of the configuration
	MaxBody     int64                // maximum bytes of a body with arguments; 1 MiB if zero
	Now         func() time.Time     // nil for time.Now
	Log         *slog.Logger         // may be nil
}

// LinkOptions configures linked accounts.
type LinkOptions struct {
	Store Links                            // may be nil
	Check func(kind, address string) error // returns an error for an invalid or empty address
}

// Calls queries the call record.
type Calls interface {
	Call(ctx context.Context, id string) (*store.CallRow, error)
	Calls(context.Context, store.CallQuery) ([]*store.CallRow, error)
	Costs(context.Context, store.CostQuery) ([]store.CostRow, error)
	Latencies(context.Context, store.LatencyQuery) ([]store.LatencyRow, error)
	Traffic(ctx context.Context, since, until time.Time) ([]store.TrafficRow, error)
}

// prefix is the path prefix of the API.
const prefix = "/api/v1"

// requestTime limits requests that do not run a tool.
const requestTime = 10 * time.Second

// server dispatches requests: it authorizes and audits them, calls the route's handler, and encodes
// the response.
type server struct {
	auth  *authenticator
	audit *auditor
	log   *slog.Logger
}

// request is an authorized request.
type request struct {
	*http.Request
	w      http.ResponseWriter
	caller toolyard.Caller
	params params
}

// reply is a successful response. If it has no body, the status is 204 No Content.
type reply struct {
	status   int // 200 if zero
	location string
	body     any
	subject  string // subject of the audited change, if the path does not contain it
	settled  bool   // the ledger records and limits the change, so it does not count against ownChanges
	audited  int    // status in the audit log, if different
}

// respond returns a reply with a body, or the error.
func respond(body any, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	return &reply{body: body}, nil
}

// V1 serves the API under /api/v1.
func V1(opts Options) http.Handler {
	s, routes := newServer(opts)
	byPath := make(map[string][]route)
	for _, r := range routes {
		byPath[r.path] = append(byPath[r.path], r)
	}
	mux := http.NewServeMux()
	for path, routes := range byPath {
		mux.Handle(prefix+path, s.handler(routes))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, notFound("Unknown path. See %s/openapi.json for the available paths.", prefix))
	})
	return mux
}

// newServer creates the dispatcher and the route table.
func newServer(opts Options) (*server, []route) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Changes == nil {
		opts.Changes = &memoryChanges{}
	}
	opts.MaxBody = cmp.Or(opts.MaxBody, 1<<20)
	s := &server{auth: newAuthenticator(opts), audit: newAuditor(opts), log: opts.Log}
	return s, newRoutes(opts, s.auth)
}

// handler serves the methods of one path.
func (s *server) handler(routes []route) http.Handler {
	var allowed []string
	for _, r := range routes {
		allowed = append(allowed, r.method)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recover(w, r)
		i := slices.Index(allowed, strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1))
		if i < 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			sendProblem(w, http.StatusMethodNotAllowed, notFound("Method not allowed. Use %s.", strings.Join(allowed, ", ")))
			return
		}
		reply, err := s.serve(w, r, &routes[i])
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.send(w, r, reply)
	})
}

// serve authorizes a request and runs its route's handler.
func (s *server) serve(w http.ResponseWriter, r *http.Request, route *route) (*reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	req := &request{Request: r.WithContext(ctx), w: w}
	var err error
	if req.caller, err = s.auth.authorize(req.Request, route.access); err != nil {
		return nil, s.audit.refused(req, route, err)
	}
	if req.params, err = readParams(r.URL.RawQuery, route.query); err != nil {
		return nil, err
	}
	if route.long {
		req.Request = r
	}
	if route.action != "" && req.caller.Authenticated() { // handlers refuse unauthenticated callers
		return s.audit.audited(req, route)
	}
	return route.serve(req)
}

func (s *server) send(w http.ResponseWriter, r *http.Request, reply *reply) {
	if reply == nil { // the handler has already streamed its response
		return
	}
	if reply.location != "" {
		w.Header().Set("Location", reply.location)
	}
	if reply.body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(reply.body); err != nil {
		s.refuse(w, r, err)
		return
	}
	send(w, cmp.Or(reply.status, http.StatusOK), "application/json", b.Bytes())
}

// refuse writes a problem document, and logs the cause if it is internal.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := problemOf(err)
	status := statusOf(e)
	if status >= http.StatusInternalServerError && e.Err != nil && e.Code != toolyard.Canceled {
		s.log.ErrorContext(r.Context(), "request failed", "path", r.Pattern, "error", e.Err)
	}
	switch e.Code {
	case toolyard.Unauthenticated:
		w.Header().Set("WWW-Authenticate", `Bearer realm="toolyard"`)
	case toolyard.RateLimited, toolyard.Unavailable, toolyard.InProgress:
		w.Header().Set("Retry-After", e.RetrySeconds())
	}
	sendProblem(w, status, e)
}

// recover turns a panic into an error, so that only the request fails.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		s.log.ErrorContext(r.Context(), "request panicked", "path", r.Pattern, "panic", p, "stack", string(debug.Stack()))
		s.refuse(w, r, errInternal)
	}
}

var errInternal = toolyard.Errorf(toolyard.Internal, "Internal error.")

// orEmpty returns a non-nil list, which is encoded as an array.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
