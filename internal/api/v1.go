package api

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
	"github.com/toolyard/toolyard/internal/store"
)

// Options say what the API is about. What is nil is not there, and its routes say so.
type Options struct {
	Identify func(*http.Request) (toolyard.Caller, error) // nil lets everyone in as anonymous
	Ledger   toolyard.Ledger
	Calls    Calls
	Links    Links
	Execute  func(context.Context, ExecuteRequest) (*toolyard.Call, *toolyard.Result, error)
	Gates    func() []*toolyard.Gate // in their order
	MaxBody  int64                   // bytes of a body with arguments; 1 MiB when zero
	Log      *slog.Logger            // nil for none
}

// Calls answers questions about the record of calls.
type Calls interface {
	Calls(context.Context, store.CallQuery) ([]*store.CallRow, error)
	Costs(context.Context, store.CostQuery) ([]store.CostRow, error)
	Latencies(context.Context, store.LatencyQuery) ([]store.LatencyRow, error)
}

// prefix is where the API is.
const prefix = "/api/v1"

// requestTime is how long an answer may take that no tool has a part in.
const requestTime = 10 * time.Second

// v1 is the API.
type v1 struct {
	Options
	owners  owners
	queries chan struct{} // has a token for each question to the record that is being answered
}

// route is one thing that can be asked for.
type route struct {
	method, path string
	serve        func(http.ResponseWriter, *http.Request, toolyard.Caller) (*reply, error)
	open         bool // nobody is asked who they are
	long         bool // it takes as long as a tool does; all others end in time
}

// reply is an answer that is no refusal. Without a body it has no content.
type reply struct {
	status   int // 200 when zero
	location string
	body     any
}

// V1 serves the API under /api/v1.
func V1(opts Options) http.Handler {
	a := newV1(opts)
	byPath := make(map[string][]route)
	for _, r := range a.routes() {
		byPath[r.path] = append(byPath[r.path], r)
	}
	mux := http.NewServeMux()
	for path, routes := range byPath {
		mux.Handle(prefix+path, a.handler(routes))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, notFound("There is nothing at this address; %s/openapi.json says what there is.", prefix))
	})
	return mux
}

func newV1(opts Options) *v1 {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Identify == nil {
		opts.Identify = func(*http.Request) (toolyard.Caller, error) { return toolyard.Caller{ID: toolyard.Anonymous}, nil }
	}
	opts.MaxBody = cmp.Or(opts.MaxBody, 1<<20)
	return &v1{Options: opts, queries: make(chan struct{}, maxQueries)}
}

func (a *v1) routes() []route {
	return []route{
		{method: "POST", path: "/sessions", serve: a.openSession},
		{method: "GET", path: "/sessions/{id}", serve: a.getSession},
		{method: "POST", path: "/sessions/{id}/close", serve: a.closeSession},
		{method: "POST", path: "/tools/execute", serve: a.execute, long: true},
		{method: "GET", path: "/account", serve: a.getAccount},
		{method: "GET", path: "/calls", serve: a.getCalls},
		{method: "GET", path: "/costs", serve: a.getCosts},
		{method: "GET", path: "/latencies", serve: a.getLatencies},
		{method: "GET", path: "/links", serve: a.getLinks},
		{method: "GET", path: "/links/{kind}", serve: a.getLink},
		{method: "PUT", path: "/links/{kind}", serve: a.putLink},
		{method: "DELETE", path: "/links/{kind}", serve: a.deleteLink},
		{method: "GET", path: "/openapi.json", serve: getOpenAPI, open: true},
	}
}

// handler serves the methods of one path.
func (a *v1) handler(routes []route) http.Handler {
	var allowed []string
	for _, r := range routes {
		allowed = append(allowed, r.method)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer a.recover(w, r)
		i := slices.Index(allowed, strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1))
		if i < 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			send(w, http.StatusMethodNotAllowed, notFound("This address takes only %s.", strings.Join(allowed, ", ")).Data())
			return
		}
		answer, err := a.serve(w, r, routes[i])
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		a.answer(w, r, answer)
	})
}

// serve finds out who asks, and then the answer.
func (a *v1) serve(w http.ResponseWriter, r *http.Request, route route) (*reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	bounded := r.WithContext(ctx)
	var caller toolyard.Caller
	if !route.open {
		var err error
		if caller, err = a.Identify(bounded); err != nil {
			return nil, unidentified(err)
		}
	}
	if route.long {
		return route.serve(w, r, caller)
	}
	return route.serve(w, bounded, caller)
}

// unidentified is the problem of a caller who cannot be identified. An error that does not
// say what kind it is means that the caller is not known.
func unidentified(err error) error {
	e := toolyard.AsError(err)
	if _, ok := statuses[e.Code]; ok {
		return e
	}
	return &toolyard.Error{Code: toolyard.Unauthenticated, Message: e.Message, Err: err}
}

func (a *v1) answer(w http.ResponseWriter, r *http.Request, answer *reply) {
	if answer.location != "" {
		w.Header().Set("Location", answer.location)
	}
	if answer.body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer.body); err != nil {
		a.refuse(w, r, err)
		return
	}
	send(w, cmp.Or(answer.status, http.StatusOK), b.Bytes())
}

// recover makes a fault of ours one failed request.
func (a *v1) recover(w http.ResponseWriter, r *http.Request) {
	switch p := recover(); p {
	case nil:
	case http.ErrAbortHandler:
		panic(p)
	default:
		a.Log.ErrorContext(r.Context(), "request panicked", "path", r.Pattern, "panic", p, "stack", string(debug.Stack()))
		a.refuse(w, r, toolyard.Errorf(toolyard.Internal, "Something went wrong here."))
	}
}

// accountOf is the account of a caller. Only who is known has one.
func accountOf(c toolyard.Caller) (string, error) {
	switch {
	case !c.Known():
		return "", toolyard.Errorf(toolyard.Unauthenticated, "This needs to know who you are: send an API key.")
	case c.Account == "":
		return "", toolyard.Errorf(toolyard.Denied, "You have no account here.")
	}
	return c.Account, nil
}
