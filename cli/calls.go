package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Bounds on how many calls are printed.
const (
	defaultCalls = 100
	maxCalls     = 100_000
)

// callsFlags are the flags of toolyard calls.
type callsFlags struct {
	failed, asCSV, asJSON bool
	tool, caller          string
	since                 time.Duration
	limit                 int
}

func (p *program) callsCommand() *cobra.Command {
	var f callsFlags
	c := &cobra.Command{
		Use:   "calls",
		Short: "Print recorded calls, the newest first, as a table, CSV or JSON",
		Example: `  toolyard calls --failed --since 24h
  toolyard calls --tool github/search_code --caller alice
  toolyard calls --failed --csv --limit 10000 > failed.csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return exitStatus{exitUsage, err}
			}
			return p.withStore(c.Context(), func(s *store.Store) error { return p.calls(c.Context(), s, f) })
		},
	}
	c.Flags().BoolVar(&f.failed, "failed", false, "only calls that failed")
	c.Flags().StringVar(&f.tool, "tool", "", "only calls of this tool: TOOL, or SERVER/TOOL")
	c.Flags().StringVar(&f.caller, "caller", "", "only calls of this caller")
	c.Flags().DurationVar(&f.since, "since", 0, "only calls that began within this time, such as 24h (default: all that are kept)")
	c.Flags().IntVar(&f.limit, "limit", defaultCalls, fmt.Sprintf("how many calls to print, at most %d", maxCalls))
	c.Flags().BoolVar(&f.asCSV, "csv", false, "print CSV")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("csv", "json")
	return c
}

func (f callsFlags) check() error {
	switch {
	case f.limit < 1 || f.limit > maxCalls:
		return fmt.Errorf("--limit must be between 1 and %d", maxCalls)
	case f.since < 0:
		return errors.New("--since is how long ago, such as 24h; it cannot be negative")
	}
	return nil
}

func (f callsFlags) query(now time.Time) store.CallQuery {
	q := store.CallQuery{Failed: f.failed, Tool: f.tool, Caller: f.caller}
	if server, tool, ok := strings.Cut(f.tool, "/"); ok {
		q.Server, q.Tool = server, tool
	}
	if f.since > 0 {
		q.Since = now.Add(-f.since)
	}
	return q
}

// calls prints the calls that the flags select, and on standard error from which store they are
// and whether there are more.
func (p *program) calls(ctx context.Context, s *store.Store, f callsFlags) error {
	fmt.Fprintf(p.err, "store: %s\n", untrusted.Printable(storeName(p.opened)))
	rows, err := readCalls(ctx, s, f.query(p.now()), f.limit+1)
	if err != nil {
		return err
	}
	if len(rows) > f.limit {
		rows = rows[:f.limit]
		fmt.Fprintf(p.err, "Only the newest %d calls are printed; use --limit for more.\n", f.limit)
	}
	switch {
	case f.asJSON:
		return writeJSON(p.out, rows)
	case f.asCSV:
		return p.callsCSV(rows)
	}
	return p.callsTable(rows)
}

// readCalls reads up to limit calls, page by page.
func readCalls(ctx context.Context, s *store.Store, q store.CallQuery, limit int) ([]*store.CallRow, error) {
	rows := []*store.CallRow{} // a list in JSON too if there are none
	for len(rows) < limit {
		q.Limit = min(limit-len(rows), store.MaxCalls)
		page, err := s.Calls(ctx, q)
		if err != nil {
			return nil, err
		}
		rows = append(rows, page...)
		if len(page) < q.Limit {
			break
		}
		last := page[len(page)-1]
		q.Before = store.Cursor{At: last.At, ID: last.ID}
	}
	return rows, nil
}

func (p *program) callsTable(rows []*store.CallRow) error {
	if len(rows) == 0 {
		fmt.Fprintln(p.out, "No calls.")
		return nil
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME (UTC)\tTOOL\tCODE\tMS\tUSD\tCALLER\tGATE\tID\tMESSAGE")
	for _, r := range rows {
		cells := []string{
			r.At.Format(time.DateTime), toolOf(r), string(r.Code), millis(r.Elapsed), price(r.Price), r.Caller, r.Gate, r.ID, shorten(r.Message, 70),
		}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(untrusted.Printable(cell), "\t", " ")
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}

// toolOf is the tool of a call, with its server if it has one.
func toolOf(r *store.CallRow) string {
	if r.Server == "" {
		return r.Tool
	}
	return r.Server + "/" + r.Tool
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', -1, 64)
}

func price(m toolyard.Money) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

func (p *program) callsCSV(rows []*store.CallRow) error {
	terminal := isTerminal(p.out)
	w := csv.NewWriter(p.out)
	_ = w.Write([]string{"id", "at", "elapsedMs", "gate", "mode", "caller", "account", "session", "server", "tool", "code", "priceUsd", "argsBytes", "resultBytes", "parent", "message"})
	for _, r := range rows {
		cells := []string{
			r.ID, r.At.Format(time.RFC3339Nano), millis(r.Elapsed), r.Gate, string(r.Mode), r.Caller, r.Account, r.Session, r.Server, r.Tool,
			string(r.Code), r.Price.String(), strconv.Itoa(r.ArgsSize), strconv.Itoa(r.ResultSize), r.Parent, r.Message,
		}
		for i, cell := range cells {
			if terminal {
				cell = untrusted.Printable(cell)
			}
			cells[i] = plainCell(cell)
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return w.Error()
}

// plainCell keeps spreadsheets from taking a text for a formula.
func plainCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
