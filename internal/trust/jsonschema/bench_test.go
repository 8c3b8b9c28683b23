package jsonschema

import (
	"strings"
	"testing"

	judge "github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	ordinarySchema = `{"type":"object","properties":{"symbol":{"type":"string","minLength":1},"interval":{"type":"string","enum":["1m","5m","1h"]},
		"lookback":{"type":"integer","minimum":1,"maximum":500,"default":100},"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z]+$"}},
		"range":{"type":"object","properties":{"from":{"type":"string","format":"date-time"},"to":{"type":"string","format":"date-time"}},"required":["from"],"additionalProperties":false}},
		"required":["symbol"],"additionalProperties":false}`
	ordinaryValue = `{"symbol":"BTC","interval":"5m","lookback":20,"tags":["red","green"],"range":{"from":"2026-01-31T09:30:00Z"}}`
)

// BenchmarkOrdinaryArguments measures the overhead of the budget on ordinary arguments, compared
// with a library that has no budget.
func BenchmarkOrdinaryArguments(b *testing.B) {
	b.Run("budget", func(b *testing.B) {
		s, err := Compile([]byte(ordinarySchema))
		if err != nil {
			b.Fatal(err)
		}
		raw := []byte(ordinaryValue)
		b.ReportAllocs()
		for b.Loop() {
			if _, issues, err := s.Complete(b.Context(), raw); err != nil || len(issues) > 0 {
				b.Fatal(issues, err)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		s, err := judgeCompile(ordinarySchema)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			doc, err := judge.UnmarshalJSON(strings.NewReader(ordinaryValue))
			if err != nil || s.Validate(doc) != nil {
				b.Fatal(err)
			}
		}
	})
}
