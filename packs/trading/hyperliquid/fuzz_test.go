package hyperliquid

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// recorded contains responses in the venue's format, by kind of request.
var recorded = map[string]string{
	"candles":  `[{"t":1684699200000,"T":1684702799999,"s":"kPEPE","i":"1h","o":"0.001601","c":"0.001604","h":"0.001616","l":"0.001601","v":"520665683.0","n":709}]`,
	"universe": `[{"universe":[{"name":"BTC","szDecimals":5,"maxLeverage":40,"marginTableId":56},{"name":"MATIC","szDecimals":1,"maxLeverage":20,"marginTableId":20,"isDelisted":true}],"marginTables":[[56,{"description":"tiered 40x","marginTiers":[{"lowerBound":"0.0","maxLeverage":40},{"lowerBound":"150000000.0","maxLeverage":20}]}]],"collateralToken":0},[{"funding":"0.0000125","openInterest":"25877.14916","prevDayPx":"111000.0","dayNtlVlm":"2000000000.5","premium":"-0.00022","oraclePx":"113106.0","markPx":"113080.0","midPx":"113080.5","impactPxs":["113080.0","113081.0"],"dayBaseVlm":"20000.1"},{"funding":"0.0","openInterest":"0.0","prevDayPx":"0.5","dayNtlVlm":"0.0","premium":null,"oraclePx":"0.5","markPx":"0.5","midPx":null,"impactPxs":null,"dayBaseVlm":"0.0"}]]`,
	"funding":  `[{"coin":"BTC","fundingRate":"0.0000125","premium":"0.00029005","time":1769908800022},{"coin":"BTC","fundingRate":"0.0000125","time":1769912400000}]`,
	"forecast": `[["BTC",[["HlPerp",{"fundingRate":"0.0000125","nextFundingTime":1769912400000,"fundingIntervalHours":1}],["BinPerp",null]]]]`,
	"book":     `{"coin":"BTC","time":1769908800022,"levels":[[{"px":"2.111","sz":"134.4","n":1}],[{"px":"2.112","sz":"1.0","n":3}]]}`,
	"state":    `{"marginSummary":{"accountValue":"29.78001","totalNtlPos":"0.0","totalRawUsd":"29.78001","totalMarginUsed":"0.0"},"crossMarginSummary":{"accountValue":"29.78001","totalNtlPos":"0.0","totalRawUsd":"29.78001","totalMarginUsed":"0.0"},"withdrawable":"29.78001","assetPositions":[{"type":"oneWay","position":{"coin":"ETH","szi":"-2.0","leverage":{"type":"isolated","value":3,"rawUsd":"-5.0"},"entryPx":"9.5","positionValue":"19.0","unrealizedPnl":"0.0","returnOnEquity":"0.0","liquidationPx":null,"marginUsed":"0.0","maxLeverage":50,"cumFunding":{"allTime":"0.0","sinceOpen":"0.0","sinceChange":"0.0"}}}],"time":1733968369395}`,
	"orders":   `[{"children":[],"coin":"INJ","isPositionTpsl":false,"isTrigger":true,"limitPx":"9.2037","oid":3184595907,"orderType":"Take Profit Market","origSz":"12.5","reduceOnly":true,"side":"A","sz":"12.5","tif":null,"timestamp":1700126022555,"triggerCondition":"Price above 10.004","triggerPx":"10.004"}]`,
	"status":   `{"status":"order","order":{"order":{"coin":"ETH","side":"A","limitPx":"2412.7","sz":"0.0","oid":1,"timestamp":1724361546645,"triggerCondition":"N/A","isTrigger":false,"triggerPx":"0.0","children":[],"isPositionTpsl":false,"reduceOnly":true,"orderType":"Market","origSz":"0.0076","tif":"FrontendMarket","cloid":null},"status":"filled","statusTimestamp":1724361546645}}`,
	"fills":    `[{"closedPnl":"-0.25686","coin":"SUI","crossed":true,"dir":"Close Long","fee":"0.0","hash":"0x3d47","oid":189324432,"px":"1.3189","side":"A","startPosition":"4623.5","sz":"142.7","time":1683245884863}]`,
	"agents":   `[{"name":"ok","address":"0x286edfa08c04f6899dab3bfdecf2dd133f9733b9","validUntil":1767776120478}]`,
	"leaders":  `{"leaderboardRows":[{"ethAddress":"0x162cc7c861ebd0c06b3d72319201150482518185","accountValue":"33457281.9","windowPerformances":[["day",{"pnl":"-41557.1","roi":"-0.0012","vlm":"0.0"}],["week",{"pnl":"1.0","roi":"0.1","vlm":"2.0"}]],"prize":0,"displayName":"ABC"}]}`,
	"placed":   `{"status":"ok","response":{"type":"order","data":{"statuses":[{"resting":{"oid":77738308}},{"filled":{"totalSz":"0.02","avgPx":"1891.4","oid":77747314}},{"error":"Order must have minimum value of $10. asset=173"},"waitingForTrigger"]}}}`,
	"refused":  `{"status":"err","response":"User or API Wallet 0x0000000000000000000000000000000000000000 does not exist."}`,
}

// readAnswer decodes a response as every kind.
func readAnswer(data []byte) map[string]error {
	out := map[string]error{}
	_, out["candles"] = ParseCandles(data, "kPEPE", "1h")
	var pair []json.RawMessage
	if err := decode(data, &pair); err != nil {
		out["universe"] = err
	} else {
		u, err := readUniverse(pair)
		for i := range u.names() {
			_ = u.market(i)
		}
		out["universe"] = err
	}
	var pairs [][2]json.RawMessage
	if err := decode(data, &pairs); err != nil {
		out["forecast"] = err
	} else {
		_, out["forecast"] = readForecasts(pairs, "BTC")
	}
	var state clearinghouseWire
	out["state"] = decode(data, &state)
	for i := range state.AssetPositions {
		if p := &state.AssetPositions[i].Position; !p.Size.IsZero() {
			_ = p.position()
		}
	}
	var orders []openOrderWire
	out["orders"] = decode(data, &orders)
	for i := range orders {
		_ = orders[i].openOrder()
	}
	var funding []fundingWire
	out["funding"] = decode(data, &funding)
	var book bookWire
	out["book"] = decode(data, &book)
	var status struct{ Order statusWire }
	out["status"] = decode(data, &status)
	_ = statusOf(status.Order.Status)
	var fills []fillWire
	out["fills"] = decode(data, &fills)
	var agents []agentWire
	out["agents"] = decode(data, &agents)
	_, out["leaders"] = readLeaders(bytes.NewReader(data))
	var answer exchangeAnswer
	out["placed"] = decode(data, &answer)
	out["refused"] = out["placed"]
	if out["placed"] == nil {
		_, out["placed"] = readStatuses(answer.Response, 4)
	}
	return out
}

func (u *universe) names() []asset {
	if u == nil {
		return nil
	}
	return u.assets
}

func TestRecordedAnswersAreRead(t *testing.T) {
	for kind, answer := range recorded {
		if err := readAnswer([]byte(answer))[kind]; err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, answer := range recorded {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		_ = readAnswer(data)
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"1", "-1.5", "1e9", "0x1", ".5", "5.", "--1", "99999999999999999999999999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseDecimal(s)
		if err == nil && len(v.String()) > maxDecimalLen+1 {
			t.Errorf("%q becomes %d characters", s, len(v.String()))
		}
	})
}
