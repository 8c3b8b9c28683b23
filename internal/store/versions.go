package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
)

// MaxVersions is the maximum number of stored versions of a document.
const MaxVersions = 500

// maxNote is the maximum size of a version's author and of its note, in bytes.
const maxNote = 4 << 10

// VersionRow is a version of a document, including its author and reason.
type VersionRow struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Note    string    `json:"note"`
}

// SetDocumentAs is like SetDocument, but also stores the new version in the history, with its
// author and reason. Only the latest MaxVersions versions are stored.
func (s *documentStore) SetDocumentAs(ctx context.Context, name string, body []byte, version int64, by, note string) (next int64, err error) {
	if len(by) > maxNote || len(note) > maxNote {
		return 0, toolyard.Errorf(toolyard.Invalid, "A version's author and note must each be at most %d bytes.", maxNote)
	}
	now, err := s.engine.clock(ctx)
	if err != nil {
		return 0, err
	}
	return s.replace(ctx, name, body, version, &VersionRow{Version: version + 1, At: now, By: clean(by), Note: clean(note)})
}

// keepVersion stores a version of a document and deletes the oldest.
func keepVersion(ctx context.Context, tx *sql.Tx, name string, body []byte, v *VersionRow) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO versions (name, version, at, author, note, body) VALUES ($1, $2, $3, $4, $5, $6)`,
		name, v.Version, v.At, v.By, v.Note, body)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM versions WHERE name = $1 AND version <=
		(SELECT version FROM versions WHERE name = $1 ORDER BY version DESC LIMIT 1 OFFSET $2)`, name, MaxVersions)
	return err
}

// Versions lists up to limit stored versions of a document, newest first.
func (s *documentStore) Versions(ctx context.Context, name string, limit int) ([]VersionRow, error) {
	if limit <= 0 || limit > MaxVersions {
		limit = MaxVersions
	}
	return collect(ctx, s.database, limit, func(row scanner) (v VersionRow, err error) {
		err = row.Scan(&v.Version, &v.At, &v.By, &v.Note)
		v.At = v.At.UTC()
		return v, err
	}, `SELECT version, at, author, note FROM versions WHERE name = $1 ORDER BY version DESC LIMIT $2`, []any{name, limit})
}

// VersionOf returns a version of a document and its text. The error is NotFound if it is not
// stored.
func (s *documentStore) VersionOf(ctx context.Context, name string, version int64) (v VersionRow, body []byte, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT version, at, author, note, body FROM versions WHERE name = $1 AND version = $2`, name, version).
		Scan(&v.Version, &v.At, &v.By, &v.Note, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return v, nil, toolyard.Errorf(toolyard.NotFound, "Version %d of %s not found.", version, name)
	}
	v.At = v.At.UTC()
	return v, body, s.engine.explain(err)
}
