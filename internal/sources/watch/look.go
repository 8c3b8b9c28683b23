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

// maxEntries bounds how many entries of folders one look goes through.
const maxEntries = 100_000

// look is what was found at one moment: the files, what they held, and which folders must
// be watched to notice the next change.
type look struct {
	contents
	glob   string
	left   int               // how many entries may still be looked at
	files  []File            // ordered by path
	also   map[string]File   // what the files import, by absolute path
	real   map[string]string // the folders of those, resolved; empty if there is none
	wanted watchList
}

// look goes through the folder once. It knows from the last look, if there was one, which
// files need not be read again, and which files are imported.
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

// same reports whether two looks found the same.
func (l *look) same(last *look) bool {
	return slices.EqualFunc(l.files, last.files, File.same) && maps.EqualFunc(l.also, last.also, File.same)
}

// place is a folder or file on the way of a look.
type place struct {
	path  string // relative to the folder, with slashes; "." for itself
	abs   string
	real  string // abs with all links resolved
	above *place
}

// child is the place of an entry that is not a link.
func (p *place) child(name string) *place {
	path := name
	if p.above != nil {
		path = p.path + "/" + name
	}
	return &place{path: path, abs: filepath.Join(p.abs, name), real: filepath.Join(p.real, name), above: p}
}

// loops reports whether a folder is one of those above it.
func (p *place) loops() bool {
	for q := p.above; q != nil; q = q.above {
		if q.real == p.real {
			return true
		}
	}
	return false
}

// root looks at the folder itself. One that does not exist is empty.
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
		l.fail(at, errors.New("it is not a folder"))
		return nil
	}
	at.real = real
	return l.folder(at)
}

// folder looks at the entries of a folder and of those in it.
func (l *look) folder(at *place) error {
	if at.loops() || !mayHold(l.glob, at.path) {
		return nil
	}
	l.wanted.all(at.real)
	entries, err := l.entries(at.abs)
	switch {
	case errors.Is(err, ErrTooMany):
		return err
	case errors.Is(err, fs.ErrNotExist): // it went away; its folder will say so
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

// entries reads a folder, but no more of it than may be looked at.
func (l *look) entries(dir string) ([]fs.DirEntry, error) {
	d, err := os.Open(dir) //nolint:gosec // the operator's own folder
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

// skipped reports whether the entries with this name are passed over.
func skipped(name string) bool {
	return name[0] == '.' || name[0] == '_' || name == "node_modules" ||
		slices.ContainsFunc([]string{".d.ts", ".test.ts", ".spec.ts"}, func(end string) bool {
			return strings.HasSuffix(name, end)
		})
}

// entry looks at one entry of a folder. What is neither a file nor a folder nor a link, like
// a socket, is passed over.
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

// link looks at what a link leads to.
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

// file adds a file, if it matches.
func (l *look) file(at *place) {
	if !l.matches(at) {
		return
	}
	r := l.read(at.abs)
	if !errors.Is(r.err, fs.ErrNotExist) { // it went away since its folder was read
		l.files = append(l.files, File{Path: at.path, Abs: at.abs, Sum: r.sum, Err: r.err})
	}
}

// fail adds a folder or a link that cannot be read.
func (l *look) fail(at *place, err error) {
	l.files = append(l.files, File{Path: at.path, Abs: at.abs, Err: err})
}

// matches reports whether a file is one of those that are asked for.
func (l *look) matches(at *place) bool { return doublestar.MatchUnvalidated(l.glob, at.path) }

// imported looks at a file that the files import.
func (l *look) imported(path string) File {
	dir, name := filepath.Split(path)
	real, ok := l.real[dir]
	if !ok {
		real, _ = l.wanted.follow(dir) // it is empty if there is none
		l.real[dir] = real
	}
	if real != "" {
		_, _ = l.wanted.followFrom(real, name) // reading says what is wrong with it
	}
	r := l.read(path)
	return File{Path: path, Abs: path, Sum: r.sum, Err: r.err}
}

// adopt makes these the imported files. It reports whether a new one was written after since,
// when the caller may have read it already: then nothing is noted of it, and the next look
// tells it as a change.
func (l *look) adopt(paths []string, since time.Time) (late bool) {
	l.also = make(map[string]File, len(paths))
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		_, seen := l.readings[path] // before the call
		l.also[path] = l.imported(path)
		if !seen && l.readings[path].after(since) {
			l.also[path], late = File{}, true
		}
	}
	return late
}

// mayHold reports whether a file in this folder, or below it, may match the glob. It compares
// element by element, and is generous to globs that are too clever for that.
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
