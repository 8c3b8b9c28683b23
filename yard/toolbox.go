package yard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/mcpserve"
)

// toolbox is the gate of a call as its tool may use it.
type toolbox struct{ yard *Yard }

// maxDepth is how many calls can be inside of each other.
const maxDepth = 8

// Tools implements [toolyard.Toolbox].
func (b *toolbox) Tools(c *toolyard.Call, server string) ([]toolyard.Bound, error) {
	v, err := b.view(c)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(v.Tools)
	return slices.DeleteFunc(list, func(t toolyard.Bound) bool { return t.Server != server || !usable(c, t.Tool) }), nil
}

// view is what the gate of a call shows now; the gate may have gone since.
func (b *toolbox) view(c *toolyard.Call) (*toolyard.View, error) {
	v, ok := b.yard.server.View(c.Gate)
	if !ok {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown gate: %s", c.Gate)
	}
	return v, nil
}

// usable reports whether the tool of a call may call another one: one that says that it
// only reads cannot have others write.
func usable(c *toolyard.Call, t *toolyard.Tool) bool { return t.ReadsOnly() || !c.Tool.ReadsOnly() }

// CallTool implements [toolyard.Toolbox].
func (b *toolbox) CallTool(ctx context.Context, c *toolyard.Call, server, tool string, args json.RawMessage) (*toolyard.Result, error) {
	if c.Depth+1 >= maxDepth {
		return nil, toolyard.Errorf(toolyard.Denied, "Tools call each other more than %d deep", maxDepth)
	}
	v, err := b.view(c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Tools, func(t toolyard.Bound) bool { return t.Server == server && t.Tool.Name == tool })
	if i < 0 {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown tool: %s", tool)
	}
	if !usable(c, v.Tools[i].Tool) {
		return nil, toolyard.Errorf(toolyard.Denied, "%s says that it only reads, so it cannot call %s, which does not", c.Tool.Name, tool)
	}
	return b.yard.server.Call(ctx, c.Gate, &mcpserve.Request{
		Tool: v.Tools[i].Name, Args: args, Caller: c.Caller, Trace: c.Trace, Log: c.Log, Within: c,
	})
}

// library finds the source of a server's resources, if the gate shows that server.
func (b *toolbox) library(c *toolyard.Call, server string) (toolyard.Library, error) {
	l, ok := b.yard.opts.Sources[server].(toolyard.Library)
	v, there := b.yard.server.View(c.Gate)
	if !ok || !there || !v.Gate.ShowsServer(server) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown server: %s", server)
	}
	return l, nil
}

// Resources implements [toolyard.Toolbox].
func (b *toolbox) Resources(ctx context.Context, c *toolyard.Call, server string) ([]toolyard.ResourceInfo, error) {
	l, err := b.library(c, server)
	if err != nil {
		return nil, err
	}
	return l.Resources(ctx)
}

// ReadResource implements [toolyard.Toolbox].
func (b *toolbox) ReadResource(ctx context.Context, c *toolyard.Call, server, uri string) (json.RawMessage, error) {
	l, err := b.library(c, server)
	if err != nil {
		return nil, err
	}
	return l.ReadResource(ctx, c, uri)
}
