package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/yard"
)

// screen is the output of toolyard dev. It prints one line per event, followed by its problems.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
	now   func() time.Time
	first []script.Load // files loaded before the yard was ready
	ready bool
	width int // width of the name column
}

// ANSI colors.
const (
	red, green, yellow, blue, dim, bold = "31", "32", "33", "36", "2", "1"
)

// paint colors a text. All untrusted text must pass through paint or untrusted.Printable, so that
// it cannot control the terminal.
func (s *screen) paint(color, text string) string {
	text = untrusted.Printable(text)
	if !s.color || text == "" || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// showStart prints the addresses, the tools and the problems at startup.
func (s *screen) showStart(y *yard.Yard, url, console string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
	v, ok := y.View("")
	if !ok && len(y.Gates()) > 0 {
		v, ok = y.View(y.Gates()[0])
	}
	fmt.Fprintf(s.out, "\n  %s  %s\n  %s  %s\n\n", s.paint(bold, "toolyard dev"), s.paint(blue, url+"/mcp"), s.paint(dim, "console     "), s.paint(blue, console))
	if ok {
		s.showTools(v)
	}
	fmt.Fprintf(s.out, "\n  %s loaded. Saved files go live immediately. Press Ctrl-C to stop.\n\n", plural(len(s.first), "file"))
	for _, p := range y.Problems() {
		s.showProblem(p)
	}
}

// showTools lists a gate's tools.
func (s *screen) showTools(v *yard.View) {
	s.width = 12
	for _, t := range v.Tools {
		s.width = max(s.width, min(len(t.Name), 32))
	}
	for _, t := range v.Tools {
		mode := s.paint(yellow, "write")
		if t.IsReadOnly() {
			mode = s.paint(green, "read ")
		}
		fmt.Fprintf(s.out, "  %-*s  %s  %s  %s\n", s.width, t.Name, mode, pad(untrusted.Printable(shorten(cmp.Or(t.Summary, t.Description), 64)), 64), s.paint(dim, t.Origin))
	}
	if len(v.Tools) == 0 {
		fmt.Fprintln(s.out, "  No tools yet.")
	}
}

// showLoad prints the result of loading a file.
func (s *screen) showLoad(l script.Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		s.first = append(s.first, l)
		return
	}
	switch {
	case len(l.Faults) > 0 && len(l.Tools) > 0:
		s.line(red, "✗", l.File, l.Took, s.paint(dim, "the last valid version is still served"))
	case len(l.Faults) > 0:
		s.line(red, "✗", l.File, l.Took)
	case len(l.Tools) == 0:
		s.line(yellow, "−", l.File, 0, s.paint(dim, "removed"))
	default:
		s.line(green, "✓", l.File, l.Took, s.paint(green, "live: ")+untrusted.Printable(strings.Join(l.Tools, ", ")))
	}
	for _, p := range slices.Concat(l.Faults, l.Warnings) {
		s.showProblem(p)
	}
}

// line prints one event: time, mark, name and duration.
func (s *screen) line(color, mark, name string, took time.Duration, rest ...string) {
	taken := ""
	if took > 0 {
		taken = formatDuration(took)
	}
	rest = slices.DeleteFunc(rest, func(p string) bool { return p == "" })
	fmt.Fprintf(s.out, "  %s %s %s %s  %s\n", s.paint(dim, s.now().Format(time.TimeOnly)), s.paint(color, mark),
		s.paint(bold, pad(name, s.width)), s.paint(dim, fmt.Sprintf("%8s", taken)), strings.Join(rest, "  "))
}

// showProblem prints a problem with its position and source line.
func (s *screen) showProblem(p toolyard.Problem) {
	place, color := p.Subject, red
	switch {
	case p.File != "" && p.Line > 0:
		place = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	case p.File != "":
		place = p.File
	}
	if p.Warning {
		color = yellow
	}
	fmt.Fprintf(s.out, "      %s %s\n", s.paint(color, place), untrusted.Printable(p.Message))
	for line := range strings.Lines(p.Frame) {
		fmt.Fprintf(s.out, "        %s\n", s.paint(dim, strings.TrimRight(line, "\n")))
	}
	if p.Fix != "" {
		fmt.Fprintf(s.out, "        %s\n", untrusted.Printable(p.Fix))
	}
}

// Intent implements toolyard.Recorder.
func (s *screen) Intent(context.Context, *toolyard.Call) error { return nil }

// Outcome implements toolyard.Recorder. It prints one line for each call.
func (s *screen) Outcome(_ context.Context, c *toolyard.Call, o toolyard.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.Repeat("  ", c.Depth) + c.Tool.Name
	arguments := s.paint(dim, shorten(compact(c.Args), 60))
	switch {
	case o.Err != nil:
		s.line(red, "✗", name, o.Elapsed, arguments, s.paint(red, shorten(o.Err.Redacted().Error(), 120)))
		var thrown *script.Thrown
		if errors.As(o.Err.Err, &thrown) && thrown.Stack != "" {
			for frame := range strings.Lines(thrown.Stack) {
				fmt.Fprintf(s.out, "               %s\n", s.paint(dim, strings.TrimSpace(frame)))
			}
		}
	case o.Result.IsError:
		s.line(red, "✗", name, o.Elapsed, arguments, s.paint(red, preview(o.Result)))
	default:
		s.line(blue, "→", name, o.Elapsed, arguments, untrusted.Printable(preview(o.Result)))
	}
}

// preview returns the beginning of a result.
func preview(r *toolyard.Result) string {
	if len(r.Content) == 0 {
		return shorten(string(r.Raw()), 80)
	}
	if t, ok := r.Content[0].(toolyard.Text); ok {
		return shorten(string(t), 80)
	}
	return shorten(string(r.Content[0].AppendJSON(nil)), 80)
}

func compact(raw json.RawMessage) string { return strings.Join(strings.Fields(string(raw)), " ") }

// screenLog shows log lines from scripts, and warnings and errors from the platform.
type screenLog struct {
	screen *screen
	attrs  []slog.Attr
}

// Enabled implements slog.Handler.
func (h *screenLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *screenLog) Handle(_ context.Context, r slog.Record) error {
	fields := make(map[string]string)
	collect := func(a slog.Attr) bool {
		fields[a.Key] = a.Value.String()
		return true
	}
	for _, a := range h.attrs {
		collect(a)
	}
	r.Attrs(collect)
	fromScript := fields["script"] != ""
	if r.Message == "call" || r.Message == "problem" || (!fromScript && r.Level < slog.LevelWarn) {
		return nil
	}
	h.screen.mu.Lock()
	defer h.screen.mu.Unlock()
	color := map[slog.Level]string{slog.LevelWarn: yellow, slog.LevelError: red}[r.Level]
	name := cmp.Or(fields["tool"], fields["source"])
	if reason := fields["error"]; !fromScript && reason != "" {
		r.Message += ": " + reason
	}
	for line := range strings.Lines(r.Message) {
		h.screen.line(dim, "│", name, 0, h.screen.paint(color, strings.TrimRight(line, "\n")))
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h *screenLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &screenLog{h.screen, append(slices.Clone(h.attrs), attrs...)}
}

// WithGroup implements slog.Handler.
func (h *screenLog) WithGroup(string) slog.Handler { return h }
