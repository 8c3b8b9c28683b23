//go:build !linux

package main

import "time"

var started = time.Now()

// threadTime returns the time since the start, because other systems have no per-thread clock.
func threadTime() time.Duration { return time.Since(started) }
