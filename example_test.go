package toolyard_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

func ExampleDefine() {
	type args struct {
		Symbol   string `json:"symbol" doc:"Perp symbol, such as BTC"`
		Lookback int    `json:"lookback" minimum:"1" maximum:"500" default:"100"`
	}
	bars := toolyard.Define(
		toolyard.Spec{Name: "fetch_recent_bars", Description: "Recent price bars.", Effects: toolyard.ReadOnly},
		func(_ context.Context, call *toolyard.Call, in args) (string, error) {
			return fmt.Sprintf("%d bars of %s until %s", in.Lookback, in.Symbol, call.AsOf.Format("2006")), nil
		})
	fmt.Println(string(bars.Input))

	args1, err := bars.Validate(context.Background(), json.RawMessage(`{"symbol":"BTC"}`))
	fmt.Println(string(args1), err)
	_, err = bars.Validate(context.Background(), json.RawMessage(`{"symbl":"BTC","lookback":501}`))
	fmt.Println(err)
	// Output:
	// {"type":"object","properties":{"symbol":{"type":"string","description":"Perp symbol, such as BTC"},"lookback":{"type":"integer","minimum":1,"maximum":500,"default":100}},"required":["symbol"],"additionalProperties":false}
	// {"symbol":"BTC","lookback":100} <nil>
	// Invalid arguments for fetch_recent_bars: lookback: must be at most 500; symbl: is unknown (did you mean "symbol"?); symbol: is required
}

func ExampleResultOf() {
	for _, value := range []any{"text", 42, map[string]int{"a": 1}, []string{"a", "b"}, toolyard.Failure("no such city")} {
		res, _ := toolyard.ResultOf(value)
		for _, c := range res.Content {
			fmt.Print(string(c.AppendJSON(nil)), " ")
		}
		fmt.Println(string(res.Structured), res.IsError)
	}
	// Output:
	// {"type":"text","text":"text"}  false
	// {"type":"text","text":"42"}  false
	// {"type":"text","text":"{\"a\":1}"} {"a":1} false
	// {"type":"text","text":"a"} {"type":"text","text":"b"} ["a","b"] false
	// {"type":"text","text":"no such city"}  true
}

func ExampleGate_HiddenBy() {
	nothing := func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil }
	order := toolyard.Define(toolyard.Spec{Name: "propose_order"}, nothing)
	bars := toolyard.Define(toolyard.Spec{Name: "get_bars", Effects: toolyard.ReadOnly}, nothing)
	chat := &gates.Gate{Name: "chat", Mode: toolyard.Read}
	for _, t := range []*toolyard.Tool{order, bars} {
		fmt.Printf("%s: %v %s\n", t.Name, chat.Visible(t), chat.HiddenBy(t))
	}
	// Output:
	// propose_order: false not allowed in mode read
	// get_bars: true
}

func ExampleMoney() {
	price, _ := toolyard.ParseMoney("0.0005")
	total := toolyard.Money(0)
	for range 3 {
		total, _ = total.Add(price)
	}
	fmt.Println(total)
	// Output: 0.0015
}
