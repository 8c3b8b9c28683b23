package httpapi

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// editor reads and changes the edits to the configuration.
type editor struct{ yard Yard }

// editHandler serves the history of edits.
type editHandler struct{ editor *editor }

// versionBody is a version of the edits.
type versionBody struct {
	Version int64 `json:"version"`
}

// state returns the configuration and the current edits. The error is PermissionDenied if the
// configuration does not allow that part to be edited.
func (e *editor) state(part config.Editable) (c *config.Config, edits *config.Edits, version int64, err error) {
	c = e.yard.Config()
	edits, version = e.yard.Edits()
	if part != "" && !slices.Contains(c.Editable, part) {
		err = toolyard.Errorf(toolyard.PermissionDenied, "The configuration does not allow changes to %s. To allow them, add editable: [%s].", part, part)
	}
	return c, edits, version, err
}

// origin reports where a toolset, gate or price is defined.
func origin[T any](edits map[string]T, name string) string {
	if _, ok := edits[name]; ok {
		return "api"
	}
	return "file"
}

// edit applies a change to the current edits, provided that their version is the given one.
func (e *editor) edit(r *request, part config.Editable, version int64, note string, change func(*config.Edits)) error {
	if r.params.err != nil {
		return r.params.err
	}
	_, edits, _, err := e.state(part)
	if err != nil {
		return err
	}
	next := edits.Clone()
	change(next)
	_, err = e.yard.Edit(r.Context(), next, version, r.caller.ID, shown(note))
	return err
}

type editsPage struct {
	Edits []editItem `json:"edits" doc:"Newest first."`
}

type editItem struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Note    string    `json:"note"`
	Current bool      `json:"current,omitempty"`
}

func newEdit(row store.VersionRow, current int64) editItem {
	return editItem{row.Version, row.At.UTC(), row.By, row.Note, row.Version == current}
}

// maxEdits is the maximum number of versions in a list.
const maxEdits = 100

func (h *editHandler) list(r *request) (*reply, error) {
	_, _, current, err := h.editor.state("")
	if err != nil {
		return nil, err
	}
	rows, err := h.editor.yard.Versions(r.Context(), maxEdits)
	page := editsPage{Edits: []editItem{}}
	for _, row := range rows {
		page.Edits = append(page.Edits, newEdit(row, current))
	}
	return respond(page, err)
}

// editDetail is a version of the edits, including its content.
type editDetail struct {
	editItem
	Toolsets map[string]gates.Toolset `json:"toolsets"`
	Gates    map[string]gateSettings  `json:"gates"`
	Prices   map[string]config.Price  `json:"prices" doc:"Prices by source and tool, such as github/search. Use - as the source for local tools, and * as the tool for the default price."`
}

func (h *editHandler) get(r *request) (*reply, error) {
	_, _, current, err := h.editor.state("")
	if err != nil {
		return nil, err
	}
	row, edits, err := h.editor.version(r)
	if err != nil {
		return nil, err
	}
	d := editDetail{editItem: newEdit(row, current), Toolsets: make(map[string]gates.Toolset), Gates: make(map[string]gateSettings), Prices: edits.Clone().Prices}
	for name, set := range edits.Toolsets {
		d.Toolsets[name] = *set.Set(name)
	}
	for name, g := range edits.Gates {
		d.Gates[name] = settingsOf(g)
	}
	return &reply{body: d}, nil
}

// version returns the version in the path and its edits.
func (e *editor) version(r *request) (row store.VersionRow, edits *config.Edits, err error) {
	text := r.PathValue("version")
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 1 {
		return row, nil, notFound("Unknown version %q.", shown(text))
	}
	return e.yard.Version(r.Context(), version)
}

func (h *editHandler) restore(r *request) (*reply, error) {
	body, err := read[versionBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	c, _, _, err := h.editor.state("")
	if err != nil {
		return nil, err
	}
	if len(c.Editable) == 0 {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "The configuration does not allow changes. To allow them, add editable: [toolsets, gates, prices].")
	}
	row, edits, err := h.editor.version(r)
	if err != nil {
		return nil, err
	}
	now, _ := h.editor.yard.Edits()
	edits = edits.Clone()
	if !slices.Contains(c.Editable, config.EditToolsets) {
		edits.Toolsets = now.Toolsets
	}
	if !slices.Contains(c.Editable, config.EditGates) {
		edits.Gates = now.Gates
	}
	if !slices.Contains(c.Editable, config.EditPrices) {
		edits.Prices = now.Prices
	}
	next, err := h.editor.yard.Edit(r.Context(), edits, body.Version, r.caller.ID, fmt.Sprintf("restore version %d", row.Version))
	return respond(versionBody{next}, err)
}

func (h *editHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/edits", id: "listEdits", summary: "List versions of the edits to toolsets, gates and prices, newest first.",
			access: viewer, gives: answer[editsPage]("Edits"), refusals: []int{404}, serve: h.list,
		},
		{
			method: "GET", path: "/edits/{version}", id: "getEdit", summary: "Get a version of the edits.",
			access: viewer, gives: answer[editDetail]("Edit"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "POST", path: "/edits/{version}/restore", id: "restoreEdit", summary: "Restore an earlier version of the edits.",
			access: operator, action: "edits.restore", takes: body[versionBody]("Version"), gives: answer[versionBody]("Version"), refusals: []int{400, 404, 409, 413}, serve: h.restore,
		},
	}
}
