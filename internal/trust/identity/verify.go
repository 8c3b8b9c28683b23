package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

const (
	knownTime   = 30 * time.Second // how long a key is believed to be as it was read
	unknownTime = 5 * time.Second  // how long a prefix that was unknown stays so
	awayTime    = 5 * time.Minute  // how long a key is believed while the store is away
	listTime    = 10 * time.Second // how long a list of keys is good, and may take
	retryTime   = 2 * time.Second  // how long a store that failed is left alone
	lookupTime  = 2 * time.Second  // how long the store may take
	maxKnown    = 10_000           // keys that are remembered
	maxUnknown  = 10_000           // unknown prefixes that are remembered or asked for
	maxTurns    = 16               // of them, that are asked for at once; of listed ones too
)

// Verifier verifies tokens. It remembers what the store said, keys and unknown prefixes
// alike, and asks for each prefix once at a time. Strangers can make up prefixes faster than
// any store answers: no more of them are asked for in unknownTime than it remembers, and
// further ones are put off without asking. Keys that it remembers are not held up by that, and
// neither are others that exist: when many strange prefixes come, it reads which keys there
// are. Addresses would not tell them apart, since behind a proxy all have the same.
type Verifier struct {
	keys      Keys
	now       func() time.Time
	strangers chan struct{} // turns of those who ask for prefixes that may not exist
	expected  chan struct{} // turns of those who ask for listed ones

	mu      sync.Mutex
	known   map[string]answer    // at most maxKnown
	unknown map[string]time.Time // when the store said so
	order   []string             // the unknown ones, the oldest first
	flights map[string]*flight   // questions that the store has not answered
	strange int                  // of those, how many may be about no key
	listed  map[string]bool      // the prefixes that exist, when they were listed
	list    time.Time            // when that was begun last; zero for never
	rest    time.Time            // when the store failed; zero if it answered since
}

// answer is a key and when the store had it so.
type answer struct {
	key Key
	at  time.Time
}

// finding is what can be said of a prefix.
type finding struct {
	key Key
	err error
}

// flight is a question to the store. The finding is there when done is closed.
type flight struct {
	finding
	done chan struct{}
}

// NewVerifier makes a verifier of keys.
func NewVerifier(keys Keys, now func() time.Time) *Verifier {
	return &Verifier{
		keys: keys, now: now, strangers: make(chan struct{}, maxTurns), expected: make(chan struct{}, maxTurns),
		known: make(map[string]answer), unknown: make(map[string]time.Time), flights: make(map[string]*flight),
	}
}

// Verify finds who calls with a token. Its error is Unauthenticated, or Unavailable when
// nobody can say. That a key is revoked or has expired is told to its holder only.
func (v *Verifier) Verify(ctx context.Context, token string) (toolyard.Caller, error) {
	prefix, hash, err := parse(token)
	if err != nil {
		return toolyard.Caller{}, err
	}
	f := v.find(ctx, prefix)
	if f.err != nil && !isNotFound(f.err) {
		return toolyard.Caller{}, f.err
	}
	// An unknown key is compared too, with a hash that no secret has, so that both take the
	// same time.
	same := subtle.ConstantTimeCompare(f.key.Hash[:], hash[:]) == 1
	if f.err != nil || !same {
		return toolyard.Caller{}, refusal("Unknown API key.")
	}
	if state := f.key.State(v.now()); state != Active {
		return toolyard.Caller{}, refusal("The API key is %s. Request a new one.", state)
	}
	return f.key.caller(), nil
}

func isNotFound(err error) bool { return toolyard.AsError(err).Code == toolyard.NotFound }

var (
	errNotFound = toolyard.Errorf(toolyard.NotFound, "There is no such key.")
	errAway     = &toolyard.Error{Code: toolyard.Unavailable, Message: "API keys cannot be verified right now. Try again later.", RetryAfter: retryTime}
	errBusy     = &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many unknown API keys are being sent. Try again later.", RetryAfter: unknownTime}
)

// find is the key with a prefix, from memory or from the store.
func (v *Verifier) find(ctx context.Context, prefix string) finding {
	v.mu.Lock()
	f, enough := v.recall(prefix)
	if enough {
		v.mu.Unlock()
		return f
	}
	asked := v.ask(ctx, prefix)
	v.mu.Unlock()
	select {
	case <-asked.done:
		return asked.finding
	case <-ctx.Done():
		return finding{err: errAway}
	}
}

// recall answers without the store, if that is enough or all that can be had.
func (v *Verifier) recall(prefix string) (f finding, enough bool) {
	now := v.now()
	v.forget(now)
	a, known := v.known[prefix]
	_, unknown := v.unknown[prefix]
	if !known {
		v.relist(now)
	}
	switch {
	case known && fresh(a.at, now, knownTime):
		return finding{key: a.key}, true
	case unknown:
		return finding{err: errNotFound}, true
	case v.flights[prefix] != nil:
		return finding{}, false
	case fresh(v.rest, now, retryTime):
		return v.stale(prefix, now), true
	case !known && !v.listed[prefix] && len(v.unknown)+v.strange >= maxUnknown:
		return finding{err: errBusy}, true
	}
	return finding{}, false
}

// stale is what can be said while the store is away.
func (v *Verifier) stale(prefix string, now time.Time) finding {
	if a, ok := v.known[prefix]; ok && fresh(a.at, now, awayTime) {
		return finding{key: a.key}
	}
	return finding{err: errAway}
}

// fresh reports whether what was at a time is younger than a limit. A time in the future is
// one of a clock that was set back, and tells nothing.
func fresh(at, now time.Time, limit time.Duration) bool {
	age := now.Sub(at)
	return !at.IsZero() && 0 <= age && age < limit
}

// forget drops the unknown prefixes that are old.
func (v *Verifier) forget(now time.Time) {
	for len(v.order) > 0 && !fresh(v.unknown[v.order[0]], now, unknownTime) {
		delete(v.unknown, v.order[0])
		v.order = v.order[1:]
	}
}

// ask joins the question for a prefix, or begins it. The question outlives whoever asked
// first: others may wait for the answer.
func (v *Verifier) ask(ctx context.Context, prefix string) *flight {
	if f := v.flights[prefix]; f != nil {
		return f
	}
	f := &flight{done: make(chan struct{})}
	v.flights[prefix] = f
	turns := v.turns(prefix)
	if turns == v.strangers {
		v.strange++
	}
	go func() {
		asked := v.now()
		key, err := v.lookup(context.WithoutCancel(ctx), prefix, turns)
		v.mu.Lock()
		defer v.mu.Unlock()
		defer close(f.done)
		delete(v.flights, prefix)
		if turns == v.strangers {
			v.strange--
		}
		f.finding = v.learn(prefix, key, err, asked)
	}()
	return f
}

// turns are those that a question for a prefix needs one of, nil for none.
func (v *Verifier) turns(prefix string) chan struct{} {
	if _, known := v.known[prefix]; known {
		return nil
	}
	if v.listed[prefix] {
		return v.expected
	}
	return v.strangers
}

// lookup asks the store. Those who ask for what is not known take turns, so that they do
// not take the connections of the store away from others.
func (v *Verifier) lookup(ctx context.Context, prefix string, turns chan struct{}) (Key, error) {
	if turns != nil {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-time.After(lookupTime):
			return Key{}, errBusy
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	return v.keys.Key(ctx, prefix)
}

// learn remembers what the store said when it was asked at a time.
func (v *Verifier) learn(prefix string, key Key, err error, asked time.Time) finding {
	if errors.Is(err, errBusy) { // which says nothing about the store
		return finding{err: errBusy}
	}
	if err != nil && !isNotFound(err) {
		v.rest = v.now()
		return v.stale(prefix, v.rest)
	}
	v.rest = time.Time{}
	if err != nil {
		delete(v.known, prefix)
		v.unknown[prefix] = v.now()
		v.order = append(v.order, prefix)
		return finding{err: errNotFound}
	}
	if _, ok := v.known[prefix]; !ok {
		v.makeRoom()
	}
	v.known[prefix] = answer{key, asked}
	return finding{key: key}
}

// relist reads which keys there are when so many are asked for that may not exist that others
// would have to wait, or soon be put off. A list that fails leaves the one before it.
func (v *Verifier) relist(now time.Time) {
	lister, can := v.keys.(Lister)
	flooded := v.strange >= maxTurns || len(v.unknown)+v.strange >= maxUnknown/2
	if !can || !flooded || fresh(v.list, now, listTime) {
		return
	}
	v.list = now
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), listTime)
		defer cancel()
		prefixes, err := lister.Prefixes(ctx)
		if err != nil {
			return // each question will say so
		}
		listed := make(map[string]bool, len(prefixes))
		for _, prefix := range prefixes {
			listed[prefix] = true
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.listed = listed
	}()
}

// makeRoom forgets any key when there are too many: only keys that exist are here, and one
// that is forgotten is asked for again.
func (v *Verifier) makeRoom() {
	for prefix := range v.known {
		if len(v.known) < maxKnown {
			return
		}
		delete(v.known, prefix)
	}
}
