package control

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/registry"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
)

// Registry serves the upstream servers whose tools a caller may see as an MCP registry. Its entries
// point to the gates, never to the servers themselves.
func (c *Control) Registry() http.Handler {
	return registry.Handler(registry.Options{List: func(r *http.Request) ([]registry.Server, error) {
		caller, err := c.yard.Identify(r)
		if err != nil {
			return nil, err
		}
		base := "http://" + r.Host
		if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
			base = "https://" + r.Host
		}
		return c.registryEntries(caller, base), nil
	}})
}

func (c *Control) registryEntries(caller toolyard.Caller, base string) (list []registry.Server) {
	state, listed := c.yard.State(), c.listingsByServer()
	for _, id := range slices.Sorted(maps.Keys(state.Upstreams)) {
		status := state.Upstreams[id].Summary()
		s := registry.Server{ID: id, Title: cmp.Or(status.Name, id), Version: status.Version, Updated: status.Since.UTC()}
		var tools []string
		for _, at := range listed[id] {
			if c.yard.Authorize(caller, at.gate) == nil {
				s.URLs = append(s.URLs, base+"/mcp/"+at.gate.Name)
				tools = append(tools, at.tools...)
			}
		}
		if len(s.URLs) == 0 {
			continue
		}
		slices.Sort(tools)
		s.Description = "The tools of " + s.Title + ", served by " + state.Name + "."
		s.Meta = map[string]any{"tools": slices.Compact(tools)}
		list = append(list, s)
	}
	return list
}

// listing contains the tools of a server that a gate shows.
type listing struct {
	gate  *gates.Gate
	tools []string
}

// listings caches a snapshot's listings.
type listings struct {
	of       *httpapi.Snapshot
	byServer map[string][]listing
}

func (c *Control) listingsByServer() map[string][]listing {
	now := c.yard.Snapshot()
	if cached := c.listings.Load(); cached != nil && cached.of == now {
		return cached.byServer
	}
	byServer := make(map[string][]listing)
	for _, v := range now.Views {
		tools := make(map[string][]string)
		for _, t := range v.Tools {
			if t.Server != "" {
				tools[t.Server] = append(tools[t.Server], t.Tool.Name)
			}
		}
		for server, names := range tools {
			byServer[server] = append(byServer[server], listing{v.Gate, names})
		}
	}
	c.listings.Store(&listings{now, byServer})
	return byServer
}
