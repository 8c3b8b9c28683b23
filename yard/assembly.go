package yard

import (
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/control/live"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/telemetry"
	"github.com/toolyard/toolyard/internal/trust/secret"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/upstream"
)

// assembly holds the settings in effect and everything built from them. It is immutable and is
// replaced as a whole on reload.
type assembly struct {
	*settings.Settings
	path      toolyard.Handler // call path
	providers map[string]toolyard.ContextProvider
	scripts   *script.Folder                 // may be nil
	packs     map[string]*openPack           // keyed by name
	upstreams map[string]*upstream.Server    // keyed by ID
	signIns   map[string]*serverauth.SignIns // stored sign-ins of people, by issuer; only for issuers that a server depends on
	people    map[string]*serverauth.Person  // authorizers for servers that are called on behalf of a person, by server ID
	builtFrom map[string]serverConfig        // configuration of each server, by ID, to check whether it can be reused
	sources   map[string]toolyard.Source     // everything that offers tools, by name
	goTools   []*toolyard.Tool               // Go tools, which are offered before the sources are loaded
	agents    map[string]*builtAgent         // keyed by name
}

// assembler builds assemblies. It reuses the parts of the previous assembly whose configuration has
// not changed.
type assembler struct {
	opts        *Options
	replica     string
	log         *slog.Logger
	pins        *pin.Book
	enforcement *enforcement
	live        *live.Hub
	metrics     *telemetry.Metrics
	tracer      *telemetry.Tracer
	secrets     *redactor
	sealKey     httpapi.SealKey
	packs       *packHost
	code        *codeEngine

	governor    *governor
	connections *connections
	yard        *publisher // runs the agents' tool calls
	access      *access
}

// assemble builds everything that the settings specify. At startup, old is nil.
func (b *assembler) assemble(s *settings.Settings, old *assembly) (a *assembly, err error) {
	a = &assembly{Settings: s}
	a.path = b.callPath(a)
	if a.providers, err = b.newProviders(s.Source, old); err != nil {
		return nil, err
	}
	if err = b.addServers(a, old); err != nil {
		return nil, err
	}
	if old != nil && reflect.DeepEqual(old.Scripts, s.Scripts) && reflect.DeepEqual(old.PrivateNetworks, s.PrivateNetworks) {
		a.scripts = old.scripts
	} else if a.scripts, err = b.newScripts(s.Scripts, s.PrivateNetworks); err != nil {
		return nil, err
	}
	if err = b.addPacks(a, old); err != nil {
		return nil, err
	}
	if err = b.addAgents(a, old); err != nil {
		return nil, err
	}
	b.addSources(a)
	if err = b.code.addTo(a.Gates); err != nil {
		return nil, err
	}
	return a, nil
}

// addPacks opens the packs, which can then lend clients to the gates.
func (b *assembler) addPacks(a, old *assembly) (err error) {
	var before map[string]*openPack
	if old != nil {
		before = old.packs
	}
	vault := b.secrets.vault.Load()
	if a.packs, err = b.packs.open(a.Source, vault, before); err != nil {
		return err
	}
	if err = b.packs.lend(a.Settings, a.packs, before, vault); err != nil {
		b.packs.discard(a.packs, before)
	}
	return err
}

// addSources collects the sources from the program and the configuration. It adds the sample tools
// only if there are no other sources.
func (b *assembler) addSources(a *assembly) {
	a.sources = make(map[string]toolyard.Source)
	maps.Copy(a.sources, b.opts.Sources)
	if a.scripts != nil {
		a.sources["scripts"] = a.scripts
	}
	for id, s := range a.upstreams {
		a.sources["server "+id] = s
	}
	for name := range a.packs {
		a.sources[packSource(name)] = b.packs.slot(name)
	}
	a.goTools = b.opts.Tools
	if len(a.goTools) == 0 && len(a.sources) == 0 {
		a.goTools = b.opts.Command.Samples
	}
	if len(a.goTools) > 0 {
		a.sources["go"] = catalog.Static(a.goTools)
	}
	a.addProviderSources()
	a.addAgentSources(b.enforcement.store)
}

// onlyGoTools reports whether all tools are in Go, so that no source has to be loaded.
func (a *assembly) onlyGoTools() bool {
	_, ok := a.sources["go"]
	return len(a.sources) == 0 || ok && len(a.sources) == 1
}

// sameSources reports whether two assemblies have the same configured sources.
func (a *assembly) sameSources(b *assembly) bool {
	return a.scripts == b.scripts && maps.Equal(a.upstreams, b.upstreams) && maps.Equal(a.packs, b.packs) && maps.EqualFunc(a.providers, b.providers, sameInstance) && maps.Equal(a.agents, b.agents)
}

// callPath returns the steps that every call takes.
func (b *assembler) callPath(a *assembly) toolyard.Handler {
	path := callpath.New(callpath.Config{
		Now: b.opts.Process.Now, Log: b.log,
		Recorders: slices.Concat([]toolyard.Recorder{callpath.Log{Logger: b.log}, b.metrics}, b.enforcement.recorders(), b.opts.Recorders),
		MaxArgs:   int(a.Limits.Args), MaxResult: int(a.Limits.Result), Timeout: time.Duration(a.Limits.Timeout), ToolTimeout: a.ToolTimeout,
		Providers: b.provider(a), Policies: b.opts.Policies,
		Governance: b.governance(a), Admitter: b.enforcement.admission, AdmissionRequest: a.AdmissionRequest,
	})
	return callpath.Chain(path, b.live.Policy(), b.tracer.Policy())
}

// redactor redacts the secrets of the most recent assembly.
type redactor struct {
	vault    atomic.Pointer[secret.Vault]
	checkAll bool // report every unreadable secret, even one that is not in use
}

func (r *redactor) redact(text string) string { return r.vault.Load().Redact(text) }

// resolve reads a secret.
func (r *redactor) resolve(ref string) (string, error) {
	text, err := r.vault.Load().Resolve(ref)
	return text.Reveal(), err
}

// maxLiveResult limits the size of results that are sent to observers of live calls, in bytes.
const maxLiveResult = 16 << 10

// result returns a redacted result for observers of live calls, or nil if it is too large. It omits
// results that request input, because they contain the tool's private state.
func (r *redactor) result(res *toolyard.Result) json.RawMessage {
	if res.InputRequired() || res.Size() > maxLiveResult {
		return nil
	}
	raw, err := res.MarshalJSON()
	if err != nil {
		return nil
	}
	if redacted := json.RawMessage(r.redact(string(raw))); json.Valid(redacted) {
		return redacted
	}
	return nil
}
