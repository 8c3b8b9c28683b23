package catalog

import (
	"context"

	"github.com/toolyard/toolyard"
)

// Offer is everything that the sources currently offer.
type Offer struct {
	Tools     []*toolyard.Tool
	Resources []*toolyard.Resource
	Prompts   []*toolyard.Prompt

	Generation uint64 // number of the generation that last changed the offer
}

// Static is a source of tools that never change.
type Static []*toolyard.Tool

// Run implements [toolyard.Source].
func (s Static) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	publish(toolyard.Offer{Tools: s})
	<-ctx.Done()
	return nil
}
