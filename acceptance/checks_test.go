package acceptance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestChecksNameExistingTests compares checks.txt with the tests of this package.
func TestChecksNameExistingTests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declaration.FindAllStringSubmatch(string(source), -1) {
			tests[m[1]] = true
		}
	}
	checks, err := os.ReadFile("checks.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^(AC-\d\d) (Test\w+)$`)
	for text := range strings.Lines(string(checks)) {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "#") {
			continue
		}
		m := line.FindStringSubmatch(text)
		switch {
		case m == nil:
			t.Errorf("checks.txt: %q is not \"AC-NN TestName\"", text)
		case !tests[m[2]]:
			t.Errorf("checks.txt: %s names %s, which does not exist", m[1], m[2])
		}
	}
}
