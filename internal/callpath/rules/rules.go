// Package rules decides which calls an operator's rules deny and which need approval. Package
// callpath enforces the decisions.
package rules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/jsonschema"
)

// Action is a rule's effect on matching calls.
type Action string

// The actions, strictest first.
const (
	Deny  Action = "deny"
	Ask   Action = "ask"
	Allow Action = "allow" // exempts calls from Ask rules
)

// Approver specifies who approves a call.
type Approver string

// The approvers. If matching rules require both, the operator decides.
const (
	Caller   Approver = "caller"   // the user of the calling client
	Operator Approver = "operator" // anyone whose key has the scope approver or operator
)

// Rule applies an action to the calls that it matches.
type Rule struct {
	Name      string
	Match     Match
	Then      Action
	By        Approver      // Ask only
	Within    time.Duration // Ask only: lifetime of an approval request
	Message   string        // shown to callers and approvers; may be empty
	Overrides []string      // Allow only: names of Ask rules
}

// Match is a rule's condition. A call matches if it satisfies every field that is set; a field with
// several values is satisfied by any of them.
type Match struct {
	Tools       []string // "name" for a local tool, or "server/name"; a trailing * matches any suffix
	Servers     []string
	Effects     toolyard.Mode // Read or Write
	Destructive *bool         // writes are destructive unless their annotations deny it
	Gates       []string
	Callers     []string // a trailing * matches any suffix
	Roles       []string
	Labels      []string
	PriceOver   *toolyard.Money
	Depth       int             // minimum nesting depth
	Args        json.RawMessage // JSON Schema for the caller's arguments, including defaults
}

// Set is a compiled set of rules. A nil Set has no rules.
type Set struct{ rules []*compiled }

type compiled struct {
	Rule
	args   *jsonschema.Schema // nil matches any arguments
	digest [sha256.Size]byte
}

// New compiles rules. The result is nil if there are none.
func New(list []Rule) (*Set, error) {
	if len(list) == 0 {
		return nil, nil
	}
	s := &Set{}
	for _, r := range list {
		c := &compiled{Rule: r, digest: digest(r)}
		if r.Match.Args != nil {
			var err error
			if c.args, err = jsonschema.Compile(r.Match.Args); err != nil {
				return nil, fmt.Errorf("rule %s: args: %w", r.Name, err)
			}
		}
		s.rules = append(s.rules, c)
	}
	return s, nil
}

// CheckArgs returns an error if an argument schema cannot be compiled.
func CheckArgs(schema json.RawMessage) error {
	_, err := jsonschema.Compile(schema)
	return err
}

// digest returns a hash of a rule's content.
func digest(r Rule) [sha256.Size]byte {
	raw, _ := json.Marshal(r) // cannot fail: all fields are encodable, and the schema was decoded from JSON
	return sha256.Sum256(raw)
}

// Verdict is the decision about a call. The zero value allows it.
type Verdict struct {
	Action Action        // Deny or Ask; empty if the call may run
	By     Approver      // Ask only
	Within time.Duration // Ask only: the shortest among the rules
	Rules  []Matched     // rules with this action, sorted by name
}

// Matched identifies a rule that matches a call.
type Matched struct {
	Name    string
	Message string
	Digest  [sha256.Size]byte // hash of the rule's content
}

// Names returns the rules' names, for messages.
func (v *Verdict) Names() string {
	names := make([]string, len(v.Rules))
	for i, r := range v.Rules {
		names[i] = r.Name
	}
	return strings.Join(names, ", ")
}

// Message returns the rules' messages, one per line.
func (v *Verdict) Message() string {
	var lines []string
	for _, r := range v.Rules {
		if r.Message != "" && !slices.Contains(lines, r.Message) {
			lines = append(lines, r.Message)
		}
	}
	return strings.Join(lines, "\n")
}

// Digest returns a hash of the rules' names and content.
func (v *Verdict) Digest() [sha256.Size]byte {
	h := sha256.New()
	for _, r := range v.Rules {
		fmt.Fprintf(h, "%q %x\n", r.Name, r.Digest)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Decide returns the verdict for a call whose arguments are validated. The strictest action wins,
// regardless of the order of the rules. Rules match only the caller's own arguments, not injected
// ones. If the arguments cannot be evaluated within the limits, they match every rule except Allow
// rules.
func (s *Set) Decide(ctx context.Context, c *toolyard.Call, price toolyard.Money) Verdict {
	if s == nil {
		return Verdict{}
	}
	f := facts{call: c, price: price}
	var denies, asks []*compiled
	var overridden []string
	for _, r := range s.rules {
		if !r.matches(ctx, &f) {
			continue
		}
		switch r.Then {
		case Deny:
			denies = append(denies, r)
		case Ask:
			asks = append(asks, r)
		case Allow:
			overridden = append(overridden, r.Overrides...)
		}
	}
	if len(denies) > 0 {
		return verdict(Deny, denies)
	}
	asks = slices.DeleteFunc(asks, func(r *compiled) bool { return slices.Contains(overridden, r.Name) })
	if len(asks) == 0 {
		return Verdict{}
	}
	return verdict(Ask, asks)
}

func verdict(a Action, list []*compiled) Verdict {
	slices.SortFunc(list, func(a, b *compiled) int { return cmp.Compare(a.Name, b.Name) })
	v := Verdict{Action: a}
	if a == Ask {
		v.By, v.Within = Caller, list[0].Within
	}
	for _, r := range list {
		v.Rules = append(v.Rules, Matched{r.Name, r.Message, r.digest})
		v.Within = min(v.Within, r.Within)
		if a == Ask && r.By == Operator {
			v.By = Operator
		}
	}
	return v
}

// facts are the properties of a call that rules match. Expensive properties are computed on first
// use.
type facts struct {
	call  *toolyard.Call
	price toolyard.Money
	args  json.RawMessage // computed on first use
}

func (f *facts) callerArgs() json.RawMessage {
	if f.args == nil {
		f.args = f.call.CallerArgs()
	}
	return f.args
}

func (r *compiled) matches(ctx context.Context, f *facts) bool {
	m, c := &r.Match, f.call
	return m.matchesTool(c.Tool, c.Gate) &&
		(len(m.Callers) == 0 || slices.ContainsFunc(m.Callers, func(p string) bool { return MatchesName(p, c.Caller.ID) })) &&
		(len(m.Roles) == 0 || slices.ContainsFunc(m.Roles, func(role string) bool { return slices.Contains(c.Caller.Roles, role) })) &&
		(m.PriceOver == nil || f.price > *m.PriceOver) &&
		c.Depth >= m.Depth &&
		r.matchesArgs(ctx, f)
}

func (r *compiled) matchesArgs(ctx context.Context, f *facts) bool {
	if r.args == nil {
		return true
	}
	issues, err := r.args.Validate(ctx, f.callerArgs())
	if err != nil {
		return r.Then != Allow
	}
	return len(issues) == 0
}

// matchesTool reports whether calls to a tool at a gate can match.
func (m *Match) matchesTool(t *toolyard.Tool, gate string) bool {
	return (len(m.Gates) == 0 || slices.Contains(m.Gates, gate)) &&
		(len(m.Tools) == 0 || slices.ContainsFunc(m.Tools, func(p string) bool { return MatchesTool(p, t) })) &&
		(len(m.Servers) == 0 || t.Server != "" && slices.Contains(m.Servers, t.Server)) &&
		(m.Effects == "" || (m.Effects == toolyard.Read) == t.IsReadOnly()) &&
		(m.Destructive == nil || *m.Destructive == destructive(t)) &&
		(len(m.Labels) == 0 || slices.ContainsFunc(t.Labels, func(label string) bool { return slices.Contains(m.Labels, label) }))
}

// MatchesTool reports whether a pattern matches a tool. A pattern is "name" for a local tool or
// "server/name"; a trailing * matches any suffix.
func MatchesTool(pattern string, t *toolyard.Tool) bool {
	server, name, qualified := strings.Cut(pattern, "/")
	if !qualified {
		return t.Server == "" && MatchesName(pattern, t.Name)
	}
	return t.Server == server && MatchesName(name, t.Name)
}

// MatchesName reports whether a pattern matches a name. A trailing * matches any suffix.
func MatchesName(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// destructive reports whether a tool may be destructive, as MCP defines it: every write tool is,
// unless its annotations deny it.
func destructive(t *toolyard.Tool) bool {
	if t.IsReadOnly() {
		return false
	}
	var hints struct {
		Destructive *bool `json:"destructiveHint"`
	}
	if raw := t.Extra["annotations"]; raw != nil && json.Unmarshal(raw, &hints) != nil {
		return true
	}
	return hints.Destructive == nil || *hints.Destructive
}

// ToolRule is a rule that can apply to a tool at a gate.
type ToolRule struct {
	Name string
	Then Action
	By   Approver // Ask only
	Some bool     // depends on the call's arguments, caller, price or depth
}

// ForTool returns the rules that can apply to calls to a tool at a gate, strictest first.
func (s *Set) ForTool(t *toolyard.Tool, gate string) (list []ToolRule) {
	if s == nil {
		return nil
	}
	for _, r := range s.rules {
		if m := &r.Match; m.matchesTool(t, gate) {
			some := len(m.Callers)+len(m.Roles) > 0 || m.PriceOver != nil || m.Depth > 0 || r.args != nil
			list = append(list, ToolRule{r.Name, r.Then, r.By, some})
		}
	}
	order := map[Action]int{Deny: 0, Ask: 1, Allow: 2}
	slices.SortStableFunc(list, func(a, b ToolRule) int {
		return cmp.Or(cmp.Compare(order[a.Then], order[b.Then]), cmp.Compare(a.Name, b.Name))
	})
	return list
}
