package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"regexp"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/serve/gates"
	catalogs "github.com/toolyard/toolyard/internal/sources/catalog"
)

// toolsetHandler serves toolsets.
type toolsetHandler struct {
	yard    Yard
	editor  *editor
	catalog *catalog
}

// toolsetItem is a toolset.
type toolsetItem struct {
	Name string `json:"name"`
	gates.Toolset
	Gates []string `json:"gates" doc:"Gates that use it."`
	From  string   `json:"from" enum:"file,api" doc:"Where it is defined."`
	Count int      `json:"count" doc:"Number of tools that it currently contains."`

	Version int64 `json:"version" doc:"Current version of the edits: send it with a change."`
}

type toolsetsPage struct {
	Toolsets []toolsetItem `json:"toolsets"`
	Version  int64         `json:"version" doc:"Current version of the edits: send it with a change."`
	Editable bool          `json:"editable"`
}

// toolsetBody is the body of a request to create or change a toolset.
type toolsetBody struct {
	gates.Toolset
	Version int64 `json:"version" minimum:"0" doc:"Version of the edits that the change is based on."`
}

func (h *toolsetHandler) toolset(name string) (item toolsetItem, err error) {
	c, edits, version, err := h.editor.state("")
	if err != nil {
		return item, err
	}
	set, ok := c.Toolsets[name]
	if !ok {
		return item, notFound("Unknown toolset %q.", shown(name))
	}
	item = toolsetItem{Name: name, Toolset: *set.Set(name), Gates: []string{}, From: origin(edits.Toolsets, name), Version: version}
	for _, gate := range slices.Sorted(maps.Keys(c.Gates)) {
		if c.Gates[gate].Toolset == name {
			item.Gates = append(item.Gates, gate)
		}
	}
	contains := set.Set(name).Matcher()
	for _, t := range h.yard.Snapshot().Tools {
		if contains(t) {
			item.Count++
		}
	}
	return item, nil
}

func (h *toolsetHandler) list(*request) (*reply, error) {
	c, _, version, err := h.editor.state("")
	if err != nil {
		return nil, err
	}
	page := toolsetsPage{Toolsets: []toolsetItem{}, Version: version, Editable: slices.Contains(c.Editable, config.EditToolsets)}
	for _, name := range slices.Sorted(maps.Keys(c.Toolsets)) {
		if item, err := h.toolset(name); err == nil {
			page.Toolsets = append(page.Toolsets, item)
		}
	}
	return &reply{body: page}, nil
}

func (h *toolsetHandler) get(r *request) (*reply, error) {
	return respond(h.toolset(r.PathValue("name")))
}

var toolsetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (h *toolsetHandler) put(r *request) (*reply, error) {
	body, err := read[toolsetBody](r, largeBody)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if !toolsetName.MatchString(name) {
		return nil, invalid("A toolset name must be 1 to 64 letters, digits, dots, underscores and hyphens, and begin with a letter or digit.")
	}
	if err := h.editor.edit(r, config.EditToolsets, body.Version, "toolset "+name, func(e *config.Edits) { e.Toolsets[name] = config.NewToolset(body.Toolset) }); err != nil {
		return nil, err
	}
	return respond(h.toolset(name))
}

func (h *toolsetHandler) remove(r *request) (*reply, error) {
	name, version := r.PathValue("name"), r.params.version()
	if _, edits, _, err := h.editor.state(config.EditToolsets); err != nil || origin(edits.Toolsets, name) != "api" {
		return nil, cmp.Or(err, error(notFound("Toolset %q has not been changed through the API.", shown(name))))
	}
	return &reply{}, h.editor.edit(r, config.EditToolsets, version, "reset toolset "+name, func(e *config.Edits) { delete(e.Toolsets, name) })
}

// previewResult shows the effect of changing a toolset.
type previewResult struct {
	Count  int           `json:"count" doc:"Number of tools in the toolset."`
	Tokens int           `json:"tokens" doc:"Approximate number of tokens that their definitions use in a prompt."`
	Gates  []gatePreview `json:"gates" doc:"Gates that use the toolset."`
	Faults []string      `json:"problems" doc:"Tools and resources that the toolset includes but that are not available."`
}

type gatePreview struct {
	Gate    string   `json:"gate"`
	Before  viewSize `json:"before"`
	After   viewSize `json:"after"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

func (h *toolsetHandler) preview(r *request) (*reply, error) {
	body, err := read[gates.Toolset](r, largeBody)
	if err != nil {
		return nil, err
	}
	_, edits, _, err := h.editor.state("")
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	next := edits.Clone()
	next.Toolsets[name] = config.NewToolset(body)
	views, err := h.yard.Try(next, name)
	if err != nil {
		return nil, err
	}
	p := previewResult{Gates: []gatePreview{}, Faults: []string{}}
	contains := body.Matcher()
	index := h.catalog.index()
	for i, t := range index.snapshot.Tools {
		if contains(t) {
			p.Count++
			p.Tokens += index.items[i].Tokens
		}
	}
	for _, after := range views {
		before := h.catalog.view(after.Gate.Name)
		p.Gates = append(p.Gates, compare(before, after))
		for _, fault := range after.Problems {
			if before == nil || !slices.Contains(before.Problems, fault) {
				p.Faults = append(p.Faults, fault.String())
			}
		}
	}
	return &reply{body: p}, nil
}

func compare(before, after *gates.View) gatePreview {
	p := gatePreview{Gate: after.Gate.Name, After: sizeOf(after), Added: []string{}, Removed: []string{}}
	had := make(map[string]bool)
	if before != nil {
		p.Before = sizeOf(before)
		for _, t := range before.Tools {
			had[t.Name] = true
		}
	}
	for _, t := range after.Tools {
		if !had[t.Name] {
			p.Added = append(p.Added, t.Name)
		}
		delete(had, t.Name)
	}
	p.Removed = append(p.Removed, slices.Sorted(maps.Keys(had))...)
	return p
}

// export returns a toolset's tools as functions. It includes the tools visible at the named gate,
// which defaults to the first gate that uses the toolset, or all tools if no gate does.
func (h *toolsetHandler) export(r *request) (*reply, error) {
	item, err := h.toolset(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	name := r.params.values["gate"]
	if name == "" && len(item.Gates) > 0 {
		name = item.Gates[0]
	}
	if name != "" {
		if !slices.Contains(item.Gates, name) {
			return nil, issue("gate", "must be a gate that uses the toolset")
		}
		return exportView(r, h.catalog.view(name))
	}
	s := h.yard.Snapshot()
	all := &gates.Gate{Name: item.Name, Mode: toolyard.Write, Toolset: &item.Toolset}
	return exportView(r, all.Bind(catalogs.Offer{Tools: s.Tools}, nil))
}

func exportView(r *request, v *gates.View) (*reply, error) {
	var names []string
	for _, f := range export.Formats {
		names = append(names, string(f))
	}
	format := cmp.Or(r.params.word("format", names...), names[0])
	switch {
	case r.params.err != nil:
		return nil, r.params.err
	case v == nil:
		return nil, notFound("Unknown gate.")
	}
	return respond(export.Functions(export.Format(format), v.Tools))
}

func (h *toolsetHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/toolsets", id: "listToolsets", summary: "List toolsets.",
			access: viewer, gives: answer[toolsetsPage]("Toolsets"), refusals: []int{404}, serve: h.list,
		},
		{
			method: "GET", path: "/toolsets/{name}", id: "getToolset", summary: "Get a toolset.",
			access: viewer, gives: answer[toolsetItem]("Toolset"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "PUT", path: "/toolsets/{name}", id: "putToolset", summary: "Create or change a toolset.",
			access: operator, action: "toolset.put", takes: body[toolsetBody]("PutToolset"), gives: answer[toolsetItem]("Toolset"), refusals: []int{400, 404, 409, 413}, serve: h.put,
		},
		{
			method: "DELETE", path: "/toolsets/{name}", id: "removeToolset", summary: "Remove the changes to a toolset and revert to the configuration file.",
			access: operator, action: "toolset.remove", query: []string{"version"}, status: http.StatusNoContent, refusals: []int{400, 404, 409}, serve: h.remove,
		},
		{
			method: "POST", path: "/toolsets/{name}/preview", id: "previewToolset", summary: "Preview a change to a toolset.",
			access: viewer, takes: body[gates.Toolset]("ToolSelection"), gives: answer[previewResult]("Preview"), refusals: []int{400, 404, 413}, serve: h.preview,
		},
		{
			method: "GET", path: "/toolsets/{name}/export", id: "exportToolset", summary: "Export a toolset's tools as functions for a model API.",
			access: viewer, query: []string{"format", "gate"}, gives: anything("Functions"), refusals: []int{400, 404}, serve: h.export,
		},
	}
}
