// Package script makes tools of TypeScript files. A file in a folder is a tool: it exports
// a description, a zod schema for its arguments and a function. Nothing else needs to be
// installed, and a save is live at once; a broken save keeps the last good version.
//
// Scripts run in processes of their own, without network, files or environment unless the
// operator grants them. Each call starts from the same state.
package script

import (
	"cmp"
	"context"
	_ "embed" // for the harness
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/jsvm/assets"
	"github.com/toolyard/toolyard/internal/sources/watch"
)

// Options say which files are tools and what they may do.
type Options struct {
	Dir    string // the folder
	Glob   string // which files; **/*.ts when empty
	Base   string // what paths in grants and in scripts are relative to; the working directory when empty
	Grants map[string]Grant

	Private []netip.Prefix // networks beside the public internet that granted names may lead to

	Memory   int           // bytes that one call may use; 64 MiB when zero
	CPU      time.Duration // CPU time that one call may use; 5 s when zero
	Workers  int           // processes at most; one for each processor when zero
	CacheDir string        // where compiled scripts are kept; nowhere when empty

	Log    *slog.Logger                // nil for none
	Getenv func(string) (string, bool) // for granted names; nothing when nil
	OnLoad func(Load)                  // told how each file was loaded, nil for nobody
}

// Grant is what a tool may reach beside its arguments. Grants are by the name of a tool;
// "*" is for all. What a tool itself declares can only narrow them.
type Grant struct {
	Net  []string `json:"net"`  // hosts: api.example.com, api.example.com:8443, *.example.com, *
	Read []string `json:"read"` // folders and files
	Env  []string `json:"env"`  // variables: NAME or PREFIX_*
}

// Load is how a file was loaded.
type Load struct {
	File     string
	Tools    []string // the names of its tools; none if the file is gone or never was good
	Faults   []toolyard.Problem
	Warnings []toolyard.Problem // what is probably not as it was meant
	Took     time.Duration
	First    bool // it is part of the first look at the folder
}

// Folder is a source of tools.
type Folder struct {
	opts Options
	zod  string
	dir  string // absolute
	base string // absolute
	kind string // of the context that its one file provides; empty for tools

	mu       sync.Mutex
	problems []toolyard.Problem
}

// New makes a source. It fails if this program lacks what scripts need.
func New(opts Options) (*Folder, error) {
	if err := jsvm.Available(); err != nil {
		return nil, err
	}
	zod, err := assets.Read(assets.Zod)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	base, err := filepath.Abs(opts.Base)
	if err != nil {
		return nil, err
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.Getenv == nil {
		opts.Getenv = func(string) (string, bool) { return "", false }
	}
	return &Folder{opts: opts, dir: dir, base: base, zod: string(zod)}, nil
}

//go:embed harness.js
var harness string

// provided are the modules that scripts can import.
func (f *Folder) provided() []jsvm.Provided {
	alias := `export * from "zod"; export { default } from "zod";`
	return []jsvm.Provided{
		{Name: "zod", Source: f.zod},
		{Name: "zod/v4", Source: alias},
		{Name: "ai", Source: `export const tool = (t) => t; export const jsonSchema = (s) => ({ jsonSchema: s });`},
	}
}

// Run implements [toolyard.Source].
func (f *Folder) Run(ctx context.Context, publish func([]*toolyard.Tool)) error {
	return f.run(ctx, func(l *loader) { publish(l.tools()) })
}

// run loads the files and follows their changes. It calls updated after each load.
func (f *Folder) run(ctx context.Context, updated func(*loader)) error {
	pool, err := jsvm.NewPool(jsvm.Options{
		Harness: harness, Modules: f.provided(), Memory: f.opts.Memory, CPU: f.opts.CPU,
		Workers: f.opts.Workers, CacheDir: f.opts.CacheDir, Log: f.opts.Log,
	})
	if err != nil {
		return err
	}
	defer pool.Retire() // calls in flight end on the version that they began with
	compiler := jsvm.NewCompiler()
	defer compiler.Close()
	l := newLoader(f, compiler, pool)
	w := watch.Folder{Dir: f.dir, Glob: f.opts.Glob, Log: f.opts.Log}
	return w.Run(ctx, func(files []watch.File) []string {
		l.update(ctx, files)
		if ctx.Err() == nil { // what was cut short says nothing about the files
			f.mu.Lock()
			f.problems = l.problems()
			f.mu.Unlock()
			updated(l)
		}
		return l.watched()
	})
}

// Problems implements [toolyard.ProblemReporter].
func (f *Folder) Problems() []toolyard.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems
}

// DefaultCacheDir is where compiled scripts are kept for this user, or empty if there is no
// such place.
func DefaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "toolyard")
}
