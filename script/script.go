// Package script loads tools from TypeScript files. A file exports a description, a zod schema for
// the arguments and a function; nothing else needs to be installed. A saved file takes effect
// immediately; if it is broken, the last valid version stays in use. A file can also provide
// context: see [Provider].
//
// Scripts run in worker processes. They have no access to the network, files or the environment
// unless the operator grants it. Each call starts from the same state.
package script

import (
	"cmp"
	"context"
	_ "embed" // embeds the harness
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

// Options configure a Folder.
type Options struct {
	Dir    string // folder with the scripts
	Glob   string // pattern for file names; **/*.ts if empty
	Base   string // base of relative paths in grants and scripts; the working directory if empty
	Grants map[string]Grant

	Private []netip.Prefix // private networks that granted names may resolve to

	Memory   int           // memory limit of a call, in bytes; 64 MiB if zero
	CPU      time.Duration // CPU limit of a call; 5 s if zero
	Workers  int           // maximum number of processes; one per processor if zero
	CacheDir string        // cache for compiled scripts; no cache if empty

	Log    *slog.Logger                // may be nil
	Getenv func(string) (string, bool) // returns granted variables; may be nil
	OnLoad func(Load)                  // called after each load; may be nil
}

// Grant lists what a tool may access. Grants are keyed by tool name; "*" applies to all tools. The
// permissions that a tool declares can only restrict its grant.
type Grant struct {
	Net  []string `json:"net"`  // hosts, such as api.example.com, api.example.com:8443, *.example.com or *
	Read []string `json:"read"` // folders and files
	Env  []string `json:"env"`  // variables, as NAME or PREFIX_*
}

// Load is the result of loading a file.
type Load struct {
	File     string
	Tools    []string // names of the file's tools; empty if the file was deleted or was never valid
	Faults   []toolyard.Problem
	Warnings []toolyard.Problem // probable mistakes
	Took     time.Duration
	First    bool // whether this is part of the folder's initial load
}

// Folder is a source that offers the tools in a folder.
type Folder struct {
	opts Options
	zod  string
	dir  string // absolute path
	base string // absolute path
	kind string // kind of context that the only file provides, or name of the agent that its hooks belong to; empty for tools

	hooks bool // whether the only file contains an agent's hooks

	mu       sync.Mutex
	problems []toolyard.Problem
}

// New returns a source. It fails if this binary lacks the script engine.
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

//go:embed toolyard.js
var runtimeModule string

// provided returns the built-in modules that scripts can import.
func (f *Folder) provided() []jsvm.Provided {
	alias := `export * from "zod"; export { default } from "zod";`
	return []jsvm.Provided{
		{Name: "zod", Source: f.zod},
		{Name: "zod/v4", Source: alias},
		{Name: "toolyard", Source: runtimeModule},
		{Name: "ai", Source: `export const tool = (t) => t; export const jsonSchema = (s) => ({ jsonSchema: s });`},
	}
}

// Run implements [toolyard.Source].
func (f *Folder) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	return f.run(ctx, func(l *loader) { publish(toolyard.Offer{Tools: l.tools(), Problems: f.Problems()}) })
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
	defer pool.Retire() // calls in progress finish with their version
	compiler := jsvm.NewCompiler()
	defer compiler.Close()
	l := newLoader(f, compiler, pool)
	w := watch.Folder{Dir: f.dir, Glob: f.opts.Glob, Log: f.opts.Log}
	return w.Run(ctx, func(files []watch.File) []string {
		l.update(ctx, files)
		if ctx.Err() == nil { // a canceled update is incomplete
			f.mu.Lock()
			f.problems = l.problems()
			f.mu.Unlock()
			updated(l)
		}
		return l.watched()
	})
}

// Problems returns the files' problems.
func (f *Folder) Problems() []toolyard.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems
}

// DefaultCacheDir returns the current user's cache directory, or "" if there is none.
func DefaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "toolyard")
}
