package toolyard_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testNames returns the names of all tests and fuzz targets of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "grep", "-rhoE", "^func (Test|Fuzz)[A-Za-z0-9_]+", "--include=*_test.go", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		names[strings.TrimPrefix(strings.TrimSpace(line), "func ")] = true
	}
	return names
}

// Every test that a page names exists.
func TestDocumentsNameExistingTests(t *testing.T) {
	known := testNames(t)
	name := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9_]+)`")
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if !known[m[1]] {
				t.Errorf("%s names %s, which does not exist", file, m[1])
			}
		}
	}
}

// sources returns the text of the program's code, with the quotes of string literals unescaped.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, root := range []string{"cli", "internal", "script", "upstream", "yard"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if strings.Contains(path, "node_modules") || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".js" {
				return err
			}
			data, err := os.ReadFile(path)
			all.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(all.String(), `\"`, `"`)
}

// Every message in a table of docs/TROUBLESHOOTING.md is one that the program prints.
func TestQuotedMessagesExist(t *testing.T) {
	text, err := os.ReadFile("docs/TROUBLESHOOTING.md")
	if err != nil {
		t.Fatal(err)
	}
	code := sources(t)
	messages, inTable := 0, false
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		inTable = strings.HasPrefix(line, "| message |") || inTable && strings.HasPrefix(line, "|")
		if !inTable || len(cells) < 2 {
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(cells[0], -1) {
			messages++
			parts := slices.DeleteFunc(strings.Split(m[1], "…"), func(part string) bool { return len(strings.Trim(part, " .:;()${}")) < 3 })
			for _, part := range parts {
				if !strings.Contains(code, strings.Trim(part, " ")) {
					t.Errorf("no code prints %q of %q", part, m[1])
				}
			}
		}
	}
	if messages < 20 {
		t.Errorf("only %d messages found", messages)
	}
}
