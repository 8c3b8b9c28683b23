// Package auditlog writes the audit log in formats for other programs.
package auditlog

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// The formats.
const (
	JSONL = "jsonl" // one JSON object per line, as in the API
	CSV   = "csv"   // with a header; cells that a spreadsheet would evaluate start with an apostrophe
)

// Formats lists the formats.
var Formats = []string{JSONL, CSV}

// Source is an audit log.
type Source interface {
	Changes(context.Context, store.ChangeQuery) ([]*store.Change, error)
}

// Options select changes and a format.
type Options struct {
	Format       string
	Since, Until time.Time // zero for all; changes at Until are left out
}

// batch is the number of changes in memory, with details of up to 64 KiB each.
const batch = 100

// Write writes changes, oldest first, and returns their number. It reads them in pages: changes
// made in the meantime are included if they are before Until.
func Write(ctx context.Context, w io.Writer, from Source, o Options) (n int, err error) {
	write := jsonWriter(w)
	if o.Format == CSV {
		if write, err = csvWriter(w); err != nil {
			return 0, err
		}
	}
	q := store.ChangeQuery{Since: o.Since, Until: o.Until, Oldest: true, Limit: batch}
	for {
		page, err := from.Changes(ctx, q)
		if err != nil {
			return n, err
		}
		if err := write(page); err != nil {
			return n, err
		}
		if n += len(page); len(page) < batch {
			return n, nil
		}
		last := page[len(page)-1]
		q.Before = store.Cursor{At: last.At, ID: last.ID}
	}
}

func jsonWriter(w io.Writer) func([]*store.Change) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(page []*store.Change) error {
		for _, c := range page {
			if err := enc.Encode(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func csvWriter(w io.Writer) (func([]*store.Change) error, error) {
	table := csv.NewWriter(w)
	if err := table.Write([]string{"id", "at", "caller", "account", "action", "subject", "status", "remote", "detail"}); err != nil {
		return nil, err
	}
	table.Flush()
	return func(page []*store.Change) error {
		for _, c := range page {
			cells := []string{c.ID, c.At.UTC().Format(time.RFC3339Nano), c.Caller, c.Account, c.Action, c.Subject, strconv.Itoa(c.Status), c.Remote, string(c.Detail)}
			for i, cell := range cells {
				cells[i] = Cell(cell)
			}
			if err := table.Write(cells); err != nil {
				return err
			}
		}
		table.Flush()
		return table.Error()
	}, table.Error()
}

// Cell prevents spreadsheets from evaluating a text as a formula.
func Cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
