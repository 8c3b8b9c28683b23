// Package seal encrypts and authenticates values that clients store for the server, such as cookies
// and request state.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// Keyring holds the keys for sealers. The first key seals and all keys open, so a key can be
// replaced without invalidating existing values. It is safe for concurrent use.
type Keyring struct {
	load func() [][]byte
	once sync.Once
	keys atomic.Pointer[[][]byte]
}

// NewKeyring creates a keyring. load is called on first use and must return at least one key.
func NewKeyring(load func() [][]byte) *Keyring { return &Keyring{load: load} }

// Random creates a keyring with a random key.
func Random() *Keyring {
	return NewKeyring(func() [][]byte { return [][]byte{[]byte(rand.Text())} })
}

// Replace replaces the keys.
func (k *Keyring) Replace(keys [][]byte) {
	k.once.Do(func() {})
	k.keys.Store(&keys)
}

func (k *Keyring) current() *[][]byte {
	k.once.Do(func() {
		keys := k.load()
		k.keys.Store(&keys)
	})
	return k.keys.Load()
}

// Sealer returns a sealer that follows changes to the keys. Sealers with the same keys and purpose
// can open each other's values.
func (k *Keyring) Sealer(purpose string) Sealer {
	return Sealer{ring: k, purpose: purpose, derived: &atomic.Pointer[derived]{}}
}

// Sealer seals values that clients store, so that they can neither read nor change them.
type Sealer struct {
	ring    *Keyring
	purpose string
	derived *atomic.Pointer[derived]
}

// derived holds the ciphers for a purpose.
type derived struct {
	keys  *[][]byte
	aeads []cipher.AEAD
}

// Nonce identifies a sealed value.
type Nonce [12]byte

// New creates a sealer with a single key.
func New(secret []byte, purpose string) Sealer {
	return NewKeyring(func() [][]byte { return [][]byte{secret} }).Sealer(purpose)
}

// aeads returns the ciphers for the current keys.
func (s Sealer) aeads() []cipher.AEAD {
	keys := s.ring.current()
	if d := s.derived.Load(); d != nil && d.keys == keys {
		return d.aeads
	}
	d := &derived{keys: keys}
	for _, key := range *keys {
		d.aeads = append(d.aeads, newAEAD(key, s.purpose))
	}
	s.derived.Store(d)
	return d.aeads
}

func newAEAD(secret []byte, purpose string) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, sha256.Size)
	if err != nil {
		panic("seal: " + err.Error()) // cannot happen: only for extremely long keys
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("seal: " + err.Error()) // cannot happen: only for other key lengths
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("seal: " + err.Error()) // cannot happen: only for other block sizes
	}
	return aead
}

// Seal seals a value until the given time, in whole seconds. It can be opened only with the same
// binding.
func (s Sealer) Seal(text string, binding []byte, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))                                         //nolint:gosec // the time is after 1970
	return base64.RawURLEncoding.EncodeToString(s.aeads()[0].Seal(nil, nil, append(plain, text...), binding)) //nolint:gosec // the nonce is random and part of the result
}

// Open returns a value that was sealed with the same binding, unless it has expired.
func (s Sealer) Open(sealed string, binding []byte, now time.Time) (text string, id Nonce, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != sealed { // only the canonical encoding is accepted
		return "", id, false
	}
	plain, err := s.open(raw, binding)
	if err != nil || len(plain) < 8 || !now.Before(time.Unix(int64(binary.BigEndian.Uint64(plain)), 0)) { //nolint:gosec // was converted from int64
		return "", id, false
	}
	return string(plain[8:]), Nonce(raw), true
}

// open opens a value with whichever key fits.
func (s Sealer) open(raw, binding []byte) (plain []byte, err error) {
	for _, aead := range s.aeads() {
		if plain, err = aead.Open(nil, nil, raw, binding); err == nil {
			return plain, nil
		}
	}
	return nil, err
}
