package toolyard

import (
	"cmp"
	"fmt"
)

// Step is one decision on the way of a tool to a gate.
type Step struct {
	Rule  string `json:"rule"`            // what decides: server, definition, pin, tools, effects, mode, surface, toolset, name
	Text  string `json:"text"`            // what it decided, and why
	Stops bool   `json:"stops,omitempty"` // the tool goes no further
	Fails bool   `json:"fails,omitempty"` // the tool is shown, but its calls fail
	Fix   string `json:"fix,omitempty"`   // what to do about it
}

// Explain tells what a view decided about a tool: every rule of the gate, in order.
func (v *View) Explain(t *Tool) []Step {
	g := v.Gate
	steps := []Step{
		g.explainMode(t),
		g.explainSurface(t),
		{Rule: "toolset", Text: "the gate has none and offers all tools"},
		{Rule: "name", Text: "the gate calls it " + g.render(g.Naming, t)},
	}
	if g.Toolset != nil {
		admits := g.takes()(t)
		steps[2].Text, steps[2].Stops = fmt.Sprintf("%s %s", g.Toolset.Name, map[bool]string{true: "includes it", false: "does not include it"}[admits]), !admits
	}
	if name := g.render(g.Naming, t); v.byName[name] != t && g.Visible(t) {
		steps[3] = Step{Rule: "name", Text: "another tool has the name " + name + " too", Stops: true, Fix: "Run toolyard check to see both."}
	}
	return steps
}

// explainMode tells what the mode of the gate decides.
func (g *Gate) explainMode(t *Tool) Step {
	step := Step{Rule: "mode", Stops: !t.AllowedIn(g.Mode)}
	switch {
	case !step.Stops && g.Mode == Read:
		step.Text = "the gate is read-only, and the tool only reads"
	case !step.Stops:
		step.Text = "the gate allows writes"
	case len(t.Modes) == 0:
		step.Text = "the gate is read-only, and the tool does not declare that it only reads"
	default:
		step.Text = "the gate is read-only, and the tool writes"
	}
	if step.Stops {
		step.Fix = "If it only reads, " + t.declareRead()
	}
	return step
}

// explainSurface tells what the surface of the gate decides, as the table of eligibility has
// it.
func (g *Gate) explainSurface(t *Tool) Step {
	step := Step{Rule: "surface", Text: fmt.Sprintf("the gate offers surface %s, the tool %s", cmp.Or(g.Surface, Both), cmp.Or(t.Surface, Both))}
	why := t.unfit(g.Surface)
	switch {
	case why != "":
		step.Text, step.Stops = fmt.Sprintf("the gate offers surface %s: %s", g.Surface, why), true
	case g.Surface == Execute:
		step.Text += ", and a call costs " + t.Price.USD.String() + " USD"
	}
	if step.Stops && g.Surface == Execute && t.Surface != Answer {
		step.Fix = fmt.Sprintf(`To sell it, say under %s: {%s: {executeUsd: "0.001"}}`, termsKey(t), t.Name)
	}
	return step
}

// termsKey is where the operator says the terms of a tool.
func termsKey(t *Tool) string {
	if t.Server == "" {
		return "terms"
	}
	return "servers, " + t.Server + ", terms"
}

// declareRead says how to declare that a tool only reads.
func (t *Tool) declareRead() string {
	switch {
	case t.Server != "":
		return fmt.Sprintf("say so under servers, %s: effects: {%s: read}", t.Server, t.Name)
	case t.File != "":
		return `add to ` + t.Origin + `: export const modes = ["read"]`
	}
	return "set Modes: toolyard.ReadOnly in its Spec"
}
