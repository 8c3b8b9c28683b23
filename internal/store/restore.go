package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// ErrNotEmpty means that a restore would replace existing data.
var ErrNotEmpty = errors.New("the store is not empty")

// Restore atomically replaces all data with a backup. It returns an error if the store contains
// data and replace is false, or if the backup has a different schema version. No server may use the
// store during a restore, because it would still hold leases on the old data.
func (s *Store) Restore(ctx context.Context, from io.ReadSeeker, replace bool) (rows int64, err error) {
	header, err := CheckBackup(from)
	if err != nil {
		return 0, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("store: restore: %w", err)
	}
	defer conn.Close() //nolint:errcheck // returns it to the pool
	begin := `BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON`
	if s.kind == "postgres" {
		begin = `BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`
	}
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return 0, fmt.Errorf("store: restore: %w", err)
	}
	rows, err = s.restore(ctx, conn, from, header, replace)
	end := `COMMIT`
	if err != nil {
		end = `ROLLBACK`
	}
	_, failed := conn.ExecContext(context.WithoutCancel(ctx), end)
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("store: restore: %w", err)
	}
	return rows, nil
}

// restore runs within a transaction.
func (s *Store) restore(ctx context.Context, conn *sql.Conn, from io.Reader, header BackupHeader, replace bool) (rows int64, err error) {
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return 0, err
	}
	if version != header.Schema {
		return 0, fmt.Errorf("the backup has schema version %d, but this program uses version %d; restore it with Toolyard %s, then upgrade", header.Schema, version, header.Version)
	}
	tables, err := s.schema(ctx, conn)
	if err != nil {
		return 0, err
	}
	if err := s.empty(ctx, conn, tables, replace); err != nil {
		return 0, err
	}
	r, err := newBackupReader(from)
	if err != nil {
		return 0, err
	}
	if _, err := r.header(); err != nil {
		return 0, err
	}
	next, err := r.section(func([]byte) error { return r.fault("contains a row that does not belong to a table") })
	for next != nil && err == nil {
		i := slices.IndexFunc(tables, func(t *storedTable) bool { return t.name == next.Table })
		if i < 0 {
			return 0, r.fault("refers to unknown table %q", next.Table)
		}
		into := tables[i]
		tables = slices.Delete(tables, i, i+1) // each table may occur only once
		if !slices.Equal(into.names(), next.Columns) {
			return 0, r.fault("declares columns that differ from this program's %s table", into.name)
		}
		var n int64
		if s.kind == "postgres" {
			next, n, err = pgFill(ctx, conn, r, into)
		} else {
			next, n, err = liteFill(ctx, conn, r, into)
		}
		rows += n
	}
	return rows, err
}

// empty deletes all rows, in reverse order of references. If replace is false and there is a row,
// it fails.
func (s *Store) empty(ctx context.Context, conn *sql.Conn, tables []*storedTable, replace bool) error {
	for _, t := range slices.Backward(tables) {
		if replace {
			if _, err := conn.ExecContext(ctx, `DELETE FROM `+quoted(t.name)); err != nil { //nolint:gosec // the name comes from the schema
				return fmt.Errorf("%s: %w", t.name, err)
			}
			continue
		}
		found := false
		if err := query(ctx, conn, func(scanner) error { found = true; return nil }, `SELECT 1 FROM `+quoted(t.name)+` LIMIT 1`); err != nil {
			return err
		}
		if found {
			return fmt.Errorf("%w (in %s)", ErrNotEmpty, t.name)
		}
	}
	return nil
}

func (t *storedTable) kinds() []kind {
	list := make([]kind, len(t.columns))
	for i, c := range t.columns {
		list[i] = c.kind
	}
	return list
}

// liteFill inserts a table's rows and returns the next table.
func liteFill(ctx context.Context, conn *sql.Conn, r *backupReader, t *storedTable) (next *backupTable, rows int64, err error) {
	names, marks := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i], marks[i] = quoted(c.name), "?"
	}
	insert, err := conn.PrepareContext(ctx, `INSERT INTO `+quoted(t.name)+` (`+strings.Join(names, ", ")+`) VALUES (`+strings.Join(marks, ", ")+`)`) //nolint:gosec // the names come from the schema
	if err != nil {
		return nil, 0, err
	}
	defer insert.Close() //nolint:errcheck // an error has no effect
	kinds := t.kinds()
	next, err = r.section(func(line []byte) error {
		values, err := r.values(line, kinds)
		if err != nil {
			return err
		}
		rows++
		if _, err := insert.ExecContext(ctx, values...); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		return nil
	})
	return next, rows, err
}

// pgFill copies a table's rows and returns the next table. Another goroutine parses the lines,
// because COPY pulls rows from its source.
func pgFill(ctx context.Context, conn *sql.Conn, r *backupReader, t *storedTable) (next *backupTable, rows int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	source := &copySource{rows: make(chan []any, 100), done: make(chan struct{})}
	kinds := t.kinds()
	go func() {
		defer close(source.done)
		defer close(source.rows)
		next, source.err = r.section(func(line []byte) error {
			values, err := r.values(line, kinds)
			if err != nil {
				return err
			}
			select {
			case source.rows <- values:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err = conn.Raw(func(driver any) error {
		rows, err = driver.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{t.name}, t.names(), source)
		return err
	})
	cancel()
	<-source.done
	if source.err != nil && !errors.Is(source.err, context.Canceled) {
		err = source.err
	}
	if err != nil {
		return nil, rows, fmt.Errorf("%s: %w", t.name, err)
	}
	return next, rows, nil
}

// copySource implements [pgx.CopyFromSource].
type copySource struct {
	rows    chan []any
	current []any
	done    chan struct{} // closed after err is set
	err     error
}

func (s *copySource) Next() (ok bool) {
	s.current, ok = <-s.rows
	return ok
}

func (s *copySource) Values() ([]any, error) { return s.current, nil }

func (s *copySource) Err() error {
	<-s.done
	return s.err
}
