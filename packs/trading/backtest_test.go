package trading

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/backtest"
	"github.com/toolyard/toolyard/packs/trading/market/markettest"
	"github.com/toolyard/toolyard/yard"
)

// laboratory is a yard with a strategy whose data can be replaced.
type laboratory struct {
	yard *yard.Yard
	feed *feed
	log  func(asOf time.Time, tool string, answer []byte) // may be nil
}

// newLaboratory opens a yard with the strategy gamble, which makes pseudo-random decisions.
func newLaboratory(t testing.TB, config string) *laboratory {
	lab := &laboratory{}
	connect := func(*settings, yard.PackSetup) (*feed, error) {
		lab.feed = &feed{}
		lab.use(testData(1))
		return lab.feed, nil
	}
	lab.yard = openYard(t, connect, config, lab.gamble())
	return lab
}

func (lab *laboratory) use(d *markettest.Data) {
	lab.feed.Bars, lab.feed.Markets, lab.feed.Funding, lab.feed.news = d, d, d, d
}

func (lab *laboratory) source(t testing.TB) *Source {
	src, ok := lab.yard.Pack("trading").(*Source)
	if !ok {
		t.Fatal("the pack is not open")
	}
	return src
}

// gamble returns a strategy that decides by a hash of the seed and the time. It reads before it
// writes.
func (lab *laboratory) gamble() *toolyard.Tool {
	type args struct {
		Seed  uint64 `json:"seed"`
		Every int    `json:"every" default:"1" doc:"Decide at every n-th call."`
	}
	return toolyard.Define(toolyard.Spec{Name: "gamble", Description: "Trades at random.", Effects: "write"},
		func(ctx context.Context, c *toolyard.Call, in args) (string, error) {
			h := fnv.New64a()
			fmt.Fprint(h, in.Seed, c.AsOf.Unix())
			r := rand.New(rand.NewPCG(h.Sum64(), in.Seed))
			if c.AsOf.Unix()/300%int64(in.Every) != 0 {
				return "waiting", nil
			}
			symbol := []string{"BTC", "ETH", "DOGE"}[min(r.IntN(20)/9, 2)]
			for _, tool := range []struct{ name, args string }{
				{"get_portfolio", `{}`},
				{"read_my_prior_decisions", `{"limit":3}`},
				{"propose_order", randomOrder(r, symbol)},
				{"get_current_position", `{"symbol":"` + symbol + `"}`},
			} {
				res, err := c.Toolbox.CallTool(ctx, c, "", tool.name, json.RawMessage(tool.args))
				if err != nil {
					return "", err
				}
				if lab.log != nil {
					answer, err := json.Marshal(res)
					if err != nil {
						return "", err
					}
					lab.log(c.AsOf, tool.name, answer)
				}
			}
			return "done", nil
		})
}

// randomOrder returns an order's arguments, which are often nonsense.
func randomOrder(r *rand.Rand, symbol string) string {
	price := map[string]float64{"BTC": 100, "ETH": 50, "DOGE": 1}[symbol]
	near := func(spread float64) string { return fmt.Sprintf("%.2f", price*(1+(r.Float64()-0.5)*spread)) }
	o := map[string]any{"symbol": symbol, "reasoning": "a random decision of a test"}
	switch r.IntN(10) {
	case 0:
		o["action"] = "hold"
	case 1, 2:
		o["action"] = "close"
	case 3:
		o["action"], o["fraction"] = "reduce", "0.5"
	default:
		o["action"], o["side"] = "open", []string{"buy", "sell"}[r.IntN(2)]
		o[[]string{"size", "notionalUsd"}[r.IntN(2)]] = fmt.Sprintf("%.3f", r.Float64()*[]float64{1, 30, 900}[r.IntN(3)])
		if r.IntN(3) == 0 {
			o["type"], o["limitPrice"] = "limit", near(0.1)
		}
		if r.IntN(3) == 0 {
			o["stopLoss"] = near(0.1)
		}
		if r.IntN(3) == 0 {
			o["takeProfit"] = near(0.1)
		}
		if r.IntN(8) == 0 {
			o["type"], o["triggerPrice"] = "stop", near(0.1)
		}
		if r.IntN(20) == 0 {
			o["tif"] = []string{"Ioc", "Alo", "Gtc"}[r.IntN(3)]
		}
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// wildConfig has few limits, so that random strategies trade a lot.
const wildConfig = `
store: memory
packs:
  trading:
    accounts: {lab: {broker: paper, depositUsd: 10000, interval: 5m}}
    risk: {allowedSymbols: [BTC, ETH], maxPositionPct: 300, maxExposurePct: 500, maxLeverage: 10, ordersPerMinute: 0, maxStopsPerDay: 0, maxDailyLossPct: 50, maxDrawdownPct: 80}
gates:
  backtest: {mode: write, clock: caller, packs: {trading: {account: lab}}}
`

func (lab *laboratory) run(t testing.TB, seed uint64, from time.Time, bars, every int) *backtest.Report {
	t.Helper()
	report, err := lab.source(t).Backtest(t.Context(), lab.yard, Backtest{
		Strategy: "gamble", Gate: "backtest", Symbol: "BTC", Interval: "5m", From: from, To: from.Add(time.Duration(bars) * 5 * time.Minute),
		Args: json.RawMessage(fmt.Sprintf(`{"seed":%d,"every":%d}`, seed, every)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Failures > 0 {
		t.Fatalf("%d failures: %s", report.Failures, report.FirstFailure)
	}
	return report
}

func TestTwoRunsOfABacktestAreIdentical(t *testing.T) {
	lab := newLaboratory(t, wildConfig)
	from := start.Add(24 * time.Hour)
	first := lab.run(t, 5, from, 200, 1)
	if first.Trades == 0 || first.Decisions < 190 || len(first.Rejections) == 0 {
		t.Fatalf("the strategy should trade and be rejected: %+v", first.Activity)
	}
	for _, processors := range []int{1, 8} {
		old := runtime.GOMAXPROCS(processors)
		again := lab.run(t, 5, from, 200, 1)
		runtime.GOMAXPROCS(old)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("with %d processors: %s", processors, diff)
		}
	}
	if other := lab.run(t, 6, from, 200, 1); other.Digest == first.Digest {
		t.Error("another strategy has the same digest")
	}
}

// If everything after a given time is replaced with garbage, no answer and no row up to that time
// changes.
func TestTheFutureDoesNotChangeThePast(t *testing.T) {
	runs := 20
	if testing.Short() {
		runs = 8
	}
	if n, err := strconv.Atoi(os.Getenv("TOOLYARD_BACKTESTS")); err == nil {
		runs = n
	}
	lab := newLaboratory(t, wildConfig)
	r := rand.New(rand.NewPCG(7, 7))
	for range runs {
		data := testData(r.Uint64N(1 << 32))
		seed, from, bars := r.Uint64N(1<<32), start.Add(time.Duration(r.IntN(2000))*5*time.Minute), 30+r.IntN(50)
		poisoned := from.Add(time.Duration(r.IntN(bars*300)) * time.Second)
		lab.use(data)
		clean := lab.transcript(t, seed, from, bars, poisoned)
		lab.use(data.Poison(poisoned))
		if garbled := lab.transcript(t, seed, from, bars, poisoned); garbled != clean {
			t.Fatalf("seed %d from %s: the future after %s changed the past:\n%s", seed, from, poisoned, cmp.Diff(clean, garbled))
		}
	}
}

// transcript runs a backtest and returns all answers and rows up to a given time.
func (lab *laboratory) transcript(t testing.TB, seed uint64, from time.Time, bars int, until time.Time) string {
	t.Helper()
	var b bytes.Buffer
	lab.log = func(asOf time.Time, tool string, answer []byte) {
		if !asOf.After(until) {
			fmt.Fprintf(&b, "%s %s %s\n", asOf.Format(time.RFC3339), tool, answer)
		}
	}
	defer func() { lab.log = nil }()
	// A backtest over garbage may well ruin the account, so failures are expected.
	_, err := lab.source(t).Backtest(t.Context(), lab.yard, Backtest{
		Strategy: "gamble", Gate: "backtest", Symbol: "BTC", Interval: "5m", From: from, To: from.Add(time.Duration(bars) * 5 * time.Minute),
		Args: json.RawMessage(fmt.Sprintf(`{"seed":%d}`, seed)),
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := lab.source(t).simulatedAccount("backtest")
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range append(a.Streams(backtestCaller), a.paper.Stream()) {
		for after := uint64(0); ; {
			rows, err := a.Journal.List(t.Context(), stream, yard.JournalQuery{After: after, Until: until})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 {
				break
			}
			for _, row := range rows {
				fmt.Fprintf(&b, "%s %s %s %s %s\n", stream, row.AsOf.Format(time.RFC3339Nano), row.Kind, row.Key, row.Body)
				after = row.Seq
			}
		}
	}
	return b.String()
}

// 30 days of 5-minute bars with 1,000 decisions take less than a minute.
func TestABacktestOfAMonthIsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	lab := newLaboratory(t, wildConfig)
	data := markettest.New("5m")
	data.Walk("BTC", 3, start, 9000, 100)
	data.Walk("ETH", 4, start, 9000, 50)
	lab.use(data)
	began := time.Now()
	report := lab.run(t, 1, start.Add(24*time.Hour), 8640, 8)
	if took := time.Since(began); took > 5*time.Minute || report.Decisions < 1000 {
		t.Errorf("%d bars with %d decisions took %s", report.Ticks, report.Decisions, took)
	} else {
		t.Logf("%d bars with %d decisions took %s", report.Ticks, report.Decisions, took)
	}
}

func TestBacktestsReport(t *testing.T) {
	lab := newLaboratory(t, wildConfig)
	report := lab.run(t, 5, start.Add(24*time.Hour), 200, 1)
	var text, picture strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Backtest of gamble: BTC, 5m bars", "Equity ", "Realized ", "Fees ", "Funding ", "Drawdown ", "Sharpe ", "by SCOPE", "Assumptions", report.Digest} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, &text)
		}
	}
	if err := report.WriteSVG(&picture); err != nil || !strings.HasPrefix(picture.String(), "<svg ") || strings.Count(picture.String(), ",") < 100 {
		t.Errorf("picture %.200s (%v)", &picture, err)
	}
}

func TestBacktestsRefuse(t *testing.T) {
	lab := newLaboratory(t, wildConfig)
	valid := Backtest{Strategy: "gamble", Gate: "backtest", Symbol: "BTC", Interval: "5m", From: start, To: start.Add(time.Hour), Args: json.RawMessage(`{"seed":1}`)}
	for _, test := range []struct {
		name, want string
		edit       func(*Backtest)
	}{
		{"unknown strategy", "Unknown tool", func(b *Backtest) { b.Strategy = "gambler" }},
		{"unknown gate", "no paper account", func(b *Backtest) { b.Gate = "trade" }},
		{"unknown interval", "interval", func(b *Backtest) { b.Interval = "2m" }},
		{"no bars", "no 1h bars", func(b *Backtest) { b.Interval = "1h" }},
		{"the future", "in the past", func(b *Backtest) { b.To = time.Now().Add(time.Hour) }},
		{"no time", "no 5m bars", func(b *Backtest) { b.To = b.From }},
		{"wrong arguments", "seed", func(b *Backtest) { b.Args = json.RawMessage(`{"seed":"x"}`) }},
	} {
		b := valid
		test.edit(&b)
		if _, err := lab.source(t).Backtest(t.Context(), lab.yard, b); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
