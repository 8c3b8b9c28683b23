package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandBlock is a block of shell commands in a document.
type commandBlock struct{ document, body string }

func (b commandBlock) first() string { first, _, _ := strings.Cut(b.body, "\n"); return first }

// listedCommand is a line of commands.txt.
type listedCommand struct{ document, prefix, test string }

var followed = regexp.MustCompile(`followDocument\(t, "\.\./([^"]+)"`)

// commandBlocks returns the shell commands of the documents that no test follows as a whole.
func commandBlocks(t *testing.T) (blocks []commandBlock) {
	t.Helper()
	tests, err := filepath.Glob("*_test.go")
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
	for _, pattern := range []string{"../docs/*.md", "../docs/identity/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			documents = append(documents, strings.TrimPrefix(filepath.ToSlash(file), "../"))
		}
	}
	command := regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	shell := regexp.MustCompile(`^(\$ |toolyard |curl |git |docker |npm |npx |go |claude |export |az |gcloud |kubectl )`)
	for _, document := range documents {
		for _, m := range command.FindAllStringSubmatch(readText(t, "../"+document), -1) {
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

// readCommands reads commands.txt.
func readCommands(t *testing.T) (list []listedCommand) {
	t.Helper()
	for line := range strings.Lines(readText(t, "commands.txt")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, test, tested := strings.Cut(line, " => ")
		if !tested {
			var reason string
			if text, reason, tested = strings.Cut(line, " =/ "); !tested || reason == "" {
				t.Fatalf("commands.txt: neither a test nor a reason: %s", line)
			}
			test = ""
		}
		document, prefix, _ := strings.Cut(text, ": ")
		list = append(list, listedCommand{document, prefix, test})
	}
	return list
}

// Every command in the documents is run by a test, or listed with the reason why not.
func TestEveryCommandIsListed(t *testing.T) {
	t.Parallel()
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
	known := knownTests(t)
	for _, l := range list {
		if !used[l] {
			t.Errorf("%s has no commands that begin with: %s", l.document, l.prefix)
		}
		if l.test != "" && !known[l.test] {
			t.Errorf("%s: there is no test %s", l.document, l.test)
		}
	}
}

func knownTests(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "grep", "-rhoE", "^func Test[A-Za-z0-9_]+", "--include=*_test.go", "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		known[strings.TrimPrefix(strings.TrimSpace(line), "func ")] = true
	}
	return known
}

const documentsYard = `
store: sqlite:yard.db
scripts: {dir: tools}
toolsets:
  everyday: {tools: [hello, split_bill]}
gates:
  chat: {mode: read, toolset: everyday}
  sell: {mode: read, surface: execute, callers: keys}
`

// TestCommandsInDocuments runs the commands that commands.txt assigns to it, in the order of the
// documents, in a folder with a running yard.
func TestCommandsInDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"hello", "split_bill"} {
		if err := os.MkdirAll(filepath.Join(dir, "tools"), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "tools", name+".ts"), []byte(readText(t, "../examples/tools/"+name+".ts")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := serveIn(t, dir, "toolyard", documentsYard)
	// Commands that do not end by themselves run in the background, and must still run at the end.
	endless := regexp.MustCompile(`^(api calls/live|toolyard dev)`)
	rewrite := strings.NewReplacer("http://127.0.0.1:3001", strings.TrimSuffix(p.url, "/mcp"), "postgres://yard@db/yard", "sqlite:yard.db", "toolyard dev", "toolyard dev --port 0")
	script := "set -eu\nendless=\nkey=$(toolyard keys create --name test --caller ann --scope operator --scope write 2>/dev/null)\n"
	run := 0
	for _, l := range readCommands(t) {
		for _, b := range commandBlocks(t) {
			if l.test != t.Name() || l.document != b.document || !strings.HasPrefix(b.first(), l.prefix) {
				continue
			}
			run++
			script += fmt.Sprintf("printf '%%s\\n' '=== %s'\n", b.document)
			for line := range strings.Lines(b.body) {
				line = strings.TrimRight(rewrite.Replace(strings.TrimPrefix(line, "$ ")), "\n")
				if endless.MatchString(line) {
					line += ` > endless.log 2>&1 & endless="$endless $!"`
				}
				script += line + "\n"
			}
		}
	}
	script += "for process in $endless; do kill $process; done\n"
	script = strings.ReplaceAll(script, "curl -s ", "curl -sS --fail-with-body --max-time 600 ")
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || run < 6 {
		t.Errorf("%d blocks: %v\n%s", run, err, out)
	}
	t.Logf("%s", out)
}
