package yard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
)

// Servers are the MCP servers of the configuration, by id.
func (y *Yard) Servers() map[string]*upstream.Server {
	servers := make(map[string]*upstream.Server)
	for id, s := range y.config.Load().servers {
		servers[id] = s.Server
	}
	return servers
}

// Tools are all tools of the catalog, whatever gate shows them.
func (y *Yard) Tools() []*toolyard.Tool { return y.offer().Tools }

// Why tells everything that was decided about a tool at a gate, in order. The tool is
// named as the gate shows it, by its own name, or by server/tool.
func (y *Yard) Why(gate, tool string) ([]toolyard.Step, error) {
	v, ok := y.View(gate)
	if !ok {
		return nil, fmt.Errorf("unknown gate %s", gate)
	}
	means := func(server, name string) bool {
		return tool == name || tool == server+"/"+name || tool == v.Gate.Naming.Render(v.Gate.Yard, server, name)
	}
	servers := y.Servers()
	for _, t := range y.offer().Tools {
		if !means(t.Server, t.Name) {
			continue
		}
		steps := []toolyard.Step{{Rule: "source", Text: t.Origin}}
		if s := servers[t.Server]; s != nil {
			steps = s.Explain(t.Name)
		}
		return append(steps, v.Explain(t)...), nil
	}
	if id, name, ok := strings.Cut(tool, "/"); ok && servers[id] != nil {
		return servers[id].Explain(name), nil
	}
	names := []string{}
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		for _, name := range servers[id].Known() {
			if means(id, name) {
				return servers[id].Explain(name), nil
			}
			names = append(names, id+"/"+name)
		}
	}
	for _, t := range y.offer().Tools {
		names = append(names, t.Name, v.Gate.Naming.Render(v.Gate.Yard, t.Server, t.Name))
	}
	if near := toolyard.Nearest(tool, names); near != "" {
		return nil, fmt.Errorf("unknown tool %q (did you mean %q?)", tool, near)
	}
	return nil, fmt.Errorf("unknown tool %q", tool)
}

// Settle waits until the named servers, or all, were tried once, and shows what came of it.
// It ends with ctx.
func (y *Yard) Settle(ctx context.Context, ids ...string) {
	for id, s := range y.config.Load().servers {
		if len(ids) == 0 || slices.Contains(ids, id) {
			s.Settle(ctx)
		}
	}
	y.catalog.Flush()
	y.publish()
}
