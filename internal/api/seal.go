package api

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// SealKey is what is sealed with that others keep for us, such as cookies. Replicas share it.
type SealKey [32]byte

// NewSealKey makes a key.
func NewSealKey() (key SealKey) {
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// seal hides a text from everybody but us, for some time.
type seal struct{ cipher.AEAD }

func newSeal(key SealKey) seal {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right size
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // so has the block
	}
	return seal{aead}
}

// sealed says what is sealed, so that nothing else that this key sealed is taken for it.
var sealed = []byte("toolyard console")

// close seals a text until a time.
func (s seal) close(text string, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))                             //nolint:gosec // no clock is set before 1970
	return base64.RawURLEncoding.EncodeToString(s.Seal(nil, nil, append(plain, text...), sealed)) //nolint:gosec // the nonce is random, and part of what is sealed
}

// open is a text that was sealed, if its time is not over.
func (s seal) open(text string, now time.Time) (string, bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", false
	}
	plain, err := s.Open(nil, nil, data, sealed)
	if err != nil || len(plain) < 8 || !now.Before(time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)) { //nolint:gosec // it was one
		return "", false
	}
	return string(plain[8:]), true
}
