package httpapi

import (
	"cmp"
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/control/search"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// catalog provides the yard's tools, indexed for search.
type catalog struct {
	yard Yard

	mu   sync.Mutex
	last *index
}

// index returns the index of the current snapshot.
func (c *catalog) index() *index {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.yard.Snapshot(); c.last == nil || c.last.snapshot != now {
		c.last = newIndex(now)
	}
	return c.last
}

// view returns a gate's current view, or nil if the gate does not exist.
func (c *catalog) view(gate string) *gates.View {
	views := c.yard.Snapshot().Views
	if i := slices.IndexFunc(views, func(v *gates.View) bool { return v.Gate.Name == gate }); i >= 0 {
		return views[i]
	}
	return nil
}

// index is a searchable snapshot.
type index struct {
	snapshot *Snapshot
	items    []ToolItem
	visible  map[string]map[*toolyard.Tool]bool // by gate
	sizes    map[*gates.View]viewSize
	search   *search.Index
}

func newIndex(s *Snapshot) *index {
	x := &index{snapshot: s, visible: make(map[string]map[*toolyard.Tool]bool), sizes: make(map[*gates.View]viewSize)}
	gates := make(map[*toolyard.Tool]int)
	for _, v := range s.Views {
		visible := make(map[*toolyard.Tool]bool, len(v.Tools))
		for _, t := range v.Tools {
			visible[t.Tool] = true
			gates[t.Tool]++
		}
		x.visible[v.Gate.Name], x.sizes[v] = visible, sizeOf(v)
	}
	problems := make(map[[2]string]int)
	for _, p := range s.Problems {
		if p.Tool != "" {
			problems[[2]string{p.Source, p.Tool}]++
		}
	}
	docs := make([]search.Doc, 0, len(s.Tools))
	for _, t := range s.Tools {
		item := newToolItem(t)
		item.Gates, item.Problems = gates[t], problems[[2]string{t.Server, t.Name}]
		x.items = append(x.items, item)
		docs = append(docs, search.Doc{
			Name: t.Name, Title: t.Title, Text: t.Description, Server: t.Server, Category: t.Category, Args: search.Args(t.Input),
		})
	}
	x.search = search.New(docs)
	return x
}

// maxSummary is the maximum length of summaries in lists, in bytes.
const maxSummary = 240

func newToolItem(t *toolyard.Tool) ToolItem {
	e := toolterms.EffectiveOf(&t.Spec)
	return ToolItem{
		Server: t.Server, Name: t.Name, Title: t.Title, Summary: untrusted.Truncate(cmp.Or(t.Summary, t.Description), maxSummary), Category: t.Category,
		Mode: modeOf(t), Surface: e.Surface, Latency: e.Latency, Price: e.ExecuteUSD, RateLimit: e.RateLimit,
		Tokens: export.Tokens(gates.NamedTool{Name: t.Name, Tool: t}), Origin: t.Origin,
	}
}

// viewSize is the size of a gate's tool list.
type viewSize struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
}

func sizeOf(v *gates.View) viewSize {
	return viewSize{Tools: len(v.Tools), Tokens: export.ListTokens(v)}
}

// find searches the tools accepted by keep. If no text matches, it looks for a tool with that name
// at any gate, and then for the closest matches.
func (x *index) find(query string, keep func(i int) bool) (hits []search.Hit) {
	if hits = x.search.Find(query, keep); len(hits) > 0 {
		return hits
	}
	for i, t := range x.snapshot.Tools {
		if keep(i) && slices.ContainsFunc(x.snapshot.Views, func(v *gates.View) bool {
			found, ok := v.Lookup(query)
			return ok && found == t
		}) {
			hits = append(hits, search.Hit{Doc: i})
		}
	}
	if len(hits) == 0 {
		hits = x.search.Rank(query, search.MaxHits, keep)
	}
	return hits
}
