package markets

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

const (
	usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	mkr  = "0x9f8F72aA9304c8B593d555F12eF6589cC3A579A2"
	dust = "0x00000000000000000000000000000000000000d0"
)

func amount(t testing.TB, text string) *big.Int {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok {
		t.Fatal(text)
	}
	return n
}

func TestWallet(t *testing.T) {
	var c clock
	f := fakemarkets.NewEVM(8453)
	p := started(t, NewWallet, Options{
		Links: annLinked(wallet), Chain: 8453, Now: c.now,
		Tokens: []Token{{Symbol: "USDC", Address: strings.ToLower(usdc), Decimals: new(6)}, {Address: mkr}, {Address: dust}},
	}, f.Server)
	huge := strings.Repeat("9", 77)
	f.SetBalance(annAddress, amount(t, "1500000000000000001"))
	f.SetToken(fakemarkets.EVMToken{Address: usdc, Symbol: "other", Decimals: 9, Balances: map[string]*big.Int{annAddress: amount(t, "12500000")}})
	f.SetToken(fakemarkets.EVMToken{Address: mkr, Symbol: "MKR", Bytes32: true, Decimals: 18, Balances: map[string]*big.Int{annAddress: amount(t, huge)}})
	f.SetToken(fakemarkets.EVMToken{Address: dust, Symbol: "DUST-" + strings.Repeat("x", 40), Decimals: 0, Balances: map[string]*big.Int{bobAddress: big.NewInt(1)}})
	for _, calls := range []int{9, 5} { // cached metadata is not requested again
		got, err := p.Provide(t.Context(), ann, c.now())
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, got, `{"address":"`+annAddress+`","chainId":8453,"nativeBalance":"1.500000000000000001","balances":[
			{"token":"USDC","address":"`+usdc+`","balance":"12.5","decimals":6},
			{"token":"MKR","address":"`+mkr+`","balance":"`+huge[:59]+"."+huge[59:]+`","decimals":18}]}`)
		requests := f.Requests()
		if n := strings.Count(requests[len(requests)-1].Body, `"method"`); n != calls {
			t.Errorf("%d calls, want %d", n, calls)
		}
		c.pass(cacheTTL)
	}
	if len(f.Requests()) != 2 {
		t.Errorf("%d requests", len(f.Requests()))
	}
}

func TestWalletWithManyTokens(t *testing.T) {
	f := fakemarkets.NewEVM(1)
	var tokens []Token
	for i := range 120 {
		address := fmt.Sprintf("0x%040x", i+1)
		f.SetToken(fakemarkets.EVMToken{Address: address, Symbol: fmt.Sprint("T", i), Balances: map[string]*big.Int{annAddress: big.NewInt(int64(i + 1))}})
		tokens = append(tokens, Token{Address: address})
	}
	p := started(t, NewWallet, Options{Links: annLinked(wallet), Tokens: tokens}, f.Server)
	data, err := p.Provide(t.Context(), ann, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var got walletData
	if err := json.Unmarshal(data, &got); err != nil || len(got.Balances) != 120 || len(f.Requests()) != 4 {
		t.Fatalf("%d balances, %d requests, %v", len(got.Balances), len(f.Requests()), err)
	}
	for i, b := range got.Balances {
		if b.Token != fmt.Sprint("T", i) || b.Balance != fmt.Sprint(i+1) {
			t.Errorf("%d: %+v", i, b)
		}
	}
}

func TestWrongChain(t *testing.T) {
	f := fakemarkets.NewEVM(1)
	p := started(t, NewWallet, Options{Links: annLinked(wallet), Chain: 8453, Tokens: []Token{{Address: usdc}}}, f.Server)
	_, err := p.Provide(t.Context(), ann, time.Now())
	mustFail(t, err, toolyard.Unavailable, "chain 1,", "chain 8453", "url or chain")
	f.SetChain(8453)
	f.SetToken(fakemarkets.EVMToken{Address: usdc, Symbol: "USDC", Decimals: 6})
	if _, err := p.Provide(t.Context(), ann, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestNotAToken(t *testing.T) {
	tests := map[string]struct {
		token *fakemarkets.EVMToken
		words string
	}{
		"no contract":        {nil, "balanceOf: the call did not return a number"},
		"a failing contract": {&fakemarkets.EVMToken{Reverts: true}, "balanceOf: the node refused the call with code 3"},
		"no symbol":          {&fakemarkets.EVMToken{}, "symbol: the call did not return a short string"},
		"a long symbol":      {&fakemarkets.EVMToken{Symbol: strings.Repeat("x", maxSymbol+1)}, "symbol"},
		"an endless symbol":  {&fakemarkets.EVMToken{Symbol: strings.Repeat("x", maxResult)}, "JSON-RPC"},
		"odd decimals":       {&fakemarkets.EVMToken{Symbol: "x", Decimals: maxDecimals + 1}, "decimals: must be at most 36"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := fakemarkets.NewEVM(1)
			p := started(t, NewWallet, Options{Links: annLinked(wallet), Tokens: []Token{{Address: usdc}}}, f.Server)
			if test.token != nil {
				test.token.Address = usdc
				f.SetToken(*test.token)
			}
			_, err := p.Provide(t.Context(), ann, time.Now())
			mustFail(t, err, toolyard.Unavailable, test.words)
		})
	}
}

func TestReadBatch(t *testing.T) {
	calls := walletCalls(annAddress, nil)
	tests := map[string]string{
		"":                   `[{"jsonrpc":"2.0","id":2,"result":"0x1"},{"jsonrpc":"2.0","id":1,"result":"0x1","error":null}]`,
		"an error for all":   `{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"canary"}}`,
		"one is missing":     `[{"jsonrpc":"2.0","id":1,"result":"0x1"}]`,
		"one too many":       `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2,"result":"0x1"},{"jsonrpc":"2.0","id":3,"result":"0x1"}]`,
		"one is there twice": `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":1,"result":"0x1"}]`,
		"of another call":    `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":3,"result":"0x1"}]`,
		"id in quotes":       `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":"2","result":"0x1"}]`,
		"another version":    `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"1.0","id":2,"result":"0x1"}]`,
		"no result":          `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2}]`,
		"not in hexadecimal": `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2,"result":"12"}]`,
		"a signed number":    `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2,"result":"0x-1"}]`,
		"both":               `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2,"result":"0x1","error":{"code":1}}]`,
		"an error of no use": `[{"jsonrpc":"2.0","id":1,"result":"0x1"},{"jsonrpc":"2.0","id":2,"error":"canary"}]`,
	}
	for name, answer := range tests {
		if _, err := readBatch([]byte(answer), calls); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSymbol(t *testing.T) {
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	text := fmt.Sprintf("%x", "USDC") + strings.Repeat("0", 56)
	for hex, want := range map[string]string{
		text:                             "USDC",
		word(32) + word(4) + text:        "USDC",
		word(32) + word(4) + text[:8]:    "USDC", // some contracts do not pad
		word(64) + word(4) + text:        "",
		word(32) + word(33) + text:       "",
		word(32):                         "", // 31 zeros and a space
		word(0):                          "",
		"":                               "",
		"ab":                             "",
		"abc":                            "",
		"ff" + text[2:]:                  "",
		strings.Repeat("f", 128) + text:  "",
		word(32) + word(4) + text + "00": "USDC",
	} {
		if got, err := (rpcResult{hex: hex}).symbol(); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", hex, got, err)
		}
	}
}

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		amount   string
		decimals int
		want     string
	}{{"0", 18, "0"}, {"0", 0, "0"}, {"1", 0, "1"}, {"10", 1, "1"}, {"10", 2, "0.1"}, {"1", 18, "0.000000000000000001"}, {"120", 1, "12"}, {"123", 1, "12.3"}} {
		if got := units(amount(t, test.amount), test.decimals); got != test.want {
			t.Errorf("%s with %d: %s, want %s", test.amount, test.decimals, got, test.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "amount"))
		decimals := rapid.IntRange(0, maxDecimals).Draw(t, "decimals")
		text := units(n, decimals)
		value, ok := new(big.Rat).SetString(text)
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
		if !ok || value.Cmp(new(big.Rat).SetFrac(n, scale)) != 0 || !decimalRE.MatchString(text) {
			t.Fatalf("%s with %d: %s", n, decimals, text)
		}
	})
}

func FuzzWallet(f *testing.F) {
	f.Add([]byte(`[{"jsonrpc":"2.0","id":5,"result":"0x55534443` + strings.Repeat("0", 56) + `"},{"jsonrpc":"2.0","id":4,"result":"0x` + strings.Repeat("0", 63) + `6"},` +
		`{"jsonrpc":"2.0","id":3,"result":"0x` + strings.Repeat("0", 63) + `1"},{"jsonrpc":"2.0","id":2,"result":"0x0"},{"jsonrpc":"2.0","id":1,"result":"0x1"}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data) != nil {
			return
		}
		tokens := []token{{address: usdc, decimals: -1}}
		results, err := readBatch(data, walletCalls(annAddress, tokens))
		if err != nil {
			return
		}
		got, err := readWallet(results, 1, tokens)
		if err != nil {
			return
		}
		again(t, got, func(data []byte) (string, error) {
			var r reading
			return r.object("answer", data).decimal("nativeBalance"), r.err
		})
		if got.ChainID != 1 || tokens[0].symbol == "" || tokens[0].decimals < 0 {
			t.Fatalf("%+v %+v", got, tokens)
		}
	})
}
