package script

import (
	"archive/zip"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/jsvm/assets"
)

// author holds the templates for new tools and the types for editors.
//
//go:embed author
var author embed.FS

// Templates returns the names of the templates for new tools.
func Templates() (names []string) {
	entries, _ := author.ReadDir("author/templates")
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".ts"); ok && !strings.HasSuffix(name, ".test") {
			names = append(names, name)
		}
	}
	return names
}

var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// CheckNew validates the name and the template of a new tool.
func CheckNew(name, template string) error {
	if !toolName.MatchString(name) {
		return fmt.Errorf("invalid tool name %q: use letters, digits, - and _", name)
	}
	if !slices.Contains(Templates(), template) {
		return fmt.Errorf("unknown template %s; available templates: %s", template, strings.Join(Templates(), ", "))
	}
	return nil
}

// NewTool writes a tool from a template into a folder, together with a test and the types of zod
// and the runtime for editors. It returns the files that it wrote. It does not replace existing
// files.
func NewTool(dir, name, template string) ([]string, error) {
	if err := CheckNew(name, template); err != nil {
		return nil, err
	}
	w := &writer{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, name+".ts")); err == nil {
		return nil, fmt.Errorf("%s already exists; choose another name", filepath.Join(dir, name+".ts"))
	}
	for _, ext := range []string{".ts", ".json", ".test.ts"} {
		if data, err := author.ReadFile("author/templates/" + template + ext); err == nil {
			w.write(name+ext, bytes.ReplaceAll(data, []byte("NAME"), []byte(name)))
		}
	}
	w.types()
	return w.written, w.err
}

// writer writes files until a write fails.
type writer struct {
	dir     string
	written []string
	err     error
}

func (w *writer) types() {
	if data, err := author.ReadFile("author/tsconfig.json"); err == nil {
		if _, err := os.Stat(filepath.Join(w.dir, "tsconfig.json")); err != nil {
			w.write("tsconfig.json", data)
		}
	}
	if data, err := author.ReadFile("author/toolyard.d.ts"); err == nil {
		w.refresh(".toolyard/toolyard.d.ts", data)
	}
	packed, err := assets.Read(assets.ZodTypes)
	if err != nil {
		return // editors have no zod types, and scripts do not run either
	}
	z, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		w.err = err
		return
	}
	for _, f := range z.File {
		data, err := fs.ReadFile(z, f.Name)
		if err != nil && !errors.Is(err, io.EOF) {
			w.err = err
			return
		}
		w.refresh(path.Join(".toolyard/zod", f.Name), data) //nolint:gosec // an archive that we built
	}
}

// refresh writes a generated file if it is missing or outdated.
func (w *writer) refresh(name string, data []byte) {
	if have, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(name))); err == nil && bytes.Equal(have, data) {
		return
	}
	w.write(name, data)
}

func (w *writer) write(name string, data []byte) {
	file := filepath.Join(w.dir, filepath.FromSlash(name))
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // sources, for everybody to read
	}
	if w.err == nil {
		w.err = os.WriteFile(file, data, 0o644) //nolint:gosec // sources, for everybody to read
	}
	if w.err == nil {
		w.written = append(w.written, file)
	}
}
