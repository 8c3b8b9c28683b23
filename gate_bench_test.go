package toolyard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// Gates are bound again whenever the catalog changes, so binding must be fast even with many tools.
func BenchmarkBind10000(b *testing.B) {
	var offer catalog.Offer
	for i := range 10_000 {
		t, err := toolyard.NewTool(toolyard.Spec{Name: fmt.Sprintf("tool_%d", i%50), Server: fmt.Sprintf("server-%d", i/50), Effects: toolyard.ReadOnly},
			func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
		if err != nil {
			b.Fatal(err)
		}
		offer.Tools = append(offer.Tools, t)
	}
	g := &gates.Gate{Mode: toolyard.Read}
	v := g.Bind(offer, nil)
	for b.Loop() {
		v = g.Bind(offer, v)
	}
}
