package acceptance

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestREADME follows the README word for word in an empty folder: it writes the files, runs the
// commands, and compares their output.
func TestREADME(t *testing.T) {
	heavy(t)
	dir, home := t.TempDir(), t.TempDir()
	server := script(t, "node_modules/.bin/mcp-server-filesystem")
	npx := "#!/bin/sh\nshift 2\nexec '" + server + "' \"$@\"\n" // runs the installed package instead of downloading it
	if err := os.WriteFile(filepath.Join(home, "npx"), []byte(npx), 0o700); err != nil {
		t.Fatal(err)
	}
	steps := followDocument(t, "../README.md", dir, "HOME="+home, "PATH="+home+":"+bin+":"+os.Getenv("PATH"))
	checkRecording(t, steps, home)
}

// TestGuide follows docs/GUIDE.md word for word, with a binary that go install builds from a
// release, and a Go program that uses the same release.
func TestGuide(t *testing.T) {
	heavy(t)
	dir, home := t.TempDir(), t.TempDir()
	defaultPort.Lock()
	defer defaultPort.Unlock()
	env := []string{
		"GOBIN=" + filepath.Join(home, "bin"), "PATH=" + filepath.Join(home, "bin") + ":" + os.Getenv("PATH"),
		"GOPROXY=" + publish(t, home) + ",file://" + goEnv(t, "GOMODCACHE") + "/cache/download," + goEnv(t, "GOPROXY"),
		"GONOSUMDB=github.com/toolyard/toolyard", "GOMODCACHE=" + filepath.Join(home, "mod"), "GOFLAGS=-mod=mod -modcacherw -trimpath",
	}
	install := exec.CommandContext(t.Context(), "go", "install", "github.com/toolyard/toolyard/cmd/toolyard@latest")
	install.Dir, install.Env = dir, append(os.Environ(), env...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	followDocument(t, "../docs/GUIDE.md", dir, env...)
}

// followDocument writes a document's files into a folder, runs its commands there, and compares
// their output. It returns the commands and their output.
func followDocument(t *testing.T, document, dir string, env ...string) []step {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	steps, script := readSession(t, string(text))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // all dependencies may have to be compiled
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-m", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	parts := strings.Split(string(out), marker)
	if len(parts) != len(steps)+1 {
		t.Fatalf("%d steps printed %d parts:\n%s", len(steps), len(parts), out)
	}
	for i, s := range steps {
		got := notices.ReplaceAllString(parts[i+1], "")
		steps[i].got = got
		if s.want != "…" && durations.ReplaceAllString(strings.TrimSpace(got), "") != durations.ReplaceAllString(strings.TrimSpace(s.want), "") {
			t.Errorf("$ %s\nprinted:\n%s\nnot:\n%s", s.command, got, s.want)
		}
	}
	return steps
}

// notices matches lines from bash about jobs, from go about downloads, from the server's log, and
// from commands that wait for a slow server.
var notices = regexp.MustCompile(`(?m)^(\[\d+\].*|go: downloading.*|\{"time".*|Waiting up to .*)\n?`)

// durations matches the durations of tests, which vary.
var durations = regexp.MustCompile(`\([0-9.]+ (µs|ms|s)\)`)

const marker = "\x01step\x01\n"

type step struct{ command, want, got string }

var block = regexp.MustCompile("(?ms)(?:<!-- file: (\\S+) -->\n)?^```(\\w+)\n(.*?)^```$")

// readSession converts all files and commands of a document into one script.
func readSession(t *testing.T, document string) (steps []step, script string) {
	t.Helper()
	for _, b := range block.FindAllStringSubmatch(document, -1) {
		file, language, body := b[1], b[2], b[3]
		if file != "" {
			script += fmt.Sprintf("cat > %s <<'END OF FILE'\n%sEND OF FILE\n", file, body)
		}
		if language != "console" {
			continue
		}
		for line := range strings.Lines(body) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: strings.TrimSpace(command)})
				script += "printf '\\001step\\001\\n'\n" + command
				continue
			}
			steps[len(steps)-1].want += line
		}
	}
	for i := range steps {
		steps[i].want = strings.TrimSpace(steps[i].want)
	}
	if len(steps) < 6 {
		t.Fatalf("only %d commands found", len(steps))
	}
	return steps, script + "true\n"
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// publish creates a module proxy in a folder. It has this checkout as the only version.
func publish(t *testing.T, home string) string {
	t.Helper()
	const version = "v0.1.0"
	dir := filepath.Join(home, "proxy", "github.com", "toolyard", "toolyard", "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"list": version + "\n", version + ".mod": string(mod),
		version + ".info": `{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for _, name := range moduleFiles(t) {
		data, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create("github.com/toolyard/toolyard@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return "file://" + filepath.Join(home, "proxy")
}

// inOtherModule reports whether a file belongs to another module in this repository.
func inOtherModule(name string) bool {
	return slices.ContainsFunc([]string{"tools/", "acceptance/modelsdk/", "acceptance/providers/"}, func(dir string) bool { return strings.HasPrefix(name, dir) })
}

// moduleFiles returns the module's files.
func moduleFiles(t *testing.T) (files []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if _, err := os.Stat(filepath.Join("..", name)); err == nil && !inOtherModule(name) {
			files = append(files, name)
		}
	}
	for _, pattern := range []string{"jsvm/assets/built/*.*", "serve/console/built/*.*", "serve/console/built/assets/*", "base/buildinfo/built/*.*"} { // only in a release
		built, err := filepath.Glob("../internal/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range built {
			if filepath.Ext(name) != ".md" {
				files = append(files, strings.TrimPrefix(name, "../"))
			}
		}
	}
	return files
}

// The programs in the documents are the same as those in examples, which are built and tested.
func TestDocumentsShowTheExamples(t *testing.T) {
	t.Parallel()
	for document, examples := range map[string]map[string]string{
		"README.md": {"examples/tools/split_bill.ts": "ts"},
		"docs/GUIDE.md": {
			"examples/greet/main.go": "go", "examples/tools/split_bill.ts": "ts",
			"examples/paid/tools/vat_rate.ts": "ts", "examples/paid/toolyard.yaml": "yaml",
		},
		"docs/TYPESCRIPT.md": {"examples/tools/split_bill.test.ts": "ts"},
		"docs/ADD_A_TOOL.md": {
			"examples/workdays/tools/count_workdays.ts": "ts", "examples/workdays/tools/count_workdays.test.ts": "ts",
			"examples/workdays/main.go": "go", "examples/workdays/main_test.go": "go",
		},
		"docs/CONTEXT.md": {"examples/crm/tools/quote.ts": "ts"},
	} {
		text, err := os.ReadFile("../" + document)
		if err != nil {
			t.Fatal(err)
		}
		for file, language := range examples {
			example, err := os.ReadFile("../" + file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "```"+language+"\n"+string(example)+"```\n") {
				t.Errorf("%s does not match %s", document, file)
			}
		}
	}
}
