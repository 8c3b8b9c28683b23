package jsvm

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuMeter measures the CPU time of a run. It starts on first use, after a few thousand steps, so
// short runs have no overhead.
type cpuMeter struct {
	held  bool
	start time.Duration
}

// used returns the CPU time since the first call. From then on, the run stays on its thread.
func (m *cpuMeter) used() time.Duration {
	if !m.held {
		runtime.LockOSThread()
		m.held, m.start = true, threadTime()
	}
	return threadTime() - m.start
}

func (m *cpuMeter) release() {
	if m.held {
		runtime.UnlockOSThread()
		m.held = false
	}
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // cannot fail
	return time.Duration(t.Nano())
}
