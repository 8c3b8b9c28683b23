package toolyard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Toolset is a named selection from the catalog.
type Toolset struct {
	Name    string       `json:"-"`
	Tools   []string     `json:"tools,omitempty" maxItems:"20000" doc:"Names of local tools."`
	Servers []ServerPick `json:"servers,omitempty" maxItems:"1000" doc:"Servers whose tools and resources are included."`
}

// ServerPick selects tools and resources of one server: those named, or all if none is named.
type ServerPick struct {
	ID        string   `json:"id" minLength:"1"`
	Tools     []string `json:"tools,omitempty" maxItems:"20000" doc:"Names of tools; all if empty."`
	Resources []string `json:"resources,omitempty" maxItems:"1000" doc:"Addresses of resources, where a trailing star matches any suffix; all if empty."`
}

// Takes returns what reports whether the toolset has a tool. It has looked through the names
// once, so that it is cheap for many tools.
func (s *Toolset) Matcher() func(*Tool) bool {
	type key struct{ server, tool string }
	named, whole := make(map[key]bool), make(map[string]bool)
	for _, tool := range s.Tools {
		named[key{"", tool}] = true
	}
	for _, p := range s.Servers {
		whole[p.ID] = whole[p.ID] || len(p.Tools) == 0
		for _, tool := range p.Tools {
			named[key{p.ID, tool}] = true
		}
	}
	return func(t *Tool) bool {
		return t.Server != "" && whole[t.Server] || named[key{t.Server, t.Name}]
	}
}

// ErrorStyle is how a gate tells its callers about failures.
type ErrorStyle string

// The error styles. With ErrorsAsResults a model sees what went wrong and can mend
// it; with ErrorsAsProtocol every failure is a JSON-RPC error.
const (
	ErrorsAsResults  ErrorStyle = "result"
	ErrorsAsProtocol ErrorStyle = "protocol"
)

// Gate is one way in: an address plus who may use it. It fixes what its callers see
// and what they may do.
type Gate struct {
	Name        string
	Mode        Mode
	Surface     Surface  // empty or Both for no check
	Toolset     *Toolset // nil for everything
	Naming      Naming   // empty for NamingMCP
	RequireAuth bool     // only callers who are known may enter
	Errors      ErrorStyle
	SourceNotes SourceNotes // whether descriptions say which file a tool is made from
	Yard        string      // this yard's name, for NamingClient
}

// Notes say where tools that are made from files come from, in their descriptions.
type SourceNotes string

// The notes. Empty means none: a path tells strangers about the machine.
const (
	SourceNotesOff      SourceNotes = "off"
	SourceNotesRelative SourceNotes = "relative" // to the folder of the tools
	SourceNotesAbsolute SourceNotes = "absolute"
)

// note is what the view adds to the description of a tool: how to use it, what it costs,
// and where it is written.
func (v *View) note(t *Tool) string {
	words := v.guidance(t)
	if v.Gate.Surface == Execute && t.Price.forSale() {
		words = strings.TrimLeft(words+" Costs "+t.Price.USD.String()+" USD per call.", " ")
	}
	if words != "" {
		words = "\n\n" + words
	}
	return words + v.Gate.source(t)
}

// guidance is that of the tool, with the tools that it recommends under the names that the
// gate gives them. One that the gate does not show keeps the name that its author gave it.
func (v *View) guidance(t *Tool) string {
	limit := t.Limit
	limit.BatchTools = nil
	for _, name := range t.Limit.BatchTools[:min(len(t.Limit.BatchTools), maxBatchTools)] {
		shown := v.Gate.Naming.Render(v.Gate.Yard, t.Server, name)
		if other := v.byName[shown]; other != nil && other.Server == t.Server && other.Name == name {
			name = shown
		}
		limit.BatchTools = append(limit.BatchTools, name)
	}
	return limit.Guidance()
}

// source says which file a tool is made from, if the gate does.
func (g *Gate) source(t *Tool) string {
	path := t.Origin
	if g.SourceNotes == SourceNotesAbsolute {
		path = t.File
	}
	if t.File == "" || g.SourceNotes == "" || g.SourceNotes == SourceNotesOff {
		return ""
	}
	return "\n\n---\nSource: " + path + "\nNote: This tool is dynamically loaded. What is saved in the file is live at once: read it to see what the tool does, edit it to change that."
}

// Visible reports whether the gate shows the tool. List, catalog and call all ask
// this and nothing else: what cannot be seen cannot be called.
func (g *Gate) Visible(t *Tool) bool { return g.HiddenBy(t) == "" }

// Hides returns the rule that hides the tool at this gate, or "" if it is visible.
func (g *Gate) HiddenBy(t *Tool) string { return g.hides(t, g.takes()) }

// takes returns what reports whether the gate's toolset, if it has one, has a tool.
func (g *Gate) takes() func(*Tool) bool {
	if g.Toolset == nil {
		return func(*Tool) bool { return true }
	}
	return g.Toolset.Matcher()
}

func (g *Gate) hides(t *Tool, takes func(*Tool) bool) string {
	switch {
	case !t.AllowedIn(g.Mode):
		return fmt.Sprintf("not allowed in mode %s", g.Mode)
	case !t.eligible(g.Surface):
		return fmt.Sprintf("not offered on surface %s: %s", g.Surface, t.unfit(g.Surface))
	case !takes(t):
		return fmt.Sprintf("not in toolset %s", g.Toolset.Name)
	}
	return ""
}

// ShowsServer reports whether anything of a server may be shown at the gate.
func (g *Gate) ShowsServer(id string) bool {
	return g.Toolset == nil || slices.ContainsFunc(g.Toolset.Servers, func(p ServerPick) bool { return p.ID == id })
}

// eligible says whether a surface may offer the tool.
func (s *Spec) eligible(at Surface) bool { return s.unfit(at) == "" }

// unfit says why a surface may not offer the tool, or nothing if it may: answers take what
// is meant for them and ends, execution takes what has a price.
func (s *Spec) unfit(at Surface) string {
	switch {
	case at == Answer && s.Surface == Execute:
		return "it is for execution only"
	case at == Answer && s.Hidden:
		return "queryEligible is false, so no answer is composed with it"
	case at == Answer && s.Latency == Streaming:
		return "it streams, so it is not for answers"
	case at == Execute && s.Surface == Answer:
		return "it is for answers only"
	case at == Execute && s.Price.OptOut:
		return "it is not for sale, so it is not for execution"
	case at == Execute && !s.Price.Set:
		return "it has no price, so it is not for execution"
	}
	return ""
}

// View is what one gate shows of one offer. It is made once and never changed.
type View struct {
	Gate      *Gate
	Tools     []NamedTool   // in the order of their names
	Resources []*Resource   // in the order of their addresses
	Prompts   []NamedPrompt // in the order of their names
	Problems  []Problem

	Generation uint64 // of the offer

	byName map[string]*Tool
}

// Bound is a tool under the name that a gate gives it.
type NamedTool struct {
	Name string
	*Tool
	Note string // follows the description
}

// Lookup finds a tool by the name that the gate shows, or by any other rendering of
// its identity that means only this tool.
func (v *View) Lookup(name string) (*Tool, bool) {
	t, ok := v.byName[name]
	return t, ok
}

// Problem is something that a person should mend. Problems are data: they are shown,
// and nothing else stops.
type Problem struct {
	Source  string `json:"source,omitempty"` // the source it concerns
	Subject string `json:"subject"`          // the gate, toolset, file or server
	Tool    string `json:"tool,omitempty"`   // the tool, if it is about one
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	Frame   string `json:"frame,omitempty"` // the line, and a mark at the column

	// Warning says that everything works, but probably not as it was meant.
	Warning bool `json:"warning,omitempty"`
}

func (p Problem) String() string {
	s := p.Message
	if p.Subject != "" {
		s = p.Subject + ": " + s
	}
	switch {
	case p.File != "" && p.Line > 0:
		s = fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, s)
	case p.File != "":
		s = p.File + ": " + s
	}
	return s
}

// Bind makes the gate's view of an offer. Tools that would share a name are left out,
// except the one that had the name before, if the view of then is given: a newcomer cannot
// take a name away. Wishes of the toolset that cannot be met are left out too. Problems
// says which.
func (g *Gate) Bind(o Offer, before *View) *View {
	v := &View{Gate: g, Generation: o.Generation, byName: make(map[string]*Tool)}
	rendered, takes := make(map[string][]*Tool), g.takes()
	for _, t := range o.Tools {
		if g.hides(t, takes) == "" {
			name := g.render(g.Naming, t)
			rendered[name] = append(rendered[name], t)
		}
	}
	for name, same := range rendered {
		t := before.holder(name, same)
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
	v.bindResources(o.Resources, before)
	v.bindPrompts(o.Prompts)
	v.Problems = append(v.Problems, g.unmet(o.Tools)...)
	slices.SortFunc(v.Problems, func(a, b Problem) int { return cmp.Compare(a.String(), b.String()) })
	return v
}

// holder is the one of several tools that may have a name: the only one, or the one that
// had it before.
func (v *View) holder(name string, same []*Tool) *Tool {
	if len(same) == 1 {
		return same[0]
	}
	if v == nil || v.byName[name] == nil {
		return nil
	}
	old := v.byName[name]
	i := slices.IndexFunc(same, func(t *Tool) bool {
		return t.Server == old.Server && t.Name == old.Name && t.Origin == old.Origin
	})
	if i < 0 || v.Gate.render(v.Gate.Naming, old) != name { // it was known by this name only besides
		return nil
	}
	return same[i]
}

func (g *Gate) render(n Naming, t *Tool) string { return n.Render(g.Yard, t.Server, t.Name) }

// collision is the problem of tools with one name, which at most one of them has.
func collision(g *Gate, name string, same []*Tool, holder *Tool) Problem {
	origin := func(t *Tool) string { return t.Name + " of " + cmp.Or(t.Origin, t.Server, "Go") }
	served := "none"
	if holder != nil {
		served = "only " + origin(holder) + ", which was there first,"
	}
	p := clash(g, "tools would be called "+name, served, same, origin)
	p.Fix = "Rename one of them, or leave one out."
	return p
}

// addAliases lets callers use the other renderings of a name where they mean one visible
// tool only. A name that tools share belongs to none of them, nor to anybody else.
func (v *View) addAliases(rendered map[string][]*Tool) {
	aliases := make(map[string]*Tool)
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
		if t != nil && len(rendered[name]) == 0 && v.byName[v.Gate.render(v.Gate.Naming, t)] == t {
			v.byName[name] = t
		}
	}
}

// unmet lists the tools that the toolset asks for by name and the gate cannot show.
func (g *Gate) unmet(tools []*Tool) (problems []Problem) {
	if g.Toolset == nil {
		return nil
	}
	offered := make(map[string]map[string]*Tool) // by server and name
	for _, t := range tools {
		if offered[t.Server] == nil {
			offered[t.Server] = make(map[string]*Tool)
		}
		if offered[t.Server][t.Name] == nil {
			offered[t.Server][t.Name] = t
		}
	}
	takes := g.takes()
	for _, pick := range append([]ServerPick{{Tools: g.Toolset.Tools}}, g.Toolset.Servers...) {
		for _, want := range pick.Tools {
			if p, ok := g.unmetTool(pick.ID, want, offered[pick.ID], takes); !ok {
				problems = append(problems, p)
			}
		}
	}
	return problems
}

// unmetTool is the problem of a tool of a server, or a local one, that the gate cannot show.
// What a server does not offer now it may yet have, so that is no fault of the configuration.
func (g *Gate) unmetTool(server, want string, offered map[string]*Tool, takes func(*Tool) bool) (p Problem, ok bool) {
	p = Problem{Source: server, Subject: fmt.Sprintf("gate %s, toolset %s", g.Name, g.Toolset.Name), Tool: want}
	whose := ""
	if server != "" {
		whose = " of server " + server
	}
	if t := offered[want]; t != nil {
		rule := g.hides(t, takes)
		p.Message = fmt.Sprintf("Tool %s%s %s", want, whose, rule)
		p.Fix = "Take it out of the toolset, or bind the toolset to another gate."
		return p, rule == ""
	}
	switch {
	case server != "" && len(offered) == 0: // it is down, or not there yet, which is said elsewhere
		return p, true
	case server != "":
		p.Message = fmt.Sprintf("Server %s does not offer the tool %s", server, want)
	default:
		p.Message = "Unknown tool: " + want
	}
	if near := Nearest(want, slices.Sorted(maps.Keys(offered))); near != "" {
		p.Fix = "Did you mean " + near + "?"
	}
	return p, false
}
