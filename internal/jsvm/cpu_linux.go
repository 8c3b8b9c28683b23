package jsvm

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuMeter measures the CPU time of a run. It begins when it is first asked, which is after
// some thousands of steps: short runs pay nothing for it.
type cpuMeter struct {
	held  bool
	start time.Duration
}

// used is the CPU time since the first question. The run stays on its thread from then on.
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
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // it cannot fail
	return time.Duration(t.Nano())
}
