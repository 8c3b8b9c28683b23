package trading

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/backtest"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// backtestCommands returns the command that runs strategies on past data.
func backtestCommands() []yard.PackCommand {
	return []yard.PackCommand{{
		Name: "backtest", Args: "TOOL", Short: "Run a strategy on historical data",
		Long: "Run a strategy on historical data and print a report.\n\n" +
			"The strategy is a tool. It is called once for each bar, at a gate with clock: caller, and sees the market as it was at that time. " +
			"The gate's paper account starts with its initial deposit and is kept in memory, so nothing is stored.",
		Flags: backtestFlags, Run: runBacktest,
	}}
}

func backtestFlags(f *flag.FlagSet) {
	f.String("gate", "backtest", "gate with clock: caller and a paper account")
	f.String("symbol", "BTC", "symbol to pass to the strategy")
	f.String("interval", "1h", "bar length: 1m, 5m, 15m, 1h, 4h or 1d")
	f.String("from", "", "start, such as 2026-03-01 or 2026-03-01T12:00:00Z")
	f.String("to", "", "end")
	f.String("args", "", "strategy arguments as JSON (default: the symbol and the interval)")
	f.String("svg", "", "file for an equity chart")
	f.String("json", "", "file for the full report as JSON")
}

// backtestCaller is the caller ID for strategies.
const backtestCaller = "backtest"

func runBacktest(ctx context.Context, setup yard.PackCommandSetup) error {
	src, ok := setup.Source.(*Source)
	if !ok {
		return errors.New("the trading pack is not enabled: add packs: {trading: …}")
	}
	if len(setup.Args) != 1 {
		return errors.New("specify exactly one tool: the strategy")
	}
	value := func(name string) string { return setup.Flags.Lookup(name).Value.String() }
	from, err := parseTime("from", value("from"))
	if err != nil {
		return err
	}
	to, err := parseTime("to", value("to"))
	if err != nil {
		return err
	}
	c := Backtest{
		Strategy: setup.Args[0], Gate: value("gate"), Symbol: value("symbol"), Interval: market.Interval(value("interval")),
		From: from, To: to, Args: json.RawMessage(value("args")),
		Progress: func(done, total int) { fmt.Fprintf(setup.Stderr, "\r%d of %d bars", done, total) },
	}
	report, err := src.Backtest(ctx, setup.Yard, c)
	fmt.Fprintln(setup.Stderr)
	if err != nil {
		return err
	}
	if err := writeFile(value("svg"), report.WriteSVG); err != nil {
		return err
	}
	if err := writeFile(value("json"), func(w io.Writer) error { return json.NewEncoder(w).Encode(report) }); err != nil {
		return err
	}
	return report.WriteText(setup.Stdout)
}

// parseTime parses a date or a time.
func parseTime(flagName, text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s %q is not a time such as 2026-03-01 or 2026-03-01T12:00:00Z", flagName, text)
}

func writeFile(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(filepath.Clean(name))
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Backtest describes a run of a strategy.
type Backtest struct {
	Strategy string // name of a tool
	Gate     string // has clock: caller and a paper account
	Symbol   string
	Interval market.Interval
	From, To time.Time
	Args     json.RawMessage // the strategy's arguments; default to the symbol and the interval
	Progress func(done, total int)
}

// Backtest runs a strategy with a gate's paper account. The account starts over with its deposit
// and an in-memory journal, so the yard must not serve requests.
func (src *Source) Backtest(ctx context.Context, y *yard.Yard, b Backtest) (*backtest.Report, error) {
	if !b.Interval.Valid() {
		return nil, fmt.Errorf("the interval must be one of %v, not %q", market.Intervals, b.Interval)
	}
	if b.To.After(src.setup.Now()) {
		return nil, errors.New("a backtest must end in the past")
	}
	a, err := src.simulatedAccount(b.Gate)
	if err != nil {
		return nil, err
	}
	journal := yard.MemoryJournal()
	a.Restart(journal, b.Interval)
	a.paper.Restart(journal, b.Interval)
	if len(b.Args) == 0 {
		if b.Args, err = json.Marshal(map[string]string{"symbol": b.Symbol, "interval": string(b.Interval)}); err != nil {
			return nil, err
		}
	}
	if err := src.checkBars(ctx, &b); err != nil {
		return nil, err
	}
	return backtest.Run(ctx, backtest.Config{
		Strategy: b.Strategy, Symbol: b.Symbol, Interval: b.Interval, From: b.From, To: b.To, Account: a.paper,
		Rules: src.assumptions(a), Progress: b.Progress,
		Step: func(ctx context.Context, asOf time.Time) error {
			res, err := y.CallAsOf(ctx, asOf, b.Gate, toolyard.Caller{ID: backtestCaller}, b.Strategy, b.Args)
			if err == nil && res.IsError {
				err = errors.New(textOf(res))
			}
			return err
		},
		Rejections: a.rejections,
		Digest:     func(ctx context.Context) (string, error) { return a.digest(ctx, journal, b.To) },
	})
}

// simulatedAccount returns the paper account of a gate with clock: caller.
func (src *Source) simulatedAccount(gate string) (*tradedAccount, error) {
	src.mu.Lock()
	defer src.mu.Unlock()
	for name, g := range src.simulated {
		if g == gate {
			return src.accounts[name], nil
		}
	}
	return nil, fmt.Errorf("gate %q has no paper account, or callers cannot set its time: set gates.%s to {mode: write, clock: caller, packs: {trading: {account: NAME}}}", gate, gate)
}

// checkBars returns an error if bars are missing.
func (src *Source) checkBars(ctx context.Context, b *Backtest) error {
	bars, err := src.feed.Between(ctx, b.Symbol, b.Interval, b.From, b.To)
	if err != nil {
		return err
	}
	want := int(b.To.Sub(b.From) / b.Interval.Duration())
	if len(bars) == 0 {
		return fmt.Errorf("no %s bars for %s from %s to %s; import them, or choose another period", b.Interval, b.Symbol, b.From.Format(time.RFC3339), b.To.Format(time.RFC3339))
	}
	if missing := want - len(bars); missing*10 > want {
		return fmt.Errorf("%d of %d %s bars for %s are missing; the first is at %s", missing, want, b.Interval, b.Symbol, bars[0].Start.Format(time.RFC3339))
	}
	return nil
}

func textOf(res *toolyard.Result) string {
	for _, c := range res.Items() {
		if t, ok := c.(toolyard.Text); ok {
			return string(t)
		}
	}
	return "the strategy failed"
}

func (src *Source) assumptions(a *tradedAccount) []string {
	s := a.paper.Settings()
	return []string{
		"Market orders are filled at the open of the next bar, " + strconv.Itoa(s.SlippageBps) + " bps worse, up to 10 % of the bar's volume; the rest is canceled.",
		"Limit orders are filled at their price if a bar trades through it. Stops are filled at their trigger price, or at the open after a gap. If a bar reaches both a stop and a target, the stop is filled.",
		fmt.Sprintf("Fees are %s for takers and %s for makers, as a fraction of the order's value.", s.Fees.Taker, s.Fees.Maker),
		"Funding is computed from the last bar's close, whereas the venue uses its oracle price.",
		"Today's lot sizes, tick sizes and leverage limits are used.",
		"Orders do not move the market.",
	}
}

// rejections counts decisions and rejections by rule.
func (a *tradedAccount) rejections(ctx context.Context, asOf time.Time) (decisions int, byRule map[engine.Rule]int, err error) {
	byRule = map[engine.Rule]int{}
	err = a.EachDecision(ctx, asOf, func(r *account.Record) {
		decisions++
		if kind, rule, _ := r.Final(); kind == account.Rejected {
			byRule[rule]++
		}
	})
	return decisions, byRule, err
}

// digest returns a digest of everything that a run recorded.
func (a *tradedAccount) digest(ctx context.Context, j yard.Journal, to time.Time) (string, error) {
	if err := a.paper.Settle(ctx, to); err != nil {
		return "", err
	}
	h := sha256.New()
	for _, stream := range append(a.Streams(backtestCaller), a.paper.Stream()) {
		for after := uint64(0); ; {
			rows, err := j.List(ctx, stream, yard.JournalQuery{After: after})
			if err != nil {
				return "", err
			}
			if len(rows) == 0 {
				break
			}
			for _, r := range rows {
				fmt.Fprintf(h, "%s %d %s %s %s %s\n", stream, r.Seq, r.AsOf.Format(time.RFC3339Nano), r.Kind, cmp.Or(r.Key, "-"), r.Body)
				after = r.Seq
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
