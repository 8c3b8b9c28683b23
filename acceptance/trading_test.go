package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tradingConfig returns a configuration with an account at a venue. A chat reads it, and an agent
// trades with it.
func tradingConfig(venue, risk string) string {
	return fmt.Sprintf(`packs:
  trading:
    hyperliquid: {url: %q, testnet: true}
    accounts:
      main: {broker: hyperliquid, address: %q, agentKey: %q, submit: auto}
    risk: %s
gates:
  chat: {mode: read, packs: {trading: {account: main}}}
  trade: {mode: write, packs: {trading: {account: main}}}
`, venue, tradingAccount, agentKey, risk)
}

// erasOf returns a client for each MCP era at a gate.
func erasOf(t *testing.T, p *process, gate string) map[string]client {
	return map[string]client{"2026-07-28": modernHTTP{t: t, url: p.url + "/" + gate}, "2025-11-25": newLegacyHTTP(t, p.url+"/"+gate)}
}

const buyBTC = `{"symbol":"BTC","action":"open","side":"buy","notionalUsd":"500","reasoning":"the acceptance test wants a position"%s}`

// orderKey returns a client order ID that makes an otherwise equal order a new one.
func orderKey(n int) string { return fmt.Sprintf(`,"clientOrderId":"0x%032x"`, n) }

func TestNineToolsAreForIntrospection(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", "packs: {trading: {}}\ngates: {default: {mode: write}}\n")
	res, err := http.Get(strings.TrimSuffix(p.url, "/mcp") + "/api/tools/catalog")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	var entries []struct {
		Name, Category, UIHint string
		Modes                  []string
	}
	if err := json.Unmarshal(body, &entries); err != nil {
		t.Fatal(err)
	}
	var introspection, trading []string
	for _, e := range entries {
		switch {
		case e.Category == "introspection":
			introspection = append(introspection, e.Name)
		case slices.Contains(e.Modes, "write"):
			trading = append(trading, e.Name)
		}
		if e.UIHint == "" {
			t.Errorf("%s has no hint", e.Name)
		}
	}
	slices.Sort(introspection)
	slices.Sort(trading)
	if diff := cmp.Diff([]string{
		"get_command_history", "get_current_position", "get_decision_snapshot", "get_engine_rejections", "get_news_for_window",
		"get_pnl_summary", "get_position_risk", "get_recent_decisions", "get_skill_config",
	}, introspection); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"analyze_chart_pattern", "compute_var", "fetch_news_sentiment", "fetch_recent_bars", "get_funding_rate", "get_open_interest",
		"get_portfolio", "get_top_traders", "propose_order", "read_my_prior_decisions", "simulate_action",
	}, trading); diff != "" {
		t.Error(diff)
	}
}

func TestChatNeverTrades(t *testing.T) {
	t.Parallel()
	venue := newVenue(t)
	p := serve(t, "toolyard", tradingConfig(venue.URL, "{allowedSymbols: [BTC]}"))
	for era, chat := range erasOf(t, p, "chat") {
		tools := listTools(t, chat)
		if slices.Contains(tools, "propose_order") || !slices.Contains(tools, "simulate_action") || !slices.Contains(tools, "get_recent_decisions") {
			t.Errorf("%s: the chat has the tools %v", era, tools)
		}
		m := call(t, chat, "propose_order", fmt.Sprintf(buyBTC, ""))
		if m.Error == nil || !strings.Contains(string(m.Error.Data), "METHOD_NOT_FOUND") {
			t.Errorf("%s: a forged order was answered %s", era, m.Result)
		}
		for _, action := range []string{"flatten", "kill", "pause"} {
			if m := call(t, chat, action, `{"account":"main","reason":"a model wants it"}`); m.Error == nil {
				t.Errorf("%s: a model can %s: %s", era, action, m.Result)
			}
		}
	}
	if orders := venue.Orders(tradingAccount); len(orders) != 0 {
		t.Fatalf("the chat placed %+v", orders)
	}
	n := 0
	for era, trade := range erasOf(t, p, "trade") {
		n++
		var placed struct{ Kind, Decision string }
		got := call(t, trade, "propose_order", fmt.Sprintf(buyBTC, orderKey(n))).result(t)
		if err := json.Unmarshal(got.Structured, &placed); err != nil || placed.Kind != "executed" {
			t.Errorf("%s: %s (%v)", era, got.Structured, err)
		}
		for _, action := range []string{"flatten", "kill", "pause"} {
			if m := call(t, trade, action, `{"account":"main","reason":"a model wants it"}`); m.Error == nil {
				t.Errorf("%s: a model can %s: %s", era, action, m.Result)
			}
		}
	}
	if orders := venue.Orders(tradingAccount); len(orders) != 2 {
		t.Errorf("the agent placed %+v", orders)
	}
	var decisions []struct{ Kind, Reasoning string }
	got := call(t, modernHTTP{t: t, url: p.url + "/chat"}, "get_recent_decisions", `{}`).result(t)
	if err := json.Unmarshal(got.Structured, &decisions); err != nil || len(decisions) != 2 || decisions[0].Kind != "executed" {
		t.Errorf("the chat sees %s (%v)", got.Structured, err)
	}
}

func TestReadGateCannotBindOrders(t *testing.T) {
	t.Parallel()
	config := "packs: {trading: {}}\ntoolsets: {mine: {tools: [get_portfolio, propose_order]}}\ngates: {chat: {mode: read, toolset: mine}}\n"
	code, out, errs := run(t, "toolyard", config, "check")
	if code != 1 || !strings.Contains(out+errs, "Tool propose_order not allowed in mode read") {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
}

func TestSymbolsOutOfScopeAreRejectedAndRecorded(t *testing.T) {
	t.Parallel()
	venue := newVenue(t)
	p := serve(t, "toolyard", tradingConfig(venue.URL, "{allowedSymbols: [ETH]}"))
	n := 0
	for era, trade := range erasOf(t, p, "trade") {
		n++
		got := call(t, trade, "propose_order", fmt.Sprintf(buyBTC, orderKey(n))).result(t)
		var rejected struct{ Kind, Rule, Decision string }
		if err := json.Unmarshal(got.Structured, &rejected); err != nil || got.IsError || rejected.Kind != "rejected" || rejected.Rule != "SCOPE" {
			t.Errorf("%s: %s (%v)", era, got.Structured, err)
		}
		var seen struct {
			Rejections []struct{ Rule, Decision string }
			Counts     map[string]int
		}
		for _, gate := range []string{"chat", "trade"} {
			got := call(t, erasOf(t, p, gate)[era], "get_engine_rejections", `{}`).result(t)
			if err := json.Unmarshal(got.Structured, &seen); err != nil || seen.Counts["SCOPE"] != n || seen.Rejections[0].Decision != rejected.Decision {
				t.Errorf("%s at %s: %s (%v)", era, gate, got.Structured, err)
			}
		}
	}
	if orders := venue.Orders(tradingAccount); len(orders) != 0 {
		t.Errorf("orders were placed: %+v", orders)
	}
	p.configure(tradingConfig(venue.URL, "{}"))
	p.logged(1, func(l map[string]any) bool { return strings.Contains(fmt.Sprint(l["msg"]), "reload") })
	for era, trade := range erasOf(t, p, "trade") {
		n++
		got := call(t, trade, "propose_order", fmt.Sprintf(buyBTC, orderKey(n))).result(t)
		if !strings.Contains(string(got.Structured), `"kind":"executed"`) {
			t.Errorf("%s, all symbols allowed: %s", era, got.Structured)
		}
	}
}
