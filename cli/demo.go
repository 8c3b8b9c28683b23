package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/demo"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// demoCommand serves a fictional company's yard.
type demoCommand struct {
	*app
	listen, dir string
	rate        float64
	history     bool

	executable string            // starts the demo's MCP servers
	temporary  bool              // whether the folder is removed at the end
	otherPort  bool              // whether the address was in use
	tokens     map[string]string // API keys by caller
	simulators *demo.Simulators  // nil if the program does not register the demo's packs
	onReady    func(y *yard.Yard, baseURL string)
}

// maxRate is the highest --rate, in calls per second.
const maxRate = 1000

// modelPause is the time that the scripted model takes for a turn.
const modelPause = 600 * time.Millisecond

// Files in the demo's folder, in addition to the yard's.
const (
	keysFile = "keys.txt"
	logFile  = "yard.log"
)

func newDemoCommand(a *app) *cobra.Command {
	c := &demoCommand{app: a}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Serve a fictional company's tools, with servers, callers and traffic",
		Long: `Serve a fictional company's tools over HTTP: Go functions, scripts, MCP servers that
this binary runs itself, a simulated house and a paper trading account, an agent with a scripted
model, keys, accounts, limits, and simulated callers. No network access is required. All files are in a separate folder, which is removed
when the demo ends.`,
		Args: cobra.NoArgs,
		Example: `  toolyard demo
  toolyard demo --rate 20 --listen 127.0.0.1:4000`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !(c.rate >= 0 && c.rate <= maxRate) { // also rejects NaN
				return usageError(fmt.Errorf("--rate must be 0 to %d calls per second", maxRate))
			}
			if c.executable, err = os.Executable(); err != nil {
				return fail(err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP) // the terminal was closed
			defer stop()
			return fail(c.run(ctx))
		},
	}
	cmd.Flags().StringVar(&c.listen, "listen", config.Default().Listen, "HTTP address; if it is in use, the demo uses a free port")
	cmd.Flags().StringVar(&c.dir, "dir", "", "folder to write to, which is kept (default: a temporary folder)")
	cmd.Flags().Float64Var(&c.rate, "rate", 3, "simulated calls per second, 0 for none")
	cmd.Flags().BoolVar(&c.history, "history", true, "start with two weeks of recorded calls")
	return cmd
}

// run serves the demo until ctx ends.
func (c *demoCommand) run(ctx context.Context) (err error) {
	l, err := c.bind(ctx)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // closed already if it was served
	if err := c.createFolder(); err != nil {
		return err
	}
	defer func() {
		if c.temporary {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	}()
	fmt.Fprintf(c.out, "Preparing %s …\n", c.dir)
	c.setOptions()
	if len(c.opts.Packs) > 0 {
		if c.simulators, err = demo.StartSimulators(); err != nil {
			return err
		}
		defer c.simulators.Close()
	}
	if err := c.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // the user interrupted the command
		}
		return err
	}
	log, err := os.OpenFile(filepath.Join(c.dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process ends
	c.opts.Log = slog.New(slog.NewTextHandler(log, nil))
	return c.serve(ctx, l)
}

// bind listens on the address, or on a free port if the address is in use.
func (c *demoCommand) bind(ctx context.Context) (net.Listener, error) {
	host, _, err := net.SplitHostPort(c.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: expected host:port", c.listen)
	}
	if !config.IsLoopback(host) {
		return nil, fmt.Errorf("--listen %s is reachable from other machines, and the demo accepts unauthenticated callers; listen on 127.0.0.1", c.listen)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		c.otherPort = true
		return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	return l, err
}

// createFolder creates the folder. An existing folder must be empty, so that nothing is
// overwritten.
func (c *demoCommand) createFolder() (err error) {
	if c.dir == "" {
		c.temporary = true
		c.dir, err = os.MkdirTemp("", "toolyard-demo-")
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if list, err := os.ReadDir(c.dir); err != nil || len(list) > 0 {
		return cmp.Or(err, fmt.Errorf("folder %s is not empty; choose another with --dir", c.dir))
	}
	c.dir, err = filepath.Abs(c.dir)
	return err
}

// setOptions replaces the options with the demo's, because the user's own configuration is for
// another yard. The demo uses its packs only if the program registers all of them.
func (c *demoCommand) setOptions() {
	packs := make(map[string]yard.Pack)
	for _, name := range demo.Packs {
		if p, ok := c.opts.Packs[name]; ok {
			packs[name] = p
		}
	}
	if len(packs) < len(demo.Packs) {
		packs = nil
	}
	c.opts = yard.Options{
		Packs: packs,
		Tools: demo.Tools(), ConfigFile: filepath.Join(c.dir, config.File), Scripts: yard.Scripts{Cache: c.opts.Scripts.Cache},
		Models:  map[string]model.Model{demo.Scripted: demo.Model{Pause: modelPause}},
		Process: c.opts.Process,
	}
	c.createOperatorToken()
}

// prepare writes the folder and the store. It approves the servers' definitions and then
// changes one server, so that a definition is pending.
func (c *demoCommand) prepare(ctx context.Context) error {
	if err := demo.Write(c.dir, c.executable, c.simulators); err != nil {
		return err
	}
	if err := c.approveServers(ctx); err != nil {
		return err
	}
	if err := demo.Change(c.dir); err != nil {
		return err
	}
	return c.withStore(ctx, func(s *openStore) (err error) {
		if c.history {
			if err := writeHistory(ctx, s.Store, c.now(), c.simulators != nil); err != nil {
				return err
			}
		}
		if err := fundAccounts(ctx, s.Store); err != nil {
			return err
		}
		c.tokens, err = createKeys(ctx, s.Store, c.now())
		return cmp.Or(err, c.writeTokens())
	})
}

// approveServers approves all definitions of the demo's servers.
func (c *demoCommand) approveServers(ctx context.Context) error {
	c.opts.Command.RequireApproval = true
	defer func() { c.opts.Command.RequireApproval = false }()
	return c.withYard(ctx, func(ctx context.Context, y *yard.Yard) error {
		c.awaitServers(ctx, y, demo.Servers...)
		for _, id := range demo.Servers {
			s := y.Servers()[id]
			pending, err := s.Pending()
			if err == nil {
				err = s.Approve(pending)
			}
			if err != nil {
				return fmt.Errorf("server %s: %w", id, err)
			}
		}
		return nil
	})
}

func (c *demoCommand) writeTokens() error {
	var b strings.Builder
	for _, caller := range slices.Sorted(maps.Keys(c.tokens)) {
		fmt.Fprintf(&b, "%-16s %s\n", caller, c.tokens[caller])
	}
	return os.WriteFile(filepath.Join(c.dir, keysFile), []byte(b.String()), 0o600)
}

// serve serves the prepared yard and generates traffic.
func (c *demoCommand) serve(ctx context.Context, l net.Listener) error {
	y, err := yard.New(c.opts)
	if err != nil {
		return err
	}
	return c.runYard(ctx, y, func(ctx context.Context) error {
		baseURL := "http://" + l.Addr().String()
		c.awaitServers(ctx, y, demo.Servers...)
		c.printStart(y, baseURL)
		if c.onReady != nil {
			c.onReady(y, baseURL)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		if c.rate > 0 {
			wg.Go(func() { newTraffic(y, baseURL, c.tokens, c.simulators != nil).run(ctx, c.rate) })
		}
		return y.Serve(ctx, l)
	})
}

// printStart prints what is served, the addresses, and what to try.
func (c *demoCommand) printStart(y *yard.Yard, baseURL string) {
	s := &screen{color: isTerminal(c.out) && c.getenv("NO_COLOR") == ""}
	row := func(name, text string) { fmt.Fprintf(c.out, "  %s  %s\n", s.paint(dim, pad(name, 10)), text) }
	if c.otherPort {
		fmt.Fprintf(c.out, "%s is in use; using a free port.\n", c.listen)
	}
	fmt.Fprintf(c.out, "\n  %s  %s\n\n", s.paint(bold, "Harbor"), "a fictional company and its tools")
	for _, name := range y.Gates() {
		if v, ok := y.View(name); ok {
			row("gate "+name, fmt.Sprintf("%-5s  %s, %s", v.Mode, plural(len(v.Tools), "tool"), authentication(v)))
		}
	}
	if c.simulators != nil {
		row("packs", strings.Join(demo.Packs, ", ")+"; simulated")
	}
	row("servers", strings.Join(demo.Servers, ", ")+"; down: "+strings.Join(y.Down(), ", "))
	for i, problem := range y.Problems() {
		row(map[bool]string{true: "problems"}[i == 0], untrusted.Printable(problem.String()))
	}
	row("keys", filepath.Join(c.dir, keysFile))
	row("log", filepath.Join(c.dir, logFile))
	fmt.Fprint(c.out, "\n  Try\n\n")
	row("console", s.paint(blue, c.consoleURL(baseURL)))
	row("connect", s.paint(blue, baseURL+"/mcp/chat"))
	row("call", fmt.Sprintf("toolyard call --config %s classify_goods goods='roasted coffee beans'", filepath.Join(c.dir, "customs", config.File)))
	row("ask", fmt.Sprintf("toolyard ask --url %s %q", baseURL, demo.Questions[0].Text))
	end := "The folder will be kept."
	if c.temporary {
		end = "The folder will be removed."
	}
	fmt.Fprintf(c.out, "\n  Press Ctrl-C to stop. %s\n", end)
}

func authentication(v *yard.View) string {
	if v.RequireAuth {
		return "requires a key"
	}
	return "no key required"
}
