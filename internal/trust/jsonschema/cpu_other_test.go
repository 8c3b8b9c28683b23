//go:build !linux

package jsonschema

import "time"

var started = time.Now()

func cpuTime() time.Duration { return time.Since(started) }
