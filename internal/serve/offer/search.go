package offer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/control/search"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Index searches and describes the tools in one view. It is immutable and safe for concurrent use.
type Index struct {
	view       *gates.View
	tools      *search.Index
	signatures *Signatures
}

// NewIndex indexes a view's tools. If the tools are the same, it reuses the ranking of the previous
// index, which may be nil.
func NewIndex(v *gates.View, s *Signatures, previous *Index) *Index {
	same := func(a, b gates.NamedTool) bool { return a.Tool == b.Tool || a.Digest() == b.Digest() }
	if previous != nil && slices.EqualFunc(v.Tools, previous.view.Tools, same) {
		return &Index{view: v, tools: previous.tools, signatures: s}
	}
	docs := make([]search.Doc, len(v.Tools))
	for i, t := range v.Tools {
		docs[i] = search.Doc{Name: t.Tool.Name, Title: t.Title, Text: t.Description, Server: t.Server, Category: t.Category, Args: arguments(t.Tool)}
	}
	return &Index{view: v, tools: search.New(docs), signatures: s}
}

// arguments returns a tool's arguments for the index.
func arguments(t *toolyard.Tool) (args []search.Arg) {
	schema, _ := jsonobject.Map(t.CallerInput())
	properties, _ := jsonobject.Members(schema["properties"])
	for _, p := range properties[:min(len(properties), maxIndexed)] {
		member, _ := jsonobject.Map(p.Value)
		description, _ := jsonobject.String(member["description"])
		args = append(args, search.Arg{Name: p.Key, Text: description})
	}
	return args
}

// maxIndexed is the maximum number of arguments per tool that are searched.
const maxIndexed = 64

// Scope restricts and marks the tools in an index.
type Scope struct {
	Allows func(*toolyard.Tool) bool // nil allows every tool
	Down   func(server string) bool  // reports whether a server is unavailable; may be nil
}

func (s *Scope) allows(t *toolyard.Tool) bool { return s.Allows == nil || s.Allows(t) }

// Search returns one line for each hit, best first, and a line with the number of further hits.
func (x *Index) Search(q Query, scope Scope) string {
	keep := func(i int) bool {
		t := x.view.Tools[i]
		return (q.Server == "" || t.Server == q.Server) && scope.allows(t.Tool)
	}
	hits := x.tools.Rank(q.Text, maxHits, keep)
	if len(hits) == 0 {
		return x.nothing(q, scope)
	}
	first := hits[:min(len(hits), q.Limit)]
	if q.Server == "" {
		first = x.spread(hits, q.Limit)
	}
	var b strings.Builder
	for _, h := range first {
		b.WriteString(x.line(x.view.Tools[h.Doc], scope))
		b.WriteByte('\n')
	}
	switch more := len(hits) - len(first); {
	case more > 0 && len(hits) == maxHits:
		fmt.Fprintf(&b, "At least %d more matches. Use more specific words, or raise limit (at most %d).", more, maxHits)
	case more > 0:
		fmt.Fprintf(&b, "%d more matches. Use more specific words, or raise limit (at most %d).", more, maxHits)
	default:
		b.WriteString("No more matches.")
	}
	return b.String()
}

// spread returns the best hits. If several servers have hits, each gets at most half of the lines,
// so that a server's descriptions cannot crowd out the others.
func (x *Index) spread(hits []search.Hit, limit int) []search.Hit {
	if len(hits) <= limit {
		return hits
	}
	var first, later []search.Hit
	lines := make(map[string]int)
	for _, h := range hits {
		server := x.view.Tools[h.Doc].Server
		if lines[server] >= max(limit/2, 1) || len(first) == limit {
			later = append(later, h)
			continue
		}
		lines[server]++
		first = append(first, h)
	}
	return append(first, later[:limit-len(first)]...)
}

// line returns a tool's signature and marks on one line.
func (x *Index) line(t gates.NamedTool, scope Scope) string {
	s := x.signatures.Of(t.Tool)
	line := t.Name + "(" + s.Params + ")" + x.marks(t, s.Complete, scope)
	if s.Purpose != "" {
		line += " // " + s.Purpose
	}
	return line
}

func (x *Index) marks(t gates.NamedTool, complete bool, scope Scope) (marks string) {
	if !complete {
		marks += " ~"
	}
	if !t.IsReadOnly() {
		marks += " [writes]"
	}
	if x.view.Gate.Surface == toolyard.Execute && t.Price.Set && !t.Price.OptOut {
		marks += " [" + t.Price.USD.String() + " USD]"
	}
	if t.Server != "" && scope.Down != nil && scope.Down(t.Server) {
		marks += " [down]"
	}
	return marks
}

// maxServers is the maximum number of servers listed when a search finds nothing.
const maxServers = 20

// nothing returns the result for a search that finds nothing. It lists the servers that can be
// searched.
func (x *Index) nothing(q Query, scope Scope) string {
	counts := make(map[string]int)
	for _, t := range x.view.Tools {
		if scope.allows(t.Tool) {
			counts[t.Server]++
		}
	}
	if _, ok := counts[q.Server]; q.Server != "" && !ok {
		return fmt.Sprintf("Unknown server %q%s.%s", oneLine(q.Server), spelling.DidYouMean(q.Server, slices.Collect(maps.Keys(counts))), servers(counts))
	}
	return "No matching tools. Try other words." + servers(counts)
}

// servers lists servers, those with the most tools first.
func servers(counts map[string]int) string {
	ids := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	var list []string
	for _, id := range ids {
		if id != "" && len(list) < maxServers {
			list = append(list, fmt.Sprintf("%s (%s)", id, spelling.Count(counts[id], "tool")))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " Servers: " + strings.Join(list, ", ") + "."
}

// maxDescription is the maximum length of a description in the result of describe_tools, in bytes.
const maxDescription = 16 << 10

// Describe returns the full descriptions and signatures of tools. Unknown names get a line of their
// own.
func (x *Index) Describe(names []string, scope Scope) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = x.describe(name, scope)
	}
	return strings.Join(texts, "\n\n")
}

func (x *Index) describe(name string, scope Scope) string {
	tool, ok := x.view.Lookup(name)
	if !ok || !scope.allows(tool) {
		return fmt.Sprintf("// Unknown tool %q%s.", oneLine(name), spelling.DidYouMean(name, names(x.view, scope)))
	}
	i := slices.IndexFunc(x.view.Tools, func(t gates.NamedTool) bool { return t.Tool == tool })
	t := x.view.Tools[i]
	return comments(cmp.Or(t.Description, t.Summary)+t.Note) + t.Name + x.signatures.Of(tool).Long() + x.suffix(t, scope)
}

// suffix returns a tool's marks as a comment.
func (x *Index) suffix(t gates.NamedTool, scope Scope) string {
	if marks := x.marks(t, true, scope); marks != "" {
		return "\n//" + marks
	}
	return ""
}

// comments turns a text into comment lines, so that no line can be mistaken for anything else.
func comments(text string) string {
	text = strings.TrimSpace(untrusted.Visible(untrusted.Truncate(text, maxDescription)))
	if text == "" {
		return ""
	}
	text = strings.NewReplacer("*/", "* /", "\r\n", "\n * ", "\r", "\n * ", "\n", "\n * ", "\v", " ", "\f", " ").Replace(text)
	return "/**\n * " + text + "\n */\n"
}

// names returns the names of the view's tools that are in scope.
func names(v *gates.View, scope Scope) []string {
	list := make([]string, 0, len(v.Tools))
	for _, t := range v.Tools {
		if scope.allows(t.Tool) {
			list = append(list, t.Name)
		}
	}
	return list
}
