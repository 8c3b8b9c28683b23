package jsvm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// Limits on a script and its compiled form.
const (
	MaxSource  = 1 << 20 // bytes per file
	maxProgram = 8 << 20 // bytes in all files of a module
	maxInputs  = 2000    // files per module
	maxCode    = 8 << 20 // bytes of compiled JavaScript
	maxMap     = 4 << 20 // bytes of the source map; larger maps are omitted
)

// compile bundles a TypeScript file and all its imports into one JavaScript module. It runs in a
// compiler process, which limits the damage that a malicious file can do. If it fails, the module
// contains only its inputs, including missing files, because a change to one of them may fix the
// problem.
func compile(file string, o CompileOptions) (*Module, []Fault) {
	c := &compiler{CompileOptions: o}
	var err error
	if c.realRoot, err = filepath.EvalSymlinks(o.Root); err != nil {
		return &Module{Name: file}, []Fault{{File: file, Message: err.Error()}}
	}
	c.entry = filepath.Join(o.Root, filepath.FromSlash(file))
	source, err := safefile.Read(c.entry, MaxSource)
	if err != nil {
		return &Module{Name: file}, []Fault{{File: file, Message: err.Error()}}
	}
	c.inputs, c.size = []Input{{c.entry, sha256.Sum256(source)}}, len(source)
	text := withoutMaps(source)
	if computed := computedImports(c.entry, text); len(computed) > 0 {
		return &Module{Name: file, Inputs: c.inputs}, c.faults(computed)
	}
	result := api.Build(c.options(file, text))
	if len(result.Errors) > 0 {
		return &Module{Name: file, Inputs: c.inputs}, c.faults(result.Errors)
	}
	return c.finish(file, result)
}

func (c *compiler) options(file, source string) api.BuildOptions {
	return api.BuildOptions{
		// The script is passed as text. To find a file by its path, the compiler would read the
		// whole folder, which may be large.
		Stdin: &api.StdinOptions{
			Contents: source, Sourcefile: c.entry, ResolveDir: filepath.Dir(c.entry), Loader: loaders[filepath.Ext(file)],
		},
		AbsWorkingDir:    c.Root,
		Outfile:          filepath.Join(c.Root, "module.js"),
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
		LogLimit:         maxFaults,
	}
}

// maxFaults is the maximum number of faults reported per script.
const maxFaults = 10

// withoutMaps makes the compiler ignore source maps that a file refers to. Otherwise, it would read
// them from any location and trust their content. Columns do not change.
func withoutMaps(source []byte) string {
	return strings.ReplaceAll(string(source), "sourceMappingURL", "sourceMappingNot")
}

func (c *compiler) finish(file string, result api.BuildResult) (*Module, []Fault) {
	var code string
	var sourceMap []byte
	for _, f := range result.OutputFiles {
		if strings.HasSuffix(f.Path, ".map") {
			sourceMap = f.Contents
		} else {
			code = string(f.Contents)
		}
	}
	if len(sourceMap) > maxMap {
		sourceMap = nil
	}
	slices.SortFunc(c.inputs, func(a, b Input) int { return strings.Compare(a.Path, b.Path) })
	if len(code) > maxCode {
		return &Module{Name: file, Inputs: c.inputs}, []Fault{{
			File: file, Message: fmt.Sprintf("the compiled script is larger than %d MiB", maxCode>>20), Fix: "Import fewer or smaller files.",
		}}
	}
	m := NewModule(file, code, sourceMap)
	m.Inputs = c.inputs
	return m, nil
}

// mayImport matches files that may call import or require. The bundler determines whether they do.
var mayImport = regexp.MustCompile(`import\s*[^\s\w$"'{*]|require|\\u`)

// globLike matches calls to import or require whose argument the bundler would treat as a glob
// pattern.
var globLike = regexp.MustCompile("^(import|require)[^\"'`]{0,200}[\"'`]\\.\\.?[/\\\\]")

// computedImports reports calls to import and require whose argument is not a literal. The bundler
// would search the disk for all matching files. In packages, it accepts calls that the bundler
// ignores, because browser packages often contain them in code for other platforms.
func computedImports(path, source string) (found []api.Message) {
	if !mayImport.MatchString(source) {
		return nil
	}
	loader, ok := loaders[filepath.Ext(path)]
	if !ok || loader == api.LoaderJSON || loader == api.LoaderText {
		return nil
	}
	result := api.Transform(source, api.TransformOptions{
		Loader: loader, Sourcefile: path, Format: api.FormatESModule, Target: api.ES2023, TsconfigRaw: "{}",
		LogOverride: map[string]api.LogLevel{"unsupported-dynamic-import": api.LogLevelError, "unsupported-require-call": api.LogLevelError},
		LogLimit:    maxFaults,
	})
	for _, m := range result.Errors {
		at := m.Location
		if !strings.HasPrefix(m.ID, "unsupported-") || !strings.Contains(m.Text, "will not be bundled") || at == nil {
			continue
		}
		call, _, _ := strings.Cut(at.LineText[min(at.Column, len(at.LineText)):], "(")
		if isPackage(path) && !globLike.MatchString(restFrom(source, at)) {
			continue
		}
		m.Text = fmt.Sprintf("%s() requires a literal path because imports are resolved before a script runs", strings.TrimSpace(call))
		m.Detail = "Import each file by its literal name and select one at run time: ({a, b})[name]."
		found = append(found, m)
	}
	return found
}

// restFrom returns the source starting at a location.
func restFrom(source string, at *api.Location) string {
	for range at.Line - 1 {
		_, source, _ = strings.Cut(source, "\n")
	}
	return source[min(at.Column, len(source)):]
}

func isPackage(path string) bool { return strings.Contains(filepath.ToSlash(path), "/node_modules/") }

// compiler is one run of esbuild, which calls it from many goroutines.
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

// resolve resolves built-in modules. All other imports are files.
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

// endings are the extensions that an import may omit.
var endings = []string{"", ".ts", ".tsx", ".mts", ".js", ".mjs", ".json", "/index.ts", "/index.js"}

// errOutside does not contain the file's name, so that scripts cannot probe for files outside the
// folder.
var errOutside = errors.New("a script cannot import files outside the tools folder")

// resolveFile resolves a file by its path and does not read anything else. Files in packages are
// resolved by the bundler.
func (c *compiler) resolveFile(args api.OnResolveArgs) (r api.OnResolveResult, err error) {
	if isPackage(args.Importer) {
		return r, nil
	}
	path := filepath.FromSlash(args.Path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(args.ResolveDir, path)
	}
	if !below(c.Root, path) && !below(c.realRoot, path) { // checked before the script can find out whether the file exists
		return r, errOutside
	}
	candidates := make([]string, 0, len(endings)+1)
	for _, ending := range endings {
		candidates = append(candidates, path+filepath.FromSlash(ending))
	}
	if name, ok := strings.CutSuffix(path, ".js"); ok { // may refer to the TypeScript source
		candidates = append(candidates, name+".ts")
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return api.OnResolveResult{Path: candidate, Namespace: "file"}, c.contains(candidate)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, candidate := range candidates { // any of them may be created later
		c.inputs = append(c.inputs, Input{Path: candidate})
	}
	return r, errors.Join(fmt.Errorf("Could not resolve %q", args.Path), c.tooMany()) //nolint:staticcheck // wording of the bundler
}

// tooMany returns an error if a module has too many files.
func (c *compiler) tooMany() error {
	if len(c.inputs) > maxInputs {
		return fmt.Errorf("a script can have at most %d files", maxInputs)
	}
	return nil
}

var loaders = map[string]api.Loader{
	".ts": api.LoaderTS, ".mts": api.LoaderTS, ".cts": api.LoaderTS, ".tsx": api.LoaderTSX,
	".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS, ".jsx": api.LoaderJSX,
	".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
}

// load reads one of the module's files.
func (c *compiler) load(args api.OnLoadArgs) (r api.OnLoadResult, err error) {
	if err := c.contains(args.Path); err != nil {
		return r, err
	}
	loader, ok := loaders[filepath.Ext(args.Path)]
	if !ok {
		return r, fmt.Errorf("a script cannot import %s: unsupported file type", filepath.Base(args.Path))
	}
	data, err := safefile.Read(args.Path, MaxSource)
	if err != nil {
		return r, err
	}
	if err := c.add(args.Path, data); err != nil {
		return r, err
	}
	text := withoutMaps(data)
	return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: filepath.Dir(args.Path), Errors: computedImports(args.Path, text)}, nil
}

// add adds a file to the module.
func (c *compiler) add(path string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputs = append(c.inputs, Input{path, sha256.Sum256(data)})
	if c.size += len(data); c.size > maxProgram {
		return fmt.Errorf("the files exceed %d MiB in total", maxProgram>>20)
	}
	return c.tooMany()
}

// contains checks that a file is below the root. The script itself may be a symbolic link to
// another folder, because an operator put it there. Its imports may not.
func (c *compiler) contains(path string) error {
	if path == c.entry {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !below(c.realRoot, real) {
		return errOutside
	}
	return nil
}

// below reports whether a path is in a folder, judging by its name only.
func below(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && filepath.IsLocal(rel)
}

func (c *compiler) faults(messages []api.Message) (faults []Fault) {
	for _, m := range messages[:min(len(messages), maxFaults)] {
		f := Fault{File: c.relative(c.entry), Message: m.Text}
		f.Fix, _ = m.Detail.(string)
		for _, n := range m.Notes {
			if n.Location == nil && len(n.Text) < 200 && !strings.Contains(n.Text, "esbuild") && !strings.Contains(n.Text, "external") {
				f.Message += " (" + n.Text + ")"
			}
		}
		if at := m.Location; at != nil && !filepath.IsLocal(c.relative(at.File)) {
			f.Message = "a package imports a file outside the tools folder, but scripts cannot read such files"
		} else if at != nil {
			f.File, f.Line, f.Text = c.relative(at.File), at.Line, at.LineText
			f.Column = len([]rune(at.LineText[:min(at.Column, len(at.LineText))])) + 1
		}
		faults = append(faults, f)
	}
	return faults
}

// relative returns a path relative to the root, as authors know it.
func (c *compiler) relative(path string) string {
	if !filepath.IsAbs(path) {
		return filepath.ToSlash(path)
	}
	if rel, err := filepath.Rel(c.Root, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(path)
}
