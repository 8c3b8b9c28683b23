package cli

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"
)

// startLog creates the logger that the configuration specifies.
func (a *app) startLog(level, format, file string) (*slog.Logger, error) {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // cannot fail: the configuration schema has validated it
	out := a.err
	if file = cmp.Or(a.getenv("LOG_FILE"), file); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator's own file
		if err != nil {
			return nil, err
		}
		out = f
	}
	a.opts.Log = slog.New(a.logHandler(out, format, l))
	return a.opts.Log, nil
}

func (a *app) logHandler(out io.Writer, format string, level slog.Level) slog.Handler {
	terminal := isTerminal(out)
	if format == "json" || (format == "auto" && !terminal) {
		o := &slog.HandlerOptions{Level: level}
		if terminal {
			o.ReplaceAttr = printableAttr
		}
		return slog.NewJSONHandler(out, o)
	}
	noColor, _ := a.opts.Process.Getenv("NO_COLOR")
	return tint.NewTextHandler(out, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal || noColor != "", ReplaceAttr: printableAttr})
}

// printableAttr prevents text from scripts and servers from controlling the terminal.
func printableAttr(_ []string, a slog.Attr) slog.Attr {
	text := ""
	switch v := a.Value.Any().(type) {
	case string:
		text = v
	case error:
		text = v.Error()
	default:
		return a
	}
	a.Value = slog.StringValue(strings.Join(printableLines(text), " "))
	return a
}
