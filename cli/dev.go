package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/yard"
)

func (p *program) devCommand() *cobra.Command {
	var how serving
	c := &cobra.Command{
		Use:   "dev [FOLDER]",
		Short: "Serve a folder of TypeScript tools over HTTP and show what happens",
		Args:  cobra.MaximumNArgs(1),
		Example: `  toolyard dev                  # the configured folder, or tools, or example
  toolyard dev my-tools --port 4000`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := how.complete(p); err != nil {
				return exitStatus{exitUsage, err}
			}
			if err := p.chooseFolder(args); err != nil {
				return exitStatus{exitUsage, err}
			}
			return fail(p.dev(c.Context(), how))
		},
	}
	c.Flags().StringVar(&how.port, "port", "", "port on this machine (default: $MCP_PORT or the configured one)")
	return c
}

// chooseFolder finds the folder to serve.
func (p *program) chooseFolder(args []string) error {
	s := &p.opts.Scripts
	if len(args) > 0 {
		s.Dir = args[0]
	}
	if s.Dir != "" {
		if !isFolder(s.Dir) {
			return fmt.Errorf("there is no folder %s; toolyard new NAME makes a first tool", s.Dir)
		}
		return nil
	}
	if p.opts.ConfigFile != "" {
		if c, err := config.Load(p.opts.ConfigFile, p.opts.Getenv); err != nil || c.Scripts != nil {
			return nil //nolint:nilerr // the yard reports it, with all that is wrong
		}
	}
	for _, dir := range []string{"tools", defaultTarget} {
		if isFolder(dir) {
			s.Dir = dir
			return nil
		}
	}
	return errors.New("there is no folder of tools; toolyard new NAME makes a first tool")
}

// dev serves the tools and shows loads, calls and log lines as they happen.
func (p *program) dev(ctx context.Context, how serving) error {
	noColor := p.env("NO_COLOR") != ""
	s := &screen{out: p.out, color: isTerminal(p.out) && !noColor, now: time.Now}
	p.opts.Scripts.OnLoad = s.loaded
	p.opts.Recorders = append(p.opts.Recorders, s)
	p.opts.Log = slog.New(&screenLog{screen: s})
	p.opts.Notes, p.opts.Watch = toolyard.SourceNotesRelative, "full"
	p.letIn()
	p.ready = func(y *yard.Yard, url string) { s.welcome(y, url, p.consoleLink(url)) }
	y, err := yard.New(p.opts)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	return p.serveHTTP(ctx, y, how.listen)
}

// screen is the console of toolyard dev: one line for each thing that happens, and below it
// what is wrong.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
	now   func() time.Time
	first []script.Load // until the yard is ready
	begun bool
	width int // of names
}

// The colors of the console.
const (
	red, green, yellow, blue, dim, bold = "31", "32", "33", "36", "2", "1"
)

// paint colors a text. Whatever a tool or a server wrote goes through it, or through
// untrusted.Printable: no stranger controls the terminal.
func (s *screen) paint(color, text string) string {
	text = untrusted.Printable(text)
	if !s.color || text == "" || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// welcome says what is served and where.
func (s *screen) welcome(y *yard.Yard, url, console string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	v, ok := y.View("")
	if !ok && len(y.Gates()) > 0 {
		v, ok = y.View(y.Gates()[0])
	}
	fmt.Fprintf(s.out, "\n  %s  %s\n  %s  %s\n\n", s.paint(bold, "toolyard dev"), s.paint(blue, url+"/mcp"), s.paint(dim, "console     "), s.paint(blue, console))
	if ok {
		s.table(v)
	}
	fmt.Fprintf(s.out, "\n  %s loaded. Save a file and it is live; Ctrl-C ends.\n\n", plural(len(s.first), "file"))
	for _, p := range y.Problems() {
		s.problem(p)
	}
}

// table lists the tools of a gate.
func (s *screen) table(v *toolyard.View) {
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

// loaded shows how a file was loaded.
func (s *screen) loaded(l script.Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.first = append(s.first, l)
		return
	}
	switch {
	case len(l.Faults) > 0 && len(l.Tools) > 0:
		s.line(red, "✗", l.File, l.Took, s.paint(dim, "the last good version is still served"))
	case len(l.Faults) > 0:
		s.line(red, "✗", l.File, l.Took)
	case len(l.Tools) == 0:
		s.line(yellow, "−", l.File, 0, s.paint(dim, "is gone"))
	default:
		s.line(green, "✓", l.File, l.Took, s.paint(green, "live: ")+untrusted.Printable(strings.Join(l.Tools, ", ")))
	}
	for _, p := range slices.Concat(l.Faults, l.Warned) {
		s.problem(p)
	}
}

// line is one thing that happened: when, what, to whom, and how long it took.
func (s *screen) line(color, mark, name string, took time.Duration, rest ...string) {
	taken := ""
	if took > 0 {
		taken = duration(took)
	}
	rest = slices.DeleteFunc(rest, func(p string) bool { return p == "" })
	fmt.Fprintf(s.out, "  %s %s %s %s  %s\n", s.paint(dim, s.now().Format(time.TimeOnly)), s.paint(color, mark),
		s.paint(bold, pad(name, s.width)), s.paint(dim, fmt.Sprintf("%8s", taken)), strings.Join(rest, "  "))
}

// pad fills a text up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// problem shows what is wrong, where, and the line.
func (s *screen) problem(p toolyard.Problem) {
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

// Outcome implements toolyard.Recorder: each call is a line.
func (s *screen) Outcome(_ context.Context, c *toolyard.Call, o toolyard.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.Repeat("  ", c.Depth) + c.Tool.Name
	arguments := s.paint(dim, shorten(compact(c.Args), 60))
	switch {
	case o.Err != nil:
		s.line(red, "✗", name, o.Elapsed, arguments, s.paint(red, shorten(o.Err.Error(), 120)))
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

// preview is the beginning of a result.
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

// duration is a time as a person reads it.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// screenLog shows log lines of scripts, and of the platform what is a warning or worse.
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
	who := cmp.Or(fields["tool"], fields["source"])
	if reason := fields["error"]; !fromScript && reason != "" {
		r.Message += ": " + reason
	}
	for line := range strings.Lines(r.Message) {
		h.screen.line(dim, "│", who, 0, h.screen.paint(color, strings.TrimRight(line, "\n")))
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h *screenLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &screenLog{h.screen, append(slices.Clone(h.attrs), attrs...)}
}

// WithGroup implements slog.Handler.
func (h *screenLog) WithGroup(string) slog.Handler { return h }
