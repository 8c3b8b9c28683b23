//go:build race

package jsonschema

func init() { raceEnabled = true }
