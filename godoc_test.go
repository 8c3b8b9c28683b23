package toolyard_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var goFile = regexp.MustCompile("(?s)<!-- file: (\\S+\\.go) -->\n```go\n(.*?)```\n")

// A guide's files form a package in a separate module, and its tests pass. This shows that the
// exported API is sufficient for everything in the guide.
func TestGoGuide(t *testing.T) { testGuide(t, "docs/GO.md", "example.com/shop") }

func TestPackGuide(t *testing.T) { testGuide(t, "docs/PACKS.md", "example.com/warehouse") }

func testGuide(t *testing.T, page, name string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := goFile.FindAllStringSubmatch(string(text), -1)
	for _, f := range files {
		write(t, filepath.Join(dir, f[1]), f[2])
	}
	if blocks := strings.Count(string(text), "```go\n"); blocks != len(files) || blocks < 4 {
		t.Errorf("%d blocks of Go, %d files", blocks, len(files))
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), strings.Replace(string(mod), "module "+module, "module "+name, 1)+
		"\nrequire "+module+" v0.0.0\n\nreplace "+module+" => "+root+"\n")
	write(t, filepath.Join(dir, "go.sum"), string(sum))
	for _, args := range [][]string{{"vet", "-mod=mod", "."}, {"test", "-mod=mod", "."}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
