package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

const (
	sealTime  = 10 * time.Minute // how long a client has for its answers
	maxOpened = 100_000          // seals that are remembered as opened, at least
)

// sealer seals what an unfinished result wants back. A client keeps it in the meantime,
// and neither reads it, nor changes it, nor uses it for another call. Each sealer opens it once,
// or again for the same idempotency key, with which the call runs once.
type sealer struct {
	own    seal.Sealer
	opened recent[seal.Nonce, digest] // with the keys that they were opened for
}

// Tokens remembers which tokens were used, for all servers that share it. Store implements it.
type Tokens interface {
	// Consume marks a token as used by owner, and returns who uses it.
	Consume(ctx context.Context, id, owner string, until time.Time) (user string, first bool, err error)
	// Release makes a token usable again.
	Release(ctx context.Context, id string) error
}

// releaseTime is how long the release of a state may take.
const releaseTime = 2 * time.Second

// digest stands for an idempotency key; zero for none.
type digest [sha256.Size]byte

// newSealer makes a sealer. Servers with one secret open each other's seals; without a
// secret nobody else does.
func newSealer(secret []byte) *sealer {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	return &sealer{own: seal.New(secret, "toolyard request state"), opened: recent[seal.Nonce, digest]{max: maxOpened, keep: sealTime}}
}

// seal seals a state for the call that binding stands for.
func (s *sealer) seal(state string, binding []byte, now time.Time) string {
	return s.own.Seal(state, binding, now.Add(sealTime+time.Second)) // the last second is a whole one
}

// open opens a seal for the call that it was made for, which has an idempotency key or none.
func (s *sealer) open(sealed string, binding []byte, key string, now time.Time) (state string, id seal.Nonce, ok bool) {
	if state, id, ok = s.own.Open(sealed, binding, now); !ok {
		return "", id, false
	}
	return state, id, s.admits(id, key, now)
}

// forget lets a seal be opened anew: the call that it was opened for did not run.
func (s *sealer) forget(id seal.Nonce) { s.opened.remove(id) }

// admits reports whether a seal is opened for the first time, or for the same key again. It
// remembers each as long as it is valid; only if very many are opened, the oldest are forgotten
// sooner.
func (s *sealer) admits(id seal.Nonce, key string, now time.Time) bool {
	var of digest
	if key != "" {
		of = sha256.Sum256([]byte(key))
	}
	before, again := s.opened.add(id, of, now)
	return !again || before == of && key != ""
}

// consume marks the state that came back as used in the whole fleet, after this server found
// it unused. It is bound to the idempotency key, or else to this server: if an earlier attempt
// of this server was lost or could not be released, the state can be used here again.
func (j *job) consume(ctx context.Context, key string) (ok bool, err error) {
	s := j.gate.server
	if s.opts.Tokens == nil {
		return true, nil
	}
	if !j.Caller.Authenticated() && !s.strangers.allow(unknownOrigin, s.opts.Now()) { // each leaves a row
		s.sealer().forget(j.opened)
		return false, &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many answers of unauthenticated callers. Send the answers again.", RetryAfter: time.Second}
	}
	owner := s.opts.Yard
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		owner = "key " + hex.EncodeToString(sum[:])
	}
	user, first, err := s.opts.Tokens.Consume(ctx, hex.EncodeToString(j.opened[:]), owner, s.opts.Now().Add(sealTime+time.Second))
	if err != nil {
		s.sealer().forget(j.opened)
		return false, &toolyard.Error{
			Code: toolyard.Unavailable, Message: "The store cannot be reached, so the call did not go on. Send the answers again.", RetryAfter: time.Second, Err: err,
		}
	}
	if user == owner && !first && key != "" {
		j.opened = seal.Nonce{} // whoever came first with this key releases it
	}
	return user == owner, nil
}

// release lets the state be used again: the call that it was opened for did not run.
func (j *job) release(ctx context.Context) {
	if j.opened == (seal.Nonce{}) {
		return
	}
	s := j.gate.server
	s.sealer().forget(j.opened)
	if s.opts.Tokens == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if err := s.opts.Tokens.Release(ctx, hex.EncodeToString(j.opened[:])); err != nil {
		s.opts.Log.Warn("the state of a call that did not run could not be released; only this replica accepts it again", "error", err)
	}
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
