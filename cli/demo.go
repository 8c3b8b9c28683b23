package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/demo"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

func (p *program) demoCommand() *cobra.Command {
	var d demonstration
	c := &cobra.Command{
		Use:   "demo",
		Short: "Serve a made-up company with tools, servers, callers and traffic, to look around",
		Long: `Serve the tools of a made-up company over HTTP: functions in Go, scripts, MCP servers that
this program runs itself, keys, accounts, limits, and callers who use all of it. Everything is
in a folder of its own, which is removed at the end.`,
		Args: cobra.NoArgs,
		Example: `  toolyard demo
  toolyard demo --rate 20 --listen 127.0.0.1:4000`,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if !(d.rate >= 0 && d.rate <= maxRate) { // which no NaN is
				return exitStatus{exitUsage, fmt.Errorf("--rate must be 0 to %d calls a second", maxRate)}
			}
			if d.program, err = os.Executable(); err != nil {
				return fail(err)
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP) // the terminal was closed
			defer stop()
			return fail(p.demo(ctx, &d))
		},
	}
	c.Flags().StringVar(&d.listen, "listen", config.Default().Listen, "address for HTTP; if it is taken, another port")
	c.Flags().StringVar(&d.dir, "dir", "", "folder to write to, which is kept (default: one that is removed at the end)")
	c.Flags().Float64Var(&d.rate, "rate", 3, "how many calls a second are made, 0 for none")
	c.Flags().BoolVar(&d.history, "history", true, "begin with two weeks of calls on the record")
	return c
}

// maxRate is how many calls a second the callers of a demonstration make at most.
const maxRate = 1000

// demonstration is what the flags of demo say, and what is made of it.
type demonstration struct {
	listen, dir string
	rate        float64
	history     bool

	program string            // what its servers are run by
	brief   bool              // the folder goes when it ends
	moved   bool              // the address was taken
	tokens  map[string]string // the keys of callers, by caller
}

// demo serves the demonstration until ctx ends.
func (p *program) demo(ctx context.Context, d *demonstration) (err error) {
	l, err := d.bind(ctx)
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // who serves has closed it
	if err := d.makeFolder(); err != nil {
		return err
	}
	defer func() {
		if d.brief {
			err = errors.Join(err, os.RemoveAll(d.dir))
		}
	}()
	fmt.Fprintf(p.out, "Preparing %s …\n", d.dir)
	p.furnish(d)
	if err := p.prepare(ctx, d); err != nil {
		if ctx.Err() != nil {
			return nil // it was ended before it began
		}
		return err
	}
	log, err := os.OpenFile(filepath.Join(d.dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // a log that nobody reads any more
	p.opts.Log = slog.New(slog.NewTextHandler(log, nil))
	return p.showDemo(ctx, d, l)
}

// bind listens at the address, or at another port if it is taken.
func (d *demonstration) bind(ctx context.Context) (net.Listener, error) {
	host, _, err := net.SplitHostPort(d.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: write host:port", d.listen)
	}
	if !config.IsLoopback(host) {
		return nil, fmt.Errorf("--listen %s is reachable from other machines, and a demonstration lets anyone in; listen on 127.0.0.1", d.listen)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		d.moved = true
		return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	return l, err
}

// makeFolder makes the folder. One that is there must be empty: nothing of others is
// overwritten.
func (d *demonstration) makeFolder() (err error) {
	if d.dir == "" {
		d.brief = true
		d.dir, err = os.MkdirTemp("", "toolyard-demo-")
		return err
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	if list, err := os.ReadDir(d.dir); err != nil || len(list) > 0 {
		return cmp.Or(err, fmt.Errorf("the folder %s is not empty; name a new one", d.dir))
	}
	d.dir, err = filepath.Abs(d.dir)
	return err
}

// furnish makes the options those of the demonstration. What the folder and the environment
// of the caller say of a yard is about another one.
func (p *program) furnish(d *demonstration) {
	p.opts = yard.Options{
		Tools: demo.Tools(), ConfigFile: filepath.Join(d.dir, config.File), Scripts: yard.Scripts{Cache: p.opts.Scripts.Cache},
		Version: p.opts.Version, Now: p.opts.Now, Getenv: p.opts.Getenv,
	}
	p.letIn()
}

// prepare writes the folder. The servers are approved as they are at first; then one of them
// changes, so that something waits for approval.
func (p *program) prepare(ctx context.Context, d *demonstration) error {
	if err := demo.Write(d.dir, d.program); err != nil {
		return err
	}
	if err := p.approveServers(ctx, demo.Servers...); err != nil {
		return err
	}
	if err := demo.Change(d.dir); err != nil {
		return err
	}
	return p.withStore(ctx, func(s *store.Store) (err error) {
		if d.history {
			if err := writePast(ctx, s, p.now()); err != nil {
				return err
			}
		}
		if err := openBooks(ctx, s); err != nil {
			return err
		}
		d.tokens, err = makeKeys(ctx, s, p.now())
		return cmp.Or(err, d.writeTokens())
	})
}

// approveServers approves all that servers offer.
func (p *program) approveServers(ctx context.Context, ids ...string) error {
	p.opts.AskFirst = true
	defer func() { p.opts.AskFirst = false }()
	return p.with(ctx, func(ctx context.Context, y *yard.Yard) error {
		p.settle(ctx, y, ids...)
		for _, id := range ids {
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

// openBooks funds the accounts and opens the sessions.
func openBooks(ctx context.Context, s *store.Store) error {
	for account, amount := range demo.Accounts {
		if err := s.Fund(ctx, account, amount, "opening"); err != nil {
			return err
		}
	}
	for _, session := range demo.Sessions {
		if _, err := s.OpenSession(ctx, session); err != nil {
			return err
		}
	}
	return nil
}

// makeKeys makes the API keys, and returns those that are good, by caller.
func makeKeys(ctx context.Context, s *store.Store, now time.Time) (map[string]string, error) {
	tokens := make(map[string]string)
	for _, k := range demo.Keys {
		key, token, err := identity.New(k.Name, k.Caller.ID, k.Caller.Account, k.Scopes, k.TTL, now.Add(-k.Age))
		if err != nil {
			return nil, err
		}
		if k.Revoked > 0 {
			key.Revoked = now.Add(-k.Revoked)
		} else {
			tokens[k.Caller.ID] = token
		}
		if err := s.PutKey(ctx, key); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// What is in the folder beside the yard itself.
const (
	keysFile = "keys.txt" // the keys that callers have
	logFile  = "yard.log"
)

func (d *demonstration) writeTokens() error {
	var b strings.Builder
	for _, caller := range slices.Sorted(maps.Keys(d.tokens)) {
		fmt.Fprintf(&b, "%-16s %s\n", caller, d.tokens[caller])
	}
	return os.WriteFile(filepath.Join(d.dir, keysFile), []byte(b.String()), 0o600)
}

// atOnce is how many rows are written to the record together.
const atOnce = 1000

// writePast puts the calls of the last weeks on the record, and charges for those that were
// paid, so that the books add up.
func writePast(ctx context.Context, s *store.Store, now time.Time) error {
	var free []*store.CallRow
	paid := make(map[string][]*store.CallRow)                    // by account
	for m := range demo.Past(now, rand.New(rand.NewPCG(1, 1))) { //nolint:gosec // it is made up, the same each time
		row := &store.CallRow{
			ID: toolyard.NewCallID(m.At), At: m.At, Elapsed: m.Elapsed, Gate: m.Gate, Mode: m.Mode(), Caller: m.Caller.ID, Account: m.Caller.Account,
			Server: m.Server, Tool: m.Tool, Generation: 1, Code: m.Code, Price: m.Paid(), ArgsSize: len(m.Sent), ResultSize: m.Result, Args: m.Sent,
			Message: m.Message(),
		}
		if row.Price > 0 {
			paid[row.Account] = append(paid[row.Account], row)
		} else {
			free = append(free, row)
		}
	}
	for rows := range slices.Chunk(free, atOnce) {
		if err := s.AppendCalls(ctx, rows); err != nil {
			return err
		}
	}
	for account, rows := range paid {
		if err := charge(ctx, s, account, rows); err != nil {
			return err
		}
	}
	return nil
}

// charge funds an account with what calls cost, and takes it for them.
func charge(ctx context.Context, s *store.Store, account string, rows []*store.CallRow) error {
	total := toolyard.Money(0)
	for _, row := range rows {
		total += row.Price
	}
	if err := s.Fund(ctx, account, total, "past"); err != nil {
		return err
	}
	hold := "past/" + account
	lease := store.FundAsk{Hold: hold, Serial: 1, Purse: account, Account: account, Want: total, Least: total, TTL: time.Hour}
	if err := exchange(ctx, s, &store.Batch{Funds: []store.FundAsk{lease}}); err != nil {
		return err
	}
	for part := range slices.Chunk(rows, atOnce) {
		b := &store.Batch{}
		for _, row := range part {
			b.Settles = append(b.Settles, store.Settle{Call: row.ID, Hold: hold, Purse: account, Amount: row.Price, Seller: cmp.Or(row.Server, "local"), Row: row})
		}
		if err := exchange(ctx, s, b); err != nil {
			return err
		}
	}
	return exchange(ctx, s, &store.Batch{Drops: []store.Drop{{Hold: hold, Purse: account, Serial: 2}}})
}

// exchange does a batch of which nothing may be refused.
func exchange(ctx context.Context, s *store.Store, b *store.Batch) error {
	b.Replica = "demo"
	answers, err := s.Exchange(ctx, b)
	if err != nil {
		return err
	}
	for _, f := range answers.Funds {
		if f.Refused != nil {
			return errors.New(f.Refused.Message)
		}
	}
	for _, settled := range answers.Settles {
		if settled.Refused != nil {
			return errors.New(settled.Refused.Message)
		}
	}
	return nil
}

// showDemo serves what was prepared, and has its callers call.
func (p *program) showDemo(ctx context.Context, d *demonstration, l net.Listener) error {
	y, err := yard.New(p.opts)
	if err != nil {
		return err
	}
	return p.run(ctx, y, func(ctx context.Context) error {
		base := "http://" + l.Addr().String()
		p.settle(ctx, y, demo.Servers...)
		p.welcome(d, y, base)
		if p.ready != nil {
			p.ready(y, base)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		if d.rate > 0 {
			wg.Go(func() { newCrowd(y, base, d.tokens).call(ctx, d.rate) })
		}
		return y.Serve(ctx, l)
	})
}

// welcome says what was started, where it is, and what to try.
func (p *program) welcome(d *demonstration, y *yard.Yard, base string) {
	s := &screen{color: isTerminal(p.out) && p.env("NO_COLOR") == ""}
	row := func(name, text string) { fmt.Fprintf(p.out, "  %s  %s\n", s.paint(dim, pad(name, 10)), text) }
	if d.moved {
		fmt.Fprintf(p.out, "%s is taken; this is at a free port.\n", d.listen)
	}
	fmt.Fprintf(p.out, "\n  %s  %s\n\n", s.paint(bold, "Harbor"), "a small company that does not exist, and its tools")
	for _, name := range y.Gates() {
		if v, ok := y.View(name); ok {
			row("gate "+name, fmt.Sprintf("%-5s  %s, %s", v.Gate.Mode, plural(len(v.Tools), "tool"), entrance(v.Gate)))
		}
	}
	row("servers", strings.Join(demo.Servers, ", ")+"; down: "+strings.Join(y.Down(), ", "))
	for i, problem := range y.Problems() {
		row(map[bool]string{true: "problems"}[i == 0], untrusted.Printable(problem.String()))
	}
	row("keys", filepath.Join(d.dir, keysFile))
	row("log", filepath.Join(d.dir, logFile))
	fmt.Fprint(p.out, "\n  Try\n\n")
	row("look", s.paint(blue, p.consoleLink(base)))
	row("connect", s.paint(blue, base+"/mcp/chat"))
	row("call", fmt.Sprintf("toolyard call --config %s classify_goods goods='roasted coffee beans'", filepath.Join(d.dir, "customs", config.File)))
	end := "Its folder stays."
	if d.brief {
		end = "Its folder is removed then."
	}
	fmt.Fprintf(p.out, "\n  Ctrl-C ends it. %s\n", end)
}

// entrance says who may enter a gate.
func entrance(g *toolyard.Gate) string {
	if g.RequireAuth {
		return "with a key"
	}
	return "for anyone"
}

// crowd are those who call.
type crowd struct {
	yard   *yard.Yard
	client *outbound.Client // for those who pay by session
	url    string
	tokens map[string]string
}

func newCrowd(y *yard.Yard, base string, tokens map[string]string) *crowd {
	c := &crowd{yard: y, url: base + "/api/v1/tools/execute", tokens: tokens}
	if u, err := url.Parse(base); err == nil {
		c.client = outbound.NewClient(outbound.Allowlist{u.Hostname()}, nil, outbound.Network{}, 4<<20)
	}
	return c
}

// crowded is how many calls the crowd has running at most; some wait for a limit.
const crowded = 64

// call makes so many calls a second until ctx ends. What becomes of them is on the record.
func (c *crowd) call(ctx context.Context, rate float64) {
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // nothing here is secret
	running := make(chan struct{}, crowded)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-time.After(time.Duration((0.5 + r.Float64()) * float64(time.Second) / rate)):
		case <-ctx.Done():
			return
		}
		act := demo.Next(r)
		caller, args, session := act.Caller(r), act.Args(r, r.IntN(25) == 0), ""
		if act.Price > 0 && r.IntN(2) == 0 {
			session = demo.SessionOf(caller, r)
		}
		select {
		case running <- struct{}{}:
			wg.Go(func() {
				defer func() { <-running }()
				c.do(ctx, act, caller, args, session)
			})
		default: // enough is going on
		}
	}
}

// do makes one call. One that a session pays for goes over HTTP, with the key of its caller.
func (c *crowd) do(ctx context.Context, act *demo.Act, caller toolyard.Caller, args json.RawMessage, session string) {
	token := c.tokens[caller.ID]
	if session == "" || token == "" {
		_, _ = c.yard.Call(ctx, act.Gate, caller, act.Name(), args) // also failures are worth looking at
		return
	}
	body, err := json.Marshal(map[string]any{"gate": act.Gate, "tool": act.Name(), "args": args, "session": session})
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	_, _, _ = c.client.Do(req, "error") //nolint:bodyclose // it has read and closed it
}
