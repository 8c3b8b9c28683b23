package yard

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
)

// terms puts tools of all kinds under what a configuration says of them. A tool that stays
// as it is stays the same tool.
type terms struct {
	config   *config.Source
	provides func(kind string) bool // whether a kind of context has a provider
	kinds    []string               // kinds of context that the configuration can enable

	mu   sync.Mutex
	made map[*toolyard.Tool]governed // by the tool as its source offers it
}

// governed is a tool under terms.
type governed struct {
	terms  toolyard.Terms
	tool   *toolyard.Tool
	faults []string // what it says that does not go together
}

// newTerms are the terms of a configuration. Tools whose terms are those of the old settings
// stay the same.
func newTerms(c *config.Source, old *settings, kinds []string, provides func(kind string) bool) *terms {
	t := &terms{config: c, kinds: kinds, provides: provides}
	if old != nil {
		old.terms.mu.Lock()
		defer old.terms.mu.Unlock()
		t.made = old.terms.made // replaced, never changed
	}
	return t
}

// of are the terms of a tool.
func (t *terms) of(tool *toolyard.Tool) (terms toolyard.Terms) {
	fill, said := t.config.ExecuteUSD, t.config.Terms
	if tool.Server != "" {
		server := t.config.Servers[tool.Server] // nothing for one that the program brought along
		fill, said = server.ExecuteUSD, server.Terms
	}
	if fill != nil {
		terms.Default = toolyard.Price(*fill)
	}
	own, ok := said[tool.Name]
	if !ok {
		return terms
	}
	terms.Limit, terms.Surface, terms.Latency = own.Rate.Limit(), own.Surface, own.Latency
	if own.ExecuteUSD != nil {
		terms.Price = toolyard.Price(*own.ExecuteUSD)
	}
	if own.Contexts != nil {
		terms.Contexts, terms.ContextArgs = own.Contexts.Kinds, own.Contexts.Arguments
	}
	if own.QueryEligible != nil {
		hidden := !*own.QueryEligible
		terms.Hidden = &hidden
	}
	return terms
}

// apply is an offer with its tools as they count.
func (t *terms) apply(offer toolyard.Offer) toolyard.Offer {
	list := t.govern(offer.Tools)
	offer.Tools = make([]*toolyard.Tool, 0, len(list))
	for _, g := range list {
		offer.Tools = append(offer.Tools, g.tool)
	}
	return offer
}

// govern puts tools under the terms. Those that are no longer offered are forgotten.
func (t *terms) govern(tools []*toolyard.Tool) []governed {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, made := make([]governed, 0, len(tools)), make(map[*toolyard.Tool]governed, len(tools))
	for _, tool := range tools {
		terms := t.of(tool)
		g, ok := t.made[tool]
		if !ok || !reflect.DeepEqual(g.terms, terms) {
			under := tool.With(terms)
			g = governed{terms, under, under.Contradictions()}
		}
		made[tool] = g
		list = append(list, g)
	}
	t.made = made
	return list
}

// maxTermProblems is how many problems the tools of one server may have.
const maxTermProblems = 50

// problems are what does not go together in the tools of an offer, and what they need and
// nobody has.
func (t *terms) problems(tools []*toolyard.Tool) (problems []toolyard.Problem) {
	count := make(map[string]int)
	add := func(tool *toolyard.Tool, message, fix string) {
		if count[tool.Server]++; count[tool.Server] <= maxTermProblems {
			problems = append(problems, toolyard.Problem{Source: tool.Server, Subject: tool.Name, Tool: tool.Name, Message: message, Fix: fix})
		}
	}
	for _, g := range t.govern(tools) {
		for _, fault := range g.faults {
			add(g.tool, fault, mend(g.tool))
		}
		injected := g.tool.Injected()
		for _, argument := range slices.Sorted(maps.Keys(injected)) {
			if kind := injected[argument]; !t.provides(kind) {
				add(g.tool, "the context "+kind+" is not configured, so its calls fail", t.contextFix(kind))
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(count)) {
		if extra := count[server] - maxTermProblems; extra > 0 {
			problems = append(problems, toolyard.Problem{Source: server, Subject: "terms", Message: fmt.Sprintf("and %d more problems", extra)})
		}
	}
	return problems
}

// contextFix tells the operator how to provide a kind of context.
func (t *terms) contextFix(kind string) string {
	if slices.Contains(t.kinds, kind) {
		return "Add context: {" + kind + ": {}}"
	}
	if len(t.kinds) == 0 {
		return "This binary has no contexts; a program that embeds Toolyard adds them with Options.Providers."
	}
	return fmt.Sprintf("This binary has the contexts %s; a program that embeds Toolyard adds others with Options.Providers.", strings.Join(t.kinds, ", "))
}

// mend says who can do something about a fault of a tool.
func mend(t *toolyard.Tool) string {
	if t.Server == "" {
		return "Mend the tool, or say otherwise under terms: " + t.Name
	}
	return fmt.Sprintf("Tell its author, or say otherwise under servers, %s, terms: %s", t.Server, t.Name)
}

// strays are the names under the terms of a server, or of local tools if it is empty, that no
// tool has.
func (t *terms) strays(server string, known []string) (problems []toolyard.Problem) {
	said, path, whose := t.config.Terms, []string{"terms"}, "no local tool has"
	if server != "" {
		said, path, whose = t.config.Servers[server].Terms, []string{"servers", server, "terms"}, "the server does not have"
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if slices.Contains(known, name) {
			continue
		}
		p := toolyard.Problem{Source: server, Subject: "terms", Tool: name, Message: "terms names " + name + ", which " + whose}
		if near := toolyard.Nearest(name, known); near != "" {
			p.Fix = "Did you mean " + near + "?"
		}
		problems = append(problems, t.config.At(p, append(path, name)...))
	}
	return problems
}

// termProblems are all problems of the tools under their terms, and of the terms.
func (y *Yard) termProblems() []toolyard.Problem {
	s, tools := y.config.Load(), y.offerOf(y.catalog.Now()).Tools
	problems := s.terms.problems(tools)
	if y.isReady() {
		var local []string
		for _, t := range tools {
			if t.Server == "" {
				local = append(local, t.Name)
			}
		}
		problems = append(problems, s.terms.strays("", local)...)
	}
	for _, id := range slices.Sorted(maps.Keys(s.servers)) {
		if known := s.servers[id].Known(); len(known) > 0 { // otherwise it has yet to speak
			problems = append(problems, s.terms.strays(id, known)...)
		}
	}
	return problems
}
