package pin_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/sources/pin"
)

// TestMain is also the entry point of the child processes in these tests.
func TestMain(m *testing.M) {
	if path := os.Getenv("PIN_TEST_BOOK"); path != "" {
		n, _ := strconv.Atoi(os.Getenv("PIN_TEST_COUNT"))
		if err := updates(path, os.Getenv("PIN_TEST_NAME"), n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// updates adds n tools to a shared server and to its own server, and reports each one.
func updates(path, name string, n int) error {
	b, err := pin.Open(path)
	if err != nil {
		return err
	}
	for i := range n {
		tool := name + "-" + strconv.Itoa(i)
		for _, server := range []string{"shared", name} {
			if err := b.Update(server, add(tool, definition(i))); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stdout, tool)
	}
	return nil
}

func process(t *testing.T, path, name string, n int) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "PIN_TEST_BOOK="+path, "PIN_TEST_NAME="+name, "PIN_TEST_COUNT="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	return cmd
}

func TestProcessesLoseNothingOfEachOther(t *testing.T) {
	const n = 15
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	var all []*exec.Cmd
	for i := range 3 {
		cmd := process(t, path, fmt.Sprint("p", i), n)
		must(t, cmd.Start())
		all = append(all, cmd)
	}
	for _, cmd := range all {
		must(t, cmd.Wait())
	}
	b := open(t, path)
	for server, want := range map[string]int{"shared": 3 * n, "p0": n, "p1": n, "p2": n} {
		if e, _ := b.Entry(server); len(e.Tools) != want {
			t.Errorf("%s has %d tools, want %d", server, len(e.Tools), want)
		}
	}
}

// If a process is killed at any time, the file is complete and contains all reported changes.
func TestACrashLeavesACompleteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	for round := range 15 {
		name := fmt.Sprint("p", round)
		cmd := process(t, path, name, 1_000)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		written := bufio.NewScanner(out)
		for range 2 {
			written.Scan()
		}
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		must(t, cmd.Process.Kill())
		said := 2
		for written.Scan() {
			said++
		}
		_ = cmd.Wait()
		e, _ := open(t, path).Entry(name)
		if len(e.Tools) < said {
			t.Fatalf("it reported %d written tools, but there are %d", said, len(e.Tools))
		}
	}
	must(t, open(t, path).Remove("p0"))
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	must(t, err)
	if len(names) > 0 {
		t.Errorf("left behind: %s", strings.Join(names, ", "))
	}
}

// Leftovers of a crash are neither read nor do they interfere.
func TestHalfOfANewFileIsNotInTheWay(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "toolyard.lock")
	must(t, open(t, path).Update("a", add("x", `{}`)))
	must(t, os.WriteFile(filepath.Join(dir, ".toolyard.lock.123.tmp"), []byte(small[:100]), 0o600))
	b := open(t, path)
	must(t, b.Update("b", add("y", `{}`)))
	if got := entries(open(t, path), "a", "b"); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}
