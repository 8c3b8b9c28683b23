package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toolyard/toolyard"
)

// JournalEntry is an entry in a stream of the journal. Times are in UTC, in whole microseconds.
type JournalEntry struct {
	Seq      uint64 // starts at 1, with no gaps
	At, AsOf time.Time
	Kind     string
	Key      string
	Body     json.RawMessage // may be nil
}

// JournalQuery selects entries in a stream. Empty fields don't restrict the selection.
type JournalQuery struct {
	After, Before uint64 // exclusive bounds of the sequence number
	Kinds         []string
	Key           string
	Until         time.Time // inclusive bound of the as-of time
	Newest        bool      // newest first
	Limit         int
}

const journalColumns = "seq, at, as_of, kind, key, body"

// AppendJournal adds entries to a stream, either all or none, and returns the last sequence number.
// The error is VersionConflict if the last sequence number was not after. If the error wraps
// ErrUnavailable, the entries may or may not be stored. The caller limits the number and size of
// the entries.
func (s *Store) AppendJournal(ctx context.Context, stream string, after uint64, entries []JournalEntry) (last uint64, err error) {
	if len(entries) == 0 || after > math.MaxInt64-uint64(len(entries)) {
		return 0, journalConflict(stream, after)
	}
	// If two writers saw the same end of the stream, both insert the same sequence number, and the
	// primary key lets only one succeed.
	f := &filter{}
	name, end := s.typed(f, "text", stream), s.typed(f, "bigint", int64(after)) //nolint:gosec // checked above
	rows := make([]string, len(entries))
	for i, e := range entries {
		rows[i] = "(" + strings.Join([]string{
			name, s.typed(f, "bigint", int64(after)+int64(i)+1), s.typed(f, "timestamptz", e.At.UTC()), s.typed(f, "timestamptz", e.AsOf.UTC()), //nolint:gosec // checked above
			s.typed(f, "text", e.Kind), s.typed(f, "text", e.Key), s.typed(f, "text", nullable(e.Body)),
		}, ", ") + ")"
	}
	//nolint:gosec // the text consists of constants and placeholders
	text := `WITH entries (stream, ` + journalColumns + `) AS (VALUES ` + strings.Join(rows, ", ") + `)
		INSERT INTO journal (stream, ` + journalColumns + `) SELECT stream, ` + journalColumns + ` FROM entries
		WHERE (SELECT coalesce(max(seq), 0) FROM journal WHERE stream = ` + name + `) = ` + end
	done, err := s.db.ExecContext(ctx, text, f.args...)
	if taken, ok := errors.AsType[*pgconn.PgError](err); ok && taken.Code == "23505" {
		return 0, journalConflict(stream, after)
	}
	var n int64
	if err == nil {
		n, err = done.RowsAffected()
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("store: journal %s: %w", stream, s.engine.explain(err))
	case n == 0:
		return 0, journalConflict(stream, after)
	}
	return after + uint64(len(entries)), nil
}

// typed adds an argument and returns its placeholder. PostgreSQL requires types for the values in a
// list.
func (s *Store) typed(f *filter, kind string, value any) string {
	if s.isLite() {
		return f.arg(value)
	}
	return f.arg(value) + "::" + kind
}

// nullable returns a JSON value unchanged, or NULL if it is nil.
func nullable(body json.RawMessage) any {
	if body == nil {
		return nil
	}
	return string(body)
}

func journalConflict(stream string, after uint64) error {
	return toolyard.Errorf(toolyard.VersionConflict, "journal: stream %q has changed and no longer ends at entry %d; read it again", stream, after)
}

// Journal returns entries in a stream.
func (s *Store) Journal(ctx context.Context, stream string, q JournalQuery) (list []JournalEntry, err error) {
	f := &filter{}
	f.equal("stream", stream)
	if q.After > 0 {
		f.where = append(f.where, "seq > "+f.arg(sequence(q.After)))
	}
	if q.Before > 0 {
		f.where = append(f.where, "seq < "+f.arg(sequence(q.Before)))
	}
	if len(q.Kinds) > 0 {
		var kinds []string
		for _, kind := range q.Kinds {
			kinds = append(kinds, f.arg(kind))
		}
		f.where = append(f.where, "kind IN ("+strings.Join(kinds, ", ")+")")
	}
	f.equal("key", q.Key)
	if !q.Until.IsZero() {
		f.where = append(f.where, "as_of <= "+f.arg(q.Until.UTC().Truncate(time.Microsecond)))
	}
	order := " ORDER BY seq LIMIT "
	if q.Newest {
		order = " ORDER BY seq DESC LIMIT "
	}
	err = query(ctx, s.db, func(row scanner) error {
		e, err := scanJournal(row)
		list = append(list, e)
		return err
	}, "SELECT "+journalColumns+" FROM journal"+f.String()+order+f.arg(q.Limit), f.args...)
	if err != nil {
		return nil, fmt.Errorf("store: journal %s: %w", stream, s.engine.explain(err))
	}
	return list, nil
}

// sequence limits n to the range that the database can represent.
func sequence(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func scanJournal(row scanner) (e JournalEntry, err error) {
	var body sql.NullString
	err = row.Scan(&e.Seq, &e.At, &e.AsOf, &e.Kind, &e.Key, &body)
	e.At, e.AsOf = e.At.UTC(), e.AsOf.UTC()
	if body.Valid {
		e.Body = json.RawMessage(body.String)
	}
	return e, err
}

// JournalEnd returns the last sequence number in a stream, or 0 if the stream is empty.
func (s *Store) JournalEnd(ctx context.Context, stream string) (last uint64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM journal WHERE stream = $1`, stream).Scan(&last)
	if err != nil {
		return 0, fmt.Errorf("store: journal %s: %w", stream, s.engine.explain(err))
	}
	return last, nil
}
