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

// The keeper ends the started processes if this process is killed. It is the same binary under
// another name, and there is one for all processes. It is notified when a process starts or ends.
// When the pipe breaks, it kills the remaining processes. It finds processes that left their group
// by the mark in their environment.
const keeperName = "toolyard-keeper"

func init() {
	if filepath.Base(os.Args[0]) == keeperName {
		keep(os.Stdin)
		os.Exit(0)
	}
}

// keep reads "+pid mark" and "-pid" until the pipe breaks, and then kills the remaining processes.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // detaches it from the terminal
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil
	}
	_ = cmd.Process.Release() // the keeper outlives this process
	return &keeperPipe{out: out}
})

type keeperPipe struct {
	mu  sync.Mutex
	out *os.File
}

// notify sends a line to the keeper. It does nothing if there is no keeper.
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

// sweep kills every process that has the mark in its environment. It repeats this to find processes
// that fork in the meantime.
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
