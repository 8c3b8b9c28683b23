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

// Entry is a server's pinned state.
type Entry struct {
	Protocol string                     // protocol version of the last connection
	Tools    map[string]json.RawMessage // approved definitions by tool name, in their original key order; nil if none was ever approved
	Rejected map[string]string          // hashes of rejected definitions, by tool name

	encoded []byte // cached JSON as written to the file
}

// clone returns a deep copy. It returns an empty entry if e is nil.
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

// equal compares two entries, either of which may be nil.
func (e *Entry) equal(other *Entry) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Protocol == other.Protocol && (e.Tools == nil) == (other.Tools == nil) && maps.Equal(e.Rejected, other.Rejected) &&
		maps.EqualFunc(e.Tools, other.Tools, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// Book stores approved definitions in a file or in a document shared by several processes. It is
// safe for concurrent use by goroutines and processes.
type Book struct {
	place place // nil if the book is in memory

	writing sync.Mutex // held while the stored book is reloaded or changed

	mu             sync.RWMutex
	saved          map[string]*Entry // entries as last read or written; immutable
	unsaved        map[string]*Entry // entries not written yet, which override saved; nil marks a removed entry
	seen           reading
	changedServers map[string]bool // servers that other processes changed since the last call to Changed
}

// place is the storage location of a book.
type place interface {
	// name identifies the place in errors.
	name() string
	// lock prevents other processes from writing until unlock is called, if the place supports
	// locks.
	lock() (unlock func(), err error)
	// read returns the data, or nil if there is none. It may return same instead if the data is
	// known to be unchanged since last.
	read(last revision) (data []byte, now revision, same bool, err error)
	// write replaces the data if its revision is still last, and returns ErrChanged otherwise.
	write(data []byte, last revision) (now revision, err error)
}

// ErrChanged is returned by a write when the data has changed since it was read.
var ErrChanged = errors.New("the approved definitions were modified concurrently")

// revision identifies a state of the stored data.
type revision struct {
	info    os.FileInfo // file only; nil if the file does not exist
	at      time.Time   // time of the read
	version int64       // document only; zero if the document does not exist
}

// reading describes the data from the last read.
type reading struct {
	revision
	there bool
	sum   [sha256.Size]byte
}

// newReading describes data, which may be nil.
func newReading(data []byte, s revision) reading {
	r := reading{revision: s, there: data != nil}
	if r.there {
		r.sum = sha256.Sum256(data)
	}
	return r
}

// conflict is the marker that Git writes at the start of a merge conflict.
const conflict = "<<<<<<< "

// Open reads the book in a file. If the file does not exist, the book is empty. If the file is
// damaged, the error contains its path and the line number. If path is empty, the book is only in
// memory.
func Open(path string) (*Book, error) {
	if path == "" {
		return openAt(nil)
	}
	return openAt(&file{path: path})
}

// OpenIn reads the book in a document, which has the same format as the file.
func OpenIn(d Document) (*Book, error) { return openAt(document{d}) }

func openAt(p place) (*Book, error) {
	b := &Book{place: p, unsaved: make(map[string]*Entry), changedServers: make(map[string]bool)}
	if _, err := b.Reload(); err != nil {
		return nil, err
	}
	return b, nil
}

// Path returns the path of the file, or "" if the book is not in a file.
func (b *Book) Path() string {
	if f, ok := b.place.(*file); ok {
		return f.path
	}
	return ""
}

// Entry returns a copy of a server's entry.
func (b *Book) Entry(server string) (Entry, bool) {
	b.mu.RLock()
	e := b.entry(server)
	b.mu.RUnlock()
	return *e.clone(), e != nil
}

// entry returns a server's entry, or nil. The caller holds mu.
func (b *Book) entry(server string) *Entry {
	if e, ok := b.unsaved[server]; ok {
		return e
	}
	return b.saved[server]
}

// Reload reads the book again if it may have changed, and reports whether any entry changed. If the
// stored book is damaged, the book in memory stays unchanged.
func (b *Book) Reload() (changed bool, err error) {
	servers, err := b.Changed()
	return len(servers) > 0, err
}

// Changed reloads the book and returns the servers whose entries other writers changed since the
// last call to Changed or Reload.
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

// reload reads the stored book. The caller holds writing.
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

// parse decodes a book. Errors start with name.
func parse(name string, data []byte) (map[string]*Entry, error) {
	if bytes.HasPrefix(data, []byte(conflict)) || bytes.Contains(data, []byte("\n"+conflict)) {
		return nil, fmt.Errorf("%s contains a merge conflict; resolve it by keeping either side (definitions that differ stay withheld until you approve them)", name)
	}
	servers, err := decode(data)
	if d, ok := errors.AsType[*damage](err); ok {
		return nil, fmt.Errorf("%s:%d: %w", name, line(data, d.offset), d)
	}
	return servers, err
}

// take adopts the entries that were read. Unsaved entries stay, unless another process has changed
// the same entry.
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

// Update changes a server's entry in memory and in storage, and preserves concurrent changes to
// other entries. change receives a copy of the entry. It is called again if another process wrote
// first, and must not use the book. If the book cannot be written, Update returns an error and
// keeps the change in memory. If a definition has no canonical form, Update returns an error and
// changes nothing.
func (b *Book) Update(server string, change func(*Entry)) error {
	return b.set(server, func(old *Entry) (*Entry, error) {
		e := old.clone()
		change(e)
		return e.settled(server, old)
	})
}

// Remove deletes a server's entry.
func (b *Book) Remove(server string) error {
	return b.set(server, func(*Entry) (*Entry, error) { return nil, nil })
}

// compact removes white space from a valid definition. It preserves the order of keys, which helps
// readers.
func compact(definition json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, definition) // the definition is valid JSON
	return b.Bytes()
}

// has reports whether the entry contains a definition with this canonical form.
func (e *Entry) has(name string, canonical json.RawMessage) bool {
	if e.Tools[name] == nil {
		return false
	}
	own, err := Canonical(e.Tools[name])
	return err == nil && bytes.Equal(own, canonical)
}

// settled returns a validated copy of the entry. If a definition is equivalent to the one in old,
// it keeps the old text.
func (e *Entry) settled(server string, old *Entry) (*Entry, error) {
	if !utf8.ValidString(server) || !utf8.ValidString(e.Protocol) {
		return nil, errors.New("the server's name or protocol is not valid UTF-8")
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
			err = errors.New("its name is not valid UTF-8")
		}
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", name, err)
		}
		s.Tools[name] = compact(definition)
	}
	return s, nil
}

// reject validates and copies the hashes of rejected definitions.
func (e *Entry) reject(rejected map[string]string) error {
	for name, hash := range rejected {
		if !utf8.ValidString(name) {
			return fmt.Errorf("the name of rejected tool %q is not valid UTF-8", name)
		}
		if !isHash(hash) {
			return fmt.Errorf("the rejected hash for %s is invalid", name)
		}
	}
	if len(rejected) > 0 {
		e.Rejected = maps.Clone(rejected)
	}
	return nil
}

// Limits on retries when other writers cause conflicts.
const (
	maxTries = 50
	maxPause = 50 * time.Millisecond
)

// set replaces an entry with the result of next. If next returns an error, nothing changes.
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

// trySet is one attempt at set. On ErrChanged, it leaves the book unchanged unless this is the last
// attempt. The caller holds writing.
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
		return fmt.Errorf("could not save the definitions from server %s, so they are kept only in memory: %w", server, failed)
	}
	return nil
}

// keep adds an unsaved entry and returns the previous unsaved entries.
func (b *Book) keep(server string, e *Entry) (before map[string]*Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = maps.Clone(b.unsaved)
	b.unsaved[server] = e
	return before
}

// lockAndReload locks the place and reads other processes' changes.
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

// save writes all entries, saved and unsaved. The caller holds writing and the place's lock.
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
