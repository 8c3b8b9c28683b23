// Package stack prepares new goroutines for deep calls.
package stack

// size is enough for a call on the call path, including encoding and decoding JSON.
const size = 12 << 10

// Reserve grows the stack of a new goroutine to 16 KiB. It would grow anyway, but in several steps,
// and each step copies the stack and adjusts every frame on it. For a short task with deep calls,
// that can take longer than the task itself. A new stack is nearly empty, so growing it in one step
// is cheap.
//
//go:noinline
func Reserve() {
	var room [size]byte
	use(&room)
}

//go:noinline
func use(*[size]byte) {}
