// Package yard puts Toolyard together: sources, catalog, call path, gates and the
// addresses they are served at. Embed it to serve tools from any Go program:
//
//	y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{hello}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	go y.Run(ctx)
//	http.Handle("/", y.Handler())
package yard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control/live"
	"github.com/toolyard/toolyard/internal/serve/console"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/telemetry"
	"github.com/toolyard/toolyard/internal/trust/secret"
)

// Options say what a yard is made of. The zero value is a yard without tools.
type Options struct {
	Tools         []*toolyard.Tool                    // tools written in Go
	Sources       map[string]toolyard.Source          // where more tools come from, by a name for each
	Clients       *toolyard.Clients                   // lent to tools
	Providers     map[string]toolyard.ContextProvider // context that tools require, by kind
	ProviderKinds map[string]ProviderKind             // further kinds of context, which the configuration enables
	Scripts       Scripts                             // a folder of TypeScript tools
	Samples       []*toolyard.Tool                    // served by a yard that has no other tools

	ConfigFile string          // empty for none
	Store      string          // the store to use instead of the configured one; without a file the configuration is there, and followed
	Gates      []toolyard.Gate // gates beside those of the file, which win by name
	Recorders  []toolyard.Recorder
	AskFirst   bool                 // approve nothing that a server offers by itself, not even the first time
	Notes      toolyard.SourceNotes // for gates that do not say which they want
	Watch      string               // how much of arguments those are shown who watch calls: off, shape or full; empty for as much as is kept

	// Identify says who sends a request over HTTP; an error refuses it. Callers with the role
	// viewer see what concerns others in the API and the console, those with the role operator
	// change it. Nil knows callers by API keys, if there is a store, and all others as anonymous.
	Identify func(*http.Request) (toolyard.Caller, error)

	// Operator is a token that lets whoever holds it operate this yard, for the time that it
	// runs: how a person gets into the console of a yard that has no API keys. Empty for none.
	Operator string

	Version string           // shown to clients
	Log     *slog.Logger     // nil for none
	NewLog  NewLog           // instead of Log, for one as the configuration wants it
	Now     func() time.Time // nil for time.Now
	Getenv  func(string) (string, bool)

	dry  bool   // nothing is opened that others see
	text []byte // of a dry one, what the configuration file says
}

// NewLog makes a log from what the configuration says of it.
type NewLog func(level, format, file string) (*slog.Logger, error)

// DefaultGate is the name of the gate at /mcp.
const DefaultGate = config.DefaultGate

// Yard is a running set of tools and the gates to them.
type Yard struct {
	// Fixed at creation.
	opts    Options
	id      string // which yard this is
	log     *slog.Logger
	catalog *catalog.Catalog
	server  *mcpserver.Server
	metrics *telemetry.Metrics
	tracer  *telemetry.Tracer
	handler http.Handler

	live  *live.Hub
	begun time.Time

	// Swapped on every reload.
	config atomic.Pointer[settings]

	shown    atomic.Pointer[httpapi.Snapshot] // what the gates show, for people
	listings atomic.Pointer[listings]         // the same by server

	refused  atomic.Pointer[[]toolyard.Problem] // of a configuration that is not used; nil for none
	book     *pin.Book                          // the approved definitions
	sharing  bool                               // the book is in the store
	loaded   atomic.Int64                       // the version of the configuration in the store that was read last
	vault    atomic.Pointer[secret.Vault]       // of the last settings
	contract *contract                          // what enforces what tools declare
	found    *store.Store                       // where the configuration was, until the contract has it
	seal     func() httpapi.SealKey             // see sealKey
	keyed    atomic.Bool                        // a gate takes keys, or has taken them since the start

	publishing sync.Mutex         // one Publish at a time
	problems   []toolyard.Problem // that were logged; under publishing
	published  published          // under publishing too
	reloading  sync.Mutex         // one Reload at a time
	ready      chan struct{}
	settled    atomic.Bool // the servers of the start were tried once
}

// New makes a yard. It fails when the configuration cannot be used.
func New(opts Options) (*Yard, error) {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Getenv == nil {
		opts.Getenv = os.LookupEnv //nolint:forbidigo // the edge, for programs that embed
	}
	for _, name := range []string{"go", "scripts"} {
		if opts.Sources[name] != nil {
			return nil, fmt.Errorf("a source cannot be called %s: that is one of the yard's own", name)
		}
	}
	y := &Yard{opts: opts, id: rand.Text(), log: opts.Log, metrics: telemetry.NewMetrics(), ready: make(chan struct{}), begun: opts.Now()}
	source, err := y.prepare()
	if err != nil {
		return nil, errors.Join(err, y.release())
	}
	s, err := y.start(source)
	if err != nil {
		return nil, errors.Join(err, y.release())
	}
	y.seal = sync.OnceValue(y.sealKey)
	y.catalog = catalog.New(y.sources(s), catalog.Options{Log: y.log, OnEvent: y.logEvent})
	y.server = mcpserver.New(mcpserver.Options{
		Name: source.Name, Version: opts.Version, Clients: opts.Clients, Log: y.log, Now: opts.Now,
		MaxBody: int64(source.Limits.Body), Admit: y.admit, Toolbox: &toolbox{y}, Down: y.Down, Yard: y.id,
		StateKey: func() []byte { key := y.seal(); return key[:] }, Tokens: y.contract.tokens(),
		Fleet: y.contract.fleet(), Replica: y.id, MaxStreams: source.Limits.Streams,
		Call: func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			return y.config.Load().path(ctx, c)
		},
	})
	if len(opts.Sources) == 0 && s.scripts == nil && len(s.servers) == 0 { // nothing more will come, so what is asked for must be here
		if err := s.check(y.offerOf(y.catalog.Now())); err != nil {
			return nil, errors.Join(err, y.release())
		}
	}
	y.apply(s)
	y.handler = y.routes(source)
	return y, nil
}

// prepare reads the configuration, and makes the log and the traces that it asks for.
func (y *Yard) prepare() (*config.Source, error) {
	source, err := y.load()
	if err != nil {
		return nil, err
	}
	if y.opts.NewLog != nil {
		if y.log, err = y.opts.NewLog(source.Log.Level, source.Log.Format, source.Log.File); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	if y.tracer, err = telemetry.NewTracer(context.Background(), source.Name, y.opts.Version, y.opts.Getenv); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return source, nil
}

// start reads what was approved and makes the first settings.
func (y *Yard) start(source *config.Source) (*settings, error) {
	if err := y.openContract(source); err != nil {
		return nil, err
	}
	if err := y.openBook(source); err != nil {
		return nil, err
	}
	y.live = y.newLive(source)
	return y.edited(source, nil)
}

// sources are all that the options and the settings name.
func (y *Yard) sources(s *settings) map[string]toolyard.Source {
	sources := maps.Clone(y.opts.Sources)
	if sources == nil {
		sources = make(map[string]toolyard.Source)
	}
	if s.scripts != nil {
		sources["scripts"] = s.scripts
	}
	for id, s := range s.servers {
		sources["server "+id] = s.Server
	}
	if tools := y.goTools(len(sources) > 0); len(tools) > 0 {
		sources["go"] = toolyard.Static(tools)
	}
	return sources
}

// goTools are the tools in Go, or samples if there is nothing else.
func (y *Yard) goTools(others bool) []*toolyard.Tool {
	if len(y.opts.Tools) == 0 && !others {
		return y.opts.Samples
	}
	return y.opts.Tools
}

func (y *Yard) logEvent(e catalog.Event) {
	y.log.Info("tool", "event", e.Kind, "tool", e.Tool.Name, "source", e.Source)
}

// callPath is the line that every call takes.
func (y *Yard) callPath(s *settings) toolyard.Handler {
	c := s.Config
	recorders := slices.Concat([]toolyard.Recorder{callpath.Log{Logger: y.log}, y.metrics}, y.contract.recorders(), y.opts.Recorders)
	path := callpath.Path(y.opts.Now, toolyard.Run,
		callpath.At("record", callpath.Record(y.opts.Now, recorders...)),
		callpath.At("recover", callpath.Recover()),
		callpath.At("cap", callpath.Cap(int(c.Limits.Args), 0)),
		callpath.At("inject", callpath.Inject(y.provider(s))),
		callpath.At("validate", callpath.Validate(time.Duration(c.Limits.Timeout))),
		callpath.At("admit", callpath.Admit(y.opts.Now, y.contract.desk, s.asks)),
		callpath.At("bound", callpath.Cap(0, int(c.Limits.Result))), // what is too large has failed, and is not charged
		callpath.At("intend", callpath.Intend(recorders...)),
		callpath.At(toolyard.StepRun, callpath.Deadline(time.Duration(c.Limits.Timeout))),
	)
	return toolyard.Chain(path, y.live.Policy(), y.tracer.Policy())
}

// apply makes the settings those that are served.
func (y *Yard) apply(s *settings) {
	y.config.Store(s)
	if slices.ContainsFunc(s.gates, func(g *toolyard.Gate) bool { return g.RequireAuth }) {
		y.keyed.Store(true)
	}
	y.publish()
}

// published is what the gates show: settings, and an offer by its generation.
type published struct {
	settings *settings
	offered  uint64
}

// publish shows the newest tools at the newest gates, if either is another than before.
func (y *Yard) publish() {
	y.publishing.Lock()
	defer y.publishing.Unlock()
	g := y.catalog.Now()
	if now := (published{y.config.Load(), g.Offered}); now != y.published {
		y.server.Publish(now.settings.gates, now.settings.terms.apply(y.offerOf(g)), y.isReady() && y.settled.Load())
		y.published = now
	}
	problems := y.Problems()
	y.show(g, problems)
	y.metrics.Catalog(g.Number, len(g.Tools), len(problems))
	y.metrics.Servers(y.ups())
	y.logProblems(problems)
}

// isReady reports whether all sources have spoken.
func (y *Yard) isReady() bool {
	select {
	case <-y.ready:
		return true
	default:
		return false
	}
}

// logProblems logs what is new among the problems, and what is mended.
func (y *Yard) logProblems(now []toolyard.Problem) {
	for _, p := range now {
		if !slices.Contains(y.problems, p) {
			attrs := []slog.Attr{slog.String("problem", p.String())}
			if p.File != "" {
				attrs = append(attrs, slog.String("file", p.File), slog.Int("line", p.Line))
			}
			if p.Fix != "" {
				attrs = append(attrs, slog.String("fix", p.Fix))
			}
			y.log.LogAttrs(context.Background(), slog.LevelWarn, "problem", attrs...)
		}
	}
	for _, p := range y.problems {
		if !slices.Contains(now, p) {
			y.log.Info("problem is gone", "problem", p.String())
		}
	}
	y.problems = now
}

// offer is what the gates choose from: all that the sources offer, under the terms.
func (y *Yard) offer() toolyard.Offer { return y.config.Load().terms.apply(y.offerOf(y.catalog.Now())) }

// offerOf is the offer of the catalog, or before its first generation the tools in Go.
func (y *Yard) offerOf(g *catalog.Generation) toolyard.Offer {
	if g.Number > 0 {
		offer := g.Offer
		offer.Generation = g.Number
		return offer
	}
	tools := y.goTools(len(y.opts.Sources) > 0 || y.config.Load() != nil && (y.config.Load().scripts != nil || len(y.config.Load().servers) > 0))
	return toolyard.Offer{Tools: tools}
}

// Run keeps the catalog current until ctx ends.
func (y *Yard) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { y.catalog.Run(ctx) })
	wg.Go(func() { y.follow(ctx) })
	wg.Go(func() { y.settleStart(ctx) })
	wg.Go(func() { y.followStore(ctx) })
	wg.Go(func() { y.live.Run(ctx) })
	wg.Go(func() { y.contract.run(ctx, y.log) })
	wg.Wait()
	y.server.Close()
	y.live.Close()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := y.tracer.Close(flush); err != nil {
		y.log.Warn("traces were lost", "error", err)
	}
}

// follow publishes each generation of the catalog.
func (y *Yard) follow(ctx context.Context) {
	waiting, announce := y.catalog.Ready(), func() {}
	for {
		g := y.catalog.Now()
		y.publish()
		announce()
		select {
		case <-g.Next():
		case <-waiting: // what made the catalog ready is published first
			waiting, announce = nil, sync.OnceFunc(func() {
				close(y.ready)
				y.publish() // some problems can be told only now
			})
		case <-ctx.Done():
			return
		}
	}
}

// startTime bounds how long the servers of the start are waited for.
const startTime = 2 * time.Minute

// settleStart lets names and addresses be kept against newcomers once all servers were tried.
// Before that nobody was there first: which of two servers connects earlier is chance, and
// approved tools are offered before their server is connected.
func (y *Yard) settleStart(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case <-y.ready: // before that there may be nothing to publish yet
		y.Settle(waiting)
	case <-waiting.Done():
	}
	y.settled.Store(true)
}

// Ready is closed when all sources have said what they offer and it is served.
func (y *Yard) Ready() <-chan struct{} { return y.ready }

// Check reports what the gates ask for by name and cannot have. It has nothing to say
// before the yard is ready.
func (y *Yard) Check() error { return y.checkWhenReady(y.config.Load()) }

// Problems are all things that need attention. What gates lack is known only when all sources
// have loaded.
func (y *Yard) Problems() []toolyard.Problem {
	problems := slices.Concat(y.config.Load().located(y.catalog.Now().Problems), y.termProblems(), y.contract.problems(y.config.Load().Config))
	if refused := y.refused.Load(); refused != nil {
		problems = append(problems, *refused...)
	}
	if !y.isReady() {
		return problems
	}
	return append(problems, y.gateProblems()...)
}

// gateProblems are the problems of the gates. One that several gates have in the same words is
// reported once, with all of them.
func (y *Yard) gateProblems() (problems []toolyard.Problem) {
	found := make(map[toolyard.Problem]int) // by the problem without its gate
	for _, name := range y.server.Gates() {
		v, ok := y.server.View(name)
		if !ok {
			continue
		}
		for _, p := range v.Problems {
			if p.Subject != "gate "+name { // it is about a toolset
				problems = append(problems, p)
				continue
			}
			cause := p
			cause.Subject = ""
			if i, known := found[cause]; known {
				problems[i].Subject = "gates " + strings.TrimPrefix(strings.TrimPrefix(problems[i].Subject, "gates "), "gate ") + ", " + name
				continue
			}
			found[cause] = len(problems)
			problems = append(problems, p)
		}
	}
	return problems
}

// View is what a gate shows; the empty name is the gate at /mcp.
func (y *Yard) View(gate string) (*toolyard.View, bool) { return y.server.View(y.gateName(gate)) }

// Gates are the names of the gates.
func (y *Yard) Gates() []string { return y.server.Gates() }

// gateName resolves the empty name: the default gate, or the only one.
func (y *Yard) gateName(name string) string {
	if name != "" {
		return name
	}
	if gates := y.server.Gates(); len(gates) == 1 {
		return gates[0]
	}
	return DefaultGate
}

// Call calls a tool at a gate as the caller, on the same path as every other call.
func (y *Yard) Call(ctx context.Context, gate string, caller toolyard.Caller, tool string, args json.RawMessage) (*toolyard.Result, error) {
	return y.server.Call(ctx, y.gateName(gate), &mcpserver.Request{Tool: tool, Args: args, Caller: caller})
}

// Question is what a tool asks a person before it goes on: a form to fill in, or a page to open.
type Question struct {
	Key     string // of its answer
	Message string
	Schema  json.RawMessage // of the form: a flat object; nil for a page
	URL     string          // of the page; empty for a form
}

// Ask puts questions to a person. It returns an object with an MCP elicitation result for each
// key, such as {"action":"accept","content":{"name":"Ann"}}.
type Ask func(context.Context, []Question) (json.RawMessage, error)

// maxRounds is how often one call may ask questions.
const maxRounds = 8

// CallAsking calls a tool like Call, for a caller who can answer questions.
func (y *Yard) CallAsking(ctx context.Context, gate string, caller toolyard.Caller, tool string, args json.RawMessage, ask Ask) (*toolyard.Result, error) {
	r := &mcpserver.Request{Tool: tool, Args: args, Caller: caller, Features: mcpserver.Answerable}
	for range maxRounds {
		reply, err := y.server.Do(ctx, y.gateName(gate), r)
		if err != nil || reply.Asks == nil {
			return reply.Result, err
		}
		var questions []Question
		for _, key := range slices.Sorted(maps.Keys(reply.Asks.Questions)) {
			q := reply.Asks.Questions[key]
			questions = append(questions, Question{key, q.Message, q.Schema, q.URL})
		}
		if r.Answers, err = ask(ctx, questions); err != nil {
			return nil, err
		}
		r.State = reply.Asks.State
	}
	return nil, toolyard.Errorf(toolyard.Failed, "%s asked %d times and was stopped.", tool, maxRounds)
}

// ServeStdio speaks MCP over a pair of streams until in ends or ctx does.
func (y *Yard) ServeStdio(ctx context.Context, gate string, in io.Reader, out io.Writer) error {
	return y.server.ServeStdio(ctx, y.gateName(gate), in, out)
}

// Listen is the address that the configuration names.
func (y *Yard) Listen() string { return y.config.Load().Listen }

// Open reports whether some gate asks nobody who they are.
func (y *Yard) Open() bool { return openness(y.config.Load().gates) > 0 }

// Anonymous reports whether the configuration lets anyone in.
func (y *Yard) Anonymous() bool { return y.config.Load().Anonymous }

func texts[T ~string](list []T) (out []string) {
	for _, t := range list {
		out = append(out, string(t))
	}
	return out
}

// Handler serves everything over HTTP: /mcp, /mcp/{gate}, /api, /console, /v0.1,
// /healthz, /readyz and, unless they have an address of their own, /metrics.
func (y *Yard) Handler() http.Handler { return y.handler }

func (y *Yard) routes(c *config.Source) http.Handler {
	gate := func(r *http.Request) string { return y.gateName(r.PathValue("gate")) }
	mux := http.NewServeMux()
	mux.Handle("/mcp", y.server.Handler(gate))
	mux.Handle("/mcp/{gate}", y.server.Handler(gate))
	if c.SSE {
		mux.Handle("/sse", y.server.SSEHandler(gate))
		mux.Handle("/sse/{gate}", y.server.SSEHandler(gate))
	}
	mux.Handle("GET /api/tools/catalog", y.guarded(httpapi.Catalog(y.View, y.Down)))
	mux.Handle("/api/v1/", y.apiV1(c))
	pages := console.Handler()
	mux.Handle(console.Prefix, pages)
	mux.Handle(console.Prefix+"/", pages)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Prefix+"/", http.StatusFound))
	mux.Handle("/v0.1/", y.registry())
	if c.Metrics.Listen == "" {
		mux.Handle("GET /metrics", y.measured(y.metrics.Handler()))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !y.isReady() {
			http.Error(w, "sources are starting", http.StatusServiceUnavailable)
			return
		}
		if down := y.missing(); len(down) > 0 {
			http.Error(w, "servers are down: "+strings.Join(down, ", "), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return bounded(c, mux)
}
