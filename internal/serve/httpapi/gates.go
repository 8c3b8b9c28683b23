package httpapi

import (
	"cmp"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// gateTerms are what is said of a gate.
type gateTerms struct {
	Mode    toolyard.Mode     `json:"mode" enum:"read,write"`
	Surface toolyard.Surface  `json:"surface,omitempty" enum:"answer,execute,both"`
	Toolset string            `json:"toolset,omitempty" doc:"All tools when it is not said."`
	Naming  gates.Naming      `json:"naming,omitempty" enum:"mcp,plain,dotted,client"`
	Callers string            `json:"callers,omitempty" enum:"anyone,keys" doc:"As it was when it is not said; a new gate must say it."`
	Errors  gates.ErrorStyle  `json:"errors,omitempty" enum:"result,protocol"`
	Notes   gates.SourceNotes `json:"notes,omitempty" enum:"off,relative,absolute" doc:"Whether descriptions say which file a tool is made from; as it was when it is not said."`
}

func (t gateTerms) gate() config.Gate {
	return config.Gate{
		Mode: t.Mode, Surface: cmp.Or(t.Surface, toolyard.Both), Toolset: t.Toolset, Naming: cmp.Or(t.Naming, gates.NamingMCP),
		Callers: t.Callers, Errors: cmp.Or(t.Errors, gates.ErrorsAsResults), SourceNotes: t.Notes,
	}
}

func termsOf(g config.Gate) gateTerms {
	return gateTerms{Mode: g.Mode, Surface: g.Surface, Toolset: g.Toolset, Naming: g.Naming, Callers: g.Callers, Errors: g.Errors, Notes: g.SourceNotes}
}

// gateBody is what a gate is to be.
type gateBody struct {
	gateTerms
	Version int64 `json:"version" minimum:"0" doc:"That of the edits that you have seen."`
}

// gateItem is a gate.
type gateItem struct {
	Name string `json:"name"`
	Path string `json:"path" doc:"Where it speaks MCP."`
	gateTerms
	From     string `json:"from" enum:"file,api,program"`
	Tools    int    `json:"tools"`
	Tokens   int    `json:"tokens" doc:"About what its tools cost in a prompt."`
	Problems int    `json:"problems"`
	Version  int64  `json:"version" doc:"Of all edits; to be sent with a change."`
}

// gateDetail is a gate with what it shows.
type gateDetail struct {
	gateItem
	List []gateTool `json:"toolList"`
}

type gateTool struct {
	Name   string        `json:"name" doc:"What the gate calls it."`
	Server string        `json:"server,omitempty"`
	Tool   string        `json:"tool"`
	Mode   toolyard.Mode `json:"mode" enum:"read,write"`
	Tokens int           `json:"tokens"`
}

type gatesPage struct {
	Gates    []gateItem `json:"gates"`
	Version  int64      `json:"version" doc:"Of all edits; to be sent with a change."`
	Editable bool       `json:"editable"`
}

func (a *v1) gateItem(v *gates.View, size size, edits *config.Edits, version int64) gateItem {
	g := v.Gate
	callers := config.Anyone
	if g.RequireAuth {
		callers = config.Keys
	}
	item := gateItem{
		Name: g.Name, Path: "/mcp/" + g.Name, From: from(edits.Gates, g.Name), Problems: len(v.Problems), Version: version,
		gateTerms: gateTerms{
			Mode: g.Mode, Surface: cmp.Or(g.Surface, toolyard.Both), Naming: cmp.Or(g.Naming, gates.NamingMCP),
			Callers: callers, Errors: cmp.Or(g.Errors, gates.ErrorsAsResults), Notes: a.Yard.Config().Gates[g.Name].SourceNotes,
		},
	}
	if g.Toolset != nil {
		item.Toolset = g.Toolset.Name
	}
	if _, ok := a.Yard.Config().Gates[g.Name]; !ok {
		item.From = "program"
	}
	item.Tools, item.Tokens = size.Tools, size.Tokens
	return item
}

func (a *v1) getGates(*request) (*reply, error) {
	c, edits, version, err := a.editing("")
	if err != nil {
		return nil, err
	}
	page := gatesPage{Gates: []gateItem{}, Version: version, Editable: slices.Contains(c.Editable, config.EditGates)}
	shelf := a.shelf()
	for _, v := range shelf.snapshot.Views {
		page.Gates = append(page.Gates, a.gateItem(v, shelf.sizes[v], edits, version))
	}
	return &reply{body: page}, nil
}

func (a *v1) getGate(r *request) (*reply, error) { return done(a.gateDetail(r.PathValue("name"))) }

func (a *v1) gateDetail(name string) (d gateDetail, err error) {
	_, edits, version, err := a.editing("")
	if err != nil {
		return d, err
	}
	v := a.view(name)
	if v == nil {
		return d, notFound("There is no gate %s.", shown(name))
	}
	d.List = []gateTool{}
	size := size{Tools: len(v.Tools)}
	for _, t := range v.Tools {
		tool := gateTool{t.Name, t.Server, t.Tool.Name, modeOf(t.Tool), export.Tokens(t)}
		d.List = append(d.List, tool)
		size.Tokens += tool.Tokens
	}
	d.gateItem = a.gateItem(v, size, edits, version)
	return d, nil
}

func (a *v1) putGate(r *request) (*reply, error) {
	body, err := read[gateBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	now := a.Yard.Config().Gates[name]
	body.Notes, body.Callers = cmp.Or(body.Notes, now.SourceNotes), cmp.Or(body.Callers, now.Callers)
	if body.Callers == "" {
		return nil, issue("callers", "must be said: keys, or anyone")
	}
	if err := a.edit(r, config.EditGates, body.Version, "gate "+name, func(e *config.Edits) { e.Gates[name] = body.gate() }); err != nil {
		return nil, err
	}
	d, err := a.gateDetail(name)
	return done(d.gateItem, err)
}

func (a *v1) deleteGate(r *request) (*reply, error) {
	name, version := r.PathValue("name"), r.params.version()
	if _, edits, _, err := a.editing(config.EditGates); err != nil || from(edits.Gates, name) != "api" {
		return nil, cmp.Or(err, error(notFound("Nothing was changed of a gate %s.", shown(name))))
	}
	return &reply{}, a.edit(r, config.EditGates, version, "gate "+name+" as the file has it", func(e *config.Edits) { delete(e.Gates, name) })
}
