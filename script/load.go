package script

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/sources/watch"
	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// file is a script. It has the tools of the last valid version and the faults of the current one.
type file struct {
	path        string // relative to the folder
	abs         string
	sum         [32]byte
	declaration string // path of the JSON file next to the script; the file need not exist
	declared    [32]byte
	inputs      []jsvm.Input // all files that the script is built from
	tools       []*toolyard.Tool
	provider    *function // replaces tools if the script provides context
	faults      []toolyard.Problem
	warnings    []toolyard.Problem // probable mistakes
	library     bool               // whether the script declares no tool
	again       bool               // whether loading failed for an external reason and will be retried
	took        time.Duration
}

// sumCache caches the hashes of files during one update.
type sumCache map[string][32]byte

// of returns the hash of a file, or zero if it cannot be read.
func (c sumCache) of(path string) [32]byte {
	sum, ok := c[path]
	if !ok {
		if data, err := safefile.Read(path, jsvm.MaxSource); err == nil {
			sum = sha256.Sum256(data)
		}
		c[path] = sum
	}
	return sum
}

// current reports whether all of the file's inputs are unchanged.
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

// orLast keeps the last valid version's tools if the new version has faults.
func (f *file) orLast(old *file) *file {
	if len(f.faults) > 0 && old != nil && !f.library {
		f.tools, f.provider = old.tools, old.provider
	}
	return f
}

func (f *file) names() (names []string) {
	for _, t := range f.tools {
		names = append(names, t.Name)
	}
	return names
}

// load loads one file's tools.
func (l *loader) load(ctx context.Context, w watch.File) *file {
	f := &file{path: w.Path, abs: w.Abs, sum: w.Sum, declaration: strings.TrimSuffix(w.Abs, filepath.Ext(w.Abs)) + ".json"}
	if w.Err != nil {
		return f.fail(&jsvm.Fault{File: w.Path, Message: w.Err.Error()})
	}
	d := &declaration{}
	if l.folder.kind == "" {
		var err error
		if d, err = readDeclaration(f.declaration); err != nil {
			return f.fail(err)
		}
	} else {
		f.declaration = "" // a JSON file next to a provider declares no tools
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

// loadTime is the time limit for loading a script.
const loadTime = 5 * time.Second

// compile compiles a script and reads its declarations.
func (l *loader) compile(ctx context.Context, f *file, d *declaration) (*entry, []error) {
	m, faults, err := l.compiler.Compile(ctx, f.path, jsvm.CompileOptions{Root: l.folder.dir, Provided: l.modules})
	if f.inputs = m.Inputs; err != nil {
		f.again = true
		return nil, []error{err}
	}
	if len(faults) > 0 {
		var errs []error
		for i := range faults {
			errs = append(errs, &faults[i])
		}
		return nil, errs
	}
	declared, err := l.declare(ctx, f, &jsvm.Run{Module: m, Request: l.declareRequest(d), Once: true, Timeout: loadTime})
	if err != nil {
		return nil, []error{loadFault(f, err)}
	}
	return &entry{Code: m.Code, Map: m.Map, Inputs: m.Inputs, Declared: declared}, nil
}

// declare reads a script's declarations. It retries if the script did not cause the failure.
func (l *loader) declare(ctx context.Context, f *file, r *jsvm.Run) (declared json.RawMessage, err error) {
	for range 3 {
		declared, err = l.pool.Run(ctx, r)
		_, threw := errors.AsType[*jsvm.Exception](err)
		stopped, ended := errors.AsType[*jsvm.Stopped](err)
		if f.again = err != nil && !threw && (!ended || stopped.Reason == jsvm.WorkerDied); !f.again || ctx.Err() != nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return declared, err
}

// maxTools is the maximum number of tools in one file.
const maxTools = 100

// maxDeclared limits the size of a file's declarations (texts, schemas and metadata), in bytes.
const maxDeclared = 2 << 20

// declared is the harness's response about a script.
type declared struct {
	Tools   []definition
	Hooks   []string // names of an agent's hooks
	Faults  []struct{ Part, Message string }
	Library bool
	Exports []string // names of exports and of the members of AI SDK tools
	Early   []string // environment variables read during loading
}

// finish creates the tools that a script declares.
func (l *loader) finish(f *file, d *declaration, e *entry) *file {
	if len(e.Declared) > maxDeclared {
		return f.fail(&jsvm.Fault{File: f.path, Message: fmt.Sprintf("the script's declarations exceed %d MiB", maxDeclared>>20), Fix: "Shorten the schemas and descriptions."})
	}
	var answer struct{ Value declared }
	if err := json.Unmarshal(e.Declared, &answer); err != nil {
		return f.fail(fmt.Errorf("invalid declaration: %w", err))
	}
	said := &answer.Value
	f.library = said.Library
	var errs []error
	for _, one := range said.Faults {
		errs = append(errs, partFault(f, one.Message, one.Part))
	}
	if len(errs) > 0 {
		return f.fail(errs...)
	}
	if l.folder.kind != "" {
		return l.finishProvider(f, e, said)
	}
	m, definitions := jsvm.NewModule(f.path, e.Code, e.Map), d.apply(said.Tools)
	for _, def := range definitions {
		t, err := l.tool(f, m, def)
		if err != nil {
			errs = append(errs, definitionFault(f, d.tools != nil, &def, err))
			continue
		}
		f.tools = append(f.tools, t)
	}
	if len(errs) > 0 {
		f.tools = nil
		return f.fail(errs...)
	}
	if !f.library {
		for _, fault := range d.warnings {
			f.warn(fault)
		}
		l.warn(f, said, definitions)
	}
	return f
}
