package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/callpath/rules"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// Settings is a validated configuration and the domain objects created from it. It is immutable.
type Settings struct {
	*config.Source // includes the overlay
	Overlay        Overlay
	Gates          []*gates.Gate
	Terms          *Terms
	Rules          *rules.Set // may be nil

	fileGates []*gates.Gate // gates without the overlay
	loader    *Loader
}

// Overlay contains the changes that operators made through the API, on top of the file.
type Overlay struct {
	File    *config.Source // the configuration without the overlay
	Edits   *config.Edits
	Version int64 // zero if nothing was ever changed
}

// replaces reports whether the overlay replaces a toolset in the file.
func (o *Overlay) replaces(toolset string) bool {
	if o.Edits == nil {
		return false
	}
	_, ok := o.Edits.Toolsets[toolset]
	return ok
}

func (l *Loader) settings(source *config.Source, o Overlay, old *Settings) (*Settings, error) {
	provides := func(kind string) bool {
		_, configured := source.Context[kind]
		return configured || slices.Contains(l.opts.Providers, kind)
	}
	s := &Settings{
		Source: source, Overlay: o, Gates: l.gates(source.Config), Terms: newTerms(source, old, l.opts.ProviderKinds, provides),
		fileGates: l.gates(o.File.Config), loader: l,
	}
	var err error
	if s.Rules, err = newRules(source.Config); err != nil {
		return nil, err
	}
	return s, cmp.Or(s.checkServers(), s.checkRules())
}

// agentsAt returns the agents that use a gate's tools.
func agentsAt(c *config.Config, gate string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if c.Agents[name].Gate == gate {
			list = append(list, name)
		}
	}
	return list
}

// gates returns the gates of the program and of the configuration. If there are none, it returns
// one gate for all tools.
func (l *Loader) gates(c *config.Config) []*gates.Gate {
	byName := make(map[string]*gates.Gate)
	for _, g := range l.opts.Gates {
		g.Yard = c.Name
		byName[g.Name] = &g
	}
	for name, g := range c.Gates {
		gate := &gates.Gate{Name: name, Mode: g.Mode, Surface: g.Surface, Naming: g.Naming, Errors: g.Errors, SourceNotes: cmp.Or(g.SourceNotes, l.opts.SourceNotes), RequireAuth: g.RequiresAuth(), Tokens: gates.Tokens{Issuers: c.GateIssuers(&g), Only: g.Callers == config.AccessTokens}, CallerClock: g.Clock == config.CallerClock, Yard: c.Name, Presentation: presentation(g.Presentation)}
		gate.Agents, gate.Taint = g.Agents, gates.TaintOptions{Agents: agentsAt(c, name), AcceptTrifecta: g.Accept == "trifecta"}
		if set, ok := c.Toolsets[g.Toolset]; ok {
			gate.Toolset = set.Set(g.Toolset)
		}
		byName[name] = gate
	}
	if len(byName) == 0 {
		return []*gates.Gate{{Name: config.DefaultGate, Mode: toolyard.Write, SourceNotes: l.opts.SourceNotes, Yard: c.Name}}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *gates.Gate) int { return cmp.Compare(a.Name, b.Name) })
}

// presentation applies the defaults to a gate's presentation.
func presentation(c config.Presentation) gates.Presentation {
	p := gates.Presentation{Offer: c.Offer, Pinned: c.Pinned, Show: int(c.Show)}
	if p.Show == 0 && !p.ListsAll() {
		p.Show = gates.DefaultShow
	}
	return p
}

// checkServers finds toolsets in the file that refer to unknown servers. A toolset in the overlay
// was checked when it was edited; anything that has disappeared since then is reported as a problem
// with its gates.
func (s *Settings) checkServers() error {
	known := slices.Concat(slices.Collect(maps.Keys(s.Servers)), s.loader.opts.Sources)
	var faults config.Faults
	for _, name := range slices.Sorted(maps.Keys(s.Toolsets)) {
		if s.Overlay.replaces(name) {
			continue
		}
		for i, pick := range s.Toolsets[name].Servers {
			if slices.Contains(known, pick.ID) {
				continue
			}
			p := toolyard.Problem{Subject: "toolsets." + name, Message: fmt.Sprintf("unknown server %q", pick.ID), Fix: cmp.Or(spelling.Fix(pick.ID, known), "Add it under servers.")}
			faults = append(faults, s.At(p, "toolsets", name, "servers", fmt.Sprint(i)))
		}
	}
	return orNil(faults)
}

// CheckTools returns an error if gates' toolsets include tools that the offer does not contain.
func (s *Settings) CheckTools(offer catalog.Offer) error {
	var faults config.Faults
	offer = s.Terms.Apply(offer)
	for _, g := range s.Gates {
		for _, p := range g.Bind(offer, nil).Problems {
			if p.Tool != "" && p.Source == "" && !s.Overlay.replaces(g.Toolset.Name) {
				i := slices.Index(g.Toolset.Tools, p.Tool)
				faults = append(faults, s.At(p, "toolsets", g.Toolset.Name, "tools", fmt.Sprint(i)))
			}
		}
	}
	return orNil(faults)
}

func orNil(faults config.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// CheckNext returns an error if a running yard must not switch to the next settings because they
// open it to unauthenticated callers: a changed file, or an edit that opens more than the file
// does.
func (s *Settings) CheckNext(next *Settings) error {
	file, before := next.Overlay.File, s.Overlay.File
	switch {
	case len(before.Gates) > 0 && len(file.Gates) == 0:
		// A half-written or lost file must not open all tools to everyone.
		return config.Faults{file.At(toolyard.Problem{Subject: "gates", Message: "all gates were removed", Fix: "Restart to serve all tools at /mcp."})}
	case next.Anonymous:
		return nil
	case !before.Open() && file.Open():
		return config.Faults{file.At(toolyard.Problem{Subject: "gates", Message: "a gate now accepts unauthenticated callers, which no gate did before", Fix: "Set callers: keys on every gate, or restart to allow unauthenticated callers."})}
	case Openness(next.Gates) > max(Openness(next.fileGates), Openness(s.fileGates)):
		return config.Faults{file.At(toolyard.Problem{Subject: "gates", Message: "a gate lets unauthenticated callers do more than the file allows", Fix: "Set callers: keys on the gate, or allow unauthenticated callers at a gate in the file."})}
	}
	return nil
}

// Openness returns the most that unauthenticated callers may do at any gate: 0 for nothing, 1 for
// reading, 2 for writing.
func Openness(gates []*gates.Gate) (most int) {
	for _, g := range gates {
		if !g.RequireAuth {
			most = max(most, map[toolyard.Mode]int{toolyard.Read: 1, toolyard.Write: 2}[g.Mode])
		}
	}
	return most
}

// WithEdits returns the settings with another overlay, to validate or preview an edit.
func (s *Settings) WithEdits(edits *config.Edits) (*Settings, error) {
	raw, err := json.Marshal(edits)
	if err != nil {
		return nil, err
	}
	if edits, err = config.ParseEdits(raw); err != nil {
		return nil, err
	}
	source, err := s.Overlay.File.With(edits)
	if err != nil {
		return nil, err
	}
	for _, g := range s.loader.opts.Gates {
		if _, edited := edits.Gates[g.Name]; edited && s.Overlay.File.Gates[g.Name].Mode == "" {
			return nil, toolyard.Errorf(toolyard.PermissionDenied, "Gate %s is defined by the program and cannot be edited.", g.Name)
		}
	}
	next := *s
	next.Source, next.Overlay, next.Gates = source, Overlay{File: s.Overlay.File}, s.loader.gates(source.Config)
	if err := next.checkServers(); err != nil {
		return nil, config.Refusal(err)
	}
	return &next, config.Refusal(s.CheckNext(&next))
}

// NeedRestart reports whether two configurations differ in a part that is only read at startup.
func NeedRestart(a, b *config.Config) bool { return !reflect.DeepEqual(startup(a), startup(b)) }

// startup returns the part of a configuration that is only read at startup.
func startup(c *config.Config) config.Config {
	f := *c
	f.Gates, f.Toolsets, f.Scripts = nil, nil, nil
	f.Servers, f.PrivateNetworks, f.Secrets, f.SecretStores, f.AgeIdentity = nil, nil, nil, nil, ""
	f.URL, f.Issuers, f.SealKeys = "", nil, nil
	f.ExecuteUSD, f.Terms, f.Context, f.Packs = nil, nil, nil, nil
	f.Governance = config.Governance{}
	if f.TLS != nil {
		f.TLS = &config.TLS{} // changed files are reloaded, but turning TLS on or off needs a restart
	}
	f.AgentSection = config.AgentSection{}
	f.Limits = config.Limits{Body: c.Limits.Body}
	return f
}

// Locate adds positions in the file to problems that concern a server or a pack as a whole.
func (s *Settings) Locate(problems []toolyard.Problem) []toolyard.Problem {
	list := slices.Clone(problems)
	for i, p := range list {
		if name, ok := strings.CutPrefix(p.Source, "pack "); ok && p.File == "" {
			list[i] = s.At(p, "packs", name)
			continue
		}
		server, ok := s.Servers[p.Source]
		if !ok || p.File != "" || p.Tool != "" {
			continue
		}
		key := "command"
		if server.URL != "" {
			key = "url"
		}
		list[i] = s.At(p, "servers", p.Source, key)
	}
	return list
}
