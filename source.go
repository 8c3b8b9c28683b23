package toolyard

import "context"

// Source offers tools: Go code, a folder of TypeScript files or an MCP server.
//
// Run passes the complete offer to publish whenever it changes, and blocks until ctx ends. If Run
// returns an error, or returns before it has published anything, the catalog runs it again after a
// pause; the published offer stays listed in the meantime.
type Source interface {
	Run(ctx context.Context, publish func(Offer)) error
}

// Offer is everything that a [Source] currently offers.
type Offer struct {
	Tools     []*Tool
	Resources []*Resource
	Prompts   []*Prompt
	Problems  []Problem
}
