package gates

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/taint"
)

// Presentation controls how a gate presents its tools to models. It does not affect which tools can
// be called.
type Presentation struct {
	Offer  Offer    // empty means OfferTools
	Pinned []string // tools listed next to the meta-tools, in this order

	Code *toolyard.Tool // tool that runs code if the offer is OfferCode
	Show int            // bytes of a result that are sent to the client; zero means all
}

// Offer determines which tools a gate lists.
type Offer string

// The offers.
const (
	OfferTools  Offer = "tools"  // every tool
	OfferSearch Offer = "search" // meta-tools that search, describe and call tools
	OfferCode   Offer = "code"   // the same, plus a meta-tool that runs code
)

// The names of the meta-tools. These belong to the gate itself and search, describe and call the
// other tools.
const (
	SearchTools   = "search_tools"
	DescribeTools = "describe_tools"
	RunCode       = "run_code" // unlike the others, a tool on the call path
	CallTool      = "call_tool"
	CallWriteTool = "call_write_tool"
	ReadResult    = "read_result"
)

// DefaultShow is the default for Show at gates that do not list every tool.
const DefaultShow = 40 << 10

// ListsAll reports whether the gate lists every tool.
func (p *Presentation) ListsAll() bool { return p.Offer == "" || p.Offer == OfferTools }

// MetaTools returns the names of the gate's meta-toolsin the order they are listed.
func (g *Gate) MetaTools() (names []string) {
	if !g.ListsAll() {
		names = append(names, SearchTools, DescribeTools)
		if g.Offer == OfferCode {
			names = append(names, RunCode)
		}
		names = append(names, CallTool)
		if g.Mode == toolyard.Write {
			names = append(names, CallWriteTool)
		}
	}
	if g.Show > 0 {
		names = append(names, ReadResult)
	}
	return names
}

// IsMetaTool reports whether the gate has a meta-tool with the given name.
func (g *Gate) IsMetaTool(name string) bool {
	switch name {
	case SearchTools, DescribeTools, CallTool:
		return !g.ListsAll()
	case RunCode:
		return g.Offer == OfferCode
	case CallWriteTool:
		return !g.ListsAll() && g.Mode == toolyard.Write
	case ReadResult:
		return g.Show > 0
	}
	return false
}

// reserved returns the problem for tools whose name is that of a meta-tool.
func (g *Gate) reserved(name string, same []*toolyard.Tool) toolyard.Problem {
	origins := make([]string, len(same))
	for i, t := range same {
		origins[i] = originOf(t)
	}
	slices.Sort(origins)
	return toolyard.Problem{
		Subject: "gate " + g.Name,
		Message: fmt.Sprintf("%s is the name of one of the gate's own tools, so these tools are not served: %s", name, strings.Join(origins, ", ")),
		Fix:     "Rename the tool, exclude it from the gate's toolset, or change naming or offer on the gate.",
	}
}

// bindPinned resolves the pinned tools by any of their names.
func (v *View) bindPinned() {
	if v.Gate.ListsAll() {
		return
	}
	for _, name := range v.Gate.Pinned {
		t, ok := v.Lookup(name)
		if !ok {
			v.Problems = append(v.Problems, toolyard.Problem{
				Subject: "gate " + v.Gate.Name, Message: fmt.Sprintf("pinned: unknown tool %q", name), Warning: true,
				Fix: spelling.Fix(name, v.names()),
			})
			continue
		}
		i := slices.IndexFunc(v.Tools, func(n NamedTool) bool { return n.Tool == t })
		if !slices.ContainsFunc(v.Pinned, func(n NamedTool) bool { return n.Tool == t }) {
			v.Pinned = append(v.Pinned, v.Tools[i])
		}
	}
}

// Listed returns the tools that the gate lists in addition to its meta-tools.
func (v *View) Listed() []NamedTool {
	if v.Gate.ListsAll() {
		return v.Tools
	}
	return v.Pinned
}

func (v *View) names() []string {
	names := make([]string, len(v.Tools))
	for i, t := range v.Tools {
		names[i] = t.Name
	}
	return names
}

// explainOffer explains how models find a tool at a gate that does not list every tool.
func (v *View) explainOffer(t *toolyard.Tool) []Step {
	switch {
	case v.Gate.ListsAll():
		return nil
	case slices.ContainsFunc(v.Pinned, func(n NamedTool) bool { return n.Tool == t }):
		return []Step{{Rule: "offer", Text: "it is pinned, so the gate lists it"}}
	}
	return []Step{{Rule: "offer", Text: fmt.Sprintf("the gate offers %s: it is found by %s, not listed", v.Gate.Offer, SearchTools)}}
}

// trifecta returns the problem for a gate used by code or agents whose tools together could send
// private data to strangers, unless the operator accepts it.
func (v *View) trifecta() []toolyard.Problem {
	if v.Gate.Offer != OfferCode && len(v.Gate.Taint.Agents) == 0 || v.Gate.Taint.AcceptTrifecta {
		return nil
	}
	users := "its code"
	if v.Gate.Offer != OfferCode {
		users = "agent " + strings.Join(v.Gate.Taint.Agents, ", ")
	}
	tools := make([]*toolyard.Tool, len(v.Tools))
	for i, t := range v.Tools {
		tools[i] = t.Tool
	}
	found := taint.RuleOfTwo(tools)
	if found == nil {
		return nil
	}
	return []toolyard.Problem{{
		Subject: "gate " + v.Gate.Name,
		Message: fmt.Sprintf("%s can read private data (%s) and untrusted text (%s), and send data out (%s); once it has read both, calls that send data out require approval",
			users, originOf(found[taint.Private]), originOf(found[taint.Untrusted]), originOf(found[taint.Egress])),
		Fix: "Exclude the tools that have one of these labels from the gate's toolset, correct the labels, or set accept: trifecta on the gate.",
	}}
}
