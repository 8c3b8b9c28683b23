package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// toolHandler serves the catalog.
type toolHandler struct {
	yard    Yard
	catalog *catalog
	records *recordReader // may be nil
	now     func() time.Time
}

// ToolItem is a tool in a list.
type ToolItem struct {
	Server    string           `json:"server,omitempty" doc:"Server that provides it; absent for local tools."`
	Name      string           `json:"name"`
	Title     string           `json:"title,omitempty"`
	Summary   string           `json:"summary"`
	Category  string           `json:"category,omitempty"`
	Mode      toolyard.Mode    `json:"mode" enum:"read,write" doc:"Whether it can change anything."`
	Surface   toolyard.Surface `json:"surface" enum:"answer,execute,both"`
	Latency   string           `json:"latencyClass" enum:"instant,fast,slow,streaming"`
	Price     *toolyard.Money  `json:"priceUsd,omitempty"`
	RateLimit map[string]any   `json:"rateLimit,omitempty"`
	Tokens    int              `json:"tokens" doc:"Approximate number of tokens that its definition uses in a prompt."`
	Gates     int              `json:"gates" doc:"Number of gates that offer it."`
	Down      bool             `json:"down,omitempty" doc:"Whether its server is unavailable."`
	Problems  int              `json:"problems,omitempty"`
	Origin    string           `json:"origin,omitempty"`
}

// toolsPage is a page of search results.
type toolsPage struct {
	Total      int                `json:"total"`
	Generation uint64             `json:"generation"`
	Tools      []ToolItem         `json:"tools"`
	Facets     map[string][]facet `json:"facets" doc:"For each filter, the number of matching tools by value."`
}

// facet is one value of a filter.
type facet struct {
	Value string `json:"value"`
	Count int    `json:"count"`
}

// toolDetail is a tool including its definition and visibility.
type toolDetail struct {
	ToolItem
	Description  string                     `json:"description"`
	InputSchema  json.RawMessage            `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage            `json:"outputSchema,omitempty"`
	Modes        []toolyard.Mode            `json:"modes" enum:"read,write"`
	Needs        []string                   `json:"needs,omitempty" doc:"Context that is injected into its arguments."`
	Meta         map[string]json.RawMessage `json:"meta,omitempty" doc:"Metadata that the tool declares."`
	File         string                     `json:"file,omitempty"`
	Withheld     bool                       `json:"withheld,omitempty" doc:"Whether it is withheld from all gates; the steps contain the reason."`
	Visibility   []gateDecision             `json:"visibility" doc:"The decision of each gate."`
	ProblemList  []toolyard.Problem         `json:"problemList,omitempty"`
	Latencies    *store.LatencyRow          `json:"latency,omitempty"`
}

// gateDecision explains whether a gate offers a tool.
type gateDecision struct {
	Gate    string       `json:"gate"`
	Name    string       `json:"name" doc:"Name at the gate."`
	Visible bool         `json:"visible"`
	Steps   []gates.Step `json:"steps"`
}

func modeOf(t *toolyard.Tool) toolyard.Mode {
	if t.IsReadOnly() {
		return toolyard.Read
	}
	return toolyard.Write
}

// filters are the catalog filters that have facets.
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

func (h *toolHandler) search(r *request) (*reply, error) {
	p := &r.params
	limit, offset, withProblems := p.number("limit", 50, 1, 200), p.number("offset", 0, 0, 100_000), p.flag("problem")
	p.word("mode", "read", "write")
	p.word("price", "free", "paid")
	index := h.catalog.index()
	visible, gated := index.visible[p.values["gate"]], p.values["gate"] != ""
	if gated && visible == nil {
		p.fail(issue("gate", "is not a gate name"))
	}
	if p.err != nil {
		return nil, p.err
	}
	page := toolsPage{Generation: index.snapshot.Generation, Tools: []ToolItem{}}
	keep := func(i int) bool {
		return (!gated || visible[index.snapshot.Tools[i]]) && (!withProblems || index.items[i].Problems > 0)
	}
	counts := make([]map[string]int, len(filters))
	for i := range counts {
		counts[i] = make(map[string]int)
	}
	for _, hit := range index.find(p.values["q"], keep) {
		item := &index.items[hit.Doc]
		if matches(item, p.values, counts) {
			if page.Total >= offset && len(page.Tools) < limit {
				page.Tools = append(page.Tools, *item)
			}
			page.Total++
		}
	}
	h.markDown(page.Tools)
	page.Facets = facets(counts)
	return &reply{body: page}, nil
}

// matches reports whether a tool passes all filters. If no filter excludes the tool, it is counted
// in every filter's facets. If exactly one does, it is counted in that filter's facets.
func matches(item *ToolItem, wanted map[string]string, counts []map[string]int) bool {
	var values [8]string
	failed, missed := 0, 0
	for i, f := range filters {
		values[i] = f.value(item)
		if want := wanted[f.name]; want != "" && want != values[i] {
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

// maxFacets is the maximum number of values per filter.
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

// markDown marks the tools whose servers are unavailable.
func (h *toolHandler) markDown(items []ToolItem) {
	down := h.yard.Down()
	for i := range items {
		items[i].Down = items[i].Server != "" && slices.Contains(down, items[i].Server)
	}
}

func (h *toolHandler) get(r *request) (*reply, error) {
	server, name := r.PathValue("source"), r.PathValue("name")
	if server == store.Local {
		server = ""
	}
	index := h.catalog.index()
	d := &toolDetail{Modes: []toolyard.Mode{}, Visibility: []gateDecision{}}
	i := slices.IndexFunc(index.snapshot.Tools, func(t *toolyard.Tool) bool { return t.Server == server && t.Name == name })
	switch {
	case i >= 0:
		h.describe(d, index, i)
	case server == "" || !h.withheld(d, server, name):
		return nil, notFound("Unknown tool %q.", shown(strings.TrimPrefix(server+"/"+name, "/")))
	}
	if h.records != nil { // optional: omitted if the call record is unavailable
		rows, _ := query(r, h.records, func(ctx context.Context) ([]store.LatencyRow, error) {
			return h.records.calls.Latencies(ctx, store.LatencyQuery{Server: cmp.Or(server, store.Local), Tool: name, Since: h.now().Add(-latenciesSince)})
		})
		if len(rows) > 0 {
			d.Latencies = &rows[0]
		}
	}
	return &reply{body: d}, nil
}

// describe fills in the details of an available tool.
func (h *toolHandler) describe(d *toolDetail, index *index, i int) {
	t := index.snapshot.Tools[i]
	d.ToolItem = index.items[i]
	d.Description, d.InputSchema, d.OutputSchema = t.Description, t.Input, t.Output
	d.Meta, d.Needs, d.File = t.Declared().AllMeta(), t.Contexts, t.File
	if d.Modes = t.Modes(); len(d.Modes) == 0 {
		d.Modes = []toolyard.Mode{toolyard.Write}
	}
	d.Down = t.Server != "" && slices.Contains(h.yard.Down(), t.Server)
	steps := []gates.Step{{Rule: "source", Text: t.Origin}}
	if t.Server != "" {
		steps = h.yard.Explain(t.Server, t.Name)
	}
	for _, v := range index.snapshot.Views {
		at := gateDecision{Gate: v.Gate.Name, Name: v.Gate.Naming.Render(v.Gate.Yard, t.Server, t.Name), Visible: index.visible[v.Gate.Name][t]}
		at.Steps = slices.Concat(steps, v.Explain(t))
		d.Visibility = append(d.Visibility, at)
	}
	for _, p := range index.snapshot.Problems {
		if p.Tool == t.Name && p.Source == t.Server {
			d.ProblemList = append(d.ProblemList, p)
		}
	}
}

// withheld fills in the details of a withheld tool, or returns false if the server has no such
// tool.
func (h *toolHandler) withheld(d *toolDetail, server, name string) bool {
	if !slices.ContainsFunc(h.yard.Servers(), func(s ServerItem) bool { return s.ID == server }) {
		return false
	}
	steps := h.yard.Explain(server, name)
	if slices.ContainsFunc(steps, func(s gates.Step) bool { return s.Rule == "definition" && s.Stops }) {
		return false // unknown or invalid definition
	}
	d.Server, d.Name, d.Withheld, d.Mode = server, name, true, toolyard.Write
	d.Surface, d.Latency = ident.SurfaceBoth, "slow"
	for _, v := range h.catalog.index().snapshot.Views {
		d.Visibility = append(d.Visibility, gateDecision{Gate: v.Gate.Name, Name: v.Gate.Naming.Render(v.Gate.Yard, server, name), Steps: steps})
	}
	return true
}

func (h *toolHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/tools", id: "searchTools", summary: "List or search the catalog's tools, best match first.",
			access: viewer, query: []string{"q", "source", "category", "mode", "price", "latency", "gate", "problem", "limit", "offset"},
			gives: answer[toolsPage]("Tools"), refusals: []int{400, 404}, serve: h.search,
		},
		{
			method: "GET", path: "/tools/{source}/{name}", id: "getTool", summary: "Get a tool with its visibility at each gate. The source is a server, or - for local tools.",
			access: viewer, gives: answer[toolDetail]("Tool"), refusals: []int{404}, serve: h.get,
		},
	}
}
