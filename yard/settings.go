package yard

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/script"
)

// settings is a configuration and what was made of it.
type settings struct {
	*config.Source         // with edits
	edits          edition // what was changed of the file while it was served
	gates          []*toolyard.Gate
	filed          []*toolyard.Gate                    // without edits
	path           toolyard.Handler                    // the call path
	terms          *terms                              // what it says of tools
	providers      map[string]toolyard.ContextProvider // of context, by kind
	scripts        *script.Folder                      // nil for none
	servers        map[string]*server
}

func (y *Yard) load() (*config.Source, error) {
	if y.fromStore() {
		return y.loadStored()
	}
	if y.opts.ConfigFile == "" {
		return &config.Source{Config: config.Default()}, nil
	}
	if y.opts.dry {
		source, err := config.Parse(y.opts.ConfigFile, y.opts.text, y.opts.Getenv)
		if err == nil {
			source.Store = "memory"
		}
		return source, err
	}
	source, err := config.Load(y.opts.ConfigFile, y.opts.Getenv)
	if err == nil && y.opts.Store != "" {
		source.UseStore(y.opts.Store)
	}
	return source, err
}

// settings makes what a configuration asks for. What the old ones have and is still asked
// for is kept.
func (y *Yard) settings(source *config.Source, e edition, old *settings) (*settings, error) {
	s := &settings{Source: source, edits: e, gates: y.gatesOf(source.Config), filed: y.gatesOf(e.file.Config)}
	s.path = y.callPath(s)
	s.terms = newTerms(source, old, slices.Sorted(maps.Keys(y.opts.ProviderKinds)), func(kind string) bool { return y.provider(s)(kind) != nil })
	var err error
	if s.providers, err = y.newProviders(source, old); err != nil {
		return nil, err
	}
	if s.servers, err = y.newServers(source, old); err != nil {
		return nil, err
	}
	if err := y.checkPicks(s); err != nil {
		return nil, err
	}
	if old != nil && reflect.DeepEqual(old.Scripts, source.Scripts) && reflect.DeepEqual(old.Private, source.Private) {
		s.scripts = old.scripts
		return s, nil
	}
	s.scripts, err = y.newScripts(source.Scripts, source.Private)
	return s, err
}

// sameSources reports whether two settings have the same sources.
func sameSources(a, b *settings) bool {
	return a.scripts == b.scripts && maps.Equal(a.servers, b.servers)
}

// check finds what the gates ask for by name and cannot have.
func (s *settings) check(offer toolyard.Offer) error {
	var faults config.Faults
	offer = s.terms.apply(offer)
	for _, g := range s.gates {
		for _, p := range g.Bind(offer, nil).Problems {
			if p.Tool != "" && p.Source == "" && !s.edits.changes(g.Toolset.Name) {
				i := slices.Index(g.Toolset.Tools, p.Tool)
				faults = append(faults, s.At(p, "toolsets", g.Toolset.Name, "tools", fmt.Sprint(i)))
			}
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// gatesOf are the gates of the options and of the file. Without any there is one for
// everything.
func (y *Yard) gatesOf(c *config.Config) []*toolyard.Gate {
	gates := make(map[string]*toolyard.Gate)
	for _, g := range y.opts.Gates {
		g.Yard = c.Name
		gates[g.Name] = &g
	}
	for name, g := range c.Gates {
		gate := &toolyard.Gate{Name: name, Mode: g.Mode, Surface: g.Surface, Naming: g.Naming, Errors: g.Errors, SourceNotes: cmp.Or(g.Notes, y.opts.Notes), RequireAuth: g.Callers == config.Keys, Yard: c.Name}
		if set, ok := c.Toolsets[g.Toolset]; ok {
			gate.Toolset = set.Set(g.Toolset)
		}
		gates[name] = gate
	}
	if len(gates) == 0 {
		return []*toolyard.Gate{{Name: DefaultGate, Mode: toolyard.Write, SourceNotes: y.opts.Notes, Yard: c.Name}}
	}
	return slices.SortedFunc(maps.Values(gates), func(a, b *toolyard.Gate) int { return cmp.Compare(a.Name, b.Name) })
}

// Reload reads the configuration again. What is wrong with it is returned, and the
// old configuration stays.
func (y *Yard) Reload() error {
	y.reloading.Lock()
	defer y.reloading.Unlock()
	source, err := y.load()
	if err != nil {
		return err
	}
	old := y.config.Load()
	if source.NeedsStore() && y.contract.store == nil {
		return config.Faults{source.At(toolyard.Problem{Subject: "store", Message: "there is none, and now something must be kept", Fix: "Restart to open one."})}
	}
	s, err := y.edited(source, old)
	if err != nil {
		return err
	}
	if err := old.opens(s); err != nil {
		return err
	}
	if sameSources(s, old) { // others have yet to say what they offer
		if err := y.checkWhenReady(s); err != nil {
			return err
		}
	}
	y.apply(s)
	closeProviders(old.providers, s.providers)
	for _, server := range s.servers {
		server.Retry()
	}
	if !sameSources(s, old) {
		y.catalog.Set(y.sources(s))
	}
	if !reflect.DeepEqual(fixed(old.Config), fixed(source.Config)) {
		y.log.Warn("only scripts, servers, terms, toolsets, gates and limits of calls change while it runs; the rest takes effect after a restart")
	}
	return nil
}

// opens refuses a configuration that opens more to strangers than a running yard may be opened:
// by another file, or by an edit than the file has open itself.
func (s *settings) opens(next *settings) error {
	file, was := next.edits.file, s.edits.file
	switch {
	case len(was.Gates) > 0 && len(file.Gates) == 0:
		// A file that is being written, or was lost, must not open everything to everybody.
		return config.Faults{file.At(toolyard.Problem{Subject: "gates", Message: "there are none any more", Fix: "Restart to serve all tools at /mcp."})}
	case next.Anonymous:
		return nil
	case !was.Open() && file.Open():
		return config.Faults{file.At(toolyard.Problem{Subject: "gates", Message: "one lets anyone in, and none did so far", Fix: "Say callers: keys at every gate, or restart to let anyone in."})}
	case openness(next.gates) > max(openness(next.filed), openness(s.filed)):
		return config.Faults{file.At(toolyard.Problem{Subject: "gates", Message: "one lets anyone in, and the file does not let anyone do as much", Fix: "Say callers: keys, or open a gate in the file."})}
	}
	return nil
}

// openness is how much strangers may do at some gate: nothing, read, or write.
func openness(gates []*toolyard.Gate) (most int) {
	for _, g := range gates {
		if !g.RequireAuth {
			most = max(most, map[toolyard.Mode]int{toolyard.Read: 1, toolyard.Write: 2}[g.Mode])
		}
	}
	return most
}

// fixed is the part of a configuration that does not change while it runs.
func fixed(c *config.Config) config.Config {
	f := *c
	f.Gates, f.Toolsets, f.Scripts = nil, nil, nil
	f.Servers, f.Private, f.Secrets, f.Identity = nil, nil, nil, ""
	f.ExecuteUSD, f.Terms, f.Context = nil, nil, nil
	f.Limits = config.Limits{Body: c.Limits.Body}
	return f
}

// checkWhenReady checks settings once all sources have spoken: before that a tool that is
// asked for may still come.
func (y *Yard) checkWhenReady(s *settings) error {
	if !y.isReady() {
		return nil
	}
	return s.check(y.offerOf(y.catalog.Now()))
}
