package acceptance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// catalogOf returns the catalog's entries.
func catalogOf(t *testing.T, p *process) []map[string]any {
	t.Helper()
	res, err := http.Get(strings.TrimSuffix(p.url, "/mcp") + "/api/tools/catalog")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	var entries []map[string]any
	if err != nil || res.StatusCode != http.StatusOK || json.Unmarshal(body, &entries) != nil {
		t.Fatalf("%s: %v %.300s", res.Status, err, body)
	}
	return entries
}

// The trading pack lists all of its tools even if there is no venue, account or network.
func TestTradingCatalogNeedsNoVenue(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", "packs: {trading: {hyperliquid: {url: \"http://127.0.0.1:1\"}}}\ngates: {default: {mode: write}}\n")
	found := map[string]bool{}
	for _, e := range catalogOf(t, p) {
		name, _ := e["name"].(string)
		found[name] = true
		for _, key := range []string{"name", "category", "description", "modes", "inputSchema"} {
			if e[key] == nil {
				t.Errorf("%s has no %s", name, key)
			}
		}
		hint, _ := e["uiHint"].(string)
		if e["category"] != "samples" && !strings.HasPrefix(hint, "Use ") && strings.Contains(name, "_") {
			t.Errorf("%s has the hint %q", name, hint)
		}
		if name == "fetch_recent_bars" && hint != "Use to read recent price action before deciding to trade" {
			t.Errorf("uiHint is %q", hint)
		}
	}
	for _, name := range []string{
		"fetch_recent_bars", "fetch_news_sentiment", "get_portfolio", "propose_order", "get_top_traders", "get_funding_rate", "get_open_interest",
		"analyze_chart_pattern", "compute_var", "read_my_prior_decisions", "simulate_action",
	} {
		if !found[name] {
			t.Errorf("%s is missing", name)
		}
	}
}

// Nine introspection tools explain an account. A trading agent's tools are the other tools that a
// write gate offers.
func TestTradingCatalogCategories(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", "packs: {trading: {}}\ngates: {default: {mode: write}}\n")
	var introspection, trading []string
	for _, e := range catalogOf(t, p) {
		modes, _ := e["modes"].([]any)
		name, _ := e["name"].(string)
		switch {
		case e["category"] == "introspection":
			introspection = append(introspection, name)
		case slices.Contains(modes, any("write")):
			trading = append(trading, name)
		}
	}
	slices.Sort(introspection)
	want := []string{
		"get_command_history", "get_current_position", "get_decision_snapshot", "get_engine_rejections", "get_news_for_window", "get_pnl_summary",
		"get_position_risk", "get_recent_decisions", "get_skill_config",
	}
	if diff := cmp.Diff(want, introspection); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(trading, "propose_order") || !slices.Contains(trading, "fetch_recent_bars") {
		t.Errorf("the tools of a trading agent are %v", trading)
	}
}

// Errors for invalid bar requests name the argument, and the requests never reach the venue.
func TestInvalidBarRequestsNeverReachTheVenue(t *testing.T) {
	t.Parallel()
	venue := newVenue(t)
	p := serve(t, "toolyard", fmt.Sprintf("packs: {trading: {hyperliquid: {url: %q, testnet: true}}}\n", venue.URL))
	for name, c := range eras(t, p) {
		for args, path := range map[string]string{
			`{"symbol":"BTC","interval":"5m","lookback":0}`:    "lookback",
			`{"symbol":"BTC","interval":"5m","lookback":501}`:  "lookback",
			`{"symbol":"BTC","interval":"5m","lookback":"10"}`: "lookback",
			`{"symbol":"BTC","interval":"5m","lookback":1.5}`:  "lookback",
			`{"symbol":"BTC","interval":"2m","lookback":10}`:   "interval",
			`{"interval":"5m","lookback":10}`:                  "symbol",
		} {
			var failure struct {
				Error  string
				Issues []struct{ Path string }
			}
			r := call(t, c, "fetch_recent_bars", args).result(t)
			if err := json.Unmarshal(r.failure(), &failure); err != nil || !r.IsError || failure.Error != "VALIDATION_ERROR" || len(failure.Issues) != 1 || failure.Issues[0].Path != path {
				t.Errorf("%s, %s: %s", name, args, r.failure())
			}
		}
	}
	if n := len(venue.Requests()); n != 0 {
		t.Errorf("the venue received %d requests", n)
	}
}

// Bars are closed at the call's as-of time, newest first; a later time returns later bars. Only a
// gate with clock: caller accepts an as-of time.
func TestBarsAsOfATime(t *testing.T) {
	t.Parallel()
	venue := newVenue(t)
	p := serve(t, "toolyard", fmt.Sprintf(`packs: {trading: {hyperliquid: {url: %q, testnet: true}, accounts: {lab: {broker: paper}}}}
gates:
  default: {mode: read}
  backtest: {mode: write, clock: caller, packs: {trading: {account: lab}}}
`, venue.URL))
	asOf := time.Now().UTC().Add(-10 * time.Hour).Truncate(time.Second)
	const args = `{"name":"fetch_recent_bars","arguments":{"symbol":"BTC","interval":"5m","lookback":10}`
	recent := map[string]func(url string, at time.Time) message{
		"2026-07-28": func(url string, at time.Time) message {
			m, _ := modernHTTP{t: t, url: url, meta: fmt.Sprintf(`,"dev.toolyard/asOf":%q`, at.Format(time.RFC3339))}.send("1", "tools/call", args+"}")
			return m
		},
		"2025-11-25": func(url string, at time.Time) message {
			m, _ := newLegacyHTTP(t, url).send("1", "tools/call", fmt.Sprintf(`%s,"_meta":{"dev.toolyard/asOf":%q}}`, args, at.Format(time.RFC3339)))
			return m
		},
	}
	for name, request := range recent {
		newest := int64(0)
		for _, at := range []time.Time{asOf, asOf.Add(time.Hour)} {
			m := request(p.url+"/backtest", at)
			var bars []struct{ TS int64 }
			for _, content := range m.result(t).Content {
				var bar struct{ TS int64 }
				if err := json.Unmarshal([]byte(content.Text), &bar); err != nil {
					t.Fatalf("%s: %v in %.200s", name, err, m.Result)
				}
				bars = append(bars, bar)
			}
			if len(bars) != 10 || bars[0].TS <= newest {
				t.Fatalf("%s: %d bars at %s: %.300s", name, len(bars), at, m.Result)
			}
			newest = bars[0].TS
			for i, bar := range bars {
				if end := time.UnixMilli(bar.TS).Add(5 * time.Minute); end.After(at) || i > 0 && bar.TS >= bars[i-1].TS {
					t.Errorf("%s: bar %d ends at %s, as of %s", name, i, end, at)
				}
			}
		}
	}
	for name, request := range recent {
		m := request(p.url, asOf)
		if text, _ := json.Marshal(m); !strings.Contains(string(text), "VALIDATION_ERROR") {
			t.Errorf("%s: a gate without the callers' clock answers %.300s", name, text)
		}
	}
}
