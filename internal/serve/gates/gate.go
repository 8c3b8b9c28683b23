// Package gates implements gates, the entry points of a yard. A gate determines what its callers
// can see and do: the mode, the surface, the toolset and the names of its tools.
//
// [Gate.Bind] computes a gate's [View]: the tools, resources and prompts it offers. Listing,
// searching and calling all use the view, so a tool that is hidden at a gate cannot be called
// there.
package gates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
)

// Gate is an entry point and its rules.
type Gate struct {
	Name        string
	Mode        toolyard.Mode
	Surface     toolyard.Surface // empty or Both means no restriction
	Toolset     *Toolset         // nil means all tools
	Naming      Naming           // empty means NamingMCP
	RequireAuth bool             // refuse unauthenticated callers
	Tokens      Tokens
	Errors      ErrorStyle
	SourceNotes SourceNotes // whether descriptions include the tool's source file
	Yard        string      // name of the yard, for NamingClient
	CallerClock bool        // allows callers to set the as-of time
	Taint       TaintOptions

	Lender Lender // lends clients to calls; may be nil
	Presentation
	Agents []string // agents that the gate offers; if there is no Toolset, it offers nothing else
}

// TaintOptions apply to code and agents that use a gate's tools.
type TaintOptions struct {
	Agents         []string // agents that use the gate's tools
	AcceptTrifecta bool     // accepts that the tools together may be able to send private data to strangers
}

// Tokens specifies which access tokens a gate accepts.
type Tokens struct {
	Issuers []string // names of the issuers
	Only    bool     // API keys are refused
}

// Lender lends clients to a gate's calls.
type Lender interface {
	// Lend returns the clients of a call. The caller must call release when the call ends. If Lend
	// returns an error, the call is refused.
	Lend() (clients *toolyard.Clients, release func(), err error)
}

// Toolset is a named selection from the catalog.
type Toolset struct {
	Name    string       `json:"-"`
	Tools   []string     `json:"tools,omitempty" maxItems:"20000" doc:"Names of local tools."`
	Servers []ServerPick `json:"servers,omitempty" maxItems:"1000" doc:"Servers whose tools and resources are included."`
	Packs   []string     `json:"packs,omitempty" maxItems:"100" doc:"Packs whose tools and resources are included."`
}

// ServerPick selects tools and resources from one server: the listed ones, or all if none are
// listed.
type ServerPick struct {
	ID        string   `json:"id" minLength:"1"`
	Tools     []string `json:"tools,omitempty" maxItems:"20000" doc:"Names of tools; all if empty."`
	Resources []string `json:"resources,omitempty" maxItems:"1000" doc:"Resource URIs, where a trailing * matches any suffix; all if empty."`
}

// Matcher returns a function that reports whether the toolset includes a tool. It indexes the
// toolset once, so matching many tools is cheap.
func (s *Toolset) Matcher() func(*toolyard.Tool) bool {
	type key struct{ server, tool string }
	named, whole := make(map[key]bool), make(map[string]bool)
	for _, tool := range s.Tools {
		named[key{"", tool}] = true
	}
	for _, p := range s.Servers {
		whole[p.ID] = whole[p.ID] || len(p.Tools) == 0
		for _, tool := range p.Tools {
			named[key{p.ID, tool}] = true
		}
	}
	return func(t *toolyard.Tool) bool {
		return t.Server != "" && whole[t.Server] || named[key{t.Server, t.Name}] || s.includesPackOf(t)
	}
}

// includesPackOf reports whether the toolset includes the pack that a tool comes from.
func (s *Toolset) includesPackOf(t *toolyard.Tool) bool {
	pack := PackOf(t)
	return pack != "" && slices.Contains(s.Packs, pack)
}

// PackOf returns the name of the pack that a tool comes from, or "".
func PackOf(t *toolyard.Tool) string {
	if t == nil || t.Server != "" || t.File != "" {
		return ""
	}
	name, ok := strings.CutPrefix(t.Origin, packOrigin)
	if !ok {
		return ""
	}
	return name
}

// PackOrigin returns the origin of a pack's tools.
func PackOrigin(name string) string { return packOrigin + name }

const packOrigin = "pack "

// ErrorStyle determines how a gate reports failures.
type ErrorStyle string

// The error styles. With ErrorsAsResults, a model sees the error and can correct its call;
// with ErrorsAsProtocol, every failure is a JSON-RPC error.
const (
	ErrorsAsResults  ErrorStyle = "result"
	ErrorsAsProtocol ErrorStyle = "protocol"
)

// SourceNotes determines whether descriptions include the tool's source file.
type SourceNotes string

// The source notes. The default is off, because paths reveal details of the machine.
const (
	SourceNotesOff      SourceNotes = "off"
	SourceNotesRelative SourceNotes = "relative" // relative to the tools folder
	SourceNotesAbsolute SourceNotes = "absolute"
)

// sourceNote returns the note about a tool's source file if the gate adds one.
func (g *Gate) sourceNote(t *toolyard.Tool) string {
	path := t.Origin
	if g.SourceNotes == SourceNotesAbsolute {
		path = t.File
	}
	if t.File == "" || g.SourceNotes == "" || g.SourceNotes == SourceNotesOff {
		return ""
	}
	return "\n\n---\nSource: " + path + "\nNote: This tool is dynamically loaded. Changes to the file take effect immediately: read it to see what the tool does, or edit it to change the tool."
}

// Visible reports whether the gate offers the tool. Listing, searching and calling all use
// this predicate.
func (g *Gate) Visible(t *toolyard.Tool) bool { return g.HiddenBy(t) == "" }

// HiddenBy returns the rule that hides the tool at this gate, or "" if it is visible.
func (g *Gate) HiddenBy(t *toolyard.Tool) string { return g.hiddenBy(t, g.matcher()) }

// matcher returns a function that reports whether the gate's toolset, if any, includes a tool.
func (g *Gate) matcher() func(*toolyard.Tool) bool {
	if g.Toolset == nil {
		return func(*toolyard.Tool) bool { return len(g.Agents) == 0 }
	}
	return g.Toolset.Matcher()
}

// agentOrigin is the prefix in the origin of an agent's tool.
const agentOrigin = "agent "

// AgentOf returns the name of the agent behind a tool, or "".
func AgentOf(t *toolyard.Tool) string {
	name, ok := strings.CutPrefix(t.Origin, agentOrigin)
	if !ok || t.Server != "" || t.File != "" {
		return ""
	}
	return name
}

func (g *Gate) hiddenBy(t *toolyard.Tool, inToolset func(*toolyard.Tool) bool) string {
	switch {
	case !t.AllowedIn(g.Mode):
		return fmt.Sprintf("not allowed in mode %s", g.Mode)
	case toolterms.Ineligible(&t.Spec, g.Surface) != "":
		return fmt.Sprintf("not offered on surface %s: %s", g.Surface, toolterms.Ineligible(&t.Spec, g.Surface))
	case AgentOf(t) != "":
		if !slices.Contains(g.Agents, AgentOf(t)) {
			return "not one of the gate's agents"
		}
	case g.Toolset == nil && !inToolset(t):
		return "not offered: the gate offers only agents"
	case !inToolset(t):
		return fmt.Sprintf("not in toolset %s", g.Toolset.Name)
	}
	return ""
}

// ShowsServer reports whether the gate can offer anything from a server.
func (g *Gate) ShowsServer(id string) bool {
	return g.Toolset == nil && len(g.Agents) == 0 || g.Toolset != nil && slices.ContainsFunc(g.Toolset.Servers, func(p ServerPick) bool { return p.ID == id })
}

func (g *Gate) render(n Naming, t *toolyard.Tool) string { return n.Render(g.Yard, t.Server, t.Name) }
