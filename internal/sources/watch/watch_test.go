//go:build unix

package watch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is the maximum time until an expected event.
const patience = time.Minute

// silence is how long a test waits to verify that nothing happens.
const silence = 120 * time.Millisecond

// watched is a watched folder.
type watched struct {
	*testing.T
	dir   string
	calls chan []File

	mu   sync.Mutex
	also []string
}

// follow watches a folder until the test ends and consumes the first call.
func follow(t *testing.T, f Folder) *watched {
	t.Helper()
	w := start(t, f)
	w.next()
	return w
}

// start watches a folder and imported files until the test ends.
func start(t *testing.T, f Folder, also ...string) *watched {
	t.Helper()
	w := &watched{T: t, dir: f.Dir, calls: make(chan []File, 1000), also: also}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, w.changed) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("it does not stop")
		}
	})
	return w
}

func (w *watched) changed(files []File) []string {
	w.calls <- files
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.also
}

// imports sets what the next call to changed returns.
func (w *watched) imports(paths ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.also = paths
}

// next returns the next call.
func (w *watched) next() []File {
	w.Helper()
	select {
	case files := <-w.calls:
		return files
	case <-time.After(patience):
		w.Fatal("no call came")
		return nil
	}
}

// sees waits for a call with these files, given as alternating paths and contents, and returns the
// number of calls. There must be no further call.
func (w *watched) sees(want ...string) (calls int) {
	w.Helper()
	for {
		files := w.next()
		calls++
		diff := cmp.Diff(sums(want), found(files))
		if diff == "" {
			break
		}
		if calls > 1000 {
			w.Fatalf("the files are others than they should be (-want +got):\n%s", diff)
		}
	}
	w.seesNothing()
	return calls
}

// seesNothing checks that there is no call.
func (w *watched) seesNothing() {
	w.Helper()
	select {
	case files := <-w.calls:
		w.Fatalf("a call came for nothing: %v", found(files))
	case <-time.After(silence):
	}
}

func sums(want []string) map[string][32]byte {
	m := make(map[string][32]byte)
	for pair := range slices.Chunk(want, 2) {
		m[pair[0]] = sha256.Sum256([]byte(pair[1]))
	}
	return m
}

func found(files []File) map[string][32]byte {
	m := make(map[string][32]byte)
	for _, f := range files {
		m[f.Path] = f.Sum
	}
	return m
}

// path returns a path in the folder.
func (w *watched) path(name string) string { return filepath.Join(w.dir, name) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file and creates its folder.
func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// overwrite changes a file's content to a text of the same length. No reader sees a partially
// written file.
func overwrite(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}

// replace replaces a file with another file.
func replace(t testing.TB, path, text string) {
	t.Helper()
	write(t, path+".tmp", text)
	must(t, os.Rename(path+".tmp", path))
}

// relink atomically changes the target of a link.
func relink(t testing.TB, target, link string) {
	t.Helper()
	must(t, os.Symlink(target, link+".tmp"))
	must(t, os.Rename(link+".tmp", link))
}

// TestChange changes a folder that contains a.ts and sub/b.ts, and another folder next to it.
func TestChange(t *testing.T) {
	tests := map[string]struct {
		do   func(w *watched, outside string)
		want []string // nil if nothing should be reported
	}{
		"write": {
			func(w *watched, _ string) { write(w, w.path("a.ts"), "A") },
			[]string{"a.ts", "A", "sub/b.ts", "b"},
		},
		"atomic rename": {
			func(w *watched, _ string) { replace(w, w.path("sub/b.ts"), "B") },
			[]string{"a.ts", "a", "sub/b.ts", "B"},
		},
		"emacs backup": {
			func(w *watched, _ string) {
				must(w, os.Symlink("me@host.1", w.path(".#a.ts")))
				must(w, os.Rename(w.path("a.ts"), w.path("a.ts~")))
				write(w, w.path("a.ts"), "A")
				must(w, os.Remove(w.path(".#a.ts")))
			},
			[]string{"a.ts", "A", "sub/b.ts", "b"},
		},
		"vim backup": {
			func(w *watched, _ string) {
				write(w, w.path("4913"), "")
				must(w, os.Remove(w.path("4913")))
				must(w, os.Rename(w.path("a.ts"), w.path("a.ts~")))
				write(w, w.path("a.ts"), "A")
				must(w, os.Remove(w.path("a.ts~")))
			},
			[]string{"a.ts", "A", "sub/b.ts", "b"},
		},
		"truncate, then write": {
			func(w *watched, _ string) {
				must(w, os.Truncate(w.path("a.ts"), 0))
				time.Sleep(5 * time.Millisecond)
				write(w, w.path("a.ts"), "A")
			},
			[]string{"a.ts", "A", "sub/b.ts", "b"},
		},
		"new file": {
			func(w *watched, _ string) { write(w, w.path("c.ts"), "c") },
			[]string{"a.ts", "a", "c.ts", "c", "sub/b.ts", "b"},
		},
		"delete": {
			func(w *watched, _ string) { must(w, os.Remove(w.path("a.ts"))) },
			[]string{"sub/b.ts", "b"},
		},
		"rename": {
			func(w *watched, _ string) { must(w, os.Rename(w.path("a.ts"), w.path("z.ts"))) },
			[]string{"sub/b.ts", "b", "z.ts", "a"},
		},
		"new folders and a file at once": {
			func(w *watched, _ string) { write(w, w.path("x/y/z/c.ts"), "c") },
			[]string{"a.ts", "a", "sub/b.ts", "b", "x/y/z/c.ts", "c"},
		},
		"new folders step by step": {
			func(w *watched, _ string) {
				for _, dir := range []string{"x", "x/y", "x/y/z"} {
					must(w, os.Mkdir(w.path(dir), 0o755))
					time.Sleep(25 * time.Millisecond)
				}
				write(w, w.path("x/y/z/c.ts"), "c")
			},
			[]string{"a.ts", "a", "sub/b.ts", "b", "x/y/z/c.ts", "c"},
		},
		"folder moved in": {
			func(w *watched, outside string) {
				write(w, filepath.Join(outside, "new/deep/c.ts"), "c")
				must(w, os.Rename(filepath.Join(outside, "new"), w.path("new")))
			},
			[]string{"a.ts", "a", "new/deep/c.ts", "c", "sub/b.ts", "b"},
		},
		"folder moved out": {
			func(w *watched, outside string) {
				must(w, os.Rename(w.path("sub"), filepath.Join(outside, "sub")))
			},
			[]string{"a.ts", "a"},
		},
		"folder renamed": {
			func(w *watched, _ string) { must(w, os.Rename(w.path("sub"), w.path("bus"))) },
			[]string{"a.ts", "a", "bus/b.ts", "b"},
		},
		"folder deleted": {
			func(w *watched, _ string) { must(w, os.RemoveAll(w.path("sub"))) },
			[]string{"a.ts", "a"},
		},
		"folder moved and deleted": {
			func(w *watched, outside string) {
				must(w, os.Rename(w.path("sub"), filepath.Join(outside, "sub")))
				must(w, os.RemoveAll(filepath.Join(outside, "sub")))
			},
			[]string{"a.ts", "a"},
		},
		"folder deleted and made anew": {
			func(w *watched, _ string) {
				must(w, os.RemoveAll(w.path("sub")))
				write(w, w.path("sub/b.ts"), "B")
			},
			[]string{"a.ts", "a", "sub/b.ts", "B"},
		},
		"root deleted": {
			func(w *watched, _ string) { must(w, os.RemoveAll(w.dir)) },
			[]string{},
		},
		"root replaced": {
			func(w *watched, outside string) {
				write(w, filepath.Join(outside, "new/c.ts"), "c")
				must(w, os.RemoveAll(w.dir))
				must(w, os.Rename(filepath.Join(outside, "new"), w.dir))
			},
			[]string{"c.ts", "c"},
		},
		"new link to a file": {
			func(w *watched, outside string) {
				must(w, os.Symlink(filepath.Join(outside, "o.ts"), w.path("c.ts")))
			},
			[]string{"a.ts", "a", "c.ts", "o", "sub/b.ts", "b"},
		},
		"new link to a folder": {
			func(w *watched, outside string) { must(w, os.Symlink(outside, w.path("out"))) },
			[]string{"a.ts", "a", "out/o.ts", "o", "sub/b.ts", "b"},
		},
		"link to the folder itself": {
			func(w *watched, _ string) {
				must(w, os.Symlink(".", w.path("loop")))
				must(w, os.Symlink("..", w.path("sub/up")))
			},
			nil,
		},
		"same content": {
			func(w *watched, _ string) {
				overwrite(w, w.path("a.ts"), "a")
				replace(w, w.path("sub/b.ts"), "b")
			},
			nil,
		},
		"chmod": {func(w *watched, _ string) { must(w, os.Chmod(w.path("a.ts"), 0o600)) }, nil},
		"touch": {
			func(w *watched, _ string) { must(w, os.Chtimes(w.path("a.ts"), time.Now(), time.Now())) },
			nil,
		},
		"passed over": {
			func(w *watched, _ string) {
				for _, name := range []string{
					".h.ts", "_h.ts", ".git/h.ts", "_lib/h.ts", "node_modules/x/h.ts", "a.d.ts",
					"a.test.ts", "sub/a.spec.ts", "sub/readme.md", "a.ts~",
				} {
					write(w, w.path(name), "h")
				}
				must(w, syscall.Mkfifo(w.path("pipe.ts"), 0o644))
			},
			nil,
		},
		"beside the folder": {
			func(w *watched, _ string) { write(w, w.dir+".ts", "h") },
			nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top, outside := t.TempDir(), t.TempDir()
			dir := filepath.Join(top, "scripts")
			write(t, filepath.Join(dir, "a.ts"), "a")
			write(t, filepath.Join(dir, "sub/b.ts"), "b")
			write(t, filepath.Join(outside, "o.ts"), "o")
			w := start(t, Folder{Dir: dir})
			w.sees("a.ts", "a", "sub/b.ts", "b")
			test.do(w, outside)
			if test.want == nil {
				w.seesNothing()
				return
			}
			w.sees(test.want...)
			if len(test.want) > 0 { // new folders are watched too
				last := test.want[len(test.want)-2]
				replace(t, w.path(last), "again")
				w.sees(append(test.want[:len(test.want)-1:len(test.want)-1], "again")...)
			}
		})
	}
}

func TestRenamedFolderWithinFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x/deep/a.ts"), "1")
	write(t, filepath.Join(dir, "y/deep/a.ts"), "2")
	w := follow(t, Folder{Dir: dir})
	must(t, os.Rename(w.path("x"), w.path("z")))
	must(t, os.Rename(w.path("y"), w.path("x")))
	must(t, os.Rename(w.path("z"), w.path("y")))
	w.sees("x/deep/a.ts", "2", "y/deep/a.ts", "1")
	write(t, w.path("x/deep/a.ts"), "3")
	w.sees("x/deep/a.ts", "3", "y/deep/a.ts", "1")
	write(t, w.path("y/deep/a.ts"), "4")
	w.sees("x/deep/a.ts", "3", "y/deep/a.ts", "4")
}

func TestFolderDeletedAndMadeAnewAgainAndAgain(t *testing.T) {
	t.Parallel()
	w := follow(t, Folder{Dir: t.TempDir()})
	for i := range 10 {
		text := fmt.Sprint(i)
		must(t, os.RemoveAll(w.path("sub")))
		must(t, os.MkdirAll(w.path("sub/deep"), 0o755))
		time.Sleep(time.Duration(i) * 5 * time.Millisecond)
		write(t, w.path("sub/deep/a.ts"), text)
		w.sees("sub/deep/a.ts", text)
	}
}

func TestRootThatComesAndGoes(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	w := start(t, Folder{Dir: filepath.Join(top, "not/yet")})
	if files := w.next(); len(files) > 0 {
		t.Fatalf("a folder that does not exist has files: %v", files)
	}
	for i := range 3 {
		text := fmt.Sprint(i)
		write(t, w.path("sub/a.ts"), text)
		w.sees("sub/a.ts", text)
		must(t, os.RemoveAll(filepath.Join(top, "not")))
		w.sees()
	}
}

func TestRootIsALink(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	write(t, filepath.Join(top, "v1/a.ts"), "1")
	write(t, filepath.Join(top, "v2/a.ts"), "2")
	must(t, os.Symlink("v1", filepath.Join(top, "current")))
	w := start(t, Folder{Dir: filepath.Join(top, "current")})
	w.sees("a.ts", "1")
	relink(t, "v2", w.dir)
	w.sees("a.ts", "2")
	write(t, filepath.Join(top, "v2/a.ts"), "3")
	w.sees("a.ts", "3")
	write(t, filepath.Join(top, "v1/a.ts"), "4")
	w.seesNothing()
}

func TestLinks(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "v1/o.ts"), "1")
	write(t, filepath.Join(outside, "v2/o.ts"), "2")
	must(t, os.Symlink("v1", filepath.Join(outside, "now")))
	must(t, os.Symlink(filepath.Join(outside, "now/o.ts"), filepath.Join(dir, "file.ts")))
	must(t, os.Symlink(filepath.Join(outside, "now"), filepath.Join(dir, "folder")))
	w := start(t, Folder{Dir: dir})
	w.sees("file.ts", "1", "folder/o.ts", "1")

	write(t, filepath.Join(outside, "v1/o.ts"), "3")
	w.sees("file.ts", "3", "folder/o.ts", "3")
	replace(t, filepath.Join(outside, "v1/o.ts"), "4")
	w.sees("file.ts", "4", "folder/o.ts", "4")
	relink(t, "v2", filepath.Join(outside, "now")) // far away from the folder
	w.sees("file.ts", "2", "folder/o.ts", "2")
	write(t, filepath.Join(outside, "v2/sub/p.ts"), "p")
	w.sees("file.ts", "2", "folder/o.ts", "2", "folder/sub/p.ts", "p")
}

func TestDanglingLink(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	target := filepath.Join(outside, "not/yet.ts")
	must(t, os.Symlink(target, filepath.Join(dir, "a.ts")))
	must(t, os.Symlink("b.ts", filepath.Join(dir, "b.ts")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "readme.md")))
	w := start(t, Folder{Dir: dir})
	files := w.next()
	if len(files) != 2 || !errors.Is(files[0].Err, fs.ErrNotExist) || files[1].Err == nil {
		t.Fatalf("got %v", files)
	}
	must(t, os.Remove(w.path("b.ts")))
	w.next()
	write(t, target, "a")
	w.sees("a.ts", "a")
}

// A ConfigMap is a folder of links to ..data/…, which is itself a link to a folder that each update
// replaces.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	update := func(i int) {
		name := fmt.Sprintf("..2026_%d", i)
		write(t, filepath.Join(dir, name, "hello.ts"), fmt.Sprint(i))
		relink(t, name, filepath.Join(dir, "..data"))
		if i > 0 {
			must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..2026_%d", i-1))))
		}
	}
	update(0)
	must(t, os.Symlink("..data/hello.ts", filepath.Join(dir, "hello.ts")))
	w := start(t, Folder{Dir: dir})
	w.sees("hello.ts", "0")
	for i := range 3 {
		update(i + 1)
		if calls := w.sees("hello.ts", fmt.Sprint(i+1)); calls > 1 {
			t.Errorf("%d calls for one update", calls)
		}
	}
	for i := range 3 { // several times in a row
		update(i + 4)
	}
	w.sees("hello.ts", "6")
}

// mostCalls is the maximum number of calls that changes within a time may cause: after a call, four
// times the default Quiet must pass with no change.
func mostCalls(during time.Duration) int { return int(during / (80 * time.Millisecond)) }

func TestBurst(t *testing.T) {
	t.Parallel()
	w := follow(t, Folder{Dir: t.TempDir()})
	var want []string
	start := time.Now()
	for i := range 500 {
		name := fmt.Sprintf("f%03d.ts", i)
		write(t, w.path(name), "x")
		want = append(want, name, "x")
	}
	most := 5 + mostCalls(time.Since(start))
	calls := w.sees(want...)
	t.Logf("500 new files: %d calls", calls)
	if calls > most {
		t.Errorf("500 new files led to %d calls, more than %d", calls, most)
	}
}

func TestManySaves(t *testing.T) {
	t.Parallel()
	w := follow(t, Folder{Dir: t.TempDir()})
	start := time.Now()
	for i := range 10 {
		write(t, w.path("a.ts"), fmt.Sprint(i))
		time.Sleep(18 * time.Millisecond)
	}
	took := time.Since(start)
	most := 3 + mostCalls(took)
	calls := w.sees("a.ts", "9")
	t.Logf("ten saves in %v: %d calls", took, calls)
	if calls > most {
		t.Errorf("ten saves led to %d calls, more than %d", calls, most)
	}
}

// A file that changes constantly is still reported, but not too often.
func TestPatience(t *testing.T) {
	t.Parallel()
	w := follow(t, Folder{Dir: t.TempDir(), Quiet: 100 * time.Millisecond, Patience: 300 * time.Millisecond})
	begin := time.Now()
	for i := 0; len(w.calls) < 3 && time.Since(begin) < patience; i++ {
		write(t, w.path("a.ts"), fmt.Sprint(i))
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begin)
	if n := len(w.calls); n < 3 || took < 500*time.Millisecond {
		t.Errorf("%d calls in %v", n, took)
	}
}

// Two changes may be so close together that neither times nor size distinguish them.
func TestSameTimesAndSize(t *testing.T) {
	t.Parallel()
	w := follow(t, Folder{Dir: t.TempDir(), Quiet: time.Millisecond})
	moment := time.Now().Add(-time.Hour)
	for i := range 20 {
		text := fmt.Sprintf("%02d", i)
		write(t, w.path("a.ts"), text)
		must(t, os.Chtimes(w.path("a.ts"), moment, moment))
		want := sha256.Sum256([]byte(text))
		for got := found(w.next()); got["a.ts"] != want; got = found(w.next()) {
			t.Logf("%s was reported half written", text)
		}
	}
}

func TestOldFileChangesWithSameTimesAndSize(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits until a file is old")
	}
	t.Parallel()
	dir, moment := t.TempDir(), time.Now().Add(-time.Hour)
	write(t, filepath.Join(dir, "a.ts"), "1")
	must(t, os.Chtimes(filepath.Join(dir, "a.ts"), moment, moment))
	time.Sleep(coarse + 100*time.Millisecond)
	w := start(t, Folder{Dir: dir})
	w.sees("a.ts", "1")
	write(t, w.path("a.ts"), "2")
	must(t, os.Chtimes(w.path("a.ts"), moment, moment))
	w.sees("a.ts", "2")
}

func TestImportedFiles(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	lib, hidden := filepath.Join(outside, "lib/lib.ts"), filepath.Join(dir, "_hidden.json")
	write(t, filepath.Join(dir, "a.ts"), "a")
	write(t, lib, "1")
	write(t, hidden, "1")
	time.Sleep(2 * tick)
	w := start(t, Folder{Dir: dir}, lib, hidden, filepath.Join(outside, "missing/x.ts"))
	w.sees("a.ts", "a")

	steps := map[string]func(){
		"written":  func() { overwrite(t, lib, "2") },
		"replaced": func() { replace(t, lib, "3") },
		"hidden":   func() { overwrite(t, hidden, "2") },
		"appeared": func() { replace(t, filepath.Join(outside, "missing/x.ts"), "x") },
		"deleted":  func() { must(t, os.RemoveAll(filepath.Dir(lib))) },
		"again":    func() { replace(t, lib, "4") },
	}
	for _, name := range []string{"written", "replaced", "hidden", "appeared", "deleted", "again"} {
		steps[name]()
		if calls := w.sees("a.ts", "a"); calls > 1 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
	overwrite(t, lib, "4") // the same content
	w.seesNothing()
	write(t, filepath.Join(outside, "lib/other.ts"), "x")
	w.seesNothing()

	w.imports()
	write(t, w.path("a.ts"), "A")
	w.sees("a.ts", "A")
	write(t, lib, "5") // no longer imported
	w.seesNothing()
}

// A file may change between being read and being watched.
func TestImportedFileChangesWhileChangedRuns(t *testing.T) {
	t.Parallel()
	dir, lib := t.TempDir(), filepath.Join(t.TempDir(), "lib.ts")
	write(t, lib, "1")
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	calls := 0
	f := Folder{Dir: dir}
	must(t, f.Run(ctx, func([]File) []string {
		if calls++; calls == 1 {
			time.Sleep(2 * tick)
			write(t, lib, "2")
		} else {
			stop()
		}
		return []string{lib}
	}))
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

func TestPoll(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	w := start(t, Folder{Dir: filepath.Join(top, "x/y/scripts"), Poll: 50 * time.Millisecond})
	write(t, w.path("a.ts"), "1")
	w.sees("a.ts", "1")
	// There is no event when a folder far above is moved.
	must(t, os.Rename(filepath.Join(top, "x"), filepath.Join(top, "z")))
	w.sees()
	write(t, w.path("a.ts"), "2")
	w.sees("a.ts", "2")
}

// The last content is reported, even if a flood of events overflows the system's queue.
func TestFlood(t *testing.T) {
	t.Parallel()
	w := follow(t, Folder{Dir: t.TempDir()})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := w.path(fmt.Sprintf("f%d.ts", i))
			for j := range 2500 {
				_ = os.WriteFile(name, fmt.Append(nil, j), 0o644)
			}
		})
	}
	wg.Wait()
	calls := w.sees("f0.ts", "2499", "f1.ts", "2499", "f2.ts", "2499", "f3.ts", "2499")
	t.Logf("10,000 writes: %d calls", calls)
}

func TestUnreadable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.ts"), "a")
	write(t, filepath.Join(dir, "sub/b.ts"), "b")
	must(t, os.Chmod(filepath.Join(dir, "a.ts"), 0))
	must(t, os.Chmod(filepath.Join(dir, "sub"), 0))
	w := start(t, Folder{Dir: dir})
	files := w.next()
	if len(files) != 2 || !errors.Is(files[0].Err, fs.ErrPermission) || !errors.Is(files[1].Err, fs.ErrPermission) {
		t.Errorf("got %v", files)
	}
	must(t, os.Chmod(filepath.Join(dir, "sub"), 0o755))
	must(t, os.Chmod(filepath.Join(dir, "a.ts"), 0o644))
	w.sees("a.ts", "a", "sub/b.ts", "b")
}

// TestDelay measures the time from the last write to the call to changed.
func TestDelay(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes its time")
	}
	f := thousand(t)
	w := follow(t, *f)
	for _, age := range []string{"just written", "older"} {
		var delays []time.Duration
		for i := range 5 {
			time.Sleep(f.Patience)
			replace(t, w.path("f0.ts"), fmt.Sprint(age, i))
			written := time.Now()
			w.next()
			delays = append(delays, time.Since(written))
		}
		slices.Sort(delays)
		t.Logf("among 1,000 files %s: median %v, longest %v", age, delays[2], delays[4])
	}
}
