package toolyard_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// CI runs all tests under the race detector with -short. Tests that check less in that mode must be
// named in .ci/run, which repeats them at full length.
func TestCINamesTheTestsOfFullLength(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, list := range regexp.MustCompile(`-run '\^Test\(([\w|]+)\)\$'`).FindAllSubmatch(script, -1) {
		for name := range strings.SplitSeq(string(list[1]), "|") {
			named["Test"+name] = true
		}
	}
	for _, dir := range []string{"internal/store", "internal/admission", "internal/admission/ledger", "internal/jsvm", "upstream", "upstream/internal/hostile"} {
		for name := range shortened(t, dir) {
			if strings.HasPrefix(name, "Test") && name != "TestMain" && !named[name] {
				t.Errorf("%s: %s is shorter under the race detector, and .ci/run does not name it", dir, name)
			}
		}
	}
}

// shortened returns the test functions in a folder that depend on -short or the race detector, and
// the helpers through which they do.
func shortened(t *testing.T, dir string) map[string]bool {
	t.Helper()
	uses := make(map[string]map[string]bool) // names that each function uses
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", dir, files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil {
				uses[f.Name.Name] = namesIn(f)
			}
		}
	}
	found := map[string]bool{"Short": true, "raceEnabled": true, "raceDetector": true}
	for grown := true; grown; {
		grown = false
		for function, names := range uses {
			for name := range names {
				if found[name] && !found[function] {
					found[function], grown = true, true
				}
			}
		}
	}
	return found
}

func namesIn(f *ast.FuncDecl) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	})
	return names
}
