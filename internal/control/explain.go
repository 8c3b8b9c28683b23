package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/callpath/rules"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/upstream"
)

// Explain implements [httpapi.Yard].
func (c *Control) Explain(server, tool string) []gates.Step {
	if s := c.yard.State().Upstreams[server]; s != nil {
		return explainServer(s, tool)
	}
	return []gates.Step{{Rule: "source", Text: server}}
}

func explainServer(s *upstream.Server, tool string) (steps []gates.Step) {
	for _, step := range s.Explain(tool) {
		steps = append(steps, gates.Step(step))
	}
	return steps
}

// Why returns every decision about a tool at a gate, in order. tool is its name at the gate, its
// own name, or server/tool.
func (c *Control) Why(gate, tool string) ([]gates.Step, error) {
	v, ok := c.View(gate)
	if !ok {
		return nil, fmt.Errorf("unknown gate %q", gate)
	}
	matches := func(server, name string) bool {
		return tool == name || tool == server+"/"+name || tool == v.Gate.Naming.Render(v.Gate.Yard, server, name)
	}
	servers, tools := c.yard.State().Upstreams, c.yard.Offer().Tools
	for _, t := range tools {
		if !matches(t.Server, t.Name) {
			continue
		}
		steps := []gates.Step{{Rule: "source", Text: t.Origin}}
		if s := servers[t.Server]; s != nil {
			steps = explainServer(s, t.Name)
		}
		steps = append(steps, v.Explain(t)...)
		steps = append(steps, c.explainWiderLimits(v.Gate.Name, t)...)
		return append(steps, explainRules(c.yard.State().Rules, v.Gate.Name, t)...), nil
	}
	if id, name, ok := strings.Cut(tool, "/"); ok && servers[id] != nil {
		return explainServer(servers[id], name), nil
	}
	names := []string{}
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		for _, name := range servers[id].DefinitionNames() {
			if matches(id, name) {
				return explainServer(servers[id], name), nil
			}
			names = append(names, id+"/"+name)
		}
	}
	for _, t := range tools {
		names = append(names, t.Name, v.Gate.Naming.Render(v.Gate.Yard, t.Server, t.Name))
	}
	return nil, fmt.Errorf("unknown tool %q%s", tool, spelling.DidYouMean(tool, names))
}

// explainWiderLimits returns a step for each limit of a tool's gate and server, and for each of its
// spend limits.
func (c *Control) explainWiderLimits(gate string, t *toolyard.Tool) (steps []gates.Step) {
	s := c.yard.State()
	for _, limit := range s.Config.Gates[gate].Rate.Limits() {
		steps = append(steps, gates.Step{Rule: "rate", Text: "all calls at gate " + gate + ": " + gates.Describe(limit)})
	}
	for _, limit := range s.Servers[t.Server].Rate.Limits() {
		steps = append(steps, gates.Step{Rule: "rate", Text: "all calls to server " + t.Server + ": " + gates.Describe(limit)})
	}
	for _, l := range s.SpendLimitsOf(gate, t) {
		text := fmt.Sprintf("%s: at most %s USD per %s", l.Name, l.Max, l.Period)
		if l.Per != "" {
			text += ", for each " + l.Per
		}
		steps = append(steps, gates.Step{Rule: "spend", Text: text})
	}
	return steps
}

// explainRules returns a step for each rule that can apply to calls to a tool at a gate.
func explainRules(set *rules.Set, gate string, t *toolyard.Tool) (steps []gates.Step) {
	for _, r := range set.ForTool(t, gate) {
		text := map[rules.Action]string{
			rules.Deny: "its calls are denied", rules.Ask: "its calls require the approval of the " + string(r.By), rules.Allow: "its calls are exempt from other rules",
		}[r.Then]
		if r.Some {
			text += " (this depends on the arguments, the caller or the price)"
		}
		steps = append(steps, gates.Step{Rule: "rules", Text: r.Name + ": " + text, Fails: r.Then == rules.Deny && !r.Some})
	}
	return steps
}
