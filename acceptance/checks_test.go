package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testDeclaration = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// testsIn returns the names of the tests in a folder.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testDeclaration.FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestChecksNameExistingTests compares checks.txt with the tests in this package.
func TestChecksNameExistingTests(t *testing.T) {
	t.Parallel()
	tests := testsIn(t, ".")
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
		case !slices.Contains(tests, m[2]):
			t.Errorf("checks.txt: %s names %s, which does not exist", m[1], m[2])
		}
	}
}

// The numbers of attacks in attacks.txt: on agents and on identity.
const (
	agentAttacks    = 38
	identityAttacks = 84
)

// TestAttacksNameExistingTests compares attacks.txt with the tests in the packages that it names.
func TestAttacksNameExistingTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("attacks.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^(A?\d\d) (\S+) (Test\w+)$`)
	reason := regexp.MustCompile(`^(A\d\d) - [A-Z].*\.$`) // reason why an attack does not apply
	packages, tested := make(map[string][]string), make(map[string]bool)
	for text := range strings.Lines(string(text)) {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "#") {
			continue
		}
		if m := reason.FindStringSubmatch(text); m != nil {
			tested[m[1]] = true
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("attacks.txt: %q is not \"NN package TestName\"", text)
			continue
		}
		if packages[m[2]] == nil {
			packages[m[2]] = testsIn(t, filepath.Join("..", filepath.FromSlash(m[2])))
		}
		if !slices.Contains(packages[m[2]], m[3]) {
			t.Errorf("attacks.txt: %s names %s in %s, which does not exist", m[1], m[3], m[2])
		}
		tested[m[1]] = true
	}
	for prefix, count := range map[string]int{"": agentAttacks, "A": identityAttacks} {
		for n := range count {
			if name := fmt.Sprintf("%s%02d", prefix, n+1); !tested[name] {
				t.Errorf("attacks.txt: %s has no test", name)
			}
		}
	}
}
