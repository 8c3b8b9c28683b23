package acceptance

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The README, followed word for word in an empty folder: its files are written, its
// commands are run, and they must print what it says.
func TestREADME(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	followDocument(t, "../README.md", dir, 8*time.Minute, // all that it depends on may have to be compiled
		"GOBIN="+filepath.Join(home, "bin"), "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"),
		"GOPROXY="+publish(t, home)+",file://"+goEnv(t, "GOMODCACHE")+"/cache/download,"+goEnv(t, "GOPROXY"),
		"GONOSUMDB=github.com/toolyard/toolyard", "GOMODCACHE="+filepath.Join(home, "mod"), "GOFLAGS=-mod=mod -modcacherw -trimpath")
}

// followDocument writes the files of a document into a folder and runs its commands there, which
// must print what it says.
func followDocument(t *testing.T, document, dir string, limit time.Duration, env ...string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	steps, script := readSession(t, string(text))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
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
		if s.want != "…" && strings.TrimSpace(got) != strings.TrimSpace(s.want) {
			t.Errorf("$ %s\nprinted:\n%s\nnot:\n%s", s.command, got, s.want)
		}
	}
}

// notices are what bash says about jobs, go about downloads, and the server logs
// meanwhile.
var notices = regexp.MustCompile(`(?m)^(\[\d+\].*|go: downloading.*|\{"time".*)\n?`)

const marker = "\x01step\x01\n"

type step struct{ command, want string }

var block = regexp.MustCompile("(?ms)(?:<!-- file: (\\S+) -->\n)?^```(\\w+)\n(.*?)^```$")

// readSession makes one script of all files and commands of a document.
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
	if len(steps) < 10 {
		t.Fatalf("there are only %d commands", len(steps))
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

// publish makes a module proxy in a folder that has this checkout as its only version.
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

// moduleFiles are the files that the module consists of.
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
		if _, err := os.Stat(filepath.Join("..", name)); err == nil && !strings.HasPrefix(name, "tools/") {
			files = append(files, name)
		}
	}
	for _, pattern := range []string{"jsvm/assets/built/*.*", "serve/console/built/*.*", "serve/console/built/assets/*"} { // which a release has, unlike its source
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

// The programs in the README are those in examples, which are built and tested.
func TestREADMEShowsTheExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, language := range map[string]string{
		"examples/greet/main.go": "go", "examples/tools/split_bill.ts": "ts",
		"examples/paid/tools/vat_rate.ts": "ts", "examples/paid/toolyard.yaml": "yaml",
	} {
		example, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "```"+language+"\n"+string(example)+"```\n") {
			t.Errorf("the README does not show %s as it is", file)
		}
	}
}
