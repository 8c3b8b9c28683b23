package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"time"
	"unicode/utf8"
)

// A backup consists of compressed JSON lines: a header, then for each table a description and one
// array per row, and a trailer with the SHA-256 of all preceding lines. The format does not depend
// on the database, so data can be moved from SQLite to PostgreSQL and back.

// backupFormat identifies a backup and its format version.
const backupFormat = "toolyard-backup/1"

// maxBackupLine is the maximum length of a line in a backup, in bytes. Rows are far smaller.
const maxBackupLine = 64 << 20

// BackupHeader is the first line of a backup.
type BackupHeader struct {
	Format  string    `json:"format"`
	Schema  int64     `json:"schema"` // number of the latest migration
	Version string    `json:"version,omitempty"`
	Kind    string    `json:"kind"` // kind of database: postgres or sqlite
	At      time.Time `json:"at"`
}

// backupTable is the line that precedes a table's rows.
type backupTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
}

// backupTrailer is the last line.
type backupTrailer struct {
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"`
}

// Backup writes all data as of one point in time and returns the number of rows. The store can be
// in use. version is the program's version, for information only.
func (s *Store) Backup(ctx context.Context, to io.Writer, version string) (rows int64, err error) {
	tx, err := s.reports.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return 0, fmt.Errorf("store: backup: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // read-only
	if s.kind == "postgres" {
		if _, err := tx.ExecContext(ctx, `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
			return 0, fmt.Errorf("store: backup: %w", err)
		}
	}
	w := newBackupWriter(to)
	if err := s.backup(ctx, tx, w, version); err != nil {
		return 0, fmt.Errorf("store: backup: %w", err)
	}
	if err := w.close(); err != nil {
		return 0, fmt.Errorf("store: backup: %w", err)
	}
	return w.rows, nil
}

func (s *Store) backup(ctx context.Context, tx *sql.Tx, w *backupWriter, version string) error {
	header := BackupHeader{Format: backupFormat, Version: version, Kind: s.kind, At: time.Now().UTC().Truncate(time.Second)}
	var err error
	if header.Schema, err = schemaVersion(ctx, tx); err != nil {
		return err
	}
	tables, err := s.schema(ctx, tx)
	if err != nil {
		return err
	}
	if err := w.line(header); err != nil {
		return err
	}
	for _, t := range tables {
		if err := w.line(backupTable{t.name, t.names()}); err != nil {
			return err
		}
		values := make([]any, len(t.columns))
		into := make([]any, len(values))
		for i := range values {
			into[i] = &values[i]
		}
		err := query(ctx, tx, func(r scanner) error {
			if err := r.Scan(into...); err != nil {
				return err
			}
			w.rows++
			return w.row(values)
		}, `SELECT `+t.values(s.kind == "postgres")+` FROM `+quoted(t.name))
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

// backupWriter writes lines and computes their checksum.
type backupWriter struct {
	zip  *gzip.Writer
	sum  hash.Hash
	rows int64
	buf  bytes.Buffer
	enc  *json.Encoder
}

func newBackupWriter(to io.Writer) *backupWriter {
	w := &backupWriter{zip: gzip.NewWriter(to), sum: sha256.New()}
	w.enc = json.NewEncoder(&w.buf)
	w.enc.SetEscapeHTML(false)
	return w
}

func (w *backupWriter) line(value any) error {
	w.buf.Reset()
	if err := w.enc.Encode(value); err != nil {
		return err
	}
	if w.buf.Len() > maxBackupLine {
		return fmt.Errorf("row exceeds %d bytes", maxBackupLine)
	}
	_, _ = w.sum.Write(w.buf.Bytes()) // cannot fail
	_, err := w.zip.Write(w.buf.Bytes())
	return err
}

// encoded is a value that JSON cannot represent: bytes, or text that is not UTF-8.
type encoded struct {
	Bytes *string `json:"bytes,omitempty"`
	Text  *string `json:"text,omitempty"`
}

func (w *backupWriter) row(values []any) error {
	line := make([]any, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case []byte:
			code := base64.StdEncoding.EncodeToString(v)
			line[i] = encoded{Bytes: &code}
		case string:
			if line[i] = v; !utf8.ValidString(v) {
				code := base64.StdEncoding.EncodeToString([]byte(v))
				line[i] = encoded{Text: &code}
			}
		case nil, int64:
			line[i] = v
		default:
			return fmt.Errorf("unsupported value type %T", v)
		}
	}
	return w.line(line)
}

func (w *backupWriter) close() error {
	trailer := backupTrailer{Rows: w.rows, SHA256: hex.EncodeToString(w.sum.Sum(nil))}
	if err := w.line(trailer); err != nil {
		return err
	}
	return w.zip.Close()
}

// backupReader reads a backup's lines.
type backupReader struct {
	zip    *gzip.Reader
	lines  *bufio.Reader
	sum    hash.Hash
	number int
	rows   int64
}

func newBackupReader(from io.Reader) (*backupReader, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("the file is not a backup: %w", err)
	}
	zip.Multistream(false)
	return &backupReader{zip: zip, lines: bufio.NewReaderSize(zip, 64<<10), sum: sha256.New()}, nil
}

// next returns the next line. The line does not count toward the checksum until add is called.
func (r *backupReader) next() ([]byte, error) {
	r.number++
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if len(line)+len(part) > maxBackupLine {
			return nil, r.fault("exceeds %d bytes", maxBackupLine)
		}
		line = append(line, part...)
		switch {
		case err == bufio.ErrBufferFull: //nolint:errorlint // never wrapped
		case err == io.EOF:
			return nil, r.fault("is missing: the file is incomplete")
		case err != nil:
			return nil, r.fault("cannot be read: %v", err)
		default:
			return line, nil
		}
	}
}

func (r *backupReader) add(line []byte) { _, _ = r.sum.Write(line) }

func (r *backupReader) fault(format string, args ...any) error {
	return fmt.Errorf("the backup is damaged: line %d "+format, append([]any{r.number}, args...)...)
}

// decode parses a line strictly.
func (r *backupReader) decode(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return r.fault("is invalid: %v", err)
	}
	if dec.More() {
		return r.fault("contains more than one value")
	}
	return nil
}

// header reads the first line.
func (r *backupReader) header() (h BackupHeader, err error) {
	line, err := r.next()
	if err != nil {
		return h, err
	}
	if err := r.decode(line, &h); err != nil || h.Format != backupFormat {
		return h, fmt.Errorf("the file is not a backup in %s format", backupFormat)
	}
	r.add(line)
	return h, nil
}

// section reads to the end of a table and calls row for each row. It returns the next table, or nil
// after the trailer, which it checks.
func (r *backupReader) section(row func([]byte) error) (*backupTable, error) {
	for {
		line, err := r.next()
		if err != nil {
			return nil, err
		}
		switch {
		case line[0] == '[':
			r.add(line)
			r.rows++
			if err := row(line); err != nil {
				return nil, err
			}
		case bytes.HasPrefix(line, []byte(`{"table":`)):
			r.add(line)
			t := &backupTable{}
			return t, r.decode(line, t)
		default:
			return nil, r.trailer(line)
		}
	}
}

func (r *backupReader) trailer(line []byte) error {
	var t backupTrailer
	if err := r.decode(line, &t); err != nil {
		return err
	}
	if t.Rows != r.rows || t.SHA256 != hex.EncodeToString(r.sum.Sum(nil)) {
		return r.fault("does not match the preceding lines")
	}
	if _, err := r.lines.ReadByte(); err != io.EOF {
		return r.fault("is not the last line")
	}
	return nil
}

// values parses a row. Times are in microseconds.
func (r *backupReader) values(line []byte, kinds []kind) ([]any, error) {
	var raw []json.RawMessage
	if err := r.decode(line, &raw); err != nil {
		return nil, err
	}
	if len(raw) != len(kinds) {
		return nil, r.fault("has %d values, but its table has %d columns", len(raw), len(kinds))
	}
	values := make([]any, len(raw))
	for i, text := range raw {
		v, err := r.value(text, kinds[i]) //nolint:gosec // both have the same length
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func (r *backupReader) value(raw json.RawMessage, k kind) (any, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	switch {
	case k == number || k == moment:
		var n int64
		if err := r.decode(raw, &n); err != nil || k == number {
			return n, err
		}
		return time.UnixMicro(n).UTC(), nil
	case k == text && raw[0] == '"':
		var s string
		err := r.decode(raw, &s)
		return s, err
	}
	var e encoded
	if err := r.decode(raw, &e); err != nil {
		return nil, err
	}
	code := e.Bytes
	if k == text {
		code = e.Text
	}
	if code == nil {
		return nil, r.fault("contains a value that does not match its column's type")
	}
	data, err := base64.StdEncoding.DecodeString(*code)
	if err != nil {
		return nil, r.fault("is invalid: %v", err)
	}
	if k == text {
		return string(data), nil
	}
	return data, nil
}

// CheckBackup reads a whole backup and verifies its format and checksum.
func CheckBackup(from io.Reader) (BackupHeader, error) {
	r, err := newBackupReader(from)
	if err != nil {
		return BackupHeader{}, err
	}
	header, err := r.header()
	if err != nil {
		return BackupHeader{}, err
	}
	table, rows := (*backupTable)(nil), func(line []byte) error {
		if !json.Valid(line) {
			return r.fault("is invalid")
		}
		return nil
	}
	for first := true; first || table != nil; first = false {
		if table, err = r.section(rows); err != nil {
			return BackupHeader{}, err
		}
	}
	return header, nil
}
