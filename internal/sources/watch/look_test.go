//go:build unix

package watch

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"b.ts", "a.ts", "sub/deep/c.ts", "sub/d.js", "lib/e.ts", "_f.ts"} {
		write(t, filepath.Join(dir, name), name)
	}
	must(t, os.Symlink(dir, filepath.Join(dir, "sub/loop")))
	for glob, want := range map[string][]string{
		"":                      {"a.ts", "b.ts", "lib/e.ts", "sub/deep/c.ts"},
		"*.ts":                  {"a.ts", "b.ts"},
		"sub/**":                {"sub/d.js", "sub/deep/c.ts"},
		"*/*.{js,ts}":           {"lib/e.ts", "sub/d.js"},
		"{lib/*,sub/deep/*}.ts": {"lib/e.ts", "sub/deep/c.ts"},
		"l*/**/e.ts":            {"lib/e.ts"},
		"none/*.ts":             nil,
	} {
		files, err := (&Folder{Dir: dir, Glob: glob}).List()
		must(t, err)
		var got []string
		for _, f := range files {
			got = append(got, f.Path)
			if f.Abs != filepath.Join(dir, f.Path) || f.Sum != sha256.Sum256([]byte(f.Path)) {
				t.Errorf("got %v", f)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", glob, diff)
		}
	}
}

func TestListFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := (&Folder{Dir: dir, Glob: "[a.ts"}).List(); err == nil {
		t.Error("an invalid glob was accepted")
	}
	if err := (&Folder{Dir: dir, Glob: "[a.ts"}).Run(t.Context(), nil); err == nil {
		t.Error("an invalid glob was accepted")
	}
	if files, err := (&Folder{Dir: filepath.Join(dir, "none")}).List(); err != nil || len(files) > 0 {
		t.Errorf("got %v, %v", files, err)
	}
	write(t, filepath.Join(dir, "file"), "x")
	files, err := (&Folder{Dir: filepath.Join(dir, "file")}).List()
	if err != nil || len(files) != 1 || files[0].Path != "." || files[0].Err == nil {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.ts"), strings.Repeat("a", maxSize))
	write(t, filepath.Join(dir, "b.ts"), strings.Repeat("b", maxSize+1))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	must(t, os.Symlink("pipe", filepath.Join(dir, "c.ts")))
	files, err := (&Folder{Dir: dir}).List()
	must(t, err)
	if len(files) != 3 || files[0].Err != nil || !errors.Is(files[1].Err, ErrTooLarge) || files[2].Err == nil {
		t.Errorf("got %v", files)
	}
	if files[1].Sum != [32]byte{} || files[2].Sum != [32]byte{} {
		t.Errorf("an unread file has a checksum: %v", files)
	}
}

// Links between many folders create more paths than there are files.
func TestTooMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 9 {
		from := filepath.Join(dir, fmt.Sprint(i))
		must(t, os.Mkdir(from, 0o755))
		for j := range 9 {
			must(t, os.Symlink(filepath.Join("..", fmt.Sprint(j)), filepath.Join(from, fmt.Sprint("to", j))))
		}
	}
	if _, err := (&Folder{Dir: dir}).List(); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v", err)
	}
	if err := (&Folder{Dir: dir}).Run(t.Context(), nil); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v", err)
	}
}

// thousand returns a folder with 1,000 files.
func thousand(b testing.TB) *Folder {
	dir := b.TempDir()
	for i := range 1000 {
		write(b, filepath.Join(dir, fmt.Sprintf("f%d.ts", i)), strings.Repeat("x", 2000))
	}
	f, err := (&Folder{Dir: dir}).complete()
	must(b, err)
	return f
}

// BenchmarkLook scans 1,000 unchanged files.
func BenchmarkLook(b *testing.B) {
	f := thousand(b)
	time.Sleep(coarse + 100*time.Millisecond)
	last, err := f.look(nil)
	must(b, err)
	for b.Loop() {
		last, err = f.look(last)
		must(b, err)
	}
}

// BenchmarkFirstLook reads 1,000 files. A scan of files that were all just written does the same.
func BenchmarkFirstLook(b *testing.B) {
	f := thousand(b)
	for b.Loop() {
		_, err := f.look(nil)
		must(b, err)
	}
}
