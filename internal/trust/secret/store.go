package secret

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"sync"
	"time"
)

// Store configures a secret store: a program that prints secrets, or a Vault or OpenBao server.
// Exactly one of Command and URL is set.
type Store struct {
	Command []string          // program and arguments; see [commandDriver]
	Env     map[string]string // environment of the program; values may contain ${secret:…}
	JSON    bool              // the program prints a JSON object, and references end with #FIELD

	URL       string // URL of the server
	Namespace string
	Mount     string // mount path of the key/value engine
	Version   int    // version of the key/value engine: 1 or 2
	Login     Login
	Private   []netip.Prefix // non-public networks that the server's name may resolve to

	TTL   time.Duration // how long a value is used before it is read again
	Stale time.Duration // how much longer a value is used if the store fails
}

// Login describes how to authenticate to a server.
type Login struct {
	Method string // token, approle or kubernetes
	Mount  string // mount path of the method
	Role   string // the role ID for approle
	Secret string // reference to the token, the secret ID or the service account's token
}

// Limits on secret stores.
const (
	fetchTimeout = 10 * time.Second
	failureTTL   = 5 * time.Second // delay before a failed read is retried
	maxCached    = 1_000           // values per store; beyond that, all are read again
	reportTime   = time.Minute     // time after which a failure is no longer reported unless it recurs
)

// driver reads secrets from a store. Its errors do not contain output from the store, because that
// may contain a secret.
type driver interface {
	fetch(ctx context.Context, ref string) (string, error)
}

// CheckReference returns an error if a store cannot read a reference. It does not read anything.
// The reference is the part after the store's name.
func CheckReference(s Store, ref string) error {
	if s.URL != "" {
		return checkKVReference(ref)
	}
	return checkCommandReference(s, ref)
}

// goneError means that the store responded and the secret does not exist. The last value is no
// longer used.
type goneError string

func (e goneError) Error() string { return string(e) }

// store caches a driver's secrets.
type store struct {
	config Store
	driver driver

	mu      sync.Mutex
	entries map[string]*entry // by reference
}

// entry is a cached secret.
type entry struct {
	text    string // last value; may be empty
	read    time.Time
	err     error         // error of the last attempt; nil if it succeeded
	retryAt time.Time     // time of the next attempt after a failure
	pending chan struct{} // closed when the running attempt ends; may be nil
}

func newStore(c Store, d driver) *store {
	return &store{config: c, driver: d, entries: make(map[string]*entry)}
}

// get returns a secret. Concurrent callers share one read. If the read fails, the last value is
// used for a limited time.
func (s *store) get(ref string) (string, error) {
	if err := CheckReference(s.config, ref); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[ref]
	if e == nil {
		if len(s.entries) >= maxCached {
			clear(s.entries)
		}
		e = &entry{}
		s.entries[ref] = e
	}
	now := time.Now()
	if e.text != "" && now.Before(e.read.Add(s.config.TTL)) {
		return e.text, nil
	}
	if e.err == nil || !now.Before(e.retryAt) {
		s.await(ref, e)
	}
	return s.value(e, time.Now())
}

// await waits for the running attempt, or starts one. The caller holds the lock, which is released
// during the wait.
func (s *store) await(ref string, e *entry) {
	if e.pending == nil {
		e.pending = make(chan struct{})
		go s.read(ref, e, e.pending)
	}
	pending := e.pending
	s.mu.Unlock()
	<-pending
	s.mu.Lock()
}

// read reads a secret. It does not use a caller's context, because others may be waiting for the
// result.
func (s *store) read(ref string, e *entry, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	text, err := s.driver.fetch(ctx, ref)
	if err == nil && text == "" {
		err = goneError("the secret is empty")
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("the store did not respond within %s", fetchTimeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch _, gone := errors.AsType[goneError](err); {
	case err == nil:
		e.text, e.read = text, now
	case gone:
		e.text = ""
	}
	e.err, e.retryAt, e.pending = err, now.Add(failureTTL), nil
	close(done)
}

// value returns an entry's value after an attempt.
func (s *store) value(e *entry, now time.Time) (string, error) {
	if e.text != "" && (e.err == nil || now.Before(s.usableUntil(e))) {
		return e.text, nil
	}
	return "", e.err
}

// usableUntil returns how long a value is used while its store is failing.
func (s *store) usableUntil(e *entry) time.Time { return e.read.Add(s.config.TTL + s.config.Stale) }

// Failure reports that a secret could not be read from its store.
type Failure struct {
	Store     string
	Reference string // excluding the store's name
	Err       error
	Until     time.Time // when its last value stops being used; zero if there is none
}

// failures returns the secrets whose last attempt failed recently.
func (s *store) failures(name string, now time.Time) (list []Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ref, e := range s.entries {
		if e.err == nil || now.Sub(e.retryAt) > reportTime {
			continue
		}
		f := Failure{Store: name, Reference: ref, Err: e.err}
		if until := s.usableUntil(e); e.text != "" && now.Before(until) {
			f.Until = until
		}
		list = append(list, f)
	}
	return list
}

// same reports whether the store has the given configuration.
func (s *store) same(c Store) bool { return reflect.DeepEqual(s.config, c) }
