// Package seal encrypts and authenticates values that clients store on our behalf, such as
// cookies and request state.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// Sealer seals values that clients store: they can neither read nor change them.
type Sealer struct{ aead cipher.AEAD }

// Nonce identifies a sealed value.
type Nonce [12]byte

// New creates a sealer. Sealers with the same secret and purpose open each other's values.
func New(secret []byte, purpose string) Sealer {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size)
	if err != nil {
		panic("seal: " + err.Error()) // only for keys of absurd length
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("seal: " + err.Error()) // only for keys of another length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("seal: " + err.Error()) // only for another block size
	}
	return Sealer{aead}
}

// Seal seals a value until a time, in whole seconds. It can be opened only with the same binding.
func (s Sealer) Seal(text string, binding []byte, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))                                   //nolint:gosec // no clock is set before 1970
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(plain, text...), binding)) //nolint:gosec // the nonce is random, and part of what is sealed
}

// Open returns a value that was sealed with the same binding, unless it has expired.
func (s Sealer) Open(sealed string, binding []byte, now time.Time) (text string, id Nonce, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != sealed { // only the canonical encoding is valid
		return "", id, false
	}
	plain, err := s.aead.Open(nil, nil, raw, binding)
	if err != nil || len(plain) < 8 || !now.Before(time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)) { //nolint:gosec // it was one
		return "", id, false
	}
	return string(plain[8:]), Nonce(raw), true
}
