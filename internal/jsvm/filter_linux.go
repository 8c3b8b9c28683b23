//go:build amd64 || arm64

package jsvm

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filterCalls makes the kernel refuse every system call that the Go runtime and the pipes do not
// need. If mayRead is set, calls that read files are allowed too. It is not an error if the kernel
// does not support filters; in that case, only the engine isolates scripts.
func filterCalls(mayRead bool) error {
	runtime.LockOSThread() // both calls must run on the same thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	program := filterProgram(mayRead)
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}                                                                           //nolint:gosec // a short program
	failed, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog))) //nolint:gosec // points to memory that does not move
	switch {
	case errno == unix.ENOSYS:
		return nil
	case errno != 0:
		return fmt.Errorf("install the system-call filter: %w", errno)
	case failed != 0:
		return fmt.Errorf("install the system-call filter: cannot synchronize thread %d", failed)
	}
	return nil
}

// Offsets of the fields that the filter reads, and its return values.
const (
	callNumber, callArch = 0, 4
	answerRefuse         = 0x00050000 | uint32(unix.EPERM)
	answerUnknown        = 0x00050000 | uint32(unix.ENOSYS)
	answerAllow          = 0x7fff0000
	answerKill           = 0x80000000
)

// argument returns the offset of an argument's lower half.
func argument(i uint32) uint32 { return 16 + 8*i }

// condition allows a call only if an argument, after masking, has a certain value.
type condition struct{ argument, mask, value uint32 }

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

// unless skips the next n instructions unless the loaded value equals the given value.
func unless(value uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: n}
}

// filterProgram returns a filter that refuses every call that is not allowed.
func filterProgram(mayRead bool) []unix.SockFilter {
	p := []unix.SockFilter{load(callArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: auditArch, Jt: 1}, answer(answerKill), load(callNumber)}
	allowed, restricted := allowedCalls, conditions()
	if mayRead {
		allowed = slices.Concat(allowed, readCalls)
		restricted[unix.SYS_OPENAT] = condition{2, unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC, unix.O_RDONLY}
	}
	for _, call := range allowed {
		p = append(p, unless(uint32(call), 1), answer(answerAllow)) //nolint:gosec // a small number
	}
	for call, c := range restricted {
		p = append(p, unless(uint32(call), 5), load(argument(c.argument)), //nolint:gosec // a small number
			unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask}, unless(c.value, 1), answer(answerAllow), answer(answerRefuse))
	}
	// Callers of clone3 fall back to clone, whose flags the filter can check.
	return append(p, unless(unix.SYS_CLONE3, 1), answer(answerUnknown), answer(answerRefuse))
}

// conditions apply to calls that are allowed in only one form: starting threads but not processes,
// mapping memory but not code, signals to this process, and queries about pages.
func conditions() map[int]condition {
	return map[int]condition{
		unix.SYS_CLONE:    {0, unix.CLONE_THREAD, unix.CLONE_THREAD},
		unix.SYS_MMAP:     {2, unix.PROT_EXEC, 0},
		unix.SYS_MPROTECT: {2, unix.PROT_EXEC, 0},
		unix.SYS_TGKILL:   {0, ^uint32(0), uint32(os.Getpid())}, //nolint:gosec // process IDs are positive
		unix.SYS_IOCTL:    {1, ^uint32(0), pagemapScan},
	}
}

// allowedCalls are the calls needed by the Go runtime (memory, threads, signals, time, polling) and
// by the worker (reading and writing pipes and images).
var allowedCalls = append([]int{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_LSEEK,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MREMAP, unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_GETRUSAGE, unix.SYS_GETRANDOM,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_SETITIMER,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2, unix.SYS_PRCTL,
}, archCalls...)

// readCalls are the calls needed to read files, in addition to opening them.
var readCalls = append([]int{
	unix.SYS_GETDENTS64, unix.SYS_READLINKAT, unix.SYS_STATX, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_GETCWD,
}, archReadCalls...)
