//go:build !linux

package accesstoken_test

import "time"

var started = time.Now()

func cpuTime() time.Duration { return time.Since(started) }
