package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/yard"
)

// devCommand serves a folder of scripts and prints loads, calls and log lines as they happen.
type devCommand struct {
	*app
	flags httpFlags
}

func newDevCommand(a *app) *cobra.Command {
	c := &devCommand{app: a}
	cmd := &cobra.Command{
		Use:   "dev [FOLDER]",
		Short: "Serve a folder of TypeScript tools over HTTP, reload changes, and print calls and errors",
		Args:  cobra.MaximumNArgs(1),
		Example: `  toolyard dev                  # the configured folder, or tools, or example
  toolyard dev my-tools --port 4000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := c.flags.resolve(a)
			if err == nil {
				err = c.chooseFolder(args)
			}
			if err != nil {
				return usageError(err)
			}
			return fail(c.run(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&c.flags.port, "port", "", "HTTP port on 127.0.0.1 (default: $MCP_PORT, or the configured port)")
	return cmd
}

// chooseFolder sets the folder to serve.
func (c *devCommand) chooseFolder(args []string) error {
	s := &c.opts.Scripts
	if len(args) > 0 {
		s.Dir = args[0]
	}
	if s.Dir != "" {
		if !isFolder(s.Dir) {
			return fmt.Errorf("folder %s does not exist; run \"toolyard new NAME\" to create your first tool", s.Dir)
		}
		return nil
	}
	if c.opts.ConfigFile != "" {
		if source, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv); err != nil || source.Scripts != nil {
			return nil //nolint:nilerr // yard.New reports it with all other problems
		}
	}
	for _, dir := range []string{"tools", defaultTarget} {
		if isFolder(dir) {
			s.Dir = dir
			return nil
		}
	}
	return errors.New(`no tools folder here; run "toolyard new NAME" to create your first tool`)
}

func (c *devCommand) run(ctx context.Context) error {
	noColor := c.getenv("NO_COLOR") != ""
	s := &screen{out: c.out, color: isTerminal(c.out) && !noColor, now: time.Now}
	c.opts.Scripts.OnLoad = s.showLoad
	c.opts.Recorders = append(c.opts.Recorders, s)
	c.opts.Log = slog.New(&screenLog{screen: s})
	c.opts.Command.SourceNotes, c.opts.Command.LiveArguments = "relative", "full"
	c.createOperatorToken()
	y, err := yard.New(c.opts)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
	defer stop()
	return c.serveHTTP(ctx, y, c.flags.listen, func(baseURL string) { s.showStart(y, baseURL, c.consoleURL(baseURL)) })
}
