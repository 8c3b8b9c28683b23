package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/control/auditlog"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/telemetry"
	"github.com/toolyard/toolyard/internal/trust/safefile"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// otlpFormat selects sending the audit log to a collector instead of writing it.
const otlpFormat = "otlp"

// auditExport implements toolyard audit export.
type auditExport struct {
	*app
	format, since, until, cursorFile string
	follow                           bool
}

func newAuditLogCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Export the audit log", Args: cobra.NoArgs, RunE: requireSubcommand}
	c := &auditExport{app: a}
	exporting := &cobra.Command{
		Use:   "export",
		Short: "Export the audit log, oldest first, as JSON lines, CSV or OpenTelemetry log records",
		Long: `Export the audit log, oldest first: as JSON lines or CSV on standard output, or as OpenTelemetry log
records to the collector that the OTEL_ variables specify.

--cursor-file stores the position after the last exported change; the next run continues from there.
With --cursor-file or --follow, a change is exported once it is 10 s old and its outcome is known, or
after 5 minutes at the latest, so that later runs do not miss any changes.`,
		Example: `  toolyard audit export --since 24h > audit.jsonl
  toolyard audit export --format csv --since 2026-11-01 --until 2026-12-01 > november.csv
  toolyard audit export --follow --cursor-file audit.cursor >> audit.jsonl
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 toolyard audit export --format otlp --cursor-file audit.cursor`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := exporting.Flags()
	flags.StringVar(&c.format, "format", auditlog.JSONL, "jsonl, csv or otlp")
	flags.StringVar(&c.since, "since", "", "only changes since this time, such as 2026-11-01, 2026-11-01T12:00:00Z or 24h for 24 hours ago (default: all)")
	flags.StringVar(&c.until, "until", "", "only changes before this time (default: now)")
	flags.BoolVarP(&c.follow, "follow", "f", false, "continue with new changes until interrupted")
	flags.StringVar(&c.cursorFile, "cursor-file", "", "file that stores the position; continue there if it exists")
	cmd.AddCommand(exporting)
	return cmd
}

func (c *auditExport) run(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return usageError(err)
	}
	resumes := c.cursorFile != ""
	if resumes {
		if o.After, err = readCursor(c.cursorFile); err != nil {
			return fail(err)
		}
	}
	return c.withStore(ctx, func(s *openStore) error {
		sink, closeSink, err := c.sink(ctx)
		if err != nil {
			return err
		}
		if resumes {
			sink = savePosition(sink, c.cursorFile)
		}
		var n int
		switch {
		case c.follow:
			err = auditlog.Follow(ctx, s, &o, c.now, sink)
		case resumes:
			n, err = auditlog.ExportSettled(ctx, s, &o, c.now(), sink)
		default:
			n, err = auditlog.Export(ctx, s, o, sink)
		}
		if err == nil && c.format == otlpFormat && !c.follow {
			_, err = fmt.Fprintf(c.out, "exported %s\n", plural(n, "change"))
		}
		return errors.Join(err, closeSink(context.WithoutCancel(ctx)))
	})
}

// options validates the flags.
func (c *auditExport) options() (o auditlog.Options, err error) {
	if !slices.Contains(append([]string{otlpFormat}, auditlog.Formats...), c.format) {
		return o, fmt.Errorf("--format must be jsonl, csv or otlp")
	}
	if c.format == auditlog.CSV && (c.follow || c.cursorFile != "") {
		return o, fmt.Errorf("--follow and --cursor-file require --format jsonl or otlp, because the parts of a CSV export cannot be joined")
	}
	if c.follow && c.until != "" {
		return o, fmt.Errorf("--follow and --until cannot be combined")
	}
	if o.Since, err = pastTime(c.since, c.now()); err != nil {
		return o, fmt.Errorf("--since %w", err)
	}
	if o.Until, err = pastTime(c.until, c.now()); err != nil {
		return o, fmt.Errorf("--until %w", err)
	}
	return o, nil
}

// sink returns the destination of the changes and a function that closes it.
func (c *auditExport) sink(ctx context.Context) (auditlog.Sink, func(context.Context) error, error) {
	if c.format == otlpFormat {
		return c.collector(ctx)
	}
	w := bufio.NewWriter(c.out)
	var into io.Writer = w
	if isTerminal(c.out) {
		into = printableWriter{w}
	}
	write, err := auditlog.NewWriter(into, c.format)
	sink := func(ctx context.Context, page []*store.Change) error {
		return errors.Join(write(ctx, page), w.Flush())
	}
	return sink, func(context.Context) error { return w.Flush() }, err
}

func (c *auditExport) collector(ctx context.Context) (auditlog.Sink, func(context.Context) error, error) {
	source, err := c.loadConfig()
	if err != nil {
		return nil, nil, err
	}
	sender, err := telemetry.NewAuditSender(ctx, source.Name, c.opts.Process.Version, c.opts.Process.Getenv)
	if err != nil {
		return nil, nil, fmt.Errorf("--format otlp: %w", err)
	}
	sink := func(ctx context.Context, page []*store.Change) error {
		changes := make([]telemetry.Change, len(page))
		for i, e := range page {
			changes[i] = telemetry.Change{ID: e.ID, At: e.At, Caller: e.Caller, Account: e.Account, Action: e.Action, Subject: e.Subject, Remote: e.Remote, Status: e.Status, Detail: string(e.Detail)}
		}
		return sender.Send(ctx, changes)
	}
	return sink, sender.Close, nil
}

// cursor is the content of a cursor file.
type cursor struct {
	At time.Time `json:"at"`
	ID string    `json:"id"`
}

// readCursor returns the position in a cursor file, or zero if there is no file.
func readCursor(name string) (store.Cursor, error) {
	data, err := safefile.Read(name, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return store.Cursor{}, nil
	}
	var at cursor
	if err == nil && (json.Unmarshal(data, &at) != nil || at.At.IsZero() || at.ID == "") {
		err = errors.New("not a valid cursor; delete the file to export all changes again")
	}
	if err != nil {
		return store.Cursor{}, fmt.Errorf("--cursor-file %s: %w", name, err)
	}
	return store.Cursor(at), nil
}

// savePosition wraps a sink so that the position is stored after each exported page. If the process
// ends in between, the page is exported again.
func savePosition(sink auditlog.Sink, name string) auditlog.Sink {
	return func(ctx context.Context, page []*store.Change) error {
		if err := sink(ctx, page); err != nil {
			return err
		}
		last := page[len(page)-1]
		data, err := json.Marshal(cursor{At: last.At, ID: last.ID})
		if err != nil {
			return err
		}
		return safefile.Write(name, append(data, '\n'), 0o600)
	}
}

// pastTime parses a date, a time or a duration before now. An empty string is the zero time.
func pastTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a valid time: use 2026-11-01, 2026-11-01T12:00:00Z or 24h", text)
}

// printableWriter makes text safe for a terminal.
type printableWriter struct{ w io.Writer }

func (p printableWriter) Write(data []byte) (int, error) {
	for line := range strings.Lines(string(data)) {
		text, ended := strings.CutSuffix(line, "\n")
		if text = untrusted.Printable(text); ended {
			text += "\n"
		}
		if _, err := io.WriteString(p.w, text); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}
