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

func readText(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// commandsOf returns the code block in a document whose first line has the given beginning.
func commandsOf(t *testing.T, document, beginning string) string {
	t.Helper()
	_, rest, found := strings.Cut(readText(t, "../"+document), "\n"+beginning)
	body, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("%s has no commands that begin with: %s", document, beginning)
	}
	return beginning + body + "\n"
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

// TestCommandsInDocuments runs the commands that commands.txt assigns to it, in document order, in
// a folder with a running yard.
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
	// Commands that do not end by themselves run in the background, and must still be running at
	// the end.
	endless := regexp.MustCompile(`^(api calls/live|toolyard dev)`)
	rewrite := strings.NewReplacer("http://127.0.0.1:3001", strings.TrimSuffix(p.url, "/mcp"), "postgres://yard@db/yard", "sqlite:yard.db", "toolyard dev", "toolyard dev --port 0")
	script := "set -eu\nendless=\nkey=$(toolyard keys create --name test --caller ann --scope operator --scope write 2>/dev/null)\n"
	run := 0
	for _, m := range regexp.MustCompile(`(?m)^(\S+): (.*) => `+t.Name()+`$`).FindAllStringSubmatch(readText(t, "commands.txt"), -1) {
		run++
		script += fmt.Sprintf("printf '%%s\\n' '=== %s'\n", m[1])
		for line := range strings.Lines(commandsOf(t, m[1], m[2])) {
			line = strings.TrimRight(rewrite.Replace(strings.TrimPrefix(line, "$ ")), "\n")
			if endless.MatchString(line) {
				line += ` > endless.log 2>&1 & endless="$endless $!"`
			}
			script += line + "\n"
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
