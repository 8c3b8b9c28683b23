package yard

import (
	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/upstream"
)

// View is what a gate offers at one moment.
type View struct {
	Gate        string // name of the gate
	Mode        toolyard.Mode
	Surface     toolyard.Surface
	RequireAuth bool // whether the gate refuses unauthenticated callers

	Tools     []NamedTool          // sorted by name
	Resources []*toolyard.Resource // sorted by URI
	Prompts   []NamedPrompt        // sorted by name
	Problems  []toolyard.Problem

	lookup func(name string) (*toolyard.Tool, bool)
}

// NamedTool is a tool with the name that a gate gives it.
type NamedTool struct {
	Name string
	*toolyard.Tool
}

// NamedPrompt is a prompt with the name that a gate gives it.
type NamedPrompt struct {
	Name string
	*toolyard.Prompt
}

// Lookup finds a tool by the name that the gate shows, or by its name in another scheme if that is
// unambiguous.
func (v *View) Lookup(name string) (*toolyard.Tool, bool) { return v.lookup(name) }

// Step is one decision about whether and how a gate offers a tool.
type Step = upstream.Step

// View returns what a gate shows. The empty name is the gate at /mcp.
func (y *Yard) View(gate string) (*View, bool) {
	v, ok := y.control.View(gate)
	if !ok {
		return nil, false
	}
	return newView(v), true
}

func newView(v *gates.View) *View {
	view := &View{
		Gate: v.Gate.Name, Mode: v.Gate.Mode, Surface: v.Gate.Surface, RequireAuth: v.Gate.RequireAuth,
		Tools: make([]NamedTool, len(v.Tools)), Resources: v.Resources, Prompts: make([]NamedPrompt, len(v.Prompts)), Problems: v.Problems,
		lookup: v.Lookup,
	}
	for i, t := range v.Tools {
		view.Tools[i] = NamedTool{t.Name, t.Tool}
	}
	for i, p := range v.Prompts {
		view.Prompts[i] = NamedPrompt{p.Name, p.Prompt}
	}
	return view
}

// Why returns every decision about a tool at a gate, in order. The tool is named as the gate
// shows it, by its own name, or by server/tool.
func (y *Yard) Why(gate, tool string) ([]Step, error) {
	steps, err := y.control.Why(gate, tool)
	list := make([]Step, len(steps))
	for i, s := range steps {
		list[i] = Step(s)
	}
	return list, err
}
