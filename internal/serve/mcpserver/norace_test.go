//go:build !race

package mcpserver_test

// slower is the slowdown by the race detector, which is off.
const slower = 1
