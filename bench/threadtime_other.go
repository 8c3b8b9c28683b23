//go:build !linux

package main

import "time"

var started = time.Now()

// threadTime returns the time since the start: other systems have no clock for threads.
func threadTime() time.Duration { return time.Since(started) }
