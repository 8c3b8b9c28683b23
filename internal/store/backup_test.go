package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// backupEngines lists the databases between which data can be moved.
var backupEngines = map[string]func(testing.TB) string{
	"sqlite":   engines["sqlite"],
	"postgres": func(t testing.TB) string { return pgtest.ForTest(t).Database(t) },
}

func backUp(t testing.TB, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b, "v1"); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// linesOf returns the lines of a backup, excluding the header and trailer, sorted within each
// table.
func linesOf(t testing.TB, backup []byte) map[string][]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(backup))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	tables, table := make(map[string][]string), ""
	for _, line := range lines[1 : len(lines)-1] {
		if strings.HasPrefix(line, "{") {
			table = line
			tables[table] = []string{}
		} else {
			tables[table] = append(tables[table], line)
		}
	}
	for _, rows := range tables {
		slices.Sort(rows)
	}
	return tables
}

// fillEmptyTables adds a row to each empty table, so that every column is tested.
func fillEmptyTables(t testing.TB, s *Store) {
	t.Helper()
	tables, err := s.schema(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		var rows int
		if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+quoted(table.name)).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if rows > 0 {
			continue
		}
		var names, marks []string
		var values []any
		for i, c := range table.columns {
			names, marks = append(names, quoted(c.name)), append(marks, fmt.Sprintf("$%d", i+1))
			values = append(values, map[kind]any{
				text: "Zoë <&> \U0001F980 " + c.name, number: int64(1) << 60, moment: time.Date(2026, 11, 15, 12, 0, 0, 123456000, time.UTC), blob: bytes.Repeat([]byte{0, 255}, 16),
			}[c.kind])
			if allowed, ok := map[string]string{"state": "done", "grain": "account/day"}[c.name]; ok { // some tables restrict the values
				values[i] = allowed
			}
		}
		text := `INSERT INTO ` + quoted(table.name) + ` (` + strings.Join(names, ", ") + `) VALUES (` + strings.Join(marks, ", ") + `)`
		if _, err := s.db.ExecContext(t.Context(), text, values...); err != nil {
			t.Fatalf("%s: %v", table.name, err)
		}
	}
}

// If a backup is taken while calls are charged, its books balance, and restoring it in either
// database yields the same data.
func TestBackupDuringWrites(t *testing.T) {
	for from, source := range backupEngines {
		t.Run(from, func(t *testing.T) {
			s := openAt(t, source(t))
			record(t, s, "before", 1)
			ctx, stop := context.WithCancel(t.Context())
			var writers sync.WaitGroup
			began := make(chan struct{})
			writers.Go(func() {
				for i := 0; i < 20 && ctx.Err() == nil; i++ {
					record(t, s, fmt.Sprint("during", i), uint64(i))
					if i == 0 {
						close(began)
					}
				}
			})
			<-began
			backups := [][]byte{backUp(t, s)}
			stop()
			writers.Wait()
			fillEmptyTables(t, s)
			backups = append(backups, backUp(t, s))
			balances, err := s.Accounts(t.Context())
			if err != nil || len(balances) == 0 {
				t.Fatal(balances, err)
			}
			for into, target := range backupEngines {
				restored := openAt(t, target(t))
				for i, backup := range backups {
					rows, err := restored.Restore(t.Context(), bytes.NewReader(backup), i > 0)
					if err != nil || rows == 0 {
						t.Fatalf("%s: backup %d: %d rows, %v", into, i, rows, err)
					}
					if i < len(backups)-1 { // the rows that fill empty tables do not balance
						if err := restored.Audit(t.Context()); err != nil {
							t.Errorf("%s: backup %d: %v", into, i, err)
						}
					}
					if diff := cmp.Diff(linesOf(t, backup), linesOf(t, backUp(t, restored))); diff != "" {
						t.Errorf("%s: backup %d differs after it was restored:\n%s", into, i, diff)
					}
				}
				got, err := restored.Accounts(t.Context())
				if diff := cmp.Diff(balances, got); err != nil || diff != "" {
					t.Errorf("%s: balances: %v %s", into, err, diff)
				}
			}
		})
	}
}

func compress(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRestoreRefuses(t *testing.T) {
	for name, address := range backupEngines {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, address(t))
			record(t, s, "books", 3)
			good := backUp(t, s)
			before := linesOf(t, good)
			zip, err := gzip.NewReader(bytes.NewReader(good))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(zip)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Restore(t.Context(), bytes.NewReader(good), false); !errors.Is(err, ErrNotEmpty) {
				t.Error("a store with data:", err)
			}
			var header BackupHeader
			first, rest, _ := strings.Cut(string(text), "\n")
			if err := json.Unmarshal([]byte(first), &header); err != nil {
				t.Fatal(err)
			}
			// forge creates a backup with a valid checksum.
			forge := func(header BackupHeader, lines ...string) []byte {
				var b bytes.Buffer
				w := newBackupWriter(&b)
				if err := w.line(header); err != nil {
					t.Fatal(err)
				}
				for _, line := range lines {
					if strings.HasPrefix(line, "[") {
						w.rows++
					}
					if err := w.line(json.RawMessage(line)); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.close(); err != nil {
					t.Fatal(err)
				}
				return b.Bytes()
			}
			older, other, all := header, header, strings.Split(strings.TrimSpace(rest), "\n")
			older.Schema--
			other.Format = "toolyard-backup/2"
			for what, c := range map[string]struct {
				backup []byte
				want   string
			}{
				"not compressed":   {text, "not a backup"},
				"empty":            {nil, "not a backup"},
				"cut":              {good[:len(good)/2], "damaged"},
				"without trailer":  {compress(t, string(text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1])), "is incomplete"},
				"a changed row":    {compress(t, strings.Replace(string(text), `"fund"`, `"gift"`, 1)), "does not match the preceding"},
				"a line too much":  {compress(t, string(text)+"[]\n"), "not the last"},
				"an older version": {forge(older, all[:len(all)-1]...), "then upgrade"},
				"another format":   {forge(other), "format"},
				"unknown table":    {forge(header, `{"table":"secrets","columns":["id"]}`), "unknown table"},
				"unknown column":   {forge(header, `{"table":"documents","columns":["id"]}`), "columns that differ"},
				"a table twice":    {forge(header, `{"table":"documents","columns":["body","name","version"]}`, `{"table":"documents","columns":["body","name","version"]}`), "unknown table"},
				"a missing value":  {forge(header, `{"table":"documents","columns":["body","name","version"]}`, `["a",1]`), "2 values"},
				"a wrong type":     {forge(header, `{"table":"documents","columns":["body","name","version"]}`, `[{"text":"YQ=="},"a",1]`), "does not match its column's type"},
				"a wrong number":   {forge(header, `{"table":"documents","columns":["body","name","version"]}`, `[{"bytes":"YQ=="},"a",1.5]`), "invalid"},
				"a row at first":   {forge(header, `[1]`), "does not belong to a table"},
				"a broken rule":    {forge(header, `{"table":"documents","columns":["body","name","version"]}`, `[{"bytes":"YQ=="},"a",0]`), "documents"},
			} {
				if _, err := s.Restore(t.Context(), bytes.NewReader(c.backup), true); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: %v, want %q", what, err, c.want)
				}
			}
			if diff := cmp.Diff(before, linesOf(t, backUp(t, s))); diff != "" {
				t.Error("a refused backup changed the store:", diff)
			}
		})
	}
}

// Reading a damaged backup never panics, and a backup that is accepted has the right checksum.
func FuzzCheckBackup(f *testing.F) {
	s := openAt(f, "memory")
	var b bytes.Buffer
	if _, err := s.Backup(context.Background(), &b, "v1"); err != nil {
		f.Fatal(err)
	}
	zip, err := gzip.NewReader(&b)
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(text), "", "{}\n", string(text[:100]), `{"format":"toolyard-backup/1","schema":1,"kind":"sqlite","at":"2026-11-15T12:00:00Z"}` + "\n[]\n"} {
		f.Add(seed, "[null]")
	}
	f.Fuzz(func(t *testing.T, text, row string) {
		header, err := CheckBackup(bytes.NewReader(compress(t, text)))
		if err == nil && header.Format != backupFormat {
			t.Error(header)
		}
		for _, k := range []kind{blob, number, moment} {
			_, _ = (&backupReader{}).values([]byte(row), []kind{k})
		}
	})
}
