package config

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath/rules"
)

// Terms override a tool's declarations. For limits, the stricter value applies. The price replaces
// the tool's price.
type Terms struct {
	Rate          Rates            `json:"rate,omitempty" doc:"Rate limit, or a list of limits for all callers together, each account and each caller."`
	Spend         Spends           `json:"spend,omitempty" doc:"Maximum total price of calls per day or month; or a list of limits for all callers together, each account and each caller."`
	ExecuteUSD    *Price           `json:"executeUsd,omitempty" doc:"Price of a call at an execute gate, in US dollars, as a string, or none if the tool is not for sale."`
	Surface       toolyard.Surface `json:"surface,omitempty" enum:"answer,execute,both" doc:"What the tool is for: composing answers, paid execution, or both."`
	QueryEligible *bool            `json:"queryEligible,omitempty" doc:"Whether the tool can be used to compose answers."`
	Latency       string           `json:"latencyClass,omitempty" enum:"instant,fast,slow,streaming" doc:"How long callers should expect to wait."`
	Labels        []string         `json:"labels,omitempty" enum:"private,untrusted,egress" doc:"What data the tool handles. Replaces the labels of the tool or its server. private: returns the caller's data. untrusted: returns text that third parties can write. egress: sends data out."`
	Contexts      *Contexts        `json:"contextRequirements,omitempty" doc:"The context to inject into the tool's arguments, instead of what the tool declares."`
}

// Contexts lists kinds of context and the arguments that receive them.
type Contexts struct {
	Kinds     []string
	Arguments map[string]string // by kind; a kind that has no entry follows the convention
}

// JSONSchema describes Contexts.
func (Contexts) JSONSchema() json.RawMessage {
	const name = `{"type":"string","pattern":"^[A-Za-z0-9._-]{1,64}$"}`
	return json.RawMessage(`{"type":"array","maxItems":16,"items":{"type":["string","object"],"pattern":"^[A-Za-z0-9._-]{1,64}$",` +
		`"properties":{"kind":` + name + `,"argument":` + name + `},"required":["kind","argument"],"additionalProperties":false},` +
		`"examples":[[{"kind":"crm","argument":"customer"}]]}`)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Contexts) UnmarshalJSON(data []byte) error {
	var spec toolyard.Spec
	err := spec.SetMeta(map[string]json.RawMessage{"contextRequirements": data})
	c.Kinds, c.Arguments = spec.Contexts, spec.ContextArgs
	return err
}

// Price is an amount such as "0.001", or "none".
type Price toolyard.Price

// JSONSchema describes a Price.
func (Price) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^(none|[0-9]{1,9}(\\.[0-9]{1,9})?)$","examples":["0.001","none"]}`)
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Price) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*p = Price{OptOut: true}
		return nil
	}
	usd, err := toolyard.ParseMoney(string(text))
	*p = Price{Set: true, USD: usd}
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (p Price) MarshalText() ([]byte, error) {
	if p.OptOut {
		return []byte("none"), nil
	}
	return p.USD.MarshalText()
}

// Record configures what is recorded about calls.
type Record struct {
	Arguments string   `json:"arguments" default:"off" enum:"off,shape,full" doc:"What to record about arguments: nothing, their names and types, or everything except secrets."`
	Writes    string   `json:"writes" default:"before" enum:"before,after" doc:"When write calls are recorded. before: before the tool runs; the call is refused if the store isn't responding. after: only after the tool has run."`
	Retention Duration `json:"retention" default:"720h" doc:"How long to keep recorded calls and agent queries."`

	AuditRetention    Duration `json:"auditRetention" default:"9600h" doc:"How long to keep the audit log."`
	InactiveRetention Duration `json:"inactiveRetention" default:"9600h" doc:"How long to keep people after their last call, API keys after they are revoked or expire, and the links and connections of such callers. Blocked people are kept until they are unblocked."`
}

// Values of Gate.Callers.
const (
	Anyone        = "anyone"        // accepts unauthenticated callers
	Keys          = "keys"          // requires an API key
	AccessTokens  = "tokens"        // requires an access token from an issuer
	Authenticated = "authenticated" // requires an API key or an access token
)

// RequiresAuth reports whether the gate refuses unauthenticated callers.
func (g *Gate) RequiresAuth() bool { return g.Callers != "" && g.Callers != Anyone }

// AcceptsKeys reports whether callers may use API keys.
func (g *Gate) AcceptsKeys() bool { return g.Callers != AccessTokens }

// AcceptsTokens reports whether callers may use access tokens.
func (g *Gate) AcceptsTokens() bool { return g.Callers != Keys }

// NeedsStore reports whether the configuration requires a store.
func (c *Config) NeedsStore() bool {
	if c.Store != "" || len(c.Editable) > 0 || len(c.Packs) > 0 || len(c.Agents) > 0 || len(c.Issuers) > 0 { // packs have journals, and their actions are audited; queries are stored; people can be blocked
		return true
	}
	for _, s := range c.Servers {
		if s.Auth.PerPerson() {
			return true
		}
	}
	for _, r := range c.Rules {
		if r.Then == rules.Ask && r.By == rules.Operator {
			return true
		}
	}
	for kind, context := range c.Context {
		if context.needsStore(kind) {
			return true
		}
	}
	for _, g := range c.Gates {
		if g.Surface == toolyard.Execute || g.RequiresAuth() && g.AcceptsKeys() {
			return true
		}
	}
	return false
}

// Open reports whether any gate accepts unauthenticated callers.
func (c *Config) Open() bool {
	for _, g := range c.Gates {
		if !g.RequiresAuth() {
			return true
		}
	}
	return len(c.Gates) == 0
}

func (c *Config) checkStore(report reportFunc) {
	if s := c.Store; s != "" && s != "memory" && !strings.HasPrefix(s, "sqlite:") {
		if u, err := url.Parse(s); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			report("must be postgres://user@host/database, sqlite:path or memory", "store")
		}
	}
	c.checkContext(report)
	for name, retention := range map[string]Duration{"retention": c.Record.Retention, "auditRetention": c.Record.AuditRetention, "inactiveRetention": c.Record.InactiveRetention} {
		if retention <= 0 {
			report("must be greater than zero", "record", name)
		}
	}
}
