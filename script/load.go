package script

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/watch"
)

// file is a script: the tools of its last good version, and what is wrong with the present
// one.
type file struct {
	path        string // relative to the folder
	abs         string
	sum         [32]byte
	declaration string // the path of the JSON file beside it, which need not exist
	declared    [32]byte
	inputs      []jsvm.Input // all files that it is made of
	tools       []*toolyard.Tool
	faults      []toolyard.Problem
	library     bool // it does not look like a tool
	again       bool // it could not be loaded for reasons that are not its own
	took        time.Duration
}

// sumCache remembers the hashes of files during one update.
type sumCache map[string][32]byte

// of is the hash of a file; zero if it cannot be read.
func (c sumCache) of(path string) [32]byte {
	sum, ok := c[path]
	if !ok {
		if data, err := guard.ReadFile(path, jsvm.MaxSource); err == nil {
			sum = sha256.Sum256(data)
		}
		c[path] = sum
	}
	return sum
}

// current reports whether nothing that the file is made of has changed.
func (f *file) current(w watch.File, sums sumCache) bool {
	if f.again || f.sum != w.Sum || w.Err != nil || sums.of(f.declaration) != f.declared {
		return false
	}
	for _, in := range f.inputs {
		if in.Path != f.abs && sums.of(in.Path) != in.Sum {
			return false
		}
	}
	return true
}

// orLast keeps the tools of the last good version beside the faults of a bad one.
func (f *file) orLast(old *file) *file {
	if len(f.faults) > 0 && old != nil && !f.library {
		f.tools = old.tools
	}
	return f
}

func (f *file) names() (names []string) {
	for _, t := range f.tools {
		names = append(names, t.Name)
	}
	return names
}

// load makes tools of one file.
func (l *loader) load(ctx context.Context, w watch.File) *file {
	f := &file{path: w.Path, abs: w.Abs, sum: w.Sum, declaration: strings.TrimSuffix(w.Abs, filepath.Ext(w.Abs)) + ".json"}
	if w.Err != nil {
		return f.fail(&jsvm.Fault{File: w.Path, Message: w.Err.Error()})
	}
	d, err := readDeclaration(f.declaration)
	if err != nil {
		return f.fail(err)
	}
	f.declared = d.sum
	if kept := l.cache.get(f); kept != nil {
		f.inputs = kept.Inputs
		return l.finish(f, d, kept)
	}
	made, faults := l.compile(ctx, f, d)
	if len(faults) > 0 {
		return f.fail(faults...)
	}
	if l.finish(f, d, made); len(f.faults) == 0 {
		l.cache.put(f, made)
	}
	return f
}

// loadTime is how long a script may take to be loaded.
const loadTime = 5 * time.Second

// compile compiles a script and asks it what it declares.
func (l *loader) compile(ctx context.Context, f *file, d *declaration) (*entry, []error) {
	m, faults := jsvm.Compile(f.path, jsvm.CompileOptions{Root: l.folder.dir, Provided: l.modules})
	f.inputs = m.Inputs
	if len(faults) > 0 {
		var errs []error
		for i := range faults {
			errs = append(errs, &faults[i])
		}
		return nil, errs
	}
	declared, err := l.declare(ctx, f, &jsvm.Run{Module: m, Request: d.request(), Once: true, Timeout: loadTime})
	if err != nil {
		return nil, []error{loadFault(f, err)}
	}
	return &entry{Code: m.Code, Map: m.Map, Inputs: m.Inputs, Declared: declared}, nil
}

// declare asks a script what it declares. What is not the script's own fault is tried again.
func (l *loader) declare(ctx context.Context, f *file, r *jsvm.Run) (declared json.RawMessage, err error) {
	for range 3 {
		declared, err = l.pool.Run(ctx, r)
		_, threw := errors.AsType[*jsvm.Exception](err)
		stopped, ended := errors.AsType[*jsvm.Stopped](err)
		if f.again = err != nil && !threw && (!ended || stopped.Reason == jsvm.Lost); !f.again || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return declared, err
}

// loadFault says where a script failed while it was loaded.
func loadFault(f *file, err error) error {
	fault := &jsvm.Fault{File: f.path, Message: err.Error()}
	var e *jsvm.Exception
	if errors.As(err, &e) && e.Line > 0 {
		fault.File, fault.Line, fault.Column = e.File, e.Line, e.Column
		path := filepath.Join(strings.TrimSuffix(f.abs, filepath.FromSlash(f.path)), filepath.FromSlash(e.File))
		if slices.ContainsFunc(f.inputs, func(in jsvm.Input) bool { return in.Path == path }) {
			fault.Text = lineOf(path, e.Line)
		}
	}
	return fault
}

func lineOf(path string, line int) string {
	data, err := guard.ReadFile(path, jsvm.MaxSource)
	if err != nil {
		return ""
	}
	for text := range strings.Lines(string(data)) {
		if line--; line == 0 {
			return strings.TrimRight(text, "\r\n")
		}
	}
	return ""
}

// finish makes the tools that a script declares.
func (l *loader) finish(f *file, d *declaration, e *entry) *file {
	var answer struct {
		Value struct {
			Tools   []definition
			Faults  []struct{ Part, Message string }
			Library bool
		}
	}
	if err := json.Unmarshal(e.Declared, &answer); err != nil {
		return f.fail(fmt.Errorf("what it declares cannot be used: %w", err))
	}
	said := answer.Value
	f.library = said.Library
	var errs []error
	for _, one := range said.Faults {
		errs = append(errs, partFault(f, one.Part, one.Message))
	}
	if len(errs) > 0 {
		return f.fail(errs...)
	}
	m := jsvm.NewModule(f.path, e.Code, e.Map)
	for _, def := range d.apply(said.Tools) {
		t, err := l.tool(f, m, def)
		if err != nil {
			errs = append(errs, partFault(f, def.Export, strings.TrimPrefix(err.Error(), "tool "+def.Name+": ")))
			continue
		}
		f.tools = append(f.tools, t)
	}
	if len(errs) > 0 {
		f.tools = nil
		return f.fail(errs...)
	}
	return f
}

// partFault says where the export is that a fault is about; the beginning if there is none.
func partFault(f *file, part, message string) *jsvm.Fault {
	fault := &jsvm.Fault{File: f.path, Line: 1, Column: 1, Message: message}
	pattern := `^\s*export\s+(async\s+)?(const|let|var|function\*?|class)\s+` + regexp.QuoteMeta(part) + `\b`
	if part == "default" {
		pattern = `^\s*export\s+default\b`
	}
	export, err := regexp.Compile(pattern)
	data, readErr := guard.ReadFile(f.abs, jsvm.MaxSource)
	if err != nil || readErr != nil {
		return fault
	}
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		if export.MatchString(text) {
			fault.Line, fault.Text = line, strings.TrimRight(text, "\r\n")
			return fault
		}
	}
	return fault
}

// fail makes problems of what is wrong with the file.
func (f *file) fail(errs ...error) *file {
	for _, err := range errs {
		p := toolyard.Problem{Source: "scripts", File: f.path, Message: err.Error()}
		if fault, ok := errors.AsType[*jsvm.Fault](err); ok {
			p.File, p.Line, p.Column, p.Message, p.Frame = fault.File, fault.Line, fault.Column, fault.Message, fault.Frame()
		}
		f.faults = append(f.faults, p)
	}
	return f
}
