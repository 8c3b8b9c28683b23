package mcpserver

import (
	"sync"
	"time"
)

// recent is a map that drops old entries. Entries live for between one and two times keep, but may
// be dropped earlier if more than max newer entries are added.
type recent[K comparable, V any] struct {
	max  int
	keep time.Duration

	mu         sync.Mutex
	since      time.Time // start of young
	young, old map[K]V
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(key)
}

func (r *recent[K, V]) find(key K) (value V, ok bool) {
	if value, ok = r.young[key]; !ok {
		value, ok = r.old[key]
	}
	return value, ok
}

func (r *recent[K, V]) set(key K, value V, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.store(key, value, now)
}

func (r *recent[K, V]) store(key K, value V, now time.Time) {
	if r.young == nil || now.Sub(r.since) > r.keep || len(r.young) >= r.max {
		r.young, r.old, r.since = make(map[K]V), r.young, now
	}
	r.young[key] = value
}

// add sets the value of a new key, or returns the value of an existing key.
func (r *recent[K, V]) add(key K, value V, now time.Time) (before V, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, again = r.find(key); !again {
		r.store(key, value, now)
	}
	return before, again
}

func (r *recent[K, V]) remove(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.young, key)
	delete(r.old, key)
}
