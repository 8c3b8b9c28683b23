package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

func (p *program) serveCommand() *cobra.Command {
	var how serving
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools over MCP, on standard input and output or over HTTP",
		Args:  cobra.NoArgs,
		Example: `  toolyard serve                        # for a client that starts it
  toolyard serve --http                 # at http://127.0.0.1:3001/mcp
  toolyard serve --gate chat            # gate chat on standard input and output`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := how.complete(p); err != nil {
				return exitStatus{exitUsage, err}
			}
			p.opts.NewLog = p.startLog
			return fail(p.serve(c.Context(), how))
		},
	}
	c.Flags().BoolVar(&how.http, "http", false, "serve over HTTP; so does MCP_MODE=http")
	c.Flags().StringVar(&how.listen, "listen", "", "address for HTTP, instead of the configured one")
	c.Flags().StringVar(&how.port, "port", "", "port for HTTP on this machine (default: $MCP_PORT or the configured one)")
	c.MarkFlagsMutuallyExclusive("listen", "port")
	return c
}

// serving is how to serve: the flags, and the environment where there are none.
type serving struct {
	http         bool
	listen, port string
}

func (s *serving) complete(p *program) error {
	switch mode := p.env("MCP_MODE"); mode {
	case "http":
		s.http = true
	case "", "stdio":
		s.http = s.http || s.listen != "" || s.port != ""
	default:
		return fmt.Errorf("MCP_MODE is %q; it must be stdio or http", mode)
	}
	if s.port == "" && s.listen == "" {
		s.port = p.env("MCP_PORT")
	}
	if s.port == "" {
		return nil
	}
	if n, err := strconv.Atoi(s.port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("the port %q is not a number from 0 to 65535", s.port)
	}
	s.listen = net.JoinHostPort("127.0.0.1", s.port)
	return nil
}

// serve serves until ctx ends.
func (p *program) serve(ctx context.Context, how serving) error {
	switch {
	case !how.http:
		p.opts.Notes = toolyard.SourceNotesRelative
	case isTerminal(p.err):
		p.letIn()
	}
	y, err := yard.New(p.opts)
	if err != nil {
		return err
	}
	if how.http {
		defer runtime.KeepAlive(p.ballast())
		return p.serveHTTP(ctx, y, how.listen)
	}
	return p.serveStdio(ctx, y)
}

// ballastSize is how much the heap of a server seems to be larger than it is.
const ballastSize = 32 << 20

// ballast is memory that nobody uses: it takes none of the machine's, but the garbage collector
// counts it. A gateway's live heap is some 10 MB, which would be collected tens of times a
// second under load, which costs a tenth of the CPU of a call or more. Whoever sets GOGC decides alone.
func (p *program) ballast() []byte {
	if p.env("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastSize)
}

// run keeps the yard going around serve, which ends first.
func (p *program) run(ctx context.Context, y *yard.Yard, serve func(context.Context) error) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { y.Run(background) })
	wg.Go(func() {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		if err := y.WatchConfig(background, hangup); err != nil {
			p.opts.Log.Warn("the configuration file is not watched", "error", err)
		}
	})
	select {
	case <-y.Ready():
	case <-time.After(startTimeout): // a source that is slow or down delays nobody
	case <-ctx.Done():
	}
	err := y.Check()
	if err == nil {
		err = serve(ctx)
	}
	stop()
	wg.Wait()
	return err
}

func (p *program) serveHTTP(ctx context.Context, y *yard.Yard, address string) error {
	if address == "" {
		address = y.Listen()
	}
	if err := p.checkAddress(address, y); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return portInUse(address)
	}
	if err != nil {
		return err
	}
	if p.ready == nil {
		p.ready = p.announce
	}
	return p.run(ctx, y, func(ctx context.Context) error {
		p.ready(y, "http://"+l.Addr().String())
		return y.Serve(ctx, l)
	})
}

// portInUse says which port to try instead of one that another program has.
func portInUse(address string) error {
	host, port, _ := net.SplitHostPort(address) // it was checked
	n, err := strconv.Atoi(port)
	switch {
	case err != nil:
		return fmt.Errorf("%s is in use; choose another with --listen", address)
	case !config.IsLoopback(host):
		return fmt.Errorf("port %d is in use; try --listen %s", n, net.JoinHostPort(host, strconv.Itoa(n%65535+1)))
	}
	return fmt.Errorf("port %d is in use; try --port %d", n, n%65535+1)
}

// checkAddress refuses what the configuration would refuse: an address that others reach,
// and a gate that asks nobody who they are.
func (p *program) checkAddress(address string, y *yard.Yard) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen %s: write host:port", address)
	}
	if config.IsLoopback(host) || y.Anonymous() {
		return nil
	}
	if y.Open() {
		return fmt.Errorf("--listen %s is reachable from other machines, and unauthenticated callers are accepted; listen on 127.0.0.1, or set callers: keys at every gate or anonymous: true in the configuration", address)
	}
	return nil
}

// announce tells a person where the tools are.
func (p *program) announce(y *yard.Yard, base string) {
	if !isTerminal(p.err) {
		p.opts.Log.Info("serving", "url", base, "gates", y.Gates(), "version", p.opts.Version)
		return
	}
	fmt.Fprintf(p.err, "\n  toolyard %s\n\n", p.opts.Version)
	for _, name := range y.Gates() {
		v, ok := y.View(name)
		if !ok {
			continue
		}
		url := base + "/mcp/" + name
		if at, ok := y.View(""); ok && at.Gate.Name == name {
			url = base + "/mcp"
		}
		fmt.Fprintf(p.err, "  %-8s %-5s  %3d tools  %s\n", name, v.Gate.Mode, len(v.Tools), url)
	}
	fmt.Fprintf(p.err, "\n  console  %s\n", p.consoleLink(base))
	for _, problem := range y.Problems() {
		fmt.Fprintf(p.err, "  problem: %s\n", untrusted.Printable(problem.String()))
	}
	fmt.Fprintln(p.err)
}

func (p *program) serveStdio(ctx context.Context, y *yard.Yard) error {
	return p.run(ctx, y, func(ctx context.Context) error {
		return y.ServeStdio(ctx, p.gate, p.in, p.out)
	})
}
