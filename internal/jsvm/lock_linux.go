package jsvm

import (
	"os"

	"golang.org/x/sys/unix"
)

// noHugePages disables huge pages, so that written pages are counted individually.
func noHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

// lockDown drops the privileges that a worker does not need. An attacker who breaks out of the
// engine has no access to files, the network or other processes. It applies to all threads.
func lockDown() error {
	_, _ = pageMap() // must happen while the process can still open files; if it fails, images are mapped again
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024} {
		_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}) // as far as the system allows
	}
	return filterCalls(false)
}

// lockDownCompiler drops the privileges that a compiler does not need. It can read but not write
// files, and has no access to the network or other processes. The kernel limits its memory.
func lockDownCompiler() error {
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024, unix.RLIMIT_DATA: compileMemory} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return filterCalls(true)
}
