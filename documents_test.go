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

// testNames returns the names of all tests and fuzz targets in the repository.
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

// Every test that a page mentions exists.
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

// The program can print every message in the tables of docs/TROUBLESHOOTING.md.
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

// commandBlock is a block of shell commands in a document.
type commandBlock struct{ document, body string }

func (b commandBlock) first() string { first, _, _ := strings.Cut(b.body, "\n"); return first }

// listedCommand is a line of acceptance/commands.txt.
type listedCommand struct{ document, prefix, test string }

var followed = regexp.MustCompile(`followDocument\(t, "\.\./([^"]+)"`)

// commandBlocks returns the documents' shell commands, except for those in documents that a test
// runs from start to finish.
func commandBlocks(t *testing.T) (blocks []commandBlock) {
	t.Helper()
	tests, err := filepath.Glob("acceptance/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	whole := make(map[string]bool)
	for _, file := range tests {
		for _, m := range followed.FindAllStringSubmatch(readText(t, file), -1) {
			whole[m[1]] = true
		}
	}
	documents := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "docs/providers/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			documents = append(documents, filepath.ToSlash(file))
		}
	}
	command := regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	shell := regexp.MustCompile(`^(\$ |toolyard |curl |git |docker |npm |npx |go |claude |export |az |gcloud |kubectl )`)
	for _, document := range documents {
		for _, m := range command.FindAllStringSubmatch(readText(t, document), -1) {
			b := commandBlock{document, m[2]}
			switch m[1] {
			case "console":
				if whole[document] {
					continue
				}
			case "":
				if !shell.MatchString(b.body) {
					continue
				}
			case "sh", "bash":
			default:
				continue
			}
			blocks = append(blocks, b)
		}
	}
	if len(blocks) < 15 {
		t.Fatalf("only %d blocks found", len(blocks))
	}
	return blocks
}

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// readCommands reads acceptance/commands.txt.
func readCommands(t *testing.T) (list []listedCommand) {
	t.Helper()
	for line := range strings.Lines(readText(t, "acceptance/commands.txt")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, test, tested := strings.Cut(line, " => ")
		if !tested {
			var reason string
			if text, reason, tested = strings.Cut(line, " =/ "); !tested || reason == "" {
				t.Fatalf("acceptance/commands.txt: neither a test nor a reason: %s", line)
			}
			test = ""
		}
		document, prefix, _ := strings.Cut(text, ": ")
		list = append(list, listedCommand{document, prefix, test})
	}
	return list
}

// Every command in the documents is run by a test, or listed with a reason.
func TestEveryCommandIsListed(t *testing.T) {
	used := make(map[listedCommand]bool)
	list := readCommands(t)
	for _, b := range commandBlocks(t) {
		found := false
		for _, l := range list {
			if l.document == b.document && strings.HasPrefix(b.first(), l.prefix) {
				used[l], found = true, true
			}
		}
		if !found {
			t.Errorf("acceptance/commands.txt does not list the commands of %s that begin with: %s", b.document, b.first())
		}
	}
	known := testNames(t)
	for _, l := range list {
		if !used[l] {
			t.Errorf("%s has no commands that begin with: %s", l.document, l.prefix)
		}
		if l.test != "" && !known[l.test] {
			t.Errorf("%s: there is no test %s", l.document, l.test)
		}
	}
}
