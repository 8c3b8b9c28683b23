// Package auditlog exports the audit log in formats that other programs can read.
package auditlog

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
)

// The formats.
const (
	JSONL = "jsonl" // one JSON object per line, as in the API
	CSV   = "csv"   // includes a header; cells that a spreadsheet would evaluate start with an apostrophe
)

// Formats lists the formats.
var Formats = []string{JSONL, CSV}

// Source is an audit log.
type Source interface {
	Changes(context.Context, store.ChangeQuery) ([]*store.Change, error)
}

// Sink exports a page of changes. If it returns nil, the page counts as exported.
type Sink func(context.Context, []*store.Change) error

// Options selects the changes to export.
type Options struct {
	Since, Until time.Time    // zero for no limit; Until is exclusive
	After        store.Cursor // exports only changes after this position; zero for all
}

// batch is the number of changes held in memory. Each has up to 64 KiB of details.
const batch = 100

// Export exports changes, oldest first, and returns their number. It reads them page by page, so it
// includes changes made in the meantime if they are before Until.
func Export(ctx context.Context, from Source, o Options, sink Sink) (n int, err error) {
	for {
		page, err := from.Changes(ctx, o.query())
		if err != nil {
			return n, err
		}
		if len(page) == 0 {
			return n, nil
		}
		if err := sink(ctx, page); err != nil {
			return n, err
		}
		if n += len(page); len(page) < batch {
			return n, nil
		}
		o.After = position(page)
	}
}

// A replica stores a change with its own clock before making it, and completes it afterwards.
const (
	settleTime  = 10 * time.Second // changes older than this are already stored, even if the replicas' clocks differ
	pendingTime = 5 * time.Minute  // a change that still has no outcome after this time never gets one: its replica was killed
	pollTime    = time.Second
)

// ExportSettled exports the changes that are final, oldest first, and advances o.After past each
// exported page. If it is called again later, it exports only the changes since then.
func ExportSettled(ctx context.Context, from Source, o *Options, now time.Time, sink Sink) (n int, err error) {
	selected := *o
	if settled := now.Add(-settleTime); o.Until.IsZero() || settled.Before(o.Until) {
		selected.Until = settled
	}
	for {
		selected.After = o.After
		page, err := from.Changes(ctx, selected.query())
		if err != nil {
			return n, err
		}
		settled := page
		if i := slices.IndexFunc(page, func(c *store.Change) bool { return c.Status == 0 && now.Sub(c.At) < pendingTime }); i >= 0 {
			settled = page[:i]
		}
		if len(settled) == 0 {
			return n, nil
		}
		if err := sink(ctx, settled); err != nil {
			return n, err
		}
		n += len(settled)
		o.After = position(settled)
		if len(settled) < batch {
			return n, nil
		}
	}
}

// Follow exports settled changes until ctx ends or an error occurs. A canceled ctx is not an error.
func Follow(ctx context.Context, from Source, o *Options, now func() time.Time, sink Sink) error {
	for {
		if _, err := ExportSettled(ctx, from, o, now(), sink); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollTime):
		}
	}
}

func (o Options) query() store.ChangeQuery {
	return store.ChangeQuery{Since: o.Since, Until: o.Until, Before: o.After, Oldest: true, Limit: batch}
}

// position returns the position after a page.
func position(page []*store.Change) store.Cursor {
	last := page[len(page)-1]
	return store.Cursor{At: last.At, ID: last.ID}
}

// NewWriter returns a sink that writes one of the Formats.
func NewWriter(w io.Writer, format string) (Sink, error) {
	if format == CSV {
		return csvWriter(w)
	}
	return jsonWriter(w), nil
}

func jsonWriter(w io.Writer) Sink {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(_ context.Context, page []*store.Change) error {
		for _, c := range page {
			if err := enc.Encode(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func csvWriter(w io.Writer) (Sink, error) {
	table := csv.NewWriter(w)
	if err := table.Write([]string{"id", "at", "caller", "account", "action", "subject", "status", "remote", "detail"}); err != nil {
		return nil, err
	}
	table.Flush()
	return func(_ context.Context, page []*store.Change) error {
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

// Cell escapes a text so that spreadsheets don't evaluate it as a formula.
func Cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
