package markets

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func TestHyperliquid(t *testing.T) {
	f := fakemarkets.NewHyperliquid()
	p := started(t, NewHyperliquid, Options{Links: annLinked(hyperliquid)}, f.Server)
	f.Set(annAddress, fakemarkets.HyperliquidAccount{
		AccountValue: "13104.514502", TotalNtlPos: "8900.10", TotalRawUsd: "-1.000000000000000001", TotalMarginUsed: "0.10", Withdrawable: "13104.5",
		Positions: []fakemarkets.HyperliquidPosition{
			{Coin: "ETH", Szi: "-0.0335", EntryPx: "2986.30", PositionValue: "100.02765", UnrealizedPnl: "-0.0134", Leverage: 20, LiquidationPx: "2866.26936529"},
			{Coin: "kPEPE", Szi: "5", Isolated: true, RawUsd: "-95.059824", Leverage: 3, MaxLeverage: 10},
		},
		Balances: []fakemarkets.HyperliquidBalance{{Coin: "USDC", Token: 0, Total: "14.625485", Hold: "0.0"}, {Coin: "a\u202eb", Token: 2, Total: "2000"}},
	})
	got, err := p.Provide(t.Context(), ann, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	const margin = `{"accountValue":"13104.514502","totalNtlPos":"8900.10","totalRawUsd":"-1.000000000000000001","totalMarginUsed":"0.10"}`
	const funding = `{"allTime":"0.0","sinceOpen":"0.0","sinceChange":"0.0"}`
	sameJSON(t, timeless(t, got), `{"marginSummary":`+margin+`,"crossMarginSummary":`+margin+`,"withdrawable":"13104.5","assetPositions":[
		{"type":"oneWay","position":{"coin":"ETH","szi":"-0.0335","leverage":{"type":"cross","value":20},"entryPx":"2986.30",
			"positionValue":"100.02765","unrealizedPnl":"-0.0134","returnOnEquity":"0.0","liquidationPx":"2866.26936529","marginUsed":"0.0",
			"maxLeverage":50,"cumFunding":`+funding+`}},
		{"type":"oneWay","position":{"coin":"kPEPE","szi":"5","leverage":{"type":"isolated","value":3,"rawUsd":"-95.059824"},"entryPx":"0.0",
			"positionValue":"0.0","unrealizedPnl":"0.0","returnOnEquity":"0.0","liquidationPx":null,"marginUsed":"0.0",
			"maxLeverage":10,"cumFunding":`+funding+`}}],
		"spotBalances":[{"coin":"USDC","token":0,"total":"14.625485","hold":"0.0","entryNtl":"0.0"},
			{"coin":"a\ufffdb","token":2,"total":"2000","hold":"0.0","entryNtl":"0.0"}],
		"time":0,"walletAddress":"`+annAddress+`","fetchedAt":""}`)
}

// goodState is a clearinghouseState that has an unknown member.
const goodState = ` {"marginSummary":{"accountValue":"1","totalNtlPos":"2","totalRawUsd":"3","totalMarginUsed":"4"},
"crossMarginSummary":{"accountValue":"1","totalNtlPos":"2","totalRawUsd":"3","totalMarginUsed":"4"},"crossMaintenanceMarginUsed":"0",
"withdrawable":"5","assetPositions":[{"type":"oneWay","position":{"coin":"BTC","szi":"-1","leverage":{"type":"cross","value":7},
"entryPx":null,"positionValue":"6","unrealizedPnl":"7","returnOnEquity":"8","liquidationPx":null,"marginUsed":"9","maxLeverage":50,
"cumFunding":{"allTime":"1","sinceOpen":"2","sinceChange":"3"},"canary":1}}],"time":1760000000000,"canary":{}} `

func TestReadPerpetuals(t *testing.T) {
	good, err := readPerpetuals([]byte(goodState))
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := json.Marshal(good); strings.Contains(string(data), "canary") {
		t.Errorf("an undeclared value was passed: %s", data)
	}
	for _, change := range [][2]string{
		{`"withdrawable":"5",`, ""},
		{`"withdrawable":"5"`, `"withdrawable":5`},
		{`"withdrawable":"5"`, `"Withdrawable":"5"`},
		{`"withdrawable":"5"`, `"withdrawable":""`},
		{`"withdrawable":"5"`, `"withdrawable":"5e9"`},
		{`"withdrawable":"5"`, `"withdrawable":" 5"`},
		{`"withdrawable":"5"`, `"withdrawable":"NaN"`},
		{`"withdrawable":"5"`, `"withdrawable":"` + strings.Repeat("5", maxDecimal+1) + `"`},
		{`"value":7`, `"value":"7"`},
		{`"value":7`, `"value":7.5`},
		{`"value":7`, `"value":-7`},
		{`"value":7`, `"value":99999999999999999999`},
		{`"coin":"BTC"`, `"coin":null`},
		{`"liquidationPx":null`, `"liquidationPx":0`},
		{`,"liquidationPx":null`, ``},
		{`"time":1760000000000`, `"time":null`},
		{`"assetPositions":[`, `"assetPositions":[null,`},
		{`"marginSummary":{`, `"marginSummary":[],"x":{`},
	} {
		bad := strings.Replace(goodState, change[0], change[1], 1)
		if bad == goodState || strictjson.Check([]byte(bad)) != nil {
			t.Fatalf("%q changes nothing, or too much", change)
		}
		if _, err := readPerpetuals([]byte(bad)); err == nil {
			t.Errorf("with %q it was taken", change[1])
		}
	}
	items := strings.TrimSuffix(strings.Repeat(`{"coin":"A","token":1,"total":"1","hold":"1","entryNtl":"1"},`, maxItems+1), ",")
	if _, err := readSpot([]byte(`{"balances":[` + items + `]}`)); err == nil {
		t.Error("too many balances were taken")
	}
}

func FuzzHyperliquid(f *testing.F) {
	f.Add([]byte(goodState))
	f.Add([]byte(`{"balances":[{"coin":"A","token":1,"total":"1","hold":"1","entryNtl":"1"}]}`))
	f.Add([]byte(`{"balances":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data) != nil {
			return
		}
		if state, err := readPerpetuals(data); err == nil {
			again(t, state, func(data []byte) (perpetuals, error) { return readPerpetuals(data) })
		}
		if spot, err := readSpot(data); err == nil {
			again(t, map[string]any{"balances": spot}, func(data []byte) ([]spotBalance, error) { return readSpot(data) })
		}
	})
}

// again checks that a value encodes to valid JSON of the same shape.
func again[T any](t *testing.T, value any, read func([]byte) (T, error)) {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := strictjson.Check(data); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if err := untrusted.CheckJSONText(data); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if _, err := read(data); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}
