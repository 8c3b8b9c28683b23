package httpapi

import (
	"crypto/rand"

	"github.com/toolyard/toolyard/internal/trust/seal"
)

// SealKey is what is sealed with that others keep for us, such as cookies. Replicas share it.
type SealKey [32]byte

// NewSealKey makes a key.
func NewSealKey() (key SealKey) {
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// newSeal is what seals cookies, and opens nothing else that the key sealed.
func newSeal(key SealKey) seal.Sealer { return seal.New(key[:], "toolyard console") }
