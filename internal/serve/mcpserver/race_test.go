//go:build race

package mcpserver_test

// slower is the slowdown caused by the race detector.
const slower = 20
