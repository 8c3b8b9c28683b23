package cli

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// serveCommand serves the tools over stdio or HTTP.
type serveCommand struct {
	*app
	flags httpFlags
}

func newServeCommand(a *app) *cobra.Command {
	c := &serveCommand{app: a}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve tools over MCP, on stdio or over HTTP",
		Args:  cobra.NoArgs,
		Example: `  toolyard serve                        # on stdio, for a client that starts it
  toolyard serve --http                 # at http://127.0.0.1:3001/mcp
  toolyard serve --gate chat            # gate chat on stdio`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.flags.resolve(a); err != nil {
				return usageError(err)
			}
			a.opts.Command.OpenLog = a.startLog
			return fail(c.run(cmd.Context()))
		},
	}
	cmd.Flags().BoolVar(&c.flags.http, "http", false, "serve over HTTP; same as MCP_MODE=http")
	cmd.Flags().StringVar(&c.flags.listen, "listen", "", "HTTP address (default: the configured address)")
	cmd.Flags().StringVar(&c.flags.port, "port", "", "HTTP port on 127.0.0.1 (default: $MCP_PORT, or the configured port)")
	cmd.Flags().StringVar(&a.opts.Command.TLSCert, "tls-cert", "", "TLS certificate file in PEM format; enables HTTPS (default: tls.cert in the configuration)")
	cmd.Flags().StringVar(&a.opts.Command.TLSKey, "tls-key", "", "private key file in PEM format")
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	cmd.MarkFlagsMutuallyExclusive("listen", "port")
	return cmd
}

// run serves until ctx ends.
func (c *serveCommand) run(ctx context.Context) error {
	switch {
	case !c.flags.http:
		c.opts.Command.SourceNotes = "relative"
	case isTerminal(c.err):
		c.createOperatorToken()
	}
	y, err := yard.New(c.opts)
	if err != nil {
		return err
	}
	if c.flags.http {
		defer runtime.KeepAlive(c.ballast())
		return c.serveHTTP(ctx, y, c.flags.listen, func(baseURL string) { c.announce(y, baseURL) })
	}
	return c.runYard(ctx, y, func(ctx context.Context) error {
		return y.ServeStdio(ctx, c.gate, c.in, c.out)
	})
}

// ballastSize is the size of the allocation that paces the garbage collector.
const ballastSize = 32 << 20

// ballast returns memory that is never touched: it uses no physical pages, but the garbage
// collector counts it. A gateway's live heap is only about 10 MB. Under load, it would otherwise be
// collected dozens of times a second, which takes a tenth of the CPU or more. If GOGC is set, there
// is no ballast.
func (c *serveCommand) ballast() []byte {
	if c.getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastSize)
}

// announce prints the URLs of the gates and the console, or logs them if there is no terminal.
func (c *serveCommand) announce(y *yard.Yard, baseURL string) {
	if !isTerminal(c.err) {
		c.opts.Log.Info("serving", "url", baseURL, "gates", y.Gates(), "version", c.opts.Process.Version)
		return
	}
	fmt.Fprintf(c.err, "\n  toolyard %s\n\n", c.opts.Process.Version)
	for _, name := range y.Gates() {
		v, ok := y.View(name)
		if !ok {
			continue
		}
		url := baseURL + "/mcp/" + name
		if at, ok := y.View(""); ok && at.Gate == name {
			url = baseURL + "/mcp"
		}
		fmt.Fprintf(c.err, "  %-8s %-5s  %3d tools  %s\n", name, v.Mode, len(v.Tools), url)
	}
	fmt.Fprintf(c.err, "\n  console  %s\n", c.consoleURL(baseURL))
	for _, problem := range y.Problems() {
		fmt.Fprintf(c.err, "  problem: %s\n", untrusted.Printable(problem.String()))
	}
	fmt.Fprintln(c.err)
}
