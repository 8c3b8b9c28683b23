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
		{Rule: "mode", Text: fmt.Sprintf("the gate is for mode %s, the tool is allowed in %s", g.Mode, modesText(t)), Stops: !t.AllowedIn(g.Mode)},
		g.explainSurface(t),
		{Rule: "toolset", Text: "the gate has none, so it takes everything"},
		{Rule: "name", Text: "it is called " + g.render(g.Naming, t)},
	}
	if steps[0].Stops && t.Server != "" {
		steps[0].Fix = fmt.Sprintf("If it only reads, say so under servers, %s: effects: {%s: read}", t.Server, t.Name)
	}
	if g.Toolset != nil {
		admits := g.takes()(t)
		steps[2].Text, steps[2].Stops = fmt.Sprintf("%s %s", g.Toolset.Name, map[bool]string{true: "takes it", false: "does not take it"}[admits]), !admits
	}
	if name := g.render(g.Naming, t); v.byName[name] != t && g.Visible(t) {
		steps[3] = Step{Rule: "name", Text: "another tool is, or would be, called " + name + " too", Stops: true, Fix: "toolyard check names both."}
	}
	return steps
}

// explainSurface tells what the surface of the gate decides, as the table of eligibility has
// it.
func (g *Gate) explainSurface(t *Tool) Step {
	step := Step{Rule: "surface", Text: fmt.Sprintf("the gate is for surface %s, the tool for %s", cmp.Or(g.Surface, Both), cmp.Or(t.Surface, Both))}
	why := t.unfit(g.Surface)
	switch {
	case why != "":
		step.Text, step.Stops = fmt.Sprintf("the gate is for surface %s: %s", g.Surface, why), true
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

func modesText(t *Tool) string {
	switch {
	case len(t.Modes) == 0:
		return "write only, since nobody says that it only reads"
	case t.ReadsOnly():
		return "read and write"
	}
	return fmt.Sprint(t.Modes)
}
