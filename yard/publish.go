package yard

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/telemetry"
	"github.com/toolyard/toolyard/upstream"
)

// publisher publishes the catalog's tools at the current assembly's gates, and reports problems.
type publisher struct {
	current     atomic.Pointer[assembly]
	catalog     *catalog.Catalog
	server      *mcpserver.Server
	enforcement *enforcement
	secrets     *redactor
	metrics     *telemetry.Metrics
	log         *slog.Logger
	tls         serverTLS

	snapshot atomic.Pointer[httpapi.Snapshot]   // everything that the gates show, for the API
	rejected atomic.Pointer[[]toolyard.Problem] // problems of a rejected configuration; may be nil
	ready    chan struct{}                      // closed when all sources are loaded and published
	started  atomic.Bool                        // whether a connection to every server has been attempted since startup

	mu        sync.Mutex         // held while publishing
	published publication        // guarded by mu
	logged    []toolyard.Problem // guarded by mu
}

// publication identifies what the gates currently show.
type publication struct {
	assembly *assembly
	offered  uint64 // generation of the offer
}

// publish updates the gates' views if the tools or the gates have changed, and reports problems.
func (p *publisher) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.catalog.Now()
	if now := (publication{p.current.Load(), g.Offered}); now != p.published {
		p.server.Publish(now.assembly.Gates, now.assembly.Terms.Apply(p.offerOf(g)), p.isReady() && p.started.Load())
		p.published = now
	}
	problems := p.problems()
	p.updateSnapshot(g, problems)
	p.metrics.Catalog(g.Number, len(g.Tools), len(problems))
	up := make(map[string]bool)
	for id, s := range p.current.Load().upstreams {
		up[id] = s.Up()
	}
	p.metrics.Servers(up)
	p.logProblems(problems)
}

// isReady reports whether all sources are loaded and published.
func (p *publisher) isReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// offer returns everything that gates can choose from, with the terms applied.
func (p *publisher) offer() catalog.Offer {
	return p.current.Load().Terms.Apply(p.offerOf(p.catalog.Now()))
}

// offerOf returns a generation's offer. Before the first generation, it consists of the Go tools.
func (p *publisher) offerOf(g *catalog.Generation) catalog.Offer {
	if g.Number == 0 {
		return catalog.Offer{Tools: p.current.Load().goTools}
	}
	offer := g.Offer
	offer.Generation = g.Number
	return offer
}

// follow publishes each generation of the catalog until ctx ends.
func (p *publisher) follow(ctx context.Context) {
	waiting, announce := p.catalog.Ready(), func() {}
	for {
		g := p.catalog.Now()
		p.publish()
		announce()
		select {
		case <-g.Next():
		case <-waiting: // publish the generation that made the catalog ready, then announce it
			waiting, announce = nil, sync.OnceFunc(func() {
				close(p.ready)
				p.publish() // some problems are reported only once the yard is ready
			})
		case <-ctx.Done():
			return
		}
	}
}

// checkTools checks settings against the offer once all sources are loaded. Before that, a missing
// tool may still appear.
func (p *publisher) checkTools(s *settings.Settings) error {
	if !p.isReady() {
		return nil
	}
	return s.CheckTools(p.offerOf(p.catalog.Now()))
}

// updateSnapshot replaces the snapshot if its contents have changed.
func (p *publisher) updateSnapshot(g *catalog.Generation, problems []toolyard.Problem) {
	next := &httpapi.Snapshot{Generation: g.Number, Problems: problems}
	for _, name := range p.server.Gates() {
		if v, ok := p.server.View(name); ok {
			next.Views = append(next.Views, v)
		}
	}
	slices.SortFunc(next.Views, func(a, b *gates.View) int { return cmp.Compare(a.Gate.Name, b.Gate.Name) })
	old := p.snapshot.Load()
	if old != nil && old.Generation == next.Generation && slices.Equal(old.Views, next.Views) && slices.Equal(old.Problems, next.Problems) {
		return
	}
	next.Tools = p.current.Load().Terms.Apply(p.offerOf(g)).Tools
	p.snapshot.Store(next)
}

// problems returns everything that needs attention. Gates' problems are known only once all sources
// are loaded.
func (p *publisher) problems() []toolyard.Problem {
	a := p.current.Load()
	problems := slices.Concat(a.Overlay.File.Warnings, a.Locate(p.catalog.Now().Problems), p.termProblems(a), p.ruleProblems(a), p.secretProblems(a), p.tls.problems(), p.enforcement.problems(a.Config))
	if rejected := p.rejected.Load(); rejected != nil {
		problems = append(problems, *rejected...)
	}
	if !p.isReady() {
		return problems
	}
	return slices.Concat(problems, p.gateProblems(), p.agentProblems(a))
}

// termProblems returns problems with the tools' terms.
func (p *publisher) termProblems(a *assembly) []toolyard.Problem {
	tools := p.offerOf(p.catalog.Now()).Tools
	problems := a.Terms.Problems(tools)
	if p.isReady() {
		var local []string
		for _, t := range tools {
			if t.Server == "" {
				local = append(local, t.Name)
			}
		}
		problems = append(problems, a.Terms.UnknownTools("", local)...)
	}
	for _, id := range slices.Sorted(maps.Keys(a.upstreams)) {
		if known := a.upstreams[id].DefinitionNames(); len(known) > 0 { // empty until the server has listed its tools
			problems = append(problems, a.Terms.UnknownTools(id, known)...)
		}
	}
	return problems
}

// ruleProblems returns problems with the rules.
func (p *publisher) ruleProblems(a *assembly) []toolyard.Problem {
	if a.Rules == nil {
		return nil
	}
	return a.RuleProblems(p.offer().Tools, p.isReady(), func(server string) []string {
		if s := a.upstreams[server]; s != nil {
			return s.DefinitionNames()
		}
		return nil
	})
}

// gateProblems returns problems with the gates. A problem that several gates share is reported
// once, with all of their names.
func (p *publisher) gateProblems() (problems []toolyard.Problem) {
	seen := make(map[toolyard.Problem]int) // index of a problem, keyed by the problem with its gate removed
	for _, name := range p.server.Gates() {
		v, ok := p.server.View(name)
		if !ok {
			continue
		}
		for _, problem := range v.Problems {
			if problem.Subject != "gate "+name { // the problem concerns a toolset
				problems = append(problems, problem)
				continue
			}
			cause := problem
			cause.Subject = ""
			if i, ok := seen[cause]; ok {
				problems[i].Subject = "gates " + strings.TrimPrefix(strings.TrimPrefix(problems[i].Subject, "gates "), "gate ") + ", " + name
				continue
			}
			seen[cause] = len(problems)
			problems = append(problems, problem)
		}
	}
	return problems
}

// logProblems logs problems that are new or resolved.
func (p *publisher) logProblems(now []toolyard.Problem) {
	for _, problem := range now {
		if !slices.Contains(p.logged, problem) {
			attrs := []slog.Attr{slog.String("problem", problem.String())}
			if problem.File != "" {
				attrs = append(attrs, slog.String("file", problem.File), slog.Int("line", problem.Line))
			}
			if problem.Fix != "" {
				attrs = append(attrs, slog.String("fix", problem.Fix))
			}
			p.log.LogAttrs(context.Background(), slog.LevelWarn, "problem", attrs...)
		}
	}
	for _, problem := range p.logged {
		if !slices.Contains(now, problem) {
			p.log.Info("problem resolved", "problem", problem.String())
		}
	}
	p.logged = now
}

// awaitServers waits until connections to the given servers, or to all servers, have been attempted
// once, and publishes the result.
func (p *publisher) awaitServers(ctx context.Context, ids ...string) {
	for id, s := range p.current.Load().upstreams {
		if len(ids) == 0 || slices.Contains(ids, id) {
			s.AwaitFirstAttempt(ctx)
		}
	}
	p.catalog.Flush()
	p.publish()
}

// missing returns the required servers that are down or have not been published yet.
func (p *publisher) missing() (ids []string) {
	a := p.current.Load()
	for id, s := range a.upstreams {
		if a.Servers[id].Required && (!s.Up() || !p.shows(s)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// shows reports whether all of a server's tools are published.
func (p *publisher) shows(s *upstream.Server) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.catalog.Now()
	known := make(map[*toolyard.Tool]bool, len(g.Tools))
	for _, t := range g.Tools {
		known[t] = true
	}
	return p.published.offered == g.Offered && !slices.ContainsFunc(s.Tools(), func(t *toolyard.Tool) bool { return !known[t] })
}
