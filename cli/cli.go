// Package cli is the toolyard command line. A Go program that calls Main has the same
// commands for its own tools:
//
//	func main() { cli.Main(yard.Options{Tools: []*toolyard.Tool{greet}}) }
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/yard"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // something is wrong with the configuration, the tools or the network
	exitUsage = 2 // the command line cannot be understood
	exitTool  = 5 // the tool ran and failed, or refused its arguments
)

// Main runs the command line of this process and exits.
func Main(opts yard.Options) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal does not ask
	code := Run(ctx, opts, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, opts yard.Options, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if opts.Getenv == nil {
		opts.Getenv = os.LookupEnv //nolint:forbidigo // the edge
	}
	if opts.Version == "" {
		opts.Version = buildVersion()
	}
	out := &checkedWriter{w: stdout}
	p := &program{opts: opts, in: stdin, out: out, err: stderr}
	root := p.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = fail(out.err)
	}
	var exit exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			p.complain(exit.err)
		}
		return exit.code
	}
	fmt.Fprintf(stderr, "%v\nSee 'toolyard --help'.\n", err)
	return exitUsage
}

// checkedWriter remembers the first error of a writer, so that nobody has to ask.
type checkedWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (c *checkedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// exitStatus ends the program with a code.
type exitStatus struct {
	code int
	err  error // nil when everything has been said
}

func (e exitStatus) Error() string { return fmt.Sprint(e.err) }

func fail(err error) error {
	if err == nil {
		return nil
	}
	return exitStatus{exitError, err}
}

// program is one run of the command line.
type program struct {
	opts     yard.Options
	in       io.Reader
	out, err io.Writer
	gate     string
	opened   string                         // the address of the store that was opened last
	ready    func(y *yard.Yard, url string) // tells that HTTP is served
}

// complain writes an error for a person: each fault of a configuration on its own line,
// with its fix.
func (p *program) complain(err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		fmt.Fprintf(p.err, "error: %s\n", strings.Join(slices.Compact(printableLines(err.Error())), "\n       "))
		return
	}
	p.complainOf(faults)
}

// printableLines are the lines of a text as they may be shown on a terminal.
func printableLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(untrusted.Printable(strings.TrimRight(line, "\r\n"))))
	}
	return lines
}

func (p *program) complainOf(problems []toolyard.Problem) {
	for _, problem := range problems {
		kind := "error"
		if problem.Warning {
			kind = "warning"
		}
		fmt.Fprintf(p.err, "%s: %s\n", kind, untrusted.Printable(problem.String()))
		for line := range strings.Lines(problem.Frame) {
			fmt.Fprintf(p.err, "       %s\n", untrusted.Printable(strings.TrimRight(line, "\r\n")))
		}
		if problem.Fix != "" {
			fmt.Fprintf(p.err, "       %s\n", untrusted.Printable(problem.Fix))
		}
	}
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "toolyard",
		Short:         "The tool platform for AI agents: one governed set of tools, served over MCP.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       p.opts.Version,
	}
	root.PersistentFlags().StringVarP(&p.opts.ConfigFile, "config", "c", "", "configuration file (default: toolyard.yaml if it is there)")
	root.PersistentFlags().StringVar(&p.opts.Store, "store", "", "store to use, such as postgres://user@host/database or sqlite:path; the configuration is taken from there too if there is no file (default: $TOOLYARD_STORE, or the configured one)")
	root.PersistentFlags().StringVarP(&p.gate, "gate", "g", "", "gate to use (default: the one at /mcp)")
	root.PersistentFlags().StringVar(&p.opts.Scripts.Dir, "target", "", "folder of TypeScript tools (default: $MCP_TARGET, the configured one, or example)")
	root.PersistentFlags().StringVar(&p.opts.Scripts.Glob, "glob", "", "which files in it are tools (default: $MCP_GLOB, the configured one, or **/*.ts)")
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		p.findConfig()
		return p.findScripts(c.Name() == "dev" || c.Name() == "new")
	}
	root.AddCommand(p.serveCommand(), p.devCommand(), p.demoCommand(), p.newCommand(), p.toolsCommand(), p.callCommand(), p.callsCommand(), p.checkCommand(), p.applyCommand(), p.approveCommand(), p.whyCommand(), p.keysCommand(), p.accountsCommand(), p.importCommand(), p.installCommand(), p.schemaCommand(), p.versionCommand())
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

// findConfig takes the file of this folder if no flag names one, and the store of the
// environment. A program that another yard started as its server does not: the folder is that
// of the other one's file, and by it the program would start itself over and over.
func (p *program) findConfig() {
	if p.env(subprocess.MarkVariable) != "" {
		return
	}
	p.opts.Store = cmp.Or(p.opts.Store, p.env("TOOLYARD_STORE"))
	if p.opts.ConfigFile == "" {
		if _, err := os.Stat(config.File); err == nil {
			p.opts.ConfigFile = config.File
		}
	}
}

// defaultTarget is the folder of scripts when nothing says otherwise.
const defaultTarget = "example"

// findScripts takes the folder of scripts from the environment if no flag names one. A
// program that has no tools of its own and no configuration looks for a folder, unless the
// command chooses one by itself.
func (p *program) findScripts(choosesItself bool) error {
	s := &p.opts.Scripts
	s.Cache = cmp.Or(s.Cache, script.DefaultCacheDir())
	s.Dir, s.Glob = cmp.Or(s.Dir, p.env("MCP_TARGET")), cmp.Or(s.Glob, p.env("MCP_GLOB"))
	if s.Dir == "" && p.opts.ConfigFile == "" && p.opts.Store == "" && len(p.opts.Tools) == 0 && isFolder(defaultTarget) && !choosesItself {
		s.Dir = defaultTarget
		return nil
	}
	if s.Dir != "" && !isFolder(s.Dir) {
		return exitStatus{exitUsage, fmt.Errorf("there is no folder %s for --target or MCP_TARGET", s.Dir)}
	}
	return nil
}

func (p *program) env(name string) string {
	value, _ := p.opts.Getenv(name)
	return value
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
		fmt.Fprintln(p.out, "toolyard", p.opts.Version)
	}}
}

func (p *program) schemaCommand() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "Print the JSON Schema of toolyard.yaml, for editors", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
		contexts := make(map[string]*toolyard.Schema, len(p.opts.ProviderKinds))
		for kind, k := range p.opts.ProviderKinds {
			contexts[kind] = k.Settings
		}
		_, _ = p.out.Write(config.Schema(contexts))
	}}
}

// buildVersion is what go install or go build knew.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// startLog makes the logger that the configuration asks for.
func (p *program) startLog(level, format, file string) (*slog.Logger, error) {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // the schema knows only good ones
	out := p.err
	if file = cmp.Or(p.env("LOG_FILE"), file); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator's own file
		if err != nil {
			return nil, err
		}
		out = f
	}
	p.opts.Log = slog.New(p.logHandler(out, format, l))
	return p.opts.Log, nil
}

func (p *program) logHandler(out io.Writer, format string, level slog.Level) slog.Handler {
	terminal := isTerminal(out)
	if format == "json" || (format == "auto" && !terminal) {
		o := &slog.HandlerOptions{Level: level}
		if terminal {
			o.ReplaceAttr = printableAttr
		}
		return slog.NewJSONHandler(out, o)
	}
	noColor, _ := p.opts.Getenv("NO_COLOR")
	return tint.NewTextHandler(out, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !terminal || noColor != "", ReplaceAttr: printableAttr})
}

// printableAttr keeps the texts of scripts and servers from controlling a terminal.
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

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	if c, ok := stream.(*checkedWriter); ok {
		stream = c.w
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
