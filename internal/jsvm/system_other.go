//go:build !linux

package jsvm

import (
	"os"
	"time"
)

func noHugePages() {}

// lockDown has nothing to take away here: the engine is the wall.
func lockDown() error { return nil }

// lockDownCompiler has nothing to take away here either: the parent's clock is the bound.
func lockDownCompiler() error { return nil }

func ownBinary() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// cpuMeter takes the time since the first question for CPU time.
type cpuMeter struct{ start time.Time }

func (m *cpuMeter) used() time.Duration {
	if m.start.IsZero() {
		m.start = time.Now()
	}
	return time.Since(m.start)
}

func (m *cpuMeter) release() {}
