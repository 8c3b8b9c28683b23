package httpapi

import "github.com/toolyard/toolyard/internal/trust/seal"

// SealKey holds the keys that encrypt cookies. Replicas share them.
type SealKey = *seal.Keyring

// NewSealKey creates a random key.
func NewSealKey() SealKey { return seal.Random() }

// newSealer derives the sealer of cookies, which opens nothing else sealed with the key.
func newSealer(key SealKey) seal.Sealer { return key.Sealer("toolyard console") }
