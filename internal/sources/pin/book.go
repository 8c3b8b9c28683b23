package pin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/base/backoff"
)

// Entry is what is known about one server.
type Entry struct {
	Protocol string                     // the version that it spoke last
	Tools    map[string]json.RawMessage // definitions by name, in their own order; nil if none were ever approved
	Rejected map[string]string          // the hashes of definitions that nobody wants, by name

	encoded []byte // as it is written
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
	c.Rejected = maps.Clone(e.Rejected)
	return c
}

// equal reports whether two entries, each of which may be missing, say the same.
func (e *Entry) equal(other *Entry) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Protocol == other.Protocol && (e.Tools == nil) == (other.Tools == nil) && maps.Equal(e.Rejected, other.Rejected) &&
		maps.EqualFunc(e.Tools, other.Tools, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// Book is what was approved, in a file or in a document that processes share. Several
// goroutines and several processes may use one at once.
type Book struct {
	place place // nil for none

	writing sync.Mutex // held by whoever changes what is there

	mu             sync.RWMutex
	saved          map[string]*Entry // what was there when it was read; entries are never changed
	unsaved        map[string]*Entry // what could not be written, which goes first; nil if removed
	seen           reading
	changedServers map[string]bool // the servers of which others wrote something else; Changed has not told yet
}

// place is where a book is kept.
type place interface {
	// name says to people where that is.
	name() string
	// lock keeps other processes from writing until unlock is called, if that can be done.
	lock() (unlock func(), err error)
	// read reads all that is there, nil for nothing. It need not if it is surely the same as
	// it was at the time of a revision, and says so.
	read(last revision) (data []byte, now revision, same bool, err error)
	// write replaces what was there at the time of a revision. Its error is ErrChanged if
	// something else is there.
	write(data []byte, last revision) (now revision, err error)
}

// ErrChanged means that somebody else has written what was to be replaced.
var ErrChanged = errors.New("it was changed concurrently")

// revision tells what is at a place from what was there before.
type revision struct {
	info    os.FileInfo // of a file; nil if there was none
	at      time.Time   // when it was read
	version int64       // of a document; zero if there was none
}

// reading says what was read.
type reading struct {
	revision
	there bool
	sum   [sha256.Size]byte
}

// newReading is what was read of data, nil for none.
func newReading(data []byte, s revision) reading {
	r := reading{revision: s, there: data != nil}
	if r.there {
		r.sum = sha256.Sum256(data)
	}
	return r
}

// conflict begins a part of a file that two people have changed.
const conflict = "<<<<<<< "

// Open reads the book in a file. A missing one is an empty book; the error of a damaged one
// names file and line. With "" as its path a book is kept in memory only.
func Open(path string) (*Book, error) {
	if path == "" {
		return openAt(nil)
	}
	return openAt(&file{path: path})
}

// OpenIn reads the book in a document, which has the same form as a file.
func OpenIn(d Document) (*Book, error) { return openAt(document{d}) }

func openAt(p place) (*Book, error) {
	b := &Book{place: p, unsaved: make(map[string]*Entry), changedServers: make(map[string]bool)}
	if _, err := b.Reload(); err != nil {
		return nil, err
	}
	return b, nil
}

// Path is where the file is; "" if there is none.
func (b *Book) Path() string {
	if f, ok := b.place.(*file); ok {
		return f.path
	}
	return ""
}

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

// Reload reads the book again if it is another one, and says whether it holds something
// else. If it is damaged the book stays as it is.
func (b *Book) Reload() (changed bool, err error) {
	servers, err := b.Changed()
	return len(servers) > 0, err
}

// Changed is Reload that says of which servers the book holds something else than when
// either was last asked, not counting what was changed by this book.
func (b *Book) Changed() (servers []string, err error) {
	if b.place == nil {
		return nil, nil
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	err = b.reload()
	b.mu.Lock()
	defer b.mu.Unlock()
	servers = slices.Sorted(maps.Keys(b.changedServers))
	clear(b.changedServers)
	return servers, err
}

// reload reads what is there. Whoever calls holds writing.
func (b *Book) reload() error {
	data, now, same, err := b.place.read(b.seen.revision)
	if err != nil || same {
		return err
	}
	found := newReading(data, now)
	if found.there && b.seen.there && found.sum == b.seen.sum {
		b.seen = found
		return nil
	}
	var servers map[string]*Entry
	if found.there {
		if servers, err = parse(b.place.name(), data); err != nil {
			return err
		}
	}
	b.take(servers, found)
	return nil
}

// parse reads a book that has a name.
func parse(name string, data []byte) (map[string]*Entry, error) {
	if bytes.HasPrefix(data, []byte(conflict)) || bytes.Contains(data, []byte("\n"+conflict)) {
		return nil, fmt.Errorf("%s: contains a merge conflict; keep either side: differing definitions stay withheld until approved", name)
	}
	servers, err := decode(data)
	if d, ok := errors.AsType[*damage](err); ok {
		return nil, fmt.Errorf("%s:%d: %w", name, line(data, d.offset), d)
	}
	return servers, err
}

// take replaces what was there by what is there now. What could not be written stays, unless
// somebody has changed the same entry.
func (b *Book) take(servers map[string]*Entry, found reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(servers)
	if all == nil {
		all = make(map[string]*Entry)
	}
	maps.Copy(all, b.saved)
	for server := range all {
		if !servers[server].equal(b.saved[server]) {
			delete(b.unsaved, server)
			b.changedServers[server] = true
		}
	}
	b.saved, b.seen = servers, found
}

// Update changes what is known about one server, in memory and where the book is kept, where the
// entries that others have changed meanwhile stay. The change is called with a copy of the entry, and
// again with that of somebody else who was faster; it must not change the book itself. If it cannot be
// written the book holds the change all the same, and the error says so. A definition without a
// canonical form is an error that changes nothing.
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
	if err := s.reject(e.Rejected); err != nil {
		return nil, err
	}
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

// reject takes over what is rejected, which must be hashes.
func (e *Entry) reject(rejected map[string]string) error {
	for name, hash := range rejected {
		if !utf8.ValidString(name) {
			return fmt.Errorf("the name of the rejected tool %q is not UTF-8", name)
		}
		if !isHash(hash) {
			return fmt.Errorf("the rejected hash of %s is invalid", name)
		}
	}
	if len(rejected) > 0 {
		e.Rejected = maps.Clone(rejected)
	}
	return nil
}

// How often a change is tried while others are faster, and the longest pause before it is
// tried again.
const (
	maxTries = 50
	maxPause = 50 * time.Millisecond
)

// set replaces an entry by what next makes of it. An error of next changes nothing.
func (b *Book) set(server string, next func(old *Entry) (*Entry, error)) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	for try := 1; ; try++ {
		err := b.trySet(server, next, try == maxTries)
		if !errors.Is(err, ErrChanged) || try == maxTries {
			return err
		}
		time.Sleep(backoff.Jitter(min(time.Duration(try)*time.Millisecond, maxPause) / 2))
	}
}

// trySet is one try of set. If somebody else was faster the book stays as it is, unless this
// is the last try. Whoever calls holds writing.
func (b *Book) trySet(server string, next func(old *Entry) (*Entry, error), last bool) error {
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
	before := b.keep(server, e)
	if b.place == nil {
		return nil
	}
	if failed == nil {
		failed = b.save()
	}
	if errors.Is(failed, ErrChanged) && !last {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unsaved = before
		return failed
	}
	if failed != nil {
		return fmt.Errorf("the definitions of %s could not be saved and are kept in memory only: %w", server, failed)
	}
	return nil
}

// keep notes an entry that is yet to be written, and returns what there was of such before.
func (b *Book) keep(server string, e *Entry) (before map[string]*Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = maps.Clone(b.unsaved)
	b.unsaved[server] = e
	return before
}

// lockAndReload keeps other processes from writing and reads what they have written.
func (b *Book) lockAndReload() (unlock func(), err error) {
	if b.place == nil {
		return func() {}, nil
	}
	unlock, err = b.place.lock()
	if err != nil {
		return func() {}, err
	}
	return unlock, b.reload()
}

// save writes what was there and all that could not be written before. Whoever calls holds
// writing and the lock of the place.
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
		return fmt.Errorf("%s would be larger than %d MiB", b.place.name(), maxFile>>20)
	}
	now, err := b.place.write(data, b.seen.revision)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved, b.unsaved = servers, make(map[string]*Entry)
	b.seen = newReading(data, now)
	return nil
}
