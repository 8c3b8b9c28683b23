package yard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/safefile"
	"github.com/toolyard/toolyard/internal/trust/secret"
	"github.com/toolyard/toolyard/internal/trust/taint"
	"github.com/toolyard/toolyard/script"
)

// builtAgent is an agent and the configuration that it was built from.
type builtAgent struct {
	*agent.Agent
	hooks *script.Hooks // may be nil
	from  agentConfig
}

// agentConfig is the part of a configuration that an agent is built from.
type agentConfig struct {
	config.Agent
	model    config.Model
	mode     toolyard.Mode
	private  []config.Network
	secrets  map[string]config.SecretRef
	stores   map[string]config.SecretStore
	identity string
	scripts  *config.Scripts // limits for hooks
}

// addAgents builds the agents. Agents whose configuration has not changed are reused.
func (b *assembler) addAgents(a, old *assembly) error {
	var faults config.Faults
	a.agents = make(map[string]*builtAgent, len(a.Agents))
	models := make(map[string]*sharedModel)
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		from, problem := b.agentConfig(a, name)
		if problem != nil {
			faults = append(faults, *problem)
			continue
		}
		if old != nil && old.agents[name] != nil && reflect.DeepEqual(old.agents[name].from, from) {
			a.agents[name] = old.agents[name]
			continue
		}
		if models[from.Model] == nil {
			models[from.Model] = b.newModel(from)
		}
		built, err := b.newAgent(name, from, models[from.Model])
		if err != nil {
			faults = append(faults, a.At(toolyard.Problem{Subject: "agents." + name, Message: err.Error()}, "agents", name))
			continue
		}
		a.agents[name] = built
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// agentConfig collects an agent's configuration and checks its references.
func (b *assembler) agentConfig(a *assembly, name string) (agentConfig, *toolyard.Problem) {
	from := agentConfig{Agent: a.Agents[name]}
	fault := func(key, message string) *toolyard.Problem {
		p := a.At(toolyard.Problem{Subject: "agents." + name + "." + key, Message: message}, "agents", name, key)
		return &p
	}
	i := slices.IndexFunc(a.Gates, func(g *gates.Gate) bool { return g.Name == from.Gate })
	if i < 0 {
		var names []string
		for _, g := range a.Gates {
			names = append(names, g.Name)
		}
		return from, fault("gate", fmt.Sprintf("unknown gate %q%s", from.Gate, spelling.DidYouMean(from.Gate, names)))
	}
	from.mode = a.Gates[i].Mode
	configured, ok := a.Models[from.Model]
	if _, own := b.opts.Models[from.Model]; !ok && !own {
		names := slices.Concat(slices.Collect(maps.Keys(a.Models)), slices.Collect(maps.Keys(b.opts.Models)))
		return from, fault("model", fmt.Sprintf("unknown model %q%s", from.Model, spelling.DidYouMean(from.Model, names)))
	}
	from.model, from.private = configured, a.PrivateNetworks
	if configured.Auth != nil {
		from.secrets, from.stores, from.identity = a.Secrets, a.SecretStores, a.AgeIdentity
	}
	if isInstructionsFile(from.Instructions) {
		if _, err := b.readInstructions(from.Instructions); err != nil {
			return from, fault("instructions", err.Error())
		}
	}
	if from.Hooks != "" {
		from.scripts = a.Scripts
		if _, err := os.Stat(b.beside(from.Hooks)); err != nil {
			return from, fault("hooks", "file not found: "+b.beside(from.Hooks))
		}
	}
	return from, nil
}

// maxInstructions limits the size of an instructions file, in bytes.
const maxInstructions = 64 << 10

func isInstructionsFile(text string) bool {
	return !strings.ContainsAny(text, "\n") && (strings.HasSuffix(text, ".md") || strings.HasSuffix(text, ".txt"))
}

func (b *assembler) readInstructions(file string) (string, error) {
	text, err := safefile.Read(b.beside(file), maxInstructions)
	return string(text), err
}

func (b *assembler) newAgent(name string, from agentConfig, m *sharedModel) (*builtAgent, error) {
	built := &builtAgent{from: from}
	l := &from.Limits
	o := agent.Options{
		Name: name, Description: from.Description, Gate: &agentGate{publisher: b.yard, name: from.Gate}, Mode: from.mode,
		Instructions: func() (string, error) { return from.Instructions, nil },
		Model: agent.Model{
			Name: cmp.Or(from.model.Model, from.Model), Model: m, MaxOutput: from.model.MaxOutput,
			InputUSD: usdOf(from.model.USDPerMillion.Input), OutputUSD: usdOf(from.model.USDPerMillion.Output),
			CachedUSD: usdOf(cmp.Or(from.model.USDPerMillion.Cached, from.model.USDPerMillion.Input)),
		},
		Delegate: b.delegates(from.Delegates),
		Limits: agent.Limits{
			Calls: l.Calls, Turns: l.Turns, Time: l.Time.Std(), InputTokens: l.InputTokens, OutputTokens: l.OutputTokens, USD: usdOf(l.USD), Parallel: l.Parallel,
		},
		Redact: b.secrets.redact, Now: b.opts.Process.Now, Log: b.log,
	}
	if isInstructionsFile(from.Instructions) {
		o.Instructions = func() (string, error) { return b.readInstructions(from.Instructions) }
	}
	if from.QueryUSD != nil {
		o.Price = toolyard.Price(*from.QueryUSD)
	}
	if s := b.enforcement.store; s != nil {
		o.Store = queryStore{s}
	}
	if from.Hooks != "" {
		var err error
		if built.hooks, err = b.newHooks(name, &from); err != nil {
			return nil, err
		}
		o.Hooks = built.hooks
	}
	var err error
	built.Agent, err = agent.New(o)
	return built, err
}

func usdOf(p *config.Price) toolyard.Money {
	if p == nil {
		return 0
	}
	return p.USD
}

// newHooks returns an agent's hooks. They have the same limits as TypeScript tools.
func (b *assembler) newHooks(name string, from *agentConfig) (*script.Hooks, error) {
	limits := from.scripts
	if limits == nil {
		limits = &config.Scripts{}
	}
	return script.NewHooks(name, b.beside(from.Hooks), script.Options{
		Base: filepath.Dir(b.opts.ConfigFile), Grants: map[string]script.Grant{"*": grantOf(from.Grants)}, Private: config.Prefixes(from.private),
		Memory: int(limits.Memory), CPU: limits.CPU.Std(), Workers: limits.Workers, CacheDir: b.opts.Scripts.Cache,
		Log: b.log, Getenv: b.opts.Process.Getenv,
	})
}

// delegates returns a lookup of the agents that an agent may delegate to.
func (b *assembler) delegates(names []string) func(string) *agent.Agent {
	return func(name string) *agent.Agent {
		if built := b.yard.current.Load().agents[name]; built != nil && slices.Contains(names, name) {
			return built.Agent
		}
		return nil
	}
}

// agentProblems reports agents that could send private data to strangers, considering all agents
// that their queries can reach. If a single gate already allows this, the gate's own problem covers
// it.
func (p *publisher) agentProblems(a *assembly) (problems []toolyard.Problem) {
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		v, ok := p.server.View(a.Agents[name].Gate)
		paths := a.AgentPaths(name)
		if !ok || v.Gate.Taint.AcceptTrifecta || len(paths) == 1 {
			continue
		}
		var tools []*toolyard.Tool
		by := make(map[*toolyard.Tool][]string)
		for i, path := range paths {
			if v, ok = p.server.View(a.Agents[path[len(path)-1]].Gate); !ok {
				continue
			}
			for _, t := range v.Tools {
				if by[t.Tool] == nil {
					by[t.Tool], tools = path, append(tools, t.Tool)
				}
			}
			if found := taint.RuleOfTwo(tools); found != nil {
				if i > 0 {
					problems = append(problems, a.At(reachProblem(name, a.Agents[name].Gate, found, by), "agents", name))
				}
				break
			}
		}
	}
	return problems
}

func reachProblem(name, gate string, found map[string]*toolyard.Tool, by map[*toolyard.Tool][]string) toolyard.Problem {
	var last []string // the longest path so far
	with := func(label string) string {
		t := found[label]
		path := by[t]
		if len(path) > len(last) {
			last = path
		}
		shown := strings.TrimPrefix(t.Server+"/"+t.Name, "/")
		if len(path) == 1 {
			return shown
		}
		return shown + " through " + strings.Join(path, " → ")
	}
	return toolyard.Problem{
		Subject: "agents." + name,
		Message: fmt.Sprintf("together with the agents it can reach, the agent can read private data (%s) and untrusted text (%s), and send data out (%s); once it has read both, calls that send data out require approval",
			with(taint.Private), with(taint.Untrusted), with(taint.Egress)),
		Fix: fmt.Sprintf("Remove one of the agents in %s from delegates or from a gate's agents, exclude the tools that have one of these labels, correct the labels, or set accept: trifecta on gate %s.", strings.Join(last, " → "), gate),
	}
}

// addAgentSources adds the agents, and their hooks' files, to the catalog's sources.
func (a *assembly) addAgentSources(s *store.Store) {
	for name, built := range a.agents {
		a.sources["agent "+name] = built
		if built.hooks != nil {
			a.sources["hooks of agent "+name] = built.hooks
		}
	}
	if len(a.agents) > 0 && s != nil {
		a.sources["evidence"] = evidenceSource(s)
	}
}

// sharedModel is a model that agents share. It is opened on the first turn, because its API key may
// not exist earlier, and reopened when the key changes.
type sharedModel struct {
	key   func() (secret.Text, error)
	open  func(key secret.Text) (model.Model, error)
	slots chan struct{}

	mu     sync.Mutex
	opened model.Model
	with   secret.Text // key of the open model
}

func (b *assembler) newModel(from agentConfig) *sharedModel {
	if own, ok := b.opts.Models[from.Model]; ok && from.model.API == "" {
		return &sharedModel{opened: own, slots: make(chan struct{}, defaultTurns)}
	}
	m := &sharedModel{slots: make(chan struct{}, from.model.Concurrency), key: func() (secret.Text, error) { return secret.Text{}, nil }}
	if auth := from.model.Auth; auth != nil {
		m.key = func() (secret.Text, error) { return b.secrets.vault.Load().Resolve(auth.SecretRef) }
	}
	m.open = func(key secret.Text) (model.Model, error) {
		return model.New(model.Options{
			API: model.API(from.model.API), URL: from.model.URL, Model: from.model.Model, MaxOutput: from.model.MaxOutput, MaxTokensField: from.model.MaxTokensField,
			Connections: from.model.Concurrency, Private: from.model.Private, Networks: config.Prefixes(from.private), Key: key.Reveal(),
		})
	}
	return m
}

// defaultTurns limits the concurrent turns of a model that the embedding program provides.
const defaultTurns = 64

// Turn implements [model.Model].
func (m *sharedModel) Turn(ctx context.Context, r *model.Request, on func(model.Event)) (*model.Turn, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	client, err := m.client()
	if err != nil {
		return nil, &model.Error{Kind: model.Rejected, Message: err.Error()}
	}
	return client.Turn(ctx, r, on)
}

func (m *sharedModel) client() (_ model.Model, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key == nil { // the embedding program provides this model
		return m.opened, nil
	}
	key, err := m.key()
	if err != nil {
		return nil, err
	}
	if m.opened != nil && key.Reveal() == m.with.Reveal() {
		return m.opened, nil
	}
	opened, err := m.open(key)
	if err != nil {
		return nil, err
	}
	m.opened, m.with = opened, key
	return opened, nil
}

// agentGate is the gate whose tools an agent uses.
type agentGate struct {
	*publisher
	name string
	last atomic.Pointer[viewOffer]
}

// viewOffer is the offer for one view. Queries share it.
type viewOffer struct {
	view *gates.View
	agent.Offer
}

// Offer implements [agent.Gate].
func (g *agentGate) Offer() (*agent.Offer, error) {
	menu, err := g.server.Menu(g.name)
	if err != nil {
		return nil, err
	}
	if last := g.last.Load(); last != nil && last.view == menu.View {
		return &last.Offer, nil
	}
	o := &viewOffer{view: menu.View, Offer: agent.Offer{Tools: agentTools(menu.View.Tools), Show: menu.View.Gate.Show}}
	if o.Listed = o.Tools; !menu.View.Gate.ListsAll() {
		o.Listed = agentTools(menu.View.Pinned)
	}
	for _, d := range offer.Definitions(menu.View.Gate) {
		o.MetaTools = append(o.MetaTools, model.Function{Name: d.Name, Description: d.Description, Parameters: d.InputSchema})
	}
	o.Resolve = func(name string, args json.RawMessage, scope agent.Scope) (agent.Target, error) {
		return g.resolve(menu, name, args, scope)
	}
	g.last.Store(o)
	return &o.Offer, nil
}

func agentTools(named []gates.NamedTool) []agent.Tool {
	list := make([]agent.Tool, len(named))
	for i, t := range named {
		list[i] = agent.Tool{Name: t.Name, Description: t.Description + t.Note, Tool: t.Tool}
	}
	return list
}

// resolve resolves a model's request like an MCP client's request at the gate, except that
// read_result reads the query's own results.
func (g *agentGate) resolve(menu *offer.Menu, name string, args json.RawMessage, scope agent.Scope) (agent.Target, error) {
	own := *menu
	own.Results = queryResults(scope.Result)
	found, refused := own.Resolve(name, args, offer.Requester{Caller: scope.Caller, Allows: scope.Allows})
	target := agent.Target{Tool: agent.Tool{Name: found.Name, Tool: found.Tool}, Args: found.Args, Answer: found.Answer, Code: found.Tool != nil && found.Tool == menu.View.Gate.Code}
	if refused != nil {
		return target, refused
	}
	if found.Tool != nil && !target.Code {
		target.Hint = func() string { return g.server.Hint(found.Name, found.Tool) }
	}
	return target, nil
}

// queryResults returns a query's results by evidence number.
type queryResults func(id string) (text string, ok bool)

// PutResult implements [offer.Results]. The query stores its results itself.
func (queryResults) PutResult(context.Context, string, string, string, string, time.Time, time.Time) error {
	return errors.ErrUnsupported
}

// ReadResult implements [offer.Results].
func (q queryResults) ReadResult(_ context.Context, id, _, _ string, offset, limit int, _ time.Time) (piece string, size int, found bool, err error) {
	text, ok := q(id)
	start := min(offset, len(text))
	return text[start:min(start+limit, len(text))], len(text), ok, nil
}

// Call implements [agent.Gate].
func (g *agentGate) Call(ctx context.Context, c *toolyard.Call, name string, args json.RawMessage) (string, *toolyard.Result, error) {
	if c.Depth+1 >= maxDepth {
		return "", nil, toolyard.Errorf(toolyard.PermissionDenied, "Calls are nested more than %d levels deep.", maxDepth)
	}
	outcome, err := g.server.CallInteractive(ctx, &serve.CallRequest{
		Gate: g.name, Tool: name, Args: args, Caller: c.Caller, Request: toolyard.Request{Trace: c.Trace}, Log: c.Log, Parent: c,
	})
	id := ""
	if outcome.Call != nil {
		id = outcome.Call.ID
	}
	if err == nil && outcome.InputRequired != nil {
		err = &toolyard.Error{Code: toolyard.MissingCapability, Message: "The tool requires user input, but an agent cannot answer questions.", Missing: []string{"elicitation"}}
	}
	return id, outcome.Result, err
}

// CallerClock implements [agent.Gate].
func (g *agentGate) CallerClock() bool {
	v, ok := g.server.View(g.name)
	return ok && v.Gate.CallerClock
}

// queryTime returns the maximum duration of an agent's query.
func (p *publisher) queryTime(agent string) time.Duration {
	return p.current.Load().Agents[agent].Limits.Time.Std()
}

// queryStore stores queries.
type queryStore struct{ *store.Store }

// SaveQuery implements [agent.Store].
func (s queryStore) SaveQuery(ctx context.Context, r *agent.Run) error {
	body, err := json.Marshal(httpapi.QueryRecord{
		Answer: r.Answer, Gate: r.Gate, Text: r.Text, Shape: r.Shape, Error: r.Code, DurationMS: r.End.Sub(r.Start).Milliseconds(), Until: r.Until, Turns: r.Turns, Spans: r.Spans,
	})
	if err != nil {
		return err
	}
	return s.Store.SaveQuery(ctx, &store.QueryRow{
		ID: r.Query, Agent: r.Agent, Account: r.Account, Caller: r.Caller, At: r.Start, Outcome: string(r.Outcome), Model: r.Model, Tools: r.Tools, Body: body, Evidence: r.Bodies,
	})
}

// staticOffer is a source whose offer never changes.
type staticOffer toolyard.Offer

// Run implements [toolyard.Source].
func (o *staticOffer) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	publish(toolyard.Offer(*o))
	<-ctx.Done()
	return nil
}

// evidenceSource offers a query's evidence as resources to the account that made the query.
func evidenceSource(s *store.Store) toolyard.Source {
	reader, err := toolyard.NewTool(toolyard.Spec{Name: "evidence", Origin: "agents", Effects: toolyard.ReadOnly}, func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		var args struct{ URI string }
		_ = json.Unmarshal(c.Args, &args) // cannot fail: the platform created them
		path := strings.TrimPrefix(args.URI, "toolyard://evidence/")
		query, id, _ := strings.Cut(path, "/")
		body, err := s.Evidence(ctx, cmp.Or(c.Caller.Account, c.Caller.ID), query, id)
		if err != nil {
			return nil, err
		}
		contents, err := json.Marshal(map[string]any{"contents": []any{map[string]any{"uri": args.URI, "mimeType": "text/plain", "text": body}}})
		if err != nil {
			return nil, err
		}
		res := &toolyard.Result{}
		return res, res.UnmarshalJSON(contents)
	})
	if err != nil {
		panic(err) // the Spec above is constant
	}
	return &staticOffer{Resources: []*toolyard.Resource{{
		URI: agent.EvidenceURI("{query}", "{id}"), Template: true, Reader: reader,
		Definition: json.RawMessage(`{"uriTemplate":"toolyard://evidence/{query}/{id}","name":"evidence","title":"Query evidence","description":"The full result of a call that an agent made, for the account that made the query.","mimeType":"text/plain"}`),
	}}}
}
