package yard

import (
	"cmp"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath/rules"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/upstream"
)

// View is a snapshot of what a gate offers.
type View struct {
	Gate        string // name of the gate
	Mode        toolyard.Mode
	Surface     toolyard.Surface
	RequireAuth bool // whether the gate refuses unauthenticated callers

	Tools     []NamedTool          // sorted by name
	Resources []*toolyard.Resource // sorted by URI
	Prompts   []NamedPrompt        // sorted by name
	Problems  []toolyard.Problem
	Rules     []AppliedRule // strictest first

	lookup func(name string) (*toolyard.Tool, bool)
	view   *gates.View
}

// Offer returns the kind of tool list at the gate: tools, search or code.
func (v *View) Offer() string { return string(cmp.Or(v.view.Gate.Offer, gates.OfferTools)) }

// IsMetaTool reports whether the name belongs to one of the gate's own tools, such as search_tools.
func (v *View) IsMetaTool(name string) bool { return v.view.Gate.IsMetaTool(name) }

// ListTokens estimates how many tokens the gate's tool list uses in every prompt.
func (v *View) ListTokens() int { return export.ListTokens(v.view) }

// NamedTool is a tool with the name that a gate gives it.
type NamedTool struct {
	Name string
	*toolyard.Tool
}

// AppliedRule is a configured rule that can apply to calls at a gate.
type AppliedRule struct {
	Name  string
	Then  string   // deny, ask or allow
	By    string   // for ask: who approves, caller or operator
	Some  bool     // whether the rule depends on a call's arguments, caller, price or depth
	Tools []string // names of the matching tools at the gate, sorted
}

// NamedPrompt is a prompt with the name that a gate gives it.
type NamedPrompt struct {
	Name string
	*toolyard.Prompt
}

// Lookup finds a tool by its name at the gate, or by its name in another naming scheme if that is
// unambiguous. At a gate that offers code, it also finds the tool that runs code.
func (v *View) Lookup(name string) (*toolyard.Tool, bool) { return v.lookup(name) }

// Step is one decision about whether and how a gate offers a tool.
type Step = upstream.Step

// View returns a gate's current view. The empty name is the gate at /mcp.
func (y *Yard) View(gate string) (*View, bool) {
	v, ok := y.control.View(gate)
	if !ok {
		return nil, false
	}
	view := newView(v)
	view.Rules = appliedRules(y.current.Load().Rules, v)
	return view, true
}

// appliedRules returns the rules that can apply to a view's tools.
func appliedRules(set *rules.Set, v *gates.View) (list []AppliedRule) {
	index := make(map[string]int)
	for _, t := range v.Tools {
		for _, r := range set.ForTool(t.Tool, v.Gate.Name) {
			i, ok := index[r.Name]
			if !ok {
				i = len(list)
				index[r.Name], list = i, append(list, AppliedRule{Name: r.Name, Then: string(r.Then), Some: r.Some})
				if r.Then == rules.Ask {
					list[i].By = string(r.By)
				}
			}
			list[i].Tools = append(list[i].Tools, t.Name)
		}
	}
	order := []string{string(rules.Deny), string(rules.Ask), string(rules.Allow)}
	slices.SortFunc(list, func(a, b AppliedRule) int {
		return cmp.Or(slices.Index(order, a.Then)-slices.Index(order, b.Then), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func newView(v *gates.View) *View {
	view := &View{
		Gate: v.Gate.Name, Mode: v.Gate.Mode, Surface: v.Gate.Surface, RequireAuth: v.Gate.RequireAuth,
		Tools: make([]NamedTool, len(v.Tools)), Resources: v.Resources, Prompts: make([]NamedPrompt, len(v.Prompts)), Problems: v.Problems,
		lookup: lookupIn(v), view: v,
	}
	for i, t := range v.Tools {
		view.Tools[i] = NamedTool{t.Name, t.Tool}
	}
	for i, p := range v.Prompts {
		view.Prompts[i] = NamedPrompt{p.Name, p.Prompt}
	}
	return view
}

// Why returns every decision about a tool at a gate, in order. The tool can be specified by its
// name at the gate, by its own name, or as server/tool.
func (y *Yard) Why(gate, tool string) ([]Step, error) {
	steps, err := y.control.Why(gate, tool)
	list := make([]Step, len(steps))
	for i, s := range steps {
		list[i] = Step(s)
	}
	return list, err
}

func lookupIn(v *gates.View) func(name string) (*toolyard.Tool, bool) {
	return func(name string) (*toolyard.Tool, bool) {
		if name == gates.RunCode && v.Gate.Code != nil {
			return v.Gate.Code, true
		}
		return v.Lookup(name)
	}
}
