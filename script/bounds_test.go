package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/sources/watch"
)

func TestCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "scripts", "unused")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-2 * keptUnused)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	c := openCache(dir, "/tools")
	if _, err := os.Stat(old); err == nil {
		t.Error("an unused cache was kept")
	}
	kept := func(path string) bool {
		_, err := os.Stat(c.file(path))
		return err == nil
	}
	c.put(&file{path: "large.ts"}, &entry{Code: strings.Repeat("x", maxEntry)})
	c.put(&file{path: "small.ts"}, &entry{Code: "x"})
	if kept("large.ts") || !kept("small.ts") {
		t.Error("an entry larger than maxEntry was cached, or a small one was not")
	}
	c.size = maxKept
	c.put(&file{path: "more.ts"}, &entry{Code: "x"})
	if kept("more.ts") {
		t.Error("all entries together are not bounded")
	}
	if again := openCache(dir, "/tools"); again.dir != c.dir || again.size == 0 {
		t.Errorf("%+v", again)
	}
}

func TestFilesAndProblemsAreBounded(t *testing.T) {
	l := &loader{folder: &Folder{dir: t.TempDir()}, cache: &cache{}}
	found := make([]watch.File, maxFiles+7)
	for i := range found {
		found[i] = watch.File{Path: fmt.Sprintf("%05d.ts", i), Err: os.ErrPermission}
	}
	l.update(t.Context(), found)
	problems := l.problems()
	if len(l.files) != maxFiles || len(problems) != maxProblems+1 || !strings.Contains(problems[0].Message, "7 are not loaded") ||
		!strings.HasPrefix(problems[maxProblems].Message, "and ") {
		t.Errorf("%d files, %d problems: %v", len(l.files), len(problems), problems[len(problems)-1])
	}
	f := &file{path: "x.ts"}
	for range 100 {
		f.fail(fmt.Errorf("%s", strings.Repeat("x", 1<<20)))
	}
	if len(f.faults) > maxFaults || len(f.faults[0].Message) > maxMessage+len("…") {
		t.Errorf("%d faults of %d bytes", len(f.faults), len(f.faults[0].Message))
	}
}
