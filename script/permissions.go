package script

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// reach is the access that a tool has: the operator's grants, restricted to the script's own
// declaration if there is one.
type reach struct {
	tool      string
	section   string // configuration section, if the script is not a tool
	net       *outbound.Client
	granted   Grant  // the operator's grant, with absolute paths
	requested *Grant // the script's declaration, with absolute paths; nil if there is none
	base      string // base of relative paths
	getenv    func(string) (string, bool)
}

// maxRead limits the size of a file or HTTP response that a script reads, in bytes.
const maxRead = 8 << 20

// reach returns a tool's reach.
func (f *Folder) reach(tool string, asked *Grant) *reach {
	all, own := f.opts.Grants["*"], f.opts.Grants[tool]
	r := &reach{tool: tool, base: f.base, getenv: f.opts.Getenv}
	if f.kind != "" {
		r.section = f.section()
	}
	r.granted.Net = append(slices.Clone(all.Net), own.Net...)
	r.granted.Read = f.absolute(append(slices.Clone(all.Read), own.Read...))
	r.granted.Env = append(slices.Clone(all.Env), own.Env...)
	var within outbound.Allowlist
	if asked != nil {
		r.requested = &Grant{Read: f.absolute(asked.Read), Env: asked.Env}
		within = append(outbound.Allowlist{}, asked.Net...)
	}
	r.net = outbound.NewClient(r.granted.Net, within, outbound.Network{Private: f.opts.Private}, maxRead)
	return r
}

func (f *Folder) absolute(paths []string) (list []string) {
	for _, p := range paths {
		list = append(list, absolute(f.base, p))
	}
	return list
}

// absolute resolves a path that may be relative to base.
func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// mayRead reports whether the script's own declaration, if any, includes a path.
func (r *reach) mayRead(abs string) bool {
	return r.requested == nil || slices.ContainsFunc(r.requested.Read, func(p string) bool { return pathWithin(abs, p) })
}

// pathWithin reports whether path a is b or inside it.
func pathWithin(a, b string) bool {
	rel, err := filepath.Rel(b, a)
	return err == nil && filepath.IsLocal(rel)
}

// nameWithin reports whether pattern b matches all names that pattern a matches.
func nameWithin(a, b string) bool {
	prefix, star := strings.CutSuffix(b, "*")
	return a == b || (star && strings.HasPrefix(a, prefix))
}

// notCapable returns the error for a denied access, with the line that would grant it.
func (r *reach) notCapable(what, kind, value string) error {
	return &jsvm.Refusal{
		Name: "NotCapable", Code: "EACCES",
		Message: what + " is not allowed; to allow it, add to toolyard.yaml: " + r.grantLine(kind, value),
	}
}

// within opens the granted folder that contains a path and calls use with it. Symbolic links out
// of the folder are not followed.
func within[T any](r *reach, path string, use func(root *os.Root, rel string) (T, error)) (t T, err error) {
	abs := absolute(r.base, path)
	for _, granted := range r.granted.Read {
		if !r.mayRead(abs) {
			break
		}
		dir := granted
		if info, err := os.Stat(granted); err == nil && !info.IsDir() {
			dir = filepath.Dir(granted)
			if abs != granted {
				continue
			}
		}
		rel, err := filepath.Rel(dir, abs)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return t, fileError(err)
		}
		defer func() { _ = root.Close() }()
		t, err = use(root, rel)
		return t, fileError(err)
	}
	return t, r.notCapable("reading "+path, "read", path)
}

// readFile reads a granted file.
func (r *reach) readFile(path string) ([]byte, error) {
	return within(r, path, func(root *os.Root, rel string) ([]byte, error) {
		data, err := safefile.ReadIn(root, rel, maxRead)
		switch {
		case err == nil:
			return data, nil
		case errors.Is(err, safefile.ErrNotRegular):
			return nil, &jsvm.Refusal{Message: path + " is not a file", Code: "EISDIR"}
		case errors.As(err, new(*safefile.TooLargeError)):
			return nil, fmt.Errorf("%s is %w", path, err)
		}
		return nil, &fs.PathError{Op: "read", Path: rel, Err: err}
	})
}

// fileInfo describes a file to a script.
type fileInfo struct {
	Name      string `json:"name,omitempty"`
	File      bool   `json:"file"`
	Directory bool   `json:"directory"`
	Size      int64  `json:"size"`
	MtimeMs   int64  `json:"mtimeMs"`
}

func (r *reach) stat(path string) (any, error) {
	return within(r, path, func(root *os.Root, rel string) (any, error) {
		i, err := root.Stat(rel)
		if err != nil {
			return nil, err
		}
		return fileInfo{i.Name(), i.Mode().IsRegular(), i.IsDir(), i.Size(), i.ModTime().UnixMilli()}, nil
	})
}

// maxEntries limits the length of a list of files.
const maxEntries = 10_000

func (r *reach) list(path string) (any, error) {
	return within(r, path, func(root *os.Root, rel string) (any, error) {
		if info, err := root.Stat(rel); err != nil || !info.IsDir() {
			return nil, cmp.Or(err, error(&jsvm.Refusal{Message: path + " is not a folder", Code: "ENOTDIR"}))
		}
		dir, err := root.Open(rel)
		if err != nil {
			return nil, err
		}
		defer func() { _ = dir.Close() }()
		entries, err := dir.ReadDir(maxEntries)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		list := make([]fileInfo, 0, len(entries))
		for _, e := range entries {
			list = append(list, fileInfo{Name: e.Name(), File: e.Type().IsRegular(), Directory: e.IsDir()})
		}
		return list, nil
	})
}

// fileError converts a file system error for scripts, omitting absolute paths.
func fileError(err error) error {
	var p *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &jsvm.Refusal{Message: "ENOENT: no such file or directory", Code: "ENOENT"}
	case errors.Is(err, fs.ErrPermission):
		return &jsvm.Refusal{Message: "EACCES: permission denied", Code: "EACCES"}
	case errors.As(err, &p):
		return &jsvm.Refusal{Message: p.Err.Error(), Code: "EIO"}
	}
	return err
}

// workingDir returns the base of relative paths, or / if the script may not read any files.
func (r *reach) workingDir() string {
	if len(r.granted.Read) == 0 {
		return "/"
	}
	return r.base
}

// variables returns the variables that are set and granted by their full name.
func (r *reach) variables() []string {
	set := []string{}
	for _, name := range r.granted.Env {
		if value, _ := r.variable(name); value != nil {
			set = append(set, name)
		}
	}
	return set
}

// variable returns the value of a granted variable, or nil. A variable that the script declares by
// its full name is required: reading it is an error if it is not granted.
func (r *reach) variable(name string) (any, error) {
	named := func(pattern string) bool { return nameWithin(name, pattern) }
	if !slices.ContainsFunc(r.granted.Env, named) {
		if r.requested != nil && slices.Contains(r.requested.Env, name) {
			return nil, r.notCapable("reading variable "+name, "env", name)
		}
		return nil, nil
	}
	if r.requested != nil && !slices.ContainsFunc(r.requested.Env, named) {
		return nil, nil
	}
	if value, ok := r.getenv(name); ok {
		return value, nil
	}
	return nil, nil
}
