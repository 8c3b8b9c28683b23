package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// gateHandler serves gates.
type gateHandler struct {
	yard    Yard
	editor  *editor
	catalog *catalog
}

type gateSettings struct {
	Mode    toolyard.Mode     `json:"mode" enum:"read,write"`
	Surface toolyard.Surface  `json:"surface,omitempty" enum:"answer,execute,both"`
	Toolset string            `json:"toolset,omitempty" doc:"Toolset that the gate offers. Default: all tools."`
	Naming  gates.Naming      `json:"naming,omitempty" enum:"mcp,plain,dotted,client"`
	Callers string            `json:"callers,omitempty" enum:"anyone,keys,tokens,authenticated" doc:"Who can call: anyone, or callers with an API key, with an access token from an issuer, or with either. Required for a new gate; otherwise the default is the current value."`
	Errors  gates.ErrorStyle  `json:"errors,omitempty" enum:"result,protocol"`
	Notes   gates.SourceNotes `json:"notes,omitempty" enum:"off,relative,absolute" doc:"Whether tool descriptions contain the path of the source file. Default: the current value."`
	Clock   string            `json:"clock,omitempty" enum:"yard,caller" doc:"Who sets the as-of time of calls. Default: the current value."`
	Offer   gates.Offer       `json:"offer,omitempty" enum:"tools,search,code" doc:"What the gate lists: every tool, or tools that search and call the others. Default: the current value."`
	Pinned  []string          `json:"pinned,omitempty" maxItems:"100" doc:"Tools that a gate with offer search lists. Default: the current value."`
	Show    config.Size       `json:"show,omitempty" doc:"How much of a long result is sent to the client. Default: the current value."`
}

// apply returns a gate with these settings. All other fields stay unchanged.
func (t gateSettings) apply(g config.Gate) config.Gate {
	g.Mode, g.Surface, g.Toolset, g.Naming = t.Mode, cmp.Or(t.Surface, ident.SurfaceBoth), t.Toolset, cmp.Or(t.Naming, gates.NamingMCP)
	g.Callers, g.Errors, g.SourceNotes, g.Clock = t.Callers, cmp.Or(t.Errors, gates.ErrorsAsResults), t.Notes, t.Clock
	g.Offer, g.Pinned, g.Show = t.Offer, t.Pinned, t.Show
	return g
}

// keepPresentation fills in the gate's current presentation. If the gate no longer uses search, its
// pinned tools are dropped.
func (t *gateSettings) keepPresentation(now config.Presentation) {
	t.Offer, t.Show = cmp.Or(t.Offer, now.Offer), cmp.Or(t.Show, now.Show)
	if t.Pinned == nil && t.Offer == now.Offer {
		t.Pinned = now.Pinned
	}
}

func settingsOf(g config.Gate) gateSettings {
	return gateSettings{
		Mode: g.Mode, Surface: g.Surface, Toolset: g.Toolset, Naming: g.Naming, Callers: g.Callers, Errors: g.Errors, Notes: g.SourceNotes, Clock: g.Clock,
		Offer: g.Offer, Pinned: g.Pinned, Show: g.Show,
	}
}

// gateBody is the body of a request to create or change a gate.
type gateBody struct {
	gateSettings
	Version int64 `json:"version" minimum:"0" doc:"Version of the edits that the change is based on."`
}

// gateItem is a gate.
type gateItem struct {
	Name string `json:"name"`
	Path string `json:"path" doc:"Path of its MCP endpoint."`
	gateSettings
	From     string `json:"from" enum:"file,api,program"`
	Tools    int    `json:"tools"`
	Tokens   int    `json:"tokens" doc:"Approximate number of tokens that its tool list uses in a prompt."`
	Problems int    `json:"problems"`
	Version  int64  `json:"version" doc:"Current version of the edits: send it with a change."`
}

// gateDetail is a gate with its tools.
type gateDetail struct {
	gateItem
	List []gateTool `json:"toolList"`
}

type gateTool struct {
	Name   string        `json:"name" doc:"Name at the gate."`
	Server string        `json:"server,omitempty"`
	Tool   string        `json:"tool"`
	Mode   toolyard.Mode `json:"mode" enum:"read,write"`
	Tokens int           `json:"tokens"`
}

type gatesPage struct {
	Gates    []gateItem `json:"gates"`
	Version  int64      `json:"version" doc:"Current version of the edits: send it with a change."`
	Editable bool       `json:"editable"`
}

func (h *gateHandler) gateItem(v *gates.View, size viewSize, edits *config.Edits, version int64) gateItem {
	g := v.Gate
	item := gateItem{
		Name: g.Name, Path: "/mcp/" + g.Name, From: origin(edits.Gates, g.Name), Problems: len(v.Problems), Version: version,
		gateSettings: gateSettings{
			Mode: g.Mode, Surface: cmp.Or(g.Surface, ident.SurfaceBoth), Naming: cmp.Or(g.Naming, gates.NamingMCP),
			Callers: callersOf(g), Errors: cmp.Or(g.Errors, gates.ErrorsAsResults), Notes: h.yard.Config().Gates[g.Name].SourceNotes,
			Offer: cmp.Or(g.Offer, gates.OfferTools), Pinned: g.Pinned, Show: config.Size(g.Show),
		},
	}
	if g.CallerClock {
		item.Clock = config.CallerClock
	}
	if g.Toolset != nil {
		item.Toolset = g.Toolset.Name
	}
	if _, ok := h.yard.Config().Gates[g.Name]; !ok {
		item.From = "program"
	}
	item.Tools, item.Tokens = size.Tools, size.Tokens
	return item
}

func (h *gateHandler) list(*request) (*reply, error) {
	c, edits, version, err := h.editor.state("")
	if err != nil {
		return nil, err
	}
	page := gatesPage{Gates: []gateItem{}, Version: version, Editable: slices.Contains(c.Editable, config.EditGates)}
	index := h.catalog.index()
	for _, v := range index.snapshot.Views {
		page.Gates = append(page.Gates, h.gateItem(v, index.sizes[v], edits, version))
	}
	return &reply{body: page}, nil
}

func (h *gateHandler) get(r *request) (*reply, error) {
	return respond(h.gateDetail(r.PathValue("name")))
}

func (h *gateHandler) gateDetail(name string) (d gateDetail, err error) {
	_, edits, version, err := h.editor.state("")
	if err != nil {
		return d, err
	}
	v := h.catalog.view(name)
	if v == nil {
		return d, notFound("Unknown gate %q.", shown(name))
	}
	d.List = []gateTool{}
	for _, t := range v.Tools {
		tool := gateTool{t.Name, t.Server, t.Tool.Name, modeOf(t.Tool), export.Tokens(t)}
		d.List = append(d.List, tool)
	}
	d.gateItem = h.gateItem(v, sizeOf(v), edits, version)
	return d, nil
}

// callersOf returns who may call a gate, in the terms used by the configuration.
func callersOf(g *gates.Gate) string {
	switch {
	case !g.RequireAuth:
		return config.Anyone
	case g.Tokens.Only:
		return config.AccessTokens
	case len(g.Tokens.Issuers) > 0:
		return config.Authenticated
	}
	return config.Keys
}

func (h *gateHandler) put(r *request) (*reply, error) {
	body, err := read[gateBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	now := h.yard.Config().Gates[name]
	body.Notes, body.Callers, body.Clock = cmp.Or(body.Notes, now.SourceNotes), cmp.Or(body.Callers, now.Callers), cmp.Or(body.Clock, now.Clock)
	body.keepPresentation(now.Presentation)
	if body.Callers == "" {
		return nil, issue("callers", "is required: keys, tokens, authenticated or anyone")
	}
	if err := h.editor.edit(r, config.EditGates, body.Version, "gate "+name, func(e *config.Edits) { e.Gates[name] = body.apply(now) }); err != nil {
		return nil, err
	}
	d, err := h.gateDetail(name)
	return respond(d.gateItem, err)
}

func (h *gateHandler) remove(r *request) (*reply, error) {
	name, version := r.PathValue("name"), r.params.version()
	if _, edits, _, err := h.editor.state(config.EditGates); err != nil || origin(edits.Gates, name) != "api" {
		return nil, cmp.Or(err, error(notFound("Gate %q has not been changed through the API.", shown(name))))
	}
	return &reply{}, h.editor.edit(r, config.EditGates, version, "reset gate "+name, func(e *config.Edits) { delete(e.Gates, name) })
}

func (h *gateHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/gates", id: "listGates", summary: "List gates.",
			access: viewer, gives: answer[gatesPage]("Gates"), refusals: []int{404}, serve: h.list,
		},
		{
			method: "GET", path: "/gates/{name}", id: "getGate", summary: "Get a gate with its tools.",
			access: viewer, gives: answer[gateDetail]("Gate"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "PUT", path: "/gates/{name}", id: "putGate", summary: "Create or change a gate.",
			access: operator, action: "gate.put", takes: body[gateBody]("PutGate"), gives: answer[gateItem]("GateItem"), refusals: []int{400, 404, 409, 413}, serve: h.put,
		},
		{
			method: "DELETE", path: "/gates/{name}", id: "removeGate", summary: "Remove the changes to a gate and revert to the configuration file.",
			access: operator, action: "gate.remove", query: []string{"version"}, status: http.StatusNoContent, refusals: []int{400, 404, 409}, serve: h.remove,
		},
		{
			method: "GET", path: "/gates/{name}/export", id: "exportGate", summary: "Export a gate's tools as functions for a model API.",
			access: viewer, query: []string{"format"}, gives: anything("Functions"), refusals: []int{400, 404}, serve: h.export,
		},
	}
}

func (h *gateHandler) export(r *request) (*reply, error) {
	return exportView(r, h.catalog.view(r.PathValue("name")))
}
