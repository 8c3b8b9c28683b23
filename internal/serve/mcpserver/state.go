package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

const (
	stateTime = 10 * time.Minute // lifetime of a state
	maxOpened = 100_000          // minimum number of states to remember
)

// stateSealer seals the state of unfinished results, which clients store and send back. Clients
// can't read or change it, or use it for another call. A state can be opened only once, unless the
// same idempotency key ensures that the call runs only once.
type stateSealer struct {
	sealer seal.Sealer
	opened recent[seal.Nonce, digest] // opened states and their idempotency keys
}

// Tokens records used tokens for all replicas.
type Tokens interface {
	// Consume marks a token as used by owner, and returns its current owner.
	Consume(ctx context.Context, id, owner string, until time.Time) (user string, first bool, err error)
	// Release makes a token usable again.
	Release(ctx context.Context, id string) error
}

// releaseTime limits the time for releasing a state.
const releaseTime = 2 * time.Second

// digest is the hash of an idempotency key. The zero value means no key.
type digest [sha256.Size]byte

// newStateSealer creates a sealer. Servers with the same keys open each other's states.
func newStateSealer(keys *seal.Keyring) *stateSealer {
	return &stateSealer{sealer: keys.Sealer("toolyard request state"), opened: recent[seal.Nonce, digest]{max: maxOpened, keep: stateTime}}
}

// seal seals a state for the call identified by binding.
func (s *stateSealer) seal(state string, binding []byte, now time.Time) string {
	return s.sealer.Seal(state, binding, now.Add(stateTime+time.Second)) // the expiry is rounded down
}

// open opens a state for the call identified by binding and its idempotency key.
func (s *stateSealer) open(sealed string, binding []byte, key string, now time.Time) (state string, id seal.Nonce, ok bool) {
	if state, id, ok = s.sealer.Open(sealed, binding, now); !ok {
		return "", id, false
	}
	return state, id, s.use(id, key, now)
}

// forget makes a state usable again.
func (s *stateSealer) forget(id seal.Nonce) { s.opened.remove(id) }

// use reports whether a state is used for the first time, or again with the same key. States are
// remembered as long as they are valid, unless there are more than maxOpened.
func (s *stateSealer) use(id seal.Nonce, key string, now time.Time) bool {
	var of digest
	if key != "" {
		of = sha256.Sum256([]byte(key))
	}
	before, again := s.opened.add(id, of, now)
	return !again || before == of && key != ""
}

// consumeState marks the state as used on all replicas, after this replica found it unused. The
// owner is the idempotency key if there is one, and otherwise the yard, so that the yard can use
// the state again if an earlier attempt was lost or could not be released.
func (r *request) consumeState(ctx context.Context, key string) (ok bool, err error) {
	s := r.gate.server
	if s.opts.Replicas.Tokens == nil {
		return true, nil
	}
	if !r.Caller.Authenticated() && !s.anonymousAnswers.allow(anonymousOrigin, s.opts.Now()) { // each answer adds a row
		s.states.forget(r.nonce)
		return false, &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many answers from unauthenticated callers are being processed. Send the answers again later.", RetryAfter: time.Second}
	}
	owner := s.opts.Yard
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		owner = "key " + hex.EncodeToString(sum[:])
	}
	user, first, err := s.opts.Replicas.Tokens.Consume(ctx, hex.EncodeToString(r.nonce[:]), owner, s.opts.Now().Add(stateTime+time.Second))
	if err != nil {
		s.states.forget(r.nonce)
		return false, &toolyard.Error{
			Code: toolyard.Unavailable, Message: "The store is unavailable, so the call did not continue. Send the answers again.", RetryAfter: time.Second, Err: err,
		}
	}
	if user == owner && !first && key != "" {
		r.nonce = seal.Nonce{} // the first request with this key releases it
	}
	return user == owner, nil
}

// releaseState makes the state usable again after a call that did not run.
func (r *request) releaseState(ctx context.Context) {
	if r.nonce == (seal.Nonce{}) {
		return
	}
	s := r.gate.server
	s.states.forget(r.nonce)
	if s.opts.Replicas.Tokens == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if err := s.opts.Replicas.Tokens.Release(ctx, hex.EncodeToString(r.nonce[:])); err != nil {
		s.opts.Log.Warn("could not release the state of a call that did not run; only this replica will accept it again", "error", err)
	}
}

// binding identifies a call by caller, gate, tool and arguments. The formatting and order of the
// arguments do not matter.
func binding(r *request) []byte {
	var args any
	d := json.NewDecoder(bytes.NewReader(r.Args))
	d.UseNumber()
	if d.Decode(&args) != nil || args == nil {
		args = struct{}{}
	}
	canonical, _ := json.Marshal(args) // decoded from JSON
	sum := sha256.Sum256(canonical)
	parts := []string{r.view.Gate.Name, r.Caller.Account, r.Caller.ID, r.method, r.tool.Server, r.tool.Name, hex.EncodeToString(sum[:])}
	if asOf, _, _ := takeString(metaAsOf, r.AsOf, r.Meta); asOf != "" { // errors are reported by call
		parts = append(parts, asOf)
	}
	raw, _ := json.Marshal(parts) // cannot fail
	return raw
}
