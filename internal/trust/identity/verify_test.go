package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// shelf is a key store that can be unavailable.
type shelf struct {
	mu    sync.Mutex
	keys  map[string]Key
	away  bool
	slow  time.Duration
	asked atomic.Int64
	lists atomic.Int64
	most  int // maximum number of concurrent queries
	now   int
}

// Key implements Keys.
func (s *shelf) Key(ctx context.Context, prefix string) (Key, error) {
	s.asked.Add(1)
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	key, ok := s.keys[prefix]
	away, slow := s.away, s.slow
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return Key{}, ctx.Err()
		}
	}
	switch {
	case away:
		return Key{}, errors.New("connection refused")
	case !ok:
		return Key{}, toolyard.Errorf(toolyard.NotFound, "Key %s not found.", prefix)
	}
	return key, nil
}

// Prefixes implements Lister.
func (s *shelf) Prefixes(context.Context) ([]string, error) {
	s.lists.Add(1)
	s.mu.Lock()
	away, slow, prefixes := s.away, s.slow, slices.Collect(maps.Keys(s.keys))
	s.mu.Unlock()
	time.Sleep(slow)
	if away {
		return nil, errors.New("connection refused")
	}
	return prefixes, nil
}

// add creates a key in the store.
func (s *shelf) add(t *testing.T) (token string) {
	t.Helper()
	key, token := mint(t)
	s.change(func() { s.keys[key.Prefix] = key })
	return token
}

func (s *shelf) change(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// open returns a verifier and one key.
func open(t *testing.T) (v *Verifier, s *shelf, key Key, token string) {
	t.Helper()
	key, token, err := New("test", "alice", "acme", []string{"gate:chat"}, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s = &shelf{keys: map[string]Key{key.Prefix: key}}
	return NewVerifier(s, time.Now), s, key, token
}

// codeOf returns the error code for a token, or "" if it identifies a caller.
func codeOf(v *Verifier, token string) toolyard.Code {
	_, err := v.Verify(context.Background(), token)
	if err == nil {
		return ""
	}
	return toolyard.AsError(err).Code
}

func expect(t *testing.T, v *Verifier, token string, want toolyard.Code) {
	t.Helper()
	if got := codeOf(v, token); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVerify(t *testing.T) {
	_, s, key, token := open(t)
	now := time.Now()
	v := NewVerifier(s, func() time.Time { return now }) // nothing in the cache expires
	caller, err := v.Verify(t.Context(), token)
	want := toolyard.Caller{ID: "alice", Account: "acme", Roles: []string{"gate:chat"}}
	if diff := cmp.Diff(want, caller); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	caller.Roles[0] = "admin" // belongs to the caller
	if again, _ := v.Verify(t.Context(), token); again.Roles[0] != "gate:chat" {
		t.Error("one caller changed another")
	}
	wrong := mark + key.Prefix + "_" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	expect(t, v, wrong+checksum(wrong), toolyard.Unauthenticated)
	_, stranger := mint(t)
	expect(t, v, stranger, toolyard.Unauthenticated)
	_, wrongErr := v.Verify(t.Context(), wrong+checksum(wrong))
	_, strangeErr := v.Verify(t.Context(), stranger)
	if wrongErr.Error() != strangeErr.Error() {
		t.Errorf("a wrong secret is distinguishable from an unknown key: %v, %v", wrongErr, strangeErr)
	}
	asked := s.asked.Load()
	expect(t, v, stranger[:len(stranger)-1]+"?", toolyard.Unauthenticated)
	if s.asked.Load() != asked || asked != 2 {
		t.Errorf("the store was queried %d times", s.asked.Load())
	}
}

func TestKeysExpireOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, token, err := New("test", "alice", "", nil, 20*time.Second, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		v := NewVerifier(&shelf{keys: map[string]Key{key.Prefix: key}}, time.Now)
		expect(t, v, token, "")
		time.Sleep(20*time.Second - 1)
		expect(t, v, token, "")
		time.Sleep(time.Nanosecond) // the key is cached for longer than it is valid
		expect(t, v, token, toolyard.Unauthenticated)
	})
}

func TestRevocationIsSeenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, key, token := open(t)
		expect(t, v, token, "")
		key.Revoked = time.Now()
		s.change(func() { s.keys[key.Prefix] = key })
		time.Sleep(knownTTL - 1)
		expect(t, v, token, "")
		time.Sleep(time.Nanosecond)
		expect(t, v, token, toolyard.Unauthenticated)
		s.change(func() { delete(s.keys, key.Prefix) })
		time.Sleep(knownTTL)
		expect(t, v, token, toolyard.Unauthenticated)
	})
}

func TestANewKeyIsSeenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, key, token := open(t)
		s.change(func() { clear(s.keys) })
		expect(t, v, token, toolyard.Unauthenticated)
		s.change(func() { s.keys[key.Prefix] = key })
		time.Sleep(unknownTTL - 1)
		expect(t, v, token, toolyard.Unauthenticated)
		time.Sleep(time.Nanosecond)
		expect(t, v, token, "")
	})
}

// While the store is down, verified keys stay valid for five minutes, other keys are refused
// temporarily, and the store is not queried.
func TestTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, token := open(t)
		expect(t, v, token, "")
		s.change(func() { s.away = true })
		_, stranger := mint(t)
		start := s.asked.Load()
		for range 29 {
			time.Sleep(10 * time.Second)
			for range 100 {
				expect(t, v, token, "")
				expect(t, v, stranger, toolyard.Unavailable)
			}
		}
		if asked := s.asked.Load() - start; asked > 2*29 {
			t.Errorf("queried %d times in 29 rounds", asked)
		}
		time.Sleep(10 * time.Second)
		expect(t, v, token, toolyard.Unavailable)
		s.change(func() { s.away = false })
		time.Sleep(retryPause)
		expect(t, v, token, "")
		expect(t, v, stranger, toolyard.Unauthenticated)
	})
}

// A hanging store does not delay callers beyond the time limit.
func TestTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, token := open(t)
		expect(t, v, token, "")
		s.change(func() { s.slow = time.Hour })
		time.Sleep(knownTTL)
		start := time.Now()
		expect(t, v, token, "")
		_, stranger := mint(t)
		expect(t, v, stranger, toolyard.Unavailable)
		if took := time.Since(start); took > lookupTimeout {
			t.Errorf("took %v", took)
		}
		time.Sleep(retryPause)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := v.Verify(ctx, stranger); toolyard.AsError(err).Code != toolyard.Unavailable {
			t.Error(err)
		}
		time.Sleep(lookupTimeout) // lets the query end on its own
	})
}

// Concurrent verifications of one key share one query, which continues if the first caller
// disconnects.
func TestOneQuestionForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, token := open(t)
		s.change(func() { s.slow = time.Second })
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = v.Verify(ctx, token) }()
		synctest.Wait()
		var good atomic.Int64
		for range 1000 {
			go func() {
				if codeOf(v, token) == "" {
					good.Add(1)
				}
			}()
		}
		synctest.Wait()
		cancel()
		time.Sleep(2 * time.Second)
		if good.Load() != 1000 || s.asked.Load() != 1 {
			t.Errorf("%d of 1000 were accepted, the store was queried %d times", good.Load(), s.asked.Load())
		}
	})
}

// strangers creates tokens with unknown prefixes as fast as an attacker could.
func strangers(n int) []string {
	tokens := make([]string, n)
	for i := range tokens {
		digits := []byte("aaaaaaaaaa")
		for at, rest := 0, i; rest > 0; at, rest = at+1, rest/26 {
			digits[at] = byte('a' + rest%26)
		}
		token := fmt.Sprintf("ty_%s_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", digits)
		tokens[i] = token + checksum(token)
	}
	return tokens
}

// With a hundred thousand invented keys, queries and memory are limited, and known keys stay valid.
func TestFloodOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, token := open(t)
		expect(t, v, token, "")
		tokens := strangers(100_000)
		refused := make(map[toolyard.Code]int)
		for i, stranger := range tokens {
			refused[codeOf(v, stranger)]++
			if i%1000 == 0 {
				expect(t, v, token, "")
			}
		}
		if asked := s.asked.Load(); asked != 1+maxUnknown {
			t.Errorf("asked %d times", asked)
		}
		if refused[toolyard.Unauthenticated] != maxUnknown || refused[toolyard.Unavailable] != len(tokens)-maxUnknown {
			t.Error(refused)
		}
		time.Sleep(knownTTL) // the known key is still refreshed
		for _, stranger := range tokens {
			_ = codeOf(v, stranger)
		}
		expect(t, v, token, "")
		if len(v.unknown) > maxUnknown || len(v.order) > maxUnknown || len(v.known) != 1 || len(v.lookups) != 0 || v.unknownInFlight != 0 {
			t.Errorf("%d unknown, %d in order, %d known, %d queried", len(v.unknown), len(v.order), len(v.known), len(v.lookups))
		}
		time.Sleep(unknownTTL)
		_ = codeOf(v, tokens[0])
		if len(v.unknown) != 1 {
			t.Errorf("%d old ones are remembered", len(v.unknown))
		}
	})
}

// The same test with concurrent requests and a slow store.
func TestFloodAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, _ := open(t)
		s.change(func() { s.slow = time.Second })
		var wg sync.WaitGroup
		for _, stranger := range strangers(2 * maxUnknown) {
			wg.Go(func() { _ = codeOf(v, stranger) })
		}
		synctest.Wait()
		v.mu.Lock()
		if len(v.lookups) != maxUnknown {
			t.Errorf("%d questions are open", len(v.lookups))
		}
		v.mu.Unlock()
		wg.Wait()
		if asked := s.asked.Load(); asked > 10*maxLookups || s.most != maxLookups {
			t.Errorf("asked %d times, %d concurrent calls", asked, s.most)
		}
	})
}

// A flood of invented keys does not lock out existing keys, whether or not they were seen before.
// To achieve that, the store occasionally lists its keys.
func TestAFloodDoesNotLockOutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, token := open(t)
		tokens := strangers(maxUnknown + 100)
		flood := func() {
			for _, stranger := range tokens {
				_ = codeOf(v, stranger)
			}
			synctest.Wait()
			expect(t, v, tokens[len(tokens)-1], toolyard.Unavailable)
		}
		start := time.Now()
		flood()
		expect(t, v, token, "")
		young := s.add(t)
		expect(t, v, young, toolyard.Unavailable) // not in the list yet
		for time.Since(start) <= listTTL {
			time.Sleep(unknownTTL / 4)
			flood()
		}
		expect(t, v, young, "")
		if s.lists.Load() != 2 || s.asked.Load() > 2+maxUnknown*int64(1+time.Since(start)/unknownTTL) {
			t.Errorf("%d lists and %d questions in %v", s.lists.Load(), s.asked.Load(), time.Since(start))
		}
	})
}

// The same test with concurrent requests and a slow store: invented keys that wait do not delay
// others.
func TestAConcurrentFloodDoesNotLockOutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s, _, token := open(t)
		s.change(func() { s.slow = time.Second })
		var wg sync.WaitGroup
		for _, stranger := range strangers(maxUnknown) {
			wg.Go(func() { _ = codeOf(v, stranger) })
		}
		time.Sleep(time.Second + 1) // the list has been read
		start := time.Now()
		expect(t, v, token, "")
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		wg.Wait()
	})
}

// A few unknown keys do not cause a listing of all keys.
func TestFewUnknownKeysListNothing(t *testing.T) {
	v, s, _, _ := open(t)
	for _, stranger := range strangers(1000) {
		expect(t, v, stranger, toolyard.Unauthenticated)
	}
	if s.lists.Load() != 0 {
		t.Error("the store listed its keys")
	}
}

func TestKnownKeysAreBounded(t *testing.T) {
	s := &shelf{keys: make(map[string]Key)}
	v := NewVerifier(s, func() time.Time { return noon })
	for range maxKnown + 100 {
		key, token := mint(t)
		s.keys[key.Prefix] = key
		expect(t, v, token, "")
	}
	if len(v.known) != maxKnown {
		t.Errorf("%d keys are remembered", len(v.known))
	}
}

// Setting the clock back does not extend the validity of anything.
func TestTheClockIsSetBack(t *testing.T) {
	now := noon
	key, token := mint(t)
	s := &shelf{keys: map[string]Key{key.Prefix: key}}
	v := NewVerifier(s, func() time.Time { return now })
	expect(t, v, token, "")
	key.Revoked = noon
	s.keys[key.Prefix] = key
	now = noon.Add(-time.Hour)
	expect(t, v, token, toolyard.Unauthenticated)
}
