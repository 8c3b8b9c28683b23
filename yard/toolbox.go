package yard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// toolbox lets a tool call other tools and read resources at its own call's gate.
type toolbox struct{ *publisher }

// maxDepth limits how deeply calls can be nested.
const maxDepth = 8

func tooDeep() error {
	return toolyard.Errorf(toolyard.PermissionDenied, "Calls are nested more than %d levels deep.", maxDepth)
}

// Tools implements [toolyard.Toolbox].
func (b *toolbox) Tools(c *toolyard.Call, server string) ([]*toolyard.Tool, error) {
	v, err := b.gateView(c)
	if err != nil {
		return nil, err
	}
	var list []*toolyard.Tool
	for _, t := range v.Tools {
		if t.Server == server && usable(c, t.Tool) {
			list = append(list, t.Tool)
		}
	}
	return list, nil
}

// gateView returns the current view of the call's gate, which a reload may have removed.
func (b *toolbox) gateView(c *toolyard.Call) (*gates.View, error) {
	v, ok := b.server.View(c.Gate)
	if !ok {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown gate: %s", c.Gate)
	}
	return v, nil
}

// usable reports whether the call's tool may call another tool. A read-only tool may not
// call one that writes.
func usable(c *toolyard.Call, t *toolyard.Tool) bool { return t.IsReadOnly() || !c.Tool.IsReadOnly() }

// CallTool implements [toolyard.Toolbox].
func (b *toolbox) CallTool(ctx context.Context, c *toolyard.Call, server, tool string, args json.RawMessage) (*toolyard.Result, error) {
	if c.Depth+1 >= maxDepth {
		return nil, tooDeep()
	}
	v, err := b.gateView(c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Tools, func(t gates.NamedTool) bool { return t.Server == server && t.Tool.Name == tool })
	if i < 0 {
		return nil, toolyard.Errorf(toolyard.UnknownTool, "Unknown tool: %s", tool)
	}
	if !usable(c, v.Tools[i].Tool) {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "%s is read-only and cannot call %s, which can write.", c.Tool.Name, tool)
	}
	return b.server.Call(ctx, &serve.CallRequest{
		Gate: c.Gate, Tool: v.Tools[i].Name, Args: args, Caller: c.Caller, Request: toolyard.Request{Trace: c.Trace}, Log: c.Log, Parent: c,
	})
}

// serverView returns the view of the call's gate if the gate shows the server.
func (b *toolbox) serverView(c *toolyard.Call, server string) (*gates.View, error) {
	v, err := b.gateView(c)
	if err == nil && (!v.Gate.ShowsServer(server) || !b.hasServer(server)) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown server: %s", server)
	}
	return v, err
}

func (b *toolbox) hasServer(server string) bool {
	offer := b.catalog.Now().Offer
	return b.current.Load().upstreams[server] != nil || slices.ContainsFunc(offer.Tools, func(t *toolyard.Tool) bool { return t.Server == server }) ||
		slices.ContainsFunc(offer.Resources, func(r *toolyard.Resource) bool { return r.Server == server })
}

// Resources implements [toolyard.Toolbox].
func (b *toolbox) Resources(c *toolyard.Call, server string) ([]*toolyard.Resource, error) {
	v, err := b.serverView(c, server)
	if err != nil {
		return nil, err
	}
	list := slices.Clone(v.Resources)
	return slices.DeleteFunc(list, func(r *toolyard.Resource) bool { return r.Server != server || r.Template || r.Unlisted }), nil
}

// ReadResource implements [toolyard.Toolbox].
func (b *toolbox) ReadResource(ctx context.Context, c *toolyard.Call, server, uri string) (json.RawMessage, error) {
	v, err := b.serverView(c, server)
	if err != nil {
		return nil, err
	}
	if r, ok := v.ReadResource(uri); !ok || r.Server != server {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
	}
	res, err := b.server.ReadResource(ctx, uri, &serve.CallRequest{Gate: c.Gate, Caller: c.Caller, Request: toolyard.Request{Trace: c.Trace}, Log: c.Log, Parent: c})
	if err != nil {
		return nil, err
	}
	return res.MarshalJSON()
}
