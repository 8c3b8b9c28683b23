package cli

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
)

// Database errors can have several lines, some of them repeated.
func TestErrorsOfSeveralLinesArePrintedAsLines(t *testing.T) {
	var b strings.Builder
	a := &app{err: &b}
	a.printError(errors.New("cannot connect:\n\tdial \x1b[31mA\n\tdial \x1b[31mA\n\tdial B"))
	if want := "error: cannot connect:\n       dial �[31mA\n       dial B\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// On the command line, the error for a hidden tool explains why it is hidden.
func TestCallOfAHiddenToolExplainsWhy(t *testing.T) {
	u := newUser(t)
	u.write("toolyard.yaml", "servers:\n  files: {url: "+serveTools(t, "write_text_file", "read_text_file")+", effects: {read_text_file: read}}\ngates:\n  chat: {mode: read}\n")
	for tool, want := range map[string]string{
		"mcp_files__write_text_file": "error: mcp_files__write_text_file exists, but gate chat hides it: the gate is read-only, but the tool is not declared read-only; see \"toolyard why chat mcp_files__write_text_file\"\n",
		"write_text_file":            "write_text_file exists, but gate chat hides it",
		"files/write_text_file":      "files/write_text_file exists, but gate chat hides it",
		"mcp_files__read_text_fil":   `unknown tool "mcp_files__read_text_fil" (did you mean "mcp_files__read_text_file"?)`,
	} {
		if code, _, stderr := u.run("call", tool); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", tool, code, stderr)
		}
	}
	if _, stderr := u.do("tools"); !strings.Contains(stderr, "1 write tool is hidden: this gate is read-only. To mark a server's tool as read-only, set effects: {TOOL: read}.") {
		t.Error(stderr)
	}
}

func TestPortInUseSuggestsAnother(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := l.Addr().(*net.TCPAddr).Port
	u := newUser(t)
	if code, _, stderr := u.run("serve", "--port", strconv.Itoa(port)); code != exitError || !strings.Contains(stderr, fmt.Sprintf("port %d is in use; try --port %d", port, port+1)) {
		t.Errorf("%d %s", code, stderr)
	}
}

// A server's problem includes its position in the file and a fix.
func TestServerProblemsHaveAPositionAndAFix(t *testing.T) {
	u := newUser(t)
	u.write("toolyard.yaml", "servers:\n  postgres:\n    args: [x]\n    command: no-such-uvx\n  parrot: {command: cat}\n")
	code, _, stderr := u.run("check")
	for _, want := range []string{
		"toolyard.yaml:4:5: server postgres: down: no-such-uvx is not in PATH\n       Install the program, or correct the server's command.\n",
		"toolyard.yaml:5:12: server parrot: down: the server is running, but it is not responding like an MCP server\n       Check the server's command and args.\n",
	} {
		if code != exitError || !strings.Contains(stderr, want) {
			t.Errorf("%q is missing: %d\n%s", want, code, stderr)
		}
	}
}
