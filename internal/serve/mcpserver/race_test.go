//go:build race

package mcpserver_test

// slower is how much slower code runs under the race detector.
const slower = 20
