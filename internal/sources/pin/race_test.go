//go:build race

package pin_test

const raceEnabled = true
