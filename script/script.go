// Package script loads tools from TypeScript files. A file exports a description, a zod schema of
// its arguments and a function; nothing else needs to be installed. A saved file takes effect
// immediately; if it is broken, the last good version stays in use. A file can also provide
// context: see [Provider].
//
// Scripts run in worker processes, without access to the network, files or environment unless the
// operator grants it. Each call starts from the same state.
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

// Options configure a Folder.
type Options struct {
	Dir    string // the folder
	Glob   string // pattern of the files; **/*.ts if empty
	Base   string // base of relative paths in grants and scripts; the working directory if empty
	Grants map[string]Grant

	Private []netip.Prefix // private networks that granted names may resolve to

	Memory   int           // memory limit of a call, in bytes; 64 MiB if zero
	CPU      time.Duration // CPU limit of a call; 5 s if zero
	Workers  int           // maximum number of processes; one per processor if zero
	CacheDir string        // cache of compiled scripts; empty for none

	Log    *slog.Logger                // nil for none
	Getenv func(string) (string, bool) // for granted variables; nil for none
	OnLoad func(Load)                  // called after each load; may be nil
}

// Grant is what a tool may access. Grants are listed by tool name; "*" applies to all tools. The
// permissions that a tool declares can only restrict them.
type Grant struct {
	Net  []string `json:"net"`  // hosts: api.example.com, api.example.com:8443, *.example.com, *
	Read []string `json:"read"` // folders and files
	Env  []string `json:"env"`  // variables: NAME or PREFIX_*
}

// Load is the result of loading a file.
type Load struct {
	File     string
	Tools    []string // names of its tools; empty if the file was deleted or was never valid
	Faults   []toolyard.Problem
	Warnings []toolyard.Problem // probable mistakes
	Took     time.Duration
	First    bool // part of the initial load of the folder
}

// Folder is a source of tools.
type Folder struct {
	opts Options
	zod  string
	dir  string // absolute
	base string // absolute
	kind string // of the context that its only file provides, or of the agent to which its hooks belong; empty for tools

	hooks bool // its only file contains an agent's hooks

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
	defer pool.Retire() // calls in progress finish on their version
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

// Problems returns the problems of the files.
func (f *Folder) Problems() []toolyard.Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems
}

// DefaultCacheDir returns the cache directory of this user, or "" if there is none.
func DefaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "toolyard")
}
