package httpapi

import (
	"crypto/rand"

	"github.com/toolyard/toolyard/internal/trust/seal"
)

// SealKey encrypts cookies. Replicas share it.
type SealKey [32]byte

// NewSealKey creates a random key.
func NewSealKey() (key SealKey) {
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// newSealer derives the sealer of cookies, which opens nothing else sealed with the key.
func newSealer(key SealKey) seal.Sealer { return seal.New(key[:], "toolyard console") }
