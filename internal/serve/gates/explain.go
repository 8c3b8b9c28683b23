package gates

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
)

// Step is one decision about whether and how a gate offers a tool.
type Step struct {
	Rule  string `json:"rule"`            // server, definition, pin, tools, effects, mode, surface, toolset, name or offer
	Text  string `json:"text"`            // the decision and its reason
	Stops bool   `json:"stops,omitempty"` // the gate does not offer the tool
	Fails bool   `json:"fails,omitempty"` // the gate offers the tool, but its calls fail
	Fix   string `json:"fix,omitempty"`
}

// Explain returns each rule's decision about a tool, in order.
func (v *View) Explain(t *toolyard.Tool) []Step {
	g := v.Gate
	steps := []Step{
		g.explainMode(t),
		g.explainSurface(t),
		{Rule: "toolset", Text: "the gate has no toolset and offers all tools"},
		{Rule: "name", Text: "its name at the gate is " + g.render(g.Naming, t)},
	}
	switch {
	case AgentOf(t) != "":
		included := slices.Contains(g.Agents, AgentOf(t))
		steps[2] = Step{Rule: "agents", Text: map[bool]string{true: "the gate lists the agent", false: "the gate does not list the agent"}[included], Stops: !included}
		if !included {
			steps[2].Fix = fmt.Sprintf("Add it to gates.%s: agents: [%s]", g.Name, AgentOf(t))
		}
	case g.Toolset == nil && len(g.Agents) > 0:
		steps[2] = Step{Rule: "toolset", Text: "the gate has no toolset and offers only agents", Stops: true}
	case g.Toolset != nil:
		included := g.matcher()(t)
		steps[2].Text, steps[2].Stops = fmt.Sprintf("%s %s", g.Toolset.Name, map[bool]string{true: "includes it", false: "does not include it"}[included]), !included
	}
	switch name := g.render(g.Naming, t); {
	case g.IsMetaTool(name):
		steps[3] = Step{Rule: "name", Text: "the gate's own tool is named " + name, Stops: true, Fix: "Rename the tool, or change naming or offer on the gate."}
	case v.byName[name] != t && g.Visible(t):
		steps[3] = Step{Rule: "name", Text: "another tool is also named " + name, Stops: true, Fix: "Run toolyard check to see both."}
	}
	for _, limit := range append([]toolyard.Limit{t.Limit}, t.Quotas...) {
		if text := Describe(limit); text != "" {
			steps = append(steps, Step{Rule: "rate", Text: text})
		}
	}
	if g.CallerClock {
		steps = append(steps, Step{Rule: "clock", Text: "callers can set the as-of time at this gate"})
	}
	if v.byName[g.render(g.Naming, t)] == t {
		steps = append(steps, v.explainOffer(t)...)
	}
	return steps
}

func (g *Gate) explainMode(t *toolyard.Tool) Step {
	step := Step{Rule: "mode", Stops: !t.AllowedIn(g.Mode)}
	switch {
	case !step.Stops && g.Mode == toolyard.Read:
		step.Text = "the gate and the tool are read-only"
	case !step.Stops:
		step.Text = "the gate allows writes"
	case t.Effects == "":
		step.Text = "the gate is read-only, but the tool is not declared read-only"
	default:
		step.Text = "the gate is read-only, but the tool writes"
	}
	if step.Stops && PackOf(t) == "" {
		step.Fix = "If it only reads, " + declareReadOnly(t)
	}
	return step
}

// declareReadOnly explains how to declare a tool read-only.
func declareReadOnly(t *toolyard.Tool) string {
	switch {
	case t.Server != "":
		return fmt.Sprintf("add to servers.%s: effects: {%s: read}", t.Server, t.Name)
	case t.File != "":
		return `add to ` + t.Origin + `: export const modes = ["read", "write"]`
	}
	return "set Effects: toolyard.ReadOnly in its Spec"
}

func (g *Gate) explainSurface(t *toolyard.Tool) Step {
	step := Step{Rule: "surface", Text: fmt.Sprintf("gate surface: %s, tool surface: %s", cmp.Or(g.Surface, ident.SurfaceBoth), cmp.Or(t.Surface, ident.SurfaceBoth))}
	reason := toolterms.Ineligible(&t.Spec, g.Surface)
	switch {
	case reason != "":
		step.Text, step.Stops = fmt.Sprintf("the gate's surface is %s: %s", g.Surface, reason), true
	case g.Surface == toolyard.Execute:
		step.Text += ", price: " + t.Price.USD.String() + " USD per call"
	}
	if step.Stops && g.Surface == toolyard.Execute && t.Surface != toolyard.Answer {
		step.Fix = fmt.Sprintf(`To sell it, add to %s: {%s: {executeUsd: "0.001"}}`, termsKey(t), t.Name)
	}
	return step
}

// termsKey returns the configuration key for a tool's terms.
func termsKey(t *toolyard.Tool) string {
	if t.Server == "" {
		return "terms"
	}
	return "servers." + t.Server + ".terms"
}
