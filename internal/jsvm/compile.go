package jsvm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"

	"github.com/toolyard/toolyard/internal/guard"
)

// Module is a compiled script.
type Module struct {
	Name   string   // the file it was made from
	Code   string   // JavaScript
	Map    []byte   // its source map
	Inputs []Input  // the files that it is made of
	key    [32]byte // of name and code

	positions func() *sourcemap.Consumer // what Map says, nil if it says nothing
}

// Input is a file that a module is made of.
type Input struct {
	Path string
	Sum  [32]byte
}

// NewModule is a module of JavaScript that needs no compiling.
func NewModule(name, code string, sourceMap []byte) *Module {
	m := &Module{Name: name, Code: code, Map: sourceMap}
	m.key = sha256.Sum256(m.body())
	m.positions = sync.OnceValue(func() *sourcemap.Consumer {
		c, _ := sourcemap.Parse("", m.Map) // of JavaScript that was not compiled there is none
		return c
	})
	return m
}

func (m *Module) body() []byte {
	return append(append([]byte(m.Name), 0), m.Code...)
}

// CompileOptions say what a script may be made of.
type CompileOptions struct {
	Root     string   // the folder that imports cannot leave, absolute
	Provided []string // names of modules that are there without a file
}

// Fault is something that is wrong with a script.
type Fault struct {
	File         string // relative to the root
	Line, Column int    // from 1; zero when unknown
	Message      string
	Text         string // the line
}

func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// Frame shows the line of a fault and points at the place.
func (f *Fault) Frame() string {
	if f.Text == "" || f.Line == 0 {
		return ""
	}
	number := fmt.Sprint(f.Line)
	before := []rune(f.Text)[:min(max(f.Column-1, 0), len([]rune(f.Text)))]
	for i, r := range before {
		if r != '\t' {
			before[i] = ' '
		}
	}
	return fmt.Sprintf("%s | %s\n%s | %s^", number, f.Text, strings.Repeat(" ", len(number)), string(before))
}

// Bounds on what a script is made of.
const (
	MaxSource  = 1 << 20 // bytes of one file
	maxProgram = 8 << 20 // bytes of all files of a module
)

// Compile makes a module of a TypeScript file and what it imports: types are stripped, and
// all files become one. Beside faults the module has only its inputs: the files whose change
// may mend it, also those that are missing.
func Compile(file string, o CompileOptions) (*Module, []Fault) {
	c := &compiler{CompileOptions: o}
	var err error
	if c.realRoot, err = filepath.EvalSymlinks(o.Root); err != nil {
		return &Module{Name: file}, []Fault{{File: file, Message: err.Error()}}
	}
	c.entry = filepath.Join(o.Root, filepath.FromSlash(file))
	source, err := guard.ReadFile(c.entry, MaxSource)
	if err != nil {
		return &Module{Name: file}, []Fault{{File: file, Message: err.Error()}}
	}
	c.inputs, c.size = []Input{{c.entry, sha256.Sum256(source)}}, len(source)
	result, ok := build(api.BuildOptions{
		// The script is given as text: to find a file by its path the compiler would read its
		// folder, which may be large.
		Stdin: &api.StdinOptions{
			Contents: withoutMaps(source), Sourcefile: c.entry, ResolveDir: filepath.Dir(c.entry), Loader: loaders[filepath.Ext(file)],
		},
		AbsWorkingDir:    o.Root,
		Outfile:          filepath.Join(o.Root, "module.js"),
		Bundle:           true,
		Format:           api.FormatESModule,
		Target:           api.ES2023,
		Charset:          api.CharsetUTF8,
		Sourcemap:        api.SourceMapExternal,
		SourcesContent:   api.SourcesContentExclude,
		MainFields:       []string{"module", "browser", "main"},
		Conditions:       []string{"browser", "import", "default"},
		PreserveSymlinks: true,
		TsconfigRaw:      "{}",
		Plugins:          []api.Plugin{{Name: "toolyard", Setup: c.setup}},
		LogLimit:         10,
	})
	if !ok {
		return &Module{Name: file}, []Fault{{File: file, Message: "it took too long to compile"}}
	}
	if len(result.Errors) > 0 {
		return &Module{Name: file, Inputs: c.inputs}, c.faults(result.Errors)
	}
	return c.finish(file, result), nil
}

// compileTime is how long compiling may take. It is only ever reached by files that block
// whoever reads them.
const compileTime = 10 * time.Second

func build(o api.BuildOptions) (result api.BuildResult, ok bool) {
	done := make(chan api.BuildResult, 1)
	go func() { done <- api.Build(o) }()
	select {
	case result = <-done:
		return result, true
	case <-time.After(compileTime):
		return result, false
	}
}

// withoutMaps makes the compiler overlook source maps that a file claims to have: it would
// read them from anywhere, and believe what they say. No column moves.
func withoutMaps(source []byte) string {
	return strings.ReplaceAll(string(source), "sourceMappingURL", "sourceMappingNot")
}

func (c *compiler) finish(file string, result api.BuildResult) *Module {
	var code string
	var sourceMap []byte
	for _, f := range result.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			sourceMap = f.Contents
		} else {
			code = string(f.Contents)
		}
	}
	m := NewModule(file, code, sourceMap)
	slices.SortFunc(c.inputs, func(a, b Input) int { return strings.Compare(a.Path, b.Path) })
	m.Inputs = c.inputs
	return m
}

// compiler is one use of esbuild, which calls it from many goroutines.
type compiler struct {
	CompileOptions
	realRoot string
	entry    string

	mu     sync.Mutex
	inputs []Input
	size   int
}

func (c *compiler) setup(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: `^[^./]`}, c.resolve)
	b.OnResolve(api.OnResolveOptions{Filter: `^[./]`}, c.resolveFile)
	b.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: "file"}, c.load)
}

// resolve finds provided modules; the rest is looked for in files.
func (c *compiler) resolve(args api.OnResolveArgs) (r api.OnResolveResult, err error) {
	name := args.Path
	switch {
	case slices.Contains(c.Provided, name):
		return api.OnResolveResult{Path: name, External: true}, nil
	case slices.Contains(c.Provided, "node:"+name):
		return api.OnResolveResult{Path: "node:" + name, External: true}, nil
	case strings.HasPrefix(name, "node:"):
		return r, fmt.Errorf("%s is not available to scripts", name)
	}
	return r, nil
}

// endings are what may be missing at the end of the name of an imported file.
var endings = []string{"", ".ts", ".tsx", ".mts", ".js", ".mjs", ".json", "/index.ts", "/index.js"}

// resolveFile finds a file by its path, without reading anything else. Files of packages are
// left to the compiler.
func (c *compiler) resolveFile(args api.OnResolveArgs) (r api.OnResolveResult, err error) {
	if strings.Contains(args.Importer, "/node_modules/") {
		return r, nil
	}
	path := filepath.FromSlash(args.Path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(args.ResolveDir, path)
	}
	candidates := make([]string, 0, len(endings)+1)
	for _, ending := range endings {
		candidates = append(candidates, path+filepath.FromSlash(ending))
	}
	if name, ok := strings.CutSuffix(path, ".js"); ok { // which may mean what it is made from
		candidates = append(candidates, name+".ts")
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return api.OnResolveResult{Path: candidate, Namespace: "file"}, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, candidate := range candidates { // one of them may come
		c.inputs = append(c.inputs, Input{Path: candidate})
	}
	return r, fmt.Errorf("Could not resolve %q", args.Path) //nolint:staticcheck // as the compiler says it
}

var loaders = map[string]api.Loader{
	".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".tsx": api.LoaderTSX,
	".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS, ".jsx": api.LoaderJSX,
	".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
}

// load reads a file that may be part of the module.
func (c *compiler) load(args api.OnLoadArgs) (r api.OnLoadResult, err error) {
	loader, ok := loaders[filepath.Ext(args.Path)]
	if !ok {
		return r, fmt.Errorf("a script cannot import a file like %s", filepath.Base(args.Path))
	}
	if err := c.contains(args.Path); err != nil {
		return r, err
	}
	data, err := guard.ReadFile(args.Path, MaxSource)
	if err != nil {
		return r, err
	}
	c.mu.Lock()
	c.inputs = append(c.inputs, Input{args.Path, sha256.Sum256(data)})
	c.size += len(data)
	large := c.size > maxProgram
	c.mu.Unlock()
	if large {
		return r, fmt.Errorf("all files together are larger than %d MiB", maxProgram>>20)
	}
	text := withoutMaps(data)
	return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: filepath.Dir(args.Path)}, nil
}

// contains checks that a file is below the root. The script itself may be a link to
// elsewhere: whoever put it there may decide that. What it imports may not.
func (c *compiler) contains(path string) error {
	if path == c.entry {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(c.realRoot, real); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("a script cannot import files outside of its folder: %s", filepath.Base(path))
	}
	return nil
}

func (c *compiler) faults(messages []api.Message) (faults []Fault) {
	for _, m := range messages {
		f := Fault{File: c.relative(c.entry), Message: m.Text}
		for _, n := range m.Notes {
			if n.Location == nil && len(n.Text) < 200 && !strings.Contains(n.Text, "esbuild") && !strings.Contains(n.Text, "external") {
				f.Message += " (" + n.Text + ")"
			}
		}
		if at := m.Location; at != nil {
			f.File, f.Line, f.Text = c.relative(at.File), at.Line, at.LineText
			f.Column = len([]rune(at.LineText[:min(at.Column, len(at.LineText))])) + 1
		}
		faults = append(faults, f)
	}
	return faults
}

// relative is a path as an author knows it.
func (c *compiler) relative(path string) string {
	if !filepath.IsAbs(path) {
		return filepath.ToSlash(path)
	}
	if rel, err := filepath.Rel(c.Root, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}
