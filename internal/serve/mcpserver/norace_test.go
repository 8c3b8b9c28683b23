//go:build !race

package mcpserver_test

// slower is the slowdown caused by the race detector, which is disabled here.
const slower = 1
