package yard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// Journal is a pack's append-only log, divided into streams. State that must stay consistent across
// replicas is a fold over a stream's entries: read the stream, decide, append with the last
// sequence number that you read, and start over if another writer was faster. Entries are never
// deleted.
type Journal interface {
	// Append adds entries to a stream, all or none, and returns the sequence number of the last
	// one. Sequence numbers start at 1 and have no gaps. It returns an error with code
	// [toolyard.VersionConflict] if the stream's last sequence number differs from after. After an
	// error with code [toolyard.Unavailable], read the stream: the entries may be stored.
	Append(ctx context.Context, stream string, after uint64, entries ...JournalEntry) (last uint64, err error)

	// List returns the entries of a stream that match the query.
	List(ctx context.Context, stream string, q JournalQuery) ([]JournalEntry, error)

	// Last returns a stream's last sequence number, or 0 for an empty stream.
	Last(ctx context.Context, stream string) (uint64, error)
}

// JournalEntry is one entry in a [Journal]. Times have a resolution of one microsecond.
type JournalEntry struct {
	Seq  uint64          // position in its stream, starting at 1; set by Append
	At   time.Time       // time of writing; set by Append if zero
	AsOf time.Time       // as-of time; defaults to At
	Kind string          // such as "order" or "fill"; at most 64 bytes
	Key  string          // identifies the subject, such as an order; may be empty; at most 256 bytes
	Body json.RawMessage // any JSON value of at most 64 KiB; may be nil
}

// JournalQuery selects entries from a stream. The zero value selects the oldest ones.
type JournalQuery struct {
	After  uint64    // only entries with a greater sequence number
	Before uint64    // only entries with a smaller sequence number; zero for no bound
	Kinds  []string  // only entries of these kinds, at most 16; empty for all
	Key    string    // only entries with this key; empty for all
	Until  time.Time // only entries whose as-of time is not later; zero for all
	Newest bool      // return the newest entries first, not the oldest
	Limit  int       // number of entries; zero for 1000, which is also the maximum
}

// Journal limits.
const (
	maxJournalBody    = 64 << 10
	maxJournalStream  = 256 // bytes in a stream's name
	maxJournalKind    = 64  // in bytes
	maxJournalKey     = 256 // in bytes
	maxJournalAppend  = 1000
	maxJournalList    = 1000
	maxJournalKinds   = 16
	journalResolution = time.Microsecond
)

// MemoryJournal returns a journal in memory, for tests and simulations.
func MemoryJournal() Journal { return checkedJournal{backend: newMemoryJournal(), now: time.Now} }

// newJournal returns the journal for all packs: the one in the store, or one in memory.
func newJournal(s *store.Store) Journal {
	if s == nil {
		return newMemoryJournal()
	}
	return storeJournal{s}
}

// storeJournal is the journal in the store.
type storeJournal struct{ store *store.Store }

func (j storeJournal) Append(ctx context.Context, stream string, after uint64, entries ...JournalEntry) (uint64, error) {
	rows := make([]store.JournalEntry, len(entries))
	for i, e := range entries {
		rows[i] = store.JournalEntry(e)
	}
	last, err := j.store.AppendJournal(ctx, stream, after, rows)
	return last, journalError(err)
}

func (j storeJournal) List(ctx context.Context, stream string, q JournalQuery) ([]JournalEntry, error) {
	rows, err := j.store.Journal(ctx, stream, store.JournalQuery(q))
	if err != nil || len(rows) == 0 {
		return nil, journalError(err)
	}
	list := make([]JournalEntry, len(rows))
	for i, row := range rows {
		list[i] = JournalEntry(row)
	}
	return list, nil
}

func (j storeJournal) Last(ctx context.Context, stream string) (uint64, error) {
	last, err := j.store.JournalEnd(ctx, stream)
	return last, journalError(err)
}

// journalError returns an error that hides the details from callers if the store is not responding.
func journalError(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "The store is not responding.", Err: err}
	}
	return err
}

// checkedJournal enforces the limits and sets defaults, so that all journals behave alike.
type checkedJournal struct {
	backend Journal
	prefix  string // prefix of the stream names in the backend
	now     func() time.Time
}

// Append implements [Journal].
func (j checkedJournal) Append(ctx context.Context, stream string, after uint64, entries ...JournalEntry) (uint64, error) {
	if err := checkStream(stream); err != nil {
		return 0, err
	}
	if len(entries) == 0 || len(entries) > maxJournalAppend {
		return 0, toolyard.Errorf(toolyard.Invalid, "journal: append 1 to %d entries, not %d", maxJournalAppend, len(entries))
	}
	now := j.now()
	list := slices.Clone(entries)
	for i := range list {
		e := &list[i]
		if err := e.check(); err != nil {
			return 0, err
		}
		e.Seq = after + uint64(i) + 1
		if e.At.IsZero() {
			e.At = now
		}
		if e.AsOf.IsZero() {
			e.AsOf = e.At
		}
		e.At, e.AsOf = e.At.UTC().Truncate(journalResolution), e.AsOf.UTC().Truncate(journalResolution)
		e.Body = slices.Clone(e.Body)
	}
	return j.backend.Append(ctx, j.prefix+stream, after, list...)
}

// List implements [Journal].
func (j checkedJournal) List(ctx context.Context, stream string, q JournalQuery) ([]JournalEntry, error) {
	if err := checkStream(stream); err != nil {
		return nil, err
	}
	if len(q.Kinds) > maxJournalKinds {
		return nil, toolyard.Errorf(toolyard.Invalid, "journal: query at most %d kinds, not %d", maxJournalKinds, len(q.Kinds))
	}
	if q.Limit < 0 || q.Limit > maxJournalList {
		return nil, toolyard.Errorf(toolyard.Invalid, "journal: limit must be between 0 and %d, not %d", maxJournalList, q.Limit)
	}
	q.Limit = cmp.Or(q.Limit, maxJournalList)
	return j.backend.List(ctx, j.prefix+stream, q)
}

// Last implements [Journal].
func (j checkedJournal) Last(ctx context.Context, stream string) (uint64, error) {
	if err := checkStream(stream); err != nil {
		return 0, err
	}
	return j.backend.Last(ctx, j.prefix+stream)
}

func checkStream(name string) error {
	if name == "" || len(name) > maxJournalStream || !storable(name) {
		return toolyard.Errorf(toolyard.Invalid, "journal: stream name must be 1 to %d bytes of text", maxJournalStream)
	}
	return nil
}

func (e *JournalEntry) check() error {
	switch {
	case e.Kind == "" || len(e.Kind) > maxJournalKind || !storable(e.Kind):
		return toolyard.Errorf(toolyard.Invalid, "journal: entry kind must be 1 to %d bytes of text", maxJournalKind)
	case len(e.Key) > maxJournalKey || !storable(e.Key):
		return toolyard.Errorf(toolyard.Invalid, "journal: entry key must be at most %d bytes of text", maxJournalKey)
	case len(e.Body) > maxJournalBody:
		return toolyard.Errorf(toolyard.Invalid, "journal: entry body is %d bytes; the limit is %d", len(e.Body), maxJournalBody)
	case e.Body != nil && (!json.Valid(e.Body) || !utf8.Valid(e.Body)):
		return toolyard.Errorf(toolyard.Invalid, "journal: entry body must be valid JSON")
	}
	return nil
}

// storable reports whether PostgreSQL can store the text.
func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// conflict returns the error for a stream to which another writer has appended.
func conflict(stream string, after uint64) error {
	return toolyard.Errorf(toolyard.VersionConflict, "journal: stream %q has changed and no longer ends at entry %d; read it again", stream, after)
}

// memoryJournal stores streams in memory.
type memoryJournal struct {
	mu      sync.RWMutex
	streams map[string][]JournalEntry
}

func newMemoryJournal() *memoryJournal {
	return &memoryJournal{streams: make(map[string][]JournalEntry)}
}

func (j *memoryJournal) Append(ctx context.Context, stream string, after uint64, entries ...JournalEntry) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if uint64(len(j.streams[stream])) != after {
		return 0, conflict(stream, after)
	}
	j.streams[stream] = append(j.streams[stream], entries...)
	return uint64(len(j.streams[stream])), nil
}

func (j *memoryJournal) List(ctx context.Context, stream string, q JournalQuery) ([]JournalEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.mu.RLock()
	entries := j.streams[stream] // safe without a copy: append never changes existing elements
	j.mu.RUnlock()
	end := uint64(len(entries))
	if q.Before > 0 {
		end = min(end, q.Before-1)
	}
	var list []JournalEntry
	for entries = entries[min(q.After, end):end]; len(entries) > 0 && len(list) < q.Limit; {
		var e JournalEntry
		if last := len(entries) - 1; q.Newest {
			e, entries = entries[last], entries[:last]
		} else {
			e, entries = entries[0], entries[1:]
		}
		if q.matches(&e) {
			e.Body = slices.Clone(e.Body)
			list = append(list, e)
		}
	}
	return list, nil
}

func (j *memoryJournal) Last(ctx context.Context, stream string) (uint64, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return uint64(len(j.streams[stream])), ctx.Err()
}

// matches reports whether an entry matches the query's kinds, key and as-of time.
func (q *JournalQuery) matches(e *JournalEntry) bool {
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, e.Kind)) &&
		(q.Key == "" || q.Key == e.Key) &&
		(q.Until.IsZero() || !e.AsOf.After(q.Until))
}
