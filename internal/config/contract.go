package config

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
)

// Terms are what the operator says of a tool beside what it declares itself. Of two limits
// the stricter counts; the operator's price counts.
type Terms struct {
	Rate          *Rate            `json:"rate,omitempty" doc:"How fast it may be called."`
	ExecuteUSD    *Price           `json:"executeUsd,omitempty" doc:"What a call at a gate for execution costs, in US dollars, as text; none for a tool that is not for sale."`
	Surface       toolyard.Surface `json:"surface,omitempty" enum:"answer,execute,both" doc:"What it is for."`
	QueryEligible *bool            `json:"queryEligible,omitempty" doc:"Whether answers may be composed with it."`
	Latency       toolyard.Latency `json:"latencyClass,omitempty" enum:"instant,fast,slow,streaming" doc:"How long callers should expect to wait."`
	Contexts      *Contexts        `json:"contextRequirements,omitempty" doc:"The context that is injected into its arguments, instead of what the tool declares: [{kind: crm, argument: customer}]."`
}

// Contexts are kinds of context and the arguments that receive them.
type Contexts struct {
	Kinds     []string
	Arguments map[string]string // by kind; a kind without an entry follows the convention
}

// JSONSchema describes Contexts.
func (Contexts) JSONSchema() json.RawMessage {
	const name = `{"type":"string","pattern":"^[A-Za-z0-9._-]{1,64}$"}`
	return json.RawMessage(`{"type":"array","maxItems":16,"items":{"type":["string","object"],"pattern":"^[A-Za-z0-9._-]{1,64}$",` +
		`"properties":{"kind":` + name + `,"argument":` + name + `},"required":["kind","argument"],"additionalProperties":false},` +
		`"examples":[[{"kind":"crm","argument":"customer"}]]}`)
}

// UnmarshalJSON reads Contexts.
func (c *Contexts) UnmarshalJSON(data []byte) error {
	var spec toolyard.Spec
	err := spec.SetMeta(map[string]json.RawMessage{"contextRequirements": data})
	c.Kinds, c.Arguments = spec.Contexts, spec.ContextArgs
	return err
}

// Rate is how fast something may be called, by all replicas together.
type Rate struct {
	PerMinute   int      `json:"perMinute,omitempty" minimum:"1" maximum:"100000000" doc:"How many calls may begin in any minute."`
	Cooldown    Duration `json:"cooldown,omitempty" doc:"How long after the beginning of a call the next may begin."`
	Concurrency int      `json:"concurrency,omitempty" minimum:"1" maximum:"1000000" doc:"How many calls may run at once."`
}

// Limit is the rate as a limit.
func (r *Rate) Limit() toolyard.Limit {
	if r == nil {
		return toolyard.Limit{}
	}
	return toolyard.Limit{PerMinute: r.PerMinute, Cooldown: r.Cooldown.Std(), Concurrency: r.Concurrency}
}

// Price is an amount such as "0.001", or "none".
type Price toolyard.Price

// JSONSchema describes a Price.
func (Price) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^(none|[0-9]{1,9}(\\.[0-9]{1,9})?)$","examples":["0.001","none"]}`)
}

// UnmarshalText reads a Price.
func (p *Price) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*p = Price{OptOut: true}
		return nil
	}
	usd, err := toolyard.ParseMoney(string(text))
	*p = Price{Set: true, USD: usd}
	return err
}

// Context configures where one kind of context comes from.
type Context struct {
	Settings json.RawMessage // an object, for the kind that the program registers
}

// JSONSchema describes a Context.
func (Context) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// UnmarshalJSON reads a Context.
func (c *Context) UnmarshalJSON(data []byte) error {
	c.Settings = slices.Clone(data)
	return nil
}

// Record is what is kept of calls.
type Record struct {
	Arguments string   `json:"arguments" default:"off" enum:"off,shape,full" doc:"What is kept of arguments: nothing, their names and kinds, or all but secrets."`
	Keep      Duration `json:"keep" default:"720h" doc:"For how long."`
}

// Who are the callers of a gate.
const (
	Anyone = "anyone" // nobody is asked who they are
	Keys   = "keys"   // those with an API key
)

// NeedsStore reports whether the configuration asks for something that must be kept.
func (c *Config) NeedsStore() bool {
	if c.Store != "" || len(c.Context) > 0 || len(c.Edits) > 0 {
		return true
	}
	for _, g := range c.Gates {
		if g.Surface == toolyard.Execute || g.Callers == Keys {
			return true
		}
	}
	return false
}

// Open reports whether some way in asks nobody who they are.
func (c *Config) Open() bool {
	for _, g := range c.Gates {
		if g.Callers != Keys {
			return true
		}
	}
	return len(c.Gates) == 0
}

func (c *Config) checkContract(add adder) {
	if s := c.Store; s != "" && s != "memory" && !strings.HasPrefix(s, "sqlite:") {
		if u, err := url.Parse(s); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			add("must be postgres://user@host/database, sqlite:path or memory", "store")
		}
	}
	if c.Record.Keep <= 0 {
		add("must be greater than zero", "record", "keep")
	}
}
