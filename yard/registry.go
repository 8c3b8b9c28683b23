package yard

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/registry"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
)

// registry serves the servers whose tools a caller may see as an MCP registry. It sends
// clients to the gates, not past them.
func (y *Yard) registry() http.Handler {
	return registry.Handler(registry.Options{List: func(r *http.Request) ([]registry.Server, error) {
		caller, err := y.identify(r)
		if err != nil {
			return nil, err
		}
		base := "http://" + r.Host
		if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
			base = "https://" + r.Host
		}
		return y.registered(caller, base), nil
	}})
}

// registered are the servers that a caller may find, and the gates that show them.
func (y *Yard) registered(caller toolyard.Caller, base string) (list []registry.Server) {
	servers, name, listed := y.config.Load().servers, y.config.Load().Name, y.listed()
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		status := servers[id].Brief()
		s := registry.Server{ID: id, Title: cmp.Or(status.Name, id), Version: status.Version, Updated: status.Since.UTC()}
		var tools []string
		for _, at := range listed[id] {
			if y.mayEnter(caller, at.gate) == nil {
				s.URLs = append(s.URLs, base+"/mcp/"+at.gate.Name)
				tools = append(tools, at.tools...)
			}
		}
		if len(s.URLs) == 0 {
			continue
		}
		slices.Sort(tools)
		s.Description = "Tools of " + s.Title + ", through " + name + "."
		s.Meta = map[string]any{"tools": slices.Compact(tools)}
		list = append(list, s)
	}
	return list
}

// listing is what a gate shows of a server.
type listing struct {
	gate  *toolyard.Gate
	tools []string
}

// listings are what the gates show of each server, of one snapshot.
type listings struct {
	of       *httpapi.Snapshot
	byServer map[string][]listing
}

// listed is what the gates show of each server now. It is made once for each snapshot.
func (y *Yard) listed() map[string][]listing {
	now := y.shown.Load()
	if made := y.listings.Load(); made != nil && made.of == now {
		return made.byServer
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
	y.listings.Store(&listings{now, byServer})
	return byServer
}
