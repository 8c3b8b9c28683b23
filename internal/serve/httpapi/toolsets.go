package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/store"
)

// toolsetItem is a toolset.
type toolsetItem struct {
	Name string `json:"name"`
	gates.Toolset
	Gates []string `json:"gates" doc:"That use it."`
	From  string   `json:"from" enum:"file,api" doc:"Where it is said."`
	Count int      `json:"count" doc:"How many tools it takes now."`

	Version int64 `json:"version" doc:"Of all edits; to be sent with a change."`
}

type toolsetsPage struct {
	Toolsets []toolsetItem `json:"toolsets"`
	Version  int64         `json:"version" doc:"Of all edits; to be sent with a change."`
	Editable bool          `json:"editable"`
}

// toolsetBody is what a toolset is to be.
type toolsetBody struct {
	gates.Toolset
	Version int64 `json:"version" minimum:"0" doc:"That of the edits that you have seen."`
}

// versioned is the version that a change made.
type versioned struct {
	Version int64 `json:"version"`
}

// editing is what may be changed, and how it is now.
func (a *v1) editing(part config.Editable) (c *config.Config, edits *config.Edits, version int64, err error) {
	c = a.Yard.Config()
	edits, version = a.Yard.Edits()
	if part != "" && !slices.Contains(c.Editable, part) {
		err = toolyard.Errorf(toolyard.PermissionDenied, "The configuration does not let %s be changed here; it would have to say editable: [%s].", part, part)
	}
	return c, edits, version, err
}

func (a *v1) toolset(name string) (item toolsetItem, err error) {
	c, edits, version, err := a.editing("")
	if err != nil {
		return item, err
	}
	set, ok := c.Toolsets[name]
	if !ok {
		return item, notFound("There is no toolset %s.", shown(name))
	}
	item = toolsetItem{Name: name, Toolset: *set.Set(name), Gates: []string{}, From: from(edits.Toolsets, name), Version: version}
	for _, gate := range slices.Sorted(maps.Keys(c.Gates)) {
		if c.Gates[gate].Toolset == name {
			item.Gates = append(item.Gates, gate)
		}
	}
	takes := set.Set(name).Matcher()
	for _, t := range a.Yard.Snapshot().Tools {
		if takes(t) {
			item.Count++
		}
	}
	return item, nil
}

func from[T any](edits map[string]T, name string) string {
	if _, ok := edits[name]; ok {
		return "api"
	}
	return "file"
}

func (a *v1) getToolsets(*request) (*reply, error) {
	c, _, version, err := a.editing("")
	if err != nil {
		return nil, err
	}
	page := toolsetsPage{Toolsets: []toolsetItem{}, Version: version, Editable: slices.Contains(c.Editable, config.EditToolsets)}
	for _, name := range slices.Sorted(maps.Keys(c.Toolsets)) {
		if item, err := a.toolset(name); err == nil {
			page.Toolsets = append(page.Toolsets, item)
		}
	}
	return &reply{body: page}, nil
}

func (a *v1) getToolset(r *request) (*reply, error) { return done(a.toolset(r.PathValue("name"))) }

var toolsetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (a *v1) putToolset(r *request) (*reply, error) {
	body, err := read[toolsetBody](r, maxPicks)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if !toolsetName.MatchString(name) {
		return nil, invalid("The name of a toolset is 1 to 64 letters, digits and . _ -, and begins with a letter or a digit.")
	}
	if err := a.edit(r, config.EditToolsets, body.Version, "toolset "+name, func(e *config.Edits) { e.Toolsets[name] = config.NewToolset(body.Toolset) }); err != nil {
		return nil, err
	}
	return done(a.toolset(name))
}

func (a *v1) deleteToolset(r *request) (*reply, error) {
	name, version := r.PathValue("name"), r.params.version()
	if _, edits, _, err := a.editing(config.EditToolsets); err != nil || from(edits.Toolsets, name) != "api" {
		return nil, cmp.Or(err, error(notFound("Nothing was changed of a toolset %s.", shown(name))))
	}
	return &reply{}, a.edit(r, config.EditToolsets, version, "toolset "+name+" as the file has it", func(e *config.Edits) { delete(e.Toolsets, name) })
}

// edit changes the edits that count, if they are those that the caller has seen.
func (a *v1) edit(r *request, part config.Editable, version int64, note string, change func(*config.Edits)) error {
	if r.params.err != nil {
		return r.params.err
	}
	_, edits, _, err := a.editing(part)
	if err != nil {
		return err
	}
	next := edits.Clone()
	change(next)
	_, err = a.Yard.Edit(r.Context(), next, version, r.caller.ID, shown(note))
	return err
}

// preview is what an edit would change.
type preview struct {
	Count  int           `json:"count" doc:"How many tools the toolset takes."`
	Tokens int           `json:"tokens" doc:"About what their definitions cost in a prompt."`
	Gates  []gatePreview `json:"gates" doc:"The gates that use it."`
	Faults []string      `json:"problems" doc:"What it asks for and cannot have."`
}

type gatePreview struct {
	Gate    string   `json:"gate"`
	Before  size     `json:"before"`
	After   size     `json:"after"`
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
}

// size is how much a gate shows.
type size struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
}

func sizeOf(v *gates.View) (s size) {
	for _, t := range v.Tools {
		s.Tokens += export.Tokens(t)
	}
	s.Tools = len(v.Tools)
	return s
}

func (a *v1) previewToolset(r *request) (*reply, error) {
	body, err := read[gates.Toolset](r, maxPicks)
	if err != nil {
		return nil, err
	}
	_, edits, _, err := a.editing("")
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	next := edits.Clone()
	next.Toolsets[name] = config.NewToolset(body)
	views, err := a.Yard.Try(next, name)
	if err != nil {
		return nil, err
	}
	p := preview{Gates: []gatePreview{}, Faults: []string{}}
	takes := body.Matcher()
	shelf := a.shelf()
	for i, t := range shelf.snapshot.Tools {
		if takes(t) {
			p.Count++
			p.Tokens += shelf.items[i].Tokens
		}
	}
	for _, after := range views {
		before := a.view(after.Gate.Name)
		p.Gates = append(p.Gates, compare(before, after))
		for _, fault := range after.Problems {
			if before == nil || !slices.Contains(before.Problems, fault) {
				p.Faults = append(p.Faults, fault.String())
			}
		}
	}
	return &reply{body: p}, nil
}

// view is what a gate shows now, nil if there is none.
func (a *v1) view(gate string) *gates.View {
	views := a.Yard.Snapshot().Views
	if i := slices.IndexFunc(views, func(v *gates.View) bool { return v.Gate.Name == gate }); i >= 0 {
		return views[i]
	}
	return nil
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

// exportToolset writes the tools of a toolset as functions: those that a gate shows, or the
// first one that uses it, or all of them.
func (a *v1) exportToolset(r *request) (*reply, error) {
	item, err := a.toolset(r.PathValue("name"))
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
		return a.exportView(r, a.view(name))
	}
	s := a.Yard.Snapshot()
	all := &gates.Gate{Name: item.Name, Mode: toolyard.Write, Toolset: &item.Toolset}
	return a.exportView(r, all.Bind(catalog.Offer{Tools: s.Tools}, nil))
}

func (a *v1) exportGate(r *request) (*reply, error) {
	return a.exportView(r, a.view(r.PathValue("name")))
}

func (a *v1) exportView(r *request, v *gates.View) (*reply, error) {
	var names []string
	for _, f := range export.Formats {
		names = append(names, string(f))
	}
	format := cmp.Or(r.params.word("format", names...), names[0])
	switch {
	case r.params.err != nil:
		return nil, r.params.err
	case v == nil:
		return nil, notFound("There is no such gate.")
	}
	return done(export.Functions(export.Format(format), v.Tools))
}

type editsPage struct {
	Edits []editItem `json:"edits" doc:"The newest first."`
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

// maxEdits is how many versions are listed.
const maxEdits = 100

func (a *v1) getEdits(r *request) (*reply, error) {
	_, _, current, err := a.editing("")
	if err != nil {
		return nil, err
	}
	rows, err := a.Yard.Versions(r.Context(), maxEdits)
	page := editsPage{Edits: []editItem{}}
	for _, row := range rows {
		page.Edits = append(page.Edits, newEdit(row, current))
	}
	return done(page, err)
}

// editDetail is what a version of the edits says.
type editDetail struct {
	editItem
	Toolsets map[string]gates.Toolset `json:"toolsets"`
	Gates    map[string]gateTerms     `json:"gates"`
}

func (a *v1) getEdit(r *request) (*reply, error) {
	_, _, current, err := a.editing("")
	if err != nil {
		return nil, err
	}
	row, edits, err := a.version(r)
	if err != nil {
		return nil, err
	}
	d := editDetail{editItem: newEdit(row, current), Toolsets: make(map[string]gates.Toolset), Gates: make(map[string]gateTerms)}
	for name, set := range edits.Toolsets {
		d.Toolsets[name] = *set.Set(name)
	}
	for name, g := range edits.Gates {
		d.Gates[name] = termsOf(g)
	}
	return &reply{body: d}, nil
}

// version are the edits of the version that a request names.
func (a *v1) version(r *request) (row store.VersionRow, edits *config.Edits, err error) {
	text := r.PathValue("version")
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 1 {
		return row, nil, notFound("There is no version %s.", shown(text))
	}
	return a.Yard.Version(r.Context(), version)
}

func (a *v1) restore(r *request) (*reply, error) {
	body, err := read[versioned](r, smallBody)
	if err != nil {
		return nil, err
	}
	c, _, _, err := a.editing("")
	if err != nil {
		return nil, err
	}
	if len(c.Editable) == 0 {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "The configuration does not let anything be changed here.")
	}
	row, edits, err := a.version(r)
	if err != nil {
		return nil, err
	}
	now, _ := a.Yard.Edits()
	edits = edits.Clone()
	if !slices.Contains(c.Editable, config.EditToolsets) {
		edits.Toolsets = now.Toolsets
	}
	if !slices.Contains(c.Editable, config.EditGates) {
		edits.Gates = now.Gates
	}
	next, err := a.Yard.Edit(r.Context(), edits, body.Version, r.caller.ID, fmt.Sprintf("as it was in version %d", row.Version))
	return done(versioned{next}, err)
}
