//go:build !linux

package jsvm

import (
	"os"
	"time"
)

func noHugePages() {}

// lockDown does nothing on this system, so only the engine isolates scripts.
func lockDown() error { return nil }

// lockDownCompiler does nothing on this system. The parent enforces the time limit.
func lockDownCompiler() error { return nil }

func ownBinary() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// cpuMeter uses the time since the first call as an approximation of CPU time.
type cpuMeter struct{ start time.Time }

func (m *cpuMeter) used() time.Duration {
	if m.start.IsZero() {
		m.start = time.Now()
	}
	return time.Since(m.start)
}

func (m *cpuMeter) release() {}
