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
	"github.com/toolyard/toolyard/internal/control/auditlog"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// How many calls to print.
const (
	defaultCalls = 100
	maxCalls     = 100_000
)

// callsCommand prints recorded calls.
type callsCommand struct {
	*app
	failed, asCSV, asJSON bool
	tool, caller          string
	since                 time.Duration
	limit                 int
}

func newCallsCommand(a *app) *cobra.Command {
	c := &callsCommand{app: a}
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Print recorded calls, newest first, as a table, CSV or JSON",
		Example: `  toolyard calls --failed --since 24h
  toolyard calls --tool github/search_code --caller alice
  toolyard calls --failed --csv --limit 10000 > failed.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.checkFlags(); err != nil {
				return usageError(err)
			}
			return a.withStore(cmd.Context(), func(s *openStore) error { return c.run(cmd.Context(), s) })
		},
	}
	cmd.Flags().BoolVar(&c.failed, "failed", false, "only calls that failed")
	cmd.Flags().StringVar(&c.tool, "tool", "", "only calls to this tool: TOOL, or SERVER/TOOL")
	cmd.Flags().StringVar(&c.caller, "caller", "", "only calls by this caller")
	cmd.Flags().DurationVar(&c.since, "since", 0, "only calls that started within this time, such as 24h (default: all recorded calls)")
	cmd.Flags().IntVar(&c.limit, "limit", defaultCalls, fmt.Sprintf("number of calls to print, at most %d", maxCalls))
	cmd.Flags().BoolVar(&c.asCSV, "csv", false, "print CSV")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	cmd.MarkFlagsMutuallyExclusive("csv", "json")
	return cmd
}

func (c *callsCommand) checkFlags() error {
	switch {
	case c.limit < 1 || c.limit > maxCalls:
		return fmt.Errorf("--limit must be between 1 and %d", maxCalls)
	case c.since < 0:
		return errors.New("--since must be a positive duration, such as 24h")
	}
	return nil
}

func (c *callsCommand) query(now time.Time) store.CallQuery {
	q := store.CallQuery{Failed: c.failed, Tool: c.tool, Caller: c.caller}
	if server, tool, ok := strings.Cut(c.tool, "/"); ok {
		q.Server, q.Tool = server, tool
	}
	if c.since > 0 {
		q.Since = now.Add(-c.since)
	}
	return q
}

// run prints the calls that the flags select. It prints the store, and whether there are more
// calls, to standard error.
func (c *callsCommand) run(ctx context.Context, s *openStore) error {
	fmt.Fprintf(c.err, "store: %s\n", s.name())
	rows, err := readCalls(ctx, s, c.query(c.now()), c.limit+1)
	if err != nil {
		return err
	}
	if len(rows) > c.limit {
		rows = rows[:c.limit]
		fmt.Fprintf(c.err, "Showing the newest %d calls; use --limit for more.\n", c.limit)
	}
	switch {
	case c.asJSON:
		return writeJSON(c.out, rows)
	case c.asCSV:
		return c.printCSV(rows)
	}
	return c.printTable(rows)
}

// readCalls reads up to limit calls, page by page.
func readCalls(ctx context.Context, s *openStore, q store.CallQuery, limit int) ([]*store.CallRow, error) {
	rows := []*store.CallRow{} // JSON needs [], not null
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

func (c *callsCommand) printTable(rows []*store.CallRow) error {
	if len(rows) == 0 {
		fmt.Fprintln(c.out, "No calls.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME (UTC)\tTOOL\tCODE\tMS\tUSD\tCALLER\tGATE\tID\tMESSAGE")
	for _, r := range rows {
		cells := []string{
			r.At.Format(time.DateTime), qualifiedTool(r), string(r.Code), formatMillis(r.Elapsed), formatPrice(r.Price), r.Caller, r.Gate, r.ID, shorten(r.Message, 70),
		}
		for i, cell := range cells {
			cells[i] = strings.ReplaceAll(untrusted.Printable(cell), "\t", " ")
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}

// qualifiedTool returns the name of the call's tool, prefixed with its server if it has one.
func qualifiedTool(r *store.CallRow) string {
	if r.Server == "" {
		return r.Tool
	}
	return r.Server + "/" + r.Tool
}

func formatMillis(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', -1, 64)
}

func formatPrice(m toolyard.Money) string {
	if m == 0 {
		return "-"
	}
	return m.String()
}

func (c *callsCommand) printCSV(rows []*store.CallRow) error {
	terminal := isTerminal(c.out)
	w := csv.NewWriter(c.out)
	_ = w.Write([]string{"id", "at", "elapsedMs", "gate", "mode", "caller", "account", "session", "server", "tool", "code", "priceUsd", "argsBytes", "resultBytes", "parent", "message"})
	for _, r := range rows {
		cells := []string{
			r.ID, r.At.Format(time.RFC3339Nano), formatMillis(r.Elapsed), r.Gate, string(r.Mode), r.Caller, r.Account, r.Session, r.Server, r.Tool,
			string(r.Code), r.Price.String(), strconv.Itoa(r.ArgsSize), strconv.Itoa(r.ResultSize), r.Parent, r.Message,
		}
		for i, cell := range cells {
			if terminal {
				cell = untrusted.Printable(cell)
			}
			cells[i] = auditlog.Cell(cell)
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return w.Error()
}
