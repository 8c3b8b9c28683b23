package watch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// maxLinks is how many links one path may go through.
const maxLinks = 40

// watchList are the folders to watch, resolved, each with the names in it that matter; nil for
// all names. They are resolved since a folder cannot be watched under two paths.
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

// concern reports whether an event is about something that is wished for, or about a watched
// folder itself.
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

// followFrom resolves a path that begins at a resolved folder. It adds everything that may
// make the path lead elsewhere: its links, its end, or the first element that is missing.
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

// elements are the names that a path consists of.
func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == filepath.Separator || r == '/' })
}
