package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/trust/subprocess"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/yard"
)

// app is one run of the command line: the options and streams that all commands share.
type app struct {
	opts     yard.Options
	in       io.Reader
	out, err io.Writer
	gate     string
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "toolyard",
		Short:         "MCP gateway and tool platform: serve tools to AI agents, with access control and a record of every call.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       a.opts.Process.Version,
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.opts.ConfigFile, "config", "c", "", "configuration file (default: toolyard.yaml, if it exists)")
	flags.StringVar(&a.opts.Store, "store", "", "store, such as postgres://user@host/database or sqlite:path; without a configuration file, the configuration is read from it too (default: $TOOLYARD_STORE, or the configured store)")
	flags.StringVarP(&a.gate, "gate", "g", "", "gate to use (default: the gate at /mcp)")
	flags.StringVar(&a.opts.Scripts.Dir, "target", "", "folder with TypeScript tools (default: $MCP_TARGET, the configured folder, or example)")
	flags.StringVar(&a.opts.Scripts.Glob, "glob", "", "glob pattern for tool files in that folder (default: $MCP_GLOB, the configured pattern, or **/*.ts)")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.locateConfig()
		return a.locateScripts(slices.Contains([]string{"dev", "new", "test"}, cmd.Name()))
	}
	root.AddCommand(
		newServeCommand(a), newDevCommand(a), newDemoCommand(a), newNewCommand(a), newTestCommand(a),
		newToolsCommand(a), newCallCommand(a), newAskCommand(a), newCallsCommand(a),
		newCheckCommand(a), newDoctorCommand(a), newApplyCommand(a), newApproveCommand(a), newApprovalsCommand(a), newWhyCommand(a),
		newConnectCommand(a), newKeysCommand(a), newPeopleCommand(a), newAccountsCommand(a), newCallersCommand(a), newStoreCommand(a), newAuditLogCommand(a),
		newImportCommand(a), newInstallCommand(a), newSchemaCommand(a), newHealthCommand(a), newVersionCommand(a),
	)
	addPackCommands(a, root)
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}

func newSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "Print the JSON Schema for toolyard.yaml, for use in editors", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {
		_, _ = a.out.Write(yard.ConfigSchema(a.opts))
	}}
}

// requireSubcommand is the RunE function of commands that only group subcommands.
func requireSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("%s requires a subcommand: %s", cmd.CommandPath(), strings.Join(names, ", "))
}

// locateConfig defaults to the configuration file in this folder and the store in the environment.
// A process that another yard started as its MCP server uses neither: it runs in that yard's
// folder, so it would start itself over and over.
func (a *app) locateConfig() {
	if a.getenv(subprocess.MarkVariable) != "" {
		return
	}
	a.opts.Store = cmp.Or(a.opts.Store, a.getenv("TOOLYARD_STORE"))
	if a.opts.ConfigFile == "" {
		if _, err := os.Stat(config.File); err == nil {
			a.opts.ConfigFile = config.File
		}
	}
}

// defaultTarget is the scripts folder if none is configured.
const defaultTarget = "example"

// locateScripts defaults to the scripts folder set in the environment. A program that has neither
// its own tools nor a configuration uses the default folder, unless the command chooses a folder
// itself.
func (a *app) locateScripts(commandChooses bool) error {
	s := &a.opts.Scripts
	s.Cache = cmp.Or(s.Cache, script.DefaultCacheDir())
	s.Dir, s.Glob = cmp.Or(s.Dir, a.getenv("MCP_TARGET")), cmp.Or(s.Glob, a.getenv("MCP_GLOB"))
	if s.Dir == "" && a.opts.ConfigFile == "" && a.opts.Store == "" && len(a.opts.Tools) == 0 && isFolder(defaultTarget) && !commandChooses {
		s.Dir = defaultTarget
		return nil
	}
	if s.Dir != "" && !isFolder(s.Dir) {
		return usageError(fmt.Errorf("folder %s does not exist (from --target or MCP_TARGET)", s.Dir))
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (a *app) getenv(name string) string {
	value, _ := a.opts.Process.Getenv(name)
	return value
}

func (a *app) now() time.Time {
	if a.opts.Process.Now != nil {
		return a.opts.Process.Now()
	}
	return time.Now()
}

// loadConfig returns the effective configuration, or the defaults if there is none.
func (a *app) loadConfig() (*config.Source, error) {
	return settings.ReadConfig(settings.Options{File: a.opts.ConfigFile, Store: a.opts.Store, Getenv: a.opts.Process.Getenv})
}

// createOperatorToken creates the token that signs the person who started this process in to the
// console while it runs. It is printed only on a terminal and never logged.
func (a *app) createOperatorToken() { a.opts.Command.OperatorToken = "tyl_" + rand.Text() }

// consoleURL returns the console's URL. The token is in the fragment, which browsers do not send.
func (a *app) consoleURL(base string) string {
	if a.opts.Command.OperatorToken == "" {
		return base + "/console/"
	}
	return base + "/console/#key=" + a.opts.Command.OperatorToken
}

// Time limits for loading sources and connecting to servers. When they expire, commands continue
// with the tools that are available.
const (
	startTimeout  = 10 * time.Second
	sourceTimeout = 30 * time.Second
	serverTimeout = time.Minute // npx and uvx download a server when they start it for the first time
)

// withYard runs fn with a yard whose sources have loaded.
func (a *app) withYard(ctx context.Context, fn func(context.Context, *yard.Yard) error) error {
	y, err := yard.New(a.opts)
	if err != nil {
		return fail(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(running)
	}()
	select {
	case <-y.Ready():
	case <-time.After(sourceTimeout):
	case <-ctx.Done():
	}
	if err = fail(y.Check()); err == nil {
		err = fn(ctx, y)
	}
	stop()
	<-done
	return err
}

// withServers runs fn with a yard that has attempted to connect to every MCP server.
func (a *app) withServers(ctx context.Context, fn func(context.Context, *yard.Yard) error) error {
	return a.withYard(ctx, func(ctx context.Context, y *yard.Yard) error {
		a.awaitServers(ctx, y)
		return fn(ctx, y)
	})
}

// awaitServers waits until connections to the given servers, or to all servers, have been attempted
// and their tools appear in the views.
func (a *app) awaitServers(ctx context.Context, y *yard.Yard, ids ...string) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		y.AwaitServers(ctx, ids...)
	}()
	select {
	case <-ready:
	case <-time.After(2 * time.Second):
		if len(y.Servers()) > 0 {
			fmt.Fprintf(a.err, "Waiting up to %.0f s for servers to start …\n", serverTimeout.Seconds())
		}
		<-ready
	}
}

// view returns the view of the gate selected by --gate.
func (a *app) view(y *yard.Yard) (*yard.View, error) {
	if v, ok := y.View(a.gate); ok {
		return v, nil
	}
	return nil, usageError(a.gateError(y.Gates()))
}

// gateError returns an error that lists the valid values of --gate.
func (a *app) gateError(names []string) error {
	if a.gate != "" {
		return fmt.Errorf("unknown gate %q; available gates: %s", a.gate, strings.Join(names, ", "))
	}
	return fmt.Errorf("choose a gate with --gate: %s", strings.Join(names, ", "))
}

// printError prints an error to standard error. Each fault in a configuration gets its own line,
// with its fix.
func (a *app) printError(err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		fmt.Fprintf(a.err, "error: %s\n", strings.Join(slices.Compact(printableLines(err.Error())), "\n       "))
		return
	}
	a.printProblems(faults)
}

// printUsageError prints a command-line error with the command's usage.
func (a *app) printUsageError(cmd *cobra.Command, err error) {
	a.printError(err)
	if cmd.HasParent() {
		fmt.Fprintf(a.err, "Usage: %s\n", cmd.UseLine())
	}
	fmt.Fprintf(a.err, "See '%s --help'.\n", cmd.CommandPath())
}

func (a *app) printProblems(problems []toolyard.Problem) {
	for _, problem := range problems {
		kind := "error"
		if problem.Warning {
			kind = "warning"
		}
		fmt.Fprintf(a.err, "%s: %s\n", kind, untrusted.Printable(problem.String()))
		for line := range strings.Lines(problem.Frame) {
			fmt.Fprintf(a.err, "       %s\n", untrusted.Printable(strings.TrimRight(line, "\r\n")))
		}
		if problem.Fix != "" {
			fmt.Fprintf(a.err, "       %s\n", untrusted.Printable(problem.Fix))
		}
	}
}

// printf prints a line that may contain untrusted text to standard output.
func (a *app) printf(format string, args ...any) {
	fmt.Fprintln(a.out, untrusted.Printable(fmt.Sprintf(format, args...)))
}

// warnf prints a line that may contain untrusted text to standard error.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintln(a.err, untrusted.Printable(fmt.Sprintf(format, args...)))
}
