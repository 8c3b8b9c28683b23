package markets

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

func TestPolymarket(t *testing.T) {
	f := fakemarkets.NewPolymarket()
	p := started(t, NewPolymarket, Options{Links: annLinked(polymarket)}, f.Server)
	condition := "0x" + strings.Repeat("aB", 32)
	f.Set(annAddress,
		fakemarkets.PolymarketPosition{Title: "Will it rain?", Outcome: "Yes", Size: "0.5", AvgPrice: "0.1", CurPrice: "0", Asset: "7", ConditionID: condition},
		fakemarkets.PolymarketPosition{
			Title: "Zero\u200bwidth " + strings.Repeat("é", maxText), Outcome: "No", Size: "12.34567890123456789012", AvgPrice: "1e-7",
			CurPrice: "0.4400", CashPnl: "-3.10", CurrentValue: "5.4", Asset: "8", ConditionID: condition,
		})
	got, err := p.Provide(t.Context(), ann, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, got, `{"positions":[
		{"market":"Zero\ufffdwidth `+strings.Repeat("é", 243)+`…","outcome":"No","size":12.34567890123456789012,"avgPrice":1e-7,"currentPrice":0.4400,
			"pnl":-3.10,"conditionId":"`+condition+`","asset":"8"},
		{"market":"Will it rain?","outcome":"Yes","size":0.5,"avgPrice":0.1,"currentPrice":0,"pnl":0,"conditionId":"`+condition+`","asset":"7"}],
		"openOrders":[],"balance":null,"note":"`+noteHidden+`"}`)
	q, err := url.ParseQuery(f.Requests()[0].Query)
	if err != nil || q.Get("user") != strings.ToLower(annAddress) || q.Get("sizeThreshold") != "0" {
		t.Error(q, err)
	}
}

func TestPolymarketPages(t *testing.T) {
	tests := []struct {
		held, listed, requests int
		truncated              bool
	}{
		{0, 0, 1, false},
		{99, 99, 1, false},
		{100, 100, 2, false},
		{250, 250, 3, false},
		{500, 500, 6, false},
		{501, 500, 6, true},
		{800, 500, 6, true},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.held), func(t *testing.T) {
			t.Parallel()
			f := fakemarkets.NewPolymarket()
			p := started(t, NewPolymarket, Options{Links: annLinked(polymarket)}, f.Server)
			var all []fakemarkets.PolymarketPosition
			for i := range test.held {
				all = append(all, fakemarkets.PolymarketPosition{Title: "m", Outcome: "Yes", Size: "2", CurrentValue: json.Number(fmt.Sprint(i)), CurPrice: json.Number(fmt.Sprint(i))})
			}
			f.Set(annAddress, all...)
			data, err := p.Provide(t.Context(), ann, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Positions []struct{ CurrentPrice int }
				Truncated bool
				Note      string
			}
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Positions) != test.listed || got.Truncated != test.truncated || strings.Contains(got.Note, "500") != test.truncated || len(f.Requests()) != test.requests {
				t.Errorf("%d positions, truncated %t, %d requests, %s", len(got.Positions), got.Truncated, len(f.Requests()), got.Note)
			}
			for i, position := range got.Positions {
				if position.CurrentPrice != test.held-1-i {
					t.Fatalf("position %d is %d", i, position.CurrentPrice)
				}
			}
		})
	}
}

// A position that moves to the next page while the pages are read counts once.
func TestPolymarketDuplicates(t *testing.T) {
	f := fakemarkets.NewPolymarket()
	p := started(t, NewPolymarket, Options{Links: annLinked(polymarket)}, f.Server)
	one := fakemarkets.PolymarketPosition{Title: "m", Outcome: "Yes", Size: "2", Asset: "1"}
	f.Set(annAddress, one, one, one)
	data, err := p.Provide(t.Context(), ann, time.Now())
	if err != nil || strings.Count(string(data), `"market"`) != 1 {
		t.Errorf("%s, %v", data, err)
	}
}

var goodPosition = `{"proxyWallet":"0x1","asset":"1","conditionId":"0x` + strings.Repeat("0", 64) + `","size":1,"avgPrice":2,"curPrice":3,"cashPnl":-4.50,"title":"t","outcome":"Yes","canary":1}`

func TestReadPositions(t *testing.T) {
	if _, err := readPositions([]byte("\n["+goodPosition+"] "), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := readPositions([]byte("["+goodPosition+","+goodPosition+"]"), 1); err == nil {
		t.Error("a page that is too long was taken")
	}
	for _, change := range [][2]string{
		{`"size":1`, `"size":"1"`},
		{`"size":1`, `"size":null`},
		{`"size":1,`, ``},
		{`"size":1`, `"Size":1`},
		{`"title":"t"`, `"title":7`},
		{`"title":"t"`, `"titel":"t"`},
		{`"conditionId":"0x00`, `"conditionId":"0x0`},
		{`"conditionId":"0x00`, `"conditionId":"0x0g`},
		{`"asset":"1"`, `"asset":1`},
	} {
		bad := "[" + strings.Replace(goodPosition, change[0], change[1], 1) + "]"
		if strictjson.Check([]byte(bad)) != nil {
			t.Fatalf("%q changes too much", change)
		}
		if _, err := readPositions([]byte(bad), 1); err == nil {
			t.Errorf("with %q it was taken", change[1])
		}
	}
}

func FuzzPolymarket(f *testing.F) {
	f.Add([]byte("[" + goodPosition + "]"))
	f.Add([]byte("[]"))
	f.Add([]byte(`{"error":"no"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data) != nil {
			return
		}
		page, err := readPositions(data, pageSize)
		if err != nil {
			return
		}
		var back []map[string]any
		for _, b := range page {
			back = append(back, map[string]any{
				"title": b.Market, "outcome": b.Outcome, "size": b.Size, "avgPrice": b.AvgPrice,
				"curPrice": b.CurrentPrice, "cashPnl": b.PnL, "conditionId": b.ConditionID, "asset": b.Asset,
			})
		}
		if len(back) > 0 {
			again(t, back, func(data []byte) ([]bet, error) { return readPositions(data, pageSize) })
		}
	})
}
