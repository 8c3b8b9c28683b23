package httpapi

import (
	"context"
	"slices"
	"testing"

	"github.com/toolyard/toolyard"
)

// A natural-language query that few tools match word for word returns the best matches.
func TestToolSearchFallsBackToRanking(t *testing.T) {
	var tools []*toolyard.Tool
	for _, spec := range []toolyard.Spec{
		{Name: "pay_invoice", Description: "Pay an invoice.", Input: []byte(`{"type":"object","properties":{"iban":{"type":"string","description":"Account of the supplier"}}}`)},
		{Name: "weather_forecast", Description: "Forecast for a city."},
	} {
		tool, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	x := newIndex(&Snapshot{Tools: tools})
	find := func(query string, keep func(int) bool) (names []string) {
		for _, hit := range x.find(query, keep) {
			names = append(names, tools[hit.Doc].Name)
		}
		return names
	}
	all := func(int) bool { return true }
	for query, want := range map[string][]string{
		"forecast":                               {"weather_forecast"},
		"please pay what we owe this supplier":   {"pay_invoice"},
		"what will the weather be like tomorrow": {"weather_forecast"},
		"zebra":                                  nil,
	} {
		if got := find(query, all); !slices.Equal(got, want) {
			t.Errorf("find(%q) = %q, want %q", query, got, want)
		}
	}
	if got := find("please pay what we owe this supplier", func(i int) bool { return i != 0 }); len(got) > 0 {
		t.Errorf("hidden tools are found: %q", got)
	}
}
