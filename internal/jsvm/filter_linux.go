//go:build amd64 || arm64

package jsvm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterCalls lets the kernel refuse every system call that the Go runtime and our own pipes
// do not need.
func filterCalls() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	program := filterProgram()
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}                                                                      //nolint:gosec // a short program
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog))) //nolint:gosec // the address of memory that stays where it is
	if errno == unix.ENOSYS || errno == unix.EINVAL {
		return nil // a kernel without filters; the engine is the wall then
	}
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// filterProgram answers EPERM to every call that is not allowed.
func filterProgram() []unix.SockFilter {
	const (
		load, equal, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		nr, arch         = 0, 4 // offsets of what is loaded
		refuse, allow    = 0x00050000 | uint32(unix.EPERM), 0x7fff0000
		kill             = 0x80000000
	)
	p := []unix.SockFilter{
		{Code: load, K: arch},
		{Code: equal, K: auditArch, Jt: 1},
		{Code: ret, K: kill},
		{Code: load, K: nr},
	}
	for _, call := range allowedCalls {
		p = append(p, unix.SockFilter{Code: equal, K: uint32(call), Jf: 1}, unix.SockFilter{Code: ret, K: allow}) //nolint:gosec // a small number
	}
	return append(p, unix.SockFilter{Code: ret, K: refuse})
}

// allowedCalls is what the Go runtime needs (memory, threads, signals, time, polling) and
// what we do: read and write pipes and images.
var allowedCalls = append([]int{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_LSEEK,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_BRK, unix.SYS_MINCORE,
	unix.SYS_MEMFD_CREATE, unix.SYS_IOCTL, unix.SYS_FTRUNCATE,
	unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_TGKILL, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_SETITIMER,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_PRCTL,
}, archCalls...)
