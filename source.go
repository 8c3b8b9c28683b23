package toolyard

import "context"

// Source is where tools come from: Go code, a folder of TypeScript, an MCP server.
//
// Run offers tools through publish, each time the complete set, and blocks until ctx
// ends. It may publish as often as its tools change. An error means "run me again", and so
// does an end before anything was published; what was published stays listed meanwhile.
type Source interface {
	Run(ctx context.Context, publish func([]*Tool)) error
}

// ProblemReporter is implemented by a [Source] that reports problems along with its tools.
// The catalog calls Problems from publish, so Problems must not block while publish runs.
type ProblemReporter interface {
	Problems() []Problem
}
