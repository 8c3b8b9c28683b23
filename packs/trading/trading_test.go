package trading

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/packs/trading/market/markettest"
	"github.com/toolyard/toolyard/yard"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const labConfig = `
store: memory
packs:
  trading:
    accounts:
      lab: {broker: paper, depositUsd: "10000", interval: 5m, slippageBps: 2}
    risk: {allowedSymbols: [BTC, ETH], maxPositionUsd: "2000"}
gates:
  chat: {mode: read, packs: {trading: {account: lab}}}
  backtest: {mode: write, clock: caller, packs: {trading: {account: lab}}}
  plain: {mode: write}
`

// feedOf returns a connector to in-memory data.
func feedOf(d *markettest.Data) connector {
	return func(*settings, yard.PackSetup) (*feed, error) {
		return &feed{Bars: d, Markets: d, Funding: d, news: d}, nil
	}
}

// testData returns ten days of bars.
func testData(seed uint64) *markettest.Data {
	d := markettest.New("5m")
	d.Walk("BTC", seed, start, 2880, 100)
	d.Walk("ETH", seed+1, start, 2880, 50)
	return d
}

// openYard opens a yard with the pack and a configuration.
func openYard(t testing.TB, connect connector, config string, tools ...*toolyard.Tool) *yard.Yard {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{ConfigFile: file, Tools: tools, Packs: map[string]yard.Pack{"trading": packWith(connect)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { y.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	<-y.Ready()
	return y
}

var agent = toolyard.Caller{ID: "agent"}

// call calls a tool at an as-of time and decodes its result.
func call[T any](t testing.TB, y *yard.Yard, gate string, asOf time.Time, tool, args string) (out T) {
	t.Helper()
	res, err := callRaw(t.Context(), y, gate, asOf, tool, args)
	if err != nil {
		t.Fatalf("calling %s at gate %s: error %v, want none", tool, gate, err)
	}
	if err := json.Unmarshal(res.Structured, &out); err != nil {
		t.Fatalf("result of %s: %v, want a %T: %s", tool, err, out, res.Structured)
	}
	return out
}

func callRaw(ctx context.Context, y *yard.Yard, gate string, asOf time.Time, tool, args string) (*toolyard.Result, error) {
	if asOf.IsZero() {
		return y.Call(ctx, gate, agent, tool, json.RawMessage(args))
	}
	return y.CallAsOf(ctx, asOf, gate, agent, tool, json.RawMessage(args))
}

const why = `"reasoning":"because the test wants to see what happens"`

func TestIntrospectionAndTradingToolsAreDerived(t *testing.T) {
	want := []string{
		"get_recent_decisions", "get_decision_snapshot", "get_current_position", "get_position_risk", "get_pnl_summary",
		"get_news_for_window", "get_command_history", "get_skill_config", "get_engine_rejections",
	}
	if diff := cmp.Diff(want, IntrospectionToolNames()); diff != "" {
		t.Error(diff)
	}
	trading := TradingToolNames()
	for _, name := range []string{"propose_order", "simulate_action", "get_portfolio", "read_my_prior_decisions"} {
		if !slices.Contains(trading, name) {
			t.Errorf("%s is missing in %v", name, trading)
		}
	}
	for _, name := range want {
		if slices.Contains(trading, name) {
			t.Errorf("%s is for introspection", name)
		}
	}
	for _, tool := range Tools() {
		if tool.Hint == "" || tool.Category == "" {
			t.Errorf("%s has no hint or category", tool.Name)
		}
		if modes := tool.Modes(); tool.Name == "propose_order" && (len(modes) != 1 || modes[0] != toolyard.Write) {
			t.Errorf("propose_order has the modes %v", modes)
		}
	}
}

func TestAnOrderIsDecidedFilledAndExplained(t *testing.T) {
	y := openYard(t, feedOf(testData(1)), labConfig)
	at := start.Add(24 * time.Hour)
	portfolio := call[struct{ Equity string }](t, y, "backtest", at, "get_portfolio", `{}`)
	if portfolio.Equity != "10000" {
		t.Errorf("equity %s", portfolio.Equity)
	}
	placed := call[account.Result](t, y, "backtest", at, "propose_order", `{"symbol":"BTC","action":"open","side":"buy","notionalUsd":"1000",`+why+`}`)
	if placed.Kind != account.Pending || placed.Decision != "d1" || placed.Order.Symbol != "BTC" {
		t.Fatalf("placed %+v", placed)
	}
	later := at.Add(10 * time.Minute)
	position := call[struct {
		Position *market.Position
		Decision string
	}](t, y, "backtest", later, "get_current_position", `{"symbol":"BTC"}`)
	if position.Position == nil || position.Decision != "d1" {
		t.Fatalf("position %+v", position)
	}
	rejected := call[account.Result](t, y, "backtest", later, "propose_order", `{"symbol":"DOGE","action":"open","side":"buy","notionalUsd":"1000",`+why+`}`)
	if rejected.Kind != account.Rejected || rejected.Rule != "SCOPE" {
		t.Errorf("an order out of scope: %+v", rejected)
	}
	hold := call[account.Result](t, y, "backtest", later, "propose_order", `{"symbol":"BTC","action":"hold",`+why+`}`)
	if hold.Kind != account.Noop {
		t.Errorf("hold: %+v", hold)
	}
	closed := call[account.Result](t, y, "backtest", later, "propose_order", `{"symbol":"BTC","action":"close",`+why+`}`)
	if closed.Kind != account.Pending {
		t.Errorf("close: %+v", closed)
	}

	end := later.Add(time.Hour)
	list := call[[]struct{ ID, Kind, Rule string }](t, y, "backtest", end, "get_recent_decisions", `{}`)
	if len(list) != 4 || list[0].Kind != "executed" || list[1].Kind != "noop" || list[2].Rule != "SCOPE" || list[3].Kind != "executed" {
		t.Errorf("decisions %+v", list)
	}
	past := call[[]struct{ ID string }](t, y, "backtest", at, "get_recent_decisions", `{}`)
	if len(past) != 1 {
		t.Errorf("decisions at %s: %+v", at, past)
	}
	snapshot := call[struct {
		Seen  []account.Observation
		Fills []market.Fill
		Rules []struct{ Rule string }
	}](t, y, "backtest", end, "get_decision_snapshot", `{"id":"d1"}`)
	if len(snapshot.Seen) != 1 || snapshot.Seen[0].Tool != "get_portfolio" || len(snapshot.Fills) != 1 || len(snapshot.Rules) != 15 {
		t.Errorf("snapshot %+v", snapshot)
	}
	rejections := call[struct{ Counts map[string]int }](t, y, "backtest", end, "get_engine_rejections", `{}`)
	if rejections.Counts["SCOPE"] != 1 {
		t.Errorf("rejections %+v", rejections)
	}
	pnl := call[struct {
		Trades int
		Net    string `json:"netUsd"`
		Equity string `json:"equityUsd"`
	}](t, y, "backtest", end, "get_pnl_summary", `{"window":"all"}`)
	if pnl.Trades != 1 {
		t.Errorf("pnl %+v", pnl)
	}
	config := call[struct {
		Clock, Trading string
		Risk           map[string]any
		Tools          []string
	}](t, y, "chat", time.Time{}, "get_skill_config", `{}`)
	if config.Clock != "system" || config.Trading != "active" || config.Risk["maxPositionUsd"] != "2000" {
		t.Errorf("configuration %+v", config)
	}
	chat := call[[]struct{ ID string }](t, y, "chat", time.Time{}, "get_recent_decisions", `{}`)
	if len(chat) != 4 {
		t.Errorf("the chat sees %+v", chat)
	}
	mine := call[[]struct{ ID string }](t, y, "backtest", end, "read_my_prior_decisions", `{"symbol":"BTC"}`)
	if len(mine) != 3 {
		t.Errorf("own decisions %+v", mine)
	}
}

func TestGatesWithoutAnAccountHaveNoData(t *testing.T) {
	y := openYard(t, feedOf(testData(1)), labConfig)
	for _, tool := range []string{"get_portfolio", "get_recent_decisions"} {
		if _, err := callRaw(t.Context(), y, "plain", time.Time{}, tool, `{}`); toolyard.AsError(err).Code != toolyard.NoData {
			t.Errorf("%s: %v", tool, err)
		}
	}
}
