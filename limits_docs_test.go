package toolyard_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryResourceHasALimit checks docs/LIMITS.md: each row names a limit, an error, and tests
// that exist.
func TestEveryResourceHasALimit(t *testing.T) {
	text, err := os.ReadFile("docs/LIMITS.md")
	if err != nil {
		t.Fatal(err)
	}
	known := testNames(t)
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.TrimSpace(cells[0]) == "resource" {
			continue
		}
		rows++
		if len(cells) != 4 {
			t.Fatalf("%d columns instead of resource, limit, error, test: %s", len(cells), line)
		}
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("empty cell: %s", line)
			}
		}
		tests := name.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range tests {
			if !known[m[1]] {
				t.Errorf("unknown test %s", m[1])
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d rows", rows)
	}
}
