package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// Options say what the API is about. What is nil is not there, and its routes say so.
type Options struct {
	Identify  func(*http.Request) (toolyard.Caller, error) // nil lets everyone in as anonymous
	Yard      Yard
	Ledger    ledger.Ledger
	Purses    Purses
	Calls     Calls
	Links     Links
	CheckLink func(kind, address string) error // nil accepts every address
	Keys      Keys
	Changes   Changes // nil keeps the last ones in memory
	Live      Live
	Execute   func(context.Context, *serve.CallRequest) (serve.CallOutcome, error)
	Gates     func() []*gates.Gate // in their order
	Seal      func() SealKey       // what cookies are sealed with, asked for when the first one is; nil for a new one
	MaxBody   int64                // bytes of a body with arguments; 1 MiB when zero
	Now       func() time.Time     // nil for time.Now
	Log       *slog.Logger         // nil for none
}

// Calls answers questions about the record of calls.
type Calls interface {
	Call(ctx context.Context, id string) (*store.CallRow, error)
	Calls(context.Context, store.CallQuery) ([]*store.CallRow, error)
	Costs(context.Context, store.CostQuery) ([]store.CostRow, error)
	Latencies(context.Context, store.LatencyQuery) ([]store.LatencyRow, error)
	Traffic(ctx context.Context, since, until time.Time) ([]store.TrafficRow, error)
}

// prefix is where the API is.
const prefix = "/api/v1"

// requestTime is how long an answer may take that no tool has a part in.
const requestTime = 10 * time.Second

// v1 is the API.
type v1 struct {
	Options
	owners  owners
	shelves shelves
	queries chan struct{} // has a token for each question to the record that is being answered
	streams streams
	seal    func() seal.Sealer

	refusals, ownChanges quota
}

// request is somebody's request, once it is known who asks and that the route is for them.
type request struct {
	*http.Request
	w      http.ResponseWriter
	caller toolyard.Caller
	params params
}

// reply is an answer that is no refusal. Without a body it has no content.
type reply struct {
	status   int // 200 when zero
	location string
	body     any
	subject  string // what a change was about, if the address does not say
	paid     bool   // it changed what the ledger keeps and bounds, so it does not count as an own change
}

// done is an answer with a body, or a refusal.
func done(body any, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	return &reply{body: body}, nil
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
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Changes == nil {
		opts.Changes = &recent{}
	}
	if opts.Seal == nil {
		opts.Seal = NewSealKey
	}
	opts.MaxBody = cmp.Or(opts.MaxBody, 1<<20)
	return &v1{
		Options: opts, seal: sync.OnceValue(func() seal.Sealer { return newSeal(opts.Seal()) }), queries: make(chan struct{}, maxQueries),
		refusals: quota{most: maxRefusals, window: refusalTime}, ownChanges: quota{most: maxOwnChanges, window: ownChangesTime},
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
			sendProblem(w, http.StatusMethodNotAllowed, notFound("This address takes only %s.", strings.Join(allowed, ", ")))
			return
		}
		answer, err := a.serve(w, r, &routes[i])
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		a.answer(w, r, answer)
	})
}

// serve finds out who asks, whether they may, and then the answer.
func (a *v1) serve(w http.ResponseWriter, r *http.Request, route *route) (*reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	asked := &request{Request: r.WithContext(ctx), w: w}
	var err error
	if asked.caller, err = a.admit(asked.Request, route.access); err != nil {
		return nil, a.refused(asked, route, err)
	}
	if asked.params, err = readParams(r.URL.RawQuery, route.query); err != nil {
		return nil, err
	}
	if route.long {
		asked.Request = r
	}
	if route.action != "" && asked.caller.Authenticated() { // strangers leave nothing behind, and get nowhere
		return a.audited(asked, route, route.serve)
	}
	return route.serve(asked)
}

// admit finds out who asks, and whether a route is for them.
func (a *v1) admit(r *http.Request, needs access) (toolyard.Caller, error) {
	if needs == open {
		return toolyard.Caller{}, nil
	}
	caller, err := a.identify(r)
	if err == nil {
		err = needs.check(caller)
	}
	if errors.Is(err, errUnknown) && a.keepsNoKeys() {
		err = errNoStore
	}
	return caller, err
}

// keepsNoKeys reports whether no API key can be good here.
func (a *v1) keepsNoKeys() bool {
	if a.Yard == nil {
		return false
	}
	about := a.Yard.About()
	return !about.Keys && about.Store == "none"
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
	if answer == nil { // a stream, which is over
		return
	}
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
	send(w, cmp.Or(answer.status, http.StatusOK), "application/json", b.Bytes())
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

// orEmpty is a list that is written as one also when it is empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// accountOf is the account of a caller. Only who is known has one.
func accountOf(c toolyard.Caller) (string, error) {
	switch {
	case !c.Authenticated():
		return "", errUnknown
	case c.Account == "":
		return "", toolyard.Errorf(toolyard.PermissionDenied, "You have no account here.")
	}
	return c.Account, nil
}

var (
	errUnknown = toolyard.Errorf(toolyard.Unauthenticated, "This needs to know who you are: send an API key.")
	errNoStore = toolyard.Errorf(toolyard.Unauthenticated, "This yard keeps no API keys, because its configuration names no store. Add store: sqlite:toolyard.db to it, restart it and create a key, or open the console by the link that was printed at the start.")
)
