package subprocess

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The keeper ends the started processes when this process is killed. It is this binary under
// another name, one for all processes. It is notified of each start and end, and when the pipe
// breaks it kills the processes that are left. Processes that left their group are found by the
// mark in their environment.
const keeperName = "toolyard-keeper"

func init() {
	if filepath.Base(os.Args[0]) == keeperName {
		keep(os.Stdin)
		os.Exit(0)
	}
}

// keep reads "+pid mark" and "-pid" until the pipe breaks, then kills what is left.
func keep(in io.Reader) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	left := make(map[int]string)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		word, mark, _ := strings.Cut(lines.Text(), " ")
		pid, err := strconv.Atoi(strings.TrimLeft(word, "+-"))
		switch {
		case err != nil || pid < 2:
		case word[0] == '+':
			left[pid] = mark
		default:
			delete(left, pid)
		}
	}
	for pid, mark := range left {
		_ = unix.Kill(-pid, unix.SIGKILL)
		sweep(mark)
	}
}

// keeper returns the connection to the keeper, or nil if it could not be started.
var keeper = sync.OnceValue(func() *keeperPipe {
	in, out, err := os.Pipe()
	if err != nil {
		return nil
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeperName}, Env: []string{}, Dir: "/", Stdin: in}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // detach it from the terminal
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil
	}
	_ = cmd.Process.Release() // it outlives this process
	return &keeperPipe{out: out}
})

type keeperPipe struct {
	mu  sync.Mutex
	out *os.File
}

// notify sends a line to the keeper. A missing keeper is not an error.
func (k *keeperPipe) notify(format string, args ...any) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = fmt.Fprintf(k.out, format+"\n", args...)
}

// register adds a process to the keeper.
func register(pid int, mark string) { keeper().notify("+%d %s", pid, mark) }

// unregister removes a process from the keeper.
func unregister(pid int) { keeper().notify("-%d", pid) }

// sweep kills every process with the mark in its environment. It repeats to find those that fork in
// the meantime.
func sweep(mark string) {
	for range 3 {
		if len(mark) < 16 || endMarked([]byte(MarkVariable+"="+mark)) == 0 {
			return
		}
	}
}

func endMarked(mark []byte) (ended int) {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + p.Name() + "/environ")
		if err == nil && bytes.Contains(environ, mark) && unix.Kill(pid, unix.SIGKILL) == nil {
			ended++
		}
	}
	return ended
}
