package subprocess

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// starts runs tasks on a thread that never ends. The kernel sends a child its death signal when the
// thread that started it ends, not when the process does.
var starts = sync.OnceValue(func() chan<- func() {
	tasks := make(chan func())
	go startEach(tasks)
	return tasks
})

// startEach runs tasks on one thread until the process ends.
func startEach(tasks <-chan func()) {
	runtime.LockOSThread()
	for task := range tasks {
		task()
	}
}

// startInGroup starts a command in its own process group, which ends with this process.
func startInGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	failed := make(chan error)
	starts() <- func() { failed <- cmd.Start() }
	return <-failed
}

// bound sets a process's hard limits.
func bound(pid int, l Limits) error {
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: uint64(l.Files), //nolint:gosec // positive
	} {
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}

// killGroup kills a process and its process group.
func killGroup(p *os.Process) {
	_ = unix.Kill(-p.Pid, unix.SIGKILL)
	_ = p.Kill()
}

// endGroup terminates a process group.
func endGroup(p *os.Process) { _ = unix.Kill(-p.Pid, unix.SIGTERM) }
