package gates

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// View is a gate's immutable offer from one catalog generation.
type View struct {
	Gate      *Gate
	Tools     []NamedTool          // sorted by name
	Pinned    []NamedTool          // tools that a gate with meta-tools also lists, in the operator's order
	Resources []*toolyard.Resource // sorted by URI
	Prompts   []NamedPrompt        // sorted by name
	Problems  []toolyard.Problem

	Generation uint64 // generation of the catalog

	byName map[string]*toolyard.Tool
}

// NamedTool is a tool and its name at a gate.
type NamedTool struct {
	Name string
	*toolyard.Tool
	Note string // appended to the description
}

// Lookup finds a tool by its name at the gate, or by its name in another scheme if that is
// unambiguous.
func (v *View) Lookup(name string) (*toolyard.Tool, bool) {
	t, ok := v.byName[name]
	return t, ok
}

// Bind computes the gate's view of an offer. If several tools have the same name, the view contains
// the tool that had the name in the previous view, or none of them, so a new tool cannot take over
// a name. Problems lists the tools that are left out, and tools that the toolset includes but the
// gate cannot show.
func (g *Gate) Bind(o catalog.Offer, previous *View) *View {
	v := &View{Gate: g, Generation: o.Generation, byName: make(map[string]*toolyard.Tool)}
	rendered, inToolset := make(map[string][]*toolyard.Tool), g.matcher()
	for _, t := range o.Tools {
		if g.hiddenBy(t, inToolset) == "" {
			name := g.render(g.Naming, t)
			rendered[name] = append(rendered[name], t)
		}
	}
	for name, same := range rendered {
		if g.IsMetaTool(name) {
			v.Problems = append(v.Problems, g.reserved(name, same))
			continue
		}
		t := previous.holder(name, same)
		if len(same) > 1 {
			v.Problems = append(v.Problems, collision(g, name, same, t))
		}
		if t != nil {
			v.Tools = append(v.Tools, NamedTool{Name: name, Tool: t})
			v.byName[name] = t
		}
	}
	slices.SortFunc(v.Tools, func(a, b NamedTool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range v.Tools {
		v.Tools[i].Note = v.note(v.Tools[i].Tool)
	}
	v.addAliases(rendered)
	v.bindPinned()
	v.bindResources(o.Resources, previous)
	v.bindPrompts(o.Prompts)
	v.Problems = slices.Concat(v.Problems, g.unavailable(o.Tools), v.trifecta())
	slices.SortFunc(v.Problems, func(a, b toolyard.Problem) int { return cmp.Compare(a.String(), b.String()) })
	return v
}

// holder returns the tool that gets a name: the only candidate, or the one that had the name in
// this view. The view may be nil.
func (v *View) holder(name string, same []*toolyard.Tool) *toolyard.Tool {
	if len(same) == 1 {
		return same[0]
	}
	if v == nil || v.byName[name] == nil {
		return nil
	}
	old := v.byName[name]
	i := slices.IndexFunc(same, func(t *toolyard.Tool) bool {
		return t.Server == old.Server && t.Name == old.Name && t.Origin == old.Origin
	})
	if i < 0 || v.Gate.render(v.Gate.Naming, old) != name { // the name was only an alias
		return nil
	}
	return same[i]
}

// collision returns the problem for several tools with the same name.
func collision(g *Gate, name string, same []*toolyard.Tool, holder *toolyard.Tool) toolyard.Problem {
	served := "none"
	if holder != nil {
		served = "only " + originOf(holder) + ", which came first,"
	}
	p := clash(g, "tools would be named "+name, served, same, originOf)
	p.Fix = "Rename or exclude one of them."
	return p
}

func originOf(t *toolyard.Tool) string { return t.Name + " of " + cmp.Or(t.Origin, t.Server, "Go") }

// clash returns the problem for items that a gate cannot distinguish.
func clash[T any](g *Gate, what, served string, same []T, origin func(T) string) toolyard.Problem {
	var origins []string
	for _, t := range same {
		origins = append(origins, origin(t))
	}
	slices.Sort(origins)
	return toolyard.Problem{
		Subject: "gate " + g.Name, Fix: "Exclude one of them with the server's tools or resources setting, or with the gate's toolset.",
		Message: fmt.Sprintf("%d %s and %s is served: %s", len(same), what, served, strings.Join(origins, ", ")),
	}
}

// addAliases lets callers use names in the other schemes if they identify a single visible tool. A
// name that several tools share is not an alias at all.
func (v *View) addAliases(rendered map[string][]*toolyard.Tool) {
	aliases := make(map[string]*toolyard.Tool)
	for _, same := range rendered {
		for _, t := range same {
			for _, n := range []Naming{NamingMCP, NamingPlain, NamingClient} {
				name := v.Gate.render(n, t)
				if other, taken := aliases[name]; taken && other != t {
					aliases[name] = nil
					continue
				}
				aliases[name] = t
			}
		}
	}
	for name, t := range aliases {
		if t != nil && len(rendered[name]) == 0 && !v.Gate.IsMetaTool(name) && v.byName[v.Gate.render(v.Gate.Naming, t)] == t {
			v.byName[name] = t
		}
	}
}

// unavailable returns a problem for each tool that the toolset includes but the gate cannot show.
func (g *Gate) unavailable(tools []*toolyard.Tool) (problems []toolyard.Problem) {
	if g.Toolset == nil {
		return nil
	}
	offered := make(map[string]map[string]*toolyard.Tool) // by server and name
	for _, t := range tools {
		if offered[t.Server] == nil {
			offered[t.Server] = make(map[string]*toolyard.Tool)
		}
		if offered[t.Server][t.Name] == nil {
			offered[t.Server][t.Name] = t
		}
	}
	inToolset := g.matcher()
	for _, pick := range append([]ServerPick{{Tools: g.Toolset.Tools}}, g.Toolset.Servers...) {
		for _, name := range pick.Tools {
			if p, ok := g.unavailableTool(pick.ID, name, offered[pick.ID], inToolset); !ok {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// unavailableTool returns the problem with a tool that the gate cannot show, or true if it can show
// it. A server that offers no tools at all is down or still starting, which is reported elsewhere.
func (g *Gate) unavailableTool(server, name string, offered map[string]*toolyard.Tool, inToolset func(*toolyard.Tool) bool) (p toolyard.Problem, ok bool) {
	p = toolyard.Problem{Source: server, Subject: fmt.Sprintf("gate %s, toolset %s", g.Name, g.Toolset.Name), Tool: name}
	owner := ""
	if server != "" {
		owner = " of server " + server
	}
	if t := offered[name]; t != nil {
		rule := g.hiddenBy(t, inToolset)
		p.Message = fmt.Sprintf("Tool %s%s %s", name, owner, rule)
		p.Fix = "Remove it from the toolset, or use the toolset at another gate."
		return p, rule == ""
	}
	switch {
	case server != "" && len(offered) == 0:
		return p, true
	case server != "":
		p.Message = fmt.Sprintf("Server %s does not offer tool %s", server, name)
	default:
		p.Message = "Unknown tool: " + name
	}
	p.Fix = spelling.Fix(name, slices.Sorted(maps.Keys(offered)))
	return p, false
}

// note returns the text that the view appends to a tool's description: how to use it, its price and
// its source file.
func (v *View) note(t *toolyard.Tool) string {
	words := v.guidance(t)
	if v.Gate.Surface == toolyard.Execute && t.Price.Set && !t.Price.OptOut {
		words = strings.TrimLeft(words+" Costs "+t.Price.USD.String()+" USD per call.", " ")
	}
	if words != "" {
		words = "\n\n" + words
	}
	return words + v.Gate.sourceNote(t)
}

// Size limits on text that a third party adds to a description.
const (
	maxBatchTools = 20
	maxNotes      = 500 // characters
)

// guidance describes how to call the tool, or returns "". It refers to recommended tools by their
// names at the gate, or by their original names if the gate does not show them.
func (v *View) guidance(t *toolyard.Tool) string {
	return Guidance(t.Limit, func(name string) string {
		shown := v.Gate.Naming.Render(v.Gate.Yard, t.Server, name)
		if other := v.byName[shown]; other != nil && other.Server == t.Server && other.Name == name {
			return shown
		}
		return name
	})
}

// Guidance describes limits and the author's advice in words. It applies rename to the names of
// recommended tools.
func Guidance(l toolyard.Limit, rename func(string) string) string {
	var parts []string
	if limits := Describe(l); limits != "" {
		parts = append(parts, "Limits: "+limits+".")
	}
	if l.Bulk {
		parts = append(parts, "It accepts many items in one call.")
	}
	var batchTools []string
	for _, name := range l.BatchTools[:min(len(l.BatchTools), maxBatchTools)] {
		if ident.CheckToolName(name) == nil {
			batchTools = append(batchTools, rename(name))
		}
	}
	if len(batchTools) > 0 {
		parts = append(parts, "For many items, use "+strings.Join(batchTools, ", ")+" instead of single calls.")
	}
	if notes := strings.Join(strings.Fields(l.Notes), " "); notes != "" {
		parts = append(parts, "Note: "+untrusted.TruncateRunes(notes, maxNotes))
	}
	return strings.Join(parts, " ")
}

// Describe returns a limit's values and scope, or "" if there is no limit.
func Describe(l toolyard.Limit) string {
	var parts []string
	if l.PerMinute > 0 {
		parts = append(parts, fmt.Sprintf("at most %d calls per minute", l.PerMinute))
	}
	if l.Cooldown > 0 {
		parts = append(parts, fmt.Sprintf("at least %v between calls", l.Cooldown))
	}
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("at most %d at once", l.Concurrency))
	}
	if l.Per != "" && len(parts) > 0 {
		parts = append(parts, "for each "+l.Per)
	}
	return strings.Join(parts, ", ")
}
