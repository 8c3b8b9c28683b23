package gates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
)

// NamedPrompt is a prompt and its name at a gate.
type NamedPrompt struct {
	Name string
	*toolyard.Prompt
}

// ReadResource finds the resource for a URI: the resource itself, or the template with the longest
// prefix. It refuses a URI that two servers claim, because neither may impersonate the other.
func (v *View) ReadResource(uri string) (*toolyard.Resource, bool) {
	var best *toolyard.Resource
	for _, r := range v.Resources {
		if !r.Covers(uri) || !v.Gate.offers(&toolyard.Resource{Server: r.Server, URI: uri, Reader: r.Reader}) {
			continue
		}
		if best != nil && best.Server != r.Server {
			return nil, false
		}
		if best == nil || best.Template && (!r.Template || len(r.Prefix()) > len(best.Prefix())) {
			best = r
		}
	}
	return best, best != nil
}

// GetPrompt finds a prompt by its name at the gate.
func (v *View) GetPrompt(name string) (*toolyard.Prompt, bool) {
	for _, p := range v.Prompts {
		if p.Name == name {
			return p.Prompt, true
		}
	}
	return nil, false
}

// evidenceURI is the prefix of evidence URIs, which gates with agents offer.
const evidenceURI = "toolyard://evidence/"

// offers reports whether the gate's toolset includes a resource.
func (g *Gate) offers(r *toolyard.Resource) bool {
	if r.Server == "" && strings.HasPrefix(r.URI, evidenceURI) {
		return len(g.Agents) > 0
	}
	if g.Toolset == nil {
		return len(g.Agents) == 0
	}
	return g.Toolset.includesPackOf(r.Reader) || slices.ContainsFunc(g.Toolset.Servers, func(p ServerPick) bool {
		return p.ID == r.Server && r.MatchesAny(p.Resources)
	})
}

// bindResources adds the resources in the toolset. A URI that several servers offer is ambiguous,
// so it stays with the server that had it in the previous view, or is left out.
func (v *View) bindResources(all []*toolyard.Resource, previous *View) {
	byURI := make(map[string][]*toolyard.Resource)
	for _, r := range all {
		if v.Gate.offers(r) && r.Reader.AllowedIn(v.Gate.Mode) {
			byURI[r.URI] = append(byURI[r.URI], r)
		}
	}
	conflicts := make(map[uriConflict][]string)
	for uri, same := range byURI {
		r := previous.resourceHolder(uri, same)
		if r != nil {
			v.Resources = append(v.Resources, r)
		}
		if len(same) > 1 {
			c := newURIConflict(same, r)
			conflicts[c] = append(conflicts[c], uri)
		}
	}
	for c, uris := range conflicts {
		v.Problems = append(v.Problems, c.problem(v.Gate, uris))
	}
	slices.SortFunc(v.Resources, func(a, b *toolyard.Resource) int { return strings.Compare(a.URI, b.URI) })
}

// uriConflict groups URIs that the same servers offer. They are reported as one problem, because
// the cause is most likely one server under several IDs.
type uriConflict struct {
	servers string // the servers' IDs
	holder  string // ID of the server whose resources are served, or empty
}

func newURIConflict(same []*toolyard.Resource, holder *toolyard.Resource) uriConflict {
	var ids []string
	for _, r := range same {
		ids = append(ids, r.Server)
	}
	slices.Sort(ids)
	c := uriConflict{servers: strings.Join(slices.Compact(ids), ", ")}
	if holder != nil {
		c.holder = holder.Server
	}
	return c
}

// maxURIs is the maximum number of URIs that a problem lists.
const maxURIs = 3

func (c uriConflict) problem(g *Gate, uris []string) toolyard.Problem {
	slices.Sort(uris)
	listed := strings.Join(uris[:min(len(uris), maxURIs)], ", ")
	if more := len(uris) - maxURIs; more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}
	served := "none of them is served"
	if c.holder != "" {
		served = "only those from " + c.holder + ", which came first, are served until the next restart"
	}
	return toolyard.Problem{
		Subject: "gate " + g.Name,
		Message: fmt.Sprintf("servers %s offer resources with the same URIs, and %s: %s", c.servers, served, listed),
		Fix:     "If they are the same server, remove one of them. Otherwise, exclude one server's resources with its resources setting or the gate's toolset.",
	}
}

// resourceHolder returns the resource that gets a URI: the only candidate, or the one from the
// server that had the URI in this view. The view may be nil.
func (v *View) resourceHolder(uri string, same []*toolyard.Resource) *toolyard.Resource {
	if len(same) == 1 {
		return same[0]
	}
	if v == nil {
		return nil
	}
	for _, old := range v.Resources {
		if i := slices.IndexFunc(same, func(r *toolyard.Resource) bool { return r.Server == old.Server }); old.URI == uri && i >= 0 {
			return same[i]
		}
	}
	return nil
}

// offersPrompt reports whether the gate's toolset includes the source of a prompt.
func (g *Gate) offersPrompt(p *toolyard.Prompt) bool {
	return g.ShowsServer(p.Server) || g.Toolset.includesPackOf(p.Getter)
}

// bindPrompts adds prompts from the servers and packs that the gate shows.
func (v *View) bindPrompts(all []*toolyard.Prompt) {
	byName := make(map[string][]*toolyard.Prompt)
	for _, p := range all {
		if v.Gate.offersPrompt(p) && p.Getter.AllowedIn(v.Gate.Mode) {
			name := v.Gate.Naming.Render(v.Gate.Yard, p.Server, p.Name)
			byName[name] = append(byName[name], p)
		}
	}
	for name, same := range byName {
		if len(same) == 1 {
			v.Prompts = append(v.Prompts, NamedPrompt{name, same[0]})
			continue
		}
		v.Problems = append(v.Problems, clash(v.Gate, "prompts would be named "+name, "none", same, func(p *toolyard.Prompt) string { return p.Server + " " + p.Name }))
	}
	slices.SortFunc(v.Prompts, func(a, b NamedPrompt) int { return strings.Compare(a.Name, b.Name) })
}
