package toolyard

import "context"

// Source offers tools: Go code, a folder of TypeScript files or an MCP server.
//
// Run passes the complete set of tools to publish whenever it changes, and blocks until ctx
// ends. If Run returns an error, or returns before it has published anything, the catalog runs
// it again after a pause; the published tools stay listed meanwhile.
type Source interface {
	Run(ctx context.Context, publish func([]*Tool)) error
}

// ProblemReporter is implemented by a [Source] that reports problems along with its tools.
// The catalog calls Problems from publish, so Problems must not block while publish runs.
type ProblemReporter interface {
	Problems() []Problem
}
