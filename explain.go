package toolyard

import (
	"cmp"
	"fmt"
	"slices"
)

// Step is one decision on the way of a tool to a gate.
type Step struct {
	Rule  string // what decides: server, definition, pin, tools, effects, mode, surface, toolset, name
	Text  string // what it decided, and why
	Stops bool   // the tool goes no further
}

// Explainer is a Source that can tell what it decided about a tool, also about one that it
// does not offer.
type Explainer interface {
	// Known are the names of all tools that the source has seen.
	Known() []string
	Explain(tool string) []Step
}

// Explain tells what a view decided about a tool: every rule of the gate, in order.
func (v *View) Explain(t *Tool) []Step {
	g := v.Gate
	steps := []Step{
		{"mode", fmt.Sprintf("the gate is for mode %s, the tool is allowed in %s", g.Mode, modesText(t)), !t.AllowedIn(g.Mode)},
		{"surface", fmt.Sprintf("the gate is for surface %s, the tool for %s", cmp.Or(g.Surface, Both), cmp.Or(t.Surface, Both)), !t.eligible(g.Surface)},
	}
	if g.Toolset != nil {
		admits := g.Toolset.admits(t)
		steps = append(steps, Step{"toolset", fmt.Sprintf("%s %s", g.Toolset.Name, map[bool]string{true: "takes it", false: "does not take it"}[admits]), !admits})
	} else {
		steps = append(steps, Step{"toolset", "the gate has none, so it takes everything", false})
	}
	if stopped := slices.ContainsFunc(steps, func(s Step) bool { return s.Stops }); stopped {
		return steps
	}
	name := g.render(g.Naming, t)
	if v.byName[name] == t {
		return append(steps, Step{"name", "it is called " + name, false})
	}
	return append(steps, Step{"name", "another tool would be called " + name + " too", true})
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
