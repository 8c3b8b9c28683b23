package subprocess

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// starts are processes to be started, by the thread that stays: the kernel ends a child
// with a death signal when the thread that started it ends, not when the process does.
var starts = sync.OnceValue(func() chan<- func() {
	tasks := make(chan func())
	go startEach(tasks)
	return tasks
})

// startEach runs the tasks on one thread, for as long as there is a process.
func startEach(tasks <-chan func()) {
	runtime.LockOSThread()
	for task := range tasks {
		task()
	}
}

// startGuarded starts a command in a process group of its own that ends with us.
func startGuarded(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	failed := make(chan error)
	starts() <- func() { failed <- cmd.Start() }
	return <-failed
}

// bound gives a process limits that it cannot raise.
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

// killGroup ends a process and all that it started and that stayed in its group.
func killGroup(p *os.Process) {
	_ = unix.Kill(-p.Pid, unix.SIGKILL)
	_ = p.Kill()
}

// endGroup asks them to end.
func endGroup(p *os.Process) { _ = unix.Kill(-p.Pid, unix.SIGTERM) }
