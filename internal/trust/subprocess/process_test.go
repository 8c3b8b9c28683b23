//go:build linux

package subprocess

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sh returns a shell command for tests. The product itself never starts a shell.
func sh(script string, env ...string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: env, Limits: Limits{Grace: 200 * time.Millisecond}}
}

func startTest(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		<-p.Ended()
		_, _ = p.In.Close(), p.Out.Close()
	})
	return p
}

func gone(pid int) bool {
	for range 3000 {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(data), ") Z ") {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestProcessTalks(t *testing.T) {
	p := startTest(t, sh("read line; echo got $line; echo bye >&2; exit 3"))
	if _, err := io.WriteString(p.In, "it\n"); err != nil {
		t.Fatal(err)
	}
	<-p.Ended() // the output is still available
	out, err := io.ReadAll(p.Out)
	if err != nil || string(out) != "got it\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := p.Err(); err == nil || err.Error() != "exit status 3: bye" {
		t.Error(err)
	}
}

func TestProcessKnowsOnlyItsOwnEnvironment(t *testing.T) {
	t.Setenv("TOOLYARD_SECRET", "canary")
	p := startTest(t, sh("env", "GIVEN=1", "HOME=/nowhere"))
	out, _ := io.ReadAll(p.Out)
	if s := string(out); strings.Contains(s, "canary") || !strings.Contains(s, "GIVEN=1") || !strings.Contains(s, "HOME=/nowhere") || !strings.Contains(s, "PATH=") {
		t.Error(s)
	}
}

func TestProcessGroupEndsWithIt(t *testing.T) {
	p := startTest(t, sh("sleep 1000 & echo $!; wait"))
	line, _ := bufio.NewReader(p.Out).ReadString('\n')
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if !gone(child) {
		t.Error("a child was left behind")
	}
}

func TestProcessStops(t *testing.T) {
	for name, script := range map[string]string{"by its input": "read line; exit 0", "when asked": "trap 'exit 0' TERM; while :; do sleep 0.05; done", "when killed": "trap '' TERM; while :; do sleep 0.05; done"} {
		p := startTest(t, sh(script))
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		p.Stop(context.Background())
		if took := time.Since(start); took > time.Minute || !gone(p.PID()) {
			t.Errorf("%s: %v", name, took)
		}
	}
}

func TestProcessThatDoesNotExist(t *testing.T) {
	if _, err := Start(Command{Path: "no-such-program"}); err == nil || err.Error() != "no-such-program is not in PATH" {
		t.Error(err)
	}
	if _, err := Start(Command{Path: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("it started")
	}
}

// A flood on standard error is limited and does not stop the process.
func TestProcessComplains(t *testing.T) {
	p := startTest(t, sh("head -c 10000000 /dev/zero | tr '\\0' x >&2; echo; echo done"))
	out, _ := io.ReadAll(p.Out)
	<-p.Ended()
	if len(p.Tail()) > 4096 || !strings.Contains(string(out), "done") {
		t.Errorf("%d bytes of complaints; %s", len(p.Tail()), out)
	}
}

// A process that leaves its group and outlives its parent is killed.
func TestProcessThatHides(t *testing.T) {
	p := startTest(t, sh("setsid sh -c 'echo $$; exec sleep 1000' & read line; echo bye >&2; exit 3"))
	line, _ := bufio.NewReader(p.Out).ReadString('\n')
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(line, err)
	}
	if _, err := io.WriteString(p.In, "end\n"); err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if !gone(child) {
		t.Error("a child was left behind")
	}
	if err := p.Err(); err == nil || err.Error() != "exit status 3: bye" {
		t.Errorf("%v, although the child held standard error open", err)
	}
}

// When this process is killed, its children and their children are killed too.
func TestProcessEndsWithUs(t *testing.T) {
	for name, script := range map[string]string{
		"child":      "echo $$; exec sleep 1000",
		"grandchild": "sh -c 'echo $$; exec sleep 1000' & wait",
		"hidden one": "setsid sh -c 'echo $$; exec sleep 1000' & wait",
	} {
		t.Run(name, func(t *testing.T) { endsWithUs(t, script) })
	}
}

func TestParent(t *testing.T) {
	if script := os.Getenv("SUBPROCESS_TEST_PARENT"); script != "" {
		p, err := Start(sh(script))
		if err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(p.Out).ReadString('\n')
		_, _ = os.Stdout.WriteString("child " + line)
		time.Sleep(time.Minute)
	}
}

func endsWithUs(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestParent$")
	cmd.Env = append(os.Environ(), "SUBPROCESS_TEST_PARENT="+script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "child ")))
	if err != nil {
		t.Fatal(line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !gone(pid) {
		t.Error("the child outlived its parent")
	}
}

// Nesting of yards is limited.
func TestProcessDepth(t *testing.T) {
	t.Setenv(depthName, "4")
	if _, err := Start(sh("true")); err == nil || !strings.Contains(err.Error(), "are nested") {
		t.Error(err)
	}
}
