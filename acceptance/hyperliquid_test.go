package acceptance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/acceptance/fakemarkets"
)

const (
	tradingAccount = "0x00000000000000000000000000000000000000a1"
	// agentKey is the key from the official SDK's signing tests, and agentAddress is its address.
	agentKey     = "0x0123456789012345678901234567890123456789012345678901234567890123"
	agentAddress = "0x14791697260e4c9a71f18484c9f997b308e59325"
)

// newVenue starts a venue with an account of 10,000 USD and an agent.
func newVenue(t *testing.T) *fakemarkets.Hyperliquid {
	t.Helper()
	venue := fakemarkets.NewHyperliquid()
	t.Cleanup(venue.Close)
	venue.Deposit(tradingAccount, "10000")
	venue.Approve(tradingAccount, agentAddress)
	return venue
}

// A third-party client reads the fake venue and trades on it, so the fake has the same formats and
// signatures as the real venue.
func TestForeignClientTradesAtTheFakeVenue(t *testing.T) {
	t.Parallel()
	venue := newVenue(t)
	out, err := node(t, script(t, "hyperliquid.mjs"), venue.URL, agentKey, tradingAccount)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for key, want := range map[string]string{
		"again": "never placed, already canceled, or filled", "small": "minimum value of $10", "expired": "expired", "stranger": "does not exist",
	} {
		text, _ := got[key].(string)
		if !strings.Contains(text, want) || !strings.HasPrefix(text, "ApiRequestError") {
			t.Errorf("%s: %q does not contain %q", key, text, want)
		}
		delete(got, key)
	}
	want := map[string]any{
		"candles": 13.0, "markets": []any{"BTC", "ETH", "SOL", "kPEPE"}, "mark": "100000", "funding": 10.0, "predicted": 4.0,
		"book": []any{20.0, 20.0}, "role": "user", "agents": 1.0, "taker": "0.00045", "filled": "0.5",
		"resting": "0xa1b2c3d4a1b2c3d4a1b2c3d4a1b2c3d4", "open": 1.0, "status": "open", "unknown": "unknownOid",
		"canceled": "success", "fills": []any{"Open Long"}, "position": "0.5", "schedule": "ok", "stops": []any{"filled", "resting"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
