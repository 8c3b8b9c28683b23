//go:build !unix

package hostile

// processBehaviours need signals, sessions and process groups.
var processBehaviours []Behaviour
