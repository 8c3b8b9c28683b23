package mcpserve

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/guard"
)

const (
	sealTime  = 10 * time.Minute // how long a client has for its answers
	maxOpened = 100_000          // seals that are remembered as opened, at least
)

// sealer seals what an unfinished result wants back. A client keeps it in the meantime,
// and neither reads it, nor changes it, nor uses it for another call. Each sealer opens it once,
// or again for the same idempotency key, with which the call runs once.
type sealer struct {
	own guard.Seal

	mu     sync.Mutex
	opened [2]map[guard.Nonce]digest // the newer ones, and those before, with the keys that they were opened for
	since  time.Time                 // when the newer ones began
}

// digest stands for an idempotency key; zero for none.
type digest [sha256.Size]byte

// newSealer makes a sealer. Servers with one secret open each other's seals; without a
// secret nobody else does.
func newSealer(secret []byte) *sealer {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	return &sealer{own: guard.NewSeal(secret, "toolyard request state")}
}

// seal seals a state for the call that binding stands for.
func (s *sealer) seal(state string, binding []byte, now time.Time) string {
	return s.own.Close(state, binding, now.Add(sealTime+time.Second)) // the last second is a whole one
}

// open opens a seal for the call that it was made for, which has an idempotency key or none.
func (s *sealer) open(sealed string, binding []byte, key string, now time.Time) (state string, id guard.Nonce, ok bool) {
	if state, id, ok = s.own.Open(sealed, binding, now); !ok {
		return "", id, false
	}
	return state, id, s.admits(id, key, now)
}

// forget lets a seal be opened anew: the call that it was opened for did not run.
func (s *sealer) forget(id guard.Nonce) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, opened := range s.opened {
		delete(opened, id)
	}
}

// admits reports whether a seal is opened for the first time, or for the same key again. It
// remembers each as long as it is valid; only if very many are opened, the oldest are forgotten
// sooner.
func (s *sealer) admits(id guard.Nonce, key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened[0] == nil || now.Sub(s.since) > sealTime || len(s.opened[0]) >= maxOpened {
		s.opened[0], s.opened[1] = make(map[guard.Nonce]digest), s.opened[0]
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
