package script

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/sources/watch"
)

// loader loads a folder's files.
type loader struct {
	folder   *Folder
	compiler *jsvm.Compiler
	pool     *jsvm.Pool
	cache    *cache
	modules  []string // modules that scripts can import
	files    map[string]*file
	skipped  int // number of scripts beyond maxFiles
}

func newLoader(f *Folder, compiler *jsvm.Compiler, pool *jsvm.Pool) *loader {
	l := &loader{folder: f, compiler: compiler, pool: pool, cache: openCache(f.opts.CacheDir, f.cacheName())}
	for _, p := range f.provided() {
		l.modules = append(l.modules, p.Name)
	}
	l.modules = append(l.modules, jsvm.Modules()...)
	return l
}

// update loads new and changed files.
func (l *loader) update(ctx context.Context, found []watch.File) {
	l.skipped = max(0, len(found)-maxFiles)
	found = found[:len(found)-l.skipped]
	before := l.files
	next := make(map[string]*file, len(found))
	var stale []watch.File
	sums := make(sumCache)
	for _, w := range found {
		if old := before[w.Path]; old != nil && old.current(w, sums) {
			next[w.Path] = old
			continue
		}
		stale = append(stale, w)
	}
	loaded := l.loadAll(ctx, stale)
	if ctx.Err() != nil {
		return
	}
	for _, n := range loaded {
		next[n.path] = n.orLast(before[n.path])
	}
	l.files = next
	var gone []string
	for path := range before {
		if next[path] == nil {
			gone = append(gone, path)
		}
	}
	l.notifyLoads(loaded, gone, before == nil)
	if before == nil {
		l.cache.keepOnly(next) // removes entries of files that were deleted before startup
	} else {
		l.cache.forget(gone)
	}
}

// loadAll loads files concurrently.
func (l *loader) loadAll(ctx context.Context, files []watch.File) []*file {
	loaded := make([]*file, len(files))
	slots := make(chan struct{}, 2*runtime.NumCPU())
	var wg sync.WaitGroup
	for i, w := range files {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			start := time.Now()
			loaded[i] = l.load(ctx, w)
			loaded[i].took = time.Since(start)
		})
	}
	wg.Wait()
	return loaded
}

// notifyLoads reports loaded and deleted files to OnLoad.
func (l *loader) notifyLoads(loaded []*file, gone []string, first bool) {
	onLoad := l.folder.opts.OnLoad
	if onLoad == nil {
		return
	}
	imported := l.imported()
	for _, n := range loaded {
		if !n.library || !imported[n.abs] {
			onLoad(Load{File: n.path, Tools: n.names(), Faults: n.faults, Warnings: n.warnings, Took: n.took, First: first})
		}
	}
	for _, path := range gone {
		onLoad(Load{File: path})
	}
}

// tools returns all files' tools, in the order of the files.
func (l *loader) tools() (tools []*toolyard.Tool) {
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		tools = append(tools, l.files[path].tools...)
	}
	return tools
}

// watched returns additional files to watch: imports and declarations.
func (l *loader) watched() []string {
	also := make(map[string]bool)
	for _, one := range l.files {
		if one.declaration != "" {
			also[one.declaration] = true
		}
		for _, in := range one.inputs {
			also[in.Path] = true
		}
	}
	return slices.Collect(maps.Keys(also))
}

// imported returns the files that other files import.
func (l *loader) imported() map[string]bool {
	imported := make(map[string]bool)
	for _, one := range l.files {
		for _, in := range one.inputs {
			if in.Path != one.abs {
				imported[in.Path] = true
			}
		}
	}
	return imported
}

// unusedGrants reports grants for unknown tools, whose names are probably misspelled.
func (l *loader) unusedGrants() (problems []toolyard.Problem) {
	var names []string
	for _, t := range l.tools() {
		names = append(names, t.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(l.folder.opts.Grants)) {
		if name == "*" || slices.Contains(names, name) {
			continue
		}
		p := toolyard.Problem{Source: "scripts", Subject: "scripts.grants." + name, Message: "unknown tool " + name, Fix: spelling.Fix(name, names)}
		problems = append(problems, p)
	}
	return problems
}

// problems returns all files' problems. A file that has no tool is fine if another file imports it.
func (l *loader) problems() (problems []toolyard.Problem) {
	if info, err := os.Stat(l.folder.dir); err != nil || !info.IsDir() {
		return []toolyard.Problem{{Source: "scripts", Subject: "scripts", Message: "folder not found: " + l.folder.opts.Dir, Fix: "Create it; Toolyard loads it as soon as it exists."}}
	}
	if l.skipped > 0 {
		problems = append(problems, toolyard.Problem{
			Source: "scripts", Subject: "scripts", Message: fmt.Sprintf("more than %d scripts were found; %d are not loaded", maxFiles, l.skipped),
			Fix: "Narrow scripts.glob, or remove some files.",
		})
	}
	problems = slices.Concat(problems, l.unusedGrants(), l.folder.unsetVariables())
	imported := l.imported()
	for _, path := range slices.Sorted(maps.Keys(l.files)) {
		if one := l.files[path]; !one.library || !imported[one.abs] {
			problems = append(append(problems, one.faults...), one.warnings...)
		}
	}
	if extra := len(problems) - maxProblems; extra > 0 {
		problems = append(problems[:maxProblems:maxProblems], toolyard.Problem{Source: "scripts", Subject: "scripts", Message: "and " + spelling.Count(extra, "more problem")})
	}
	return problems
}

// Limits for a folder.
const (
	maxFiles    = 5000 // loaded scripts
	maxProblems = 200  // reported problems
)
