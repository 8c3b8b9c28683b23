package jsonschema

import (
	"syscall"
	"time"
)

// cpuTime is what this thread has used of a processor, which other programs do not change.
func cpuTime() time.Duration {
	var u syscall.Rusage
	const thread = 1
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
