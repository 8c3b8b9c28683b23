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
// and neither reads it, nor changes it, nor uses it for another call. Each sealer opens it once,
// or again for the same idempotency key, with which the call runs once.
type sealer struct {
	aead cipher.AEAD

	mu     sync.Mutex
	opened [2]map[nonce]digest // the newer ones, and those before, with the keys that they were opened for
	since  time.Time           // when the newer ones began
}

// nonce tells seals apart.
type nonce [nonceSize]byte

// digest stands for an idempotency key; zero for none.
type digest [sha256.Size]byte

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

// open opens a seal for the call that it was made for, which has an idempotency key or none.
func (s *sealer) open(sealed string, binding []byte, key string, now time.Time) (state string, id nonce, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != sealed { // a seal has one spelling
		return "", id, false
	}
	plain, err := s.aead.Open(nil, nil, raw, binding)
	if err != nil {
		return "", id, false
	}
	until, state, _ := strings.Cut(string(plain), " ")
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || now.Unix() > end {
		return "", id, false
	}
	id = nonce(raw)
	return state, id, s.admits(id, key, now)
}

// forget lets a seal be opened anew: the call that it was opened for did not run.
func (s *sealer) forget(id nonce) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, opened := range s.opened {
		delete(opened, id)
	}
}

// admits reports whether a seal is opened for the first time, or for the same key again. It
// remembers each as long as it is valid; only if very many are opened, the oldest are forgotten
// sooner.
func (s *sealer) admits(id nonce, key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[0] == nil || now.Sub(s.since) > sealTime || len(s.opened[0]) >= maxOpened {
		s.opened[0], s.opened[1] = make(map[nonce]digest), s.opened[0]
		s.since = now
	}
	var of digest
	if key != "" {
		of = sha256.Sum256([]byte(key))
	}
	for _, opened := range s.opened {
		if before, again := opened[id]; again {
			return before == of && key != ""
		}
	}
	s.opened[0][id] = of
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
	sum := sha256.Sum256(canonical)
	raw, _ := json.Marshal([]string{j.view.Gate.Name, j.Caller.Account, j.Caller.ID, j.method, j.tool.Server, j.tool.Name, hex.EncodeToString(sum[:])}) // always has a JSON form
	return raw
}
