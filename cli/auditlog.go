package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/control/auditlog"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func newAuditLogCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Export the audit log", Args: cobra.NoArgs, RunE: requireSubcommand}
	var o auditlog.Options
	var since, until string
	exporting := &cobra.Command{
		Use:   "export",
		Short: "Print the audit log, oldest first, as JSON lines or CSV",
		Example: `  toolyard audit export --since 24h > audit.jsonl
  toolyard audit export --format csv --since 2026-11-01 --until 2026-12-01 > november.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !slices.Contains(auditlog.Formats, o.Format) {
				return usageError(fmt.Errorf("--format must be jsonl or csv"))
			}
			if o.Since, err = pastTime(since, a.now()); err != nil {
				return usageError(fmt.Errorf("--since %w", err))
			}
			if o.Until, err = pastTime(until, a.now()); err != nil {
				return usageError(fmt.Errorf("--until %w", err))
			}
			return a.withStore(cmd.Context(), func(s *openStore) error {
				w := bufio.NewWriter(a.out)
				var into io.Writer = w
				if isTerminal(a.out) {
					into = printableWriter{w}
				}
				_, err := auditlog.Write(cmd.Context(), into, s, o)
				return errors.Join(err, w.Flush())
			})
		},
	}
	exporting.Flags().StringVar(&o.Format, "format", auditlog.JSONL, "jsonl or csv")
	exporting.Flags().StringVar(&since, "since", "", "only changes since this time, such as 2026-11-01, 2026-11-01T12:00:00Z or 24h for 24 hours ago (default: all)")
	exporting.Flags().StringVar(&until, "until", "", "only changes before this time (default: now)")
	cmd.AddCommand(exporting)
	return cmd
}

// pastTime parses a day, a time, or a duration before now. An empty text is the zero time.
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
	return time.Time{}, fmt.Errorf("%q is not a time: use 2026-11-01, 2026-11-01T12:00:00Z or 24h", text)
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
