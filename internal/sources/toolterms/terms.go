// Package toolterms merges the terms that a tool declares with those that the operator sets:
// limits, price, surface and latency class. It decides where a tool may be offered.
package toolterms

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Terms are the operator's terms for a tool. Empty fields leave the tool's own values unchanged.
type Terms struct {
	Limits  []toolyard.Limit // if two limits have the same scope, the stricter values apply
	Price   toolyard.Price   // replaces the tool's price if it is set or opts out
	Default toolyard.Price   // applies if the tool declares no price
	Surface toolyard.Surface
	Latency string

	HiddenFromAnswers *bool

	Labels        []string // replace the tool's labels
	DefaultLabels []string // apply if the tool declares no labels

	Contexts    []string
	ContextArgs map[string]string // arguments for Contexts; see [toolyard.Spec]
}

// Apply returns the tool itself if the terms change nothing, and otherwise a copy whose Spec has
// the effective values.
func Apply(t *toolyard.Tool, terms Terms) *toolyard.Tool {
	return t.With(func(s *toolyard.Terms) {
		s.Limit, s.Quotas = combine(s.Limit, s.Quotas, terms.Limits)
		s.Surface = cmp.Or(terms.Surface, s.Surface)
		s.Latency = cmp.Or(terms.Latency, s.Latency)
		if terms.HiddenFromAnswers != nil {
			s.HiddenFromAnswers = *terms.HiddenFromAnswers
		}
		if terms.Labels != nil {
			s.Labels = terms.Labels
		} else if s.Labels == nil {
			s.Labels = terms.DefaultLabels
		}
		s.Price = terms.price(s)
		if terms.Contexts != nil {
			s.Contexts, s.ContextArgs = terms.Contexts, terms.ContextArgs
		}
	})
}

// combine adds the operator's limits to a tool's. Limits with different scopes stay separate and
// all apply.
func combine(own toolyard.Limit, quotas, limits []toolyard.Limit) (toolyard.Limit, []toolyard.Limit) {
	quotas = slices.Clone(quotas)
	for _, l := range limits {
		if !own.Limited() || own.Per == l.Per {
			own = own.Stricter(l)
			continue
		}
		if i := slices.IndexFunc(quotas, func(q toolyard.Limit) bool { return q.Per == l.Per }); i >= 0 {
			quotas[i] = quotas[i].Stricter(l)
		} else {
			quotas = append(quotas, l)
		}
	}
	return own, quotas
}

// price returns the price of a call. The default does not apply to a tool that is only for answers,
// because prices have no effect there.
func (t Terms) price(s *toolyard.Terms) toolyard.Price {
	p := s.Price
	switch {
	case declared(t.Price):
		p = t.Price
	case !declared(p) && s.Surface != toolyard.Answer:
		p = t.Default
	}
	p.Query = s.Price.Query
	return p
}

func declared(p toolyard.Price) bool { return p.Set || p.OptOut }

func forSale(p toolyard.Price) bool { return p.Set && !p.OptOut }

// Effective is a tool's metadata with all defaults filled in.
type Effective struct {
	Surface         toolyard.Surface `json:"surface"`
	QueryEligible   bool             `json:"queryEligible"`
	Latency         string           `json:"latencyClass"`
	ExecuteEligible bool             `json:"executeEligible"`
	ExecuteUSD      *toolyard.Money  `json:"executePriceUsd,omitempty"` // nil if the tool is not for sale
	RateLimit       map[string]any   `json:"rateLimit,omitempty"`       // in the format used by tools
}

// EffectiveOf returns a tool's effective metadata. By default, a tool is for both surfaces,
// eligible for answers, and slow.
func EffectiveOf(s *toolyard.Spec) Effective {
	e := Effective{
		Surface: cmp.Or(s.Surface, ident.SurfaceBoth), QueryEligible: !s.HiddenFromAnswers, Latency: cmp.Or(s.Latency, "slow"),
		ExecuteEligible: Ineligible(s, toolyard.Execute) == "", RateLimit: s.Limit.Meta(),
	}
	if usd := s.Price.USD; forSale(s.Price) {
		e.ExecuteUSD = &usd
	}
	return e
}

// Ineligible returns the reason if a surface may not offer the tool, or "".
func Ineligible(s *toolyard.Spec, at toolyard.Surface) string {
	switch {
	case at == toolyard.Answer && s.Surface == toolyard.Execute:
		return "it is available only for execution"
	case at == toolyard.Answer && s.HiddenFromAnswers:
		return "queryEligible is false, so it is not used for answers"
	case at == toolyard.Answer && s.Latency == "streaming":
		return "it streams, so it cannot be used for answers"
	case at == toolyard.Execute && s.Surface == toolyard.Answer:
		return "it is available only for answers"
	case at == toolyard.Execute && s.Price.OptOut:
		return "it is not for sale, so it cannot be used for execution"
	case at == toolyard.Execute && !s.Price.Set:
		return "it has no price, so it cannot be used for execution"
	}
	return ""
}

// Contradictions returns the inconsistencies in a tool's metadata: no surface can offer it, its
// price has no effect, or a context has no matching argument.
func Contradictions(s *toolyard.Spec) (faults []string) {
	answer, execute := Ineligible(s, toolyard.Answer), Ineligible(s, toolyard.Execute)
	switch {
	case answer != "" && execute != "":
		faults = append(faults, "it can be used for neither answers nor execution: "+answer+", and "+execute)
	case s.Surface == toolyard.Answer && forSale(s.Price):
		faults = append(faults, "it has a price, but it is available only for answers, which are free")
	case s.Surface == toolyard.Execute && !s.HiddenFromAnswers:
		faults = append(faults, "it is available only for execution, but queryEligible is not false")
	}
	injected := s.Injected()
	for _, name := range slices.Sorted(maps.Keys(injected)) {
		if !declares(s.Input, name) {
			faults = append(faults, fmt.Sprintf("it requires context %s, but its input schema does not declare argument %s", injected[name], name))
		}
	}
	return faults
}

// declares reports whether a schema has a property, or may have it through composition.
func declares(schema json.RawMessage, name string) bool {
	root, _ := jsonobject.Map(schema)
	properties, _ := jsonobject.Map(root["properties"])
	composed := slices.ContainsFunc([]string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"}, func(key string) bool { return root[key] != nil })
	return properties[name] != nil || composed
}
