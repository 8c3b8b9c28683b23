package jsvm

import "golang.org/x/sys/unix"

// lockDown takes from the process what a worker does not need: whoever breaks out of the
// engine finds no files, no network and no other processes. It holds for all threads.
func lockDown() error {
	if _, err := pageMap(); err != nil {
		return err
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024} {
		_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}) // as far as the system allows
	}
	return filterCalls()
}
