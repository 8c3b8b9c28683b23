// Package cli implements the toolyard command line. A Go program that calls Main gets the same
// commands for its own tools:
//
//	func main() { cli.Main(yard.Options{Tools: []*toolyard.Tool{greet}}) }
//
// Each command is a type with its flags as fields, in a separate file. All of them embed *app,
// which holds the options and streams of one run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
	"github.com/toolyard/toolyard/yard"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // there is a problem with the configuration, a tool, a server or the network
	exitUsage = 2 // the command line is invalid
	exitTool  = 5 // the tool failed or rejected its arguments
)

// Main runs this process's command line and exits.
func Main(opts yard.Options) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	code := Run(ctx, opts, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs one command and returns its exit code.
func Run(ctx context.Context, opts yard.Options, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if opts.Process.Getenv == nil {
		opts.Process.Getenv = os.LookupEnv //nolint:forbidigo // the only place that reads the environment
	}
	if opts.Process.Version == "" {
		opts.Process.Version = buildinfo.Version()
	}
	out := &checkedWriter{w: stdout}
	a := &app{opts: opts, in: stdin, out: out, err: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	executed, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = fail(out.err)
	}
	var exit exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			a.printError(exit.err)
		}
		return exit.code
	}
	a.printUsageError(executed, err)
	return exitUsage
}

// checkedWriter remembers the first write error, so that commands need not check each write.
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

// exitStatus is an error that sets the process's exit code.
type exitStatus struct {
	code int
	err  error // nil if the command has already printed the error
}

func (e exitStatus) Error() string { return fmt.Sprint(e.err) }

// fail wraps an error so that the process exits with exitError.
func fail(err error) error {
	if err == nil {
		return nil
	}
	return exitStatus{exitError, err}
}

// usageError wraps an error so that the process exits with exitUsage.
func usageError(err error) error {
	if err == nil {
		return nil
	}
	return exitStatus{exitUsage, err}
}
