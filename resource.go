package toolyard

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Offer is all that sources have at one moment.
type Offer struct {
	Tools     []*Tool
	Resources []*Resource
	Prompts   []*Prompt

	Generation uint64 // which offer it is, counted from the first
}

// ResourceProvider is implemented by a [Source] that offers resources along with its tools.
// The catalog calls Resources from publish, so Resources must not block while publish runs.
type ResourceProvider interface {
	Resources() []*Resource
}

// PromptProvider is implemented by a [Source] that offers prompts along with its tools. The
// catalog calls Prompts from publish, as it does for [ResourceProvider].
type PromptProvider interface {
	Prompts() []*Prompt
}

// Resource is something to read, or a template for the addresses of many.
type Resource struct {
	Server     string          // the id of the MCP server it comes from
	URI        string          // its address, or the template
	Template   bool            // URI is a template, such as file:///{path}
	Unlisted   bool            // it can be read, but is not listed
	Definition json.RawMessage // as MCP has it; shown untouched

	// Reader reads it, on the same call path as every tool. Its arguments are
	// {"uri": ...}, its result {"contents": [...]}.
	Reader *Tool
	// Completer completes the variables of a template; nil for none. Its arguments are
	// those of completion/complete.
	Completer *Tool
}

// Prompt is a text for models that a source keeps ready.
type Prompt struct {
	Server     string
	Name       string          // unique within the server; gates render it as they do tools
	Definition json.RawMessage // as MCP has it; a gate replaces the name

	// Getter makes the text. Its arguments are {"name": ..., "arguments": {...}}, its
	// result {"messages": [...]}.
	Getter *Tool
	// Completer completes its arguments; nil for none.
	Completer *Tool
}

// BoundPrompt is a prompt under the name that a gate gives it.
type NamedPrompt struct {
	Name string
	*Prompt
}

// prefix is the part of a template that all its addresses share.
func (r *Resource) prefix() string {
	before, _, _ := strings.Cut(r.URI, "{")
	return before
}

// ReadResource finds what reads an address: the resource itself, or the template that says
// most about it. An address that two servers claim, by whatever means, leaves it open which
// is meant, and is not read: none can answer for another.
func (v *View) ReadResource(uri string) (*Resource, bool) {
	var best *Resource
	for _, r := range v.Resources {
		if !r.covers(uri) || !v.Gate.admitsURI(r.Server, uri) {
			continue
		}
		if best != nil && best.Server != r.Server {
			return nil, false
		}
		if best == nil || best.Template && (!r.Template || len(r.prefix()) > len(best.prefix())) {
			best = r
		}
	}
	return best, best != nil
}

// covers reports whether an address is the resource's, or one of the template's.
func (r *Resource) covers(uri string) bool {
	if !r.Template {
		return r.URI == uri
	}
	return strings.Contains(r.prefix(), ":") && strings.HasPrefix(uri, r.prefix())
}

// GetPrompt finds a prompt by the name that the gate shows.
func (v *View) GetPrompt(name string) (*Prompt, bool) {
	for _, p := range v.Prompts {
		if p.Name == name {
			return p.Prompt, true
		}
	}
	return nil, false
}

// MatchURI reports whether an address is one of those that patterns name: exactly, or by
// a beginning with a star behind it. No patterns name all. An address that leads out of
// where it begins, by dots or in disguise, is below no beginning.
func MatchURI(uri string, patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		beginning, star := strings.CutSuffix(p, "*")
		return p == uri || star && strings.HasPrefix(uri, beginning) && isPlain(uri)
	})
}

// isPlain reports whether an address means what it says to everybody: no dots for other
// folders, no backslashes or control characters, however often they are escaped. A query or a
// fragment ends a segment for some readers and not for others, so each part counts by itself.
func isPlain(uri string) bool {
	for range 4 {
		if strings.ContainsFunc(uri, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
			return false
		}
		for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#;", r) }) {
			if segment == "." || segment == ".." {
				return false
			}
		}
		plain, err := url.PathUnescape(uri)
		if err != nil {
			return false
		}
		if plain == uri {
			return true
		}
		uri = plain
	}
	return false
}

// Within reports whether patterns name the resource, or for a template some of its
// addresses.
func (r *Resource) MatchesAny(patterns []string) bool {
	if !r.Template {
		return MatchURI(r.URI, patterns)
	}
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		beginning, star := strings.CutSuffix(p, "*")
		return p == r.URI || strings.HasPrefix(beginning, r.prefix()) || star && strings.HasPrefix(r.prefix(), beginning)
	})
}

// admits reports whether the gate shows a resource.
func (g *Gate) admits(r *Resource) bool {
	return g.Toolset == nil || slices.ContainsFunc(g.Toolset.Servers, func(p ServerPick) bool {
		return p.ID == r.Server && r.MatchesAny(p.Resources)
	})
}

// admitsURI reports whether the gate lets its callers read an address of a server.
func (g *Gate) admitsURI(server, uri string) bool {
	return g.Toolset == nil || slices.ContainsFunc(g.Toolset.Servers, func(p ServerPick) bool {
		return p.ID == server && MatchURI(uri, p.Resources)
	})
}

// bindResources shows the resources that the gate admits. Two servers with one address
// leave it open which is meant, and neither is shown, but for one that had it before.
func (v *View) bindResources(all []*Resource, before *View) {
	byURI := make(map[string][]*Resource)
	for _, r := range all {
		if v.Gate.admits(r) && r.Reader.AllowedIn(v.Gate.Mode) {
			byURI[r.URI] = append(byURI[r.URI], r)
		}
	}
	claimed := make(map[claim][]string)
	for uri, same := range byURI {
		r := before.reader(uri, same)
		if r != nil {
			v.Resources = append(v.Resources, r)
		}
		if len(same) > 1 {
			c := newClaim(same, r)
			claimed[c] = append(claimed[c], uri)
		}
	}
	for c, uris := range claimed {
		v.Problems = append(v.Problems, c.problem(v.Gate, uris))
	}
	slices.SortFunc(v.Resources, func(a, b *Resource) int { return strings.Compare(a.URI, b.URI) })
}

// claim is that several servers offer resources with the same addresses. All such addresses of
// the same servers are one problem: most likely these are one server under several ids.
type claim struct {
	servers string // their ids
	holder  string // the one whose resources are served; empty for none
}

func newClaim(same []*Resource, holder *Resource) claim {
	var ids []string
	for _, r := range same {
		ids = append(ids, r.Server)
	}
	slices.Sort(ids)
	c := claim{servers: strings.Join(slices.Compact(ids), ", ")}
	if holder != nil {
		c.holder = holder.Server
	}
	return c
}

// maxClaimed is how many addresses a problem names.
const maxClaimed = 3

func (c claim) problem(g *Gate, uris []string) Problem {
	slices.Sort(uris)
	named := strings.Join(uris[:min(len(uris), maxClaimed)], ", ")
	if more := len(uris) - maxClaimed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	served := "none of them is served"
	if c.holder != "" {
		served = "only those of " + c.holder + ", which was there first, are served until the next start"
	}
	return Problem{
		Subject: "gate " + g.Name,
		Message: fmt.Sprintf("the servers %s offer resources with the same addresses, and %s: %s", c.servers, served, named),
		Fix:     "If they are the same server, remove one of them. Otherwise leave the resources of one out: by its resources, or by the gate's toolset.",
	}
}

// reader is the one of several resources that may have an address: the only one, or the one
// that had it before.
func (v *View) reader(uri string, same []*Resource) *Resource {
	if len(same) == 1 {
		return same[0]
	}
	if v == nil {
		return nil
	}
	for _, old := range v.Resources {
		if i := slices.IndexFunc(same, func(r *Resource) bool { return r.Server == old.Server }); old.URI == uri && i >= 0 {
			return same[i]
		}
	}
	return nil
}

// bindPrompts shows the prompts of the servers that the gate shows.
func (v *View) bindPrompts(all []*Prompt) {
	byName := make(map[string][]*Prompt)
	for _, p := range all {
		if v.Gate.ShowsServer(p.Server) && p.Getter.AllowedIn(v.Gate.Mode) {
			name := v.Gate.Naming.Render(v.Gate.Yard, p.Server, p.Name)
			byName[name] = append(byName[name], p)
		}
	}
	for name, same := range byName {
		if len(same) == 1 {
			v.Prompts = append(v.Prompts, NamedPrompt{name, same[0]})
			continue
		}
		v.Problems = append(v.Problems, clash(v.Gate, "prompts would be called "+name, "none", same, func(p *Prompt) string { return p.Server + " " + p.Name }))
	}
	slices.SortFunc(v.Prompts, func(a, b NamedPrompt) int { return strings.Compare(a.Name, b.Name) })
}

// clash is the problem of things that a gate cannot tell apart, and which of them it serves.
func clash[T any](g *Gate, what, served string, same []T, origin func(T) string) Problem {
	var origins []string
	for _, t := range same {
		origins = append(origins, origin(t))
	}
	slices.Sort(origins)
	return Problem{
		Subject: "gate " + g.Name, Fix: "Leave one of them out: by tools or resources of its server, or by the gate's toolset.",
		Message: fmt.Sprintf("%d %s and %s is served: %s", len(same), what, served, strings.Join(origins, ", ")),
	}
}
