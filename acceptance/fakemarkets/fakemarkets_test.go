package fakemarkets_test

import (
	"context"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/base/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	user  = "0x00000000000000000000000000000000000000A1"
	token = "0x00000000000000000000000000000000000000b2"
)

// ask sends a request. It is a POST request if there is a body.
func ask(t *testing.T, url, body string) (*http.Response, string) {
	t.Helper()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err.Error()
	}
	return res, string(data)
}

// check compares a response. The value of time may be anything.
func check(t *testing.T, url, body string, status int, want string) {
	t.Helper()
	res, got := ask(t, url, body)
	if res == nil || res.StatusCode != status {
		t.Fatalf("%s %s: %s", url, body, got)
	}
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if got != want {
			t.Errorf("%s %s: %q", url, body, got)
		}
		return
	}
	var a, b any
	if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		t.Fatalf("%s\n%s", got, want)
	}
	if o, ok := a.(map[string]any); ok && o["time"] != nil {
		o["time"] = float64(0)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("%s %s (-want +got)\n%s", url, body, diff)
	}
}

func TestHyperliquid(t *testing.T) {
	f := fakemarkets.NewHyperliquid()
	defer f.Close()
	f.Set(user, fakemarkets.HyperliquidAccount{
		AccountValue: "100.5", Withdrawable: "1.0",
		Positions: []fakemarkets.HyperliquidPosition{{Coin: "ETH", Szi: "-2.0", EntryPx: "9.5", PositionValue: "19.0", Isolated: true, RawUsd: "-5.0", Leverage: 3}},
		Balances:  []fakemarkets.HyperliquidBalance{{Coin: "USDC", Total: "7.0"}},
	})
	const margin = `{"accountValue":"100.5","totalNtlPos":"0.0","totalRawUsd":"0.0","totalMarginUsed":"0.0"}`
	check(t, f.URL+"/info", `{"type":"clearinghouseState","user":"`+strings.ToLower(user)+`"}`, 200, `{"marginSummary":`+margin+`,
		"crossMarginSummary":`+margin+`,"crossMaintenanceMarginUsed":"0.0","withdrawable":"1.0","assetPositions":[{"type":"oneWay","position":{
		"coin":"ETH","szi":"-2.0","leverage":{"type":"isolated","value":3,"rawUsd":"-5.0"},"entryPx":"9.5","positionValue":"19.0",
		"unrealizedPnl":"0.0","returnOnEquity":"0.0","liquidationPx":null,"marginUsed":"0.0","maxLeverage":50,
		"cumFunding":{"allTime":"0.0","sinceOpen":"0.0","sinceChange":"0.0"}}}],"time":0}`)
	check(t, f.URL+"/info", `{"type":"spotClearinghouseState","user":"`+user+`"}`, 200,
		`{"balances":[{"coin":"USDC","token":0,"total":"7.0","hold":"0.0","entryNtl":"0.0"}]}`)
	const odd = "Failed to deserialize the JSON body into the target type"
	for _, body := range []string{`{"type":"clearinghouseState","user":"ann"}`, `{"type":"no","user":"` + user + `"}`, "no"} {
		check(t, f.URL+"/info", body, 422, odd)
	}
}

func TestPolymarket(t *testing.T) {
	f := fakemarkets.NewPolymarket()
	defer f.Close()
	f.Set(user, fakemarkets.PolymarketPosition{Title: "A", Outcome: "Yes", Size: "0.5"}, fakemarkets.PolymarketPosition{Title: "B", Outcome: "No", Size: "2", CurPrice: "0.50"})
	if _, got := ask(t, f.URL+"/positions?user="+user, ""); !strings.Contains(got, `"curPrice":0.50`) || strings.Contains(got, `"A"`) {
		t.Errorf("small positions are not hidden by default: %s", got)
	}
	if _, got := ask(t, f.URL+"/positions?sizeThreshold=0&offset=1&limit=1&user="+user, ""); !strings.Contains(got, `"A"`) || strings.Contains(got, `"B"`) {
		t.Errorf("not the second page: %s", got)
	}
	check(t, f.URL+"/positions?user="+token, "", 200, `[]`)
	check(t, f.URL+"/positions", "", 400, `{"error":"required query param 'user' not provided"}`)
	check(t, f.URL+"/positions?limit=501&user="+user, "", 400, `{"error":"invalid query param 'limit'"}`)
}

func TestEVM(t *testing.T) {
	f := fakemarkets.NewEVM(8453)
	defer f.Close()
	f.SetBalance(user, big.NewInt(255))
	f.SetToken(fakemarkets.EVMToken{Address: token, Symbol: "abc", Decimals: 6, Balances: map[string]*big.Int{user: big.NewInt(16)}})
	call := func(data string) string {
		return `"method":"eth_call","params":[{"to":"` + token + `","data":"` + data + `"},"latest"]}`
	}
	word := func(digits string) string { return strings.Repeat("0", 64-len(digits)) + digits }
	check(t, f.URL, `[{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]},{"jsonrpc":"2.0","id":"b","method":"eth_getBalance","params":["`+user+`","latest"]},
		{"jsonrpc":"2.0","id":3,`+call("0x70a08231"+word(strings.ToLower(user[2:])))+`,{"jsonrpc":"2.0","id":4,`+call("0x95d89b41")+`,{"jsonrpc":"2.0","id":5,`+call("0x00000000")+`]`, 200,
		`[{"jsonrpc":"2.0","id":5,"error":{"code":3,"message":"execution reverted"}},
		{"jsonrpc":"2.0","id":4,"result":"0x`+word("20")+word("3")+"616263"+strings.Repeat("0", 58)+`"},
		{"jsonrpc":"2.0","id":3,"result":"0x`+word("10")+`"},{"jsonrpc":"2.0","id":"b","result":"0xff"},{"jsonrpc":"2.0","id":1,"result":"0x2105"}]`)
	check(t, f.URL, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`, 200, `{"jsonrpc":"2.0","id":1,"result":"0x2105"}`)
	check(t, f.URL, `{"jsonrpc":"2.0","id":1,"method":"no"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method no does not exist/is not available"}}`)
	check(t, f.URL, `{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["ann","latest"]}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params"}}`)
	check(t, f.URL, `[]`, 200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`)
}

func TestFaults(t *testing.T) {
	f := fakemarkets.NewHyperliquid()
	defer f.Close()
	body := `{"type":"spotClearinghouseState","user":"` + user + `"}`
	f.Budget(4)
	for i, status := range []int{200, 200, 429} {
		if res, _ := ask(t, f.URL+"/info", body); res == nil || res.StatusCode != status {
			t.Errorf("request %d: %v", i, res)
		}
	}
	f.Budget(100)
	f.RetryAfter("3")
	f.Status(503)
	if res, _ := ask(t, f.URL+"/info", body); res == nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "3" {
		t.Error(res)
	}
	f.Status(0)
	f.Garbage("<html>")
	if _, got := ask(t, f.URL+"/info", body); got != "<html>" {
		t.Error(got)
	}
	f.Garbage("")
	f.Cut(true)
	if res, got := ask(t, f.URL+"/info", body); res != nil {
		t.Error(got)
	}
	f.Cut(false)
	f.Down(true)
	if res, got := ask(t, f.URL+"/info", body); res != nil {
		t.Error(got)
	}
	f.Down(false)
	f.Delay(50 * time.Millisecond)
	start := time.Now()
	if res, got := ask(t, f.URL+"/info", body); res == nil || time.Since(start) < 50*time.Millisecond {
		t.Error(got)
	}
	requests := f.Requests()
	if last := requests[len(requests)-1]; last.Method != "POST" || last.Path != "/info" || last.Body != body || last.Header.Get("User-Agent") == "" || len(requests) != 8 {
		t.Errorf("%d requests, the last is %+v", len(requests), last)
	}
}
