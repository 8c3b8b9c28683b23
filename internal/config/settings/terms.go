package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
	"github.com/toolyard/toolyard/internal/trust/taint"
)

// Terms applies the operator's prices, limits and surfaces to tools from every source. If a tool's
// terms do not change, the tool keeps its identity across reloads.
type Terms struct {
	config   *config.Source
	provides func(kind string) bool // reports whether a kind of context has a provider
	kinds    []string               // kinds of context that the configuration can enable

	mu    sync.Mutex
	cache map[*toolyard.Tool]adjusted // keyed by the tool that the source offers
}

// adjusted is a tool with terms applied.
type adjusted struct {
	terms          toolterms.Terms
	tool           *toolyard.Tool
	contradictions []string
}

func newTerms(c *config.Source, old *Settings, kinds []string, provides func(kind string) bool) *Terms {
	t := &Terms{config: c, kinds: kinds, provides: provides}
	if old != nil {
		old.Terms.mu.Lock()
		defer old.Terms.mu.Unlock()
		t.cache = old.Terms.cache // adjust replaces the map and never modifies it
	}
	return t
}

// termsOf returns the terms that the configuration sets for a tool.
func (t *Terms) termsOf(tool *toolyard.Tool) (terms toolterms.Terms) {
	price, byTool := t.config.ExecuteUSD, t.config.Terms
	terms.DefaultLabels = taint.Defaults(&tool.Spec)
	if tool.Server != "" {
		server := t.config.Servers[tool.Server] // the zero value for a source from Options.Sources
		price, byTool, terms.Labels = server.ExecuteUSD, server.Terms, server.Labels
	}
	if price != nil {
		terms.Default = toolyard.Price(*price)
	}
	own, ok := byTool[tool.Name]
	if !ok {
		return terms
	}
	terms.Limits, terms.Surface, terms.Latency = own.Rate.Limits(), own.Surface, own.Latency
	if own.Labels != nil {
		terms.Labels = own.Labels
	}
	if own.ExecuteUSD != nil {
		terms.Price = toolyard.Price(*own.ExecuteUSD)
	}
	if own.QueryEligible != nil {
		hidden := !*own.QueryEligible
		terms.HiddenFromAnswers = &hidden
	}
	if own.Contexts != nil {
		terms.Contexts, terms.ContextArgs = own.Contexts.Kinds, own.Contexts.Arguments
	}
	return terms
}

// Apply returns the offer with the terms applied to its tools.
func (t *Terms) Apply(offer catalog.Offer) catalog.Offer {
	list := t.adjust(offer.Tools)
	offer.Tools = make([]*toolyard.Tool, 0, len(list))
	for _, a := range list {
		offer.Tools = append(offer.Tools, a.tool)
	}
	return offer
}

// adjust applies the terms, and removes tools that are no longer offered from the cache.
func (t *Terms) adjust(tools []*toolyard.Tool) []adjusted {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, cache := make([]adjusted, 0, len(tools)), make(map[*toolyard.Tool]adjusted, len(tools))
	for _, tool := range tools {
		terms := t.termsOf(tool)
		a, ok := t.cache[tool]
		if !ok || !reflect.DeepEqual(a.terms, terms) {
			with := toolterms.Apply(tool, terms)
			if ok && reflect.DeepEqual(with.Spec, a.tool.Spec) {
				with = a.tool // the changed terms do not affect it
			}
			a = adjusted{terms, with, toolterms.Contradictions(&with.Spec)}
		}
		cache[tool] = a
		list = append(list, a)
	}
	t.cache = cache
	return list
}

// maxTermProblems is the maximum number of problems reported per server.
const maxTermProblems = 50

// Problems reports contradictory terms, and contexts that tools require but no provider serves.
func (t *Terms) Problems(tools []*toolyard.Tool) (problems []toolyard.Problem) {
	count := make(map[string]int)
	add := func(tool *toolyard.Tool, message, fix string) {
		if count[tool.Server]++; count[tool.Server] <= maxTermProblems {
			problems = append(problems, toolyard.Problem{Source: tool.Server, Subject: tool.Name, Tool: tool.Name, Message: message, Fix: fix})
		}
	}
	for _, a := range t.adjust(tools) {
		for _, message := range a.contradictions {
			add(a.tool, message, termsFix(a.tool))
		}
		injected := a.tool.Injected()
		for _, argument := range slices.Sorted(maps.Keys(injected)) {
			if kind := injected[argument]; !t.provides(kind) {
				add(a.tool, "context "+kind+" is not configured, so calls to this tool fail", t.contextFix(kind))
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(count)) {
		if extra := count[server] - maxTermProblems; extra > 0 {
			problems = append(problems, toolyard.Problem{Source: server, Subject: "terms", Message: "and " + spelling.Count(extra, "more problem")})
		}
	}
	return problems
}

func (t *Terms) contextFix(kind string) string {
	if slices.Contains(t.kinds, kind) {
		return "Add context: {" + kind + ": {}}"
	}
	return "Add context: {" + kind + ": {http: {url: …}}} or {script: …}; a program that embeds Toolyard can also use Options.Providers."
}

func termsFix(t *toolyard.Tool) string {
	if t.Server == "" {
		return "Fix the tool, or override the value under terms: " + t.Name
	}
	return fmt.Sprintf("Report this to the server's author, or override the value under servers.%s.terms: %s", t.Server, t.Name)
}

// UnknownTools reports tools that the terms of a server refer to but that are not among the known
// ones. If server is empty, it checks the terms of local tools.
func (t *Terms) UnknownTools(server string, known []string) (problems []toolyard.Problem) {
	byTool, path, where := t.config.Terms, []string{"terms"}, "no local tool has this name"
	if server != "" {
		byTool, path, where = t.config.Servers[server].Terms, []string{"servers", server, "terms"}, "the server has no tool with this name"
	}
	for _, name := range slices.Sorted(maps.Keys(byTool)) {
		if slices.Contains(known, name) {
			continue
		}
		p := toolyard.Problem{Source: server, Subject: "terms", Tool: name, Message: fmt.Sprintf("unknown tool %q: %s", name, where), Fix: spelling.Fix(name, known)}
		problems = append(problems, t.config.At(p, append(path, name)...))
	}
	return problems
}
