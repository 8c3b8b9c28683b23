package yard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
)

// toolbox is the gate of a call as its tool may use it.
type toolbox struct{ yard *Yard }

// maxDepth is how many calls can be inside of each other.
const maxDepth = 8

// Tools implements [toolyard.Toolbox].
func (b *toolbox) Tools(c *toolyard.Call, server string) ([]toolyard.NamedTool, error) {
	v, err := b.view(c)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(v.Tools)
	return slices.DeleteFunc(list, func(t toolyard.NamedTool) bool { return t.Server != server || !usable(c, t.Tool) }), nil
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
func usable(c *toolyard.Call, t *toolyard.Tool) bool { return t.IsReadOnly() || !c.Tool.IsReadOnly() }

// CallTool implements [toolyard.Toolbox].
func (b *toolbox) CallTool(ctx context.Context, c *toolyard.Call, server, tool string, args json.RawMessage) (*toolyard.Result, error) {
	if c.Depth+1 >= maxDepth {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "Tools call each other more than %d deep", maxDepth)
	}
	v, err := b.view(c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Tools, func(t toolyard.NamedTool) bool { return t.Server == server && t.Tool.Name == tool })
	if i < 0 {
		return nil, toolyard.Errorf(toolyard.UnknownTool, "Unknown tool: %s", tool)
	}
	if !usable(c, v.Tools[i].Tool) {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "%s says that it only reads, so it cannot call %s, which does not", c.Tool.Name, tool)
	}
	return b.yard.server.Call(ctx, c.Gate, &mcpserver.Request{
		Tool: v.Tools[i].Name, Args: args, Caller: c.Caller, Trace: c.Trace, Log: c.Log, Within: c,
	})
}

// shown is the view of a call's gate, if it shows anything of the server.
func (b *toolbox) shown(c *toolyard.Call, server string) (*toolyard.View, error) {
	v, err := b.view(c)
	if err == nil && (!v.Gate.ShowsServer(server) || !b.knows(server)) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown server: %s", server)
	}
	return v, err
}

// knows reports whether there is such a server.
func (b *toolbox) knows(server string) bool {
	offer := b.yard.catalog.Now().Offer
	return b.yard.config.Load().servers[server] != nil || slices.ContainsFunc(offer.Tools, func(t *toolyard.Tool) bool { return t.Server == server }) ||
		slices.ContainsFunc(offer.Resources, func(r *toolyard.Resource) bool { return r.Server == server })
}

// Resources implements [toolyard.Toolbox].
func (b *toolbox) Resources(c *toolyard.Call, server string) ([]*toolyard.Resource, error) {
	v, err := b.shown(c, server)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(v.Resources)
	return slices.DeleteFunc(list, func(r *toolyard.Resource) bool { return r.Server != server || r.Template || r.Unlisted }), nil
}

// ReadResource implements [toolyard.Toolbox].
func (b *toolbox) ReadResource(ctx context.Context, c *toolyard.Call, server, uri string) (json.RawMessage, error) {
	v, err := b.shown(c, server)
	if err != nil {
		return nil, err
	}
	if r, ok := v.ReadResource(uri); !ok || r.Server != server {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
	}
	res, err := b.yard.server.ReadResource(ctx, c.Gate, uri, &mcpserver.Request{Caller: c.Caller, Trace: c.Trace, Log: c.Log, Within: c})
	if err != nil {
		return nil, err
	}
	return res.MarshalJSON()
}
