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
	Env     map[string]string // of the program; values may contain ${secret:…}
	JSON    bool              // the program prints a JSON object, and references end with #FIELD

	URL       string // of the server
	Namespace string
	Mount     string // of the key/value engine
	Version   int    // of the key/value engine: 1 or 2
	Login     Login
	Private   []netip.Prefix // non-public networks that the name of the server may resolve to

	TTL   time.Duration // how long a value is used before it is read again
	Stale time.Duration // how much longer it is used if the store fails
}

// Login describes how to authenticate to a server.
type Login struct {
	Method string // token, approle or kubernetes
	Mount  string // of the method
	Role   string // of approle: the role ID
	Secret string // reference to the token, the secret ID or the service account's token
}

// Limits on secret stores.
const (
	fetchTimeout = 10 * time.Second
	failureTTL   = 5 * time.Second // before a failed read is retried
	maxCached    = 1_000           // values per store; beyond that, all are read again
	reportTime   = time.Minute     // after which a failure that does not repeat is not reported
)

// driver reads secrets from a store. The errors of a driver contain no output of the store, which
// may hold a secret.
type driver interface {
	fetch(ctx context.Context, ref string) (string, error)
}

// CheckReference reports whether a store can read a reference, without reading anything. The
// reference is the part after the name of the store.
func CheckReference(s Store, ref string) error {
	if s.URL != "" {
		return checkKVReference(ref)
	}
	return checkCommandReference(s, ref)
}

// goneError means that the store responded and the secret does not exist. Its last value is no
// longer used.
type goneError string

func (e goneError) Error() string { return string(e) }

// store caches the secrets of a driver.
type store struct {
	config Store
	driver driver

	mu      sync.Mutex
	entries map[string]*entry // by reference
}

// entry is a cached secret.
type entry struct {
	text    string // the last value; empty for none
	read    time.Time
	err     error         // of the last attempt; nil if it succeeded
	retryAt time.Time     // after a failed attempt
	pending chan struct{} // closed when the attempt in progress ends; nil if there is none
}

func newStore(c Store, d driver) *store {
	return &store{config: c, driver: d, entries: make(map[string]*entry)}
}

// get returns a secret. Concurrent readers share one read. If it fails, the last value is used for
// a limited time.
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

// await waits for the attempt in progress, starting one if there is none. The caller holds the
// lock, which is released while waiting.
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

// read reads a secret. It does not end with a caller's context, because others may be waiting for it.
func (s *store) read(ref string, e *entry, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	text, err := s.driver.fetch(ctx, ref)
	if err == nil && text == "" {
		err = goneError("it is empty")
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

// value returns the value of an entry after an attempt.
func (s *store) value(e *entry, now time.Time) (string, error) {
	if e.text != "" && (e.err == nil || now.Before(s.usableUntil(e))) {
		return e.text, nil
	}
	return "", e.err
}

// usableUntil returns until when a value is used while its store fails.
func (s *store) usableUntil(e *entry) time.Time { return e.read.Add(s.config.TTL + s.config.Stale) }

// Failure is a secret that could not be read from its store.
type Failure struct {
	Store     string
	Reference string // without the name of the store
	Err       error
	Until     time.Time // until when its last value is used; zero if there is none
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

// same reports whether a store has this configuration.
func (s *store) same(c Store) bool { return reflect.DeepEqual(s.config, c) }
