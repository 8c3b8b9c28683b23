package main

import (
	"syscall"
	"time"
	"unsafe"
)

// threadTime returns the current thread's CPU time.
func threadTime() time.Duration {
	const clockThreadCPU = 3
	var t syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(t.Nano())
}
