// Package yard assembles a running Toolyard: sources, catalog, call path, gates and the HTTP
// endpoints. Use it to serve tools from any Go program:
//
//	type args struct {
//		Name string `json:"name"`
//	}
//	hello := toolyard.Define(toolyard.Spec{Name: "hello", Description: "Greets a person."},
//		func(_ context.Context, _ *toolyard.Call, in args) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//	y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{hello}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	go y.Run(ctx)
//	http.Handle("/", y.Handler())
//
// Options.ConfigFile is the path of a configuration file with more sources, gates and limits; see
// [Yard.Reload] and [Yard.WatchConfig] for changes while the yard runs.
package yard

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/control"
	"github.com/toolyard/toolyard/internal/control/live"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/record"
	"github.com/toolyard/toolyard/internal/telemetry"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/upstream"
)

// Yard is a running set of tools with the gates that offer them. Its methods may be called concurrently.
type Yard struct {
	*publisher // the current assembly, and the gates' published views

	opts        Options
	replica     string // ID of this process among the replicas
	loader      *settings.Loader
	assembler   *assembler
	access      *access
	control     *control.Control
	live        *live.Hub
	tracer      *telemetry.Tracer
	auditLog    *telemetry.AuditLog
	pins        *pin.Book // approved definitions
	pinsInStore bool
	handler     http.Handler
	reloading   sync.Mutex // held during Reload
}

// New returns a yard. It fails if the configuration is invalid.
func New(opts Options) (*Yard, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	return open(opts, settings.NewLoader(opts.loader()))
}

// CheckConfig validates a configuration's text as far as possible without starting anything or
// opening its store. Options.ConfigFile is the file that the text comes from.
func CheckConfig(opts Options, text []byte) error {
	if err := opts.complete(); err != nil {
		return err
	}
	o := opts.loader()
	o.Text = text
	if o.Text == nil {
		o.Text = []byte{}
	}
	y, err := open(opts, settings.NewLoader(o))
	if err != nil {
		return err
	}
	return y.close(context.Background())
}

// open builds a yard from the configuration that the loader reads. The yard owns the loader.
func open(opts Options, loader *settings.Loader) (*Yard, error) {
	source, err := loader.Read()
	if err != nil {
		return nil, errors.Join(err, loader.Close())
	}
	log := opts.Log
	if opts.Command.OpenLog != nil {
		if log, err = opts.Command.OpenLog(source.Log.Level, source.Log.Format, source.Log.File); err != nil {
			return nil, errors.Join(fmt.Errorf("log: %w", err), loader.Close())
		}
	}
	tracer, err := telemetry.NewTracer(context.Background(), source.Name, opts.Process.Version, opts.Process.Getenv)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("traces: %w", err), loader.Close())
	}
	auditLog, err := telemetry.NewAuditLog(context.Background(), source.Name, opts.Process.Version, opts.Process.Getenv)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), tracer.Close(context.Background()), loader.Close())
	}
	y := &Yard{opts: opts, replica: rand.Text(), loader: loader, tracer: tracer, auditLog: auditLog, publisher: &publisher{log: log, metrics: telemetry.NewMetrics(), ready: make(chan struct{})}}
	if err := y.assemble(source); err != nil {
		return nil, errors.Join(err, tracer.Close(context.Background()), auditLog.Close(context.Background()), loader.Close())
	}
	return y, nil
}

// assemble opens the store and builds all parts. It does not start them; see Run.
func (y *Yard) assemble(source *config.Source) error {
	s, err := y.loader.OpenStore(source)
	if err != nil {
		return err
	}
	secrets := &redactor{checkAll: y.opts.Command.CheckSecrets}
	y.secrets = secrets
	args := record.Arguments{Keep: record.Keep(source.Record.Arguments), Redact: secrets.redact}
	y.enforcement = newEnforcement(&y.opts, y.replica, source, s, args, y.metrics, y.log)
	conns := &connections{yard: y.publisher, store: s, vault: secrets.vault.Load, opts: &y.opts, name: source.Name, log: y.log}
	y.access = &access{
		program: y.opts.Identify, operator: y.opts.Command.OperatorToken, verifier: y.enforcement.verifier,
		blocked: newBlocklist(s, y.opts.Process.Now), sightings: newSightings(s, y.opts.Process.Now, y.log), signIns: conns.signIns,
	}
	y.pinsInStore = pinsInStore(y.loader, source)
	if y.pins, err = openPins(y.opts.ConfigFile, y.pinsInStore, s, y.log); err != nil {
		return err
	}
	y.live = newLive(&y.opts, s, args, secrets)
	sealKey := newSealKey(s, y.log)
	y.assembler = &assembler{
		opts: &y.opts, replica: y.replica, log: y.log, pins: y.pins, enforcement: y.enforcement,
		live: y.live, metrics: y.metrics, tracer: y.tracer, secrets: secrets, sealKey: sealKey,
		packs: newPackHost(&y.opts, y.log, newJournal(s), y.loader.Partial()), governor: y.newGovernor(s, sealKey), yard: y.publisher, access: y.access,
		connections: conns,
		code: &codeEngine{opts: script.CodeOptions{
			Call: (&toolbox{y.publisher}).callFromCode, Durable: s != nil, CacheDir: y.opts.Scripts.Cache, Log: y.log,
		}},
	}
	checked, err := y.loader.Load(source, nil)
	if err != nil {
		return err
	}
	a, err := y.assembler.assemble(checked, nil)
	if err != nil {
		return err
	}
	if a.onlyGoTools() { // no source will add tools later
		if err := a.CheckTools(catalog.Offer{Tools: a.goTools}); err != nil {
			y.assembler.packs.close(a.packs)
			return err
		}
	}
	y.serve(source, a, s, sealKey)
	return nil
}

// serve creates the front ends for the first assembly and publishes it.
func (y *Yard) serve(source *config.Source, a *assembly, s *store.Store, sealKey httpapi.SealKey) {
	y.catalog = catalog.New(a.sources, catalog.Options{Log: y.log, OnEvent: func(e catalog.Event) {
		y.log.Info("tool", "event", e.Kind, "tool", e.Tool.Name, "source", e.Source)
	}})
	y.server = mcpserver.New(mcpserver.Options{
		Name: source.Name, Version: y.opts.Process.Version, Clients: y.opts.Clients, Log: y.log, Now: y.opts.Process.Now,
		MaxBody: int64(source.Limits.Body), Authorize: y.access.authorizeRequest, MetadataURL: y.access.metadataURL, Toolbox: &toolbox{y.publisher}, Down: y.Down, Yard: y.replica,
		MaxStreams: source.Limits.Streams, Results: y.enforcement.results(),
		Replicas: mcpserver.ReplicaOptions{
			ID: y.replica, Bus: y.enforcement.bus(), Keys: sealKey, Tokens: y.enforcement.tokens(),
		},
		Call: func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			return y.current.Load().path(ctx, c)
		},
	})
	var operators httpapi.Approvals
	if o := y.assembler.governor.operators; o != nil {
		operators = o
	}
	y.control = control.New(controlled{y}, control.Options{
		Approvals: operators,
		Version:   y.opts.Process.Version, Replica: y.replica, Started: y.opts.Process.Now(), Arguments: y.opts.Command.LiveArguments,
		Keys: y.enforcement.verifier != nil && y.opts.Identify == nil, Store: s, Loader: y.loader,
		Admission: y.enforcement.admission, MCP: y.server, Now: y.opts.Process.Now,
	})
	y.apply(a)
	y.handler = y.routes(source, sealKey)
}

// close releases everything that New opened.
func (y *Yard) close(ctx context.Context) error {
	y.server.Close()
	y.live.Close()
	closeProviders(y.current.Load().providers, nil)
	y.assembler.packs.close(y.current.Load().packs)
	y.assembler.code.close()
	return errors.Join(y.enforcement.close(), y.loader.Close(), y.tracer.Close(ctx), y.auditLog.Close(ctx))
}

// newLive returns the hub for live calls. It sends results only if arguments are sent in full.
func newLive(opts *Options, s *store.Store, args record.Arguments, secrets *redactor) *live.Hub {
	if opts.Command.LiveArguments != "" {
		args.Keep = record.Keep(opts.Command.LiveArguments)
	}
	o := live.Options{
		Now: opts.Process.Now, Row: func(c *toolyard.Call, o toolyard.Outcome) *store.CallRow { return record.Row(c, o, args) },
	}
	if args.Keep == record.Full {
		o.Result = secrets.result
	}
	if s != nil && s.Kind() == "postgres" {
		o.Others = func(ctx context.Context, since time.Time) ([]*store.CallRow, error) {
			return s.Calls(ctx, store.CallQuery{Ended: since})
		}
	}
	return live.New(o)
}

// controlled adapts a Yard to [control.Yard].
type controlled struct{ *Yard }

func (c controlled) State() control.State {
	a := c.current.Load()
	return control.State{Settings: a.Settings, Upstreams: a.upstreams}
}

func (c controlled) Snapshot() *httpapi.Snapshot { return c.snapshot.Load() }

func (c controlled) Offer() catalog.Offer { return c.offer() }

func (c controlled) StoreUp() bool { return !c.enforcement.storeDown.Load() }

func (c controlled) CheckTools(s *settings.Settings) error {
	if err := c.assembler.packs.lend(s, c.current.Load().packs, nil, c.assembler.secrets.vault.Load()); err != nil {
		return err
	}
	return c.checkTools(s)
}

func (c controlled) Limits(ctx context.Context, keys []string) (map[string]ledger.LimitUsage, error) {
	return c.enforcement.limits(ctx, keys)
}

func (c controlled) SpendLimits(ctx context.Context, periods map[string]ledger.Period) (map[string]ledger.SpendUsage, error) {
	return c.enforcement.spendLimits(ctx, periods)
}

func (c controlled) Identify(r *http.Request) (toolyard.Caller, error) { return c.access.identify(r) }

func (c controlled) Authorize(caller toolyard.Caller, g *gates.Gate) error {
	return c.access.authorize(caller, g)
}

// Close closes a yard on which Run was not called.
func (y *Yard) Close() error { return y.close(context.Background()) }

// Run loads the sources and keeps everything current until ctx ends, then closes the yard.
func (y *Yard) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { y.catalog.Run(ctx) })
	wg.Go(func() { y.follow(ctx) })
	wg.Go(func() { y.awaitStart(ctx) })
	wg.Go(func() { y.followStore(ctx) })
	wg.Go(func() { y.followSecrets(ctx) })
	wg.Go(func() { y.live.Run(ctx) })
	wg.Go(func() { y.enforcement.run(ctx, y.log) })
	wg.Go(func() { y.access.sightings.run(ctx) })
	wg.Wait()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := y.close(flush); err != nil {
		y.log.Warn("could not close the yard cleanly; traces may be lost", "error", err)
	}
}

// startTimeout limits the wait for the first connection attempt to all servers.
const startTimeout = 2 * time.Minute

// awaitStart waits until a connection to every server has been attempted once. From then on, names
// and URIs belong to the server that had them first. Before that, the order is a matter of chance:
// it depends on which server connects first, and on whether approved tools are offered before their
// server is connected.
func (y *Yard) awaitStart(ctx context.Context) {
	waiting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-y.ready: // before this, there may be nothing to publish
		y.awaitServers(waiting)
	case <-waiting.Done():
	}
	y.started.Store(true)
}

// AwaitServers waits until connections to the given servers, or to all servers, have been attempted
// once, and publishes their tools. It returns early if ctx ends.
func (y *Yard) AwaitServers(ctx context.Context, servers ...string) { y.awaitServers(ctx, servers...) }

// Ready returns a channel that is closed once all sources are loaded and their tools are served.
func (y *Yard) Ready() <-chan struct{} { return y.ready }

// Check returns an error if a gate refers to a tool that does not exist. It returns nil before the
// yard is ready.
func (y *Yard) Check() error { return y.checkTools(y.current.Load().Settings) }

// Problems returns everything that needs attention.
func (y *Yard) Problems() []toolyard.Problem { return y.problems() }

// Gates returns the names of the gates.
func (y *Yard) Gates() []string { return y.server.Gates() }

// Tools returns all tools in the catalog, whether or not a gate shows them.
func (y *Yard) Tools() []*toolyard.Tool { return y.offer().Tools }

// Servers returns the configured MCP servers, by ID.
func (y *Yard) Servers() map[string]*upstream.Server { return maps.Clone(y.current.Load().upstreams) }

// Down returns the sorted IDs of the servers that are not connected.
func (y *Yard) Down() []string { return y.control.Down() }

// Listen returns the configured listen address.
func (y *Yard) Listen() string { return y.current.Load().Listen }

// Scheme returns https if Serve serves HTTPS, and http otherwise.
func (y *Yard) Scheme() string {
	if _, ok := tlsFiles(y.current.Load(), &y.opts); ok {
		return "https"
	}
	return "http"
}

// CheckAddress checks an address to listen on against the configuration: outside loopback,
// unauthenticated callers are accepted only with anonymous: true.
func (y *Yard) CheckAddress(address string) error {
	a := y.current.Load()
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("%s: expected host:port", address)
	case config.IsLoopback(host), a.Anonymous, settings.Openness(a.Gates) == 0:
		return nil
	}
	return fmt.Errorf("%s is reachable from other machines, and a gate accepts unauthenticated callers; listen on 127.0.0.1, set callers: keys on every gate, or set anonymous: true", address)
}

// Call calls a tool at a gate. The call takes the same path as every other call.
func (y *Yard) Call(ctx context.Context, gate string, caller toolyard.Caller, tool string, args json.RawMessage) (*toolyard.Result, error) {
	return y.server.Call(ctx, &serve.CallRequest{Gate: y.control.GateName(gate), Tool: tool, Args: args, Caller: caller})
}

// CallAsOf is like Call, with an as-of time. The gate must let its callers set it (clock: caller),
// and it must not be in the future.
func (y *Yard) CallAsOf(ctx context.Context, asOf time.Time, gate string, caller toolyard.Caller, tool string, args json.RawMessage) (*toolyard.Result, error) {
	return y.server.Call(ctx, &serve.CallRequest{Gate: y.control.GateName(gate), Tool: tool, Args: args, Caller: caller, AsOf: asOf.Format(time.RFC3339Nano)})
}

// Ask answers a tool's questions. It returns an object with an MCP elicitation result for each key,
// such as {"name":{"action":"accept","content":{"name":"Ann"}}}.
type Ask func(context.Context, []toolyard.Question) (json.RawMessage, error)

// maxRounds limits how many times one call may ask questions.
const maxRounds = 8

// CallAsking is like Call, for callers that can answer the tool's questions.
func (y *Yard) CallAsking(ctx context.Context, gate string, caller toolyard.Caller, tool string, args json.RawMessage, ask Ask) (*toolyard.Result, error) {
	r := &serve.CallRequest{Gate: y.control.GateName(gate), Tool: tool, Args: args, Caller: caller, Request: toolyard.Request{ClientCapabilities: serve.Elicitation}}
	for range maxRounds {
		outcome, err := y.server.CallInteractive(ctx, r)
		if err != nil || outcome.InputRequired == nil {
			return outcome.Result, err
		}
		var questions []toolyard.Question
		for _, key := range slices.Sorted(maps.Keys(outcome.InputRequired.Questions)) {
			questions = append(questions, outcome.InputRequired.Questions[key])
		}
		if r.InputResponses, err = ask(ctx, questions); err != nil {
			return nil, err
		}
		r.RequestState = outcome.InputRequired.State
	}
	return nil, toolyard.Errorf(toolyard.Failed, "%s was stopped after requesting input %d times.", tool, maxRounds)
}

// ServeStdio serves MCP over a pair of streams until in or ctx ends.
func (y *Yard) ServeStdio(ctx context.Context, gate string, in io.Reader, out io.Writer) error {
	return y.server.ServeStdio(ctx, y.control.GateName(gate), in, out)
}
