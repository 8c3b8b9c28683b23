//go:build race

package homeassistant_test

func init() { raceDetector = true }
