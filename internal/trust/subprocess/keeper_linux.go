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

// The keeper ends what we started when we cannot do it any more. It is this binary under
// another name, one for all processes: it is told of each that starts and ends, and when
// the pipe from us breaks it ends those that are left. A process that left its group, or
// whose parent is gone, is known by a mark in its environment.
const keeperName = "toolyard-keeper"

func init() {
	if filepath.Base(os.Args[0]) == keeperName {
		keep(os.Stdin)
		os.Exit(0)
	}
}

// keep reads "+pid mark" and "-pid" until the other end is gone, then ends what is left.
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

// keeper is how the keeper is told, nil if it could not be started.
var keeper = sync.OnceValue(func() *keeping {
	in, out, err := os.Pipe()
	if err != nil {
		return nil
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{keeperName}, Env: []string{}, Dir: "/", Stdin: in}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal ends it
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil
	}
	_ = cmd.Process.Release() // it is not waited for: it outlives us
	return &keeping{out: out}
})

type keeping struct {
	mu  sync.Mutex
	out *os.File
}

// tell tells the keeper of a process. A keeper that is gone is no reason to fail.
func (k *keeping) tell(format string, args ...any) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, _ = fmt.Fprintf(k.out, format+"\n", args...)
}

// entrust has the keeper look after a process.
func entrust(pid int, mark string) { keeper().tell("+%d %s", pid, mark) }

// dismiss tells the keeper that a process has ended.
func dismiss(pid int) { keeper().tell("-%d", pid) }

// sweep ends every process that has the mark in its environment. One that forks while it is
// looked for is found in the next round.
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
