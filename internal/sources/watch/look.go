package watch

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// maxEntries is the maximum number of folder entries per scan.
const maxEntries = 100_000

// look is the result of one scan: the files, their contents, and the folders to watch for the next
// change.
type look struct {
	contents
	glob   string
	left   int               // number of entries that may still be read
	files  []File            // sorted by path
	also   map[string]File   // imported files by absolute path
	real   map[string]string // resolved paths of their folders; empty if the folder does not exist
	wanted watchList
}

// look scans the folder once. It reuses the imported files and the contents of unchanged files from
// the last scan, which may be nil.
func (f *Folder) look(last *look) (*look, error) {
	l := &look{
		contents: contents{taken: time.Now(), readings: make(map[string]reading)},
		glob:     f.Glob,
		left:     maxEntries,
		also:     make(map[string]File),
		real:     make(map[string]string),
		wanted:   make(watchList),
	}
	if last != nil {
		l.before = last.readings
	}
	if err := l.root(f.Dir); err != nil {
		return nil, err
	}
	slices.SortFunc(l.files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	if last != nil {
		for path := range last.also {
			l.also[path] = l.imported(path)
		}
	}
	return l, nil
}

// same reports whether two scans have equal results.
func (l *look) same(last *look) bool {
	return slices.EqualFunc(l.files, last.files, File.same) && maps.EqualFunc(l.also, last.also, File.same)
}

// place is a folder or file in a scan.
type place struct {
	path  string // relative to the watched folder, with slashes; "." for the folder itself
	abs   string
	real  string // abs with all links resolved
	above *place
}

// child returns the place for an entry that is not a link.
func (p *place) child(name string) *place {
	path := name
	if p.above != nil {
		path = p.path + "/" + name
	}
	return &place{path: path, abs: filepath.Join(p.abs, name), real: filepath.Join(p.real, name), above: p}
}

// loops reports whether a link makes a folder its own ancestor.
func (p *place) loops() bool {
	for q := p.above; q != nil; q = q.above {
		if q.real == p.real {
			return true
		}
	}
	return false
}

// root scans the watched folder. A missing folder counts as empty.
func (l *look) root(dir string) error {
	at := &place{path: ".", abs: dir}
	real, err := l.wanted.follow(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		l.fail(at, err)
		return nil
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		l.fail(at, errors.New("the path is not a folder"))
		return nil
	}
	at.real = real
	return l.folder(at)
}

// folder scans a folder recursively.
func (l *look) folder(at *place) error {
	if at.loops() || !mayHold(l.glob, at.path) {
		return nil
	}
	l.wanted.all(at.real)
	entries, err := l.entries(at.abs)
	switch {
	case errors.Is(err, ErrTooMany):
		return err
	case errors.Is(err, fs.ErrNotExist): // the folder was removed, which its parent reports
		return nil
	case err != nil:
		l.fail(at, err)
	}
	for _, e := range entries {
		if skipped(e.Name()) {
			continue
		}
		if err := l.entry(at.child(e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

// entries reads a folder, up to the entry limit.
func (l *look) entries(dir string) ([]fs.DirEntry, error) {
	d, err := os.Open(dir) //nolint:gosec // the operator's folder
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	entries, err := d.ReadDir(l.left + 1)
	if l.left -= len(entries); l.left < 0 {
		return nil, ErrTooMany
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}

// skipped reports whether entries with the given name are ignored.
func skipped(name string) bool {
	return name[0] == '.' || name[0] == '_' || name == "node_modules" ||
		slices.ContainsFunc([]string{".d.ts", ".test.ts", ".spec.ts"}, func(end string) bool {
			return strings.HasSuffix(name, end)
		})
}

// entry scans one entry in a folder. It ignores other types, such as sockets.
func (l *look) entry(at *place, kind fs.FileMode) error {
	switch {
	case kind.IsDir():
		return l.folder(at)
	case kind&fs.ModeSymlink != 0:
		return l.link(at)
	case kind.IsRegular():
		l.file(at)
	}
	return nil
}

// link scans a link's target.
func (l *look) link(at *place) error {
	real, err := l.wanted.followFrom(at.above.real, filepath.Base(at.abs))
	if err != nil {
		if l.matches(at) {
			l.fail(at, err)
		}
		return nil
	}
	at.real = real
	if info, err := os.Stat(real); err == nil && info.IsDir() {
		return l.folder(at)
	}
	l.file(at)
	return nil
}

// file adds a file if it matches the glob.
func (l *look) file(at *place) {
	if !l.matches(at) {
		return
	}
	r := l.read(at.abs)
	if !errors.Is(r.err, fs.ErrNotExist) { // otherwise the file was removed after its folder was read
		l.files = append(l.files, File{Path: at.path, Abs: at.abs, Sum: r.sum, Err: r.err})
	}
}

// fail adds a folder or a link that cannot be read.
func (l *look) fail(at *place, err error) {
	l.files = append(l.files, File{Path: at.path, Abs: at.abs, Err: err})
}

func (l *look) matches(at *place) bool { return doublestar.MatchUnvalidated(l.glob, at.path) }

// imported reads an imported file.
func (l *look) imported(path string) File {
	dir, name := filepath.Split(path)
	real, ok := l.real[dir]
	if !ok {
		real, _ = l.wanted.follow(dir) // empty if the folder does not exist
		l.real[dir] = real
	}
	if real != "" {
		_, _ = l.wanted.followFrom(real, name) // read reports the error
	}
	r := l.read(path)
	return File{Path: path, Abs: path, Sum: r.sum, Err: r.err}
}

// adopt sets the imported files. It reports whether a new file was written after since, because the
// caller may already have read an older version. It does not store such a file's content, so the
// next scan reports a change.
func (l *look) adopt(paths []string, since time.Time) (late bool) {
	l.also = make(map[string]File, len(paths))
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		_, seen := l.readings[path] // before imported adds it
		l.also[path] = l.imported(path)
		if !seen && l.readings[path].after(since) {
			l.also[path], late = File{}, true
		}
	}
	return late
}

// mayHold reports whether a file in or below a folder may match the glob. It compares path
// elements, and returns true for globs that contain braces, brackets or escapes.
func mayHold(glob, dir string) bool {
	if dir == "." || strings.ContainsAny(glob, `{[\`) {
		return true
	}
	parts := strings.Split(glob, "/")
	for i, name := range strings.Split(dir, "/") {
		switch {
		case parts[i] == "**":
			return true
		case i == len(parts)-1, !doublestar.MatchUnvalidated(parts[i], name):
			return false
		}
	}
	return true
}
