package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/control/search"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// ToolItem is a tool in a list.
type ToolItem struct {
	Server    string           `json:"server,omitempty" doc:"The server that it is from; none for a local tool."`
	Name      string           `json:"name"`
	Title     string           `json:"title,omitempty"`
	Summary   string           `json:"summary"`
	Category  string           `json:"category,omitempty"`
	Mode      toolyard.Mode    `json:"mode" enum:"read,write" doc:"Whether it only reads."`
	Surface   toolyard.Surface `json:"surface" enum:"answer,execute,both"`
	Latency   toolyard.Latency `json:"latencyClass" enum:"instant,fast,slow,streaming"`
	Price     *toolyard.Money  `json:"priceUsd,omitempty"`
	RateLimit map[string]any   `json:"rateLimit,omitempty"`
	Tokens    int              `json:"tokens" doc:"About what its definition costs in a prompt."`
	Gates     int              `json:"gates" doc:"How many gates show it."`
	Down      bool             `json:"down,omitempty" doc:"Its server cannot be used now."`
	Problems  int              `json:"problems,omitempty"`
	Origin    string           `json:"origin,omitempty"`
}

// toolsPage is what was found in the catalog.
type toolsPage struct {
	Total      int                `json:"total"`
	Generation uint64             `json:"generation"`
	Tools      []ToolItem         `json:"tools"`
	Facets     map[string][]facet `json:"facets" doc:"For each filter, how many tools each of its values would leave."`
}

// facet is a value that tools can be selected by.
type facet struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// toolDetail is a tool with all that is known of it.
type toolDetail struct {
	ToolItem
	Description  string                     `json:"description"`
	InputSchema  json.RawMessage            `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage            `json:"outputSchema,omitempty"`
	Modes        []toolyard.Mode            `json:"modes" enum:"read,write"`
	Needs        []string                   `json:"needs,omitempty" doc:"The context that it asks for."`
	Meta         map[string]json.RawMessage `json:"meta,omitempty" doc:"What it declares."`
	File         string                     `json:"file,omitempty"`
	Withheld     bool                       `json:"withheld,omitempty" doc:"It is not offered; the steps say why."`
	At           []standing                 `json:"visibility" doc:"The decision of each gate."`
	Faults       []toolyard.Problem         `json:"problemList,omitempty"`
	Times        *store.LatencyRow          `json:"latency,omitempty"`
}

// standing is what became of a tool at a gate.
type standing struct {
	Gate    string       `json:"gate"`
	Name    string       `json:"name" doc:"What the gate calls it."`
	Visible bool         `json:"visible"`
	Steps   []gates.Step `json:"steps"`
}

// maxSummary is how many bytes a summary has in a list.
const maxSummary = 240

// shelf is a snapshot that is ready to be searched.
type shelf struct {
	snapshot *Snapshot
	items    []ToolItem
	shows    map[string]map[*toolyard.Tool]bool // by gate
	sizes    map[*gates.View]size
	index    *search.Index
}

// shelves keeps the last shelf, which takes a while to be made.
type shelves struct {
	mu   sync.Mutex
	last *shelf
}

// shelf is the catalog as it is now.
func (a *v1) shelf() *shelf {
	a.shelves.mu.Lock()
	defer a.shelves.mu.Unlock()
	now := a.Yard.Snapshot()
	if a.shelves.last == nil || a.shelves.last.snapshot != now {
		a.shelves.last = newShelf(now)
	}
	return a.shelves.last
}

func newShelf(s *Snapshot) *shelf {
	shelf := &shelf{snapshot: s, shows: make(map[string]map[*toolyard.Tool]bool), sizes: make(map[*gates.View]size)}
	gates := make(map[*toolyard.Tool]int)
	for _, v := range s.Views {
		shown := make(map[*toolyard.Tool]bool, len(v.Tools))
		for _, t := range v.Tools {
			shown[t.Tool] = true
			gates[t.Tool]++
		}
		shelf.shows[v.Gate.Name], shelf.sizes[v] = shown, sizeOf(v)
	}
	problems := make(map[[2]string]int)
	for _, p := range s.Problems {
		if p.Tool != "" {
			problems[[2]string{p.Source, p.Tool}]++
		}
	}
	docs := make([]search.Doc, 0, len(s.Tools))
	for _, t := range s.Tools {
		item := newItem(t)
		item.Gates, item.Problems = gates[t], problems[[2]string{t.Server, t.Name}]
		shelf.items = append(shelf.items, item)
		docs = append(docs, search.Doc{Name: t.Name, Title: t.Title, Text: t.Description, Server: t.Server, Category: t.Category})
	}
	shelf.index = search.New(docs)
	return shelf
}

func newItem(t *toolyard.Tool) ToolItem {
	e := toolterms.EffectiveOf(&t.Spec)
	summary := untrusted.Truncate(cmp.Or(t.Summary, t.Description), maxSummary)
	return ToolItem{
		Server: t.Server, Name: t.Name, Title: t.Title, Summary: summary, Category: t.Category, Mode: modeOf(t), Surface: e.Surface, Latency: e.Latency,
		Price: e.ExecuteUSD, RateLimit: e.RateLimit, Tokens: export.Tokens(gates.NamedTool{Name: t.Name, Tool: t}), Origin: t.Origin,
	}
}

func modeOf(t *toolyard.Tool) toolyard.Mode {
	if t.IsReadOnly() {
		return toolyard.Read
	}
	return toolyard.Write
}

// named are the tools that gates call so.
func (s *shelf) named(name string, keep func(i int) bool) (hits []search.Hit) {
	for i, t := range s.snapshot.Tools {
		if keep(i) && slices.ContainsFunc(s.snapshot.Views, func(v *gates.View) bool {
			found, ok := v.Lookup(name)
			return ok && found == t
		}) {
			hits = append(hits, search.Hit{Doc: i})
		}
	}
	return hits
}

// filters are what tools can be selected by.
var filters = []struct {
	name  string
	value func(*ToolItem) string
}{
	{"source", func(t *ToolItem) string { return cmp.Or(t.Server, store.Local) }},
	{"category", func(t *ToolItem) string { return t.Category }},
	{"mode", func(t *ToolItem) string { return string(t.Mode) }},
	{"price", func(t *ToolItem) string {
		if t.Price != nil && *t.Price > 0 {
			return "paid"
		}
		return "free"
	}},
	{"latency", func(t *ToolItem) string { return string(t.Latency) }},
}

func (a *v1) getTools(r *request) (*reply, error) {
	p := &r.params
	limit, offset, troubled := p.number("limit", 50, 1, 200), p.number("offset", 0, 0, 100_000), p.flag("problem")
	p.word("mode", "read", "write")
	p.word("price", "free", "paid")
	shelf := a.shelf()
	shown, gated := shelf.shows[p.values["gate"]], p.values["gate"] != ""
	if gated && shown == nil {
		p.fail(issue("gate", "is not the name of a gate"))
	}
	if p.err != nil {
		return nil, p.err
	}
	page := toolsPage{Generation: shelf.snapshot.Generation, Tools: []ToolItem{}}
	keep := func(i int) bool {
		return (!gated || shown[shelf.snapshot.Tools[i]]) && (!troubled || shelf.items[i].Problems > 0)
	}
	hits := shelf.index.Find(p.values["q"], keep)
	if len(hits) == 0 {
		hits = shelf.named(p.values["q"], keep)
	}
	counts := make([]map[string]int, len(filters))
	for i := range counts {
		counts[i] = make(map[string]int)
	}
	for _, hit := range hits {
		item := &shelf.items[hit.Doc]
		if selects(item, p.values, counts) {
			if page.Total >= offset && len(page.Tools) < limit {
				page.Tools = append(page.Tools, *item)
			}
			page.Total++
		}
	}
	a.markDown(page.Tools)
	page.Facets = facets(counts)
	return &reply{body: page}, nil
}

// selects reports whether a tool passes all filters, and counts it for each filter that is
// the only one it may not pass.
func selects(item *ToolItem, asked map[string]string, counts []map[string]int) bool {
	var values [8]string
	failed, missed := 0, 0
	for i, f := range filters {
		values[i] = f.value(item)
		if want := asked[f.name]; want != "" && want != values[i] {
			failed, missed = failed+1, i
		}
	}
	for i := range filters {
		if values[i] != "" && (failed == 0 || failed == 1 && missed == i) {
			counts[i][values[i]]++
		}
	}
	return failed == 0
}

// maxFacets is how many values of a filter are counted up.
const maxFacets = 300

func facets(counts []map[string]int) map[string][]facet {
	all := make(map[string][]facet, len(filters))
	for i, f := range filters {
		list := make([]facet, 0, len(counts[i]))
		for value, n := range counts[i] {
			list = append(list, facet{value, n})
		}
		slices.SortFunc(list, func(a, b facet) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Value, b.Value)) })
		all[f.name] = list[:min(len(list), maxFacets)]
	}
	return all
}

// markDown marks the tools whose servers cannot be used now.
func (a *v1) markDown(items []ToolItem) {
	down := a.Yard.Down()
	for i := range items {
		items[i].Down = items[i].Server != "" && slices.Contains(down, items[i].Server)
	}
}

func (a *v1) getTool(r *request) (*reply, error) {
	server, name := r.PathValue("source"), r.PathValue("name")
	if server == store.Local {
		server = ""
	}
	shelf := a.shelf()
	d := &toolDetail{Modes: []toolyard.Mode{}, At: []standing{}}
	i := slices.IndexFunc(shelf.snapshot.Tools, func(t *toolyard.Tool) bool { return t.Server == server && t.Name == name })
	switch {
	case i >= 0:
		a.describe(d, shelf, i)
	case server == "" || !a.withheld(d, server, name):
		return nil, notFound("There is no tool %s.", shown(strings.TrimPrefix(server+"/"+name, "/")))
	}
	if a.Calls != nil { // a record that does not answer is left out
		rows, _ := ask(r, a, func(ctx context.Context) ([]store.LatencyRow, error) {
			return a.Calls.Latencies(ctx, store.LatencyQuery{Server: cmp.Or(server, store.Local), Tool: name, Since: a.Now().Add(-latenciesSince)})
		})
		if len(rows) > 0 {
			d.Times = &rows[0]
		}
	}
	return &reply{body: d}, nil
}

// describe fills in a tool that is offered.
func (a *v1) describe(d *toolDetail, shelf *shelf, i int) {
	t := shelf.snapshot.Tools[i]
	d.ToolItem = shelf.items[i]
	d.Description, d.InputSchema, d.OutputSchema = t.Description, t.Input, t.Output
	d.Meta, d.Needs, d.File = t.Declared().AllMeta(), t.Contexts, t.File
	if d.Modes = t.Modes(); len(d.Modes) == 0 {
		d.Modes = []toolyard.Mode{toolyard.Write}
	}
	d.Down = t.Server != "" && slices.Contains(a.Yard.Down(), t.Server)
	steps := []gates.Step{{Rule: "source", Text: t.Origin}}
	if t.Server != "" {
		steps = a.Yard.Explain(t.Server, t.Name)
	}
	for _, v := range shelf.snapshot.Views {
		at := standing{Gate: v.Gate.Name, Name: v.Gate.Naming.Render(v.Gate.Yard, t.Server, t.Name), Visible: shelf.shows[v.Gate.Name][t]}
		at.Steps = slices.Concat(steps, v.Explain(t))
		d.At = append(d.At, at)
	}
	for _, p := range shelf.snapshot.Problems {
		if p.Tool == t.Name && p.Source == t.Server {
			d.Faults = append(d.Faults, p)
		}
	}
}

// withheld fills in a tool that a server has and that is not offered, if there is one.
func (a *v1) withheld(d *toolDetail, server, name string) bool {
	if !slices.ContainsFunc(a.Yard.Servers(), func(s ServerItem) bool { return s.ID == server }) {
		return false
	}
	steps := a.Yard.Explain(server, name)
	if slices.ContainsFunc(steps, func(s gates.Step) bool { return s.Rule == "definition" && s.Stops }) {
		return false // nobody has seen it, or it is not sound
	}
	d.Server, d.Name, d.Withheld, d.Mode = server, name, true, toolyard.Write
	d.Surface, d.Latency = toolyard.Both, toolyard.Slow
	for _, v := range a.shelf().snapshot.Views {
		d.At = append(d.At, standing{Gate: v.Gate.Name, Name: v.Gate.Naming.Render(v.Gate.Yard, server, name), Steps: steps})
	}
	return true
}
