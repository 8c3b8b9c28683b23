package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/guard"
)

// Entry is what is known about one server.
type Entry struct {
	Protocol string                     // the version that it spoke last
	Tools    map[string]json.RawMessage // definitions by name, in their own order; nil if none were ever approved

	encoded []byte // as it stands in the file
}

// clone is a deep copy of an entry, also of one that is not there.
func (e *Entry) clone() *Entry {
	c := &Entry{}
	if e == nil {
		return c
	}
	if c.Protocol = e.Protocol; e.Tools != nil {
		c.Tools = make(map[string]json.RawMessage, len(e.Tools))
	}
	for name, definition := range e.Tools {
		c.Tools[name] = bytes.Clone(definition)
	}
	return c
}

// equal reports whether two entries, each of which may be missing, say the same.
func (e *Entry) equal(other *Entry) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Protocol == other.Protocol && (e.Tools == nil) == (other.Tools == nil) && maps.EqualFunc(e.Tools, other.Tools, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// Book is the file. Several goroutines and several processes may use one file at once.
type Book struct {
	path string // "" for none

	writing  sync.Mutex // held by whoever changes the file
	unlocked time.Time  // when the last change of it ended

	mu      sync.RWMutex
	saved   map[string]*Entry // what the file held when it was read; entries are never changed
	unsaved map[string]*Entry // what could not be written, which goes first; nil if removed
	seen    reading
	changes int // how often the file held something else
	told    int // the changes when Reload last answered
}

// reading says which file was read.
type reading struct {
	info os.FileInfo // nil if there was none
	sum  [32]byte
	at   time.Time
}

// conflict begins a part of a file that two people have changed.
const conflict = "<<<<<<< "

// coarse is more than the unit of time of any file system. Of two changes within it the second may
// leave no trace in the time of a file.
const coarse = 2 * time.Second

// same reports whether info is surely that of the file that was read, unchanged.
func (r reading) same(info os.FileInfo) bool {
	if r.info == nil || info == nil {
		return r.info == nil && info == nil
	}
	return os.SameFile(r.info, info) && r.info.Size() == info.Size() && r.info.ModTime().Equal(info.ModTime()) &&
		r.at.Sub(info.ModTime()) > coarse
}

// Open reads the file. A missing one is an empty book; the error of a damaged one names file and
// line. With "" as its path a book is kept in memory only.
func Open(path string) (*Book, error) {
	b := &Book{path: path, unsaved: make(map[string]*Entry)}
	if _, err := b.Reload(); err != nil {
		return nil, err
	}
	return b, nil
}

// Path is where the file is; "" if there is none.
func (b *Book) Path() string { return b.path }

// Entry is a copy of what is known about a server.
func (b *Book) Entry(server string) (Entry, bool) {
	b.mu.RLock()
	e := b.entry(server)
	b.mu.RUnlock()
	return *e.clone(), e != nil
}

// entry is what is known about a server, nil if nothing. Whoever calls holds mu.
func (b *Book) entry(server string) *Entry {
	if e, ok := b.unsaved[server]; ok {
		return e
	}
	return b.saved[server]
}

// Reload reads the file again if it is another one, and says whether it holds something else. If
// it is damaged the book stays as it is.
func (b *Book) Reload() (changed bool, err error) {
	if b.path == "" {
		return false, nil
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	_, err = b.reload()
	b.mu.Lock()
	defer b.mu.Unlock()
	changed, b.told = b.changes != b.told, b.changes
	return changed, err
}

// reload reads the file. Whoever calls holds writing.
func (b *Book) reload() (changed bool, err error) {
	now := time.Now()
	info, err := os.Stat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return b.take(nil, reading{at: now}), nil
	}
	if err != nil {
		return false, err
	}
	if b.seen.same(info) {
		return false, nil
	}
	data, err := guard.ReadFile(b.path, maxFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", b.path, err)
	}
	found := reading{info, sha256.Sum256(data), now}
	if b.seen.info != nil && found.sum == b.seen.sum {
		b.seen = found
		return false, nil
	}
	if bytes.HasPrefix(data, []byte(conflict)) || bytes.Contains(data, []byte("\n"+conflict)) {
		return false, fmt.Errorf("%s: it holds a merge conflict; take either side: what differs is withheld until it is approved", b.path)
	}
	servers, err := decode(data)
	if d, ok := errors.AsType[*damage](err); ok {
		return false, fmt.Errorf("%s:%d: %w", b.path, line(data, d.offset), d)
	}
	return b.take(servers, found), nil
}

// take replaces what the file held by what it holds now. What could not be written stays, unless
// somebody has changed the same entry in the file.
func (b *Book) take(servers map[string]*Entry, found reading) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for server := range b.unsaved {
		if !servers[server].equal(b.saved[server]) {
			delete(b.unsaved, server)
		}
	}
	changed = b.seen.sum != found.sum || (b.seen.info == nil) != (found.info == nil)
	if changed {
		b.changes++
	}
	b.saved, b.seen = servers, found
	return changed
}

// Update changes what is known about one server, in memory and in the file, where the entries that
// others have changed meanwhile stay. The change is called once, with a copy of the entry; it must
// not change the book itself. If the file cannot be written the book holds the change all the
// same, and the error says so. A definition without a canonical form is an error that changes nothing.
func (b *Book) Update(server string, change func(*Entry)) error {
	return b.set(server, func(old *Entry) (*Entry, error) {
		e := old.clone()
		change(e)
		return e.settled(server, old)
	})
}

// Remove forgets a server.
func (b *Book) Remove(server string) error {
	return b.set(server, func(*Entry) (*Entry, error) { return nil, nil })
}

// compact is a definition that has a canonical form without white space, in its own order,
// which means something to those who read it.
func compact(definition json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, definition) // it is JSON
	return b.Bytes()
}

// has reports whether the entry has a definition with this canonical form.
func (e *Entry) has(name string, canonical json.RawMessage) bool {
	if e.Tools[name] == nil {
		return false
	}
	own, err := Canonical(e.Tools[name])
	return err == nil && bytes.Equal(own, canonical)
}

// settled is the entry with definitions that all have a canonical form. It shares nothing with what the caller has.
func (e *Entry) settled(server string, old *Entry) (*Entry, error) {
	if !utf8.ValidString(server) || !utf8.ValidString(e.Protocol) {
		return nil, errors.New("the name or the protocol of the server is not UTF-8")
	}
	s := &Entry{Protocol: e.Protocol}
	if e.Tools != nil {
		s.Tools = make(map[string]json.RawMessage, len(e.Tools))
	}
	for name, definition := range e.Tools {
		canonical, err := Canonical(definition)
		if old != nil && err == nil && old.has(name, canonical) {
			s.Tools[name] = old.Tools[name]
			continue
		}
		if err == nil && !utf8.ValidString(name) {
			err = errors.New("its name is not UTF-8")
		}
		if err != nil {
			return nil, fmt.Errorf("the tool %q: %w", name, err)
		}
		s.Tools[name] = compact(definition)
	}
	return s, nil
}

// set replaces an entry by what next makes of it. An error of next changes nothing.
func (b *Book) set(server string, next func(old *Entry) (*Entry, error)) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	unlock, failed := b.lockAndReload()
	defer unlock()
	b.mu.RLock()
	old := b.entry(server)
	b.mu.RUnlock()
	e, err := next(old)
	if err != nil {
		return err
	}
	if failed == nil && len(b.unsaved) == 0 && e.equal(old) {
		return nil
	}
	b.mu.Lock()
	b.unsaved[server] = e
	b.mu.Unlock()
	if b.path == "" {
		return nil
	}
	if failed == nil {
		failed = b.save()
	}
	if failed != nil {
		return fmt.Errorf("what was learned of %s is kept in memory only: %w", server, failed)
	}
	return nil
}

// lockAndReload keeps other processes from the file and reads what they have written.
func (b *Book) lockAndReload() (unlock func(), err error) {
	if b.path == "" {
		return func() {}, nil
	}
	time.Sleep(courtesy - time.Since(b.unlocked))
	release, err := lock(folder(b.path))
	if err != nil {
		return func() {}, err
	}
	_, err = b.reload()
	return func() { release(); b.unlocked = time.Now() }, err
}

// save writes what the file held and all that could not be written before. Whoever calls holds
// writing and the lock of the file.
func (b *Book) save() error {
	servers := maps.Clone(b.saved)
	if servers == nil {
		servers = make(map[string]*Entry)
	}
	for server, e := range b.unsaved {
		if e == nil {
			delete(servers, server)
		} else {
			servers[server] = e
		}
	}
	data := encode(servers)
	if len(data) > maxFile {
		return fmt.Errorf("%s would be larger than %d MiB", b.path, maxFile>>20)
	}
	info, err := replace(b.path, data)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved, b.unsaved = servers, make(map[string]*Entry)
	b.seen = reading{info, sha256.Sum256(data), time.Now()}
	return nil
}
