package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/callpath/rules"
)

// Governance configures which calls are denied and which need approval.
type Governance struct {
	Rules     []Rule    `json:"rules,omitempty" maxItems:"1000" doc:"Rules for calls. The strictest matching rule wins, regardless of the order: deny, then ask. Calls that match no rule are allowed."`
	Approvals Approvals `json:"approvals" default:"{}" doc:"How calls wait for an operator's approval."`
}

// Approvals configures how calls wait for an operator.
type Approvals struct {
	Hold Duration `json:"hold" default:"45s" doc:"How long a call waits for an operator's decision before it fails with APPROVAL_REQUIRED, at most 10m. Clients usually wait 60s for a call. The caller can repeat the call later with the same arguments."`
}

// Rule applies an action to the calls that it matches. A call matches if it satisfies every
// condition that is set.
type Rule struct {
	Name string `json:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"The unique name of the rule."`
	RuleMatch
	Then      rules.Action   `json:"then" enum:"deny,ask,allow" doc:"What to do with matching calls: deny refuses them, ask requires approval, and allow exempts them from the ask rules listed under overrides."`
	By        rules.Approver `json:"by" default:"caller" enum:"caller,operator" doc:"Who approves: the user of the calling client, or an operator in the console. If the client can't ask its user, an operator has to approve. Without a store, the call is then refused."`
	Within    Duration       `json:"within" default:"30m" doc:"How long a request for an operator's approval is valid, at most 168h. The approval must also be used within this time."`
	Message   string         `json:"message,omitempty" maxLength:"500" doc:"A message for callers and approvers, such as the reason."`
	Overrides []string       `json:"overrides,omitempty" doc:"For allow: names of the ask rules to skip. You can't override a deny rule."`
}

// RuleMatch is a rule's condition.
type RuleMatch struct {
	Tools       []string      `json:"tools,omitempty" doc:"Tools to match: name for a local tool, server/name for a server's tool. A * at the end matches any suffix."`
	Servers     []string      `json:"servers,omitempty" doc:"Servers to match, by ID."`
	Effects     toolyard.Mode `json:"effects,omitempty" enum:"read,write" doc:"The tool's effects. Unless a tool declares that it only reads, it counts as write."`
	Destructive *bool         `json:"destructive,omitempty" doc:"Match tools by whether they can be destructive. Write tools count as destructive unless their destructiveHint annotation is false."`
	Gates       []string      `json:"gates,omitempty" doc:"Gates to match, by name."`
	Callers     []string      `json:"callers,omitempty" doc:"Callers to match, by ID. A * at the end matches any suffix."`
	Roles       []string      `json:"roles,omitempty" doc:"Match callers whose key has one of these scopes, such as write."`
	Labels      []string      `json:"labels,omitempty" enum:"private,untrusted,egress" doc:"Match tools with one of these labels."`
	PriceOver   *Amount       `json:"priceOver,omitempty" doc:"Match calls that cost more than this, in US dollars, as a string."`
	Depth       int           `json:"depth,omitempty" minimum:"1" maximum:"100" doc:"Match calls that are nested at least this deep. Calls made by scripts have depth 1."`
	Args        SchemaText    `json:"args,omitempty" doc:"A JSON Schema for the caller's arguments, after defaults are filled in. A condition on an argument is also met if the argument is missing, unless the argument is listed under required."`
}

// Amount is an amount of money such as "0.50".
type Amount toolyard.Money

// JSONSchema describes an Amount.
func (Amount) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[0-9]{1,9}(\\.[0-9]{1,9})?$","examples":["0.50"]}`)
}

// MarshalText implements [encoding.TextMarshaler].
func (a Amount) MarshalText() ([]byte, error) { return toolyard.Money(a).MarshalText() }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *Amount) UnmarshalText(text []byte) error {
	usd, err := toolyard.ParseMoney(string(text))
	*a = Amount(usd)
	return err
}

// SchemaText is a JSON Schema.
type SchemaText json.RawMessage

// JSONSchema describes a SchemaText.
func (SchemaText) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// UnmarshalJSON implements [json.Unmarshaler].
func (s *SchemaText) UnmarshalJSON(raw []byte) error {
	*s = slices.Clone(raw)
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (s SchemaText) MarshalJSON() ([]byte, error) { return json.RawMessage(s).MarshalJSON() }

// Rule converts r to a rules.Rule.
func (r *Rule) Rule() rules.Rule {
	m := &r.RuleMatch
	return rules.Rule{
		Name: r.Name, Then: r.Then, By: r.By, Within: r.Within.Std(), Message: r.Message, Overrides: r.Overrides,
		Match: rules.Match{
			Tools: m.Tools, Servers: m.Servers, Effects: m.Effects, Destructive: m.Destructive, Gates: m.Gates, Callers: m.Callers, Roles: m.Roles,
			Labels: m.Labels, PriceOver: (*toolyard.Money)(m.PriceOver), Depth: m.Depth, Args: json.RawMessage(m.Args),
		},
	}
}

// Limits on the time to wait for approval.
const (
	maxHold   = 10 * time.Minute
	maxWithin = 7 * 24 * time.Hour
)

func (c *Config) checkRules(report reportFunc) {
	if hold := c.Approvals.Hold.Std(); hold < 0 || hold > maxHold {
		report("must be between 0s and 10m", "approvals", "hold")
	}
	seen, asks, others := make(map[string]bool), []string{}, make(map[string]rules.Action)
	for _, r := range c.Rules {
		if others[r.Name] = r.Then; r.Then == rules.Ask {
			asks = append(asks, r.Name)
		}
	}
	for i := range c.Rules {
		r, at := &c.Rules[i], fmt.Sprint(i)
		if seen[r.Name] {
			report("duplicate rule name "+r.Name, "rules", at, "name")
		}
		seen[r.Name] = true
		if r.Args != nil {
			if err := rules.CheckArgs(json.RawMessage(r.Args)); err != nil {
				report("invalid schema: "+err.Error(), "rules", at, "args")
			}
		}
		if within := r.Within.Std(); within < time.Second || within > maxWithin {
			report("must be between 1s and 168h", "rules", at, "within")
		}
		checkOverrides(r, at, asks, others, report)
	}
}

func checkOverrides(r *Rule, at string, asks []string, others map[string]rules.Action, report reportFunc) {
	switch {
	case r.Then == rules.Allow && len(r.Overrides) == 0:
		report("has no effect: list the ask rules to skip under overrides", "rules", at, "then")
	case r.Then != rules.Allow && len(r.Overrides) > 0:
		report("only a rule with then: allow can override others", "rules", at, "overrides")
	}
	for n, name := range r.Overrides {
		switch {
		case slices.Contains(asks, name):
		case others[name] == rules.Deny:
			report("is a deny rule, which cannot be overridden", "rules", at, "overrides", fmt.Sprint(n))
		default:
			report(fmt.Sprintf("unknown ask rule %q", name)+spelling.DidYouMean(name, asks), "rules", at, "overrides", fmt.Sprint(n))
		}
	}
}
