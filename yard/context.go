package yard

import (
	"reflect"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/provide"
)

// newProviders makes the providers of a configuration. Those of the old settings go on if
// they are asked for as they were.
func (y *Yard) newProviders(c *config.Source, old *settings) (map[string]*provide.Provider, error) {
	if old != nil && reflect.DeepEqual(old.Context, c.Context) && reflect.DeepEqual(old.Private, c.Private) {
		return old.providers, nil
	}
	made := make(map[string]*provide.Provider)
	for kind, p := range c.Context {
		o := provide.Options{URL: p.URL, Budget: p.Budget, Chain: p.Chain, Now: y.opts.Now, Log: y.log}
		if y.contract.store != nil {
			o.Links = y.contract.store
		}
		for _, t := range p.Tokens {
			o.Tokens = append(o.Tokens, provide.Token{Symbol: t.Symbol, Address: t.Address, Decimals: t.Decimals})
		}
		o.Private = prefixes(c.Private)
		provider, err := provide.New(kind, o)
		if err != nil {
			return nil, config.Faults{c.At(toolyard.Problem{Subject: "context", Message: err.Error()}, "context", kind)}
		}
		made[kind] = provider
	}
	return made, nil
}

// provider is who provides a kind of context: the program's own, or one that the
// configuration names. It is nil for nobody.
func (y *Yard) provider(s *settings) func(kind string) toolyard.ContextProvider {
	return func(kind string) toolyard.ContextProvider {
		if p, ok := y.opts.Providers[kind]; ok {
			return p
		}
		if p, ok := s.providers[kind]; ok {
			return p
		}
		return nil
	}
}
