package toolyard_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// codeSpan matches inline code in Markdown.
var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// filePath matches a code span that is a path in this repository: it has a slash, or the extension
// of a source or documentation file.
var filePath = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]*)*(/|\.(go|md|ts|js|json))$`)

func TestArchitectureNamesExistingPaths(t *testing.T) {
	text, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	paths := 0
	for _, m := range codeSpan.FindAllStringSubmatch(string(text), -1) {
		path := m[1]
		if !filePath.MatchString(path) || strings.HasPrefix(path, ".") {
			continue
		}
		paths++
		info, err := os.Stat(filepath.FromSlash(path))
		if err != nil || info.IsDir() != strings.HasSuffix(path, "/") {
			t.Errorf("docs/ARCHITECTURE.md names %s, which does not exist", path)
		}
	}
	if paths < 40 {
		t.Errorf("only %d paths found", paths)
	}
}

// The description of the layout covers every package under internal.
func TestArchitectureDescribesInternalFolders(t *testing.T) {
	text, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir("internal")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && !strings.Contains(string(text), "`internal/"+f.Name()+"/`") {
			t.Errorf("docs/ARCHITECTURE.md does not describe internal/%s", f.Name())
		}
	}
}

// Links between the documents lead to existing files and headings.
func TestDocumentLinks(t *testing.T) {
	files := documents(t)
	link, codeBlock := regexp.MustCompile(`\]\(([^)\s]+)\)`), regexp.MustCompile("(?ms)^```.*?^```$")
	for _, file := range append(files, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "console/README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			linked, err := os.ReadFile(path)
			if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
				continue
			}
			if fragment != "" && !hasHeading(string(linked), fragment) {
				t.Errorf("%s links to %s, which has no such heading", file, m[1])
			}
		}
	}
}

// documents returns the pages under docs.
func documents(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 40 {
		t.Fatal(err, files)
	}
	return files
}

// Every page is listed in docs/README.md, which is the site's navigation, or in the README.md of
// its folder.
func TestDocumentsAreListed(t *testing.T) {
	for _, file := range documents(t) {
		name, err := filepath.Rel("docs", file)
		if err != nil {
			t.Fatal(err)
		}
		if name == "README.md" {
			continue
		}
		listed := false
		for index, link := range map[string]string{"docs/README.md": "](" + filepath.ToSlash(name) + ")", filepath.Join(filepath.Dir(file), "README.md"): "](" + filepath.Base(name) + ")"} {
			text, err := os.ReadFile(index)
			listed = listed || err == nil && strings.Contains(string(text), link)
		}
		if !listed {
			t.Errorf("%s is listed neither in docs/README.md nor in the README.md of its folder", file)
		}
	}
}

// hasHeading reports whether a Markdown text has a heading with the anchor that GitHub gives it.
func hasHeading(text, anchor string) bool {
	notInAnchor := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(text) {
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if ok && strings.HasPrefix(line, "#") && strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
