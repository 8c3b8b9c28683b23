package jsvm

import (
	"os"

	"golang.org/x/sys/unix"
)

// noHugePages keeps pages as small as they are counted.
func noHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

// lockDown takes from the process what a worker does not need: whoever breaks out of the
// engine finds no files, no network and no other processes. It holds for all threads.
func lockDown() error {
	_, _ = pageMap() // before opening files is over; without it images are shown anew
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024} {
		_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}) // as far as the system allows
	}
	return filterCalls(false)
}

// lockDownCompiler takes from the process what a compiler does not need: it can read files,
// but write none, and has no network and no other processes. The kernel bounds its memory.
func lockDownCompiler() error {
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024, unix.RLIMIT_DATA: compileMemory} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return filterCalls(true)
}
