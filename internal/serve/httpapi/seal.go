package httpapi

import "github.com/toolyard/toolyard/internal/trust/seal"

// SealKey holds the keys that encrypt cookies. Replicas share them.
type SealKey = *seal.Keyring

// NewSealKey creates a random key.
func NewSealKey() SealKey { return seal.Random() }

// sealers seal cookie values. Values sealed by one cannot be opened by another.
type sealers struct {
	key    seal.Sealer // API keys
	person seal.Sealer // people who are signed in
	flow   seal.Sealer // sign-ins in progress
}

func newSealers(key SealKey) sealers {
	return sealers{key.Sealer("toolyard console"), key.Sealer("toolyard console person"), key.Sealer("toolyard console sign-in")}
}
