package mcpserve

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	sealTime  = 10 * time.Minute // how long a client has for its answers
	maxOpened = 100_000          // seals that are remembered as opened, at least
	nonceSize = 12
)

// sealer seals what an unfinished result wants back. A client keeps it in the meantime,
// and neither reads it, nor changes it, nor uses it for another call, nor twice.
type sealer struct {
	aead cipher.AEAD

	mu     sync.Mutex
	opened [2]map[[nonceSize]byte]struct{} // the newer ones, and those before
	since  time.Time                       // when the newer ones began
}

// newSealer makes a sealer. Servers with one secret open each other's seals; without a
// secret nobody else does.
func newSealer(secret []byte) *sealer {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "toolyard request state", sha256.Size)
	if err != nil {
		panic("mcpserve: " + err.Error()) // only for keys of absurd length
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("mcpserve: " + err.Error()) // only for keys of another length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("mcpserve: " + err.Error()) // only for another block size
	}
	return &sealer{aead: aead}
}

// seal seals a state for the call that binding stands for.
func (s *sealer) seal(state string, binding []byte, now time.Time) string {
	plain := strconv.AppendInt(nil, now.Add(sealTime).Unix(), 10)
	plain = append(append(plain, ' '), state...)
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, binding)) //nolint:gosec // makes its own random nonce
}

// open opens a seal, once, for the call that it was made for.
func (s *sealer) open(sealed string, binding []byte, now time.Time) (state string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != sealed { // a seal has one spelling
		return "", false
	}
	plain, err := s.aead.Open(nil, nil, raw, binding)
	if err != nil {
		return "", false
	}
	until, state, _ := strings.Cut(string(plain), " ")
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || now.Unix() > end {
		return "", false
	}
	return state, s.first([nonceSize]byte(raw), now)
}

// first reports whether a seal is opened for the first time. It remembers each as long as
// it is valid; only if very many are opened, the oldest are forgotten sooner.
func (s *sealer) first(nonce [nonceSize]byte, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[0] == nil || now.Sub(s.since) > sealTime || len(s.opened[0]) >= maxOpened {
		s.opened[0], s.opened[1] = make(map[[nonceSize]byte]struct{}), s.opened[0]
		s.since = now
	}
	for _, opened := range s.opened {
		if _, again := opened[nonce]; again {
			return false
		}
	}
	s.opened[0][nonce] = struct{}{}
	return true
}

// binding stands for a call of a tool: a seal that was made for it fits no other. Spelling
// and order of the arguments do not matter.
func binding(j *job) []byte {
	var args any
	d := json.NewDecoder(bytes.NewReader(j.Args))
	d.UseNumber()
	if d.Decode(&args) != nil || args == nil { // none
		args = struct{}{}
	}
	canonical, _ := json.Marshal(args) // was JSON before
	digest := sha256.Sum256(canonical)
	raw, _ := json.Marshal([]string{j.view.Gate.Name, j.Caller.ID, j.method, j.tool.Server, j.tool.Name, hex.EncodeToString(digest[:])}) // always has a JSON form
	return raw
}
