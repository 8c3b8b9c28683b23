package watch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// maxLinks is the maximum number of symbolic links in one path.
const maxLinks = 40

// watchList maps each folder to watch to the relevant names in it, or to nil for all names. The
// paths are resolved, because a folder cannot be watched under two paths.
type watchList map[string]map[string]bool

// all adds all names in a folder.
func (w watchList) all(dir string) { w[dir] = nil }

// one adds one name in a folder.
func (w watchList) one(dir, name string) {
	names, ok := w[dir]
	switch {
	case !ok:
		w[dir] = map[string]bool{name: true}
	case names != nil:
		names[name] = true
	}
}

// concern reports whether an event affects a listed name or a watched folder itself.
func (w watchList) concern(e fsnotify.Event) bool {
	if _, ok := w[e.Name]; ok {
		return true
	}
	names, ok := w[filepath.Dir(e.Name)]
	return ok && (names == nil || names[filepath.Base(e.Name)])
}

// follow resolves an absolute path.
func (w watchList) follow(path string) (string, error) {
	root := filepath.VolumeName(path) + string(filepath.Separator)
	return w.followFrom(root, strings.TrimPrefix(path, root))
}

// followFrom resolves a path relative to a resolved folder. It adds everything that affects the
// result: the links, the last element, or the first missing element.
func (w watchList) followFrom(dir, path string) (string, error) {
	at, rest, links := dir, elements(path), 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		if err != nil {
			w.one(at, rest[0])
			return "", err
		}
		rest = rest[1:]
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		w.one(at, filepath.Base(next))
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", next)
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
			target = target[len(filepath.VolumeName(target)):]
		}
		rest = append(elements(target), rest...)
	}
	w.one(filepath.Dir(at), filepath.Base(at))
	return at, nil
}

// elements splits a path into its names.
func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator || r == '/' })
}
