package control

import (
	"context"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// Execute makes a call requested through the HTTP API. It takes the same call path as every other
// call.
func (c *Control) Execute(ctx context.Context, r *serve.CallRequest) (outcome serve.CallOutcome, err error) {
	v, ok := c.View(r.Gate)
	switch {
	case !ok && r.Gate == "":
		return outcome, toolyard.Errorf(toolyard.Invalid, "Specify a gate: %s.", strings.Join(c.opts.MCP.Gates(), ", "))
	case !ok:
		return outcome, toolyard.Errorf(toolyard.NotFound, "Gate %s not found.", r.Gate)
	}
	if err := c.yard.Authorize(r.Caller, v.Gate); err != nil {
		return outcome, err
	}
	if _, known := v.Lookup(r.Tool); !known {
		return outcome, unknownTool(v, r.Tool)
	}
	r.Gate = v.Gate.Name
	return c.opts.MCP.CallInteractive(ctx, r)
}

// unknownTool returns the error for a tool that a gate does not show. It suggests the tool's name
// at the gate or the most similar name.
func unknownTool(v *gates.View, name string) error {
	names := make([]string, 0, len(v.Tools))
	for _, t := range v.Tools {
		if t.Tool.Name == name {
			return toolyard.Errorf(toolyard.UnknownTool, "At gate %s, tool %s is named %s.", v.Gate.Name, name, t.Name)
		}
		names = append(names, t.Name)
	}
	return toolyard.Errorf(toolyard.UnknownTool, "Unknown tool %q at gate %s%s.", name, v.Gate.Name, spelling.DidYouMean(name, names))
}
