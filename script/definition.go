package script

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// definition is a script's declaration of one tool.
type definition struct {
	Name        string // defaults to the file's name
	Export      string // name of the exported function
	Description string
	Title       string
	Summary     string
	Hint        string
	Category    string
	Modes       []toolyard.Mode
	Input       json.RawMessage
	Output      json.RawMessage
	Timeout     float64 // in milliseconds
	Permissions *Grant
	Shared      bool
	Meta        map[string]json.RawMessage
}

// Limits for a definition, in bytes.
const (
	maxText        = 16 << 10 // per text
	maxMeta        = 64 << 10 // total
	maxPermissions = 100      // entries of each kind, not bytes
)

// toolName returns a tool's declared name, or the file name without .ts or .tool.ts.
func (f *file) toolName(d *definition) string {
	name := strings.TrimSuffix(path.Base(f.path), path.Ext(f.path))
	return cmp.Or(d.Name, strings.TrimSuffix(name, ".tool"), name)
}

// effectsOf derives a tool's effects from the modes that it declares.
func effectsOf(modes []toolyard.Mode) (toolyard.Effects, error) {
	for _, m := range modes {
		if m != toolyard.Read && m != toolyard.Write {
			return "", fmt.Errorf("unknown mode %.80q; use read and write", m)
		}
	}
	if slices.Contains(modes, toolyard.Read) {
		return toolyard.ReadOnly, nil
	}
	if len(modes) > 0 {
		return toolyard.Effects(toolyard.Write), nil
	}
	return "", nil
}

// tool creates a tool from a definition. Its errors start with the name of the invalid part.
func (l *loader) tool(f *file, m *jsvm.Module, d definition) (*toolyard.Tool, error) {
	name := f.toolName(&d)
	effects, err := effectsOf(d.Modes)
	if err != nil {
		return nil, err
	}
	spec := toolyard.Spec{
		Name: name, Title: d.Title, Description: d.Description, Summary: d.Summary, Hint: d.Hint, Category: d.Category,
		Origin: f.path, File: f.abs, Effects: effects, Input: d.Input, Output: d.Output,
		Terms: toolyard.Terms{Timeout: time.Duration(d.Timeout * float64(time.Millisecond))},
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := spec.SetMeta(d.Meta); err != nil {
		return nil, err
	}
	s := &scriptTool{pool: l.pool, module: m, export: d.Export, shared: d.Shared, reach: l.folder.reach(name, d.Permissions), structured: len(d.Output) > 0}
	return toolyard.NewTool(spec, s.call)
}

// check enforces the limits for a definition.
func (d *definition) check() error {
	if d.Timeout < 0 || d.Timeout > 24*60*60*1000 {
		return errors.New("timeout must be a number of milliseconds and at most one day")
	}
	for part, text := range map[string]string{"name": d.Name, "description": d.Description, "summary": d.Summary, "hint": d.Hint, "title": d.Title, "category": d.Category} {
		if len(text) > maxText {
			return fmt.Errorf("%s exceeds %d KiB", part, maxText>>10)
		}
	}
	size := 0
	for key, value := range d.Meta {
		size += len(key) + len(value)
	}
	if size > maxMeta {
		return fmt.Errorf("_meta exceeds %d KiB", maxMeta>>10)
	}
	if p := d.Permissions; p != nil && max(len(p.Net), len(p.Read), len(p.Env)) > maxPermissions {
		return fmt.Errorf("permissions contains a list of more than %d entries", maxPermissions)
	}
	return nil
}

// declaration is the JSON file next to a script that declares its functions as tools.
type declaration struct {
	sum      [32]byte
	tools    []definition  // nil if there is no declaration
	warnings []*jsvm.Fault // members that have no effect
}

// declaredTool is a tool in a declaration file. parameters and inputSchema are two names for the
// same member, as are output and outputSchema, and hint and uiHint.
type declaredTool struct {
	Name, Description, Title, Summary, Hint, UIHint, Category string
	Modes                                                     []toolyard.Mode
	Parameters, InputSchema                                   json.RawMessage
	Output, OutputSchema                                      json.RawMessage
	Meta                                                      map[string]json.RawMessage `json:"_meta"`
}

var declaredMembers = []string{
	"name", "description", "title", "summary", "hint", "uiHint", "category", "modes", "parameters", "inputSchema", "output", "outputSchema", "_meta",
}

// readDeclaration reads a script's declaration. It ignores JSON files that have no tools.
func readDeclaration(file string) (*declaration, error) {
	data, err := safefile.Read(file, jsvm.MaxSource)
	base := filepath.Base(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &declaration{}, nil
	}
	if err != nil {
		return nil, &jsvm.Fault{File: base, Message: err.Error()}
	}
	d := &declaration{sum: sha256.Sum256(data)}
	var content struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, jsonFault(base, data, err)
	}
	if len(content.Tools) > maxTools {
		return nil, &jsvm.Fault{File: base, Message: fmt.Sprintf("the script declares more than %d tools", maxTools), Fix: "Split it into several scripts."}
	}
	for i, raw := range content.Tools {
		var t declaredTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, jsonFault(base, data, fmt.Errorf("tools[%d]: %w", i, err))
		}
		if err := t.check(); err != nil {
			return nil, &jsvm.Fault{File: base, Message: fmt.Sprintf("tools[%d] %s", i, err)}
		}
		d.tools = append(d.tools, t.definition())
		d.warnOfMembers(base, data, &t, raw)
	}
	return d, nil
}

func (t *declaredTool) check() error {
	switch {
	case t.Name == "" || t.Description == "":
		return errors.New("requires a name and a description")
	case t.Parameters != nil && t.InputSchema != nil:
		return errors.New("sets both parameters and inputSchema: remove one")
	case t.Output != nil && t.OutputSchema != nil:
		return errors.New("sets both output and outputSchema: remove one")
	}
	return nil
}

func (t *declaredTool) definition() definition {
	d := definition{
		Name: t.Name, Export: t.Name, Description: t.Description, Title: t.Title, Summary: t.Summary, Hint: cmp.Or(t.Hint, t.UIHint),
		Category: t.Category, Modes: t.Modes, Input: t.Parameters, Output: t.Output, Meta: t.Meta,
	}
	if d.Input == nil {
		d.Input = t.InputSchema
	}
	if d.Output == nil {
		d.Output = t.OutputSchema
	}
	return d
}

// warnOfMembers records members of a declared tool that have no effect.
func (d *declaration) warnOfMembers(file string, data []byte, t *declaredTool, raw json.RawMessage) {
	warn := func(message, member string) {
		fault := &jsvm.Fault{File: file, Line: 1, Column: 1, Message: message}
		if at := bytes.Index(data, []byte(`"`+t.Name+`"`)); at >= 0 {
			place(fault, string(data), keyAfter(string(data), at, []string{member}))
		}
		d.warnings = append(d.warnings, fault)
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(raw, &members) // cannot fail: raw has been decoded before
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if slices.ContainsFunc(declaredMembers, func(known string) bool { return strings.EqualFold(known, name) }) {
			continue
		}
		warn(fmt.Sprintf("member %.80q of %s has no effect%s", name, t.Name, spelling.DidYouMean(name, declaredMembers)), name)
	}
	if t.Parameters == nil && t.InputSchema == nil {
		warn(t.Name+" declares no parameters, so it accepts any arguments", "name")
	}
}

// request returns the request to list a script's declarations, or to check that it exports the
// declared functions.
func (d *declaration) request() json.RawMessage {
	if d.tools == nil {
		return json.RawMessage(`{"declare":true}`)
	}
	names := make([]string, 0, len(d.tools))
	for _, t := range d.tools {
		names = append(names, t.Export)
	}
	raw, _ := json.Marshal(map[string]any{"declared": names})
	return raw
}

// apply merges the declaration with options that the script sets for all of its tools.
func (d *declaration) apply(said []definition) []definition {
	if d.tools == nil {
		return said
	}
	all := make([]definition, 0, len(d.tools))
	for _, t := range d.tools {
		for _, s := range said {
			t.Permissions, t.Shared, t.Timeout = s.Permissions, s.Shared, s.Timeout
			t.Category, t.Hint = cmp.Or(t.Category, s.Category), cmp.Or(t.Hint, s.Hint)
			if t.Modes == nil {
				t.Modes = s.Modes
			}
		}
		all = append(all, t)
	}
	return all
}
