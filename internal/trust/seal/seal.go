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

// Sealer seals texts that strangers keep for us in the meantime: they neither read nor change
// them.
type Sealer struct{ aead cipher.AEAD }

// Nonce tells sealed texts apart.
type Nonce [12]byte

// New makes a seal. Those with one secret and one purpose open what the others sealed.
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

// Seal seals a text until a time, in whole seconds, for whatever binding stands for.
func (s Sealer) Seal(text string, binding []byte, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))                                   //nolint:gosec // no clock is set before 1970
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(plain, text...), binding)) //nolint:gosec // the nonce is random, and part of what is sealed
}

// Open is a text that was sealed for the same binding, if its time is not over.
func (s Sealer) Open(sealed string, binding []byte, now time.Time) (text string, id Nonce, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != sealed { // it has one spelling
		return "", id, false
	}
	plain, err := s.aead.Open(nil, nil, raw, binding)
	if err != nil || len(plain) < 8 || !now.Before(time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)) { //nolint:gosec // it was one
		return "", id, false
	}
	return string(plain[8:]), Nonce(raw), true
}
